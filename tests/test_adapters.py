"""Adapters of real models: what is fed, what is forgotten, and what is left when either fails.

A recorded runtime stands for llama.cpp and torch: it computes a row from the tokens it really holds, so a roll-back
that is late, short or missing shows in the rows. The tests marked `models` ask the same of the real runtimes.
"""

import importlib
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import llama_double
import numpy as np
import pytest
from toy_models import VOCAB, Recorded, row_behind

from specverify import Sampling, adapters
from specverify.adapters import (
    TextStream,
    _cached,
    _extras,
    check_same_vocabulary,
    comparison,
    llama_cpp,
    timing,
    until_text,
)
from specverify.decoder import SpeculativeDecoder
from specverify.draft_length import FixedDraftLength, NotedDraftLength
from specverify.generation import Round
from specverify.steps import Start


def expected_rows(sequence, n_last):
    return np.stack([row_behind(sequence[:end]) for end in range(len(sequence) - n_last + 1, len(sequence) + 1)])


def is_consistent(model) -> bool:
    return model._tokens == model.memory and model.n_cached == len(model.memory)


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_only_new_tokens_are_fed_and_rows_are_those_of_the_text(kind):
    model = Recorded()
    texts = [([1, 2, 3], 1), ([1, 2, 3, 4, 5], 2), ([1, 2, 3, 6], 1), ([1, 2, 3, 6], 1), ([5, 2], 2), ([5, 2, 1, 1], 4)]
    fed = [[[1, 2], [3]], [[4, 5]], [[6]], [[6]], [[5, 2]], [[5, 2, 1, 1]]]
    for (text, n_last), passes in zip(texts, fed, strict=True):
        model.passes.clear()
        rows = model.logits(kind(text), n_last)
        np.testing.assert_array_equal(rows, expected_rows(text, n_last))
        assert model.passes == passes
        assert model.memory == text
        assert is_consistent(model)


def test_a_prompt_is_cut_up_the_same_way_whatever_is_drafted_behind_it():
    prompt = [1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4]
    plain, speculative = Recorded(n_batch=4), Recorded(n_batch=4)
    plain.logits(prompt, 1)
    speculative.logits([*prompt, 5, 6], 3)
    assert plain.passes[:-1] == speculative.passes[:-1] == [[1, 2, 3, 4], [5, 6, 0, 1], [2, 3]]
    assert (plain.passes[-1], speculative.passes[-1]) == ([4], [4, 5, 6])


@pytest.mark.parametrize("n_batch", [1, 2, 3, 7])
def test_more_rows_than_a_pass_holds_are_put_together(n_batch):
    model = Recorded(n_batch=n_batch)
    text = [1, 2, 3, 4, 5, 6, 0]
    for n_last in range(1, len(text) + 1):
        model.reset()
        np.testing.assert_array_equal(model.logits(text, n_last), expected_rows(text, n_last))


def test_common_prefix_agrees_with_counting():
    rng = np.random.default_rng(3)
    for _ in range(300):
        one, other = (rng.integers(0, 2, rng.integers(0, 12)).tolist() for _ in range(2))
        limit = int(rng.integers(0, 12))
        counted = 0
        while counted < min(limit, len(one), len(other)) and one[counted] == other[counted]:
            counted += 1
        assert _cached.common_prefix(one, other, limit) == counted


def test_truncate_gives_what_was_removed():
    model = Recorded()
    model.logits([1, 2, 3, 4, 5])
    assert [model.truncate(keep) for keep in (9, 5, 3, 3, 0, 0)] == [0, 0, 2, 0, 3, 0]
    assert is_consistent(model)
    with pytest.raises(ValueError, match=r"keep: expected 0 or more, got -1"):
        model.truncate(-1)


def test_a_refused_roll_back_is_an_error_and_leaves_nothing_to_build_upon():
    model = Recorded(name="recurrent", refuses=True)
    model.logits([1, 2, 3, 4])
    with pytest.raises(RuntimeError, match=r"recurrent: expected 2 cached tokens after removing 2, got 4: .*back"):
        model.truncate(2)
    assert is_consistent(model)
    assert model.n_cached == 0
    model.logits([1, 2, 3])
    model.refuses = True
    with pytest.raises(RuntimeError, match="rolled back"):
        model.logits([1, 5, 3])
    np.testing.assert_array_equal(model.logits([1, 5, 3]), expected_rows([1, 5, 3], 1))


