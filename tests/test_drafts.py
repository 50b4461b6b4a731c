"""Drafts without a model: the rule of the lookup beside a scan, the law of the n-gram draft beside its formula.

Then both in rounds and in the loop: whatever they propose, the text is the target's.
"""

import array
import doctest
import importlib
import itertools
import random
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from threading import Event, Thread
from types import SimpleNamespace

import exact
import numpy as np
import pytest

import specverify
from specverify._lookup import SuffixIndex
from specverify.decoder import SpeculativeDecoder
from specverify.drafts import NGramDraft, PromptLookup
from specverify.drafts.counts import Followers, interpolated
from specverify.steps import Start


def longest_repeat(text, max_n):
    """The rule, word by word: how long the match is, and where it ends."""
    for n in range(min(max_n, len(text) - 1), 0, -1):
        for end in range(n, len(text)):
            if text[end - n : end] == text[len(text) - n :]:
                return n, end
    return 0, 0


def scan(text, k, max_n, min_n=1):
    """What is to be proposed."""
    length, end = longest_repeat(text, max_n)
    return text[end : end + k] if length >= min_n else []


@pytest.mark.parametrize(
    ("text", "max_n", "k", "expected"),
    [
        ([5, 1, 2, 3, 9, 1, 2, 3], 3, 3, [9, 1, 2]),
        ([1, 2, 3, 4], 3, 3, []),
        ([1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3], 3, 2, [4, 9]),  # not the nearer match of two tokens
        ([1, 2, 7, 1, 2, 8, 1, 2], 2, 1, [7]),  # the earliest
        ([6, 6, 6, 6], 2, 4, [6, 6]),  # not beyond the text
        ([1, 2, 1, 2, 1, 2], 2, 3, [1, 2, 1]),
        ([4, 4], 3, 3, [4]),
        ([4], 3, 3, []),
        ([], 3, 3, []),
        ([6, 6, 6, 6], 2, 0, []),
    ],
)
def test_which_match_how_long_and_where_it_ends(text, max_n, k, expected):
    """Useless, empty or different proposals. vllm-project/vllm PR#22437."""
    assert PromptLookup(max_n=max_n)(text, k) == (expected, None)
    assert scan(text, k, max_n) == expected


def test_a_match_shorter_than_min_n_is_none():
    text = [1, 2, 3, 8, 2, 3]
    assert PromptLookup(max_n=5, min_n=2)(text, 2) == ([8, 2], None)
    assert PromptLookup(max_n=5, min_n=3)(text, 2) == ([], None)


BOUNDS = [(1, 1), (1, 2), (2, 3), (1, 50), (4, 50)]


@pytest.mark.parametrize("alphabet", [1, 2, 3, 4])
def test_the_index_finds_what_a_scan_finds(alphabet):
    """Every prefix of random texts, token by token."""
    rng = random.Random(alphabet)
    for _ in range(3):
        text = [rng.randrange(alphabet) for _ in range(25)]
        for min_n, max_n in BOUNDS:
            lookup, index = PromptLookup(max_n, min_n), SuffixIndex(max_n)
            for n in range(len(text) + 1):
                assert lookup(text[:n], 3) == (scan(text[:n], 3, max_n, min_n), None), (text[:n], min_n, max_n)
                assert index.longest_repeat() == longest_repeat(text[:n], max_n)
                index.extend(text[n : n + 1])


def fibonacci(n):
    shorter, longer = [0], [0, 1]
    while len(longer) < n:
        shorter, longer = longer, longer + shorter
    return longer[:n]


PERIODIC = {
    "a": [7] * 90,
    "ab": [7, 8] * 45,
    "fibonacci": fibonacci(90),
    "a, then b": [7] * 45 + [8] * 45,
    "each once, twice": [*range(45)] * 2,
}


