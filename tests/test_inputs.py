"""Buffers from anywhere: every form of the same numbers gives the same verdict. No needless copy, and no change.

The round is the one that goes wrong when strides are ignored: see VERDICT.
"""

import array
import functools
import sys
import tracemalloc

import helpers
import ml_dtypes
import numpy as np
import pytest

import specverify

TARGET = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]], np.float32)
DRAFT = np.array([[0.6, 0.2, 0.2]], np.float32)
TOKENS = np.array([0], np.int64)
UNIFORMS = np.array([0.5, 0.1])
# .5 * .6 is above .2, so token 0 is rejected; the residual is (0, .1, .3), and .1 of it falls into token 1. Read with
# the rows exchanged, .5 * .6 < .5 would accept.
VERDICT = (0, 1)
# Two more tokens are accepted by the greedy rows of GREEDY_TARGET.
GREEDY_TARGET = np.array([[0, 9, 1], [5, 1, 2], [0, 1, 7]], np.float32)
GREEDY_TOKENS = np.array([1, 0], np.int64)
GREEDY_VERDICT = (2, 2)


def check(target=TARGET, draft=DRAFT, tokens=TOKENS, uniforms=UNIFORMS):
    for normalized in (False, True):
        assert specverify.verify_sampled(target, draft, tokens, uniforms, normalized=normalized) == VERDICT


def test_the_plain_round():
    check()
    assert specverify.verify_greedy(GREEDY_TARGET, GREEDY_TOKENS) == GREEDY_VERDICT


def columns_of_a_wider_array(rows):
    wide = np.full((len(rows), rows.shape[1] + 3), 9, rows.dtype)
    wide[:, 1:-2] = rows
    return wide[:, 1:-2]


def every_second_row(rows):
    tall = np.full((2 * len(rows), rows.shape[1]), 9, rows.dtype)
    tall[::2] = rows
    return tall[::2]


def every_second_column(rows):
    wide = np.full((len(rows), 2 * rows.shape[1]), 9, rows.dtype)
    wide[:, ::2] = rows
    return wide[:, ::2]


def unaligned(values):
    raw = np.zeros(values.nbytes + 1, np.uint8)
    moved = raw[1:].view(values.dtype).reshape(values.shape)
    moved[...] = values
    return moved


def field_of_records(rows):
    """Rows that are contiguous and aligned nowhere: the step from row to row is odd."""
    records = np.zeros(len(rows), [("tag", "u1"), ("row", rows.dtype, rows.shape[1])])
    records["row"] = rows
    return records["row"]


def read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


LAYOUTS = {
    "copy": np.copy,
    "columns of a wider array": columns_of_a_wider_array,
    "every second row": every_second_row,
    "every second column": every_second_column,
    "Fortran": np.asfortranarray,
    "rows backwards": lambda rows: rows[::-1].copy()[::-1],
    "columns backwards": lambda rows: rows[:, ::-1].copy()[:, ::-1],
    "both backwards": lambda rows: rows[::-1, ::-1].copy()[::-1, ::-1],
    "unaligned": unaligned,
    "field of records": field_of_records,
    "read-only": read_only,
    "bytes": lambda rows: np.frombuffer(rows.tobytes(), rows.dtype).reshape(rows.shape),
    "memoryview": lambda rows: memoryview(np.ascontiguousarray(rows)),
    "read-only memoryview": lambda rows: memoryview(read_only(rows)),
    "lists": lambda rows: rows.tolist(),
    "tuples": lambda rows: tuple(map(tuple, rows.tolist())),
    "list of arrays": list,
    "subclass": lambda rows: rows.view(np.memmap),
}
ROW_TYPES = [np.float32, np.float64, np.float16, np.longdouble, ml_dtypes.bfloat16, ">f4", ">f8", ">f2"]


