"""The closed form, the exact law of a build, the certificate of a call; and that each tells wrong from right."""

import itertools
from fractions import Fraction

import bisection
import mutants
import numpy as np
import pytest

import specverify
from specverify import proof, reference
from specverify.simulate import draft_from_target, random_markov


def random_row(rng, size):
    return rng.dirichlet(np.full(size, 0.5))


def test_the_closed_form_is_the_target_law():
    """2,000 pairs of up to 12 tokens: some 20 float64 operations for an entry below 1, so 1e-12 is wide."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        size = int(rng.integers(2, 12))
        target, draft = random_row(rng, size), random_row(rng, size)
        assert np.abs(proof.induced_from_dists(target, draft) - target).max() < 1e-12


def test_the_closed_form_of_special_drafts():
    target = np.array([0.4, 0.3, 0.2, 0.1])
    for draft in ([1.0, 0, 0, 0], target, [0, 0, 0.5, 0.5], [8, 4, 2, 2]):
        assert np.abs(proof.induced_from_dists(target, draft) - target).max() < 1e-15


def test_the_closed_form_over_models_and_prefixes():
    target = random_markov(10, seed=3)
    draft = draft_from_target(target, 0.5, seed=4)
    prefixes = [[i] for i in range(10)] + [[], [1, 2, 3]]
    assert proof.max_total_variation(target, draft, prefixes) < 1e-12
    for prefix in prefixes:
        # float32 rows sum to 1 within 10 * 2**-25
        assert (
            np.abs(proof.induced_next_token_distribution(target, draft, prefix) - target.next_dist(prefix)).max() < 3e-7
        )


def test_acceptance_and_residual():
    assert proof.accept_probability(0.2, 0.8) == 0.25
    assert proof.accept_probability(0.6, 0.3) == 1.0
    assert proof.accept_probability(0.5, 0.0) == 1.0
    assert proof.accept_probability(0.0, 0.0) == 0.0
    assert proof.residual([0.5, 0.3, 0.2], [0.1, 0.6, 0.3]).tolist() == [1, 0, 0]
    assert proof.residual([0.5, 0.5], [0.5, 0.5]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("rows", [([0, 0], [1, 1]), ([1, 1], [0, 0]), ([1], [1, 1]), ([[1]], [[1]])])
def test_the_closed_form_refuses_what_is_no_pair_of_rows(rows):
    with pytest.raises(ValueError, match=r"sums to|same shape"):
        proof.induced_from_dists(*rows)


PAIRS = {
    "dense": ([0.4, 0.1, 0.15, 0.35], [0.1, 0.3, 0.4, 0.2]),
    "zeros": ([0.6, 0.3, 0.1, 0.0], [0.2, 0.5, 0.0, 0.3]),
    "unnormalised": ([3.0, 1.0, 0.5], [1.0, 20.0, 9.0]),
    "disjoint": ([0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.1, 0.9]),
    "equal": ([0.1, 0.2, 0.7], [0.1, 0.2, 0.7]),
    "one token": ([0.3], [0.7]),
    "subnormal": ([1e-40, 3e-40, 2e-40], [1e-40, 1e-45, 5e-40]),
    "huge": ([1e38, 3e38, 2e38], [1.0, 2.0, 3.0]),
    "unlikely": ([1.0, 1e-30], [1e-30, 1.0]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_law_of_the_build_is_the_target(isa, name):
    """1e-15 is the bar of this package at V <= 64; the bound that rounding explains is the weaker statement."""
    law = proof.position_law(specverify.verify_sampled, *PAIRS[name])
    assert law.total_variation <= 1e-15
    assert law.total_variation_53 <= law.bound
    assert law.unexplained == 0


@pytest.mark.parametrize("name", ["dense", "zeros", "unnormalised", "disjoint", "subnormal"])
def test_two_ways_to_find_the_law_agree(name):
    """The lattice law is what tests/bisection.py finds by plain bisection, without any guess."""
    target, draft = np.asarray(PAIRS[name], np.float32)
    plain = bisection.one_position_law(specverify.verify_sampled, target, [float(entry) for entry in draft])
    law = proof.position_law(specverify.verify_sampled, target, draft)
    assert [Fraction(weight, law.whole) for weight in law.emitted_53] == plain


def test_the_law_of_the_reference_is_the_law_of_the_build():
    built = proof.position_law(specverify.verify_sampled, *PAIRS["dense"])
    assert built.emitted == proof.position_law(reference.verify_sampled, *PAIRS["dense"]).emitted


@pytest.mark.parametrize("name", PAIRS)
def test_deterministic_drafts_and_plain_draws_give_the_target_law(isa, name):
    target, _ = PAIRS[name]
    for token in (None, *range(len(target))):
        law = proof.position_law(specverify.verify_sampled, target, None, token=token)
        assert law.total_variation <= 1e-15
        assert law.unexplained == 0


def test_random_pairs_of_every_kind():
    """Laws are exact to the last place and their probabilities sum to 1, whatever the rows."""
    for law in map(law_of, proof_pairs(120, 64)):
        assert sum(law.emitted) == sum(law.emitted_53) == law.whole
        assert law.total_variation <= 1e-15
        assert law.total_variation_53 <= law.bound
        assert law.unexplained == 0


def proof_pairs(n, largest):
    from specverify import certification

    return certification.random_pairs(n, largest, seed=0)


def law_of(pair):
    return proof.position_law(specverify.verify_sampled, *pair.rows)


def test_a_vocabulary_of_4096():
    rng = np.random.default_rng(7)
    rows = rng.dirichlet(np.full(4096, 0.1), size=2).astype(np.float32)
    law = proof.position_law(specverify.verify_sampled, *rows, spot_checks=1)
    assert law.total_variation <= 1e-12
    assert law.total_variation_53 <= law.bound
    assert law.unexplained == 0


def test_spot_checks_find_the_same_law():
    target, draft = np.random.default_rng(3).exponential(size=(2, 40))
    one, other = (proof.position_law(specverify.verify_sampled, target, draft, spot_checks=n) for n in (None, 2))
    assert one.emitted == other.emitted
    assert other.calls < one.calls


@pytest.mark.parametrize(
    "name",
    [
        *("residual_is_target", "residual_softmax", "residual_absolute", "accept_always", "accept_never"),
        *("ratio_upside_down", "acceptance_ignores_draft", "uniform_reused_for_draw", "draw_without_total"),
        *("last_token_unreachable", "first_token_unreachable"),
    ],
)
def test_the_law_of_one_position_rejects(name):
    assert proof.position_law(mutants.MUTANTS[name], *PAIRS["dense"]).total_variation > 1e-3


def test_the_law_of_special_rows_rejects():
    assert proof.position_law(mutants.MUTANTS["masses_ignored"], *PAIRS["unnormalised"]).total_variation > 1e-3
    rare = [1.0, 2.0**-30, 2.0**-30], [1.0, 1.0, 2.0**-30]
    assert proof.position_law(mutants.MUTANTS["uniform_narrowed"], *rare).total_variation > 1e-10
    certain = proof.position_law(mutants.MUTANTS["residual_keeps_token"], PAIRS["dense"][0], None, token=0)
    assert certain.total_variation > 1e-3


def test_probes_see_a_shape_that_is_not_assumed():
    """A draw that also looks at the first uniform has no steps in the last one alone."""
    law = proof.position_law(mutants.MUTANTS["uniform_reused_for_draw"], *PAIRS["disjoint"])
    assert law.unexplained > 0


def test_a_law_wants_one_kind_of_draft():
    with pytest.raises(ValueError, match="token"):
        proof.position_law(specverify.verify_sampled, [1.0, 1.0], [1.0, 1.0], token=0)


class ByText:
    """Rows that depend on the whole text."""

    def __init__(self, vocab, seed, zeros=0.0):
        self.vocab, self.seed, self.zeros = vocab, seed, zeros

    def next_dist(self, tokens):
        rng = np.random.default_rng([self.seed, *tokens])
        row = rng.exponential(size=self.vocab) * (rng.random(self.vocab) >= self.zeros)
        return (row if row.any() else np.ones(self.vocab)).astype(np.float32)


@pytest.mark.parametrize(("vocab", "k"), [(2, 0), (2, 1), (3, 2), (4, 1), (2, 3), (4, 3)])
@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_the_joint_law_of_a_round(isa, vocab, k, zeros):
    law = proof.round_law(specverify.verify_sampled, ByText(vocab, 1, zeros), ByText(vocab, 2, zeros), k)
    assert sum(law.emitted.values()) == sum(law.target.values()) == 1
    assert law.total_variation <= min(1e-14, law.bound)
    assert law.unexplained == 0


def test_the_joint_law_of_certain_tokens():
    for tokens in ((0, 0), (2, 1), (1, 2)):
        law = proof.round_law(specverify.verify_sampled, ByText(3, 5), None, 2, tokens=tokens)
        assert law.total_variation <= 1e-14
        assert law.unexplained == 0


@pytest.mark.parametrize(
    "name",
    [
        *("residual_of_next_row", "bonus_after_rejection", "bonus_from_draft", "counts_past_rejection", "rows_shifted"),
        "one_uniform",
    ],
)
def test_the_joint_law_rejects(name):
    law = proof.round_law(mutants.MUTANTS[name], ByText(3, 1), ByText(3, 2), 2)
    assert law.total_variation > 1e-3 or law.unexplained > 0


def block_rule(target, draft, tokens, uniforms):
    """Block verification (Sun et al., ICLR 2025) in rational numbers, to try the backward scan on."""
    p, q = ([[Fraction(float(entry)) for entry in row] for row in rows] for rows in (target, draft))
    p, q = ([[entry / sum(row) for entry in row] for row in rows] for rows in (p, q))
    k = len(tokens)
    reached = [Fraction(1)]
    for i, token in enumerate(tokens):
        reached.append(min(Fraction(1), reached[-1] * p[i][token] / q[i][token]))

    def weights(i):
        return p[k] if i == k else [max(Fraction(0), reached[i] * a - b) for a, b in zip(p[i], q[i], strict=True)]

    for i in range(k, -1, -1):
        rest = sum(weights(i)) if i < k else None
        chance = reached[k] if i == k else rest / (rest + 1 - reached[i]) if rest + 1 - reached[i] else Fraction(1)
        if i == 0 or Fraction(float(uniforms[i - 1])) < chance:
            law = weights(i) if any(weights(i)) else p[i]
            point = Fraction(float(uniforms[-1])) * sum(law)
            return i, next(j for j, running in enumerate(itertools.accumulate(law)) if running > point)
    raise AssertionError


def test_the_joint_law_of_the_block_rule():
    """A rule that decides from the end has the same law, found with the scan that it does."""
    for vocab, k in ((2, 1), (2, 2), (3, 2), (2, 3)):
        models = ByText(vocab, 1), ByText(vocab, 2)
        law = proof.round_law(block_rule, *models, k, scan="backward")
        assert sum(law.emitted.values()) == 1
        assert law.total_variation <= 1e-14
        assert law.unexplained == 0
    assert proof.round_law(block_rule, *models, 3).unexplained > 0
    assert proof.round_law(specverify.verify_sampled, *models, 3, scan="backward").unexplained > 0
    with pytest.raises(ValueError, match="scan: expected 'forward' or 'backward', got 'sideways'"):
        proof.round_law(block_rule, *models, 2, scan="sideways")


def test_the_certificate_bounds_what_trusting_rows_costs():
    """The exact law of trusted rows stays below the certificate, and is not far from it."""
    rng = np.random.default_rng(2)

    def trusting(*args):
        return specverify.verify_sampled(*args, normalized=True)

    for size in (2, 5, 20):
        rows = rng.dirichlet(np.ones(size), size=2) * rng.uniform(0.9, 1.1, size=(2, 1))
        target, draft = rows.astype(np.float32)
        law = proof.position_law(trusting, target, draft)
        certificate = proof.certify_call([target, target], [draft], normalized=True, visited=1)
        assert law.total_variation_53 <= certificate.normalization + certificate.rounding
        assert certificate.normalization <= 10 * law.total_variation + 1e-15
        assert proof.certify_call([target, target], [draft]).normalization == 0.0


def test_the_certificate_bounds_the_build():
    for pair in proof_pairs(60, 64):
        target, draft = pair.rows
        certificate = proof.certify_call([target, target], [draft], visited=1)
        law = proof.position_law(specverify.verify_sampled, target, draft)
        assert law.total_variation <= certificate.rounding
        assert law.total_variation_53 <= certificate.rounding + certificate.uniforms
        total = sum(
            min(p, q) for p, q in zip(target / target.sum(dtype=float), draft / draft.sum(dtype=float), strict=True)
        )
        assert certificate.acceptance_rates[0] == pytest.approx(float(total), abs=1e-6)


def test_the_certificate_bounds_rounding_of_rows_to_float32():
    rng = np.random.default_rng(4)
    for scale in (1.0, 1e-39, 3e-44):
        exact = rng.dirichlet(np.ones(50)) * scale
        rounded = exact.astype(np.float32)
        certificate = proof.certify_call([rounded], np.empty((0, 50), np.float32))
        assert proof.total_variation(exact, rounded) <= certificate.float32_rows
        assert certificate.total_variation <= 1.0


def test_the_certificate_reads_the_visited_rows_only():
    target = np.full((3, 4), 0.25, np.float32)
    draft = np.full((2, 4), 0.25, np.float32)
    target[1:], draft[1:] = np.nan, np.nan
    assert proof.certify_call(target, draft, visited=1).visited == 1
    with pytest.raises(ValueError, match=r"target\[1, 0\] = nan"):
        proof.certify_call(target, draft, visited=2)
    with pytest.raises(ValueError, match=r"visited: expected 1 to K \+ 1 = 3 rows, got 4"):
        proof.certify_call(target, draft, visited=4)
    with pytest.raises(ValueError, match="draft: expected shape"):
        proof.certify_call(target, draft[:1])
    with pytest.raises(ValueError, match="sums to 0"):
        proof.certify_call(np.zeros((1, 4)), None)


def test_a_certain_draft_has_a_certificate():
    certificate = proof.certify_call(np.full((2, 4), 0.5), None, normalized=True)
    assert certificate.normalization == 1.0
    assert np.isnan(certificate.acceptance_rates).all()
    assert proof.certify_call(np.full((2, 4), 0.5), None).normalization == 0.0


def test_additions_are_those_of_the_reference():
    """Counted in the summation itself: an entry that remembers through how many additions it went."""
    for size in (1, 15, 16, 17, 64, 4096, 4097, 32_000):
        longest = max(counted(size, place) for place in {0, size // 2, size - 1, min(size - 1, 15)})
        assert longest <= proof.additions(size)


def counted(size, place):
    """Additions of entry `place` to something that is not the 0 an empty lane starts with, in `reference.row_sum`."""
    block = reference.sums.BLOCK  # sizes up to 256 blocks
    start = place - place % block
    inside = place - start
    lane = max(0, (min(block, size - start) - 1 - inside % 16) // 16)  # later entries of its lane
    return lane + 4 + -(-size // block) - 1