@pytest.mark.parametrize("kind", PERIODIC)
def test_the_index_finds_it_in_texts_that_are_hard(kind):
    """Where many states are split, and suffixes are long. In steps that are no multiple of a period."""
    text = PERIODIC[kind]
    for min_n, max_n in ((1, 4), (3, 20), (1, 90)):
        lookup = PromptLookup(max_n, min_n)
        for n in range(0, len(text) + 1, 7):
            assert lookup(text[:n], 5) == (scan(text[:n], 5, max_n, min_n), None), (n, min_n, max_n)


def test_many_different_tokens_behind_one():
    """The transitions of one state go through every growth of the hash, and a split copies hundreds of them."""
    rng = random.Random(5)
    ids = [rng.getrandbits(63) for _ in range(400)]
    text = [x for one in ids for x in (3, 4, one)]
    lookup = PromptLookup(max_n=8)
    lookup(text, 1)
    for i in (0, 1, 200, 399):
        grown = [*text, 5, 4, ids[i]]  # splits 4 from 3, 4
        assert PromptLookup(max_n=8)(grown, 3) == (scan(grown, 3, 8), None)
    assert lookup(text, 1) == PromptLookup(max_n=8)(text, 1)


def test_nothing_is_too_long_to_look_for():
    assert PromptLookup(max_n=2**70)([1, 2, 3] * 3, 4) == ([1, 2, 3], None)


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        lambda text: array.array("l", text),
        np.array,
        lambda text: np.array(text, np.uint64),
        lambda text: np.array(text, np.int32)[::1],
        lambda text: np.repeat(np.array(text), 2)[::2],
        lambda text: [np.int16(token) for token in text],
    ],
)
@pytest.mark.parametrize("draft", [PromptLookup(max_n=3), NGramDraft()])
def test_any_sequence_of_integers_will_do(draft, make):
    text = [5, 1, 2, 3, 9, 1, 2, 3]
    draft.begin(Start(text, True, None, np.random.default_rng(0)))
    draft(make(text[:5]), 3)
    tokens, rows = draft(make(text), 3)
    assert (tokens, rows) == ([9, 1, 2], None)
    assert {type(token) for token in tokens} == {int}


class Watched(list):
    """A list that counts the entries read."""

    read = 0

    def __getitem__(self, which):
        found = super().__getitem__(which)
        Watched.read += len(found) if isinstance(which, slice) else 1
        return found

    def __iter__(self):
        raise AssertionError("the whole text is gone through")


@pytest.mark.parametrize("draft", [PromptLookup(max_n=500), NGramDraft()])
def test_only_new_tokens_are_looked_at(draft):
    """The history was converted at every step. vllm-project/vllm#22408, #16883."""
    draft.begin(Start([], True, None, np.random.default_rng(0)))
    text = Watched([7] * 4000)
    draft(text, 1)
    Watched.read = 0
    for _ in range(50):
        text.append(7)
        assert draft(text, 1) == ([7], None)
    assert Watched.read <= 50 * (1 + 13 + 2 * 32 + 1)  # the new one, samples of 4050, both ends of the match, k


def test_another_text_is_indexed_anew():
    lookup = PromptLookup(max_n=3)
    first = [1, 2, 3, 4, 1, 2]
    assert lookup(first, 2) == ([3, 4], None)
    assert lookup(first[:5], 2) == ([2, 3], None)  # shorter
    assert lookup([1, 2, 3, 4, 2, 1, 2], 2) == ([3, 4], None)  # another end
    assert lookup([9, 2, 3, 4, 2, 1, 2], 2) == ([3, 4], None)  # another beginning
    assert lookup([9, 2, 3, 4, 2, 1, 9], 2) == ([2, 3], None)
    assert lookup([9, 2, 3, 4, 2, 1, 7], 2) == ([], None)
    assert lookup([9, 2, 3, 4, 2, 1, 2], 2) == ([3, 4], None)
    assert lookup([], 2) == ([], None)
    assert lookup(first, 2) == ([3, 4], None)


