"""Chi-square tests of what really comes out: joint laws of several tokens, and the law of the accepted length.

Every test states its null law, N, false-alarm rate and the smallest total variation that it catches, with the power;
``test_power_is_what_the_docstrings_say`` computes those numbers. Seeds are fixed, so a run cannot fail by chance; the
rate says how likely it was that a right verifier fails at the seed that was chosen.
"""

import helpers
import mutants
import numpy as np
import pytest
import simulation

import specverify

pytestmark = pytest.mark.statistical

N = 400_000
N_MUTANTS = 4_000  # mutants are slow, and far off

# Rows that sum to 8, held exactly by float32, so that the null law is the model itself and not its rounding.
TARGET = np.array([[4, 1, 2, 1], [1, 1, 3, 3], [2, 2, 2, 2], [1, 5, 1, 1]]) / 8
DRAFT = np.array([[2, 2, 1, 3], [3, 1, 3, 1], [1, 4, 2, 1], [2, 2, 2, 2]]) / 8

TWO_TOKENS = simulation.Experiment(TARGET, DRAFT, k=2)
THREE_TOKENS = simulation.Experiment(TARGET[:3, :3], DRAFT[:3, :3], k=2)  # the third may be a bonus token
DETERMINISTIC = simulation.Experiment(TARGET, DRAFT, k=2, deterministic=True)
ACCEPTED = simulation.Experiment(TARGET, DRAFT, k=4)


def joint_p_value(verifier, experiment, n, length, seed):
    counts = simulation.emitted_counts(verifier, experiment, n, length, seed)
    return helpers.chi_square(counts, simulation.text_law(experiment, length))


def accepted_p_value(verifier, experiment, n, seed):
    counts = simulation.accepted_counts(verifier, experiment, n, seed)
    return helpers.chi_square(counts, simulation.accepted_law(experiment))


def test_joint_law_of_two_tokens():
    """Null law: the first two tokens of a Markov target, 16 cells. N = 400,000, false-alarm rate 1e-9.

    Catches a total variation of 0.0075 with power above 0.95, and 0.01 with power above 0.999.
    """
    assert joint_p_value(specverify.verify_sampled, TWO_TOKENS, N, 2, seed=11) > helpers.FALSE_ALARM


def test_joint_law_of_three_tokens():
    """Null law: the first three tokens of a Markov target with unnormalised rows, 27 cells. N = 400,000, rate 1e-9.

    Catches a total variation of 0.008 with power above 0.95, and 0.01 with power above 0.999.
    """
    assert joint_p_value(specverify.verify_sampled, THREE_TOKENS, N, 3, seed=12) > helpers.FALSE_ALARM


def test_joint_law_of_two_tokens_with_a_deterministic_draft():
    """Null law: as test_joint_law_of_two_tokens, and so are N, rate and power; the draft takes its argmax."""
    assert joint_p_value(specverify.verify_sampled, DETERMINISTIC, N, 2, seed=13) > helpers.FALSE_ALARM


@pytest.mark.parametrize("experiment", [ACCEPTED, DETERMINISTIC], ids=["dense", "deterministic"])
def test_accepted_length(experiment):
    """Null law: that of the accepted length, 5 cells at most, computed from the rows. N = 400,000, rate 1e-9.

    Catches a total variation of 0.007 with power above 0.95, and 0.008 with power above 0.999.
    """
    assert accepted_p_value(specverify.verify_sampled, experiment, N, seed=14) > helpers.FALSE_ALARM


def test_power_is_what_the_docstrings_say():
    for cells, smallest, safe in ((16, 0.0075, 0.01), (27, 0.008, 0.01), (5, 0.007, 0.008)):
        assert helpers.power(N, cells, smallest) > 0.95
        assert helpers.power(N, cells, safe) > 0.999


def test_the_right_parts_pass():
    """The mutants below are caught for what is wrong in them, not for what they share. N = 4,000, rate 1e-9."""
    assert joint_p_value(mutants.right, THREE_TOKENS, N_MUTANTS, 3, seed=15) > helpers.FALSE_ALARM
    assert accepted_p_value(mutants.right, ACCEPTED, N_MUTANTS, seed=15) > helpers.FALSE_ALARM


@pytest.mark.parametrize(
    "name",
    [
        *("residual_is_target", "residual_softmax", "residual_of_next_row", "bonus_after_rejection"),
        *("bonus_from_draft", "accept_always", "accept_never", "ratio_upside_down", "acceptance_ignores_draft"),
        *("rows_shifted", "one_uniform", "uniform_reused_for_draw", "draw_without_total"),
        *("last_token_unreachable", "first_token_unreachable", "residual_absolute"),
    ],
)
def test_the_joint_law_rejects(name):
    """As test_joint_law_of_three_tokens with N = 4,000: catches 0.1 with power above 0.999."""
    assert joint_p_value(mutants.MUTANTS[name], THREE_TOKENS, N_MUTANTS, 3, seed=16) < helpers.FALSE_ALARM


@pytest.mark.parametrize("name", ["residual_keeps_token", "argmax_draft_with_softmax"])
def test_the_joint_law_of_a_deterministic_draft_rejects(name):
    """As test_joint_law_of_two_tokens_with_a_deterministic_draft with N = 4,000: catches 0.1 with power above 0.999."""
    assert joint_p_value(mutants.MUTANTS[name], DETERMINISTIC, N_MUTANTS, 2, seed=17) < helpers.FALSE_ALARM


@pytest.mark.parametrize("name", ["counts_past_rejection", "one_uniform", "accept_always", "acceptance_ignores_draft"])
def test_the_accepted_length_rejects(name):
    """As test_accepted_length with N = 4,000: catches 0.1 with power above 0.999."""
    assert accepted_p_value(mutants.MUTANTS[name], ACCEPTED, N_MUTANTS, seed=18) < helpers.FALSE_ALARM


def test_power_for_mutants_is_what_the_docstrings_say():
    for cells in (27, 16, 5):
        assert helpers.power(N_MUTANTS, cells, 0.1) > 0.999
