"""The surface of spec-decode on this package's verifier: its own kind of tests, and its published table."""

import itertools

import numpy as np
import pytest

from specverify import lengths, simulate
from specverify.simulate import (
    MarkovModel,
    draft_from_target,
    expected_speedup,
    generate_speculative,
    generate_target_only,
    random_markov,
    speculative_step,
)


@pytest.mark.statistical
def test_frequencies_of_the_first_token():
    """40,000 trials. Standard error of a frequency is at most .5 / sqrt(40,000) = .0025: .015 is 6 of them."""
    target = random_markov(5, seed=7)
    draft = draft_from_target(target, agreement=0.6, seed=8)
    trials = 40_000
    rng = np.random.default_rng(100)
    first = [generate_speculative(target, draft, [2], 1, k=4, rng=rng).tokens[0] for _ in range(trials)]
    plain = [generate_target_only(target, [2], 1, rng).tokens[0] for _ in range(trials)]
    for tokens in (first, plain):
        frequencies = np.bincount(tokens, minlength=5) / trials
        assert np.abs(frequencies - target.next_dist([2])).max() < 0.015


@pytest.mark.statistical
def test_a_long_text_has_the_frequencies_of_its_chain():
    """40,000 tokens. One state holds itself with .76, so neighbours are alike and count for a seventh: the standard
    error of a frequency is at most sqrt(.25 * 7 / 40,000) = .007; .04 is 6 of them.
    """
    target = random_markov(4, seed=9)
    draft = draft_from_target(target, agreement=0.8, seed=10)
    text = generate_speculative(target, draft, [0], 40_000, 3, rng=1)
    stationary = np.linalg.matrix_power(target.transition, 1000)[0]
    assert np.abs(np.bincount(text.tokens, minlength=4) / 40_000 - stationary).max() < 0.04


def test_a_step_emits_one_to_k_plus_one_tokens():
    target = random_markov(6, seed=1)
    draft = draft_from_target(target, 0.5, seed=2)
    rng = np.random.default_rng(0)
    assert {len(speculative_step(target, draft, [0], k=4, rng=rng)) for _ in range(200)} <= {1, 2, 3, 4, 5}


def test_an_identical_draft_emits_k_plus_one_tokens():
    target = random_markov(6, seed=3)
    draft = draft_from_target(target, agreement=1.0, seed=4)
    rng = np.random.default_rng(0)
    assert {len(speculative_step(target, draft, [0], k=3, rng=rng)) for _ in range(100)} == {4}


@pytest.mark.parametrize("n_tokens", [0, 1, 4, 5, 37])
def test_exact_token_counts(n_tokens):
    target = random_markov(5, seed=5)
    trace = generate_speculative(target, draft_from_target(target, 0.6, seed=6), [0], n_tokens, k=4, rng=0)
    assert len(trace.tokens) == n_tokens
    plain = generate_target_only(target, [0], n_tokens, rng=0)
    assert len(plain.tokens) == plain.target_passes == plain.steps == n_tokens
    assert plain.acceptance_rate == plain.tested_acceptance == 0.0


def test_higher_agreement_raises_acceptance():
    target = random_markov(8, seed=7)
    low, high = (generate_speculative(target, draft_from_target(target, a, 8), [0], 3000, 4, rng=0) for a in (0.3, 0.9))
    assert high.acceptance_rate > low.acceptance_rate
    assert high.tested_acceptance > low.tested_acceptance
    assert high.tokens_per_step > low.tokens_per_step > 1
    assert high.target_passes < low.target_passes < 3000


def test_a_trace_adds_up():
    target = random_markov(8, seed=7)
    trace = generate_speculative(target, draft_from_target(target, 0.5, 8), [0], 1000, 3, rng=0)
    assert trace.steps == trace.target_passes == len(trace.accepted_lengths)
    assert trace.proposed == trace.draft_passes == 3 * trace.steps
    assert trace.accepted == sum(trace.accepted_lengths)
    assert trace.rejected == sum(length < 3 for length in trace.accepted_lengths)
    assert 0 <= trace.accepted + trace.steps - 1000 <= 3  # what the last round had too many
    assert trace.draft_utilisation == trace.acceptance_rate == trace.accepted / trace.proposed


def test_the_same_seed_gives_the_same_text():
    target = random_markov(8, seed=7)
    draft = draft_from_target(target, 0.5, 8)
    assert generate_speculative(target, draft, [0], 50, 4, 3) == generate_speculative(target, draft, [0], 50, 4, 3)


def test_speedup():
    assert expected_speedup(3.0, k=4, draft_cost_ratio=0.0) == 3.0
    assert expected_speedup(3.0, k=4, draft_cost_ratio=0.05) > expected_speedup(3.0, k=4, draft_cost_ratio=0.5)


