"""What holds for every round, whatever the rows: Hypothesis looks for a counterexample."""

import bisection
import numpy as np
import pytest
from helpers import ALMOST_ONE, EXAMPLES
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import specverify
from specverify import reference
from specverify.reference import row_sum

# Any float32 probability: zeros of both signs, subnormals, weights up to 1e30.
PROBABILITIES = st.one_of(
    st.floats(0, 1, width=32),
    st.sampled_from([0.0, -0.0, 1.0, 0.5, float(np.float32(1e-45)), float(np.float32(1e-40)), float(np.float32(1e30))]),
)
UNIFORMS = st.one_of(st.floats(0, ALMOST_ONE), st.sampled_from([0.0, 2**-53, 0.5, ALMOST_ONE]))
SIZES = st.one_of(st.integers(1, 6), st.sampled_from([15, 16, 17, 40, 300]))


def matrix(draw, k: int, vocab: int, elements=PROBABILITIES) -> np.ndarray:
    return draw(npst.arrays(np.float32, (k, vocab), elements=elements, fill=st.just(np.float32(0.25))))


@st.composite
def rounds(draw, min_k: int = 0, drafts=("dense", "none")):
    """(target, draft, tokens, uniforms) that have a result: every row has a positive sum."""
    k, vocab = draw(st.integers(min_k, 4)), draw(SIZES)
    target, draft = matrix(draw, k + 1, vocab), matrix(draw, k, vocab)
    assume((target.sum(1) > 0).all() and (draft.sum(1) > 0).all())
    tokens = draw(st.lists(st.integers(0, vocab - 1), min_size=k, max_size=k))
    uniforms = draw(st.lists(UNIFORMS, min_size=k + 1, max_size=k + 1))
    return target, draft if draw(st.sampled_from(drafts)) == "dense" else None, tokens, uniforms


def draft_row(draft, i: int, token: int, vocab: int) -> np.ndarray:
    return np.eye(vocab)[token] if draft is None else draft[i].astype(float)


@given(rounds())
def test_the_result_is_the_reference_s(given):
    assert specverify.verify_sampled(*given) == reference.verify_sampled(*given)


@given(rounds())
def test_the_result_of_trusted_rows_is_the_reference_s(given):
    try:
        expected = reference.verify_sampled(*given, normalized=True)
    except ValueError:
        with pytest.raises(ValueError, match=r"^(target|draft)\["):
            specverify.verify_sampled(*given, normalized=True)
        return
    assert specverify.verify_sampled(*given, normalized=True) == expected


@given(rounds())
def test_what_is_emitted_is_a_prefix_of_the_draft_and_one_token(given):
    target, _, tokens, _ = given
    n_accepted, next_token = specverify.verify_sampled(*given)
    assert 0 <= n_accepted <= len(tokens)
    assert 0 <= next_token < target.shape[1]


@given(rounds())
def test_no_token_of_target_probability_zero_is_emitted(given):
    target, _, tokens, _ = given
    n_accepted, next_token = specverify.verify_sampled(*given)
    emitted = [*tokens[:n_accepted], next_token]
    assert all(target[i, token] > 0 for i, token in enumerate(emitted))


@given(rounds(min_k=1))
def test_a_residual_token_has_more_mass_in_the_target_than_in_the_draft(given):
    target, draft, tokens, _ = given
    n_accepted, next_token = specverify.verify_sampled(*given)
    if n_accepted == len(tokens):
        return
    p = target[n_accepted].astype(float)
    q = draft_row(draft, n_accepted, tokens[n_accepted], len(p))
    residual = np.maximum(p - q * (row_sum(p) / row_sum(q)), 0)
    assert residual[next_token] > 0 or not residual.any()


@given(rounds(min_k=1), st.data())
def test_raising_an_accept_uniform_never_accepts_more(given, data):
    *rows, tokens, uniforms = given
    raised = [data.draw(st.floats(uniform, ALMOST_ONE)) for uniform in uniforms[:-1]]
    before = specverify.verify_sampled(*rows, tokens, uniforms).n_accepted
    assert specverify.verify_sampled(*rows, tokens, [*raised, uniforms[-1]]).n_accepted <= before


