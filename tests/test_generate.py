"""``specverify generate``: what it shows, counts and compares, with models of bytes that say a given text."""

import argparse
import io
import json
import sys

import pytest
from toy_models import PROMPT, SCRIPT, TEXT, Bytes

from specverify import Sampling, adapters, cli, cost, decoder
from specverify.adapters import _extras, comparison, timing
from specverify.cli import generate
from specverify.cli._shown import ShownText, summarize
from specverify.cli._terminal import Screen
from specverify.draft_length import AdaptiveDraftLength
from specverify.generation import Round, report_of


@pytest.fixture
def models(monkeypatch):
    """The models by their paths, as ``adapters.load`` would give them."""
    known = {"target": Bytes(), "draft": Bytes("draft", wrong=(2, 11))}

    def load(path, *, n_ctx, n_threads):
        if path not in known:
            raise FileNotFoundError(f"path: expected a model, got {path}, which does not exist")
        known[path].context_length = min(n_ctx, known[path].context_length)
        return known[path]

    monkeypatch.setattr(adapters, "load", load)
    return known


def call(capsys, *arguments, prompt=PROMPT):
    code = cli.main(["generate", "--target", "target", *(("--prompt", prompt) if prompt else ()), *arguments])
    return code, *capsys.readouterr()


def as_json(capsys, *arguments):
    code, out, _ = call(capsys, *arguments, "--json")
    return code, json.loads(out)


def squeezed(text):
    return " ".join(text.split())


@pytest.mark.parametrize("draft", ["prompt-lookup", "ngram", "none", "draft"])
@pytest.mark.parametrize("k", ["0", "3", "auto"])
def test_the_text_is_the_target_s_with_any_draft(draft, k, models, capsys):
    code, found = as_json(capsys, "--draft", draft, "--k", k)
    assert code == 0
    assert found["text"] == TEXT
    assert found["tokens"] == SCRIPT[len(PROMPT.encode()) :]
    assert found["finish_reason"] == "end"
    if draft == "none" or k == "0":
        assert sum(found["drafted"]) == 0
    assert models["target"].closed


def test_figures_are_those_of_the_rounds(models, capsys):
    _, found = as_json(capsys, "--draft", "draft", "--k", "4", "--max-new", "12")
    # The draft is wrong at places 2 and 11: rounds emit 0 1 2 | 3 ... 7 | 8 9 10 11, the last one with the limit's k.
    assert (found["drafted"], found["accepted"]) == ([4, 4, 3], [2, 4, 3])
    assert found["finish_reason"] == "length"
    assert found["tested_acceptance"] == 9 / 10
    assert found["draft_utilisation"] == 9 / 11
    assert found["tokens_per_target_pass"] == 4
    assert found["tokens_per_second"] == 12 / found["seconds"]
    assert found["verify_share"] == found["verify_seconds"] / found["seconds"]
    parts = found["draft_seconds"] + found["target_seconds"] + found["verify_seconds"]
    assert 0 < parts <= found["seconds"]
    assert "plain" not in found


def test_marks_tell_the_kinds_apart_and_characters_come_whole(models, capsys):
    code, out, _ = call(capsys, "--draft", "draft", "--k", "4")
    assert code == 0
    lines = out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(PROMPT))
    assert lines[at] == "Say: né 漢字, né 漢字"
    # Bytes: n a c3 a9 ...: a mark for each character, that of the byte that completes it. Place 2 is the end of the é.
    marks = lines[at + 1]
    assert marks[: len(PROMPT)].strip() == ""
    assert marks[len(PROMPT) :][:2] == ".^"
    assert set(marks[len(PROMPT) :]) == {".", "^", "+"}
    assert lines[at + 2].startswith("\\tdone\\x1b[2J.")
    assert "\x1b" not in out


