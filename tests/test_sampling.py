"""Verification from logits: kernel and reference compared with ``==``, both sides warped alike, draws from one law."""

import itertools
import re
from fractions import Fraction

import bisection
import helpers
import ml_dtypes
import numpy as np
import pytest
from helpers import ALMOST_ONE, EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

import specverify
from specverify import Sampling, SparseRows, _isa, reference, sample, verify_sampled

F = np.float32


LAYOUTS = {
    "plain": lambda rows: rows,
    "columns": lambda rows: np.concatenate([rows, rows], 1)[:, : rows.shape[1]],
    "backwards": lambda rows: rows[::-1].copy()[::-1],
    "every second column": lambda rows: np.repeat(rows, 2, 1)[:, ::2],
    "fortran": np.asfortranarray,
    "read-only": lambda rows: rows.view() if rows.setflags(write=False) is None else rows,
}
SAMPLINGS = st.builds(
    Sampling,
    st.sampled_from([0.0, 1e-5, 0.1, 0.8, 1.0, 1.7, 50.0]),
    st.sampled_from([0, 0, 1, 2, 5, 40, 1500]),
    st.sampled_from([1.0, 1.0, 0.999, 0.95, 0.5, 0.01]),
    st.sampled_from([0.0, 0.0, 0.05, 0.4, 1.0]),
)