def test_begin_forgets_the_text():
    lookup = PromptLookup(max_n=3)
    lookup([1, 2, 3, 4, 1, 2], 2)
    lookup.begin(Start([], True, None, np.random.default_rng(0)))
    assert len(lookup._index) == 0
    assert lookup([1, 2], 2) == ([], None)


def test_whatever_was_changed_a_proposal_stands_behind_a_match():
    """Changes where nobody looks: the answer may be another than a scan's, but is never made up."""
    rng = random.Random(3)
    different = 0
    for trial in range(200):
        min_n = 1 + trial % 3
        lookup = PromptLookup(max_n=6, min_n=min_n)
        text = [rng.randrange(3) for _ in range(40)]
        lookup(text, 4)
        for place in rng.sample(range(1, 38), 6):
            text[place] = rng.randrange(3)
        text += [rng.randrange(3) for _ in range(trial % 3)]
        found, _ = lookup(text, 4)
        different += found != scan(text, 4, 6, min_n)
        n = len(text)
        behind = {tuple(text[end : end + 4]) for end in range(min_n, n) if text[end - min_n : end] == text[n - min_n :]}
        assert tuple(found) in behind | {()}
    assert different  # else nothing was hidden


def test_texts_that_take_turns_do_not_mix():
    lookup = PromptLookup(max_n=4)
    rng = random.Random(4)
    texts = [[rng.randrange(3) for _ in range(60)] for _ in range(2)]
    for n in range(0, 60, 5):
        for text in texts:
            assert lookup(text[:n], 3) == (scan(text[:n], 3, 4), None)


class Slow(list):
    """A list that lets another thread go on while its new tokens are read, or for a tenth of a second waits for it."""

    def __init__(self, text):
        super().__init__(text)
        self.read, self.other_is_done = Event(), Event()

    def __getitem__(self, which):
        if isinstance(which, slice) and not self.read.is_set():
            self.read.set()
            self.other_is_done.wait(0.1)
        return super().__getitem__(which)


def test_threads_wait_for_each_other():
    lookup = PromptLookup(max_n=4)
    text, other = Slow([1, 2, 3, 4, 1, 2]), [2, 5, 2]
    found = []
    thread = Thread(target=lambda: found.append(lookup(text, 2)))
    thread.start()
    text.read.wait()
    found.append(lookup(other, 2))
    text.other_is_done.set()
    thread.join()
    assert sorted(found) == [([3, 4], None), ([5, 2], None)]


def test_a_token_may_come_back_to_the_index_that_converts_it():
    index = SuffixIndex(3)

    class Inside:
        def __index__(self):
            index.extend([1, 2, 1, 2])
            tokens.extend([8, 9])
            return 1

    tokens = [Inside(), 5]
    index.extend(tokens)
    assert [index[i] for i in range(len(index))] == [1, 2, 1, 2, 1, 5]
    index.extend([1, 5])
    assert index.longest_repeat() == (2, 6)
    with pytest.raises(IndexError):
        index[8]
    with pytest.raises(IndexError):
        index[-1]


EXHAUST = """
import resource
from specverify.drafts import PromptLookup
text = list(range(200_000))
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + 8_000_000, resource.RLIM_INFINITY))
try:
    bytearray(200_000_000)
except MemoryError:
    lookup = PromptLookup()
    for _ in range(2):
        try:
            for n in range(0, len(text), 5000):
                lookup(text[:n], 1)
            print("enough?")
        except MemoryError:
            print(len(lookup._index), lookup([1, 2, 1], 1))
else:
    print("no limit")
"""