@given(rounds(), UNIFORMS)
def test_the_last_uniform_decides_the_token_and_nothing_else(given, last):
    *arguments, uniforms = given
    low, high = sorted([last, uniforms[-1]])
    first = specverify.verify_sampled(*arguments, [*uniforms[:-1], low])
    second = specverify.verify_sampled(*arguments, [*uniforms[:-1], high])
    assert first.n_accepted == second.n_accepted
    assert first.next_token <= second.next_token


@given(rounds(min_k=1))
def test_rows_behind_the_first_rejection_have_no_effect(given):
    target, draft, tokens, uniforms = given
    verdict = specverify.verify_sampled(*given)
    target = target.copy()
    target[verdict.n_accepted + 1 :] = np.nan
    if draft is not None:
        draft = draft.copy()
        draft[verdict.n_accepted + 1 :] = np.nan
    assert specverify.verify_sampled(target, draft, tokens, uniforms) == verdict


@given(rounds(), st.integers(-20, 20), st.integers(-20, 20))
def test_a_factor_of_a_row_has_no_effect(given, target_exponent, draft_exponent):
    """Powers of two, which change no rounding while nothing is subnormal."""
    target, draft, tokens, uniforms = given
    rows = np.vstack([target, target if draft is None else draft])
    assume(((rows == 0) | ((rows > 1e-20) & (rows < 1e20))).all())
    scaled = None if draft is None else draft * np.float32(2.0**draft_exponent)
    expected = specverify.verify_sampled(*given)
    assert specverify.verify_sampled(target * np.float32(2.0**target_exponent), scaled, tokens, uniforms) == expected