def test_where_nothing_was_drafted_tokens_have_no_mark(models, capsys):
    _, out, _ = call(capsys, "--draft", "none")
    lines = out.splitlines()
    assert "without a mark: the target's, where nothing was drafted" in lines
    at = next(i for i, line in enumerate(lines) if line.startswith(PROMPT))
    assert lines[at + 1] == ""
    # A round that drafts nothing, and one whose draft of two is accepted.
    screen = Screen(sys.stdout)
    shown = ShownText(screen, models["target"], [], "", chat=False)
    for tokens, n_drafted in ((b"a", 0), (b"bcd", 2), (b"e", 1)):
        shown.add(Round(tuple(tokens), n_drafted, len(tokens) - 1, 0.0, 0.0, 0.0, None))
    shown.end()
    assert capsys.readouterr().out.splitlines()[-2:] == ["abcde", " ..+^"]


def test_the_summary_says_what_json_says(models, capsys):
    _, found = as_json(capsys, "--draft", "draft", "--k", "4")
    _, out, _ = call(capsys, "--draft", "draft", "--k", "4")
    out = squeezed(out)
    assert f"{len(found['tokens'])} tokens in {found['rounds']} rounds, ended by an end token" in out
    assert f"tokens per target pass {found['tokens_per_target_pass']:.3f}" in out
    assert f"tested acceptance {found['tested_acceptance']:.3f}" in out
    assert f"draft utilisation {found['draft_utilisation']:.3f}" in out
    assert "speed-up" not in out


def test_the_summary_says_what_took_which_share(capsys):
    report = report_of([Round((1, 2), 2, 1, 1.0, 4.0, 0.5, "stop")], 8.0)
    summarize(Screen(sys.stdout), report, None)
    out = squeezed(capsys.readouterr().out)
    assert "draft 1.000 s, 12.5% target 4.000 s, 50.0% (reading the prompt included) verification 0.500 s, 6.2%" in out
    assert "rest 2.500 s, 31.2% (the loop itself" in out
    assert "ended by a stop text" in out


def test_nothing_drafted_has_no_rates(models, capsys):
    _, out, _ = call(capsys, "--draft", "none")
    assert "tested acceptance - " in squeezed(out)


def test_sampled_texts_repeat_with_their_seed(models, capsys):
    options = ("--draft", "draft", "--temperature", "30", "--top-k", "50", "--max-new", "20")
    texts = [as_json(capsys, *options, "--seed", seed)[1]["tokens"] for seed in ("1", "1", "2")]
    assert texts[0] == texts[1] != texts[2]
    _, found = as_json(capsys, *options, "--rule", "block", "--min-p", "1", "--compare")
    assert found["tokens"] == found["plain"]["tokens"][: len(found["tokens"])]  # min-p 1 leaves the most probable one
    assert found["identical"] is None


def test_sampled_texts_are_not_compared_and_that_is_said(models, capsys):
    code, out, _ = call(capsys, "--draft", "draft", "--temperature", "2", "--compare")
    assert code == 0
    assert "two draws from the same law, and are not compared; the speed-up is of different texts" in squeezed(out)
    assert "PASS" not in out


def test_lists_of_numbers_have_a_line_each(models, capsys):
    _, out, _ = call(capsys, "--draft", "draft", "--k", "4", "--stop", "[1,\n 2]", "--cost", "--json")
    found = json.loads(out)
    for name in ("drafted", "accepted", "tokens", "prompt_tokens"):
        assert len(found[name]) > 1
        assert f'"{name}": {found[name]}' in out
    assert found["stop"] == ["[1,\n 2]"]