@st.composite
def rounds(draw):
    """Arguments and options of a round from logits. The numbers come from a seed, their use from Hypothesis."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    vocab = draw(st.sampled_from([1, 2, 3, 8, 31, 33, 63, 65, 97, 255, 257, 1000, 4097]))
    k = draw(st.integers(0, 3))
    dtype = draw(st.sampled_from([F, np.float16, ml_dtypes.bfloat16, np.float64]))
    spread = draw(st.sampled_from([0.1, 1.0, 5.0, 30.0]))
    both = rng.normal(size=(2, k + 1, vocab)) * spread
    shape = draw(st.sampled_from(["different", "equal", "tied", "masked"]))
    if shape == "equal":
        both[1] = both[0]
    elif shape == "tied":
        both = np.round(both)
    elif shape == "masked":
        both[both < -0.5 * spread] = -np.inf
    both = both.astype(F).astype(dtype)
    layout = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))]
    target, draft = layout(both[0].copy()), layout(both[1, :k].copy())
    options = {"sampling": draw(SAMPLINGS)}
    if draw(st.booleans()):
        options["mask"] = rng.integers(-(2**31), 2**31, (k + 1, -(-vocab // 32))).astype(np.int32)
        options["mask"][:, 0] |= 1
    if draw(st.booleans()):
        options["bias"] = rng.normal(size=vocab).astype(F)
    tokens = rng.integers(0, vocab, k)
    kind = draw(st.sampled_from(["dense", "none", "sparse"]))
    if kind == "none":
        draft = None
    elif kind == "sparse":
        n = min(vocab, 20)
        ids = [rng.permutation(vocab)[:n] for _ in range(k)]
        draft = SparseRows(ids, rng.random((k, n)))
        tokens = np.array([i[0] for i in ids], int)
    uniforms = rng.random(k + 1)
    if draw(st.booleans()):
        uniforms[:-1] *= 0.1
    if kind == "dense":
        for i in range(k):
            own = {name: rows[i] if name == "mask" else rows for name, rows in options.items()}
            try:
                tokens[i] = reference.sample(draft[i], rng.random(), **own)
            except ValueError:  # nothing left of the row
                break
    return (target, draft, tokens, uniforms), options


def outcome(function, *arguments, **options):
    """A result, or that there is none: messages are tested elsewhere."""
    try:
        return tuple(function(*arguments, **options))
    except ValueError:
        return "error"


@settings(max_examples=4 * EXAMPLES)
@given(rounds())
def test_every_rule_gives_the_reference_s_result(case):
    arguments, options = case
    target, _, tokens, _ = arguments
    expected = outcome(reference.verify_sampled, *arguments, **options)
    block = outcome(reference.verify_block, *arguments, **options)
    plain = {name: rows for name, rows in options.items() if name != "sampling"}
    greedy = outcome(reference.verify_greedy, target, tokens, **plain)
    first = {name: rows[:1] if name == "mask" else rows for name, rows in options.items()}
    law = outcome(
        reference.probabilities, target[0], **(first | ({"mask": first["mask"][0]} if "mask" in first else {}))
    )
    for isa in specverify.available_isas():
        with _isa.using(isa):
            assert outcome(verify_sampled, *arguments, **options) == expected
            assert outcome(specverify.verify_block, *arguments, **options) == block
            assert outcome(specverify.verify_greedy, target, tokens, **plain) == greedy
            rows = outcome(specverify.probabilities, target[:1], **first)
            assert rows == "error" if law == "error" else tuple(rows[0]) == law


@settings(max_examples=EXAMPLES)
@given(rounds())
def test_a_list_of_what_a_sampler_leaves_is_the_sampler(case):
    """Weights of the survivors, given as sparse rows of probabilities, decide as the logits do."""
    arguments, options = case
    target, draft, tokens, uniforms = arguments
    if options["sampling"].top_k == 0 or isinstance(draft, SparseRows):
        return

    def listed(rows):
        masks = options.get("mask", [None] * len(rows))
        warped = [
            reference.weights(row, options["sampling"], masks[i], options.get("bias")) for i, row in enumerate(rows)
        ]
        return SparseRows([np.flatnonzero(w) for w in warped], [w[w > 0] for w in warped], target.shape[1])

    try:
        rows = listed(target), None if draft is None else listed(draft)
    except ValueError:
        return
    assert verify_sampled(*rows, tokens, uniforms) == verify_sampled(*arguments, **options)
    assert specverify.verify_block(*rows, tokens, uniforms) == specverify.verify_block(*arguments, **options)


def log(*probabilities) -> np.ndarray:
    return np.log(np.array(probabilities))


def test_target_and_draft_are_filtered_alike(isa):
    """P = (.571, .429, 0, 0), Q = (.625, .375, 0, 0): the ratio is .914. With the draft unfiltered it would be 1.143.

    huggingface/transformers#47932.
    """
    target, draft, top_2 = log(0.4, 0.3, 0.2, 0.1), log(0.5, 0.3, 0.15, 0.05), Sampling(top_k=2)
    assert verify_sampled([target, target], [draft], [0], [0.95, 0.5], sampling=top_2) == (0, 1)
    assert verify_sampled([target, target], [draft], [0], [0.91, 0.5], sampling=top_2) == (1, 0)


def test_filters_are_sequential_on_every_path(isa):
    """Top-k first: (.5, .3, .2), of which .65 keeps two. sgl-project/sglang PR#36173."""
    row, sampling = log(0.40, 0.24, 0.16, 0.12, 0.08), Sampling(top_k=3, top_p=0.65)
    arguments = [row, row], None, [2], [0.1, 0.9]
    assert verify_sampled(*arguments, sampling=sampling) == (0, 1)
    assert specverify.verify_block(*arguments, sampling=sampling) == (0, 1)
    assert reference.verify_sampled(*arguments, sampling=sampling) == (0, 1)
    batch = verify_sampled([[row, row]] * 2, None, [[2]] * 2, [[0.1, 0.9]] * 2, sampling=sampling)
    assert (batch.n_accepted.tolist(), batch.next_token.tolist()) == ([0, 0], [1, 1])
    assert specverify.probabilities(row, sampling) == pytest.approx([0.625, 0.375, 0, 0, 0], abs=1e-6)


def test_top_p_keeps_the_token_that_crosses(isa):
    """.5 + .3 + .09999 is below .9, so the next largest is kept: index 4. flashinfer-ai/flashinfer#2202."""
    row, nucleus = log(0.5, 0.3, 0.09999, 0.05, 0.05001), Sampling(top_p=0.9)
    assert verify_sampled([row], None, [], [0.96], sampling=nucleus) == (0, 4)
    expected = [0.52632, 0.31579, 0.10525, 0, 0.05264]
    assert specverify.probabilities(row, nucleus) == pytest.approx(expected, abs=1e-5)


def test_min_p_applies_to_verified_tokens_too(isa):
    """Token 2 is below .4 * .5. vllm-project/vllm#42744, PR#42802."""
    row, filtered = log(0.5, 0.3, 0.15, 0.05), Sampling(min_p=0.4)
    assert verify_sampled([row, row], None, [2], [0.1, 0.9], sampling=filtered) == (0, 1)
    assert verify_sampled([row], None, [], [0.9], sampling=filtered) == (0, 1)