@pytest.mark.parametrize("fails_after", [0, 1, 2])
def test_a_pass_that_breaks_off_leaves_what_was_there_before(fails_after):
    model = Recorded()
    model.logits([1, 2, 3, 4])
    model.fails_after = fails_after
    with pytest.raises(MemoryError):
        model.logits([1, 2, 3, 4, 5, 6, 0], 3)
    assert model.memory == [1, 2, 3, 4]
    assert is_consistent(model)
    model.fails_after = None
    np.testing.assert_array_equal(model.logits([1, 2, 3, 4, 5, 6, 0], 3), expected_rows([1, 2, 3, 4, 5, 6, 0], 3))


def test_what_fails_after_a_failure_does_not_hide_it():
    model = Recorded()
    model.logits([1, 2])
    model.fails_after = 1

    def broken(keep):
        raise OSError("nor can it be cut")

    model._cut = broken
    with pytest.raises(MemoryError):
        model.logits([1, 2, 3, 4], 2)
    assert model.memory == []
    assert is_consistent(model)


def test_a_pass_that_breaks_off_and_cannot_be_rolled_back_empties_the_cache():
    model = Recorded(refuses=True)
    model.logits([1, 2])
    model.fails_after = 1
    with pytest.raises(MemoryError):
        model.logits([1, 2, 3, 4], 2)
    assert model.memory == []
    assert is_consistent(model)


def test_a_long_prompt_that_breaks_off_keeps_its_finished_passes():
    model = Recorded(n_batch=4)
    feed, passes = model._feed, iter([None, None, 2])

    def failing(tokens, n_rows):
        model.fails_after = next(passes)
        return feed(tokens, n_rows)

    model._feed = failing
    with pytest.raises(MemoryError):
        model.logits(list(range(7)) * 2)
    assert model.memory == [0, 1, 2, 3, 4, 5, 6, 0]
    assert is_consistent(model)


@pytest.mark.parametrize(
    ("sequence", "n_last", "message"),
    [
        ([], 1, r"sequence: expected at least one token, got none"),
        ([1, 2], 0, r"n_last: expected 1 to 2, the number of tokens, got 0"),
        ([1, 2], 3, r"n_last: expected 1 to 2, the number of tokens, got 3"),
        ([1, 2, VOCAB], 1, r"sequence\[2\] = 8 is outside \[0, 8\)"),
        ([-1, 2], 1, r"sequence\[0\] = -1 is outside \[0, 8\)"),
        ([1] * 65, 1, r"sequence: expected at most 64 tokens, the context of recorded, got 65"),
    ],
)
def test_texts_that_cannot_be(sequence, n_last, message):
    model = Recorded()
    with pytest.raises(ValueError, match=message):
        model.logits(sequence, n_last)
    assert model.passes == []
    assert is_consistent(model)


def decode_plainly(prompt, max_new, **options):
    return SpeculativeDecoder(None, Recorded().as_target(), **options).generate(prompt, max_new).tokens


@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_greedy_texts_are_those_of_plain_decoding_with_any_draft(k):
    class Weak(Recorded):
        def _feed(self, tokens, n_rows):
            rows = super()._feed(tokens, n_rows)
            rows[rows.argmax(axis=1) == 3, 3] -= 5  # never drafts a 3
            return rows

    prompt = [1, 2, 3]
    plain = decode_plainly(prompt, 30)
    assert 3 in plain
    for draft in (Recorded(), Weak()):
        target = Recorded()
        tokens, report = SpeculativeDecoder(draft.as_draft(), target.as_target(), k=k).generate(prompt, 30)
        assert tokens == plain
        assert target.n_cached <= len(prompt) + 30 - 1
        assert target.memory == (prompt + plain)[: target.n_cached]
        assert draft.memory == (prompt + plain)[: draft.n_cached]
        if type(draft) is Recorded:
            assert report.accepted == report.drafted
        else:
            assert 0 < sum(report.accepted) < sum(report.drafted)