@pytest.mark.parametrize("draft", ["none", "prompt-lookup", "draft"])
@pytest.mark.parametrize(
    ("stops", "text"),
    [
        (("字",), "né 漢字"),
        (("Say", "é 漢"), "né 漢"),  # the prompt does not count; several tokens
        (("done", "字\ufffd", "n"), "n"),
        (("J.",), TEXT),  # the end token comes after it
        (("nowhere",), TEXT),
    ],
)
def test_a_stop_text_ends_the_text_and_stays_in_it(draft, stops, text, models, capsys):
    arguments = [part for stop in stops for part in ("--stop", stop)]
    code, found = as_json(capsys, "--draft", draft, "--compare", *arguments)
    assert code == 0
    assert found["text"] == text
    assert found["plain"]["tokens"] == found["tokens"]
    assert found["finish_reason"] == ("end" if stops == ("nowhere",) else "stop")
    assert found["identical"] is True


def test_the_system_s_message_comes_before_the_user_s(models, capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(models["target"], "encode_chat", lambda messages: (seen.append(messages), [83, 97])[1])
    assert as_json(capsys, "--chat", "--system", "Be brief.", "--max-new", "2")[0] == 0
    assert seen == [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}]]


def test_start_up_is_no_part_of_a_text_s_time(models, capsys, monkeypatch):
    """A clock that only start-up moves: the first pass of either kind, the first verification, the end tokens."""
    clock, done = [0.0], set()

    def once(name, function):
        def slow(*arguments, **options):
            clock[0] += name not in done
            done.add(name)
            return function(*arguments, **options)

        return slow

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(models["target"], "_feed", once("pass", models["target"]._feed))
    monkeypatch.setattr("specverify.decoder.verify_greedy", once("verify", decoder.verify_greedy))
    monkeypatch.setattr(Bytes, "end_tokens", property(once("ends", lambda self: (self.end,))))
    _, found = as_json(capsys, "--draft", "prompt-lookup", "--compare")
    assert done == {"pass", "verify", "ends"}
    assert found["seconds"] == found["plain"]["seconds"] == 0


def test_options_reach_the_decoder(models, capsys, monkeypatch):
    seen = []

    class Recording(generate.SpeculativeDecoder):
        def __init__(self, draft, target, k, **options):
            if hasattr(k, "length"):  # not the ones that warm up
                seen.append((k.length, options["rule"], options["sampling"]))
            super().__init__(draft, target, k, **options)

    monkeypatch.setattr(generate, "SpeculativeDecoder", Recording)
    call(
        capsys,
        "--k",
        "3",
        "--rule",
        "block",
        "--temperature",
        "0.5",
        "--top-k",
        "5",
        "--top-p",
        "0.5",
        "--min-p",
        "0.2",
    )
    call(capsys, "--k", "auto", "--top-k", "5")
    (fixed, rule, sampling), (adaptive, other_rule, greedy) = seen
    assert (fixed.k, rule, sampling) == (3, "block", Sampling(0.5, 5, 0.5, 0.2))
    assert isinstance(adaptive, AdaptiveDraftLength)
    assert (other_rule, greedy) == ("token", None)


def test_a_text_that_ends_within_a_character_shows_that(models, capsys):
    _, out, _ = call(capsys, "--draft", "none", "--max-new", "2")
    assert f"{PROMPT}n\N{REPLACEMENT CHARACTER}" in out


def test_a_chat_is_put_by_the_model_s_template(models, capsys):
    _, found = as_json(capsys, "--chat")
    assert found["text"] == TEXT
    _, out, _ = call(capsys, "--chat")
    assert PROMPT.strip() in out


