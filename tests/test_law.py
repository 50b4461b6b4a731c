"""The law that the compiled function really emits at one position, found on the function itself.

The strongest cheap test: exact to one unit of the 53-bit lattice, for float32 rows that no rational model describes.
"""

from fractions import Fraction

import bisection
import mutants
import numpy as np
import pytest

import specverify
from specverify import reference

PAIRS = {
    "dense": ([0.4, 0.1, 0.15, 0.35], [0.1, 0.3, 0.4, 0.2]),
    "zeros": ([0.6, 0.3, 0.1, 0.0], [0.2, 0.5, 0.0, 0.3]),
    "unnormalised": ([3.0, 1.0, 0.5], [1.0, 20.0, 9.0]),
    "disjoint": ([0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.1, 0.9]),
    "rare": ([1.0, 2.0**-30, 2.0**-30], [1.0, 1.0, 2.0**-30]),
    "subnormal": ([1e-40, 3e-40, 2e-40], [1e-40, 1e-45, 5e-40]),
    "huge": ([1e38, 3e38, 2e38], [1.0, 2.0, 3.0]),
    **{f"random {vocab}": np.random.default_rng(vocab).exponential(size=(2, vocab)) for vocab in (1, 2, 3, 5, 8)},
}


def rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    target_row, draft_row = np.asarray(PAIRS[name], np.float32)
    return target_row, draft_row


def distance(law: list[Fraction], row: np.ndarray) -> Fraction:
    """Largest difference between a law and a row taken as one."""
    entries = [Fraction(float(entry)) for entry in row]
    return max(abs(chance - entry / sum(entries)) for chance, entry in zip(law, entries, strict=True))


def law(verifier, name: str) -> list[Fraction]:
    target_row, draft_row = rows(name)
    return bisection.one_position_law(verifier, target_row, [float(entry) for entry in draft_row])


@pytest.mark.parametrize("name", PAIRS)
def test_a_dense_draft_gives_the_target_law(isa, name):
    assert distance(law(specverify.verify_sampled, name), rows(name)[0]) <= bisection.TOLERANCE


@pytest.mark.parametrize("name", PAIRS)
def test_a_deterministic_draft_gives_the_target_law(isa, name):
    target_row, _ = rows(name)
    for token in range(len(target_row)):
        emitted = bisection.emission_law(specverify.verify_sampled, target_row, None, token)
        assert distance(emitted, target_row) <= bisection.TOLERANCE


@pytest.mark.parametrize("name", PAIRS)
def test_a_draw_gives_the_target_law(isa, name):
    target_row, _ = rows(name)

    def draw(last):
        return specverify.verify_sampled([target_row], None, [], [last / bisection.LATTICE]).next_token

    assert distance(bisection.draw_law(draw, len(target_row)), target_row) <= bisection.TOLERANCE


@pytest.mark.parametrize("name", ["dense", "zeros", "disjoint", "random 8"])
def test_the_laws_of_compiled_function_and_reference_are_the_same(name):
    assert law(specverify.verify_sampled, name) == law(reference.verify_sampled, name)


@pytest.mark.parametrize(("target_sum", "draft_sum"), [(1.0, 1.0), (1.25, 1.0), (1.0, 1.25), (1.5, 1.25)])
def test_trusted_rows_err_by_what_the_documentation_says(target_sum, draft_sum):
    """The scale lemma of ``verify_sampled``: total variation |s_p/s_q - 1| * TV(target/s_p, residual/R), exactly."""
    target_row, draft_row = np.array([[0.5, 0.25, 0.125, 0.125], [0.125, 0.25, 0.125, 0.5]]) * [
        [target_sum],
        [draft_sum],
    ]

    def trusting(*args):
        return specverify.verify_sampled(*args, normalized=True)

    emitted = bisection.one_position_law(trusting, target_row, list(draft_row))
    residual = np.maximum(target_row - draft_row, 0)
    own = [Fraction(entry) / Fraction(target_sum) for entry in target_row]
    redrawn = [Fraction(entry) / Fraction(residual.sum()) for entry in residual]
    predicted = abs(Fraction(target_sum) / Fraction(draft_sum) - 1) * total_variation(own, redrawn)
    assert abs(total_variation(emitted, own) - predicted) <= bisection.TOLERANCE


def total_variation(first: list[Fraction], second: list[Fraction]) -> Fraction:
    return sum(abs(a - b) for a, b in zip(first, second, strict=True)) / 2


@pytest.mark.parametrize(
    "name",
    [
        *("residual_is_target", "residual_softmax", "residual_absolute", "accept_always"),
        *("accept_never", "ratio_upside_down", "acceptance_ignores_draft", "uniform_reused_for_draw"),
        *("draw_without_total", "last_token_unreachable", "first_token_unreachable"),
    ],
)
def test_the_law_of_a_dense_draft_rejects(name):
    assert distance(law(mutants.MUTANTS[name], "dense"), rows("dense")[0]) > bisection.TOLERANCE


@pytest.mark.parametrize(("name", "pair"), [("masses_ignored", "unnormalised"), ("uniform_narrowed", "rare")])
def test_the_law_of_special_rows_rejects(name, pair):
    assert distance(law(mutants.MUTANTS[name], pair), rows(pair)[0]) > bisection.TOLERANCE


@pytest.mark.parametrize("name", ["residual_keeps_token", "argmax_draft_with_softmax"])
def test_the_law_of_a_deterministic_draft_rejects(name):
    target_row, _ = rows("dense")
    assert (
        distance(bisection.emission_law(mutants.MUTANTS[name], target_row, None, 0), target_row) > bisection.TOLERANCE
    )


def test_the_law_accepts_the_right_parts():
    assert distance(law(mutants.right, "rare"), rows("rare")[0]) <= bisection.TOLERANCE
