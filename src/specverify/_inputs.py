"""Every conversion of an argument and every message about one.

Holds the slow side of the gate: what ``_core`` cannot use in place is converted here, and what it refuses is explained
here, in one pattern: argument, expected, got, where. Holds no rule of verification.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ._dlpack import bfloat16_bits
from .rows import LONGEST_ROW, SparseRows
from .sampling import Sampling

_REAL = "fiu"  # dtype kinds: float, signed and unsigned integer
#: bfloat16 inside the package: NumPy has no such type, and plain uint16 would be integers.
_BFLOAT16_BITS = np.dtype("V2")


def is_batch(target: Any) -> bool:
    """Whether a target is more than the rows of one round."""
    if isinstance(target, (list, tuple)):
        return len(target) == 0 or _depth(target) > 2
    return getattr(target, "ndim", 2) == 3


def is_list_of_drafts(draft: Sequence[Any]) -> bool:
    """Whether the entries of a list are the drafts of requests: none, sparse, or matrices."""
    return all(one is None or isinstance(one, SparseRows) or _depth(one) == 2 for one in draft)


def _depth(rows: Any) -> int:
    """Dimensions of nested sequences, by their first entries."""
    depth = 0
    while isinstance(rows, (list, tuple, np.ndarray)) or hasattr(rows, "ndim"):
        if hasattr(rows, "ndim"):
            return depth + int(rows.ndim)
        depth += 1
        if len(rows) == 0:
            break
        rows = rows[0]
    return depth


def as_plain_array(value: np.ndarray) -> np.ndarray:
    """Let subclasses pass that only look different; a mask means that entries do not count, which we cannot honour."""
    if _is_masked(value):
        raise TypeError("expected numbers without a NumPy mask, got a masked array")
    return value


def as_float_rows(rows: Any, name: str, ndims: tuple[int, ...], empty: tuple[int, ...] = ()) -> np.ndarray:
    """Give rows in a type that the core reads: float32, float16, or bfloat16 bits (see dtype_code)."""
    array = _as_array(rows, name, widen=False)
    if array.size == 0 and array.ndim < min(ndims) and 0 in empty:  # an empty list has no width of its own
        array = np.empty(empty, np.float32)
    if array.ndim not in ndims:
        shapes = {"target": {2: "[K + 1, V]", 3: "[B, K + 1, V]"}, "draft": {2: "[K, V]", 3: "[B, K, V]"}}.get(
            name, {1: "[V]", 2: "[B, V]"}
        )
        raise ValueError(f"{name}: expected shape {' or '.join(shapes[n] for n in ndims)}, got {array.shape}")
    if array.dtype.kind not in _REAL and array.dtype != _BFLOAT16_BITS:
        raise TypeError(f"{name}: expected real numbers (float32 rows), got dtype {array.dtype}")
    if array.dtype not in (np.float32, np.float16, _BFLOAT16_BITS) or not array.dtype.isnative:
        with np.errstate(over="ignore"):  # beyond float32 becomes infinity, which no visited row may hold
            array = array.astype(np.float32)
    if array.size and array.strides[-1] == array.itemsize and _is_aligned(array):
        return array
    return np.array(array, order="C")


def _is_aligned(array: np.ndarray) -> bool:
    """Also for the bits of bfloat16, which NumPy takes for bytes."""
    if array.dtype != _BFLOAT16_BITS:
        return bool(array.flags.aligned)
    return (array.ctypes.data | int(np.bitwise_or.reduce(array.strides))) % 2 == 0


def as_scores(target: Any) -> np.ndarray:
    """Give rows whose first maxima are those of `target` in its own precision.

    Float64 rows, which float32 could give ties, become rows of 0 with a 1 at the first maximum; a row without a maximum
    stays as it is, to be refused if it is visited.
    """
    array = _as_array(target, "target", widen=False)
    if array.dtype.kind not in "fiu" or array.itemsize <= 4 or array.ndim != 2 or array.shape[1] == 0:
        return as_float_rows(array, "target", (2,))
    rows = np.zeros(array.shape, np.float32)
    best = array.argmax(axis=1)
    order = np.arange(len(array))
    top = array[order, best]
    rows[order, best] = 1.0
    with np.errstate(over="ignore"):
        hopeless = ~np.isfinite(top)
        rows[hopeless] = array[hopeless]
    return rows


def as_rows(rows: Any, name: str, empty: tuple[int, ...] = ()) -> np.ndarray:
    """Give a float32 matrix, halves widened: for what looks at rows from Python."""
    array = as_float_rows(rows, name, (2,), empty)
    if array.dtype == _BFLOAT16_BITS:
        return _from_bfloat16(array.view(np.uint16), widen=True)
    return array.astype(np.float32, copy=False)


def dtype_code(rows: np.ndarray) -> int:
    """``sv_dtype`` of the C header."""
    return 2 if rows.dtype == _BFLOAT16_BITS else 1 if rows.dtype == np.float16 else 0


def as_token_array(tokens: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Give int64 tokens of this shape. Values that int64 cannot hold are refused, not wrapped."""
    array = _as_array(tokens, "tokens")
    if array.size == 0 and 0 in shape:  # an empty list has no type or shape of its own
        return np.empty(shape, np.int64)
    if array.shape != shape:
        raise ValueError(f"tokens: expected shape {shape} beside the target's, got {array.shape}")
    return np.array(_as_int64(array, tokens), order="C")  # a copy: nobody may change what was checked


