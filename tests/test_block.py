"""The block rule: the same law as the target's in exact rational numbers, and never fewer accepted than token by token.

First the rule itself, then the compiled function on every cell of the uniforms, then kernel against reference.
"""

import itertools
from fractions import Fraction

import bisection
import exact
import helpers
import mutants
import numpy as np
import pytest
from helpers import ALMOST_ONE
from test_enumeration import MODELS, deterministic, make_model

import specverify
from specverify import reference


def sparse(rows) -> specverify.SparseRows | None:
    """The positive entries, listed backwards."""
    if rows is None:
        return None
    ids = [np.flatnonzero(row)[::-1] for row in rows]
    return specverify.SparseRows(ids, [np.array(row)[i] for row, i in zip(rows, ids, strict=True)], len(rows[0]))


def of_sparse_drafts(verify):
    return lambda target, draft, *rest: verify(target, sparse(draft) if draft else [], *rest)


def of_sparse_rows(verify):
    return lambda target, draft, *rest: verify(sparse(target), sparse(draft) if draft else None, *rest)


def laws(verifier, kind: str, vocab: int, k: int, points=exact.block_breakpoints) -> tuple[dict, dict]:
    target, draft = make_model(kind, "target", vocab), make_model(kind, "draft", vocab)
    return exact.emitted_law(verifier, target, draft, draft, k, points), dict(exact.texts(target, k + 1))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("vocab", "k"), [(2, 0), (1, 2), (2, 2), (3, 1), (3, 2), (2, 3)])
def test_the_rule_emits_the_target_law(vocab, k, kind):
    emitted, own = laws(exact.verify_block, kind, vocab, k)
    assert emitted == own


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("vocab", "k"), [(3, 2), (2, 3)])
def test_the_compiled_function_emits_the_target_law(isa, vocab, k, kind):
    emitted, own = laws(specverify.verify_block, kind, vocab, k)
    assert emitted == own


@pytest.mark.parametrize("form", [of_sparse_drafts, of_sparse_rows])
@pytest.mark.parametrize("kind", ["sparse", "dense", "disjoint"])
def test_sparse_rows_emit_the_target_law(kind, form):
    for verify, points in (
        (specverify.verify_block, exact.block_breakpoints),
        (specverify.verify_sampled, exact.breakpoints),
        (reference.verify_block, exact.block_breakpoints),
    ):
        emitted, own = laws(form(verify), kind, 3, 2, points)
        assert emitted == own


@pytest.mark.parametrize("kind", MODELS)
def test_certain_tokens_emit_the_target_law(kind):
    """The block rule accepts as many of them as the token rule, at other uniforms; the package uses the token rule."""
    target, draft = make_model(kind, "target", 3), deterministic(make_model(kind, "draft", 3))
    for verify, points in (
        (exact.verify_block, exact.block_breakpoints),
        (specverify.verify_block, exact.breakpoints),
        (reference.verify_block, exact.breakpoints),
    ):
        emitted = exact.emitted_law(verify, target, None, draft, 2, points)
        assert emitted == dict(exact.texts(target, 3))
    token = exact.expected_accepted(exact.verify, target, draft, 2)
    assert exact.expected_accepted(exact.verify_block, target, draft, 2, exact.block_breakpoints) == token


def test_logits_emit_the_target_law():
    """At temperature log2(e) a weight is 2 to the power of an integer logit: exact rational numbers again."""
    two_to_the = float.fromhex("0x1.71547652b82fep+0")
    logits = {0: -np.inf, 1: 0.0, 2: 1.0, 4: 2.0, 8: 3.0}

    def model(side):
        def row(before):
            return [(4, 2, 1, 0), (1, 8, 1, 2), (2, 0, 4, 2), (1, 1, 1, 1)][(len(before) + sum(before) + side) % 4]

        return row

    def filtered(model):
        """Top-k of three: the smallest goes, of equals the last."""

        def row(before):
            whole = list(model(before))
            whole[len(whole) - 1 - whole[::-1].index(min(whole))] = 0
            return whole

        return row

    for sampling, warp in (
        (specverify.Sampling(two_to_the), lambda model: model),
        (specverify.Sampling(two_to_the, top_k=3), filtered),
        (specverify.Sampling(two_to_the, top_p=0.999, min_p=0.125), lambda model: model),
    ):
        for verify, points in (
            (specverify.verify_sampled, exact.breakpoints),
            (specverify.verify_block, exact.block_breakpoints),
        ):

            def from_logits(target, draft, *rest, verify=verify, sampling=sampling):
                rows = [[[logits[entry] for entry in row] for row in side] for side in (target, draft)]
                return verify(*rows, *rest, sampling=sampling)

            target, draft = warp(model(0)), warp(model(1))
            emitted = exact.emitted_law(from_logits, target, draft, draft, 2, points)
            assert emitted == dict(exact.texts(target, 3))