@pytest.mark.parametrize("dtype", ROW_TYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows(layout, dtype):
    """In each of these types the rounded rows give the same verdict; bfloat16 has 8 bits, and no edge is that near."""
    if dtype is ml_dtypes.bfloat16 and "memoryview" in layout:
        pytest.skip("ml_dtypes exports no buffer of its own type")
    lay_out = LAYOUTS[layout]
    check(target=lay_out(TARGET.astype(dtype)))
    check(draft=lay_out(DRAFT.astype(dtype)))
    check(lay_out(TARGET.astype(dtype)), lay_out(DRAFT.astype(dtype)))
    assert specverify.verify_greedy(lay_out(GREEDY_TARGET.astype(dtype)), GREEDY_TOKENS) == GREEDY_VERDICT


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64, ">i4"])
def test_rows_of_integers(dtype):
    """Counts are rows up to a factor."""
    target, draft = (TARGET * 10).round().astype(dtype), (DRAFT * 10).round().astype(dtype)
    assert specverify.verify_sampled(target, draft, TOKENS, UNIFORMS) == VERDICT
    assert specverify.verify_greedy(GREEDY_TARGET.astype(dtype), GREEDY_TOKENS) == GREEDY_VERDICT


def test_rows_that_share_memory():
    """A broadcast row has stride 0."""
    target, draft = np.broadcast_to(TARGET[0], (3, 3)), np.broadcast_to(DRAFT[0], (2, 3))
    assert specverify.verify_sampled(target, draft, [0, 0], [0.1, 0.5, 0.1]) == (1, 1)
    assert specverify.verify_greedy(np.broadcast_to(GREEDY_TARGET[0], (3, 3)), [1, 1]) == (2, 1)


@pytest.mark.parametrize("stride", [4, 12, -4, 400])
def test_a_vocabulary_of_one_with_any_stride(stride):
    """NumPy keeps whatever stride a dimension of length 1 has."""
    memory = np.full(300, 0.5, np.float32)
    column = np.lib.stride_tricks.as_strided(memory[150:], (2, 1), (stride, stride * 3), writeable=False)
    assert specverify.verify_sampled(column, column[:1], [0], [0.9, 0.9]) == (1, 0)


def test_rows_of_a_mapped_file(tmp_path):
    path = tmp_path / "rows"
    TARGET.tofile(path)
    for mode in ("r", "r+", "c"):
        check(target=np.memmap(path, np.float32, mode, shape=(2, 3)))


def test_rows_of_an_object_with_array_protocol():
    class Rows:
        def __array__(self, dtype=None, copy=None):
            return TARGET if dtype is None else TARGET.astype(dtype)

    class Interface:
        __array_interface__ = TARGET.__array_interface__

    check(target=Rows())
    check(target=Interface())


@pytest.mark.parametrize("dtype", ROW_TYPES)
@pytest.mark.parametrize("size", [1, 2, 17, 300, 5000])
def test_a_conversion_keeps_the_numbers(dtype, size):
    """Whatever the type, the verdict is that of the float32 rows with the same values."""
    rows = helpers.rows_of_kind("dense", size)
    target, draft = (side.astype(dtype) for side in rows)
    plain = target.astype(np.float32), draft.astype(np.float32)
    tokens = plain[0].argmax(1)[:3]
    for last in (0.1, 0.5, 0.9):
        uniforms = [0.6, 0.6, 0.6, last]
        expected = specverify.verify_sampled(*plain, tokens, uniforms)
        assert specverify.verify_sampled(target, draft, tokens, uniforms) == expected
        other_layout = np.asfortranarray(target), draft[:, ::-1].copy()[:, ::-1]
        assert specverify.verify_sampled(*other_layout, tokens, uniforms) == expected


def test_bfloat16_decides_in_its_own_precision():
    """10.0 and 10.001 are the same bfloat16, so the first is the maximum; in float32 the second is."""
    row = np.array([[10.0, 10.001]], np.float32)
    assert specverify.verify_greedy(row, []) == (0, 1)
    assert specverify.verify_greedy(row.astype(ml_dtypes.bfloat16), []) == (0, 0)


