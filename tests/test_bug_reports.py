"""Faults that users of other projects met, each restated as a small input with its one right answer.

The reference in a docstring is a public report or review, named for credit; nothing outside this file is needed.
Reports about starting a process are in test_processes.py.
"""

import itertools

import numpy as np
import pytest
from helpers import ALMOST_ONE

import specverify
from specverify import verify_greedy, verify_sampled


@pytest.mark.parametrize("last", [0.1, 0.0])
def test_probability_zero_is_not_accepted_by_uniform_zero(isa, last):
    """A test "uniform <= ratio" lets a filtered token pass, since generators do return 0. sgl-project/sglang#35771."""
    target, draft = [[0, 0.25, 0.75], [1, 0, 0]], [[0.5, 0.25, 0.25]]
    assert verify_sampled(target, draft, [0], [0.0, last]) == (0, 2)


@pytest.mark.parametrize(
    ("uniform", "lowest", "highest"),
    [(0.999, 151783, 151785), (1 - 2**-24, 151935, 151935), (ALMOST_ONE, 151935, 151935)],
)
def test_the_draw_does_not_run_past_the_end(isa, uniform, lowest, highest):
    """float32 sums of this row end at 0.998. flashinfer-ai/flashinfer#384, PR#923.

    Of equal entries the draw is floor(uniform * 151936), or one beside it where the sum is rounded in another order.
    """
    row = np.zeros((1, 152_000), np.float32)
    row[0, :151_936] = 1 / 151_936
    n_accepted, next_token = verify_sampled(row, None, [], [uniform])
    assert n_accepted == 0
    assert lowest <= next_token <= highest


ROWS_OF_FIVE = [[0.1, 0.3, 0.2, 0.2, 0.2]] * 2


@pytest.mark.parametrize(
    ("target_row", "draft_row", "told"),
    [
        ([np.nan] * 5, ROWS_OF_FIVE[0], r"target\[0, 0\] = nan"),
        ([0.1, 0.3, 0.2, np.nan, 0.2], ROWS_OF_FIVE[0], r"target\[0, 3\] = nan"),
        (ROWS_OF_FIVE[0], [0.1, 0.3, 0.2, 0.2, np.nan], r"draft\[0, 4\] = nan"),
    ],
)
def test_nan_is_an_error_and_no_token(isa, target_row, draft_row, told):
    """Padding of a row to a block wins over NaN. vllm-project/vllm#53029, PR#21876, PR#45060, PR#50183."""
    with pytest.raises(ValueError, match=told):
        verify_sampled([target_row, ROWS_OF_FIVE[1]], [draft_row], [1], [0.5, 0.5])
    if "target" in told:
        with pytest.raises(ValueError, match=told):
            verify_greedy([target_row, ROWS_OF_FIVE[1]], [1])


def test_a_residual_that_is_empty_by_rounding_draws_from_the_target(isa):
    """In exact arithmetic equal rows are always accepted; these were rounded apart. duoan/TorchCode#16."""
    target, draft = np.float32([[0.5, 0.5], [1, 0]]), np.float32([[0.5 + 2**-24, 0.5]])
    assert verify_sampled(target, draft, [0], [1 - 2**-24, 0.75], normalized=True) == (0, 1)


@pytest.mark.parametrize(("uniform", "verdict"), [(0.25, (1, 1)), (0.75, (0, 1))])
def test_subnormal_probabilities_keep_their_ratio(isa, uniform, verdict):
    """1e-40 to 2e-40 is one half. numpy/numpy#20895, OpenNMT/CTranslate2#1018."""
    target, draft = np.float32([[1e-40, 1], [0, 1]]), np.float32([[2e-40, 1]])
    assert verify_sampled(target, draft, [0], [uniform, 0.3]) == verdict


def test_the_residual_is_normalised_and_not_put_through_a_softmax(isa):
    """The residual is (.4, 0, 0, 0); a softmax of it picks token 3. huggingface/transformers PR#28508."""
    assert verify_sampled([[0.6, 0.3, 0.1, 0]] * 2, [[0.2, 0.5, 0.3, 0]], [1], [0.9, 0.99]) == (0, 0)