@pytest.mark.statistical
def test_spec_decodes_table_is_reproduced():
    """Its BENCHMARKS.md, k = 4, 20,000 tokens, the same models: acceptance .16 to 1.00, tokens per pass 1.62 to 5.00.

    Both sides are means over 20,000 / t rounds of lengths with a standard deviation below 2, t tokens per pass: the
    difference has a standard error below 2 sqrt(2 t / 20,000) = .03 for t = 2.25. Six of them, and the rounding to two
    digits, and of the acceptance a quarter.
    """
    seed = 20240601
    target = random_markov(32, seed=seed, concentration=0.3)
    # Its "acceptance" is accepted / proposed. The agreements are not printed there: they are those of its script.
    published = {
        0.1: (0.16, 1.62),
        0.4: (0.31, 2.25),
        0.6: (0.48, 2.93),
        0.8: (0.70, 3.79),
        0.9: (0.84, 4.36),
        1: (1, 5),
    }
    for agreement, (acceptance, tokens) in published.items():
        draft = draft_from_target(target, agreement, seed=seed + 1)
        trace = generate_speculative(target, draft, [0], 20_000, k=4, rng=seed + 2)
        allowed = 6 * 2 * np.sqrt(2 * tokens / 20_000) + 0.005
        assert abs(trace.tokens_per_step - tokens) < allowed, (agreement, trace.tokens_per_step)
        assert abs(trace.acceptance_rate - acceptance) < allowed / 4 + 0.005, (agreement, trace.acceptance_rate)


def test_every_rule_runs_and_unknown_ones_are_named():
    target = random_markov(8, seed=7)
    draft = draft_from_target(target, 0.5, 8)
    for rule in simulate.rules():
        assert len(generate_speculative(target, draft, [0], 20, 4, 0, rule=rule).tokens) == 20
    with pytest.raises(ValueError, match=r"rule: expected one of token"):
        generate_speculative(target, draft, [0], 20, 4, 0, rule="guess")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((5, 0), "k: expected at least 1, got 0"), ((-1, 4), "n_tokens: expected at least 0, got -1")],
)
def test_generation_says_what_is_wrong(arguments, words):
    target = random_markov(4, seed=1)
    with pytest.raises(ValueError, match=words):
        generate_speculative(target, target, [0], *arguments, rng=0)


@pytest.mark.parametrize(
    "transition", [[[0.5, 0.5]], [[0.5, 0.4], [0.5, 0.5]], [[1.5, -0.5], [0.5, 0.5]], [[np.nan, 1], [0.5, 0.5]], []]
)
def test_a_model_wants_laws(transition):
    with pytest.raises(ValueError, match="transition"):
        MarkovModel(transition)


def test_models_say_what_is_wrong():
    with pytest.raises(ValueError, match="start_token = 3"):
        MarkovModel([[1.0]], start_token=3)
    with pytest.raises(ValueError, match=r"agreement = 1\.5"):
        draft_from_target(random_markov(3, 1), 1.5, 2)
    assert MarkovModel([[0.5, 0.5], [1, 0]], start_token=1).next_dist([]).tolist() == [1, 0]


@pytest.mark.statistical
def test_accepted_lengths_follow_their_law_given_the_drafts():
    """One row for every state: then the acceptance rate is the same at each position, and the law is geometric."""
    target = MarkovModel(np.tile([0.5, 0.25, 0.25], (3, 1)))
    draft = MarkovModel(np.tile([0.25, 0.25, 0.5], (3, 1)))
    trace = generate_speculative(target, draft, [0], 20_000, 4, rng=5)
    law = lengths.law_given_draft([0.75] * 4)
    assert lengths.check_counts(trace.accepted_lengths, [law] * trace.steps).passed


def test_the_law_of_accepted_length_is_the_sum_over_drafts():
    """By brute force over all drafts, whose products of min(target, draft) the matrices add up in another order."""
    target = random_markov(3, seed=1)
    draft = draft_from_target(target, 0.4, seed=2)
    law = simulate.law_of_accepted_length(target, draft, 3)
    p, q = (np.array([model.next_dist([s]) for s in range(3)], float) for model in (target, draft))
    overlap = np.minimum(p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True))
    for start in range(3):
        at_least = [1.0]
        for i in (1, 2, 3):
            paths = ((start, *tokens) for tokens in itertools.product(range(3), repeat=i))
            at_least.append(sum(np.prod([overlap[step] for step in itertools.pairwise(path)]) for path in paths))
        assert law[start] == pytest.approx(-np.diff([*at_least, 0.0]), abs=1e-14)  # some 30 terms below 1


@pytest.mark.statistical
def test_rounds_follow_the_law_of_accepted_length():
    """4,000 rounds after one prefix; fails a right verifier with probability 1e-6."""
    target = random_markov(8, seed=1)
    draft = draft_from_target(target, 0.5, seed=2)
    trace = simulate.Trace()
    rng = np.random.default_rng(3)
    for _ in range(4000):
        speculative_step(target, draft, [5], 4, rng, trace)
    law = simulate.law_of_accepted_length(target, draft, 4)[5]
    check = lengths.check_counts(trace.accepted_lengths, [law] * 4000)
    assert check.passed
    assert check.degrees == 4
