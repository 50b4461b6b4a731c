"""The inputs of the golden rounds, made from integers alone, and one line of text for what came of each.

The inputs depend on nothing that could differ between machines: the generator is SplitMix64 on unsigned integers,
floats are put together from bits, and the only arithmetic on them is a multiplication or division that IEEE 754 rounds
correctly. NumPy's own generators and the C library's functions are not used. Holds no expectation: those are in
golden/rounds.txt, written by tools/make_golden.py and read by test_golden.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FILE = Path(__file__).parent / "golden" / "rounds.txt"

# Rounds of each size: the sizes around every boundary of a loop (16 lanes, pieces of 256, blocks of 4096), a vocabulary
# of a real model, and one row so long that its blocks are doubled (more than 256 * 4096 entries).
ROUNDS = {
    **dict.fromkeys((1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97), 120),
    **dict.fromkeys((255, 256, 257, 1000), 100),
    **dict.fromkeys((4095, 4096, 4097), 45),
    **dict.fromkeys((8200, 12305), 24),
    32000: 16,
    1_048_593: 2,
}


class Round(NamedTuple):
    number: int
    greedy: bool
    target: np.ndarray
    draft: np.ndarray | None
    tokens: np.ndarray
    uniforms: np.ndarray
    normalized: bool
    position: int  # the rows whose masses are written down


class SplitMix64:
    """Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014; the constants are theirs."""

    GAMMA = 0x9E3779B97F4A7C15

    def __init__(self, seed: int) -> None:
        self.state = seed * self.GAMMA % 2**64

    def words(self, n: int) -> np.ndarray:
        """The next n outputs."""
        z = np.uint64(self.state) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(self.GAMMA)
        self.state = (self.state + n * self.GAMMA) % 2**64
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def word(self) -> int:
        """The next output. In Python's integers: arrays of one cost ten times as much, and most rounds are short."""
        self.state = z = (self.state + self.GAMMA) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        return self.word() % bound

    def choice(self, options: Any) -> Any:
        return options[self.below(len(options))]


def _floats(bits: np.ndarray) -> np.ndarray:
    return bits.astype(np.uint32).view(np.float32)


# Rows of probabilities, up to a factor. Each has a positive entry.