def as_uniform_array(uniforms: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Give float64 uniforms of this shape."""
    array = _as_array(uniforms, "uniforms")
    if array.size == 0 and 0 in shape:
        return np.empty(shape)
    if array.shape != shape:
        raise ValueError(f"uniforms: expected shape {shape} beside the target's, got {array.shape}")
    if array.dtype.kind not in _REAL:
        raise TypeError(f"uniforms: expected real numbers (float64), got dtype {array.dtype}")
    return np.array(array, np.float64, order="C")  # a copy, as of tokens


def as_draw_uniforms(uniform: Any, n: int) -> np.ndarray:
    """Give one float64 uniform for each of n rows, shape [n, 1]."""
    array = _as_array(uniform, "uniform")
    if array.ndim > 1 or array.size != n:
        raise ValueError(f"uniform: expected one number for each of {n} rows, got shape {array.shape}")
    if array.dtype.kind not in _REAL:
        raise TypeError(f"uniform: expected real numbers (float64), got dtype {array.dtype}")
    return np.array(array, np.float64).reshape(n, 1)


def as_lengths(lengths: Any, size: int, longest: int) -> np.ndarray:
    """Give the draft length of each request of a padded batch."""
    if lengths is None:
        return np.full(size, longest, np.int64)
    array = np.asarray(lengths)
    if array.shape != (size,) or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"lengths: expected {size} integers, got shape {array.shape} of dtype {array.dtype}")
    if array.size and not (array.min() >= 0 and array.max() <= longest):
        bad = _first((array < 0) | (array > longest))
        raise ValueError(f"lengths[{bad}] = {array[bad]} is outside [0, {longest}]")
    return array.astype(np.int64)


def as_bounds(cu_lengths: Any, target_rows: int) -> np.ndarray:
    """Give the cumulative draft lengths of a ragged batch."""
    array = np.asarray(cu_lengths)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(f"cu_lengths: expected B + 1 integers, got shape {array.shape} of dtype {array.dtype}")
    array = array.astype(np.int64)
    if array[0] != 0 or (np.diff(array) < 0).any():
        raise ValueError("cu_lengths: expected numbers from 0 that do not fall")
    if array[-1] + len(array) - 1 != target_rows:
        raise ValueError(
            f"target: expected {array[-1]} + {len(array) - 1} rows (drafted tokens and one for each request), "
            f"got {target_rows}"
        )
    return array


def as_mask(mask: Any, shape: tuple[int, ...], vocab: int) -> np.ndarray:
    """Give a packed token bitmask: int32 words, one row for each target row, at least ceil(V / 32) words wide."""
    array = _as_array(mask, "mask")
    if array.dtype == bool and array.ndim:
        if array.shape[-1] != vocab:
            raise ValueError(
                f"mask: expected shape {shape} (one bit a token) or bool {(*shape[:-1], vocab)}, got bool {array.shape}"
            )
        array = _packed(array)
    if array.dtype not in (np.int32, np.uint32):
        raise TypeError(f"mask: expected int32 words of 32 tokens each, or bool, got dtype {array.dtype}")
    if array.shape[:-1] != shape[:-1] or array.ndim == 0 or array.shape[-1] < shape[-1]:
        raise ValueError(f"mask: expected shape {shape} (one bit a token), got {array.shape}")
    if array.strides[-1] == array.itemsize and array.flags.aligned and array.dtype.isnative:
        return array
    return np.ascontiguousarray(array, np.uint32)


def as_mask_words(words: Any, width: int | None = None) -> tuple[np.ndarray, int | None]:
    """Give what a grammar answers, the bitmask of one position, as int32; of `width` words, once that is known.

    Beside it V, where the answer tells it: one truth value a token.
    """
    array = _as_array(words, "mask")
    vocab = None
    if array.dtype == bool and array.ndim == 1:
        array, vocab = _packed(array), len(array)
    elif array.dtype == bool:
        raise ValueError(f"mask: expected shape [V] of bool, got {array.shape}")
    if array.dtype not in (np.int32, np.uint32):
        raise TypeError(f"mask: expected int32 words of 32 tokens each, or bool [V], got dtype {array.dtype}")
    if array.ndim != 1 or (width is not None and len(array) != width):
        expected = "[ceil(V / 32)]" if width is None else f"({width},), as at the position before"
        raise ValueError(f"mask: expected shape {expected}, got {array.shape}")
    return array.view(np.int32), vocab


def _packed(allowed: np.ndarray) -> np.ndarray:
    """Give booleans as words of 32, lowest bit first."""
    padding = [(0, 0)] * (allowed.ndim - 1) + [(0, -allowed.shape[-1] % 32)]
    return np.packbits(np.pad(allowed, padding), axis=-1, bitorder="little").view(np.int32)


def as_count(value: Any, name: str, lowest: int = 0, highest: int | None = None, why: str = "") -> int:
    """Give a number of tokens as an int within its bounds; `why` is the name of the upper one."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}: expected an integer, got {type(value).__name__}")
    count = int(value)
    if count < lowest or (highest is not None and count > highest):
        bounds = f"{lowest} or more" if highest is None else f"{lowest} to {why}{highest}"
        raise ValueError(f"{name}: expected {bounds}, got {count}")
    return count


