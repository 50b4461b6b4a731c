"""The weights of logits: the same bits in every variant, and how far they are from the true power of two.

Bound for a weight. With u = 2**-24: the difference of two logits is off by a factor 1 + u, the scale log2(e) / T by
1 + u (rounded to float64 before, which adds 2**-53), their product by 1 + u. So y is off by 3u |y|, in the exponent;
2**y by the factor 2**(3u |y|), that is by less than 2.08 u |y| for |y| <= 126. The polynomial adds 1.08 ulp, at most
2.16 u. Together: relative error at most u (2.16 + 2.08 |y|), 1.6e-5 for the smallest weight and 1.3e-7 for the largest.
The scale must not leave the range of float32: temperatures from 1e-38 to 1e38.
"""

import loops
import ml_dtypes
import mpmath
import numpy as np
import pytest

import specverify
from specverify import reference
from specverify.reference.warp import power_of_two

F = np.float32
LOG2_E = float.fromhex("0x1.71547652b82fep+0")
ULPS = 1.08  # of 2**f, |f| <= 1/2; stated in src/specverify/_exp2.h


def arguments() -> np.ndarray:
    """Differences from the largest logit: dense, around every rounding to an integer, extreme, and -inf."""
    dense = np.linspace(-128, 0, 2**18 + 1).astype(F)
    halves = np.arange(-128, 0, 0.5).astype(F)
    near = np.concatenate([np.nextafter(halves, F(side)) for side in (-np.inf, np.inf)])
    tiny = -np.geomspace(1e-45, 1, 5000).astype(F)
    return np.concatenate([dense, halves, near, tiny, F([0, -np.finfo(F).max, -np.inf, -125, -125.00001])])


@pytest.mark.parametrize("scale", [1.0, LOG2_E, LOG2_E / 0.8, 3e38, 1e-38, 0.0])
def test_every_variant_gives_the_bits_of_the_reference(isa, scale):
    for top in (0.0, 7.25, -3e38):
        with np.errstate(over="ignore"):
            logits = arguments() + F(top)
        got = loops.weigh(logits, top, scale)
        assert got.tobytes() == power_of_two(logits, F(top), F(scale)).tobytes()


@pytest.mark.parametrize("temperature", [0.05, 0.8, 1.0, 30.0])
def test_probabilities_are_made_of_these_weights(isa, temperature):
    logits, sampling = arguments()[::7] * F(temperature), specverify.Sampling(temperature)
    got = specverify.probabilities(logits, sampling)
    assert got.tobytes() == reference.probabilities(logits, sampling).tobytes()


def test_weights_do_not_fall_where_logits_grow():
    """Nearly: from one float32 to the next the polynomial may go back by the last place. The largest is exactly 1."""
    y = np.sort(arguments())
    w = power_of_two(y, F(0), F(1)).astype(np.float64)
    assert w[-1] == 1.0 == w.max()
    assert (w[1:] >= w[:-1] * (1 - 2**-23)).all()
    assert (w[y < -125] == 0).all()
    assert (w[y >= -125] >= 2.0**-126).all()


def test_float64_is_precise_enough_to_judge():
    """np.exp2 in float64 against mpmath: below 1e-6 of a unit of float32."""
    for y in np.random.default_rng(1).uniform(-125, 0.5, 2000):
        assert abs(np.exp2(y) / mpmath.mpf(2) ** mpmath.mpf(float(y)) - 1) < 1e-6 * 2**-24


def test_the_error_of_the_polynomial():
    """|f| <= 1/2: the argument is exact, so all of the error is the polynomial's."""
    worst_place = np.arange(F(0.49).view(np.uint32), F(0.5).view(np.uint32) + 1, dtype=np.uint32).view(F)
    f = np.unique(
        np.concatenate([np.linspace(0, 0.5, 2**20 + 1), np.geomspace(1e-9, 0.5, 10**5), worst_place]).astype(F)
    )
    f = np.concatenate([f, -f])
    exact = np.exp2(f.astype(np.float64))
    errors = np.abs(power_of_two(f, F(0), F(1)) - exact) / np.spacing(exact.astype(F))
    assert errors.max() <= ULPS
    worst = f[errors.argsort()[-200:]]
    for y, w in zip(worst, power_of_two(worst, F(0), F(1)), strict=True):
        true = mpmath.mpf(2) ** mpmath.mpf(float(y))
        assert abs(mpmath.mpf(float(w)) - true) <= ULPS * float(np.spacing(F(true)))