@pytest.mark.parametrize("source", ["file", "stdin"])
def test_the_prompt_may_come_from_elsewhere(source, models, capsys, monkeypatch, tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text(PROMPT + "né", encoding="utf-8")
    if source == "stdin":
        with path.open(encoding="utf-8") as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            code, out, _ = call(capsys, "--json", prompt=None)
    else:
        code, out, _ = call(capsys, "--prompt-file", str(path), "--json", prompt=None)
    assert code == 0
    assert json.loads(out)["prompt_tokens"] == list((PROMPT + "né").encode())


def test_a_text_like_plain_decoding_passes(models, capsys):
    code, found = as_json(capsys, "--draft", "draft", "--compare")
    assert code == 0
    assert found["identical"] is True
    assert models["target"].begun == 4  # both ways of decoding warmed up, and the prompt was read for both texts
    assert found["plain"]["tokens"] == found["tokens"]
    assert found["plain"]["rounds"] == len(found["tokens"])
    assert found["speedup"] == found["tokens_per_second"] / found["plain"]["tokens_per_second"]
    code, out, _ = call(capsys, "--draft", "draft", "--compare")
    assert code == 0
    assert "PASS: the text equals plain decoding" in out
    assert "speed-up" in out


def test_a_runtime_that_rounds_otherwise_in_a_batch_is_found_out(models, capsys):
    models["target"] = Bytes(flips=(6,))
    code, found = as_json(capsys, "--draft", "draft", "--compare")
    assert code == 1
    assert (found["identical"], found["first_difference"]) == (False, 6)
    expected = {
        "place": 6,
        "batched_token": ord("?"),
        "single_token": SCRIPT[len(PROMPT) + 6],
        "largest_difference": 21,
    }
    assert found["batch_effect"] == expected
    code, out, _ = call(capsys, "--draft", "draft", "--compare")
    assert code == 1
    assert f"and so do their most probable tokens, {ord('?')} and {expected['single_token']}" in squeezed(out)


def test_a_loop_that_is_wrong_is_found_out(models, capsys, monkeypatch):
    """A verifier that accepts what the draft says."""

    def eager(self, target_rows, rows, tokens, proposed):
        return len(proposed), int(target_rows[-1].argmax())

    monkeypatch.setattr("specverify.decoder._Run._verify", eager)
    code, found = as_json(capsys, "--draft", "draft", "--compare")
    assert code == 1
    assert found["first_difference"] == 2
    assert found["batch_effect"]["batched_token"] == found["batch_effect"]["single_token"]
    _, out, _ = call(capsys, "--draft", "draft", "--compare")
    assert "fault of the draft/verify loop" in squeezed(out)


def test_the_effect_of_a_batch_is_looked_for_at_any_place_of_a_text():
    target = Bytes(flips=(3, 5))
    shapes = [((1, 2, 3), 4, 2), ((4,), 2, 0), ((5, 6), 2, 1), ((7,), 0, 0)]
    rounds = [Round(*shape, 0.0, 0.0, 0.0, None) for shape in shapes]
    prompt = list(PROMPT.encode())
    found = [comparison.batch_effect(target, prompt, rounds, place) for place in range(7)]
    assert [effect.explains for effect in found] == [False, False, False, True, False, True, False]
    for place in (-1, 7):
        with pytest.raises(ValueError, match=f"place: expected 0 to 6, a token of the text, got {place}"):
            comparison.batch_effect(target, prompt, rounds, place)


@pytest.mark.parametrize("draft", ["prompt-lookup", "ngram", "draft"])
@pytest.mark.parametrize("options", [(), ("--k", "auto"), ("--temperature", "0.1"), ("--rule", "block", "--compare")])
def test_the_steps_of_these_models_are_priced(draft, options, models, capsys, tmp_path):
    code, found = as_json(capsys, "--draft", draft, *options, "--cost")
    assert code == 0
    assert found["text"] == TEXT
    times, acceptance, proposed = cost.from_json(found)
    longest = 8 if "auto" in options else 4
    assert [n for n, _ in times.target] == list(range(1, longest + 2))
    assert (times.catch_up is not None) == (draft == "draft")
    assert acceptance == cost.Acceptance.from_rounds(found["drafted"], found["accepted"])
    assert len(proposed.rates) >= acceptance.max_k  # of what was asked for, some was drafted
    assert found["cost"]["k"] == cost.recommend(times, acceptance, acceptance.max_k, proposed).k
    file = tmp_path / "record.json"
    file.write_text(json.dumps(found), encoding="utf-8")
    assert cli.main(["cost", "--from", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found["cost"]


def test_the_table_of_costs_is_that_of_the_command_cost(models, capsys, tmp_path, monkeypatch):
    """With given times, both print the same lines."""
    times = cost.StepTimes(tuple((n, 0.01 + 0.001 * n) for n in range(1, 6)), draft_token=0.002)
    monkeypatch.setattr(timing, "step_times", lambda *_, **__: times)
    _, found = as_json(capsys, "--draft", "draft", "--cost")
    file = tmp_path / "record.json"
    file.write_text(json.dumps(found), encoding="utf-8")
    assert cli.main(["cost", "--from", str(file)]) == 0
    table = capsys.readouterr().out
    _, out, _ = call(capsys, "--draft", "draft", "--cost")
    assert out.endswith("\n" + table)
    assert "Speculate with k = " in table


def test_what_a_draft_proposes_is_told_by_what_it_was_asked_for(models, capsys):
    _, found = as_json(capsys, "--cost", "--k", "3")  # of 128 tokens the text has few, so each round asks for 3
    expected = cost.ProposedLengths.from_rounds([3] * found["rounds"], found["drafted"])
    assert cost.from_json(found)[2] == expected
    assert 0 < expected.at_least(1) < 1  # a lookup finds nothing in some rounds


def test_where_nothing_was_drafted_the_ceiling_is_said(models, capsys, monkeypatch):
    times = cost.StepTimes(((1, 0.01), (2, 0.05), (3, 0.06)))
    monkeypatch.setattr(timing, "step_times", lambda *_, **__: times)
    code, out, _ = call(capsys, "--k", "auto", "--draft", "draft", "--cost")
    assert code == 0
    out = squeezed(out)
    assert "auto asked for no draft: none was predicted to pay, or a rejected one would have lost more" in out
    assert "nothing is known of acceptance. If all were accepted: at most 0.50x plain decoding, with k = 2" in out


def test_an_adaptive_length_says_what_it_chose(models, capsys, monkeypatch):
    """Passes over several tokens cost nothing more, so that all that fits is asked for, and this text is short."""
    times = cost.StepTimes(tuple((n, 0.01) for n in range(1, 10)))
    monkeypatch.setattr(timing, "step_times", lambda *_, **__: times)
    _, out, _ = call(capsys, "--k", "auto", "--draft", "draft", "--cost")
    n = len(as_json(capsys, "--k", "auto", "--draft", "draft", "--cost")[1]["drafted"])
    assert f"auto asked for a draft in {n} of {n} rounds, k = 8; in {n} it was given one." in squeezed(out)
    assert "auto asked" not in call(capsys, "--draft", "draft")[1]


def test_an_adaptive_length_knows_beforehand_what_the_draft_costs(models, capsys, monkeypatch):
    """Passes over one token of a clock that only the models move: 3 s the draft, 4 s the target."""
    clock, seen = [0.0], []
    monkeypatch.setattr(timing.draft_cost, "__defaults__", (lambda: clock[0],))
    for name, seconds in (("target", 4.0), ("draft", 3.0)):
        feed = models[name]._feed

        def slow(tokens, n_rows, feed=feed, seconds=seconds):
            clock[0] += seconds
            return feed(tokens, n_rows)

        monkeypatch.setattr(models[name], "_feed", slow)

    class Recording(AdaptiveDraftLength):
        def __init__(self, max_k, times=None, **options):
            seen.append((times, options))
            super().__init__(max_k, times, **options)

    monkeypatch.setattr(generate, "AdaptiveDraftLength", Recording)
    for draft in ("draft", "prompt-lookup"):
        assert as_json(capsys, "--k", "auto", "--draft", draft)[1]["text"] == TEXT
    assert seen == [(None, {"draft_cost": 0.75}), (None, {"draft_cost": 0.0})]
    _, found = as_json(capsys, "--k", "auto", "--draft", "draft", "--cost")
    assert seen[2:] == [(cost.from_json(found)[0], {})]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--draft", "none"), "--cost: expected a draft, and --k of at least 1, got --draft none --k 4"),
        (("--k", "0"), "--cost: expected a draft, and --k of at least 1, got --draft prompt-lookup --k 0"),
        (("--prompt", "S"), "--cost: expected a prompt of at least 2 tokens, got 1"),
        (
            ("--context", "10", "--max-new", "2", "--k", "6"),
            "--cost: expected room for 6 drafted tokens after a prompt",
        ),
    ],
)
def test_what_cannot_be_priced_is_said_before_anything_is_generated(arguments, message, models, capsys):
    code, out, err = call(capsys, "--cost", *arguments, prompt=None if "--prompt" in arguments else PROMPT)
    assert (code, out) == (2, "")
    assert message in err
    assert models["target"].begun == 0


def test_shares_are_of_the_whole():
    rounds = [Round((1, 2), 2, 1, 1.0, 4.0, 0.5, None), Round((3,), 0, 0, 0.0, 2.0, 0.5, "length")]
    assert report_of(rounds, 10.0).shares == (0.1, 0.6, 0.1)
    assert report_of([], 0.0).shares is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--draft", "nowhere"),
            "--draft: expected prompt-lookup, ngram, none, a .gguf file or a folder on this machine (nothing is "
            "downloaded), got nowhere, which does not exist\n",
        ),
        (("--draft", "Prompt_lookup"), "got Prompt_lookup, which does not exist; prompt-lookup?\n"),
        (("--draft", "promptlookup"), "got promptlookup, which does not exist; prompt-lookup?\n"),
        (
            ("--target", "org/model"),
            "--target: expected a .gguf file or a folder on this machine (nothing is downloaded), got org/model, which",
        ),
        (("--system", "Be brief."), "--system: expected together with --chat"),
        (
            ("--max-new", "252"),
            "--max-new: expected at most 251 after a prompt of 5 tokens, since the context of target",
        ),
        (("--context", "20", "--max-new", "16"), "--max-new: expected at most 15 after a prompt of 5 tokens"),
        (("--prompt-file", "missing.txt"), "--prompt-file: expected a text in UTF-8, got missing.txt: No such file"),
        (("--temperature", "1", "--top-p", "0"), "top_p: expected a number in (0, 1], got 0.0"),
    ],
)
def test_what_is_wrong_is_one_line(arguments, message, models, capsys):
    code, out, err = call(capsys, *arguments, prompt=None if "--prompt-file" in arguments else PROMPT)
    assert code == 2
    assert out == ""
    assert err.startswith("specverify: ")
    assert len(err.splitlines()) == 1
    assert message in err