def as_bias(bias: Any, size: int, vocab: int) -> np.ndarray:
    """Give the logit bias: one number a token, for all requests or for each."""
    array = _as_array(bias, "bias")
    if array.shape not in ((vocab,), (size, vocab)):
        raise ValueError(f"bias: expected shape ({vocab},) or ({size}, {vocab}), got {array.shape}")
    if array.dtype.kind not in _REAL:
        raise TypeError(f"bias: expected real numbers, got dtype {array.dtype}")
    if not (array < np.inf).all():
        where = np.unravel_index(_first(~(array < np.inf)), array.shape)
        raise ValueError(f"bias[{', '.join(map(str, where))}] = {array[where]}: expected a number below infinity")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, np.float32)


def as_bias_row(bias: Any) -> np.ndarray:
    """Give the logit bias of a whole text, a copy: nobody may change what was checked."""
    array = _as_array(bias, "bias")
    if array.ndim != 1 or not len(array):
        raise ValueError(f"bias: expected shape [V], got {array.shape}")
    row = as_bias(as_bias(array, 1, len(array)), 1, len(array)).copy()  # float32 may overflow to infinity
    row.setflags(write=False)
    return row


def known_vocab(rows: SparseRows) -> int:
    if rows.vocab_size is None:
        raise ValueError("target: expected SparseRows with vocab_size, got None")
    return rows.vocab_size


def check_sparse_draft(draft: SparseRows, k: int, vocab: int) -> None:
    if len(draft) != k:
        raise ValueError(f"draft: expected {k} sparse rows beside the target's, got {len(draft)}")
    if draft.vocab_size not in (None, vocab):
        raise ValueError(f"draft: expected a vocab_size of {vocab} beside the target's, got {draft.vocab_size}")
    if draft.largest_id >= vocab:
        raise ValueError(f"draft: id {draft.largest_id} is outside [0, {vocab})")


def check_sampling(sampling: Any, vocab: int) -> None:
    if not isinstance(sampling, Sampling):
        raise TypeError(f"sampling: expected Sampling, got {type(sampling).__name__}")
    if vocab > LONGEST_ROW:
        raise ValueError(f"sampling: expected logits of at most {LONGEST_ROW} tokens, got {vocab}")


def check_names(options: Mapping[str, Any], known: Collection[str]) -> None:
    for name in options:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}: expected one of {', '.join(known)}")


def check_options(options: Mapping[str, Any], normalized: bool, is_greedy: bool) -> None:
    """Refuse options that contradict each other."""
    sampling = options.get("sampling")
    if sampling is not None and is_greedy:
        raise ValueError("sampling: expected None for greedy verification")
    if sampling is not None and normalized:
        raise ValueError("normalized: expected probabilities, got logits (sampling is given)")
    if sampling is None and not is_greedy and not (options.get("mask") is None and options.get("bias") is None):
        raise ValueError("mask and bias apply to logits: expected sampling=Sampling(...), got None")


def _count(value: Any) -> str:
    return str(len(value)) if isinstance(value, (tuple, list)) else type(value).__name__