def test_the_draft_catches_up_in_one_pass_and_is_not_fed_its_last_token():
    draft = Recorded()
    SpeculativeDecoder(draft.as_draft(), Recorded().as_target(), k=3).generate([1, 2, 3], 8)
    text = [1, 2, 3, *decode_plainly([1, 2, 3], 8)]
    assert draft.passes == [text[:2], [text[2]], [text[3]], [text[4]], text[5:7], [text[7]], [text[8]]]


def test_the_draft_draws_from_the_rows_it_returns_with_the_sampler_and_the_mask_of_the_text():
    sampling = Sampling(temperature=0.7, top_k=3)
    words = np.array([0b10110110], np.int32)
    model = Recorded()
    step = model.as_draft()
    asked = []
    mask = lambda text: (asked.append(list(text)), words)[1]  # noqa: E731
    step.begin(Start([1], False, sampling, np.random.default_rng(5), mask))
    tokens, rows = step([1, 2], 4)
    uniforms = np.random.default_rng(5).random(4)
    text = [1, 2]
    for i in range(4):
        np.testing.assert_array_equal(rows[i], row_behind(text))  # the runtime's buffer has been overwritten since
        kept = np.where([0b10110110 >> j & 1 for j in range(VOCAB)], row_behind(text).astype(float), -np.inf)
        kept[kept < np.sort(kept)[-3]] = -np.inf
        weights = np.exp((kept - kept.max()) / 0.7)
        assert tokens[i] == np.searchsorted(weights.cumsum(), uniforms[i] * weights.sum(), side="right")
        assert asked[i] == text
        text.append(tokens[i])
    assert model.memory == [1, 2, *tokens[:3]]


@pytest.mark.parametrize("start", [(True, None), (False, Sampling(temperature=0))])
def test_a_draft_at_temperature_0_is_certain_and_keeps_to_the_mask(start):
    step = Recorded().as_draft()
    best = int(row_behind([1, 2]).argmax())
    step.begin(Start([1, 2], *start, np.random.default_rng(0)))
    tokens, rows = step([1, 2], 1)
    assert (tokens, rows) == ([best], None)
    step.begin(Start([1, 2], *start, np.random.default_rng(0), lambda text: np.array([0xFF ^ 1 << best], np.int32)))
    second = np.argsort(row_behind([1, 2]))[-2]
    assert step([1, 2], 1) == ([second], None)


@pytest.mark.parametrize("sampling", [None, Sampling(temperature=0.7)])
def test_nothing_is_drafted_after_an_end_token(sampling):
    """Nor is the bias forgotten, which leaves token 3 alone."""
    bias = np.full(VOCAB, -np.inf, np.float32)
    bias[3] = 0.0
    model = Recorded()
    step = model.as_draft()
    for end_tokens, drafted in (({5}, [3, 3, 3, 3]), ({3}, [3])):
        rng = np.random.default_rng(5)
        step.begin(Start([1], sampling is None, sampling, rng, bias=bias, end_tokens=frozenset(end_tokens)))
        tokens, rows = step([1, 2], 4)
        assert tokens == drafted
        assert sampling is None or len(rows) == len(drafted)


@pytest.mark.parametrize("step", ["as_target", "as_draft"])
def test_steps_that_give_logits_refuse_a_decoder_of_probabilities(step):
    steps = {"as_target": Recorded(), "as_draft": Recorded()}
    decoder = SpeculativeDecoder(
        steps["as_draft"].as_draft() if step == "as_draft" else None,
        steps["as_target"].as_target() if step == "as_target" else lambda prefix, proposed: np.ones((1, VOCAB)),
        greedy=False,
    )
    with pytest.raises(ValueError, match=r"sampling: expected Sampling\(...\) or greedy decoding, got None: recorded"):
        decoder.generate([1], 2)


def test_a_draft_without_a_text_says_so():
    with pytest.raises(RuntimeError, match="expected begin"):
        Recorded().as_draft()([1], 2)


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize(
    ("rows", "got"),
    [
        (None, "None"),
        (np.empty((0, VOCAB)), r"shape \(0, 8\)"),
        (np.zeros((2, VOCAB)), r"shape \(2, 8\)"),
        (np.zeros((1, 1)), r"shape \(1, 1\)"),
    ],
)
def test_a_draft_that_gets_no_row_names_its_model(rows, got, greedy):
    class Broken(Recorded):
        def logits(self, sequence, n_last=1):
            return rows

    step = Broken("small").as_draft()
    step.begin(Start([1], greedy, Sampling(), np.random.default_rng(0)))
    with pytest.raises(RuntimeError, match=rf"small: expected a row of logits, shape \(1, 8\), got {got}"):
        step([1, 2], 1)


