"""``specverify demo``: the command, its loop, its models, and the law of the accepted length it checks against."""

import doctest
import functools
import itertools
import json
import math
import re
import runpy
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import specverify
from specverify import demo, lengths, ngram
from specverify.cli import main
from specverify.cli._terminal import MarkedText, Screen, printable, quoted

TEXT = b"the cat sat on the mat; the cat ate the rat. the end\n" * 3
PROMPT = b"the "


@pytest.fixture(scope="module")
def models():
    return ngram.NGram(TEXT, 5), ngram.NGram(TEXT[:60], 2)


@pytest.fixture(scope="module", autouse=True)
def models_of_the_command():
    """The command counts its models anew each time; they are always the same, so here they are counted once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngram, "target_and_draft", functools.cache(ngram.target_and_draft))
        yield


def decode(models, n_tokens=300, **options):
    options = {"k": 4, "greedy": False, "seed": 0} | options
    return list(demo.decode_rounds(*models, PROMPT, n_tokens, **options))


def run(capsys, *arguments):
    code = main(["demo", *arguments])
    out, err = capsys.readouterr()
    assert err == ""
    return code, out


@pytest.mark.parametrize(
    "options",
    [(), ("--seed", "5"), ("--k", "1"), ("--k", "12"), ("--k", "0"), ("--tokens", "1"), ("--greedy",)],
    ids=str,
)
def test_demo_prints_plain_text_and_succeeds(capsys, options):
    code, out = run(capsys, "--tokens", "150", *options)
    assert code == 0
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    for term in ("accepted", "residual", "bonus", "tested acceptance", "draft utilisation", "tokens per target pass"):
        assert term in out


def test_marks_stand_below_the_tokens_they_tell_apart(capsys):
    _, shown = run(capsys, "--tokens", "150")
    _, parsed = run(capsys, "--tokens", "150", "--json")
    figures = json.loads(parsed)["summary"]
    lines = shown.split("(marked in the line below it)\n\n")[1].split("\n\nAccepted tokens in a round")[0].split("\n")
    text, marks = "\n".join(lines[::2]), "".join(lines[1::2])
    assert text.startswith("def verify(self, ")
    count = Counter(marks)
    assert count["."] >= figures["accepted"]  # a tab or an escape has two marks or more
    assert count["^"] >= figures["residual"]
    assert count["+"] >= figures["bonus"]
    if "\\" not in text:
        assert (count["."], count["^"], count["+"]) == (figures["accepted"], figures["residual"], figures["bonus"])


def test_json_is_consistent(capsys):
    code, out = run(capsys, "--tokens", "200", "--k", "3", "--json")
    report = json.loads(out)
    rounds, summary = report["rounds"], report["summary"]
    assert code == 0
    assert report["passed"]
    assert report["identical_to_greedy"] is None
    assert sum(one["n_accepted"] + 1 for one in rounds) == summary["tokens"] == 200
    assert summary["accepted"] + summary["residual"] + summary["bonus"] == 200
    assert summary["residual"] + summary["bonus"] == summary["target_passes"] == len(rounds)
    assert summary["drafted"] == sum(len(one["drafted"]) for one in rounds)
    assert summary["tested_acceptance"] == summary["accepted"] / (summary["accepted"] + summary["residual"])
    assert summary["draft_utilisation"] == summary["accepted"] / summary["drafted"]
    assert summary["tokens_per_target_pass"] == 200 / len(rounds)
    assert sum(summary["lengths"]["observed"]) == len(rounds)
    assert sum(summary["lengths"]["expected"]) == pytest.approx(len(rounds), rel=1e-12)
    assert 0 < summary["verify_share"] < 1


def test_the_same_seed_gives_the_same_text_and_another_seed_another(capsys):
    def rounds(seed):
        _, out = run(capsys, "--tokens", "80", "--json", "--seed", seed)
        return [(one["drafted"], one["n_accepted"], one["next_token"]) for one in json.loads(out)["rounds"]]

    assert rounds("3") == rounds("3")
    assert rounds("3") != rounds("4")


def test_greedy_says_that_the_text_is_identical(capsys):
    code, out = run(capsys, "--greedy", "--tokens", "120")
    assert code == 0
    assert "PASS: the text equals plain greedy decoding" in out
    code, out = run(capsys, "--greedy", "--tokens", "120", "--json")
    assert json.loads(out)["identical_to_greedy"] is True


def test_a_greedy_verifier_that_accepts_everything_fails(capsys, monkeypatch):
    monkeypatch.setattr(demo, "verify_greedy", lambda target, tokens: (len(tokens), int(target[-1].argmax())))
    code, out = run(capsys, "--greedy", "--tokens", "120")
    assert code == 1
    assert "FAIL: the text DIFFERS FROM" in out.replace("\n", " ")
    code, out = run(capsys, "--greedy", "--tokens", "120", "--json")
    assert code == 1
    assert json.loads(out)["passed"] is False


def test_a_verifier_that_ignores_the_draft_rows_fails(capsys, monkeypatch):
    """A fixed seed, so no false alarm; the p-value is below 1e-30, beside a limit of 1e-6."""

    def ignoring(target, draft, tokens, uniforms):
        return specverify.verify_sampled(target, None, tokens, uniforms)

    monkeypatch.setattr(demo, "verify_sampled", ignoring)
    code, out = run(capsys)
    assert code == 1
    assert "FAIL: the accepted lengths DO NOT FOLLOW their law" in out.replace("\n", " ")


@pytest.mark.parametrize(("option", "value"), [("--k", "-1"), ("--tokens", "0"), ("--tokens", "x"), ("--seed", "-2")])
def test_a_wrong_option_is_named(capsys, option, value):
    with pytest.raises(SystemExit) as stop:
        main(["demo", option, value])
    assert stop.value.code == 2
    assert re.search(
        rf"argument {option}: expected a whole number of at least \d, got '{value}'", capsys.readouterr().err
    )


def test_version_names_the_variants(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    out = " ".join(capsys.readouterr().out.split())
    assert stop.value.code == 0
    assert out.startswith(f"specverify {specverify.__version__} ({specverify.active_isa()} in use; available: ")
    assert all(isa in out for isa in specverify.available_isas())


class Stream:
    """A stream that keeps what is written and says whether it is a terminal."""

    def __init__(self, terminal, encoding="utf-8"):
        self.terminal, self.encoding, self.text = terminal, encoding, ""

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_colour_is_for_terminals_that_want_it(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Screen(Stream(terminal=True)).colour
    assert not Screen(Stream(terminal=False)).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Screen(Stream(terminal=True)).colour
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not Screen(Stream(terminal=True)).colour


def test_each_kind_of_token_has_its_own_colour(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Stream(terminal=True)
    text = MarkedText(Screen(stream))
    for token, style in (("a", "accepted"), ("b", "residual"), ("\n", "bonus")):
        text.add(token, style)
    assert stream.text == "\x1b[32ma\x1b[0m\x1b[30;43mb\x1b[0m\x1b[30;46m \x1b[0m\n"


def test_marks_are_as_wide_as_what_is_shown():
    stream = Stream(terminal=False)
    text = MarkedText(Screen(stream))
    for token, style in (("d", "prompt"), ("a", "accepted"), ("\\x00", "residual"), ("\n", "bonus"), ("c", "accepted")):
        text.add(token, style)
    text.end_line()
    text.end_line()
    assert stream.text == "da\\x00\n .^^^^+\nc\n.\n"


def test_marks_count_cells_not_characters():
    """A wide character takes two cells, an accent that stands alone none."""
    stream = Stream(terminal=False)
    text = MarkedText(Screen(stream))
    for token, style in (("日本", "accepted"), ("e\u0301", "residual"), ("x", "accepted")):
        text.add(token, style)
    text.end_line()
    assert stream.text == "日本e\u0301x\n....^.\n"


def test_long_lines_are_broken():
    stream = Stream(terminal=False)
    text = MarkedText(Screen(stream))
    for _ in range(100):
        text.add("a", "accepted")
    text.end_line()
    assert [len(line) for line in stream.text.splitlines()] == [80, 80, 20, 20]


def test_bars_are_drawn_in_what_the_stream_can_encode():
    assert Screen(Stream(terminal=False)).bar(2, 3, 4, 8) == "████  │"
    assert Screen(Stream(terminal=False, encoding="ascii")).bar(3, 2, 4, 8) == "####|#"
    assert Screen(Stream(terminal=False)).bar(0, None, 4, 8) == ""


def test_bytes_are_shown_as_printable_ascii():
    shown = [printable(byte) for byte in range(256)]
    assert len(set(shown)) == 256
    assert all(text.isascii() and (text.isprintable() or text == "\n") for text in shown)
    assert (printable(9), printable(0), printable(0xC3)) == ("\\t", "\\x00", "\\xc3")
    assert (quoted(10), quoted(65)) == ("'\\n'", "'A'")


@pytest.mark.parametrize("k", [0, 1, 4, 9])
@pytest.mark.parametrize("n_tokens", [1, 2, 50])
@pytest.mark.parametrize("greedy", [False, True])
def test_exactly_so_many_tokens_are_emitted(models, k, n_tokens, greedy):
    rounds = decode(models, n_tokens, k=k, greedy=greedy)
    assert sum(len(one.emitted) for one in rounds) == n_tokens
    for one in rounds:
        assert one.n_accepted <= len(one.drafted) <= k
        assert one.emitted == (*one.drafted[: one.n_accepted], one.next_token)
        assert one.rejected == (one.n_accepted < len(one.drafted))
        assert 0 < one.verify_seconds < one.seconds


@pytest.mark.parametrize("k", [0, 1, 4, 9])
def test_greedy_decoding_is_the_target_s_own(models, k):
    emitted = [token for one in decode(models, 90, k=k, greedy=True) for token in one.emitted]
    assert emitted == demo.decode_greedily(models[0], PROMPT, 90)


def test_identical_models_accept_everything(models):
    target = models[0]
    rounds = decode((target, target), 100, k=4)
    assert [one.n_accepted for one in rounds] == [4] * 20
    assert demo.summarize(rounds).tokens_per_target_pass == 5


def test_without_a_draft_there_are_no_rates(models):
    summary = demo.summarize(decode(models, 10, k=0))
    assert (summary.tested_acceptance, summary.draft_utilisation) == (None, None)
    assert (summary.bonus, summary.target_passes, summary.tokens_per_target_pass) == (10, 10, 1.0)


@pytest.mark.statistical
def test_decoded_lengths_follow_their_law(models):
    """Null law: asymptotic chi-square; one fixed seed, so no false alarm at all; some 600 rounds."""
    check = demo.summarize(decode(models, 2000)).lengths
    assert check.degrees >= 3
    assert check.passed


def test_law_over_all_drafts_is_the_mean_of_the_laws_given_one():
    """Enumerates all 27 drafts of 3 tokens. Tolerance: a few dozen roundings of numbers below 1."""
    rng = np.random.default_rng(7)
    target, draft = rng.random((4, 3)), rng.random((3, 3))
    weights = draft / draft.sum(axis=1, keepdims=True)
    mean = np.zeros(4)
    for tokens in itertools.product(range(3), repeat=3):
        probability = math.prod(weights[i, token] for i, token in enumerate(tokens))
        mean += probability * lengths.law_given_draft(lengths.acceptance_probabilities(target, draft, tokens))
    np.testing.assert_allclose(mean, lengths.law_of_rows(target, draft), rtol=0, atol=1e-14)


def test_law_of_equal_rates_is_geometric():
    law = lengths.law_of_rows([[2, 1, 1]] * 5, [[1, 1, 0]] * 4)  # acceptance rate 3/4
    a = Fraction(3, 4)
    np.testing.assert_allclose(law, [float(a**i * (1 - a)) for i in range(4)] + [float(a**4)], rtol=1e-15)


def test_acceptance_of_edge_cases():
    accepted = lengths.acceptance_probabilities
    assert accepted([[0.5, 0.5, 0.0], [1, 1, 2]], [[0.0, 0.5, 0.5]], [0]).tolist() == [1.0]  # draft 0, target positive
    assert accepted([[0.0, 1.0]], [[0.0, 1.0]], [0]).tolist() == [0.0]  # both 0
    assert accepted([[0.0, 1.0]], [[1.0, 1.0]], [0]).tolist() == [0.0]
    assert accepted([[1, 3], [1, 1]], None, [1]).tolist() == [0.75]
    assert accepted([[1.0, 1.0]], np.empty((0, 2)), []).tolist() == []
    assert lengths.law_given_draft([]).tolist() == lengths.law_of_rows([[1.0, 1.0]], []).tolist() == [1.0]


def test_counts_of_rounds_of_different_lengths_are_compared():
    laws = [[0.5, 0.5]] * 40 + [[1.0]] * 7 + [[0.25, 0.25, 0.5]] * 40
    check = lengths.check_counts([0, 1] * 20 + [0] * 7 + [0, 1, 2, 2] * 10, laws)
    assert check.observed == (37, 30, 20)
    assert check.expected == (37.0, 30.0, 20.0)
    assert (check.chi_square, check.degrees, check.p_value, check.passed) == (pytest.approx(0, abs=1e-12), 2, 1.0, True)


def test_one_law_for_all_rounds_gives_pearson_s_statistic():
    special = pytest.importorskip("scipy.special")
    observed, law = [30, 25, 45], [0.25, 0.25, 0.5]
    check = lengths.check_counts(np.repeat([0, 1, 2], observed), [law] * 100)
    pearson = sum((seen - expected) ** 2 / expected for seen, expected in zip(observed, [25, 25, 50], strict=True))
    assert check.chi_square == pytest.approx(pearson, rel=1e-12)
    assert check.p_value == pytest.approx(special.chdtrc(2, pearson), rel=1e-12)


def test_one_uniform_for_all_positions_is_found_in_the_lengths():
    """Every first token passes at the right rate, but the lengths are 0 or K: 1000 rounds, p-value below 1e-100."""
    passes = np.random.default_rng(1).random(1000) < 0.7
    check = lengths.check_counts(4 * passes, [lengths.law_given_draft([0.7] * 4)] * 1000)
    assert check.p_value < 1e-100
    assert not check.passed


def test_impossible_counts_fail_and_too_few_pass():
    certain = [[0.0, 1.0]] * 20
    assert lengths.check_counts([1] * 20, certain).passed
    never = [[0.5, 0.5, 0.0]] * 20 + [[0.0, 0.0, 1.0]] * 20
    assert not lengths.check_counts([0, 1] * 9 + [2] * 22, never).passed
    few = lengths.check_counts([1, 1], [[0.5, 0.5]] * 2)
    assert (few.degrees, few.p_value) == (0, 1.0)
    assert lengths.check_counts([], []).observed == (0,)


def test_chi_square_tail_is_scipy_s():
    special = pytest.importorskip("scipy.special")
    for degrees in range(1, 40):
        for x in (1e-3, 0.7, degrees, 3.0 * degrees, 120.0):
            assert lengths.chi_square_tail(x, degrees) == pytest.approx(special.chdtrc(degrees, x), rel=1e-11)


def slow_row(text, order, prefix):
    """Witten-Bell, counted directly: every window of `order` bytes, and the beginnings of the same windows."""
    row = [Fraction(1, 256)] * 256
    for n in range(min(order - 1, len(prefix)) + 1):
        context = bytes(prefix[len(prefix) - n :])
        behind = Counter(text[i + n] for i in range(len(text) - order + 1) if text[i : i + n] == context)
        if not behind:
            break
        total, types = sum(behind.values()), len(behind)
        row = [(behind[x] + types * shorter) / Fraction(total + types) for x, shorter in enumerate(row)]
    return row


@pytest.mark.parametrize("order", [1, 2, 3, 7])
@pytest.mark.parametrize("prefix", [b"", b"t", b"the c", b"xyz the ", b"\xff" * 7, b"\x00", b"the cat sat"])
def test_rows_equal_a_direct_count(order, prefix):
    text = TEXT + b"\xff" * 9 + b"\x00\x00\xff"
    row = ngram.NGram(text, order).next_dist(prefix)
    assert row.dtype == np.float32
    # One rounding to float32, beside which those in float64 are nothing.
    np.testing.assert_allclose(row, [float(x) for x in slow_row(text, order, prefix)], rtol=2.0**-23)


def test_rows_are_probabilities_and_the_prefix_may_be_any_sequence(models):
    for model in (*models, ngram.Unrepeating(models[0])):
        for prefix in (b"", b"the cat", b"\x80\x81", TEXT):
            row = model.next_dist(prefix)
            assert row.shape == (256,)
            assert (row > 0).all()
            assert abs(float(row.sum(dtype=np.float64)) - 1) < 256 * 2.0**-24
            np.testing.assert_array_equal(row, model.next_dist(list(prefix)))


def test_repetition_costs_probability(models):
    model = models[0]
    once, fresh = b"the cat sat and the cat s", b"the cat s"
    damped, plain = ngram.Unrepeating(model).next_dist(once), model.next_dist(once)
    a = ord("a")
    assert damped[a] / (1 - damped[a]) == pytest.approx(0.1 * plain[a] / (1 - plain[a]), rel=1e-4)
    np.testing.assert_allclose(ngram.Unrepeating(model).next_dist(fresh), model.next_dist(fresh), rtol=1e-6)


@pytest.mark.parametrize(("text", "order", "message"), [(b"abc", 0, "order"), (b"abc", 8, "order"), (b"ab", 3, "text")])
def test_models_that_cannot_be_counted_are_refused(text, order, message):
    with pytest.raises(ValueError, match=message):
        ngram.NGram(text, order)


def test_local_text_is_long_enough_and_stable():
    text = ngram.local_text()
    assert len(text) == 1_000_000
    assert text == ngram.local_text()
    assert ngram.local_text(1000) == text[:1000]
    target, draft = ngram.target_and_draft()
    assert target.model.order > draft.model.order
    assert target.model.n_bytes > draft.model.n_bytes


@pytest.mark.parametrize("module", [lengths, ngram], ids=lambda module: module.__name__)
def test_examples_give_what_is_shown(module):
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed


def test_python_m_specverify_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["specverify", "demo", "--tokens", "3"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("specverify", run_name="__main__")
    assert stop.value.code == 0
    assert "The text, 3 tokens" in capsys.readouterr().out
