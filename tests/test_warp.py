"""Top-k, top-p and min-p against a slow definition of their own: sort, add up in exact integers, cut.

The definition is independent of the package but for the weights, which test_exp2.py holds to the true power of two.
Where a sum of weights comes within rounding of top-p, either answer is right, and nothing is compared.
"""

import bisect
import functools
import itertools
import math
from fractions import Fraction

import ml_dtypes
import mutants
import numpy as np
import pytest

import specverify
from specverify import Sampling, reference
from specverify.reference.warp import power_of_two

F = np.float32
INFINITY = float("inf")
UNIT = 2.0**149  # weights are multiples of 2**-149
CLEAR = Fraction(1, 10**9)  # of the total: farther from top-p than float64 sums of any row here can be off


def defined(logits: np.ndarray, sampling: Sampling) -> set[int] | None:
    """Which tokens survive; None if a sum is too close to top-p to say."""
    top = logits.max()
    if sampling.temperature == 0:
        return {int(np.argmax(logits))}
    scale = F(float.fromhex("0x1.71547652b82fep+0") / sampling.temperature)
    assert scale > 0
    order = np.lexsort((np.arange(len(logits)), -logits))
    if sampling.top_k:
        order = order[: sampling.top_k]
    units = power_of_two(logits, top, scale).astype(np.float64)[order] * UNIT
    weights = list(map(int, units.tolist()))  # exact, and from here on the largest first
    if sampling.top_p < 1:
        running = [0, *itertools.accumulate(weights)]
        goal = Fraction(sampling.top_p) * running[-1]
        cut = bisect.bisect_left(running, goal)  # of so many tokens the sum reaches the goal, of one fewer it does not
        if min(running[cut] - goal, goal - running[cut - 1]) < CLEAR * goal:
            return None
        weights = weights[:cut]
    least = max(1, math.ceil(Fraction(sampling.min_p) * weights[0]))
    return {i for i, weight in zip(order.tolist(), weights, strict=False) if weight >= least}


def survivors(logits: np.ndarray, sampling: Sampling, **options) -> set[int]:
    return set(np.flatnonzero(specverify.probabilities(logits, sampling, **options)).tolist())


SETTINGS = [
    *(Sampling(), Sampling(0.0), Sampling(0.8, top_k=40), Sampling(1.3, top_k=1), Sampling(0.7, top_p=0.9)),
    *(Sampling(top_p=0.35), Sampling(top_p=0.999), Sampling(1.5, min_p=0.05), Sampling(min_p=1.0), Sampling(1e-6)),
    *(Sampling(0.8, 40, 0.95, 0.05), Sampling(2.0, 3, 0.65), Sampling(5.0, 1500, 0.99, 0.001)),
    *(Sampling(9.0, 1023), Sampling(9.0, 1024), Sampling(9.0, 1025), Sampling(top_p=1e-9), Sampling(9.0, top_p=0.5)),
    *(Sampling(30.0, 2000, 0.7), Sampling(0.0, 5, 0.5, 0.5)),
]
SIZES = (1, 2, 3, 31, 33, 63, 64, 65, 255, 256, 257, 1025, 4095, 4097, 9000)