def _even(random: SplitMix64, n: int) -> np.ndarray:
    return (random.words(n) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def _steep(random: SplitMix64, n: int) -> np.ndarray:
    """Exponents from 2**-40 to 1: a few entries hold nearly all of the mass, as after a softmax."""
    words = random.words(n)
    exponents = np.uint64(127 - 40) + words % np.uint64(41)
    return _floats((exponents << np.uint64(23)) | (words >> np.uint64(41)))


def _huge(random: SplitMix64, n: int) -> np.ndarray:
    """Near the largest float32: the sum of a row is beyond float32."""
    words = random.words(n)
    return _floats((np.uint64(253) << np.uint64(23)) | (words >> np.uint64(41)))


def _subnormal(random: SplitMix64, n: int) -> np.ndarray:
    return _floats(random.words(n) >> np.uint64(41))


def _sparse(random: SplitMix64, n: int) -> np.ndarray:
    words = random.words(n)
    row = (words >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    row[words % np.uint64(8) != 0] = 0.0
    row[words % np.uint64(64) == 1] = -0.0
    return row


def _tied(random: SplitMix64, n: int) -> np.ndarray:
    return (random.words(n) >> np.uint64(62)).astype(np.float32)


def _one_hot(random: SplitMix64, n: int) -> np.ndarray:
    row = np.zeros(n, np.float32)
    row[random.below(n)] = 1.0
    return row


def _flat(random: SplitMix64, n: int) -> np.ndarray:
    return np.full(n, 0.1, np.float32)


PROBABILITIES = (_even, _even, _steep, _steep, _huge, _subnormal, _sparse, _sparse, _tied, _one_hot, _flat)


def _row(random: SplitMix64, n: int) -> np.ndarray:
    row = random.choice(PROBABILITIES)(random, n)
    if not row.any():
        row[random.below(n)] = 2.0**-24
    return row


def _summing_to_one(random: SplitMix64, n: int) -> np.ndarray:
    """Integers below 2**24, divided by their sum, which int64 holds exactly in any order of addition."""
    weights = (random.words(n) >> np.uint64(40)).astype(np.int64)
    weights[random.below(n)] += 1
    return (weights / weights.sum()).astype(np.float32)


def _draft_row(random: SplitMix64, target: np.ndarray) -> np.ndarray:
    """A row of its own, or one that leaves no residual, or nearly none."""
    kind = random.below(8)
    if kind == 0:
        return target.copy()
    if kind == 1:
        return target * np.float32(0.5)  # equal once both are divided by their sums
    if kind == 2:
        return target / np.float32(3.0)  # equal but for rounding
    if kind == 3:
        return target[::-1].copy()
    return _row(random, len(target))


def _logits(random: SplitMix64, n: int) -> np.ndarray:
    """For greedy rounds: any finite float32 of either sign, ties, only negatives, masks of -inf; or probabilities."""
    kind = random.below(6)
    words = random.words(n)
    if kind == 0:
        return _row(random, n)
    if kind == 1:
        row = (words >> np.uint64(61)).astype(np.float32) - np.float32(4.0)
    elif kind == 2:
        row = _floats(np.uint64(1 << 31) | (words >> np.uint64(33)) % np.uint64(0x7F800000))
    else:
        row = _floats(((words & np.uint64(1)) << np.uint64(31)) | (words >> np.uint64(33)) % np.uint64(0x7F800000))
    if kind == 4:
        row[words % np.uint64(4) != 0] = -np.inf
    if kind == 5:
        row[:] = -0.0
        row[random.below(n)] = random.choice((0.0, -0.0, -1.0))
    if np.all(row == -np.inf):
        row[random.below(n)] = -1.5
    return row


def _uniform(random: SplitMix64) -> float:
    if random.below(8) == 0:
        return float(random.choice((0.0, 2.0**-53, 0.5, 1.0 - 2.0**-53)))
    return (random.word() >> 11) * 2.0**-53


def _token(random: SplitMix64, row: np.ndarray) -> int:
    """Mostly a likely token, or else no round would get beyond its first position."""
    return int(np.argmax(row)) if random.below(4) else random.below(len(row))


def make(number: int, n: int) -> Round:
    """One round; what kind it is follows from its number alone."""
    random = SplitMix64(number + 1)
    k = random.choice((0, 1, 2, 4, 4, 4)) if n < 1_000_000 else 1
    if random.below(5) == 0:
        target = np.stack([_logits(random, n) for _ in range(k + 1)])
        tokens = [_token(random, target[i]) for i in range(k)]
        return Round(number, True, target, None, np.array(tokens, np.int64), np.zeros(k + 1), False, 0)
    normalized = random.below(3) == 0
    one = normalized and random.below(4) != 0  # a quarter of the trusted rows does not deserve the trust
    target = np.stack([(_summing_to_one if one else _row)(random, n) for _ in range(k + 1)])
    draft = None
    if k and random.below(4):
        draft = np.stack([_summing_to_one(random, n) if one else _draft_row(random, target[i]) for i in range(k)])
    tokens = [_token(random, target[i] if draft is None else draft[i]) for i in range(k)]
    uniforms = [_uniform(random) for _ in range(k + 1)]
    return Round(
        number, False, target, draft, np.array(tokens, np.int64), np.array(uniforms), normalized, random.below(k + 1)
    )


def rounds(largest: int = 2**31, every: int = 1) -> Iterator[Round]:
    """The rounds, or every so many of them, with rows of at most `largest` entries."""
    sizes = [n for n, count in ROUNDS.items() for _ in range(count)]
    for number, n in list(enumerate(sizes))[::every]:
        if n <= largest:
            yield make(number, n)


def line(given: Round, verdict: tuple[int, int], masses: list[float]) -> str:
    """What is written down: number, accepted, next token, and the float64 masses to their last bit."""
    n_accepted, next_token = verdict
    return " ".join([f"{given.number}", f"{n_accepted}", f"{next_token}", *(mass.hex() for mass in masses)])


def reference_line(given: Round, reference: Any) -> str:
    """What the oracle says; `reference` is the module specverify.reference, however it was imported."""
    if given.greedy:
        return line(given, reference.verify_greedy(given.target, given.tokens), [])
    verdict = reference.verify_sampled(
        given.target, given.draft, given.tokens, given.uniforms, normalized=given.normalized
    )
    target = given.target[given.position].astype(np.float64)
    masses = [reference.row_sum(target)]
    if given.draft is not None and given.position < len(given.draft):
        draft = given.draft[given.position].astype(np.float64)
        masses.append(reference.row_sum(draft))
        scaled = draft * (masses[0] / masses[1])
        masses.append(reference.row_sum(np.maximum(target - scaled, 0.0)))
    return line(given, verdict, masses)