@pytest.mark.spawns
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_without_memory_the_index_is_empty_and_works():
    done = subprocess.run([sys.executable, "-c", EXHAUST], capture_output=True, text=True, check=True)
    if done.stdout == "no limit\n":
        pytest.skip("memory of a process cannot be limited here, as under an emulator")
    assert done.stdout == "0 ([2], None)\n" * 2


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda: PromptLookup(max_n=0), ValueError, "max_n: expected 1 or more, got 0"),
        (lambda: PromptLookup(max_n=2, min_n=3), ValueError, "min_n: expected 1 to max_n = 2, got 3"),
        (lambda: PromptLookup(min_n=0), ValueError, "min_n: expected 1 to max_n = 3, got 0"),
        (lambda: PromptLookup(max_n=2.0), TypeError, "max_n: expected an integer, got float"),
        (lambda: NGramDraft(order=0), ValueError, "order: expected 1 or more, got 0"),
        (lambda: NGramDraft(width=0), ValueError, "width: expected 1 or more, got 0"),
        (lambda: NGramDraft(order=2, min_order=3), ValueError, "min_order: expected 1 to order = 2, got 3"),
        (lambda: NGramDraft(order="3"), TypeError, "order: expected an integer, got str"),
        (lambda: NGramDraft().train([1, -2]), ValueError, r"tokens\[1\] = -2 is outside \[0, 2\*\*63\)"),
        (lambda: NGramDraft()([1], 1), RuntimeError, r"expected begin\(start\)"),
    ],
)
def test_settings_are_checked(make, error, told):
    with pytest.raises(error, match=told):
        make()


@pytest.mark.parametrize("draft", [PromptLookup(), NGramDraft()])
@pytest.mark.parametrize(
    ("bad", "error", "told"),
    [
        (-1, ValueError, r"prefix\[5\] = -1 is outside \[0, 2\*\*63\)"),
        (2**63, ValueError, r"prefix\[5\] = 9223372036854775808 is outside"),
        (1.0, TypeError, r"prefix\[5\]: expected an integer, got float"),
        (np.True_, TypeError, r"prefix\[5\]: expected an integer, got bool"),
        ([1], TypeError, r"prefix\[5\]: expected an integer, got list"),
    ],
)
def test_a_bad_token_is_named_and_changes_nothing(draft, bad, error, told):
    text = [1, 2, 3, 4]
    draft.begin(Start(text, True, None, np.random.default_rng(0)))
    draft(text, 2)
    for _ in range(2):
        with pytest.raises(error, match=told):
            draft([*text, 1, bad, 7], 2)
    assert draft([*text, 1], 2) == ([2, 3], None)
    with pytest.raises(ValueError, match="k: expected 0 or more, got -1"):
        draft(text, -1)


class Chosen:
    """A random stream that gives chosen numbers, and then one number over and over."""

    def __init__(self, *uniforms, then=0.5):
        self.uniforms, self.then, self.used = list(uniforms), then, 0

    def random(self):
        self.used += 1
        return self.uniforms.pop(0) if self.uniforms else self.then


def begun(draft, uniforms=(), *, greedy=False):
    stream = Chosen(*uniforms)
    draft.begin(Start([], greedy, None, stream))
    return stream