def test_sampled_texts_of_equal_models_accept_everything():
    """Equal rows, equal sampler: the acceptance probability of every token is 1, if both sides are warped alike."""
    decoder = SpeculativeDecoder(
        Recorded().as_draft(), Recorded().as_target(), k=4, sampling=Sampling(temperature=1.3, top_p=0.9), rng=2
    )
    report = decoder.generate([1, 2], 40).report
    assert report.accepted == report.drafted


def counting(model):
    """Its most probable token is always the last one + 1."""
    model._feed, feed = (lambda tokens, n_rows: (feed(tokens, n_rows), np.eye(VOCAB, dtype=np.float32)[
        [(token + 1) % VOCAB for token in tokens[len(tokens) - n_rows :]]])[1]), model._feed  # fmt: skip
    return model


def test_an_exception_in_a_shortened_round_leaves_the_cache_as_it_was_before():
    """Prompt of 5, k = 4, limit 7: after round 1 the target holds 5 + 4; round 2 drafts 1, feeds 2, and breaks off."""
    target = counting(Recorded())
    rounds = SpeculativeDecoder(counting(Recorded()).as_draft(), target.as_target(), k=4).rounds([0, 1, 2, 3, 4], 7)
    assert next(rounds).n_accepted == 4
    assert target.n_cached == 9
    target.fails_after = 1
    with pytest.raises(MemoryError):
        next(rounds)
    assert target.passes[-1] == [1, 2]
    assert target.n_cached == 9
    assert is_consistent(target)


def test_an_iterator_closed_within_a_block_leaves_the_caches_without_its_rest():
    target, draft = counting(Recorded()), counting(Recorded())
    stream = SpeculativeDecoder(draft.as_draft(), target.as_target(), k=4).stream([0, 1, 2, 3, 4], 7)
    assert [next(stream), next(stream)] == [5, 6]
    stream.close()
    assert target.memory == [0, 1, 2, 3, 4, 5]
    assert draft.n_cached <= 6
    assert is_consistent(target)
    assert is_consistent(draft)


def test_a_target_that_cannot_go_back_is_an_error_at_its_first_rejection():
    target = counting(Recorded(refuses=True))
    always_7 = lambda prefix, k: ([7] * k, None)  # noqa: E731
    with pytest.raises(RuntimeError, match="rolled back"):
        SpeculativeDecoder(always_7, target.as_target(), k=2).generate([0, 1], 4)
    assert decode_plainly([0, 1], 4)  # and without a draft it works
    assert SpeculativeDecoder(None, target.as_target()).generate([0, 1], 4).tokens == [2, 3, 4, 5]


@pytest.mark.parametrize("options", [{}, {"sampling": Sampling(top_k=1)}])
def test_rejected_tokens_are_gone_before_the_next_round(options):
    target, seen = counting(Recorded()), []

    def always_7(prefix, k):
        seen.append(list(prefix))
        return [7] * k, None

    tokens, report = SpeculativeDecoder(always_7, target.as_target(), k=3, **options).generate([1, 2], 4)
    assert tokens == [3, 4, 5, 6]
    # The prompt's first token goes along in its first pass; near the limit less is drafted.
    assert target.passes == [[1, 2, 7, 7, 7], [3, 7, 7], [4, 7], [5]]
    assert report.accepted == (0, 0, 0, 0)
    assert not any(7 in prefix for prefix in seen)


def test_the_cost_of_a_draft_is_that_of_passes_over_one_token():
    clock = [0.0]

    def ticking(seconds):
        model, times = Recorded(), iter(seconds)
        feed = model._feed

        def slow(tokens, n_rows):
            clock[0] += next(times)
            return feed(tokens, n_rows)

        model._feed = slow
        return model

    target, draft = ticking([4.0, 100.0, 4.0]), ticking([1.0, 1.0, 100.0])  # one slow moment of each does not count
    assert timing.draft_cost(target, draft, 5, lambda: clock[0]) == 0.25
    assert target.passes == draft.passes == [[5]] * 3
    assert target.n_cached == draft.n_cached == 0