INTEGERS = [
    *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.intp, np.uintp, np.intc, np.uintc, np.long, np.ulong, np.longlong, np.ulonglong, object),
    *(">i2", ">i4", ">i8", ">u2", ">u8"),
]
VECTORS = {
    "copy": np.copy,
    "strided": lambda vector: np.repeat(vector, 3)[::3],
    "backwards": lambda vector: vector[::-1].copy()[::-1],
    "unaligned": unaligned,
    "read-only": read_only,
    "memoryview": lambda vector: memoryview(vector),
    "column": lambda vector: np.stack([vector, vector], axis=1)[:, 0],
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("layout", VECTORS)
@pytest.mark.parametrize("k", [2, 70])
def test_tokens(layout, dtype, k):
    """Above 64 tokens another way is taken."""
    if dtype is object and layout in ("unaligned", "memoryview"):
        pytest.skip("objects are neither")
    tokens = np.array([1, 0] * (k // 2), np.int64)
    target = np.vstack([GREEDY_TARGET[[0, 1] * (k // 2)], GREEDY_TARGET[2]])
    given = VECTORS[layout](tokens.astype(dtype))
    assert specverify.verify_greedy(target, given) == (k, 2)
    assert specverify.verify_sampled(target, None, given, np.zeros(k + 1)) == (k, 1)


@pytest.mark.parametrize("form", [list, tuple, *(functools.partial(array.array, code) for code in "bilqQ")])
def test_tokens_that_are_no_arrays(form):
    assert specverify.verify_greedy(GREEDY_TARGET, form([1, 0])) == GREEDY_VERDICT
    check(tokens=form([0]))


def test_numpy_integers_in_a_list():
    assert specverify.verify_greedy(GREEDY_TARGET, [np.uint8(1), np.int64(0)]) == GREEDY_VERDICT


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.longdouble, ">f8", ">f4"])
@pytest.mark.parametrize("layout", VECTORS)
@pytest.mark.parametrize("k", [1, 70])
def test_uniforms(layout, dtype, k):
    """All accepted but the last; the draw from the residual (0, .1, .3) as in VERDICT."""
    uniforms = np.array([0.0] * (k - 1) + [0.5, 0.125])
    target, draft = np.repeat(TARGET[:1], k + 1, axis=0), np.repeat(DRAFT, k, axis=0)
    given = VECTORS[layout](uniforms.astype(dtype))
    assert specverify.verify_sampled(target, draft, np.zeros(k, int), given) == (k - 1, 1)


@pytest.mark.parametrize("form", [list, tuple, lambda uniforms: array.array("d", uniforms), np.ndarray.tolist])
def test_uniforms_that_are_no_arrays(form):
    check(uniforms=form(UNIFORMS))


def test_uniforms_are_not_narrowed():
    """The largest float64 below 1 is 1 in float32, and 2**-60 more than .5 would be lost there too."""
    row = np.array([[0.5, 0.5]], np.float32)
    assert specverify.verify_sampled(row, None, [], [0.5 - 2**-54]) == (0, 0)
    assert specverify.verify_sampled(row, None, [], [0.5]) == (0, 1)
    assert specverify.verify_sampled(row, None, [], [helpers.ALMOST_ONE]) == (0, 1)


@pytest.mark.parametrize("draft", [None, [], (), np.empty((0, 3)), np.empty((0, 3), np.float32), np.empty(0)])
@pytest.mark.parametrize("tokens", [[], (), np.empty(0), np.empty(0, np.int32), np.empty(0, np.int64)])
def test_no_draft_at_all(draft, tokens):
    assert specverify.verify_sampled([[0.1, 0.2, 0.7]], draft, tokens, [0.2]) == (0, 1)
    assert specverify.verify_sampled([[0.1, 0.2, 0.7]], draft, tokens, [0.2], normalized=True) == (0, 1)
    assert specverify.verify_greedy([[0.1, 0.2, 0.7]], tokens) == (0, 2)


def torch_tensors(torch):
    return (
        torch.from_numpy(TARGET.copy()),
        torch.from_numpy(DRAFT.copy()),
        torch.from_numpy(TOKENS.copy()),
        torch.from_numpy(UNIFORMS.copy()),
    )


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    target, draft, tokens, uniforms = torch_tensors(torch)
    check(target, draft, tokens, uniforms)
    check(target, draft, tokens.to(torch.int32), uniforms)
    check(target.T.contiguous().T, draft.expand(1, 3), tokens, uniforms.float())
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        check(target.to(dtype), draft.to(dtype), tokens, uniforms)
    greedy_target, greedy_tokens = torch.from_numpy(GREEDY_TARGET.copy()), torch.from_numpy(GREEDY_TOKENS.copy())
    assert specverify.verify_greedy(greedy_target, greedy_tokens) == GREEDY_VERDICT


def test_torch_bfloat16_of_any_layout():
    torch = pytest.importorskip("torch")
    target, draft, *_ = torch_tensors(torch)
    wide = torch.full((4, 8), 9.0, dtype=torch.bfloat16)
    wide[::2, 1:7:2] = target.bfloat16()
    check(wide[::2, 1:7:2], draft.bfloat16())
    check(target.bfloat16().T.contiguous().T, draft.bfloat16())
    rows = torch.tensor([[10.0, 10.001]])
    assert specverify.verify_greedy(rows, []) == (0, 1)
    assert specverify.verify_greedy(rows.bfloat16(), []) == (0, 0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_torch_tensor_that_needs_gradients_gives_the_words_of_torch(dtype):
    torch = pytest.importorskip("torch")
    target, draft, tokens, uniforms = torch_tensors(torch)
    learning = target.to(getattr(torch, dtype)).requires_grad_()
    with pytest.raises(RuntimeError, match="requires grad"):
        specverify.verify_sampled(learning, draft, tokens, uniforms)
    check(learning.detach(), draft, tokens, uniforms)


def test_jax_arrays():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    target, draft, tokens = jnp.asarray(TARGET), jnp.asarray(DRAFT), jnp.asarray(TOKENS)
    check(target, draft, tokens, jnp.asarray(UNIFORMS))
    check(target.astype(jnp.bfloat16), draft.astype(jnp.float16), tokens)
    assert specverify.verify_greedy(jnp.asarray(GREEDY_TARGET), jnp.asarray(GREEDY_TOKENS)) == GREEDY_VERDICT
    assert specverify.verify_greedy(jnp.asarray(GREEDY_TARGET, jnp.bfloat16), GREEDY_TOKENS) == GREEDY_VERDICT


def peak_memory(function, *args) -> int:
    """Most memory in bytes that Python and NumPy held at a time during the call, above what was held before."""
    function(*args)  # what is made once is made now
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        function(*args)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


IN_PLACE = {
    "plain": np.copy,
    "columns of a wider array": columns_of_a_wider_array,
    "every second row": every_second_row,
    "rows backwards": lambda rows: rows[::-1].copy()[::-1],
    "read-only": read_only,
}
ALLOWED = 1000  # bytes: the result, and objects of a fixed size; a row of the test has 128,000


def test_the_measure_of_memory_sees_a_copy():
    target = np.ones((2, 32_000), np.float64)
    assert peak_memory(specverify.verify_greedy, target, [0]) > target.nbytes // 2


@pytest.mark.parametrize("layout", IN_PLACE)
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("kind", ["dense", "none"])
@pytest.mark.parametrize("position", [0, 3])
def test_float32_rows_are_used_in_place(layout, normalized, kind, position):
    rows = helpers.rows_of_kind(kind, 32_000)
    tokens, uniforms = helpers.round_ending_at(rows, position, normalized=normalized)
    target = IN_PLACE[layout](rows.target)
    draft = rows.draft if rows.draft is None else IN_PLACE[layout](rows.draft)
    arguments = (target, draft, np.array(tokens), np.array([*uniforms, 0.5]))

    def call():
        return specverify.verify_sampled(*arguments, normalized=normalized)

    assert call().n_accepted == position
    assert peak_memory(call) < ALLOWED
    assert peak_memory(specverify.verify_greedy, target, arguments[2]) < ALLOWED


def test_torch_float32_rows_are_used_in_place():
    torch = pytest.importorskip("torch")
    target = torch.ones((2, 32_000))
    assert peak_memory(specverify.verify_greedy, target, [0]) < 2 * ALLOWED  # with the array objects around the tensor


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if "tuples" not in name and "list" not in name])
def test_inputs_are_not_changed(layout):
    target, draft = LAYOUTS[layout](TARGET), LAYOUTS[layout](DRAFT)
    tokens, uniforms = TOKENS.copy(), UNIFORMS.copy()
    before = [np.array(value).tobytes() for value in (target, draft, tokens, uniforms)]
    for _ in range(2):
        check(target, draft, tokens, uniforms)
        specverify.verify_sampled(target, None, tokens, uniforms)
        specverify.verify_greedy(target, tokens)
    assert [np.array(value).tobytes() for value in (target, draft, tokens, uniforms)] == before


def test_no_reference_is_kept_or_lost():
    """Arrays and tensors live exactly as long as their owner holds them."""
    values = [TARGET.copy(), DRAFT.astype(np.float64), TOKENS.copy(), UNIFORMS.copy()]
    before = [sys.getrefcount(value) for value in values]
    for _ in range(10):
        check(*values)
        with pytest.raises(ValueError, match="tokens"):
            specverify.verify_sampled(values[0], values[1], [5], values[3])
    assert [sys.getrefcount(value) for value in values] == before