@pytest.mark.parametrize(("last", "token"), [(0.0, 1), (0.9, 2)])
def test_an_argmax_draft_is_certain_of_its_token(isa, last, token):
    """Token 0 passes with its target probability .25, not with .25 / .45. jaymody/speculative-sampling#3, #9."""
    target = [[0.25, 0.6, 0.15]] * 2
    assert verify_sampled(target, None, [0], [0.5, last]) == (0, token)
    assert verify_sampled(target, [[0.45, 0.3, 0.25]], [0], [0.5, last]).n_accepted == 1  # what the softmax would do


@pytest.mark.parametrize(("last", "token"), [(0.1, 1), (0.5, 2)])
def test_the_uniform_of_the_test_is_not_used_for_the_draw(isa, last, token):
    """The residual is (0, .25, .75). sgl-project/sglang PR#7207, flashinfer-ai/flashinfer PR#424."""
    assert verify_sampled([[0.2, 0.3, 0.5]] * 2, [[0.6, 0.2, 0.2]], [0], [0.5, last]) == (0, token)


@pytest.mark.parametrize("shared", [False, True])
def test_the_target_is_not_written_to(isa, shared):
    """The entry of the rejected token was zeroed in place. vllm-project/vllm-ascend PR#2881."""
    row = np.float32([0.5, 0.3, 0.2])
    target = np.broadcast_to(row, (2, 3)) if shared else np.stack([row, row])
    before = target.tobytes()
    for _ in range(2):
        assert verify_sampled(target, None, [0], [0.9, 0.5]) == (0, 1)
        assert target.tobytes() == before


@pytest.mark.parametrize(("maxima", "tokens"), [([2, 5, 7], [5, 7]), ([2, 5], [5])])
def test_row_0_judges_token_0(isa, maxima, tokens):
    """Compared with the row that already assumes it, every token passes. ohdearquant/lattice#243."""
    assert verify_greedy(np.eye(8)[maxima], tokens) == (0, 2)


def test_temperature_one_is_not_greedy(isa):
    """A plain row was taken for "nothing to sample". huggingface/text-generation-inference#687.

    Of 200 draws about 80 are token 1: binomial, standard deviation 7. The seed is fixed.
    """
    row = [[0.6, 0.4]]
    assert verify_sampled(row, None, [], [0.7]) == (0, 1)
    uniforms = np.random.default_rng(5).random((200, 1))
    assert 60 <= sum(verify_sampled(row, None, [], uniform).next_token for uniform in uniforms) <= 100


def test_greedy_ties_and_near_ties(isa):
    """The first maximum, in the input's own precision. ml-explore/mlx-lm PR#1592."""
    tie = [[1, 3, 3, 0], [0, 0, 0, 1]]
    assert verify_greedy(tie, [2]) == (0, 1)
    assert verify_greedy(tie, [1]) == (1, 3)
    assert verify_greedy(np.float32([[10.0, 10.001], [1, 0]]), [0]) == (0, 1)


TARGET = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]])
LAYOUTS = {
    "columns 1 to 3 of six": lambda rows: np.pad(rows, ((0, 0), (1, 2)), constant_values=9)[:, 1:4],
    "Fortran": np.asfortranarray,
    "backwards": lambda rows: rows[::-1].copy()[::-1],
    "every second row": lambda rows: np.repeat(rows, 2, axis=0)[::2],
}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_slices_are_read_as_slices(layout, dtype):
    """Cutting off the padding of a vocabulary is the common case. flashinfer-ai/flashinfer#1866, PR#1916."""
    tokens = np.array([0, 7, 7])[::2][:1]
    assert verify_sampled(LAYOUTS[layout](TARGET.astype(dtype)), [[0.6, 0.2, 0.2]], tokens, [0.5, 0.1]) == (0, 1)