@pytest.mark.parametrize("rule", ["token", "block"])
def test_steps_are_timed_as_in_rounds_and_leave_empty_caches(rule, monkeypatch):
    verified = []
    verify = timing.RULES[rule]

    def noting(target_rows, rows, tokens, uniforms, sampling):
        verified.append((len(target_rows), None if rows is None else len(rows), len(tokens), len(uniforms)))
        return verify(target_rows, rows, tokens, uniforms, sampling=sampling)

    monkeypatch.setattr(timing, "RULES", {rule: noting})
    target, draft = Recorded(), Recorded()
    target.logits([1, 2, 3])
    draft.logits([1, 2, 3])
    times = timing.step_times(target, draft.as_draft(), [1, 2, 3], 2, sampling=Sampling(top_k=4), rule=rule)
    assert [n for n, _ in times.target] == [1, 2, 3]
    assert [k for k, _ in times.verify] == [0, 1, 2]
    assert set(verified) == {(1, None, 0, 1), (2, 1, 1, 2), (3, 2, 2, 3)}
    assert draft.passes[2:4] == [[1, 2], [3]]  # the prompt is read anew, as the draft's first call is to show
    assert sorted(map(len, target.passes[4:])) == sorted([1, 2, 3] * 8)[1:]
    assert target.n_cached == draft.n_cached == 0


def test_a_draft_that_proposes_nothing_is_timed_whatever_rows_it_gives():
    times = timing.step_times(Recorded(), lambda prefix, k: ([], "none"), [1, 2], 2, sampling=Sampling(top_k=4))
    assert [k for k, _ in times.verify] == [0]


def test_what_a_length_asked_for_is_noted_text_by_text():
    class Waning(FixedDraftLength):
        told = ()

        def begin(self):
            self.k = 3

        def observe(self, done, requested):
            self.told += ((done.n_drafted, requested),)
            self.k -= 1

    length = NotedDraftLength(Waning(0))
    decoder = SpeculativeDecoder(lambda prefix, k: ([0][: k - 1], None), counting(Recorded()).as_target(), length)
    for _ in range(2):
        decoder.generate([1, 2], 4)
        assert length.requested == [3, 2, 1, 0]
    assert length.length.told == ((1, 3), (1, 2), (0, 1), (0, 0)) * 2


@pytest.mark.parametrize(("mine", "yours"), [(4, 6), (6, 4)])
def test_a_text_that_ends_early_differs_where_it_ends(mine, yours):
    target = Recorded()
    decoder = SpeculativeDecoder(Recorded().as_draft(), target.as_target(), 2)
    rounds = list(decoder.rounds([1, 2], mine))
    found = decoder.generate([1, 2], mine)
    plain = SpeculativeDecoder(None, Recorded().as_target()).generate([1, 2], yours)
    compared = comparison.compare(target, [1, 2], rounds, found, plain, greedy=True)
    assert (compared.identical, compared.first_difference, compared.batch_effect) == (False, 4, None)
    assert compared.speedup == found.report.tokens_per_second / plain.report.tokens_per_second
    compared = comparison.compare(target, [1, 2], rounds, found, plain, greedy=False)
    assert (compared.identical, compared.first_difference) == (None, None)


def test_vocabularies_that_differ_are_refused_by_name():
    target = Recorded("large")
    check_same_vocabulary(target, Recorded("small"))
    with pytest.raises(ValueError, match=r"vocabulary of 8 tokens, got 6 \(target large and draft small\)"):
        check_same_vocabulary(target, Recorded("small", vocab_size=6))
    spellings = [str(token) for token in range(VOCAB)]
    other = Recorded("small", spellings=[*spellings[:5], "five", *spellings[6:]])
    with pytest.raises(ValueError, match=r"token 5 to be '5' .* got 'five' \(target large and draft small\)"):
        check_same_vocabulary(target, other)
    check_same_vocabulary(target, Recorded("padded", spellings=[*spellings[:6], None, None]))