def textbook_row(texts, context, order):
    """Witten-Bell in fractions, counted by going through the texts, each one more trusted than the one before it."""
    law = None
    for n in range(order):
        if n > len(context):
            break
        end = context[len(context) - n :]
        for text in texts:
            behind = Counter(text[i] for i in range(n, len(text)) if text[i - n : i] == end)
            if behind:
                seen, kinds = sum(behind.values()), len(behind)
                shorter = law or dict.fromkeys(behind, Fraction(0))
                scale = seen + kinds if law else seen
                law = {x: (behind[x] + kinds * shorter.get(x, 0)) / Fraction(scale) for x in {*behind, *shorter}}
    return law or {}


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("corpus", [[], [1, 2, 0, 1, 2, 0, 3, 3, 1, 2]])
def test_rows_are_the_textbook_law(order, corpus):
    """Of all tokens, and for contexts of drafted tokens, which are not counted."""
    rng = random.Random(order)
    draft = NGramDraft(order, width=8, min_order=1)
    draft.train(corpus)
    begun(draft, [rng.random() for _ in range(500)])
    text = []
    for _ in range(12):
        text += [rng.randrange(6) for _ in range(3)]
        tokens, rows = draft(text, 4)
        assert len(tokens) == len(rows) == 4
        for i in range(4):
            expected = textbook_row([corpus, text], [*text, *tokens[:i]], order)
            part = slice(*rows.offsets[i : i + 2].tolist())
            row = dict(zip(rows.ids[part].tolist(), rows.probs[part].tolist(), strict=True))
            assert row.keys() == expected.keys()
            for token, probability in expected.items():
                # float32 rounds by 2**-24 of it; a dozen float64 operations before that by 2**-49.
                assert abs(Fraction(row[token]) - probability) <= probability * (
                    Fraction(1, 2**24) + Fraction(1, 2**48)
                )
            assert abs(sum(row.values()) - 1) <= 2**-24 + 2**-48


def test_a_row_is_cut_to_the_most_probable_ties_by_lowest_id():
    draft = NGramDraft(order=1, width=2, min_order=1)
    begun(draft)
    _, rows = draft([5, 3, 4, 3, 5, 4, 9], 1)
    assert (rows.ids.tolist(), rows.probs.tolist()) == ([3, 4], [0.5, 0.5])
    for uniform, expected in ((0.0, 3), (np.nextafter(0.5, 0), 3), (0.5, 4), (1 - 2**-53, 4)):
        begun(draft, [uniform])
        assert draft([5, 3, 4, 3, 5, 4, 9], 1)[0] == [expected]
    _, rows = draft([5, 3, 4, 3, 5, 4, 9, 9, 9], 1)
    assert (rows.ids.tolist(), rows.probs.tolist()) == ([3, 9], [np.float32(0.4), np.float32(0.6)])


@pytest.mark.parametrize("width", [1, 2, 5])
def test_the_most_frequent_are_known_at_any_time(width):
    rng = random.Random(width)
    followers = Followers(width)
    for _ in range(300):
        followers.add(min(rng.randrange(12), rng.randrange(12)))
        ranking = sorted(followers.counts, key=lambda token: (-followers.counts[token], token))
        assert set(followers.best) == set(ranking[:width])
        assert followers.total == sum(followers.counts.values())
        assert [token for token, _ in interpolated([followers], width)] == ranking[:width]


def test_tokens_have_exactly_the_law_of_their_rows():
    """The uniforms of 53 bits, which NumPy draws, at which the drafted token changes, by bisection.

    Two roundings move each end of a token's interval: that of uniform * total, 2**-53 of a number below 1, and that to
    the next uniform. So an interval is within four steps of 2**-53 of the token's probability.
    """
    text = [1, 2, 1, 3, 1, 2, 5, 1, 4, 4, 1, 2, 0, 1]
    draft = NGramDraft(order=3, width=5)

    def drafted(step):
        begun(draft, [step / 2**53])
        (token,), rows = draft(text, 1)
        return token, rows

    _, rows = drafted(0)
    ids, probs = rows.ids.tolist(), [Fraction(prob) for prob in rows.probs.tolist()]
    assert len(ids) == 5
    starts = [0]
    for token in ids[1:]:
        low, high = starts[-1], 2**53
        while low < high:
            middle = (low + high) // 2
            if middle < 2**53 and drafted(middle)[0] < token:
                low = middle + 1
            else:
                high = middle
        starts.append(low)
    for i, (start, stop) in enumerate(itertools.pairwise([*starts, 2**53])):
        assert drafted(start)[0] == drafted(stop - 1)[0] == ids[i]
        assert abs(stop - start - 2**53 * probs[i] / sum(probs)) <= 4


