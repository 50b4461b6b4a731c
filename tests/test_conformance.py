"""The kit passes what is right and fails what is wrong, each wrong verifier by the layer that claims it."""

import importlib.util
import re

import mutants
import numpy as np
import pytest

import specverify
from specverify import certification, conformance, proof, reference, simulate
from specverify.conformance import peers
from specverify.conformance.layers import FALSE_ALARM_RATE, smallest_caught

FIXED = ["edge cases", "bad input", "temperature 0"]
LAWS = ["law of a position", "law of a deterministic draft", "law of a round"]
FREQUENCIES = ["joint frequencies", "frequencies of a deterministic draft", "accepted length"]


def test_the_product_conforms(isa):
    """The frequencies are left to TestTheProduct: all variants give the same bits."""
    report = conformance.check(specverify.verify_sampled, greedy=specverify.verify_greedy, layers=FIXED + LAWS)
    assert report.passed, str(report)
    assert [result.layer for result in report.results] == FIXED + LAWS


@pytest.mark.parametrize(
    ("result", "details"),
    [
        (
            lambda n, token, vocab: (n, vocab),
            r"expected 0 to \d .* next token in \[0, (\d)\), got .*\1\)",
        ),
        (lambda n, token, vocab: (7, token), r"expected 0 to \d accepted tokens and a next token in .*, got \(7, \d\)"),
        (lambda n, token, vocab: None, r"expected \(n_accepted, next_token\), got None"),
    ],
)
def test_what_is_no_verdict_is_said_to_be_none(result, details):
    """As of a search that runs past the end of a row."""

    def wrong(target, draft, tokens, uniforms):
        return result(*specverify.verify_sampled(target, draft, tokens, uniforms), target.shape[1])

    report = conformance.check(wrong, layers=["law of a position", "law of a round", "joint frequencies"], rounds=100)
    assert not any(one.passed for one in report.results)
    assert all(re.fullmatch(details, one.detail) for one in report.results)


def test_the_reference_conforms():
    assert conformance.check(reference.verify_sampled, greedy=reference.verify_greedy, layers=FIXED + LAWS).passed


def test_the_parts_of_the_mutants_conform():
    """All but the checks of input, which they do not have."""
    layers = ["edge cases", "temperature 0", *LAWS]
    assert conformance.check(mutants.right, layers=layers).passed


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_every_mutant_is_rejected_by_the_layer_that_claims_it(name):
    assert not conformance.check(mutants.MUTANTS[name], layers=[mutants.CLAIMED_BY[name]], fail_fast=True).passed


def test_every_mutant_is_claimed():
    assert mutants.CLAIMED_BY.keys() == mutants.MUTANTS.keys()
    assert set(mutants.CLAIMED_BY.values()) <= set(conformance.LAYERS)


def own_random(verifier, seed=0):
    rng = np.random.default_rng(seed)
    return lambda target, draft, tokens: verifier(target, draft, tokens, rng.random(len(tokens) + 1))


@pytest.mark.statistical
def test_a_verifier_with_its_own_random_numbers_conforms():
    """N = 1,500 in each of three tests; each fails a right verifier with probability 1e-8."""
    report = conformance.check(own_random(specverify.verify_sampled), takes_uniforms=False, rounds=1500)
    assert report.passed, str(report)
    assert report.skipped == tuple(LAWS)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "layer"),
    [
        *((name, "joint frequencies") for name in ("residual_is_target", "one_uniform", "rows_shifted")),
        *((name, "accepted length") for name in ("accept_always", "ratio_upside_down", "counts_past_rejection")),
        ("residual_keeps_token", "frequencies of a deterministic draft"),
    ],
)
def test_frequencies_reject(name, layer):
    """N = 1,500: the least total variation that is caught with power .999 is .14 (16 cells) or .12 (5 cells)."""
    verifier = own_random(mutants.MUTANTS[name])
    assert not conformance.check(verifier, takes_uniforms=False, rounds=1500, layers=[layer]).passed