@pytest.mark.parametrize("temperature", [1e-30, 0.01, 0.1, 0.7, 1.0, 1.3, 100.0, 1e30])
def test_the_error_of_a_weight(temperature):
    rng = np.random.default_rng(5)
    top = F(rng.normal() * 20 * temperature)
    z = (top - rng.uniform(0, 86, 200_000) * temperature).astype(F)
    z = z[(z <= top)]
    w = power_of_two(z, top, F(LOG2_E / temperature))
    y = (z.astype(np.float64) - float(top)) * (LOG2_E / temperature)
    relative = np.abs(w / np.exp2(y) - 1)
    inside = y > -124.9
    assert inside.mean() > 0.9
    assert (relative <= 2**-24 * (2.16 + 2.08 * np.abs(y)))[inside].all()


PATTERNS = np.arange(2**16, dtype=np.uint16)


@pytest.mark.parametrize(
    ("name", "dtype"), [("widen_float16", np.float16), ("widen_bfloat16", ml_dtypes.bfloat16)], ids=["f16", "bf16"]
)
def test_every_half_precision_number_keeps_its_value(isa, name, dtype):
    """All 65,536 of them, subnormals included; NaN stays NaN, and -0.0 becomes 0.0."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        expected = PATTERNS.view(dtype).astype(F) + F(0)
    got = loops.widen(PATTERNS, name)
    number = ~np.isnan(expected)
    assert np.isnan(got[~number]).all()
    assert got[number].tobytes() == expected[number].tobytes()


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100])
def test_mask_bias_and_maxima_of_parts(isa, n):
    """The smallest loops, at every tail."""
    table, rng = loops.table(), np.random.default_rng(n)
    row, bias = rng.normal(size=n).astype(F), rng.normal(size=n).astype(F)
    row[::5] = -0.0
    copied = np.empty(n, F)
    table.copy(loops.pointer(row), n, loops.pointer(copied))
    assert copied.tobytes() == (row + F(0)).tobytes()
    table.add_bias(loops.pointer(copied), loops.pointer(bias), n)
    assert copied.tobytes() == (row + bias).tobytes()

    whole = -(-n // 32) * 32
    words = rng.integers(0, 2**32, whole // 32).astype(np.uint32)
    padded = np.ones(whole, F)
    table.apply_mask(loops.pointer(padded), loops.pointer(words), whole)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)
    assert (padded == np.where(bits, F(1), F(-np.inf))).all()

    keys = np.empty(-(-n // 16), np.int32)
    top = np.zeros(1, np.uint32)
    table.group_tops(loops.pointer(row), n, 16, loops.pointer(keys), loops.pointer(top))
    assert top[0] == row.view(np.uint32).max()
    bits = (row + F(0)).view(np.int32)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    assert keys.tolist() == [ordered[start : start + 16].max() for start in range(0, n, 16)]


@pytest.mark.parametrize("group", [64, 128, 256, 1024, 4096])
def test_maxima_of_long_groups(isa, group):
    """What a selection takes: whole groups of any power of 2, a tail, zeros of both signs, NaN of either sign."""
    table, rng = loops.table(), np.random.default_rng(group)
    for n in (group - 1, group, 4096, 4096 + 3 * group + 5):
        row = rng.normal(size=n).astype(F)
        row[: n // 3] = np.where(rng.random(n // 3) < 0.5, F(-0.0), F(-1))
        keys, top = np.empty(-(-n // group), np.int32), np.zeros(1, np.uint32)
        table.group_tops(loops.pointer(row), n, group, loops.pointer(keys), loops.pointer(top))
        bits = (row + F(0)).view(np.int32)
        ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
        assert keys.tolist() == [ordered[start : start + group].max() for start in range(0, n, group)]
        assert top[0] == row.view(np.uint32).max() <= 0xFF800000
        for place in (0, n // 2, n - 1):
            spoilt = row.copy()
            spoilt.view(np.uint32)[place] = 0xFFC00000
            top[0] = 0
            table.group_tops(loops.pointer(spoilt), n, group, loops.pointer(keys), loops.pointer(top))
            assert top[0] == 0xFFC00000