def test_an_empty_prompt_is_refused(models, capsys, monkeypatch, tmp_path):
    (tmp_path / "empty").touch()
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    for arguments in (("--prompt-file", str(tmp_path / "empty")), ("--prompt", ""), ()):
        code, _, err = call(capsys, *arguments, prompt=None)
        assert code == 2
        assert "expected --prompt, --prompt-file or text on the standard input, got none" in err


def test_a_prompt_file_that_is_no_text_names_its_option(models, capsys, tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff")
    code, _, err = call(capsys, "--prompt-file", str(tmp_path / "bytes"), prompt=None)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "--prompt-file: expected a text in UTF-8, got " in err


def test_what_is_wrong_with_a_model_s_path_is_said_of_its_option(models, capsys, monkeypatch, tmp_path):
    path = tmp_path / "model.bin"
    path.touch()

    def load(*_, **__):
        raise ValueError("path: expected a folder")

    monkeypatch.setattr(adapters, "load", load)
    assert call(capsys, "--target", str(path))[2] == "specverify: --target: expected a folder\n"
    assert call(capsys, "--draft", str(path))[2] == "specverify: --draft: expected a folder\n"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--top-k", "5"), "--top-k"),
        (("--top-p", "0.9", "--min-p", "0.1"), "--top-p, --min-p"),
        (("--top-k", "5", "--temperature", "1"), None),
        ((), None),
    ],
)
def test_filters_without_effect_are_said_beside_the_results(options, named, models, capsys):
    code, out, err = call(capsys, *options, "--json")
    assert code == 0
    assert json.loads(out)["text"]
    warning = f"specverify: warning: {named}: no effect at --temperature 0, which takes the most probable token\n"
    assert err == ("" if named is None else warning)