def stream_of(pieces, before=()):
    decode = lambda tokens: b"".join(pieces[token] for token in tokens).decode("utf-8", "replace")  # noqa: E731
    stream = TextStream(decode, before)
    given = [stream.add(token) for token in range(len(before), len(pieces))]
    return [*given, stream.flush()]


@pytest.mark.parametrize("text", ["plain", "né", "漢字 👩‍👩‍👧 ok", "\N{REPLACEMENT CHARACTER}x"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_characters_come_whole_however_tokens_cut_them(text, size):
    data = text.encode()
    given = stream_of([data[i : i + size] for i in range(0, len(data), size)])
    assert "".join(given) == text
    assert all(piece in text for piece in given)


def test_bytes_that_are_no_character_are_shown_as_such_at_last():
    assert "".join(stream_of([b"a", b"\xff", b"b"])) == "a\ufffdb"
    assert stream_of([b"a", b"\xe6\xbc"]) == ["a", "", "\ufffd"]
    assert stream_of([b"\xff"] * 5)[3:5] == ["\ufffd"] * 2  # waits for the rest of one character, not for ever


def test_stray_bytes_leave_the_characters_behind_them_whole():
    """Bytes of characters of 1 to 4 bytes, up to 3 of them replaced: in pieces as at once."""
    assert "".join(stream_of([bytes([one]) for one in b"\x9f\x98\x80" + "漢b".encode()])) == "\ufffd" * 3 + "漢b"
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        data = bytearray("".join(rng.choice(list("aé漢😀b"), 8)).encode())
        for _ in range(rng.integers(4)):
            data[rng.integers(len(data))] = rng.integers(256)
        assert "".join(stream_of([bytes([one]) for one in data])) == data.decode("utf-8", "replace"), seed


def bytes_of(tokens):
    return bytes(tokens).decode("utf-8", "replace")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("stops", "kept", "reason"),
    [
        (["b"], 2, "stop"),
        (["cé"], 5, "stop"),
        (["é漢", "x"], 8, "stop"),
        (["漢"], 8, "stop"),
        (["z"], 9, "stop"),  # wins over the limit, met by the same token
        (["no", "cb"], 9, "length"),
    ],
)
def test_a_stop_text_ends_a_text_where_it_is_complete_however_rounds_cut_it(size, stops, kept, reason):
    data = tuple("abcé漢z".encode())
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    rounds = [Round(piece, size, size - 1, 0.0, 0.0, 0.0, None) for piece in pieces]
    rounds[-1] = rounds[-1]._replace(finish_reason="length")
    found = list(until_text(iter(rounds), bytes_of, stops))
    assert sum((one.tokens for one in found), ()) == data[:kept]
    assert [one.finish_reason for one in found] == [None] * (len(found) - 1) + [reason]
    assert found[-1].n_drafted == size  # what was drafted and accepted stays told


def test_a_token_that_completes_a_stop_text_may_begin_a_character():
    pieces = [b"a", b"b\xe6", b"\xbc\xa2"]
    decode = lambda tokens: b"".join(pieces[token] for token in tokens).decode("utf-8", "replace")  # noqa: E731
    (found,) = until_text([Round((0, 1, 2), 2, 2, 0.0, 0.0, 0.0, None)], decode, ["ab"])
    assert found.tokens == (0, 1)


def test_an_end_token_ends_a_text_for_its_own_sake_and_empty_stop_texts_are_refused():
    one = Round(tuple(b"ab"), 1, 1, 0.0, 0.0, 0.0, "end")
    assert list(until_text([one], bytes_of, ["b"])) == list(until_text([one], bytes_of, [])) == [one]
    assert next(until_text([one], bytes_of, ["a"])) == one._replace(tokens=(97,), finish_reason="stop")
    with pytest.raises(ValueError, match="texts: expected texts that are not empty"):
        until_text([one], bytes_of, ["a", ""])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", r"which is no GGUF file \(0 bytes, beginning with b'', not b'GGUF'\)"),
        (b"version https", r"which is no GGUF file \(13 bytes, beginning with b'vers', not b'GGUF'\)"),
        (b"GGUF" + bytes(1996), "a GGUF file of 2,000 bytes: is it complete"),
    ],
)
def test_a_file_that_llama_cpp_refuses_is_described(content, said, tmp_path, monkeypatch):
    monkeypatch.setattr(llama_cpp, "require", lambda name: llama_double.Lib(loads=False))
    (tmp_path / "model.gguf").write_bytes(content)
    with pytest.raises(ValueError, match=rf"expected a model that llama\.cpp can load, got .*model\.gguf, {said}"):
        llama_cpp.Model(tmp_path / "model.gguf")