@pytest.mark.parametrize(
    "tokens", [np.int32([0]), np.int64([0]), np.uint16([0]), np.array([0], np.intp), [0], (0,)], ids=repr
)
def test_tokens_of_any_integer_type(tokens):
    """A view of one C type accepts one, which differs by platform. cython/cython#6384, ibarrond/Pyfhel#53."""
    assert verify_sampled(TARGET, [[0.6, 0.2, 0.2]], tokens, [0.5, 0.1]) == (0, 1)


def test_no_tokens_of_any_type_and_no_floats():
    """The same reports: nothing is truncated."""
    assert verify_sampled(TARGET[:1], None, np.empty(0), [0.6]) == (0, 2)
    with pytest.raises(TypeError, match="tokens: expected integers"):
        verify_sampled(TARGET, None, [0.0], [0.5, 0.1])


def test_read_only_buffers(tmp_path):
    """A view that is not const asks for a writable one. cython/cython#1605, scikit-learn/scikit-learn#25484."""
    frozen = TARGET.astype(np.float32)
    frozen.flags.writeable = False
    frozen.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float32, "r", shape=(2, 3))
    parsed = np.frombuffer(frozen.tobytes(), np.float32).reshape(2, 3)
    for target in (frozen, mapped, parsed):
        assert verify_sampled(target, [[0.6, 0.2, 0.2]], [0], [0.5, 0.1]) == (0, 1)


def test_vocabularies_of_different_width():
    """Cutting the longer row loses tokens. vllm-project/vllm#7252, #5203, ggml-org/llama.cpp PR#3812."""
    message = r"draft: expected shape \(K, V\) = \(1, 6\) beside the target's, got \(1, 4\)"
    with pytest.raises(ValueError, match=message):
        verify_sampled([[0.3, 0.2, 0.1, 0.1, 0.2, 0.1]] * 2, [[0.4, 0.3, 0.2, 0.1]], [0], [0.8, 0.5])


def test_a_placeholder_token_is_an_error():
    """-1 as an index is the last column, certain here. vllm-project/vllm PR#46533."""
    target = [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    with pytest.raises(ValueError, match=r"tokens\[1\] = -1 is outside \[0, 4\)"):
        verify_sampled(target, target[:2], [1, -1], [0.5, 0.5, 0.5])


@pytest.mark.parametrize("draft", [np.empty((0, 3)), [], None])
def test_no_proposal_at_all(draft):
    """The loop assumed one drafted token. huggingface/transformers PR#27775, vllm-project/vllm PR#13363."""
    row = [[0.1, 0.2, 0.7]]
    assert verify_sampled(row, draft, [], [0.2]) == (0, 1)
    assert verify_greedy(row, []) == (0, 2)


@pytest.mark.parametrize("rejected", range(17))
def test_rows_behind_the_rejection_are_not_looked_at(rejected):
    """NaN in a row that is read is an error, so these rows were not. vllm-project/vllm PR#41258, PR#45369.

    The memory of the same reports is in test_inputs.py: no call holds more than 1,000 bytes, whatever the vocabulary.
    """
    k, vocab = 16, 1000
    rows = np.full((k + 1, vocab), 1 / vocab, np.float32)
    target, draft = rows.copy(), rows[:k].copy()
    uniforms = np.full(k + 1, 0.5)
    if rejected < k:
        draft[rejected, 7] = 0.5
        uniforms[rejected] = ALMOST_ONE
    target[rejected + 1 :], draft[rejected + 1 :] = np.nan, np.nan
    for own, normalized in itertools.product((draft, None), (False, True)):
        if own is None:
            uniforms[:rejected] = 0.0  # a certain token is accepted below its target probability
        assert verify_sampled(target, own, [7] * k, uniforms, normalized=normalized).n_accepted == rejected

    target[: rejected + 1, 7] = 0.9
    tokens = [7 if i < rejected else 0 for i in range(k)]
    assert specverify.verify_greedy(target, tokens) == (rejected, 7)
