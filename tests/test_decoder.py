"""The draft/verify loop: its law, where texts end, what caches hold, what its figures say."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from specverify import Sampling, SparseRows, SpeculativeDecoder, sample
from specverify.generation import Round, report_of

V = 128
S = Sampling()
EYE = np.eye(V, dtype=np.float32)


def following(prefix, proposed):
    """The scripted target: every token is followed by the next number."""
    return EYE[[(token + 1) % V for token in [prefix[-1], *proposed]]]


def agreeing(prefix, k):
    return [(prefix[-1] + i) % V for i in range(1, k + 1)], None


def disagreeing(prefix, k):
    return [7] * k, None


class Model:
    """A scripted model with a cache, as target or draft, that records what it is fed."""

    def __init__(self, answer, fails_in_call=0, stuck_from_call=0):
        self.answer = answer
        self.cache = []
        self.fed = []
        self.calls = 0
        self.fails_in_call = fails_in_call
        self.stuck_from_call = stuck_from_call

    @property
    def n_cached(self):
        return len(self.cache)

    def truncate(self, keep):
        if self.stuck_from_call and self.calls >= self.stuck_from_call:
            return 0
        removed = len(self.cache) - keep
        assert removed > 0
        del self.cache[keep:]
        return removed

    def __call__(self, prefix, proposed):
        self.calls += 1
        text = list(prefix) if isinstance(proposed, int) else [*prefix, *proposed]
        assert self.cache == text[: len(self.cache)], "the cache is not of this text"
        self.fed.append(text[len(self.cache) :])
        self.cache = text
        if self.calls == self.fails_in_call:
            raise OSError("the target broke")
        return self.answer(prefix, proposed)


def decode(prompt, max_new, draft=agreeing, target=following, k=4, **options):
    tokens, report = SpeculativeDecoder(draft, target, k, **options).generate(prompt, max_new)
    assert report.tokens == len(tokens)
    return tokens, report


@pytest.mark.parametrize("k", range(9))
def test_an_end_token_ends_the_text_wherever_it_stands_in_a_block(k):
    target = Model(following)
    decoder = SpeculativeDecoder(agreeing, target, k, end_tokens=[5])
    tokens, report = decoder.generate([1], 50)
    assert (tokens, report.finish_reason) == ([2, 3, 4, 5], "end")
    assert target.cache == [1, 2, 3, 4]  # the text without its last token, which a next pass would begin with
    assert list(decoder.stream([1], 50)) == tokens


@pytest.mark.parametrize("limit", [0, 1, 3, 5, 6])
def test_exactly_as_many_tokens_as_asked_for(limit):
    target = Model(following)
    tokens, report = decode([1], limit, target=target)
    assert tokens == list(range(2, limit + 2))
    assert report.finish_reason == "length"
    if limit == 0:
        assert target.calls == report.rounds == 0
        assert report.tokens_per_target_pass is None


@pytest.mark.parametrize(
    ("limit", "tokens", "reason"),
    [(4, [7, 99], "stop"), (1, [7], "length"), (2, [7, 99], "stop"), (9, [7, 99], "stop")],
)
def test_a_stop_in_the_block_comes_before_the_limit(limit, tokens, reason):
    follows = {1: 7, 7: 99, 99: 3, 3: 4, 4: 8}

    def target(prefix, proposed):
        return EYE[[follows[token] for token in [prefix[-1], *proposed]]]

    def draft(prefix, k):
        return [7, 99, 3, 4][:k], None

    for k in (0, 4):
        for ending in ({"stop": [[99]]}, {"stop": [[98], [7, 99]]}):
            got, report = decode([1], limit, draft, target, k, **ending)
            assert (got, report.finish_reason) == (tokens, reason)
        got, report = decode([1], limit, draft, target, k, end_tokens=[99])
        assert (got, report.finish_reason) == (tokens, reason.replace("stop", "end"))


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 7])
def test_a_stop_sequence_may_begin_in_an_earlier_block_but_not_in_the_prompt(k):
    tokens, report = decode([1, 2, 3], 20, k=k, stop=[[2, 3, 4, 5], [6, 7, 8, 9]])
    assert (tokens, report.finish_reason) == ([4, 5, 6, 7, 8, 9], "stop")
    tokens, report = decode([1], 20, k=k, stop=[[1, 2], [2, 3, 3, 4]])
    assert (len(tokens), report.finish_reason) == (20, "length")


def test_an_exception_leaves_the_cache_where_the_last_round_left_it():
    target = Model(following, fails_in_call=2)
    stream = SpeculativeDecoder(agreeing, target, 4).stream([1, 2, 3, 4, 5], 7)
    assert [next(stream) for _ in range(5)] == [6, 7, 8, 9, 10]
    assert target.n_cached == 9  # 5 + 4; the bonus token is not fed yet
    with pytest.raises(OSError, match="the target broke"):
        next(stream)
    assert target.fed[1] == [10, 11]
    assert target.cache == list(range(1, 10))


@pytest.mark.parametrize("read", range(1, 8))
def test_a_closed_iterator_leaves_the_caches_at_the_tokens_it_gave(read):
    target, draft = Model(following), Model(agreeing)
    stream = SpeculativeDecoder(draft, target, 4).stream([1, 2, 3], 20)
    given = [next(stream) for _ in range(read)]
    stream.close()
    text = [1, 2, 3, *given]
    assert target.cache == text[:-1]
    assert draft.cache == text[: len(draft.cache)]
    assert len(draft.cache) < len(text)
    assert list(stream) == []


@pytest.mark.parametrize("greedy", [True, False])
def test_no_rejected_token_stays_anywhere(greedy):
    target, draft = Model(following), Model(disagreeing)
    options = {"greedy": True} if greedy else {"sampling": Sampling(), "rng": 0}
    if not greedy:
        target.answer = lambda prefix, proposed: np.log(following(prefix, proposed) + 1e-38) * 2
    tokens, report = decode([1, 2], 4, draft, target, 3, **options)
    assert tokens == [3, 4, 5, 6]
    assert report.accepted == (0, 0, 0, 0)
    assert report.drafted == (3, 2, 1, 0)
    assert target.fed == [[1, 2, 7, 7, 7], [3, 7, 7], [4, 7], [5]]
    assert [fed[-1] for fed in draft.fed] == [2, 3, 4]


def test_a_cache_that_does_not_shrink_is_an_error_at_once():
    for stuck in (Model(following, stuck_from_call=2), Model(following, stuck_from_call=1)):
        decoder = SpeculativeDecoder(disagreeing, stuck, 2)
        with pytest.raises(
            RuntimeError, match=r"Model\.truncate\(\d\): expected to keep \d of \d cached.* remove 2, got 0"
        ):
            decoder.generate([1, 2], 9)
        assert stuck.calls == stuck.stuck_from_call


def test_a_cache_that_says_it_shrank_is_looked_at():
    class Liar(Model):
        def truncate(self, keep):
            return len(self.cache) - keep

    with pytest.raises(RuntimeError, match="2 removed and 4 left"):
        decode([1, 2], 9, disagreeing, Liar(following), 2)


def test_half_a_cache_is_refused_at_construction():
    class NoTruncate:
        n_cached = 0

        def __call__(self, prefix, proposed):
            return following(prefix, proposed)

    for steps in ((agreeing, NoTruncate()), (NoTruncate(), following)):
        with pytest.raises(TypeError, match="both n_cached and truncate"):
            SpeculativeDecoder(*steps)


def test_a_second_text_starts_with_empty_caches():
    target, draft = Model(following), Model(agreeing)
    decoder = SpeculativeDecoder(draft, target, 3)
    assert decoder.generate([1, 2, 3], 5).tokens == decoder.generate([1, 2, 3], 5).tokens
    assert decoder.generate([50], 5).tokens == [
        51,
        52,
        53,
        54,
        55,
    ]  # the models assert that their cache is of this text


def test_an_abandoned_text_cannot_go_on_nor_cut_another_ones_cache():
    target = Model(following)
    decoder = SpeculativeDecoder(agreeing, target, 4)
    old = decoder.stream([1], 20)
    next(old)
    new = decoder.stream([60], 20)
    next(new)
    cached = list(target.cache)
    old.close()
    assert target.cache == cached
    rounds = decoder.rounds([1], 20)
    decoder.generate([2], 3)
    with pytest.raises(RuntimeError, match="begun another"):
        next(rounds)


class Branching(np.random.Generator):
    """A source that takes every path: each number is (digit + 1/2) / base, all combinations one after the other."""

    def __init__(self, base):
        super().__init__(np.random.PCG64(0))
        self.base = base
        self.path, self.place = [], 0

    def spawn(self, n_children):
        return [self] * n_children

    def random(self, size=None, dtype=np.float64, out=None):
        if out is not None:
            out[:] = [self.random() for _ in out]
            return out
        if self.place == len(self.path):
            self.path.append(0)
        self.place += 1
        return (self.path[self.place - 1] + 0.5) / self.base

    def laws(self, run):
        """Give the exact law of what `run` returns; right where every threshold is a multiple of 1 / base."""
        law = {}
        while True:
            self.place = 0
            outcome = run()
            law[outcome] = law.get(outcome, 0) + Fraction(1, self.base**self.place)
            del self.path[self.place :]
            while self.path and self.path[-1] == self.base - 1:
                self.path.pop()
            if not self.path:
                return law
            self.path[-1] += 1


# Behind each last token a row of halves (target, draft) or quarters; the draft is wrong everywhere.
HALVES = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]], np.float32)
HALVES_DRAFT = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.5, 0.0]], np.float32)
QUARTERS = np.array([[0.25, 0.75, 0.0], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]], np.float32)
QUARTERS_DRAFT = np.array([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.25, 0.25, 0.5]], np.float32)


def table_draft(table, source, kind="dense", lazy=False):
    """A draft that draws from the rows of a table; lazy ones stop where the text says so."""

    def step(prefix, k):
        tokens, rows, last = [], [], prefix[-1]
        for _ in range(k):
            if lazy and last == 1:
                break
            rows.append(table[last])
            last = sample(table[last], source.random())
            tokens.append(last)
        if kind == "sparse":
            ids = [np.flatnonzero(row) for row in rows]
            return tokens, SparseRows(ids, [row[i] for row, i in zip(rows, ids, strict=True)])
        return tokens, np.array(rows, np.float32).reshape(-1, 3)

    return step


def table_law(table, first, n):
    """The law of n tokens of a chain."""
    law = {(): Fraction(1)}
    for _ in range(n):
        law = {
            (*text, token): weight * Fraction(float(table[(first, *text)[-1], token]))
            for text, weight in law.items()
            for token in range(3)
            if table[(first, *text)[-1], token]
        }
    return law


def looked_up(prefix, k):
    return [2, 1][:k], None


def law_of_texts(source, draft, table, first, n, **options):
    decoder = SpeculativeDecoder(
        draft, lambda prefix, proposed: table[[prefix[-1], *proposed]], greedy=False, rng=source, **options
    )
    return source.laws(lambda: tuple(decoder.generate([first], n).tokens))


def draft_of_kind(kind, table, source):
    if kind == "certain":
        return looked_up
    if kind == "nothing":
        return lambda prefix, k: ([], None)
    return table_draft(table, source, kind, lazy=kind == "lazy")


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize("rule", ["token", "block"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "lazy", "nothing", "certain"])
def test_the_law_of_a_text_is_the_targets_exactly(kind, rule, first):
    if kind != "certain":  # whose residuals are thirds
        source = Branching(4)
        draft = draft_of_kind(kind, QUARTERS_DRAFT, source)
        assert law_of_texts(source, draft, QUARTERS, first, 2, k=1, rule=rule) == table_law(QUARTERS, first, 2)
    if (rule, first) != ("block", 0):  # whose thresholds are thirds
        source = Branching(2)
        draft = draft_of_kind(kind, HALVES_DRAFT, source)
        assert law_of_texts(source, draft, HALVES, first, 3, k=2, rule=rule) == table_law(HALVES, first, 3)


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize("rule", ["token", "block"])
def test_a_draft_may_stop_after_an_end_token_that_it_drew(rule, first):
    """It keeps the token, and what would follow is never emitted; the law is that of texts cut at token 2."""
    law = {}
    for text, weight in table_law(HALVES, first, 3).items():
        end = text.index(2) + 1 if 2 in text else 3
        law[text[:end]] = law.get(text[:end], 0) + weight
    if (rule, first) != ("block", 0):  # whose thresholds are thirds
        source = Branching(2)
        going_on = table_draft(HALVES_DRAFT, source)

        def stopping(prefix, k):
            tokens, rows = going_on(prefix, 1)
            if k == 2 and tokens != [2]:
                more, row = going_on([*prefix, *tokens], 1)
                tokens, rows = tokens + more, np.concatenate([rows, row])
            return tokens, rows

        assert law_of_texts(source, stopping, HALVES, first, 3, k=2, rule=rule, end_tokens=[2]) == law


def test_a_draft_that_discards_what_it_drew_is_caught_by_the_same_enumeration():
    source = Branching(2)
    honest = table_draft(HALVES_DRAFT, source)

    def picky(prefix, k):
        tokens, rows = honest(prefix, k)
        return (tokens, rows) if tokens[:1] != [2] else ([], rows[:0])

    assert law_of_texts(source, picky, HALVES, 1, 2, k=1) != table_law(HALVES, 1, 2)


def random_target(prefix, proposed):
    seeds = [hash((token, len(prefix) + i)) % 2**32 for i, token in enumerate([prefix[-1], *proposed])]
    return np.stack([np.random.default_rng(seed).normal(0, 2, 64).astype(np.float32) for seed in seeds])


class LogitDraft:
    """A draft that draws from noisy logits with what the loop tells it, one of the ways a real model does."""

    def begin(self, start):
        self.start = start

    def __call__(self, prefix, k):
        text, rows = list(prefix), []
        for _ in range(k):
            row = random_target(text, [])[0] + np.float32(0.3) * np.cos(np.arange(64, dtype=np.float32))
            mask = None if self.start.mask is None else self.start.mask(text)
            rows.append(row)
            sampling = Sampling(temperature=0) if self.start.greedy else self.start.sampling
            text.append(sample(row, self.start.rng.random(), sampling, mask=mask, bias=self.start.bias))
        return text[len(prefix) :], np.stack(rows)


@pytest.mark.parametrize("rule", ["token", "block"])
def test_a_seed_gives_the_same_text_and_another_seed_another(rule):
    options = {"sampling": Sampling(temperature=0.9, top_k=20), "rule": rule}
    texts = [decode([3], 40, LogitDraft(), random_target, 3, rng=seed, **options)[0] for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]
    decoder = SpeculativeDecoder(LogitDraft(), random_target, 3, rng=np.random.default_rng(5), **options)
    assert decoder.generate([3], 40).tokens == texts[0] != decoder.generate([3], 40).tokens  # a Generator goes on


def test_what_a_draft_draws_does_not_change_what_decides():
    class Proposing(LogitDraft):
        wasted = 0

        def __call__(self, prefix, k):
            self.start.rng.random(self.wasted)
            return agreeing([prefix[-1] % 50], k)

    frugal, wasteful = Proposing(), Proposing()
    wasteful.wasted = 7
    texts = [decode([3], 30, draft, random_target, 4, sampling=Sampling(), rng=1)[0] for draft in (frugal, wasteful)]
    assert texts[0] == texts[1]
    first = [decode([3], 1, draft, random_target, 4, sampling=Sampling(), rng=1)[0] for draft in (None, wasteful)]
    assert first[0] == first[1]  # the last token of a text is never drafted


@pytest.mark.parametrize("k", [0, 1, 3])
def test_temperature_0_is_greedy_whatever_the_draft(k):
    plain, _ = decode([3], 30, None, random_target)
    for draft in (LogitDraft(), lambda prefix, k: ([1] * k, None)):
        assert decode([3], 30, draft, random_target, k, sampling=Sampling(temperature=0), rng=1)[0] == plain
        assert decode([3], 30, draft, random_target, k)[0] == plain


def words_of(allowed):
    words = np.zeros(2, np.int32)
    for token in allowed:
        words[token // 32] |= np.int32(np.uint32(1 << token % 32).view(np.int32))
    return words


def alternating(text):
    """A grammar: even and odd tokens in turn. It knows nothing of texts outside the language."""
    assert all((a + b) % 2 for a, b in pairwise(text)), "asked about a text it forbids"
    return words_of(range(1 - text[-1] % 2, 64, 2))


def test_a_mask_may_be_of_booleans():
    def unpacked(text):
        return np.unpackbits(alternating(text).view(np.uint8), bitorder="little").astype(bool)

    options = {"sampling": Sampling(), "rng": 3}
    certain = {"draft": lambda prefix, k: (range(1, k + 1), None), "target": random_target, "k": 3, **options}
    assert decode([2], 20, mask=alternating, **certain)[0] == decode([2], 20, mask=unpacked, **certain)[0]


@pytest.mark.parametrize("options", [{}, {"sampling": Sampling(temperature=1.2), "rng": 2}])
def test_a_grammar_holds_in_every_position(options):
    for draft in (LogitDraft(), lambda prefix, k: (range(1, k + 1), None)):
        for k in (0, 1, 4):
            tokens, _ = decode([2], 30, draft, random_target, k, mask=alternating, **options)
            assert len(tokens) == 30
            alternating([2, *tokens])
    plain = [decode([2], 30, LogitDraft(), random_target, k, mask=alternating)[0] for k in (0, 4)]
    assert plain[0] == plain[1]


@pytest.mark.parametrize("k", [0, 1, 2, 4])
@pytest.mark.parametrize("options", [{}, {"sampling": Sampling(), "rng": 3}])
def test_no_grammar_is_asked_about_a_text_that_has_ended(k, options):
    """It allows nothing there, so that a row under it has no token left."""

    def ending(text):
        assert 5 not in text, "asked about a text that has ended"
        return words_of([text[-1] + 1])

    def counting(prefix, proposed):
        return np.eye(64, dtype=np.float32)[[(t + 1) % 64 for t in [prefix[-1], *proposed]]]

    tokens, report = decode([1], 20, agreeing, counting, k, mask=ending, end_tokens=[5], **options)
    assert tokens == [2, 3, 4, 5]
    assert report.finish_reason == "end"


@pytest.mark.parametrize("stop", [[[5]], [[4, 5]], [[3, 4, 5], [9]]])
def test_no_grammar_is_asked_about_a_text_that_a_stop_sequence_ended(stop):
    """Nor by the draft, for which the grammar says the same."""

    def ending(text):
        assert text[-1] < 5, "asked about a text that has ended"
        return words_of([text[-1] + 1])

    class Asking:
        def begin(self, start):
            self.start = start

        def __call__(self, prefix, k):
            tokens = list(prefix)
            for _ in range(k):
                allowed = np.flatnonzero(np.unpackbits(self.start.mask(tokens).view(np.uint8), bitorder="little"))
                tokens.append(int(allowed[0]))
            return tokens[len(prefix) :], None

    def counting(prefix, proposed):
        return np.eye(64, dtype=np.float32)[[(t + 1) % 64 for t in [prefix[-1], *proposed]]]

    for k in (0, 1, 3, 6):
        tokens, report = decode([1], 20, Asking(), counting, k, mask=ending, stop=stop)
        assert tokens == [2, 3, 4, 5]
        assert report.finish_reason == "stop"


def test_what_a_step_was_told_stays_as_it_was():
    told = []

    class Keeping(LogitDraft):
        def begin(self, start):
            super().begin(start)
            told.append(start)

    decode([3, 4], 10, Keeping(), random_target, 3, end_tokens=[7, 9], stop=None, sampling=Sampling(), rng=1)
    assert told[0].prompt == [3, 4]
    assert told[0].end_tokens == {7, 9}


@pytest.mark.parametrize("options", [{}, {"sampling": Sampling(temperature=1.2, top_k=20), "rng": 2}])
def test_a_bias_is_added_on_both_sides(options):
    """As if both models had given it: token for token, and the draft is accepted where it is the target itself."""
    bias = np.linspace(-3, 3, 64).astype(np.float32)
    bias[7] = -np.inf

    def biased(prefix, proposed):
        return random_target(prefix, proposed) + bias

    class Same(LogitDraft):
        def __call__(self, prefix, k):
            text, rows = list(prefix), []
            sampling = Sampling(temperature=0) if self.start.greedy else self.start.sampling
            for _ in range(k):
                rows.append(random_target(text, [])[0])
                text.append(sample(rows[-1], self.start.rng.random(), sampling, bias=self.start.bias))
            return text[len(prefix) :], np.stack(rows)

    given = decode([2], 40, Same(), random_target, 3, bias=bias.tolist(), **options)
    assert set(given[1].accepted) == {3}
    assert 7 not in given[0]
    for draft in (None, lambda prefix, k: (range(1, k + 1), None)):
        expected, _ = decode([2], 40, draft, biased, 3, **options)
        assert decode([2], 40, draft, random_target, 3, bias=bias, **options)[0] == expected
        assert decode([2], 40, draft, random_target, 3, **options)[0] != expected


def test_a_bias_is_read_when_the_decoder_is_made():
    bias = np.zeros(64, np.float32)
    decoder = SpeculativeDecoder(None, random_target, bias=bias)
    before = decoder.generate([2], 9).tokens
    bias[:] = np.arange(64)
    assert decoder.generate([2], 9).tokens == before


def test_figures_count_up_to_the_first_rejection_only():
    rounds = [Round(tuple(range(n + 1)), 4, n, 1.0, 2.0, 0.5, None) for n in (1, 0, 4)]
    report = report_of(rounds, 12.0)
    assert (sum(report.accepted), sum(report.drafted)) == (5, 12)
    assert report.histogram == (1, 1, 0, 0, 1)
    assert report.tokens_per_target_pass == pytest.approx(8 / 3, abs=1e-15)
    assert report.tested_acceptance == 5 / 7
    assert report.draft_utilisation == 5 / 12
    assert (report.draft_seconds, report.target_seconds, report.verify_seconds) == (3.0, 6.0, 1.5)
    assert report.tokens_per_second == 8 / 12


def test_rounds_add_up_to_the_text():
    decoder = SpeculativeDecoder(LogitDraft(), random_target, 3, sampling=Sampling(), rng=4, end_tokens=range(8))
    rounds = list(decoder.rounds([3], 60))
    tokens, report = decoder.generate([3], 60)
    assert [token for one in rounds for token in one.tokens] == tokens == list(decoder.stream([3], 60))
    assert tuple(one.n_accepted for one in rounds) == report.accepted
    assert rounds[-1].finish_reason == report.finish_reason == "end"
    assert all(one.finish_reason is None for one in rounds[:-1])


def test_a_draft_may_propose_less_and_arrays_of_any_kind():
    def halting(prefix, k):
        n = (prefix[-1] * 5 % 7) % 3
        return np.array([(prefix[-1] + i) % V for i in range(1, n + 1)], np.int32)[:k], np.zeros((0, V))

    tokens, report = decode([1], 30, halting, following)
    assert tokens == list(range(2, 32))
    assert set(report.drafted) >= {0, 1, 2}


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, r"prompt_ids: expected at least one token", ([], 4)),
        (TypeError, r"prompt_ids: expected integers, got dtype float64", ([0.5], 4)),
        (ValueError, r"max_new: expected 0 or more, got -1", ([1], -1)),
    ],
)
def test_wrong_calls(error, message, arguments):
    for method in ("generate", "rounds", "stream"):
        with pytest.raises(error, match=message):
            getattr(SpeculativeDecoder(agreeing, following), method)(*arguments)


def test_wrong_steps():
    with pytest.raises(ValueError, match="draft_step: expected at most 4 tokens, got 5"):
        decode([1], 9, lambda prefix, k: agreeing(prefix, 5))
    with pytest.raises(TypeError, match="tokens: expected integers"):
        decode([1], 9, lambda prefix, k: ([0.5] * k, None))
    with pytest.raises(
        ValueError, match="target_step: expected 5 rows, for 4 proposed tokens and the one after them, got 1"
    ):
        decode([1], 9, target=lambda prefix, proposed: EYE[:1])
    with pytest.raises(ValueError, match=r"target_step: expected rows, shape \[n \+ 1, V\], got shape \(1, 5, 128\)"):
        decode([1], 9, target=lambda prefix, proposed: following(prefix, proposed)[None])
    with pytest.raises(ValueError, match=r"tokens\[0\] = 128 is outside"):
        decode([1], 9, lambda prefix, k: ([128], None))


def test_wrong_options():
    for message, options in {
        "k: expected 0 or more, got -1": {"k": -1},
        "greedy: expected False or None": {"greedy": True, "sampling": Sampling(temperature=0.5)},
        "rule: expected one of token, block": {"rule": "tree"},
        "mask: expected greedy decoding or sampling": {"greedy": False, "mask": alternating},
        "bias: expected greedy decoding or sampling": {"greedy": False, "bias": [0.0]},
        "normalized: expected False, except for probabilities": {"greedy": False, "sampling": S, "normalized": True},
        "normalized: expected False, except for prob.*, got True": {"normalized": True},
        r"bias: expected shape \[V\], got \(1, 2\)": {"bias": [[0.0, 0.0]]},
        r"bias\[1\] = nan: expected a number below infinity": {"bias": [0.0, math.nan]},
        r"bias\[0, 1\] = inf|bias\[1\] = inf": {"bias": [0.0, 1e300]},
        r"stop\[1\]: expected at least one token": {"stop": [[1], []]},
    }.items():
        with pytest.raises(ValueError, match=message):
            SpeculativeDecoder(agreeing, following, **options)


def test_a_bias_cannot_be_written_to_by_a_draft():
    class Writing(LogitDraft):
        def begin(self, start):
            start.bias[0] = 9.0

    with pytest.raises(ValueError, match="read-only"):
        decode([1], 3, Writing(), random_target, bias=np.zeros(64))


def test_a_draft_length_outside_the_limit_is_refused():
    class Eager:
        def begin(self):
            pass

        def choose(self, limit):
            return limit + 1

        def observe(self, done, requested):
            pass

    with pytest.raises(ValueError, match=r"Eager.choose\(8\): expected 0 to 8, got 9"):
        decode([1], 9, k=Eager())


class Scripted:
    """A draft length that drafts three tokens and fails to learn in one round."""

    def __init__(self, fails_in_round):
        self.left = fails_in_round

    def begin(self):
        pass

    def choose(self, limit):
        return min(3, limit)

    def observe(self, one, requested):
        self.left -= 1
        if self.left == 0:
            raise OSError("it broke")


def test_a_round_that_fails_after_its_verdict_was_never_there():
    """Whatever fails, no token is committed that nobody was given: going on gives the text without a gap."""
    target = Model(following)
    rounds = SpeculativeDecoder(agreeing, target, Scripted(fails_in_round=2)).rounds([1], 11)
    given = list(next(rounds).tokens)
    with pytest.raises(OSError, match="it broke"):
        next(rounds)
    assert target.cache == [1, *given][:-1]
    given += [token for one in rounds for token in one.tokens]
    assert given == list(range(2, 13))


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (TypeError, "target_step: expected a function .* got the class Model", {"target": Model}),
        (TypeError, "draft_step: expected a function .* got int", {"draft": 3}),
        (TypeError, r"draft_step: expected a tuple \(tokens, rows\), got list", {"draft": lambda prefix, k: [1, 2]}),
        (TypeError, "k: expected an integer or a draft length, got the class Scripted", {"k": Scripted}),
        (TypeError, r"sampling: expected Sampling\(...\) or None, got dict", {"sampling": {"temperature": 1}}),
        (TypeError, r"end_tokens\[1\]: expected a token id, got str", {"end_tokens": [1, "b"]}),
        (TypeError, "end_tokens: expected token ids, got float", {"end_tokens": 2.0}),
        (TypeError, r"stop\[0\]: expected a sequence of token ids, got the number 5", {"stop": [5, 6]}),
        (TypeError, "stop: expected sequences of token ids, got str", {"stop": "END"}),
        (ValueError, r"prompt_ids: expected the tokens of one text, shape \[n\], got str", {"prompt": "hello"}),
        (TypeError, "k: expected an integer, got float", {"k": 4.0}),
        (TypeError, "k: expected an integer, got str", {"k": "4"}),
        (TypeError, "k: expected an integer, got bool", {"k": True}),
        (TypeError, "k: expected an integer, got ndarray", {"k": np.array(4)}),
        (TypeError, "max_new: expected an integer, got float", {"max_new": 2.5}),
        (
            TypeError,
            "mask: expected int32 words of 32 tokens each, or bool.*got dtype int64",
            {"mask": lambda text: np.full(4, -1)},
        ),
        (ValueError, r"mask: expected bool \[128\], got \[5\]", {"mask": lambda text: np.ones(5, bool)}),
        (ValueError, r"mask: expected bool \[128\], got \[1\]", {"mask": lambda text: [True]}),
        (
            ValueError,
            r"mask: expected shape \[V\] of bool, got \(1, 128\)",
            {"mask": lambda text: np.ones((1, V), bool)},
        ),
        (TypeError, "mask: expected a function of the text, got ndarray", {"mask": np.ones(V, bool)}),
        (TypeError, "bias: expected real numbers, got dtype <U1", {"bias": ["a"]}),
        (ValueError, r"bias: expected shape \(128,\) or \(1, 128\), got \(3,\)", {"bias": np.zeros(3)}),
        (TypeError, "rng: expected what .* got RandomState", {"rng": np.random.RandomState(0)}),
        (ValueError, r"mask: expected shape \[ceil", {"mask": lambda text: np.full((1, 4), -1, np.int32)}),
        (
            ValueError,
            r"mask: expected shape \(4,\), as at the position before, got \(3,\)",
            {"mask": lambda text: np.full(5 - len(text), -1, np.int32)},
        ),
    ],
)
def test_wrong_types(error, message, options):
    with pytest.raises(error, match=message):
        decode(**{"prompt": [1], "max_new": 9, **options})


def test_integers_of_numpy_are_draft_lengths():
    assert decode([1], np.int64(9), k=np.int8(3))[1].drafted == (3, 3, 0)


def test_one_end_token_may_stand_alone_and_none_is_none():
    assert decode([1], 9, end_tokens=5)[1].finish_reason == "end"
    assert decode([1], 9, end_tokens=None)[1].finish_reason == "length"


def test_truncate_need_not_count():
    class Silent(Model):
        def truncate(self, keep):
            super().truncate(keep)

    target = Silent(following)
    assert decode([1, 2], 4, disagreeing, target, 3)[0] == [3, 4, 5, 6]


def test_a_roll_back_that_fails_behind_another_failure_is_said_and_ends_the_text():
    target = Model(following, fails_in_call=2, stuck_from_call=2)
    rounds = SpeculativeDecoder(agreeing, target, 4).rounds([1], 20)
    next(rounds)
    with pytest.raises(OSError, match="the target broke") as failed:
        next(rounds)
    assert "and the text cannot go on: Model.truncate(5)" in failed.value.__notes__[0]
    assert list(rounds) == []