def check_out(out: Any, size: int) -> None:
    """Refuse output arrays that cannot take the result."""
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise ValueError(f"out: expected two arrays (n_accepted, next_token), got {_count(out)}")
    if out[0] is out[1]:
        raise ValueError("out: expected two different arrays")
    for array in out:
        if not isinstance(array, np.ndarray) or array.shape != (size,) or array.dtype != np.int64:
            raise ValueError(f"out: expected int64 arrays of shape ({size},)")
        if not array.flags.writeable:
            raise ValueError("out: expected writable arrays")


def as_tokens(tokens: Any) -> np.ndarray:
    """Give an int64 vector."""
    array = _as_array(tokens, "tokens")
    if array.size == 0:  # an empty list has no type of its own
        array = array.astype(np.int64)
    if array.ndim != 1:
        raise ValueError(f"tokens: expected shape [K], got {array.shape}")
    return _as_int64(array, tokens)


def as_prompt(prompt_ids: Any) -> list[int]:
    """Give a list of Python ints of its own."""
    array = _as_array(prompt_ids, "prompt_ids")
    if array.ndim != 1:
        what = "str" if isinstance(prompt_ids, str) else f"shape {array.shape}"
        raise ValueError(f"prompt_ids: expected the tokens of one text, shape [n], got {what}")
    if not array.size:
        raise ValueError("prompt_ids: expected at least one token, got none")
    if array.dtype.kind not in "iu":
        raise TypeError(f"prompt_ids: expected integers, got dtype {array.dtype}")
    tokens: list[int] = array.tolist()
    return tokens


def as_ids(tokens: Any, name: str) -> list[int]:
    """Give token ids as a list of Python ints; one id may stand alone, and None is none."""
    if tokens is None:
        return []
    given = [tokens] if isinstance(tokens, Integral) else tokens
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{name}: expected token ids, got {type(tokens).__name__}")
    ids = list(given)
    for i, token in enumerate(ids):
        if isinstance(token, bool) or not isinstance(token, Integral):
            raise TypeError(f"{name}[{i}]: expected a token id, got {type(token).__name__}")
    return [int(token) for token in ids]


def check_step(step: Any, name: str) -> None:
    """Refuse what cannot be a step of the loop, or is half of one with a cache."""
    if isinstance(step, type) or not callable(step):
        got = f"the class {step.__name__}" if isinstance(step, type) else type(step).__name__
        raise TypeError(f"{name}: expected a function or an object that can be called, got {got}")
    if hasattr(step, "n_cached") != hasattr(step, "truncate"):
        raise TypeError(f"{name}: expected both n_cached and truncate of a model with a cache, got one")
    if hasattr(step, "n_cached") and not isinstance(step.n_cached, Integral):
        raise TypeError(f"{name}.n_cached: expected a property that is a number, got {type(step.n_cached).__name__}")


def _as_int64(array: np.ndarray, tokens: Any) -> np.ndarray:
    """Values that int64 cannot hold are refused, not wrapped."""
    if array.dtype.kind not in "iu":
        # Of integers that no type of its own holds together, NumPy makes an object array or, of a list, float64.
        objects = array if array.dtype.kind == "O" else np.asarray(tokens, dtype=object)
        if not all(isinstance(token, int) and not isinstance(token, bool) for token in objects.flat):
            raise TypeError(f"tokens: expected integers, got dtype {array.dtype}")
        if not all(-(2**63) <= token < 2**63 for token in objects.flat):
            _fail_huge_token(objects)
        return objects.astype(np.int64)
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        _fail_huge_token(array)
    return np.require(array, np.int64, "A")


def as_uniforms(uniforms: Any) -> np.ndarray:
    """Give a float64 vector."""
    array = _as_array(uniforms, "uniforms")
    if array.ndim != 1:
        raise ValueError(f"uniforms: expected shape [K + 1], got {array.shape}")
    if array.dtype.kind not in _REAL:
        raise TypeError(f"uniforms: expected real numbers (float64), got dtype {array.dtype}")
    return np.require(array, np.float64, "A")


def contiguous(vector: np.ndarray, dtype: str) -> np.ndarray:
    """A copy: nobody may change it between the check and the use."""
    return np.array(vector, dtype=dtype, order="C")


