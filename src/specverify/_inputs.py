"""Every conversion of an argument and every message about one.

Holds the slow side of the gate: what ``_core`` cannot use in place is converted here, and what it refuses is explained
here, in one pattern: argument, expected, got, where. Holds no rule of verification.
"""

from typing import Any, NoReturn

import numpy as np

from ._dlpack import bfloat16_bits

_REAL = "fiu"  # dtype kinds: float, signed and unsigned integer


# --- conversions ---------------------------------------------------------------------------------------------------


def as_rows(rows: Any, name: str, vocab: int | None = None) -> np.ndarray:
    """Give a float32 matrix with contiguous rows, without a copy where `rows` already is one."""
    array = _as_array(rows, name)
    if array.ndim == 1 and array.size == 0 and vocab is not None:  # an empty list has no width of its own
        array = array.reshape(0, vocab)
    if array.ndim != 2:
        expected = "[K + 1, V]" if name == "target" else "[K, V]"
        raise ValueError(f"{name}: expected shape {expected}, got {array.shape}")
    if array.dtype.kind not in _REAL:
        raise TypeError(f"{name}: expected real numbers (float32 rows), got dtype {array.dtype}")
    if array.dtype != np.float32 or not array.dtype.isnative:
        with np.errstate(over="ignore"):  # beyond float32 becomes infinity, which no visited row may hold
            array = array.astype(np.float32)
    if array.strides[1] == array.itemsize and array.flags.aligned:
        return array
    return np.require(array, requirements=["C", "A"])


def as_tokens(tokens: Any) -> np.ndarray:
    """Give an int64 vector. Values that int64 cannot hold are refused, not wrapped."""
    array = _as_array(tokens, "tokens")
    if array.size == 0:  # an empty list has no type of its own
        array = array.astype(np.int64)
    if array.ndim != 1:
        raise ValueError(f"tokens: expected shape [K], got {array.shape}")
    if array.dtype.kind not in "iu":
        # Of integers that no type of its own holds together, NumPy makes an object array or, of a list, float64.
        objects = array if array.dtype.kind == "O" else np.asarray(tokens, dtype=object)
        if not all(isinstance(token, int) and not isinstance(token, bool) for token in objects):
            raise TypeError(f"tokens: expected integers, got dtype {array.dtype}")
        if not all(-(2**63) <= token < 2**63 for token in objects):
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
    return np.ascontiguousarray(vector, dtype=dtype)


def _as_array(value: Any, name: str) -> np.ndarray:
    """View a value as an array: NumPy and its protocols, buffers, torch and other DLPack tensors, sequences."""
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "numpy"):  # torch: with its own words for a tensor that needs gradients or is elsewhere
        try:
            array = value.numpy()
        except TypeError:
            if not _is_bfloat16(value):
                raise
            return _widen_bfloat16(bfloat16_bits(value))
    elif _is_bfloat16(value):
        return _widen_bfloat16(bfloat16_bits(value))
    else:
        try:
            array = np.asarray(value)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"{name}: expected an array, got {type(value).__name__}: {error}") from None
    if array.dtype.kind == "V" and array.dtype.name == "bfloat16":  # ml_dtypes
        return _widen_bfloat16(array.view(np.uint16))
    return array


def _is_bfloat16(value: Any) -> bool:
    """NumPy's own protocols have no bfloat16, so a tensor of it is read through DLPack."""
    return hasattr(value, "__dlpack__") and str(getattr(value, "dtype", "")).endswith("bfloat16")


def _widen_bfloat16(bits: np.ndarray) -> np.ndarray:
    """A bfloat16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


# --- messages ------------------------------------------------------------------------------------------------------


def fail_target_shape(target: np.ndarray) -> NoReturn:
    raise ValueError(f"target: expected shape [K + 1, V] with at least one row and V > 0, got {target.shape}")


def fail_draft_shape(draft: np.ndarray, k: int, vocab: int) -> NoReturn:
    raise ValueError(f"draft: expected shape (K, V) = ({k}, {vocab}) beside the target's, got {draft.shape}")


def fail_length(vector: np.ndarray, name: str, words: str, expected: int) -> NoReturn:
    raise ValueError(f"{name}: expected shape ({words},) = ({expected},) beside the target's, got {vector.shape}")


def fail_greedy(status: int, where: int, target: np.ndarray, tokens: np.ndarray) -> NoReturn:
    """Explain why a greedy round has no result. The numbers are those of ``sv_status`` in the C header."""
    if status == 1:
        _fail_token(tokens, where, target.shape[1])
    row = target[where]
    if np.all(row == -np.inf):
        raise ValueError(f"target[{where}] has no maximum: every entry is -inf")
    bad = _first(~(row < np.inf))
    raise ValueError(f"target[{where}, {bad}] = {row[bad]}: expected a number below infinity")


def fail_sampled(
    status: int,
    where: int,
    target: np.ndarray,
    draft: np.ndarray | None,
    tokens: np.ndarray,
    uniforms: np.ndarray,
) -> NoReturn:
    """Explain why a sampled round has no result. The numbers are those of ``sv_status`` in the C header."""
    if status == 1:
        _fail_token(tokens, where, target.shape[1])
    if status == 2:
        raise ValueError(f"uniforms[{where}] = {uniforms[where]} is outside [0, 1)")
    if status == 3:
        _fail_row(target, "target", where)
    if status == 4:
        assert draft is not None
        _fail_row(draft, "draft", where)
    assert draft is not None
    _fail_row(*((target, "target") if _improper(target[where]).any() else (draft, "draft")), where)


def _fail_token(tokens: np.ndarray, where: int, vocab: int) -> NoReturn:
    raise ValueError(f"tokens[{where}] = {tokens[where]} is outside [0, {vocab})")


def _fail_huge_token(tokens: np.ndarray) -> NoReturn:
    where = next(i for i, token in enumerate(tokens) if not -(2**63) <= int(token) < 2**63)
    raise ValueError(f"tokens[{where}] = {tokens[where]} is outside [0, V)")


def _fail_row(rows: np.ndarray, name: str, where: int) -> NoReturn:
    improper = _improper(rows[where])
    if not improper.any():
        raise ValueError(f"{name}[{where}] sums to 0: expected a row with at least one positive probability")
    bad = _first(improper)
    raise ValueError(f"{name}[{where}, {bad}] = {rows[where, bad]}: expected a finite probability, 0 or more")


def _improper(row: np.ndarray) -> np.ndarray:
    return ~((row >= 0) & (row < np.inf))


def _first(mask: np.ndarray) -> int:
    return int(np.argmax(mask))
