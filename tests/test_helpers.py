"""The helpers that compute something do what the tests built on them rely on."""

from fractions import Fraction

import bisection
import exact
import helpers
import numpy as np
import pytest


def test_chi_square_accepts_the_right_law_and_rejects_a_wrong_one():
    """N and total variation are such that the power is above 0.999."""
    rng = np.random.default_rng(1)
    law = np.full(16, 1 / 16)
    wrong = law + np.where(np.arange(16) % 2, 0.02, -0.02) / 16 * 0.5 * 2  # total variation .01
    assert np.abs(wrong - law).sum() / 2 == pytest.approx(0.01)
    assert helpers.power(400_000, 16, 0.01) > 0.999
    assert helpers.chi_square(rng.multinomial(400_000, law), law) > helpers.FALSE_ALARM
    assert helpers.chi_square(rng.multinomial(400_000, wrong), law) < helpers.FALSE_ALARM


def test_chi_square_is_uniform_under_the_null_law():
    """Of 1000 p-values about 100 are below 0.1: binomial, standard deviation 9.5; 6 of those on either side."""
    rng = np.random.default_rng(2)
    law = np.array([0.5, 0.3, 0.15, 0.05])
    p_values = [helpers.chi_square(rng.multinomial(2000, law), law) for _ in range(1000)]
    assert 43 <= sum(p < 0.1 for p in p_values) <= 157


def test_chi_square_wants_counts():
    """Frequencies instead of counts make a wrong sampler look right: a real helper gave one p = 0.976."""
    with pytest.raises(TypeError, match="counts"):
        helpers.chi_square(np.array([0.6, 0.4]), np.array([0.5, 0.5]))


def test_chi_square_rejects_what_the_law_rules_out():
    assert helpers.chi_square(np.array([500, 500, 1]), np.array([0.5, 0.5, 0.0])) == 0.0


def test_chi_square_merges_cells_of_small_expectation():
    """Nine rare cells of expectation 1 each become one of 9; all their counts in one of them are then no surprise."""
    law = np.array([0.991, *[0.001] * 9])
    spread, heaped = np.array([991, *[1] * 9]), np.array([991, 9, *[0] * 8])
    assert helpers.chi_square(spread, law) == helpers.chi_square(heaped, law) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="two cells"):
        helpers.chi_square(np.array([3, 0]), np.array([0.5, 0.5]))


@pytest.mark.parametrize("kind", helpers.KINDS)
@pytest.mark.parametrize("size", [1, 2, 33])
def test_rows_are_what_their_kind_says(kind, size):
    target, draft = helpers.rows_of_kind(kind, size)
    assert target.dtype == np.float32
    assert (target >= 0).all()
    assert (target.sum(1, dtype=float) > 0).all()
    if kind == "none":
        assert draft is None
        return
    if size > 1 or kind not in ("disjoint",):
        assert (draft.sum(1, dtype=float) > 0).all()
    if kind == "equal":
        assert (draft == target[:-1]).all()
    if kind == "disjoint":
        assert not (draft * target[:-1]).any()
    if kind == "sparse" and size > 2:
        assert (draft == 0).any()
        assert ((draft > 0) & (target[:-1] > 0)).any()
    if kind == "subnormal":
        assert target.max() < np.finfo(np.float32).tiny
    if kind == "huge":
        assert target.max() > 1e29
    if kind == "unnormalised":
        assert np.abs(target.sum(1) - 1).min() > 1e-3


@pytest.mark.parametrize("position", range(4))
def test_rounds_end_where_they_should(position):
    rows = helpers.rows_of_kind("dense", 33)
    tokens, uniforms = helpers.round_ending_at(rows, position, normalized=False)
    target, draft = rows.target.astype(float), rows.draft.astype(float)
    accepted = [
        uniforms[i] * draft[i, x] / draft[i].sum() < target[i, x] / target[i].sum() for i, x in enumerate(tokens)
    ]
    assert [*accepted, False].index(False) == position


def test_equal_rows_cannot_be_rejected():
    assert helpers.round_ending_at(helpers.rows_of_kind("equal", 33), 1, normalized=False) is None


def test_texts_are_a_law():
    chances = dict(exact.texts(lambda before: [1, 2, len(before)], 3))
    assert sum(chances.values()) == 1
    assert chances[0, 1, 2] == Fraction(1, 3) * Fraction(2, 4) * Fraction(2, 5)
    assert (2, 0, 0) not in chances


def test_cells_fill_the_cube_and_hold_their_points():
    target, draft, tokens = [[1, 2], [3, 1], [1, 1]], [[2, 1], [1, 1]], (0, 1)
    volumes, points = zip(*exact.cells(target, draft, tokens), strict=True)
    assert sum(volumes) == 1
    # (p/P) / (q/Q) = (1/3) / (2/3) and (1/4) / (1/2); the draws break at 1/2 (bonus row) only.
    assert exact.breakpoints(target, draft, tokens) == [[Fraction(1, 2)], [Fraction(1, 2)], [Fraction(1, 2)]]
    assert sorted(set(points[0])) == [0.25]


def test_bisection_finds_every_step_of_a_known_draw():
    third = bisection.LATTICE // 3
    law = bisection.draw_law(lambda k: 1 if k < third else 4, 5)
    assert law == [0, Fraction(third, bisection.LATTICE), 0, 0, 1 - Fraction(third, bisection.LATTICE)]