def test_the_stated_power_is_that_of_a_noncentral_law():
    """Against scipy. And the false alarms of the whole kit stay below 1e-6."""
    from scipy import special

    for n, cells in ((20_000, 16), (3000, 5)):
        caught = smallest_caught(n, cells)
        critical = special.chdtri(cells - 1, FALSE_ALARM_RATE)
        assert special.chndtr(critical, cells - 1, 4 * n * caught**2) == pytest.approx(0.001, abs=1e-6)
    assert len(FREQUENCIES) * FALSE_ALARM_RATE < 1e-6


def test_a_verifier_that_raises_fails_and_the_report_says_so():
    def broken(target, draft, tokens, uniforms):
        raise KeyError("oops")

    report = conformance.check(broken, layers=["law of a position", "edge cases"])
    assert not report.passed
    assert "FAIL law of a position: raised KeyError: 'oops'" in str(report)
    assert "KeyError" in str(report).splitlines()[0]
    assert str(report).endswith("\nFAIL")


def test_a_report_on_nothing_does_not_pass():
    def random(target, draft, tokens):
        return 0, 0

    report = conformance.check(random, takes_uniforms=False, layers=["law of a round"])
    assert report.skipped == ("law of a round",)
    assert not report.passed


def test_unknown_layers_are_refused():
    with pytest.raises(ValueError, match=r"layers: expected some of edge cases, .*, got tea leaves"):
        conformance.check(specverify.verify_sampled, layers=["tea leaves"])


def test_a_wrong_greedy_function_fails():
    def last_of_ties(target, tokens):
        return specverify.verify_greedy(target[:, ::-1], target.shape[1] - 1 - tokens)

    report = conformance.check(specverify.verify_sampled, greedy=last_of_ties, layers=["temperature 0"])
    assert not report.passed


def test_arithmetic_in_float32_shows_and_a_tolerance_admits_it():
    def draw(weights, uniform):
        edges = weights.cumsum(dtype=np.float32)
        # The largest uniforms become 1: without the minimum it would return V, or a token of weight 0.
        return min(int(np.searchsorted(edges, np.float32(uniform) * edges[-1], "right")), np.flatnonzero(weights)[-1])

    def narrow(target, draft, tokens, uniforms):
        for i, token in enumerate(tokens):
            if np.float32(uniforms[i]) * draft[i][token] < target[i][token]:
                continue
            weights = np.maximum(target[i] - draft[i], 0)
            return i, draw(weights, uniforms[-1])
        return len(tokens), draw(target[-1], uniforms[-1])

    strict, wide = (
        conformance.check(narrow, deterministic_drafts=False, layers=["law of a round"], tolerance=tolerance)
        for tolerance in (conformance.TOLERANCE, 1e-6)
    )
    assert not strict.passed
    assert wide.passed


@pytest.mark.statistical
class TestTheProduct(conformance.VerifierContract):
    """The helper for pytest, used as a user would. Its tests of frequencies are those of the kit."""

    verifier = staticmethod(specverify.verify_sampled)
    options = {"greedy": specverify.verify_greedy, "rounds": 2000}  # noqa: RUF012


def test_the_helper_fails_and_skips():
    class Wrong(conformance.VerifierContract):
        verifier = staticmethod(mutants.MUTANTS["accept_always"])
        options = {"deterministic_drafts": False}  # noqa: RUF012

    with pytest.raises(AssertionError, match="FAIL law of a position: total variation"):
        Wrong().test_law_of_a_position()
    with pytest.raises(BaseException, match="does not apply"):
        Wrong().test_law_of_a_deterministic_draft()


def test_the_helper_has_a_test_for_every_layer():
    asked = []

    class Listening(conformance.VerifierContract):
        def assert_layer(self, name):
            asked.append(name)

    for name in dir(Listening):
        if name.startswith("test_"):
            getattr(Listening(), name)()
    assert sorted(asked) == sorted(conformance.LAYERS)