# Target (1/3, 2/3) and draft (2/3, 1/3) at every position.
TOKEN = [Fraction(2, 3), Fraction(10, 9), Fraction(38, 27), Fraction(130, 81)]
BLOCK = [Fraction(2, 3), Fraction(11, 9), Fraction(5, 3), Fraction(166, 81)]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_expected_accepted_of_a_known_pair(k):
    rows = (lambda before: [1, 2]), (lambda before: [2, 1])
    for verify in (exact.verify, specverify.verify_sampled):
        assert exact.expected_accepted(verify, *rows, k) == TOKEN[k - 1]
    for verify in (exact.verify_block, specverify.verify_block):
        assert exact.expected_accepted(verify, *rows, k, exact.block_breakpoints) == BLOCK[k - 1]


def test_never_fewer_than_token_by_token():
    """All pairs of a grid of rows, the same at every position, and models whose rows depend on the path."""
    rows = [(1, 0), (3, 1), (1, 1), (1, 2), (1, 7), (0, 1)]
    pairs = [((lambda before, p=p: p), (lambda before, q=q: q)) for p, q in itertools.product(rows, rows)]
    pairs += [(make_model(kind, "target", 2), make_model(kind, "draft", 2)) for kind in MODELS]
    more = 0
    for k in (2, 3):
        for target, draft in pairs:
            token = exact.expected_accepted(exact.verify, target, draft, k)
            block = exact.expected_accepted(exact.verify_block, target, draft, k, exact.block_breakpoints)
            assert block >= token
            more += block > token
    for kind in MODELS:
        target, draft = make_model(kind, "target", 3), make_model(kind, "draft", 3)
        token = exact.expected_accepted(specverify.verify_sampled, target, draft, 2)
        block = exact.expected_accepted(specverify.verify_block, target, draft, 2, exact.block_breakpoints)
        assert block >= token
    assert more > len(pairs) // 2


@pytest.mark.parametrize("k", [0, 1])
def test_up_to_one_token_both_rules_are_the_same(isa, k):
    for kind in ("dense", "sparse", "equal", "disjoint", "unnormalised"):
        rows = helpers.rows_of_kind(kind, 300, k=k)
        for token, u, last in itertools.product((0, 7, 299), (0.0, 0.4, ALMOST_ONE), (0.0, 0.7)):
            arguments = (*rows, [token] * k, [u] * k + [last])
            assert specverify.verify_block(*arguments) == specverify.verify_sampled(*arguments)


@pytest.mark.parametrize("size", [1, 2, 17, 256, 257, 4097, 9000])
@pytest.mark.parametrize("kind", helpers.KINDS)
def test_the_result_is_the_reference_s(isa, kind, size):
    if (kind, size) == ("disjoint", 1):
        return
    target, draft = helpers.rows_of_kind(kind, size)
    rng = np.random.default_rng(size)
    for n in range(8 if size < 1000 else 4):
        likely = [int(np.argmax(row)) for row in (target[:3] if draft is None or n % 2 else draft)]
        tokens = likely if n < 6 else rng.integers(0, size, 3)
        uniforms = rng.random(4) ** (n % 3)
        uniforms[uniforms == 1] = ALMOST_ONE
        for normalized in (False, True):
            expected = reference.verify_block(target, draft, tokens, uniforms, normalized=normalized)
            assert specverify.verify_block(target, draft, tokens, uniforms, normalized=normalized) == expected