def rows(size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(size)
    spread = (rng.normal(size=size) * 3).astype(F)
    masked = spread.copy()
    masked[rng.random(size) < 0.7] = -INFINITY
    masked[rng.integers(size)] = 0.5
    lonely = np.full(size, -INFINITY, F)
    lonely[size - 1] = -7.5
    return {
        "spread": spread,
        "tied": np.round(spread),
        "two values": (rng.random(size) < 0.4).astype(F),
        "equal": np.full(size, -3, F),
        "zeros of both signs": np.where(rng.random(size) < 0.5, F(0), F(-0.0)),
        "negative": -np.abs(spread) - 1,
        "steep": spread * F(40),
        "falling": np.linspace(20, -20, size).astype(F),
        "rising": np.linspace(-1, 1, size).astype(F),
        "masked": masked,
        "only one": lonely,
        "huge": spread * F(1e37),
    }


@functools.cache
def expectations(size: int) -> list[tuple[np.ndarray, Sampling, set[int]]]:
    """Every row with every setting, or with every third where rows are long; once for all variants."""
    found = []
    for n, row in enumerate(rows(size).values()):
        settings = SETTINGS if size < 4000 else SETTINGS[n % 3 :: 3]
        found += [(row, sampling, defined(row, sampling)) for sampling in settings]
    told = [case for case in found if case[2] is not None]
    assert len(told) > 0.9 * len(found)
    return told


@pytest.mark.parametrize("size", SIZES)
def test_the_survivors_are_those_of_the_definition(isa, size):
    for row, sampling, expected in expectations(size):
        assert survivors(row, sampling) == expected


@pytest.mark.parametrize("size", SIZES)
def test_the_survivors_of_the_reference_are_those_of_the_definition(size):
    for row, sampling, expected in expectations(size)[:: 1 if size < 1000 else 4]:
        assert set(np.flatnonzero(reference.weights(row, sampling)).tolist()) == expected


@functools.cache
def long_expectations(size: int) -> list[tuple[np.ndarray, Sampling, set[int] | None]]:
    spread = (np.random.default_rng(size).normal(size=size) * 2).astype(F)
    tied = np.round(spread * 4) / 4
    cases = [
        (spread, Sampling(0.8, 40, 0.95, 0.05)),
        (spread, Sampling(1.0, top_p=0.95)),
        (tied, Sampling(1.0, top_k=3000, top_p=0.9)),
    ]
    return [(*case, defined(*case)) for case in cases]


@pytest.mark.parametrize("size", [70_000, 262_145])
def test_long_rows(isa, size):
    """Beyond 262,144 entries there is no maximum for every 64 of them any more, but for every 128."""
    for row, sampling, expected in long_expectations(size):
        assert survivors(row, sampling) == expected


def test_long_rows_give_the_bits_of_the_reference(isa):
    row = (np.random.default_rng(3).normal(size=262_200) * 2).astype(F)
    for sampling in (Sampling(0.8, 40, 0.95, 0.05), Sampling(2.0, top_p=0.6), Sampling(1.0, 2000)):
        got = specverify.probabilities(row, sampling)
        assert got.tobytes() == reference.probabilities(row, sampling).tobytes()


@pytest.mark.parametrize("k", [1, 2, 63, 64, 65, 1024, 1025, 4999, 5000, 10**12])
def test_top_k_keeps_exactly_k_and_the_first_of_equals(isa, k):
    equal = np.zeros(5000, F)
    assert survivors(equal, Sampling(top_k=k)) == set(range(min(k, 5000)))
    equal[4000:] = 1  # some are certain, the first of the others fill up
    expected = [*range(4000, 5000), *range(4000)][:k]
    assert survivors(equal, Sampling(top_k=k)) == set(expected)


@pytest.mark.parametrize("size", [3, 65, 1023, 1024, 1025, 2049, 4097])
def test_top_p_of_equal_tokens_keeps_the_first_that_reach_it(isa, size):
    """Sums of ones are exact: token n crosses when n >= top_p * size."""
    for top_p in (1e-9, 0.25, 0.5, 0.75, 1 - 2**-20):
        needed = int(-(-Fraction(top_p) * size // 1))
        expected = set(range(max(1, needed)))
        assert survivors(np.zeros(size, F), Sampling(top_p=top_p)) == expected
        assert set(np.flatnonzero(reference.weights(np.zeros(size, F), Sampling(top_p=top_p)))) == expected


def test_top_p_that_is_reached_exactly_needs_no_more(isa):
    """Temperature log2(e): weights 1/2, 1, 1/2. The largest, in a bin of its own, is half of them."""
    half = Sampling(float.fromhex("0x1.71547652b82fep+0"), top_p=0.5)
    logits = F([-1, 0, -1])
    assert survivors(logits, half) == {1}
    assert np.flatnonzero(reference.weights(logits, half)).tolist() == [1]


def test_min_p_keeps_the_token_that_is_exactly_at_it(isa):
    """Temperature log2(e) makes every integer step of a logit a factor of two."""
    halving = Sampling(float.fromhex("0x1.71547652b82fep+0"), min_p=0.25)
    assert survivors([0.0, -1.0, -2.0, -3.0], halving) == {0, 1, 2}
    assert survivors([0.0, -1.0, -2.0, -3.0], Sampling(halving.temperature, min_p=0.25 + 2**-50)) == {0, 1}


def test_each_filter_works_on_what_the_one_before_left(isa):
    """Top-p measures the survivors of top-k; the most probable token is min-p's measure in any order."""
    logits = np.log([0.40, 0.24, 0.16, 0.12, 0.08])
    assert survivors(logits, Sampling(top_k=3, top_p=0.65)) == {0, 1}
    assert survivors(logits, Sampling(top_p=0.65)) == {0, 1, 2}
    assert survivors(logits, Sampling(top_p=0.9, min_p=0.35)) == {0, 1, 2}
    # Of what min-p would leave (.40, .24), .62 is reached by the first alone; of the whole row it is not.
    assert survivors(logits, Sampling(top_p=0.62, min_p=0.5)) == {0, 1}


@pytest.mark.parametrize("temperature", [0.0, 1e-12, 1e-5, 5e-324])
@pytest.mark.parametrize("dtype", [np.float16, F, np.float64])
def test_a_tiny_temperature_does_not_overflow(isa, temperature, dtype):
    """The quotients of these logits are infinite in float16. vllm-project/vllm PR#890, #3063."""
    logits = np.array([3.5, 12.25, 11.0], dtype)
    assert specverify.probabilities(logits, Sampling(temperature)).tolist() == [0, 1, 0]
    for uniform in (0.0, 0.5, 0.999999):
        assert specverify.verify_sampled(logits[None], None, [], [uniform], sampling=Sampling(temperature)) == (0, 1)


@pytest.mark.parametrize("temperature", [1e30, 1e38, 1e300])
def test_a_huge_temperature_levels_everything_but_masks(isa, temperature):
    logits = F([3.5, -INFINITY, 11.0, -40])
    for sampling in (Sampling(temperature), Sampling(temperature, top_p=0.99), Sampling(temperature, top_k=3)):
        assert specverify.probabilities(logits, sampling).tolist() == [F(1 / 3), 0, F(1 / 3), F(1 / 3)]


def test_at_least_one_token_survives(isa):
    hardest = Sampling(0.3, top_k=1, top_p=1e-300, min_p=1.0)
    for size in SIZES:
        for row in rows(size).values():
            assert survivors(row, hardest) == {int(np.argmax(row))}


def packed(allowed: np.ndarray) -> np.ndarray:
    """One bit a token, lowest first, in int32 words."""
    padded = np.zeros(-(-len(allowed) // 32) * 32, bool)
    padded[: len(allowed)] = allowed
    return np.packbits(padded, bitorder="little").view(np.int32)


@pytest.mark.parametrize("size", [1, 31, 32, 33, 64, 255, 4096, 4097, 5000])
def test_a_bitmask_is_minus_infinity(isa, size):
    rng = np.random.default_rng(size)
    row, allowed = rng.normal(size=size).astype(F), rng.random(size) < 0.5
    allowed[rng.integers(size)] = True
    masked = np.where(allowed, row, F(-INFINITY))
    row[~allowed] = np.nan  # what is not allowed is not looked at
    for sampling in SETTINGS[:12]:
        got = specverify.probabilities(row, sampling, mask=packed(allowed))
        assert got.tobytes() == specverify.probabilities(masked, sampling).tobytes()
    assert specverify.verify_greedy(row[None], [], mask=packed(allowed)[None]) == (0, np.argmax(masked))


@pytest.mark.parametrize("size", [1, 33, 256, 4097])
def test_a_bias_is_added_to_the_logits_in_float32(isa, size):
    rng = np.random.default_rng(size)
    row, bias = rng.normal(size=size).astype(F), rng.normal(size=size).astype(F)
    bias[rng.random(size) < 0.2] = -INFINITY
    bias[0] = 3
    for sampling in SETTINGS[:12]:
        got = specverify.probabilities(row, sampling, bias=bias)
        assert got.tobytes() == specverify.probabilities(row + bias, sampling).tobytes()
    assert specverify.verify_greedy(row[None], [], bias=bias) == (0, np.argmax(row + bias))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64], ids=["f16", "bf16", "f64"])
@pytest.mark.parametrize("size", [1, 65, 257, 4097])
def test_other_types_are_what_they_are_in_float32(isa, dtype, size):
    for row in rows(size).values():
        with np.errstate(over="ignore"):
            other = row.astype(dtype)
        if not np.isfinite(other.astype(F).max()):
            continue
        for sampling in SETTINGS[::4]:
            converted = specverify.probabilities(other.astype(F), sampling)
            assert specverify.probabilities(other, sampling).tobytes() == converted.tobytes()


@pytest.mark.parametrize("entry", [np.nan, -np.nan, INFINITY])
@pytest.mark.parametrize("size", [1, 17, 65, 4097])
def test_logits_without_a_law(isa, size, entry):
    """No maximum, so no softmax either, at any temperature. vllm-project/vllm#53029, PR#21876, PR#45060, PR#50183."""
    for index, others in ((0, 1.0), (size // 2, -INFINITY), (size - 1, 1.0), (size - 1, -INFINITY)):
        row = np.full(size, others, F)
        row[index] = entry
        for sampling in (Sampling(), Sampling(0.0), Sampling(top_k=2), Sampling(top_p=0.5)):
            with pytest.raises(ValueError, match=rf"^rows\[{index}\] = (nan|inf): expected a logit below inf"):
                specverify.probabilities(row, sampling)
            with pytest.raises(ValueError, match=rf"^draft\[0, {index}\] = (nan|inf)"):
                specverify.verify_sampled(np.zeros((2, size)), row[None], [0], [0.5, 0.5], sampling=sampling)
            with pytest.raises(ValueError, match="NaN or inf"):
                reference.weights(row, sampling)
    with pytest.raises(ValueError, match=r"target\[0\] has no token left: every logit is -inf"):
        specverify.verify_sampled(np.full((1, size), -INFINITY), None, [], [0.5], sampling=Sampling())


def wrongly_warped(warp) -> int:
    """How many of the short rows and settings a warp gets wrong."""
    return sum(
        set(np.flatnonzero(warp(row, sampling)).tolist()) != expected
        for size in (3, 33)
        for row, sampling, expected in expectations(size)
    )


def test_the_parts_of_the_wrong_warps_are_right():
    assert wrongly_warped(mutants.right_warp) == 0


@pytest.mark.parametrize("name", mutants.WARPS)
def test_the_definition_rejects(name):
    assert wrongly_warped(mutants.WARPS[name]) > 0