def _as_array(value: Any, name: str, widen: bool = True) -> np.ndarray:
    """View a value as an array: NumPy and its protocols, buffers, torch and other DLPack tensors, sequences."""
    if _is_masked(value):
        raise TypeError(f"{name}: expected numbers without a NumPy mask, got a masked array")
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "numpy"):  # torch: with its own words for a tensor that needs gradients or is elsewhere
        try:
            array = value.numpy()
        except TypeError:
            if not _is_bfloat16(value):
                raise
            return _from_bfloat16(bfloat16_bits(value), widen)
    elif _is_bfloat16(value):
        return _from_bfloat16(bfloat16_bits(value), widen)
    else:
        try:
            array = np.asarray(value)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"{name}: expected an array, got {type(value).__name__}: {error}") from None
    if array.dtype.kind == "V" and array.dtype.name == "bfloat16":  # ml_dtypes
        return _from_bfloat16(array.view(np.uint16), widen)
    return array


def _is_masked(value: Any) -> bool:
    """Without importing numpy.ma, which takes as long as thousands of rounds: what it made exists only where it is."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


def _is_bfloat16(value: Any) -> bool:
    """NumPy's own protocols have no bfloat16, so a tensor of it is read through DLPack."""
    return hasattr(value, "__dlpack__") and str(getattr(value, "dtype", "")).endswith("bfloat16")


def _from_bfloat16(bits: np.ndarray, widen: bool) -> np.ndarray:
    """A bfloat16 is the upper half of a float32. Without `widen` the bits stay, marked by their type."""
    return (bits.astype(np.uint32) << 16).view(np.float32) if widen else bits.view(_BFLOAT16_BITS)


def fail_target_shape(target: np.ndarray | SparseRows) -> NoReturn:
    shape = (len(target), target.vocab_size) if isinstance(target, SparseRows) else target.shape
    raise ValueError(f"target: expected shape [K + 1, V] with at least one row and V > 0, got {shape}")


def fail_draft_shape(draft: np.ndarray, k: int, vocab: int) -> NoReturn:
    hint = " (is the target's bonus row missing?)" if draft.shape == (k + 1, vocab) else ""
    raise ValueError(f"draft: expected shape (K, V) = ({k}, {vocab}) beside the target's, got {draft.shape}{hint}")


def fail_length(vector: np.ndarray, name: str, words: str, expected: int) -> NoReturn:
    raise ValueError(f"{name}: expected shape ({words},) = ({expected},) beside the target's, got {vector.shape}")


def fail_sparse_greedy() -> NoReturn:
    raise TypeError("target: expected dense rows for greedy verification, got SparseRows")


def _fail_huge_token(tokens: np.ndarray) -> NoReturn:
    where = next(i for i, token in np.ndenumerate(tokens) if not -(2**63) <= int(token) < 2**63)
    place = ", ".join(map(str, where))
    raise ValueError(f"tokens[{place}] = {tokens[where]} is outside [0, V)")


def fail_long_block(k: int, longest: int) -> NoReturn:
    raise ValueError(f"tokens: expected at most {longest} with the block rule, got {k}")


class Place(NamedTuple):
    """What a function calls its arguments, and where in them a round stands."""

    request: str = ""  # before the name of an argument
    target: str = "target"
    uniforms: str = "uniforms"
    where: tuple[int, ...] | None = None  # the one row and the one uniform of a draw; None: as in the round


def fail_request(
    place: Place, status: int, where: int, number: int | float | None, row: np.ndarray, vocab: int, rows_are: str
) -> NoReturn:
    """Explain why a round has no result. `row` is the faulty row, converted to float32, where it is one.

    The numbers are those of ``sv_status`` in the C header.
    """
    index = (where,) if place.where is None else place.where
    if status == 1:
        raise ValueError(f"{place.request}tokens[{where}] = {number} is outside [0, {vocab})")
    if status == 2:
        raise ValueError(f"{place.request}{_item(place.uniforms, *index)} = {number} is outside [0, 1)")
    expected, empty = {
        "scores": ("a number below infinity", "has no maximum: every entry is -inf"),
        "logits": ("a logit below infinity", "has no token left: every logit is -inf"),
        "probabilities": (
            "a finite probability, 0 or more",
            "sums to 0: expected a row with at least one positive probability",
        ),
    }[rows_are]
    name = place.request + (place.target if status == 3 else "draft")
    wrong = _improper(row) if rows_are == "probabilities" else ~(row < np.inf)
    if wrong.any():
        raise ValueError(f"{_item(name, *index, _first(wrong))} = {row[_first(wrong)]}: expected {expected}")
    raise ValueError(f"{_item(name, *index)} {empty}")


def _item(name: str, *index: int) -> str:
    return f"{name}{list(index)}" if index else name


def _improper(row: np.ndarray) -> np.ndarray:
    return ~((row >= 0) & (row < np.inf))


def _first(mask: np.ndarray) -> int:
    return int(np.argmax(mask))