def test_tokens_are_those_that_sample_draws():
    uniforms = np.random.default_rng(8).random(60).tolist()
    draft = NGramDraft(order=3, width=4)
    stream = begun(draft, uniforms)
    tokens, rows = draft([3, 1, 2, 1, 3, 1, 2, 5, 1, 4, 4, 1, 2, 0, 1], 60)
    assert stream.used == len(tokens) == 60
    assert tokens == specverify.sample(rows.dense(6), uniforms).tolist()


def test_a_greedy_text_gets_the_most_probable_tokens():
    draft = NGramDraft(order=3, min_order=2)
    stream = begun(draft, greedy=True)
    assert draft([1, 2, 3, 1, 2, 4, 1, 2, 4, 5, 1], 4) == ([2, 4, 1, 2], None)
    assert stream.used == 0


def test_drafting_stops_where_nothing_is_known():
    text = [1, 2, 3, 9]
    for min_order, expected in ((1, 3), (2, 0)):
        draft = NGramDraft(order=3, min_order=min_order)
        begun(draft)
        tokens, rows = draft(text, 3)
        assert len(tokens) == len(rows) == expected
        assert draft([], 3)[0] == []
    draft = NGramDraft(order=3, min_order=3)
    begun(draft, greedy=True)
    assert draft([1, 2, 3, 9, 1, 2], 8)[0] == [3, 9, 1, 2, 3, 9, 1, 2]
    assert draft([1, 2, 3, 9, 2], 8)[0] == []


def test_a_text_that_grows_is_counted_as_one_read_at_once():
    rng = random.Random(6)
    text = [rng.randrange(5) for _ in range(120)]
    grown = NGramDraft(order=3, width=3)
    begun(grown)
    n = 0
    while n < len(text):
        n += rng.randrange(1, 9)
        at_once = NGramDraft(order=3, width=3)
        for draft in (grown, at_once):
            draft._start = SimpleNamespace(rng=np.random.default_rng(n), greedy=False)
        (tokens, rows), (expected_tokens, expected) = grown(text[:n], 6), at_once(text[:n], 6)
        assert tokens == expected_tokens
        assert rows.ids.tolist() == expected.ids.tolist()
        assert rows.probs.tobytes() == expected.probs.tobytes()


def test_a_text_is_forgotten_and_a_corpus_is_not():
    draft = NGramDraft(order=2)
    draft.train([1, 2, 1, 2])
    draft.train([3])  # a text of its own: nothing stood after the 2 before it
    begun(draft, greedy=True)
    assert draft([7, 8, 7], 1) == ([8], None)
    assert draft([7, 9, 7], 1) == ([9], None)  # another text
    begun(draft, greedy=True)
    assert draft([7], 1) == ([], None)
    assert draft([1], 3) == ([2, 1, 2], None)
    assert draft([2], 1) == ([1], None)


def paths_of(draft, text, k):
    """Every draft that can come out, with its probability by the rows, and the rows."""

    def follow(uniforms, chance):
        begun(draft, uniforms)
        tokens, rows = draft(text, k)
        depth = len(uniforms)
        if depth >= len(tokens):
            yield tokens, rows, chance
            return
        row = slice(*rows.offsets[depth : depth + 2].tolist())
        weights = [Fraction(prob) for prob in rows.probs[row].tolist()]
        before = Fraction(0)
        for weight in weights:
            yield from follow([*uniforms, float((before + weight / 2) / sum(weights))], chance * weight / sum(weights))
            before += weight

    yield from follow([], Fraction(1))