def test_temperature_one_samples(isa):
    """It was taken for "nothing to do". huggingface/text-generation-inference#687. Binomial: 80, deviation 7."""
    row = log(0.6, 0.4)
    assert verify_sampled([row], None, [], [0.7], sampling=Sampling()) == (0, 1)
    assert sample(row, 0.7, Sampling()) == 1
    assert 60 <= sum(sample(row, u, Sampling()) for u in np.random.default_rng(1).random(200)) <= 100


def test_temperature_zero_accepts_the_maximum_at_any_uniform(isa):
    target, draft = F([[1, 3, 2], [0, 0, 5]]), F([[0, 9, 0]])
    for u in (0.0, 0.5, ALMOST_ONE):
        for rows in (draft, None):
            assert verify_sampled(target, rows, [1], [u, u], sampling=Sampling(0)) == (1, 2)
            assert verify_sampled(target, rows, [0], [u, u], sampling=Sampling(0)) == (0, 1)
        assert specverify.verify_block(target, draft, [1], [u, u], sampling=Sampling(0)) == (1, 2)


def warped_on_one_side(target, draft, tokens, uniforms, *, sampling):
    """A mutant: the draft's softmax has no temperature and no filter."""
    plain = reference.probabilities(draft[0], Sampling())
    return verify_sampled([reference.probabilities(row, sampling) for row in target], [plain], tokens, uniforms)


@pytest.mark.parametrize("sampling", [Sampling(0.8), Sampling(1.5), Sampling(top_k=3), Sampling(0.7, 4, 0.9, 0.1)])
def test_the_law_of_a_position_is_the_warped_target(isa, sampling):
    """By bisection on the compiled function. The draft's tokens come from its own warped row; the mutant is far off."""
    target, draft = F([log(0.4, 0.25, 0.2, 0.1, 0.05), log(0.2, 0.1, 0.3, 0.15, 0.25)])
    own = [Fraction(float(w)) for w in reference.weights(target, sampling)]
    drafted = [float(w) for w in reference.weights(draft, sampling)]

    def distance(verify):
        def from_logits(target_rows, draft_rows, tokens, uniforms):
            return verify([target, target], [draft], tokens, uniforms, sampling=sampling)

        law = bisection.one_position_law(from_logits, [1.0] * 5, drafted)
        return max(abs(chance - w / sum(own)) for chance, w in zip(law, own, strict=True))

    assert distance(verify_sampled) <= bisection.TOLERANCE
    assert distance(specverify.verify_block) <= bisection.TOLERANCE
    assert distance(warped_on_one_side) > 0.01


def test_a_sample_is_drawn_from_the_probabilities_that_come_with_it(isa):
    rng = np.random.default_rng(2)
    for sampling in (Sampling(), Sampling(0.7, 20, 0.9), None):
        rows = rng.random((6, 300)).astype(F) * (1 if sampling is None else 9)
        uniforms = rng.random(6)
        tokens, law = sample(rows, uniforms, sampling, with_probabilities=True)
        assert tokens.tolist() == [sample(row, u, sampling) for row, u in zip(rows, uniforms, strict=True)]
        assert law.tobytes() == specverify.probabilities(rows, sampling).tobytes()
        assert (law[np.arange(6), tokens] > 0).all()
        if sampling is not None:
            expected = [reference.sample(row, u, sampling) for row, u in zip(rows, uniforms, strict=True)]
            assert tokens.tolist() == expected
        token, row_law = sample(rows[0], uniforms[0], sampling, with_probabilities=True)
        assert (token, row_law.tobytes()) == (tokens[0], law[0].tobytes())


def test_what_a_draft_samples_is_accepted_by_its_own_law(isa):
    rng = np.random.default_rng(3)
    logits, sampling = rng.normal(size=(4, 200)).astype(F) * 3, Sampling(0.9, 50, 0.95, 0.01)
    mask, bias = rng.integers(-(2**31), 2**31, (4, 7)).astype(np.int32), rng.normal(size=200).astype(F)
    tokens = sample(logits[:3], rng.random(3), sampling, mask=mask[:3], bias=bias)
    options = {"sampling": sampling, "mask": mask, "bias": bias}
    assert verify_sampled(logits, logits[:3], tokens, [ALMOST_ONE] * 4, **options).n_accepted == 3
    assert specverify.verify_block(logits, logits[:3], tokens, [ALMOST_ONE] * 4, **options).n_accepted == 3