def test_equal_rows_accept_everything_and_disjoint_ones_nothing(isa):
    target, draft = helpers.rows_of_kind("equal", 500)
    tokens = draft.argmax(1)
    assert specverify.verify_block(target, draft, tokens, [ALMOST_ONE] * 4).n_accepted == 3
    target, draft = helpers.rows_of_kind("disjoint", 500)
    tokens = draft.argmax(1)
    assert specverify.verify_block(target, draft, tokens, [0.0] * 4).n_accepted == 0


def test_rows_behind_an_impossible_token_are_not_read(isa):
    """The path ends there: nothing after it can be accepted."""
    target, draft = (rows.copy() for rows in helpers.rows_of_kind("dense", 40))
    target[1, 5] = 0
    target[2:], draft[2:] = np.nan, np.nan
    verdict = specverify.verify_block(target, draft, [3, 5, 7], [0.1, 0.1, 0.1, 0.5])
    assert verdict.n_accepted <= 1
    with pytest.raises(ValueError, match=r"draft\[2, 0\] = nan"):
        specverify.verify_block(target, draft, [3, 6, 7], [0.1, 0.1, 0.1, 0.5])


def test_the_longest_draft(isa):
    """1024 tokens are remembered, and not one more."""
    longest = specverify._core.LONGEST_BLOCK
    rows = np.broadcast_to(np.full(4, 0.25, np.float32), (longest + 2, 4))
    tokens = np.zeros(longest + 1, int)
    uniforms = np.full(longest + 2, 0.3)
    assert specverify.verify_block(rows[1:], rows[2:], tokens[1:], uniforms[1:]) == (longest, 1)
    with pytest.raises(ValueError, match=r"^tokens: expected at most 1024 with the block rule, got 1025$"):
        specverify.verify_block(rows, rows[1:], tokens, uniforms)


@pytest.mark.parametrize("name", ["random 5", "zeros", "unnormalised"])
def test_the_law_of_the_build_at_one_position(isa, name):
    """Bisection on the compiled functions themselves: block rule, sparse drafts, logits."""
    from test_law import distance, rows

    target_row, draft_row = rows(name)
    forms = [specverify.verify_block, of_sparse_drafts(specverify.verify_sampled)]
    for verify in forms:
        emitted = bisection.one_position_law(verify, target_row, [float(entry) for entry in draft_row])
        assert distance(emitted, target_row) <= bisection.TOLERANCE


# Rows for all positions at which the parts of the rule matter: after one token the residual has two entries whose ratio
# depends on the path; the sparse draft's ids are not its places.
TELLING = {"block": ([5, 10, 5], [16, 3, 1]), "sparse": ([1, 2, 3, 2], [0, 5, 0, 3])}


def is_wrong(verifier, name: str, points) -> bool:
    target_row, draft_row = TELLING[name]
    target, draft = (lambda before: target_row), (lambda before: draft_row)
    return exact.emitted_law(verifier, target, draft, draft, 2, points) != dict(exact.texts(target, 3))


@pytest.mark.parametrize("name", mutants.BLOCKS)
def test_enumeration_rejects(name):
    assert is_wrong(mutants.BLOCKS[name], "block", every_breakpoint)


def every_breakpoint(*rows):
    """Those of both rules, cut finer, for wrong rules that change their result somewhere else."""
    both = zip(exact.breakpoints(*rows), exact.block_breakpoints(*rows), strict=True)
    return [sorted({*token, *block, *(Fraction(n, 5) for n in range(1, 5))}) for token, block in both]


@pytest.mark.parametrize("name", mutants.SPARSE)
def test_enumeration_of_sparse_drafts_rejects(name):
    assert is_wrong(mutants.SPARSE[name], "sparse", exact.breakpoints)


def test_enumeration_accepts_the_right_rules():
    assert not is_wrong(exact.verify_block, "block", every_breakpoint)
    assert not is_wrong(exact.verify, "sparse", exact.breakpoints)