def test_a_token_is_decoded_behind_those_before_it_the_first_behind_the_prompt():
    decode = lambda tokens: "".join(["Hi", " you"][token] for token in tokens).lstrip()  # noqa: E731
    stream = TextStream(decode)
    assert [stream.add(token) for token in (1, 1, 0)] == ["you", " you", "Hi"]
    assert TextStream(decode, [0]).add(1) == " you"


@pytest.mark.spawns
def test_importing_the_adapters_imports_no_framework():
    code = (
        "import sys, specverify.adapters, specverify.adapters.llama_cpp, specverify.adapters.transformers as t, json\n"
        "json.dump(sorted({'torch', 'transformers', 'llama_cpp'} & sys.modules.keys()), sys.stdout)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == []


@pytest.mark.parametrize(
    ("module", "extra", "packages"),
    [("llama_cpp", "llama", "llama-cpp-python"), ("torch", "transformers", "torch transformers")],
)
def test_a_missing_framework_is_one_line_that_says_what_to_install(module, extra, packages, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module", name=name.partition(".")[0])

    monkeypatch.setattr(_extras, "import_module", missing)
    for wanted in (module, f"{module}.within"):
        with pytest.raises(ImportError) as raised:
            _extras.require(wanted)
        assert str(raised.value) == (
            f"{module} is missing: install this package with its extra [{extra}], or: pip install {packages}"
        )


def test_what_a_framework_itself_misses_is_not_hidden(monkeypatch):
    def broken(name):
        raise ModuleNotFoundError("No module named 'jinja2'", name="jinja2")

    monkeypatch.setattr(_extras, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="jinja2"):
        _extras.require("llama_cpp")


def test_load_goes_by_the_path(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.gguf, which does not exist"):
        adapters.load(tmp_path / "nothing.gguf")
    (tmp_path / "model.bin").touch()
    with pytest.raises(ValueError, match=r"expected a folder \(transformers\) or a \.gguf file"):
        adapters.load(tmp_path / "model.bin")
    with pytest.raises(ValueError, match=r"expected a folder with config\.json or one \.gguf file, got"):
        adapters.load(tmp_path)
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=r"expected a folder with one \.gguf file, got a\.gguf, b\.gguf in"):
        adapters.load(tmp_path)


@pytest.mark.parametrize("arguments", [(), ("--k", "0"), ("--k", "7", "--max-new", "20", "--prompt", "4")])
def test_the_onnx_example_runs(arguments, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    monkeypatch.setattr(sys, "argv", ["onnxruntime_loop.py", *arguments])
    runpy.run_path(str(Path(__file__).parents[1] / "examples" / "onnxruntime_loop.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "the text equals plain decoding, token for token" in out
    assert out.count("drafted ones accepted") == 2


# llama_cpp leaves a file open when it is imported.
real = [pytest.mark.models, pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")]


def model_path() -> Path:
    named = os.environ.get("SPECVERIFY_MODEL", "")
    assert Path(named).is_file(), f"SPECVERIFY_MODEL: expected the path of a GGUF file, got {named!r}"
    return Path(named)


@pytest.fixture(scope="module", params=["llama_cpp", "transformers"])
def models(request):
    """Two models of the same file: the target in the runtime that is asked for, a draft in llama.cpp."""
    path = model_path()
    draft = adapters.load(path, n_ctx=512, n_threads=1)
    if request.param == "llama_cpp":
        target = adapters.load(path, n_ctx=512, n_threads=1)
    else:
        runtime = importlib.import_module("specverify.adapters.transformers")
        target = runtime.Model.from_pretrained(path.parent, gguf_file=path.name, n_ctx=512, n_threads=1)
    with target, draft:
        yield target, draft
    for model in (target, draft):
        model.close()  # once more
        with pytest.raises(ValueError, match="is closed"):
            model.logits([1])


TEXT = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):\n"


class TestRealModels:
    pytestmark = real

    def test_rows_after_a_roll_back_are_bit_identical(self, models):
        target, _ = models
        text = target.encode(TEXT)
        target.reset()
        wanted = target.logits(text, 5).copy()
        target.extend([1, 2, 3, 4], 4)
        np.testing.assert_array_equal(target.logits(text, 5), wanted)
        in_place = target.logits(text, 5)
        assert not in_place.flags.owndata
        # One token at a time. Equal bits in llama.cpp with flash attention; in torch other orders of summation over up
        # to 1536 float32 products, in 30 layers: some 1e-4, where a token that is out of place moves logits by units.
        target.truncate(len(text) - 5)
        singly = np.concatenate([target.extend([token]).copy() for token in text[-5:]])
        if type(target).__module__.endswith("llama_cpp"):
            np.testing.assert_array_equal(singly, wanted)
        np.testing.assert_allclose(singly, wanted, rtol=0, atol=2e-3)

    @pytest.mark.parametrize("draft", ["model", "lookup"])
    def test_greedy_texts_are_those_of_plain_decoding(self, models, draft):
        target, small = models
        prompt = target.encode(TEXT)
        target.reset()
        plain = SpeculativeDecoder(None, target.as_target(), end_tokens=target.end_tokens).generate(prompt, 24).tokens
        step = small.as_draft() if draft == "model" else _look_up
        target.reset()
        tokens, report = SpeculativeDecoder(step, target.as_target(), end_tokens=target.end_tokens).generate(prompt, 24)
        assert tokens == plain
        assert sum(report.accepted) > 0
        assert report.rounds < len(plain)

    def test_a_model_accepts_what_its_twin_draws(self, models):
        target, draft = models
        decoder = SpeculativeDecoder(
            draft.as_draft(), target.as_target(), sampling=Sampling(temperature=0.8, top_k=40), rng=0
        )
        tokens, report = decoder.generate(target.encode(TEXT), 24)
        assert len(tokens) == 24
        assert report.tested_acceptance > 0.5  # 1 in one runtime, .97 between the two: see the row below
        if type(target) is type(draft):
            assert report.accepted == report.drafted

    def test_what_cannot_be_is_refused_and_harmless(self, models):
        target, _ = models
        text = target.encode(TEXT)
        wanted = target.logits(text).copy()
        with pytest.raises(ValueError, match="expected at most 512 tokens"):
            target.logits(text * 40)
        with pytest.raises(ValueError, match="is outside"):
            target.logits([*text, target.vocab_size])
        assert target.n_cached == len(text)
        np.testing.assert_allclose(target.logits(text), wanted, rtol=0, atol=2e-3)

    def test_text_goes_there_and_back(self, models):
        target, draft = models
        check_same_vocabulary(target, draft)
        for text in ("The capital of France", "né 漢字 👩‍👧\n\ttab <|im_end|>"):
            tokens = target.encode(text)
            assert tokens == draft.encode(text)
            assert target.decode(tokens) == text
            stream = TextStream(target.decode)
            assert "".join([*map(stream.add, tokens), stream.flush()]) == text
        chat = target.encode_chat([{"role": "user", "content": "Hello"}])
        assert chat == draft.encode_chat([{"role": "user", "content": "Hello"}])
        assert set(chat) & set(target.end_tokens)
        assert "Hello" in target.decode(chat)

    def test_a_pass_that_fails_in_the_middle_leaves_the_cache(self, models, monkeypatch):
        """The runtime takes the tokens in, and then the adapter is interrupted."""
        target, _ = models
        text = target.encode(TEXT)
        wanted = target.logits(text).copy()
        feed = type(target)._feed

        def interrupted(self, tokens, n_rows):
            feed(self, tokens, n_rows)
            raise KeyboardInterrupt

        monkeypatch.setattr(type(target), "_feed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            target.logits([*text, 5, 6])
        monkeypatch.undo()
        assert target.n_cached == target._held() == len(text)
        np.testing.assert_allclose(target.logits(text), wanted, rtol=0, atol=2e-3)


def _look_up(prefix, k):
    """The last token's latest earlier place, and what followed it."""
    for i in range(len(prefix) - 2, -1, -1):
        if prefix[i] == prefix[-1]:
            return prefix[i + 1 : i + 1 + k], None
    return [], None