def test_probabilities_of_probabilities_are_normalised():
    assert specverify.probabilities([2.0, 1.0, 1.0]).tolist() == [0.5, 0.25, 0.25]
    assert specverify.probabilities(np.float16([[2, 2], [0, 1]])).tolist() == [[0.5, 0.5], [0, 1]]
    with pytest.raises(ValueError, match=r"sums to 0"):
        specverify.probabilities([[1.0, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize("shape", [(), (1, 1, 4)])
def test_rows_to_sample_from_that_are_no_rows(shape):
    message = rf"^rows: expected shape \[V\] or \[B, V\], got {re.escape(str(shape))}$"
    with pytest.raises(ValueError, match=message):
        specverify.probabilities(np.ones(shape), Sampling())
    with pytest.raises(ValueError, match=message):
        sample(np.ones(shape), 0.5)


@pytest.mark.parametrize("option", [{"mask": np.ones(1, np.int32)}, {"bias": np.ones(2)}])
def test_mask_and_bias_need_a_sampling(option):
    message = r"^mask and bias apply to logits: expected sampling=Sampling\(\.\.\.\), got None$"
    with pytest.raises(ValueError, match=message):
        specverify.probabilities([0.5, 0.5], **option)
    with pytest.raises(ValueError, match=message):
        sample([0.5, 0.5], 0.5, **option)
    with pytest.raises(ValueError, match=message):
        verify_sampled([[0.5, 0.5]], None, [], [0.5], **{name: np.atleast_2d(rows) for name, rows in option.items()})


@pytest.mark.parametrize("shape", [(1, 2), (2,)])
def test_a_mask_of_another_shape_than_the_rows(shape):
    rows = np.ones((40,) if len(shape) == 2 else (2, 40))
    with pytest.raises(ValueError, match=r"^mask: expected shape \[(B, )?ceil\(V / 32\)\], got"):
        sample(rows, np.full(len(rows) if rows.ndim == 2 else 1, 0.5), Sampling(), mask=np.ones(shape, np.int32))


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"temperature": -1.0}, "temperature: expected a finite number, 0 or more, got -1.0"),
        ({"temperature": float("nan")}, "temperature: expected a finite number, 0 or more, got nan"),
        ({"temperature": float("inf")}, "temperature: expected a finite number, 0 or more, got inf"),
        ({"top_k": -1}, "top_k: expected an integer, 0"),
        ({"top_k": 1.5}, "top_k: expected an integer, 0"),
        ({"top_k": 5.0}, "top_k: expected an integer, 0"),
        ({"top_k": None}, "top_k: expected an integer, 0"),
        ({"top_k": 2**63}, "top_k: expected an integer, 0"),
        ({"top_k": float("inf")}, "top_k: expected an integer, 0"),
        ({"top_p": 0.0}, "top_p: expected a number in"),
        ({"top_p": 1.1}, "top_p: expected a number in"),
        ({"top_p": float("nan")}, "top_p: expected a number in"),
        ({"min_p": -0.1}, "min_p: expected a number in"),
        ({"min_p": 2.0}, "min_p: expected a number in"),
    ],
)
def test_settings_that_mean_nothing(settings_, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**settings_)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sampling": 0.8}, TypeError, r"^sampling: expected Sampling, got float$"),
        ({"sampling": Sampling(), "normalized": True}, ValueError, r"^normalized: expected probabilities, got logits"),
        (
            {"sampling": Sampling(), "mask": np.ones((2, 2))},
            TypeError,
            r"^mask: expected int32 words of 32 tokens each, or bool, got dtype float64$",
        ),
        (
            {"sampling": Sampling(), "mask": np.ones((1, 2), np.int32)},
            ValueError,
            r"^mask: expected shape \(2, 2\) \(one bit a token\), got \(1, 2\)$",
        ),
        (
            {"sampling": Sampling(), "mask": np.ones((2, 1), np.int32)},
            ValueError,
            r"^mask: expected shape \(2, 2\) \(one bit a token\), got \(2, 1\)$",
        ),
        (
            {"sampling": Sampling(), "bias": np.ones(39)},
            ValueError,
            r"^bias: expected shape \(40,\) or \(1, 40\), got \(39,\)$",
        ),
        (
            {"sampling": Sampling(), "bias": np.ones(40, bool)},
            TypeError,
            r"^bias: expected real numbers, got dtype bool$",
        ),
    ],
)
def test_options_that_do_not_fit(options, error, message):
    for verify in (verify_sampled, specverify.verify_block):
        with pytest.raises(error, match=message):
            verify(np.ones((2, 40)), np.ones((1, 40)), [3], [0.5, 0.5], **options)