@pytest.mark.parametrize("verify", [specverify.verify_sampled, specverify.verify_block])
def test_a_round_of_the_ngram_draft_has_the_law_of_the_target(verify):
    """All drafts, all cells of the uniforms: the joint law of three tokens, in fractions, the drafts by their rows.

    Some drafts end early, after two tokens of which nothing is known.
    """
    vocab, k, text = 4, 2, [0, 1, 0, 2, 0, 1, 0, 2, 2, 3, 3, 3, 1, 0]

    def target(before):
        rng = random.Random(str(before))
        return [rng.randint(0, 5) for _ in range(vocab - 1)] + [1]

    points = exact.breakpoints if verify is specverify.verify_sampled else exact.block_breakpoints
    drafts = list(paths_of(NGramDraft(order=3, width=4, min_order=3), text, k))
    assert {len(tokens) for tokens, _, _ in drafts} == {1, 2}
    assert sum(chance for _, _, chance in drafts) == 1
    law = Counter()
    for tokens, rows, chance in drafts:
        target_rows = [target(tuple(tokens[:i])) for i in range(len(tokens) + 1)]
        draft_rows = [[int(Fraction(x) * 2**60) for x in row] for row in rows.dense(vocab).tolist()]
        for volume, uniforms in exact.cells(target_rows, draft_rows, tokens, points):
            n_accepted, next_token = verify(target_rows, rows, tokens, [float(u) for u in uniforms])
            emitted = (*tokens[:n_accepted], next_token)
            for rest, rest_chance in exact.texts(target, k + 1 - len(emitted), emitted):
                law[emitted + rest] += chance * volume * rest_chance
    assert law == dict(exact.texts(target, k + 1))


def test_rounds_of_the_lookup():
    text = [2, 0, 1, 3, 2, 0]
    tokens, rows = PromptLookup()(text, 2)
    assert (tokens, rows) == ([1, 3], None)
    target = np.eye(4, dtype=np.float32)[[1, 2, 0]]
    assert specverify.verify_greedy(target, tokens) == (1, 2)
    assert specverify.verify_sampled(target, rows, tokens, [0.9, 0.9, 0.9]) == (1, 2)
    tokens, rows = PromptLookup()([2, 0], 2)
    assert specverify.verify_sampled(target[:1], rows, tokens, [0.9]) == (0, 1)


def test_a_draft_of_no_tokens_can_be_verified():
    draft = NGramDraft()
    begun(draft)
    tokens, rows = draft([1], 3)
    assert specverify.verify_sampled([[0.0, 1.0]], rows, tokens, [0.5]) == (0, 1)


PERIOD = [3, 1, 4, 1, 5]


def periodic_target(sharpness):
    """Says the next token of a period with this weight beside seven others of 1, and knows its place by the length."""

    def target(prefix, proposed):
        rows = np.ones((len(proposed) + 1, 8), np.float32)
        for i, row in enumerate(rows):
            row[PERIOD[(len(prefix) + i) % len(PERIOD)]] = sharpness
        return rows

    return target


@pytest.mark.parametrize("make", [PromptLookup, NGramDraft])
def test_the_loop_gives_the_greedy_text_in_fewer_passes(make):
    prompt = PERIOD * 2
    decoder = SpeculativeDecoder(make(), periodic_target(9), k=4)
    for _ in range(2):  # a second text begins anew
        tokens, report = decoder.generate(prompt, max_new=40)
        assert tokens == PERIOD * 8
        assert report.rounds == 8
        assert report.draft_utilisation == 1


@pytest.mark.parametrize("make", [PromptLookup, NGramDraft])
def test_the_loop_gives_the_same_sampled_text_for_the_same_seed(make):
    def text_of(seed):
        draft = make()
        decoder = SpeculativeDecoder(draft, periodic_target(60), k=4, greedy=False, rng=seed)
        return decoder.generate(PERIOD * 2, max_new=60)

    first, report = text_of(1)
    assert first == text_of(1).tokens != text_of(2).tokens
    assert 0 < report.tested_acceptance < 1
    assert report.rounds < 60


@pytest.mark.parametrize(("module", "least"), [("lookup", 4), ("ngram", 8)])
def test_examples_of_the_drafts_run(module, least):
    result = doctest.testmod(importlib.import_module(f"specverify.drafts.{module}"))
    assert result.failed == 0
    assert result.attempted >= least