def test_a_function_of_flashinfers_shape_is_adapted():
    """A stand-in: one round of this package behind FlashInfer's shapes. FlashInfer itself wants a GPU."""
    rng = np.random.default_rng(0)

    def chain(draft_probs, draft_token_ids, target_probs):
        assert draft_token_ids.dtype == np.int32
        k = draft_token_ids.shape[1]
        output = np.full((1, k + 1), -1, np.int32)
        n, token = specverify.verify_sampled(target_probs[0], draft_probs[0], draft_token_ids[0], rng.random(k + 1))
        output[0, :n], output[0, n] = draft_token_ids[0, :n], token
        return output, np.array([n]), np.array([n])

    verifier = peers.from_flashinfer(chain)
    layers = ["edge cases", "temperature 0", "joint frequencies"]
    options = {"takes_uniforms": False, "deterministic_drafts": False, "rounds": 1000}
    assert conformance.check(verifier, layers=layers, **options).passed


def test_installed_peers_answer_what_is_certain():
    if importlib.util.find_spec("torch") is None:
        assert peers.installed() == []
        pytest.skip("there is no torch here")
    found = peers.installed()
    assert found[0].name == "the textbook rule in torch"
    for peer in found:
        report = conformance.check(
            peer.verifier, takes_uniforms=False, deterministic_drafts=False, layers=["temperature 0"]
        )
        assert report.passed, f"{peer.name} {peer.version}: {report}"


@pytest.mark.statistical
def test_a_build_is_certified():
    seen = []
    findings = certification.certify(
        n_pairs=30, isas=specverify.available_isas()[:1], progress=lambda *at: seen.append(at)
    )
    assert all(finding.passed for finding in findings), findings
    assert len(findings) == 5 + len(simulate.rules())
    assert seen[-1][0] == seen[-1][1] == len(seen)


def test_pairs_are_of_every_kind_and_have_positive_sums():
    kinds = {}
    for pair in certification.random_pairs(len(certification.KINDS) * 20, 64, seed=3):
        assert pair.target.dtype == pair.draft.dtype == np.float32
        assert 1 <= len(pair.target) == len(pair.draft) <= 64
        assert pair.target.any()
        assert pair.draft.any()
        kinds.setdefault(pair.kind, []).append(pair)
    assert tuple(kinds) == certification.KINDS
    assert all((pair.target < np.finfo(np.float32).tiny).all() for pair in kinds["subnormal"])
    assert sum(not (pair.target * pair.draft).any() for pair in kinds["disjoint"]) > 10
    assert sum(len(np.unique(pair.target)) < len(pair.target) for pair in kinds["ties"]) > 10


def test_spacing_of_uniforms_explains_most_of_a_long_draw():
    """The best that any function of a float64 uniform can do, against what this build does, at V = 64."""
    rng = np.random.default_rng(0)
    target, draft = rng.exponential(size=64).astype(np.float32), np.eye(64, dtype=np.float32)[0]
    best = proof.spacing_total_variation(target, draft)
    built = specverify_law(target, draft).total_variation
    assert 0.2 * built < best < built + 1e-16
    assert proof.spacing_total_variation([0.5, 0.5], [0.25, 0.75]) < 1e-16


def specverify_law(target, draft):
    from specverify import proof

    return proof.position_law(specverify.verify_sampled, target, draft)


@pytest.mark.statistical
def test_a_wrong_build_is_not_certified(monkeypatch):
    for name, kind in (("residual_is_target", "pairs"), ("bonus_from_draft", "round"), ("draw_closed", "contract")):
        monkeypatch.setattr(certification, "verify_sampled", mutants.MUTANTS[name])
        isa = specverify.active_isa()
        if kind == "pairs":
            finding = certification._pairs_finding(isa, [certification._pairs(isa, 0, 0, 4)])
        elif kind == "round":
            finding = certification._round(isa, 0, "token", [(3, 2, 0.0)])
        else:
            finding = certification._contract(isa)
        assert not finding.passed, name