def test_greedy_takes_no_sampling():
    with pytest.raises(ValueError, match=r"^sampling: expected None for greedy verification$"):
        specverify.verify_greedy(np.ones((2, 40)), [3], sampling=Sampling())


@pytest.mark.parametrize("rejected", range(4))
def test_rows_of_logits_behind_the_rejection_are_not_looked_at(isa, rejected):
    """NaN in a row that is read is an error. vllm-project/vllm PR#41258, PR#45369."""
    logits = np.zeros((4, 300), F)
    draft, uniforms = logits[:3].copy(), np.full(4, 0.5)
    if rejected < 3:
        draft[rejected, 7], uniforms[rejected] = 5.0, ALMOST_ONE
    logits[rejected + 1 :], draft[rejected + 1 :] = np.nan, np.nan
    for sampling in (Sampling(0.8), Sampling(0.8, 299, 0.999, 1e-4)):
        assert verify_sampled(logits, draft, [7] * 3, uniforms, sampling=sampling).n_accepted == rejected


@pytest.mark.parametrize("dtype", [F, np.float16])
@pytest.mark.parametrize("rule", [verify_sampled, specverify.verify_block])
def test_memory_does_not_grow_with_the_rows(rule, dtype):
    """A softmax of all rows takes 2.7 MB, one bit a token 5,000 bytes. vllm-project/vllm PR#41258, PR#45369."""
    from test_inputs import peak_memory

    vocab, sampling = 40_000, Sampling(0.8, 40, 0.95, 0.05)
    for k in (1, 16):
        row = np.zeros((k + 1, vocab), dtype)
        tokens, uniforms = np.zeros(k, int), np.full(k + 1, 0.5)
        call = lambda: rule(row, row[:k], tokens, uniforms, sampling=sampling)  # noqa: E731, B023
        assert call().n_accepted == k
        assert peak_memory(call) < 2000


def test_inputs_from_logits_are_not_changed(isa):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(3, 90)).astype(F), rng.normal(size=(2, 90)).astype(np.float16)]
    options = {"mask": np.full((3, 3), -1, np.int32), "bias": rng.normal(size=90).astype(F)}
    everything = [*arrays, *options.values()]
    before = [array.tobytes() for array in everything]
    for sampling, u in itertools.product((Sampling(), Sampling(0.5, 5, 0.9, 0.1), Sampling(0)), (0.0, 0.9)):
        verify_sampled(*arrays, [4, 5], [u] * 3, sampling=sampling, **options)
        specverify.verify_block(*arrays, [4, 5], [u] * 3, sampling=sampling, **options)
    assert [array.tobytes() for array in everything] == before


def test_helper_rows_are_probabilities_and_not_logits():
    """The same numbers mean other laws with and without `sampling`: nothing is guessed."""
    target, _ = helpers.rows_of_kind("dense", 50)
    plain = specverify.probabilities(target[0])
    assert not np.allclose(plain, specverify.probabilities(target[0], Sampling()), atol=1e-3)


@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p"])
def test_settings_that_are_no_numbers_are_named(name):
    with pytest.raises(TypeError, match=f"{name}: expected a number, got str"):
        Sampling(**{name: "hot"})


def test_masks_of_booleans_are_packed():
    rng = np.random.default_rng(0)
    for vocab in (1, 31, 32, 33, 100):
        logits = rng.normal(size=(3, vocab)).astype(np.float32)
        allowed = rng.random((3, vocab)) < 0.5
        allowed[:, 0] = True
        words = np.packbits(np.pad(allowed, ((0, 0), (0, -vocab % 32))), axis=1, bitorder="little").view(np.int32)
        got, expected = (specverify.probabilities(logits, Sampling(), mask=mask).tolist() for mask in (allowed, words))
        assert got == expected
        tokens, uniforms = np.argmax(np.where(allowed[:2], logits[:2], -9), axis=1), [0.5, 0.5, 0.5]
        verdicts = {
            specverify.verify_sampled(logits, None, tokens, uniforms, sampling=Sampling(), mask=mask)
            for mask in (allowed, words)
        }
        assert len(verdicts) == 1
    with pytest.raises(ValueError, match="bool"):
        specverify.probabilities(logits, Sampling(), mask=np.ones((3, 200), bool))