def test_another_vocabulary_is_refused(models, capsys):
    models["draft"] = Bytes("draft", vocab_size=300)
    code, _, err = call(capsys, "--draft", "draft")
    assert code == 2
    assert "vocabulary of 256 tokens, got 300 (target target and draft draft)" in err
    assert models["target"].closed
    assert models["draft"].closed


def test_a_cache_that_cannot_be_rolled_back_is_said(models, capsys):
    models["target"] = Bytes(refuses=True)
    code, _, err = call(capsys, "--draft", "draft")
    assert code == 2
    assert "cannot be rolled back" in err
    assert models["target"].closed


@pytest.mark.parametrize("where", ["encode", "load", "_feed"])
def test_a_failure_of_a_runtime_is_one_line(where, models, capsys, monkeypatch):
    def failing(*_, **__):
        raise RuntimeError("the runtime\nsays no")

    monkeypatch.setattr(adapters if where == "load" else models["target"], where, failing)
    code, out, err = call(capsys, "--json")
    assert (code, out, err) == (2, "", "specverify: the runtime says no\n")
    assert models["target"].closed == (where != "load")


def test_a_reader_that_has_seen_enough_is_no_failure_of_this_command(models, monkeypatch):
    def broken(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr(generate, "summarize", broken)
    parser = argparse.ArgumentParser()
    generate.add(parser.add_subparsers())
    with pytest.raises(BrokenPipeError):
        generate.run(parser.parse_args(["generate", "--target", "target", "--prompt", PROMPT]))
    assert models["target"].closed


def test_a_stream_without_a_character_shows_an_escape_and_its_marks_below(models, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), "ascii", newline="\n")
    monkeypatch.setattr(sys, "stdout", stream)
    assert cli.main(["generate", "--target", "target", "--draft", "draft", "--prompt", PROMPT]) == 0
    lines = stream.buffer.getvalue().decode("ascii").splitlines()
    at = next(i for i, line in enumerate(lines) if r"n\xe9 \u6f22" in line)
    assert len(lines[at + 1]) == len(lines[at]) + 1  # the line end has a mark as well


def test_a_closed_standard_input_holds_no_prompt(models, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    code, out, err = call(capsys, prompt=None)
    assert (code, out) == (2, "")
    assert err == "specverify: a prompt: expected --prompt, --prompt-file or text on the standard input, got none\n"


def test_a_standard_input_that_cannot_be_read_is_named(models, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), "utf-8"))
    code, _, err = call(capsys, prompt=None)
    assert (code, len(err.splitlines())) == (2, 1)
    assert err.startswith("specverify: standard input: expected a text in UTF-8: ")


def test_a_missing_extra_names_itself(models, capsys, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(_extras, "import_module", missing)
    monkeypatch.setattr(adapters, "load", lambda path, **_: _extras.require("llama_cpp"))
    assert call(capsys)[0] == 2


@pytest.mark.parametrize(
    "arguments",
    [("--k", "-1"), ("--k", "many"), ("--max-new", "0"), ("--min-p", "2"), ("--rule", "guess"), ("--top-k", "x")],
)
def test_impossible_options_are_refused(arguments, models, capsys):
    with pytest.raises(SystemExit) as exit_info:
        call(capsys, *arguments)
    assert exit_info.value.code == 2
    assert "error: argument" in capsys.readouterr().err
