"""Every error: its type, and a message that names argument, expected, got, and the row or position.

Nothing is returned and no result is begun when an error is raised; the reference raises too, in its own words.
"""

import re

import numpy as np
import pytest

import specverify
from specverify import reference

# A round in which all three tokens are accepted, so that every row is visited.
VOCAB = 37  # two groups of 16 lanes and a tail of 5
K = 3
TOKENS = [1, 2, 3]
UNIFORMS = [0.5, 0.5, 0.5, 0.5]


def equal_rows() -> tuple[np.ndarray, np.ndarray]:
    """Exact in float32 and summing to 1, so that summed and trusted rows mean the same."""
    rows = np.full((K + 1, VOCAB), 1 / 64, np.float32)
    rows[:, 0] = 1 - (VOCAB - 1) / 64
    return rows, rows[:K].copy()


def sampled(
    target=None, draft="equal", tokens=TOKENS, uniforms=UNIFORMS, *, normalized=False, verify=specverify.verify_sampled
):
    own_target, own_draft = equal_rows()
    target = own_target if target is None else target
    return verify(target, own_draft if isinstance(draft, str) else draft, tokens, uniforms, normalized=normalized)


def greedy(target=None, tokens=(0, 0, 0)):
    return specverify.verify_greedy(equal_rows()[0] if target is None else target, tokens)


def exactly(message: str) -> str:
    return f"^{re.escape(message)}$"


def test_without_a_fault_all_is_accepted():
    assert sampled().n_accepted == sampled(normalized=True).n_accepted == greedy().n_accepted == K


NOT_REAL = {
    "complex": (np.ones((K + 1, VOCAB), complex), "complex128"),
    "bool": (np.ones((K + 1, VOCAB), bool), "bool"),
    "text": ([["a"] * VOCAB] * (K + 1), "<U1"),
    "None": ([[None] * VOCAB] * (K + 1), "object"),
    "dates": (np.zeros((K + 1, VOCAB), "datetime64[s]"), "datetime64[s]"),
}


@pytest.mark.parametrize("rows", NOT_REAL)
def test_rows_that_are_not_real(rows):
    values, dtype = NOT_REAL[rows]
    message = exactly(f"target: expected real numbers (float32 rows), got dtype {dtype}")
    with pytest.raises(TypeError, match=message):
        sampled(target=values)
    with pytest.raises(TypeError, match=message):
        greedy(target=values)
    with pytest.raises(TypeError, match=message.replace("target", "draft")):
        sampled(draft=values[:K])


@pytest.mark.parametrize(
    ("tokens", "dtype"),
    [
        ([1.0, 2.0, 3.0], "float64"),
        (np.float32([1, 2, 3]), "float32"),
        ([True, False, True], "bool"),
        (["1", "2", "3"], "<U1"),
        ([None, 1, 2], "object"),
        ([1, 2, 3j], "complex128"),
    ],
)
def test_tokens_that_are_not_integers(tokens, dtype):
    message = exactly(f"tokens: expected integers, got dtype {dtype}")
    with pytest.raises(TypeError, match=message):
        sampled(tokens=tokens)
    with pytest.raises(TypeError, match=message):
        greedy(tokens=tokens)


@pytest.mark.parametrize(
    ("uniforms", "dtype"),
    [([0.5j] * 4, "complex128"), (["0.5"] * 4, "<U3"), ([None] * 4, "object"), ([False] * 4, "bool")],
)
def test_uniforms_that_are_not_real(uniforms, dtype):
    with pytest.raises(TypeError, match=exactly(f"uniforms: expected real numbers (float64), got dtype {dtype}")):
        sampled(uniforms=uniforms)


def test_uniforms_are_not_optional():
    with pytest.raises(TypeError, match="uniforms: expected"):
        sampled(uniforms=[None] * 4)
    with pytest.raises(ValueError, match=exactly("uniforms: expected shape [K + 1], got ()")):
        sampled(uniforms=0.5)


def test_normalized_is_keyword_only():
    target, draft = equal_rows()
    with pytest.raises(TypeError, match="positional"):
        specverify.verify_sampled(target, draft, TOKENS, UNIFORMS, True)


