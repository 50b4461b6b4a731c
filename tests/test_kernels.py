"""Kernels and reference give the same bits: token ids, counts and masses compared with ``==``, nothing else.

Every variant of the kernels, every size around an edge of the summation order, every kind of draft, every position of
the first rejection, trusted rows and summed ones.
"""

import functools
from fractions import Fraction

import helpers
import numpy as np
import pytest
from helpers import ALMOST_ONE

import specverify
from specverify import _core, reference

# Uniforms of the final draw: both ends, and in between where no token boundary is special.
DRAWS = (0.0, 0.3183098861837907, 0.7320508075688772, ALMOST_ONE)
FEWER_DRAWS = (0.7320508075688772, ALMOST_ONE)  # for the long rows: the reference is slow

LONG = 1_048_577  # one more than 256 blocks of 4096 hold, so that blocks double


def sizes_of(kind: str, least: int = 1) -> list[int]:
    """One token cannot be in only one of two rows."""
    return [size for size in helpers.SIZES if size >= max(least, 2 if kind == "disjoint" else 1)]


@pytest.mark.parametrize("position", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", helpers.KINDS)
def test_round(isa, kind, position):
    for size in sizes_of(kind):
        draws = DRAWS if size < 8000 else FEWER_DRAWS
        expected = helpers.expected_verdicts(kind, size, position, False, draws)
        if expected is None:
            assert position < 3
            assert kind == "equal" or size == 1  # the same law is always accepted, and of one token there is one law
            continue
        rows = helpers.rows_of_kind(kind, size)
        tokens, uniforms = helpers.round_ending_at(rows, position, normalized=False)
        got = [specverify.verify_sampled(*rows, tokens, [*uniforms, last]) for last in draws]
        assert got == expected, size
        assert {verdict.n_accepted for verdict in got} == {position}


@pytest.mark.parametrize("position", [0, 2, 3])
@pytest.mark.parametrize("kind", helpers.KINDS)
def test_round_of_trusted_rows(isa, kind, position):
    """Rows that do not sum to 1 too: what is trusted is then wrong, but still the same everywhere."""
    for size in sizes_of(kind, least=2):
        draws = DRAWS if size < 8000 else FEWER_DRAWS
        expected = helpers.expected_verdicts(kind, size, position, True, draws)
        if expected is None:
            assert position < 3
            assert kind == "equal" or (size, kind) == (2, "unnormalised")  # none is more probable under the draft
            continue
        rows = helpers.rows_of_kind(kind, size)
        tokens, uniforms = helpers.round_ending_at(rows, position, normalized=True)
        got = [specverify.verify_sampled(*rows, tokens, [*uniforms, last], normalized=True) for last in draws]
        assert got == expected, size


@functools.cache
def long_round(kind: str):
    """Arguments and the reference's verdict, once for all variants: the reference takes a while."""
    target, draft = helpers.rows_of_kind(kind, LONG, k=1)
    arguments = (target, draft, [int(target[0].argmin())], [ALMOST_ONE, 0.6])
    return arguments, reference.verify_sampled(*arguments)


@pytest.mark.parametrize("kind", ["dense", "none"])
def test_round_of_a_row_with_doubled_blocks(isa, kind):
    arguments, expected = long_round(kind)
    assert specverify.verify_sampled(*arguments) == expected
    assert expected.n_accepted == 0


@pytest.mark.parametrize("k", [0, 1, 16, 63, 64, 65, 200])
@pytest.mark.parametrize("token_type", [np.int64, np.int32, np.uint8])
def test_any_draft_length(isa, k, token_type):
    """Up to 64 tokens and uniforms are copied to the stack, more are used where they are."""
    rng = np.random.default_rng(k)
    target, draft = rng.exponential(size=(k + 1, 20)).astype(np.float32), None
    tokens = target.argmax(1)[:k].astype(token_type)
    for rejected in {0, k // 2, k}:
        uniforms = np.full(k + 1, 0.01)
        uniforms[rejected] = ALMOST_ONE
        expected = reference.verify_sampled(target, draft, tokens, uniforms)
        assert expected.n_accepted == rejected
        assert specverify.verify_sampled(target, draft, tokens, uniforms) == expected
        assert specverify.verify_greedy(target, tokens) == (k, target[k].argmax())


def test_every_entry_can_be_drawn(isa):
    """A row of equal entries: the middle of each bucket gives its own token, in rows, residuals and one-hot drafts."""
    for size in [17, 256, 4097]:
        target = np.ones((2, size), np.float32)
        step = 1 if size < 1000 else 7
        for token in range(0, size, step):
            assert specverify.verify_sampled(target[:1], None, [], [(token + 0.5) / size]) == (0, token)
        draft = np.zeros((1, size), np.float32)
        draft[0, size // 2] = 1
        others = [token for token in range(size) if token != size // 2]
        for place in range(0, size - 1, step):
            uniforms = [ALMOST_ONE, (place + 0.5) / (size - 1)]
            assert specverify.verify_sampled(target, draft, [size // 2], uniforms) == (0, others[place])
            assert specverify.verify_sampled(target, None, [size // 2], uniforms) == (0, others[place])


def test_the_last_positive_entry_is_the_fallback(isa):
    """With the largest uniform and zeros at the end no draw runs past the last positive entry, wherever it is."""
    for size in [5, 40, 300, 4500, 9000]:
        for last in {0, 1, size // 2, size - 2, size - 1}:
            row = np.zeros((1, size), np.float32)
            row[0, : last + 1] = 0.1
            assert specverify.verify_sampled(row, None, [], [ALMOST_ONE]) == (0, last)
            if last:
                target, draft = np.vstack([row, row]), np.zeros((1, size), np.float32)
                draft[0, 0] = 1.0
                assert specverify.verify_sampled(target, draft, [0], [ALMOST_ONE] * 2) == (0, last)
                assert specverify.verify_sampled(target, None, [last], [ALMOST_ONE] * 2) == (0, last - 1)


@pytest.mark.parametrize("kind", [kind for kind in helpers.KINDS if kind != "none"])
def test_masses(isa, kind):
    for size in helpers.SIZES:
        target, draft = helpers.rows_of_kind(kind, size, k=1)
        assert _core.row_masses(target) == [reference.row_sum(row.astype(float)) for row in target]
        for scale in (1.0, 1 / 3, 2.5):
            weights = np.maximum(target[0].astype(float) - draft[0].astype(float) * scale, 0.0)
            assert _core.residual_mass(target[:1], draft, scale) == reference.row_sum(weights)


@functools.cache
def long_row(size: int):
    row = np.random.default_rng(size).exponential(size=(1, size)).astype(np.float32)
    return row, reference.row_sum(row[0].astype(float))


def test_masses_of_rows_with_doubled_blocks(isa):
    for size in [LONG - 1, LONG, 2 * LONG - 1]:
        row, expected = long_row(size)
        assert _core.row_masses(row) == [expected]


def test_masses_are_float64(isa):
    """Integers whose float32 sum would be rounded from the second entry on: the float64 sum is exact in any order."""
    for size in helpers.SIZES:
        row = np.arange(2**24 - size, 2**24, dtype=np.float32)
        assert _core.row_masses(row[None]) == [sum(range(2**24 - size, 2**24))]


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf, -1e-45, -1.0])
def test_no_improper_entry_is_overlooked(isa, entry):
    for size in [1, 15, 16, 17, 64, 4095, 4096, 4097]:
        for index in {0, 1 % size, size // 2, size - 1 - (size - 1) % 16, size - 1}:
            row = np.ones((1, size), np.float32)
            row[0, index] = entry
            assert _core.row_masses(row) == [-1.0]


def test_opposite_infinities_and_negative_sums_are_no_mass(isa):
    rows = np.ones((3, 40), np.float32)
    rows[0, [3, 30]] = np.inf, -np.inf
    rows[1] = -1
    rows[2, [3, 30]] = -1e38, 1e38
    assert _core.row_masses(rows) == [-1.0] * 3


def test_negative_zero_is_a_probability(isa):
    for size in (1, 16, 17, 4097):
        row = np.full((1, size), -0.0, np.float32)
        assert _core.row_masses(row) == [0.0]
        row[0, size // 2] = 0.5
        assert _core.row_masses(row) == [0.5]


# p - q * c with one rounding instead of two is not 0 here: the canary for fused multiply-adds.
ONE_THIRD = 1 / 3


def test_the_canary_sings():
    assert 3 * ONE_THIRD == 1.0
    assert 3 * Fraction(ONE_THIRD) != 1


def test_residual_mass_is_not_contracted(isa):
    for size in [1, 15, 16, 17, 256, 4096, 4097]:
        target, draft = np.ones((1, size), np.float32), np.full((1, size), 3, np.float32)
        assert _core.residual_mass(target, draft, ONE_THIRD) == 0.0
        assert _core.residual_mass(target, target, 1.0) == 0.0


def test_the_draw_from_a_residual_is_not_contracted(isa):
    """Masses that give the scale 1/3, so that every entry but one has residual exactly 0: u = 0 must skip them."""
    for size in [3, 40, 300, 9000]:
        target, draft = np.ones((2, size), np.float32), np.full((1, size), 3, np.float32)
        target[0, -2:], draft[0, -2:] = (2, 0), (0, 6)
        assert _core.row_masses(target[:1])[0] / _core.row_masses(draft)[0] == ONE_THIRD
        assert specverify.verify_sampled(target, draft, [size - 1], [0.0, 0.0]) == (0, size - 2)
        assert specverify.verify_sampled(target, draft, [size - 1], [0.0, ALMOST_ONE]) == (0, size - 2)


def greedy(row) -> int:
    return specverify.verify_greedy(np.asarray(row, np.float32)[None], []).next_token


@pytest.mark.parametrize("sign", ["logits", "positive", "negative", "few values"])
def test_argmax(isa, sign):
    for size in helpers.SIZES:
        rng = np.random.default_rng(size)
        row = rng.normal(size=size).astype(np.float32)
        if sign in ("positive", "negative"):
            row = np.abs(row) * (1 if sign == "positive" else -1)
        if sign == "few values":
            row = rng.integers(-3, 3, size=size).astype(np.float32)
        assert greedy(row) == np.argmax(row)


@pytest.mark.parametrize("lowest", [0.0, 1.0, -1.0, -np.inf])
def test_argmax_finds_a_maximum_at_every_edge(isa, lowest):
    for size in helpers.SIZES:
        edges = {edge + step for edge in (0, 16, 256, 4096, 8192, size // 4, size // 2, size) for step in (-1, 0, 1)}
        for index in sorted(edge for edge in edges if 0 <= edge < size):
            row = np.full(size, lowest, np.float32)
            row[index] = -0.5 if lowest < 0 else 2.0
            assert greedy(row) == index


@pytest.mark.parametrize("offset", range(16))
def test_argmax_of_rows_at_any_address(isa, offset):
    """The first stretch is as long as the row's address asks for."""
    row = np.zeros(offset + 5000, np.float32)[offset:]
    for index in (0, 1, 4094, 4095, 4096, 4097, 4999):
        row[:] = 0
        row[index] = 1
        assert greedy(row) == index


def test_ties_go_to_the_lowest_index(isa):
    for size in (2, 17, 300, 9000):
        for first, second in ((0, size - 1), (size // 2, size - 1), (size - 2, size - 1)):
            row = np.full(size, -3, np.float32)
            row[[first, second]] = -1
            assert greedy(row) == first
            row[[first, second]] = 7
            assert greedy(row) == first


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0)])
def test_zeros_of_both_signs_are_a_tie(isa, zeros):
    for size in (2, 17, 300, 9000):
        row = np.full(size, -1, np.float32)
        row[[size // 2, size - 1]] = zeros
        assert greedy(row) == size // 2 == np.argmax(row)


def test_subnormals_keep_their_order(isa):
    assert greedy([0.0, 1e-45, 3e-45, 1e-45]) == 2
    assert greedy([-3e-45, -1e-45, -1e-40]) == 1


@pytest.mark.parametrize("entry", [np.nan, -np.nan, np.inf])
@pytest.mark.parametrize("others", [1.0, -1.0, -np.inf])
def test_argmax_refuses_what_has_no_maximum(isa, entry, others):
    for size in [1, 3, 16, 17, 4095, 4096, 4097]:
        for index in {0, size // 2, size - 1}:
            row = np.full(size, others, np.float32)
            row[index] = entry
            with pytest.raises(ValueError, match=rf"target\[0, {index}\] = (nan|inf)"):
                greedy(row)