@given(rounds())
def test_summed_and_trusted_rows_agree_when_rows_sum_to_one(given):
    """Entries in units of 2**-8 whose sum is exactly 1."""
    target, draft, tokens, uniforms = given

    def exact_law(rows):
        shares = np.floor(rows / rows.max(1, keepdims=True) * (255 // rows.shape[1]))
        shares[:, -1] += 256 - shares.sum(1)
        return shares / np.float32(256)

    assume(target.shape[1] <= 40)
    rows = exact_law(target), draft if draft is None else exact_law(draft)
    assert (rows[0].sum(1) == 1).all()
    summed = specverify.verify_sampled(*rows, tokens, uniforms)
    assert specverify.verify_sampled(*rows, tokens, uniforms, normalized=True) == summed


@given(rounds(min_k=1, drafts=("dense",)), st.integers(0, 3))
def test_equal_rows_accept_everything(given, exponent):
    """A factor of the draft included. Tokens are those that the draft can have drawn."""
    _, draft, _, uniforms = given
    assume((draft[draft > 0] > 1e-30).all())
    tokens = [int(np.argmax(row)) for row in draft]
    target = np.vstack([draft, draft[-1:]])
    scaled = draft * np.float32(2.0**exponent)
    assert specverify.verify_sampled(target, scaled, tokens, uniforms).n_accepted == len(tokens)


@given(
    st.integers(2, 40).flatmap(lambda vocab: st.lists(st.integers(0, 2**20), min_size=vocab, max_size=vocab)),
    st.integers(1, 15),
    UNIFORMS,
)
def test_where_both_sides_of_the_test_are_equal_every_uniform_accepts(row, factor, uniform):
    """A draft that is an integer multiple of the target: q * P == p * Q in exact arithmetic, and so in float64.

    The rounded u * x is below x for every u <= 1 - 2**-53 and positive x: the exact product is at most x - x * 2**-53,
    which is more than half a unit of x below it, or, for x a power of two, the next number below.
    """
    target = np.array(row, np.float32)
    draft = target * factor  # below 2**24: exact
    for token in np.flatnonzero(target):
        for u in (uniform, ALMOST_ONE):
            verdict = specverify.verify_sampled([target, target], [draft], [token], [u, 0.5])
            assert verdict.n_accepted == 1


@given(rounds(min_k=1, drafts=("dense",)))
def test_disjoint_rows_accept_nothing(given):
    target, draft, _, uniforms = given
    target = np.where(np.arange(target.shape[1]) % 2, target, 0).astype(np.float32)
    draft = np.where(np.arange(draft.shape[1]) % 2, 0, draft).astype(np.float32)
    assume((target.sum(1) > 0).all() and (draft.sum(1) > 0).all())
    tokens = [int(np.argmax(row)) for row in draft]
    assert specverify.verify_sampled(target, draft, tokens, uniforms).n_accepted == 0


@given(rounds(min_k=1))
def test_a_token_that_the_draft_cannot_draw_is_accepted_iff_the_target_can(given):
    target, _, tokens, uniforms = given
    draft = np.ones((len(tokens), target.shape[1]), np.float32)
    draft[np.arange(len(tokens)), tokens] = 0
    assume((draft.sum(1) > 0).all())
    possible = [target[i, token] > 0 for i, token in enumerate(tokens)]
    assert specverify.verify_sampled(target, draft, tokens, uniforms).n_accepted == [*possible, False].index(False)


@given(npst.arrays(np.float32, st.tuples(st.just(3), st.integers(1, 40)), elements=PROBABILITIES), st.data())
def test_temperature_zero_is_argmax(logits, data):
    """One-hot target rows, as temperature 0 makes them: sampled and greedy agree, whatever draft and uniforms."""
    vocab = logits.shape[1]
    token = st.integers(0, vocab - 1)
    tokens = [data.draw(st.one_of(st.just(int(np.argmax(row))), token)) for row in logits[:2]]
    certain = np.eye(vocab, dtype=np.float32)[logits.argmax(1)]
    uniforms = data.draw(st.lists(UNIFORMS, min_size=3, max_size=3))
    expected = specverify.verify_greedy(logits, tokens)
    deterministic_draft = np.eye(vocab, dtype=np.float32)[tokens]
    for draft in (None, deterministic_draft):
        assert specverify.verify_sampled(certain, draft, tokens, uniforms) == expected


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(npst.arrays(np.float32, st.tuples(st.integers(1, 4), SIZES), elements=FLOATS), st.data())
def test_greedy_accepts_the_common_prefix_with_numpy_argmax(target, data):
    best = target.argmax(1).tolist()
    tokens = [data.draw(st.one_of(st.just(token), st.integers(0, target.shape[1] - 1))) for token in best[:-1]]
    agree = [a == b for a, b in zip(tokens, best, strict=False)]  # best has the bonus row too
    n_accepted = [*agree, False].index(False)
    assert specverify.verify_greedy(target, tokens) == (n_accepted, best[n_accepted])
    target[n_accepted + 1 :] = np.nan
    assert specverify.verify_greedy(target, tokens) == (n_accepted, best[n_accepted])


PAIRS_OF_ROWS = st.integers(2, 6).flatmap(
    lambda vocab: st.tuples(*[st.lists(st.integers(0, 9), min_size=vocab, max_size=vocab)] * 2)
)


@settings(max_examples=EXAMPLES // 2)
@given(PAIRS_OF_ROWS, st.randoms())
def test_permuting_the_vocabulary_permutes_the_law(rows, random):
    """Integer rows, so that sums are exact in any order. Each law is within TOLERANCE of the exact one."""
    target_row, draft_row = map(np.array, rows)
    assume(target_row.any() and draft_row.any())
    order = list(range(len(target_row)))
    random.shuffle(order)
    law = bisection.one_position_law(specverify.verify_sampled, target_row, draft_row.tolist())
    permuted = bisection.one_position_law(specverify.verify_sampled, target_row[order], draft_row[order].tolist())
    assert all(abs(law[old] - permuted[new]) <= 2 * bisection.TOLERANCE for new, old in enumerate(order))