@pytest.mark.parametrize("shape", [(), (4,), (1, 1, 1, 1)])
def test_a_target_that_is_no_matrix(shape):
    rows = np.ones(shape, np.float32)
    with pytest.raises(ValueError, match=exactly(f"target: expected shape [K + 1, V], got {shape}")):
        sampled(target=rows)
    with pytest.raises(ValueError, match=exactly(f"target: expected shape [K + 1, V], got {shape}")):
        greedy(target=rows)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4), (1, 1, 1, 1)])
def test_a_draft_that_is_no_matrix(shape):
    rows = np.ones(shape, np.float32)
    with pytest.raises(ValueError, match=exactly(f"draft: expected shape [K, V], got {shape}")):
        sampled(draft=rows)


@pytest.mark.parametrize("shape", [(0, VOCAB), (K + 1, 0), (0, 0)])
def test_an_empty_target(shape):
    message = exactly(f"target: expected shape [K + 1, V] with at least one row and V > 0, got {shape}")
    with pytest.raises(ValueError, match=message):
        sampled(target=np.ones(shape, np.float32))
    with pytest.raises(ValueError, match=message):
        greedy(target=np.ones(shape, np.float32))


@pytest.mark.parametrize("shape", [(K - 1, VOCAB), (K + 1, VOCAB), (K, VOCAB - 3), (K, VOCAB + 3), (0, VOCAB)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_draft_that_does_not_fit(shape, dtype):
    """Also the answer to vocabularies of different width: both are named, and nothing is cut or filled."""
    hint = " (is the target's bonus row missing?)" if shape == (K + 1, VOCAB) else ""
    message = exactly(f"draft: expected shape (K, V) = ({K}, {VOCAB}) beside the target's, got {shape}{hint}")
    with pytest.raises(ValueError, match=message):
        sampled(draft=np.ones(shape, dtype))


@pytest.mark.parametrize("length", [0, K - 1, K + 1])
def test_tokens_that_do_not_fit(length):
    message = exactly(f"tokens: expected shape (K,) = ({K},) beside the target's, got ({length},)")
    with pytest.raises(ValueError, match=message):
        sampled(tokens=[0] * length)
    with pytest.raises(ValueError, match=message):
        greedy(tokens=np.zeros(length, np.int64))


@pytest.mark.parametrize("length", [0, K, K + 2])
def test_uniforms_that_do_not_fit(length):
    message = exactly(f"uniforms: expected shape (K + 1,) = ({K + 1},) beside the target's, got ({length},)")
    for uniforms in ([0.5] * length, np.full(length, 0.5)):
        with pytest.raises(ValueError, match=message):
            sampled(uniforms=uniforms)


@pytest.mark.parametrize("tokens", [[[1, 2, 3]], 1, np.int64(1)])
def test_tokens_that_are_no_vector(tokens):
    with pytest.raises(ValueError, match=exactly(f"tokens: expected shape [K], got {np.shape(tokens)}")):
        sampled(tokens=tokens)


def test_rows_of_different_lengths():
    with pytest.raises(ValueError, match=r"^target: expected an array, got list: "):
        sampled(target=[[0.5, 0.5], [1.0]])


@pytest.mark.parametrize("position", range(K))
@pytest.mark.parametrize(
    "token", [-1, VOCAB, 2**31, 2**32 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1]
)
def test_a_token_outside_the_vocabulary(position, token):
    """Placeholders, and ids that would wrap to a valid one in 32 or 64 bits; in lists and all arrays that hold it."""
    tokens = [1, 2, 3]
    tokens[position] = token
    limit = VOCAB if -(2**63) <= token < 2**63 else "V"
    message = exactly(f"tokens[{position}] = {token} is outside [0, {limit})")
    for form in [tokens, *arrays_that_hold(tokens)]:
        for call in (sampled, greedy):
            with pytest.raises(ValueError, match=message):
                call(tokens=form)
        with pytest.raises(ValueError, match=message):
            sampled(tokens=form, normalized=True)


def arrays_that_hold(tokens):
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint64, object):
        if dtype is object or (np.iinfo(dtype).min <= min(tokens) and max(tokens) <= np.iinfo(dtype).max):
            yield np.array(tokens, dtype)


@pytest.mark.parametrize("position", range(K + 1))
@pytest.mark.parametrize("uniform", [1.0, -5e-324, 1.5, -1.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("normalized", [False, True])
def test_a_uniform_outside_the_unit_interval(position, uniform, normalized):
    uniforms = list(UNIFORMS)
    uniforms[position] = uniform
    with pytest.raises(ValueError, match=exactly(f"uniforms[{position}] = {uniform} is outside [0, 1)")):
        sampled(uniforms=uniforms, normalized=normalized)


def test_a_float32_uniform_that_was_rounded_to_one_is_refused():
    with pytest.raises(ValueError, match=exactly("uniforms[3] = 1.0 is outside [0, 1)")):
        sampled(uniforms=np.float32([0.5, 0.5, 0.5, 1 - 2**-26]))


def test_negative_zero_is_a_uniform():
    assert sampled(uniforms=[-0.0] * (K + 1)).n_accepted == K


@pytest.mark.parametrize("k", [64, 65, 100])
def test_positions_of_long_drafts(k):
    """Above 64 tokens another way is taken."""
    target = np.full((k + 1, 4), 0.25, np.float32)
    tokens, uniforms = np.ones(k, np.int64), np.zeros(k + 1)
    tokens[k - 1] = 4
    with pytest.raises(ValueError, match=exactly(f"tokens[{k - 1}] = 4 is outside [0, 4)")):
        specverify.verify_sampled(target, None, tokens, uniforms)
    tokens[k - 1], uniforms[k] = 3, 1.0
    with pytest.raises(ValueError, match=exactly(f"uniforms[{k}] = 1.0 is outside [0, 1)")):
        specverify.verify_sampled(target, None, tokens, uniforms)


def test_faults_of_positions_that_are_never_reached_are_found():
    """Tokens and uniforms are checked before the first row is read; rows are not."""
    target, _ = equal_rows()
    target[0] = np.nan
    with pytest.raises(ValueError, match=exactly("tokens[2] = -1 is outside [0, 37)")):
        sampled(target=target, tokens=[1, 2, -1])
    with pytest.raises(ValueError, match=exactly("uniforms[3] = 1.0 is outside [0, 1)")):
        sampled(target=target, uniforms=[0.5, 0.5, 0.5, 1.0])
    with pytest.raises(ValueError, match=exactly("tokens[2] = 37 is outside [0, 37)")):
        greedy(target=target, tokens=[0, 0, 37])


INDICES = (0, 1, 15, 16, 18, 31, 32, VOCAB - 2, VOCAB - 1)  # first, lane and group edges, middle, tail, last
IMPROPER = (np.nan, np.inf, -np.inf, -1.0, -1e-45)


@pytest.mark.parametrize("row", range(K + 1))
def test_an_improper_target_entry(isa, row):
    for entry in IMPROPER:
        for index in INDICES:
            target, _ = equal_rows()
            target[row, index] = entry
            message = exactly(f"target[{row}, {index}] = {np.float32(entry)}: expected a finite probability, 0 or more")
            for draft in ("equal", None):
                uniforms = [0.0] * (K + 1)  # a deterministic draft accepts these too
                with pytest.raises(ValueError, match=message):
                    sampled(target=target, draft=draft, uniforms=uniforms)
            with pytest.raises(ValueError, match="a visited row holds"):
                sampled(target=target, verify=reference.verify_sampled)


@pytest.mark.parametrize("row", range(K))
def test_an_improper_draft_entry(isa, row):
    for entry in IMPROPER:
        for index in INDICES:
            _, draft = equal_rows()
            draft[row, index] = entry
            message = exactly(f"draft[{row}, {index}] = {np.float32(entry)}: expected a finite probability, 0 or more")
            with pytest.raises(ValueError, match=message):
                sampled(draft=draft)
            with pytest.raises(ValueError, match="a visited row holds"):
                sampled(draft=draft, verify=reference.verify_sampled)


@pytest.mark.parametrize("name", ["target", "draft"])
@pytest.mark.parametrize("row", range(K))
def test_an_improper_entry_of_trusted_rows(isa, row, name):
    """Trusted rows are looked at where they are used: the drafted token's entries, and the rows that are drawn from."""
    for entry in IMPROPER:
        for index in INDICES:
            message = exactly(f"{name}[{row}, {index}] = {np.float32(entry)}: expected a finite probability, 0 or more")
            target, draft = equal_rows()
            (target if name == "target" else draft)[row, index] = entry
            looked_up = [index if i == row else token for i, token in enumerate(TOKENS)]
            with pytest.raises(ValueError, match=message):
                sampled(target, draft, looked_up, normalized=True)

            rejected = next(token for token in (20, 21) if token != index)
            draft[row, rejected] = 0.5
            with pytest.raises(ValueError, match=message):
                sampled(target, draft, [rejected if i == row else t for i, t in enumerate(TOKENS)], normalized=True)
            with pytest.raises(ValueError, match="a visited row holds"):
                sampled(
                    target,
                    draft,
                    [rejected if i == row else token for i, token in enumerate(TOKENS)],
                    normalized=True,
                    verify=reference.verify_sampled,
                )


@pytest.mark.parametrize("row", range(K + 1))
def test_an_improper_entry_of_a_trusted_row_that_is_drawn_from(isa, row):
    """After the rejection of a deterministic token, and for the bonus token."""
    for entry in IMPROPER:
        for index in INDICES:
            target, _ = equal_rows()
            target[row, index] = entry
            uniforms = [0.0] * (K + 1)
            tokens = list(TOKENS)
            if row < K:
                uniforms[row], tokens[row] = 0.99, next(token for token in (20, 21) if token != index)
            message = exactly(f"target[{row}, {index}] = {np.float32(entry)}: expected a finite probability, 0 or more")
            with pytest.raises(ValueError, match=message):
                sampled(target, None, tokens, uniforms, normalized=True)


@pytest.mark.parametrize("row", range(K + 1))
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_row_that_sums_to_zero(isa, row, zero):
    target, draft = equal_rows()
    target[row] = zero
    for normalized in (False, True):
        for own in (draft, None):
            with pytest.raises(
                ValueError,
                match=exactly(f"target[{row}] sums to 0: expected a row with at least one positive probability"),
            ):
                sampled(target, own, uniforms=[0.0] * (K + 1), normalized=normalized)
    if row < K:
        target, _ = equal_rows()
        draft[row] = zero
        with pytest.raises(
            ValueError, match=exactly(f"draft[{row}] sums to 0: expected a row with at least one positive probability")
        ):
            sampled(target, draft)


def test_rows_in_the_order_of_the_walk():
    """Of two faults the one that is read first is told: the draft's row, the target's, then the next position."""
    target, draft = equal_rows()
    target[1, 5] = draft[1, 6] = target[0, 7] = np.nan
    with pytest.raises(ValueError, match=r"^target\[0, 7\] = nan"):
        sampled(target, draft)
    target[0] = target[2]
    with pytest.raises(ValueError, match=r"^draft\[1, 6\] = nan"):
        sampled(target, draft)


def test_negative_zero_is_a_probability(isa):
    target, draft = equal_rows()
    target[:, 0], draft[:, 0] = -0.0, -0.0
    plain_target, plain_draft = np.abs(target), np.abs(draft)
    for normalized in (False, True):
        for uniforms in (UNIFORMS, [0.999, 0.5, 0.5, 0.0]):
            got = sampled(target, draft, uniforms=uniforms, normalized=normalized)
            assert got == sampled(plain_target, plain_draft, uniforms=uniforms, normalized=normalized)


@pytest.mark.parametrize("row", range(K + 1))
def test_a_greedy_row_without_maximum(isa, row):
    for entry in [np.nan, np.inf]:
        for index in INDICES:
            target, _ = equal_rows()
            target[row, index] = entry
            with pytest.raises(
                ValueError, match=exactly(f"target[{row}, {index}] = {entry}: expected a number below infinity")
            ):
                greedy(target=target)
            with pytest.raises(ValueError, match=rf"target\[{row}\] has no maximum"):
                reference.verify_greedy(target, [0, 0, 0])


@pytest.mark.parametrize("row", range(K + 1))
def test_a_greedy_row_that_is_masked_altogether(isa, row):
    target, _ = equal_rows()
    target[row] = -np.inf
    with pytest.raises(ValueError, match=exactly(f"target[{row}] has no maximum: every entry is -inf")):
        greedy(target=target)
    target[row, VOCAB - 1] = -1e38  # one entry that is not masked is enough
    assert greedy(target=target) == (row, VOCAB - 1)


def test_a_number_that_float32_cannot_hold():
    """Converted rows overflow to infinity, without a warning, and are refused like it."""
    target, draft = equal_rows()
    wide = target.astype(np.float64)
    wide[0, 3] = 1e300
    with pytest.raises(ValueError, match=exactly("target[0, 3] = inf: expected a finite probability, 0 or more")):
        sampled(wide, draft)


@pytest.mark.parametrize("sampling", [None, specverify.Sampling()])
def test_draws_name_their_own_arguments(isa, sampling):
    """One row is counted as it was given, and so is a batch; the uniform is the caller's too."""
    fault = np.float32(np.nan)
    expected = "a finite probability, 0 or more" if sampling is None else "a logit below infinity"
    for function in (
        lambda rows: specverify.sample(rows, [0.5] * len(rows) if np.ndim(rows) == 2 else 0.5, sampling),
        lambda rows: specverify.probabilities(rows, sampling),
    ):
        with pytest.raises(ValueError, match=exactly(f"rows[1] = nan: expected {expected}")):
            function([1.0, fault])
        with pytest.raises(ValueError, match=exactly(f"rows[2, 0] = nan: expected {expected}")):
            function([[1.0, 1.0], [1.0, 1.0], [fault, 1.0]])
        with pytest.raises(ValueError, match=exactly("rows: expected shape [V] or [B, V] with V > 0, got (2, 0)")):
            function(np.zeros((2, 0)))
    with pytest.raises(ValueError, match=exactly("uniform = 1.0 is outside [0, 1)")):
        specverify.sample([1.0, 2.0], 1.0, sampling)
    with pytest.raises(ValueError, match=exactly("uniform[1] = -0.5 is outside [0, 1)")):
        specverify.sample([[1.0, 2.0]] * 2, [0.5, -0.5], sampling)


@pytest.mark.parametrize("fault", [np.nan, np.inf, -1.0])
def test_rows_that_are_never_reached_may_hold_anything(isa, fault):
    target, draft = equal_rows()
    target[1:], draft[1:] = fault, fault
    draft[0, 1] = 0.5  # token 1 is rejected
    for normalized in (False, True):
        assert sampled(target, draft, uniforms=[0.9, 0.5, 0.5, 0.5], normalized=normalized).n_accepted == 0
        assert sampled(target, None, uniforms=[0.9, 0.5, 0.5, 0.5], normalized=normalized).n_accepted == 0
    assert greedy(target=target, tokens=[1, 0, 0]) == (0, 0)


def test_a_token_that_the_draft_cannot_have_drawn():
    """Documented: accepted iff the target can draw it, the limit of the rule."""
    target, draft = equal_rows()
    draft[0, 1] = 0
    draft[1, 2] = target[1, 2] = 0
    assert sampled(target, draft).n_accepted == 1


def test_booleans_of_another_length():
    """A word holds 32 tokens, so two of three would pass for three."""
    options = {"sampling": specverify.Sampling()}
    for mask in ([True, True], [True] * 40):
        got = len(mask)
        with pytest.raises(ValueError, match=exactly(f"mask: expected shape [3] of bool, got ({got},)")):
            specverify.probabilities(np.zeros(3), mask=mask, **options)
        with pytest.raises(ValueError, match=exactly(f"mask: expected shape [B, 3] of bool, got (2, {got})")):
            specverify.sample(np.zeros((2, 3)), [0.5, 0.5], mask=[mask] * 2, **options)
        expected = f"mask: expected shape (1, 1) (one bit a token) or bool (1, 3), got bool (1, {got})"
        with pytest.raises(ValueError, match=exactly(expected)):
            specverify.verify_sampled(np.zeros((1, 3)), None, [], [0.9], mask=[mask], **options)
