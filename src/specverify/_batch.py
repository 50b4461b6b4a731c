"""Everything beyond the verdict of one round: batches, threads, details.

Holds the way from the caller's arrays to one C struct per request (a NumPy record array that the core walks without the
GIL) and back to results. Holds no rule. Conversions and messages about single arguments are in ``_inputs.py``; one
round of which only the verdict is asked for does not come here (``_core.pyx``).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from . import _core, _inputs, _threads
from ._result import BatchVerdict, Detail, Verdict
from .rows import SparseRows
from .sampling import Sampling

_ROWS = np.dtype(
    [
        ("kind", "i4"),
        ("dtype", "i4"),
        ("data", "u8"),
        ("stride", "i8"),
        ("ids", "u8"),
        ("probs", "u8"),
        ("offsets", "u8"),
    ],
    align=True,
)
#: ``sv_round`` of the C header, field by field.
ROUND = np.dtype(
    [
        ("target", _ROWS),
        ("draft", _ROWS),
        ("tokens", "u8"),
        ("uniforms", "u8"),
        ("k", "i8"),
        ("vocab", "i8"),
        ("normalized", "i4"),
        ("sampling", "u8"),
        ("mask", "u8"),
        ("mask_stride", "i8"),
        ("bias", "u8"),
        ("emitted_probs", "u8"),
    ],
    align=True,
)
#: ``sv_verdict``.
VERDICT = np.dtype([("n_accepted", "i8"), ("next_token", "i8"), ("status", "i4"), ("where", "i8")], align=True)
#: ``sv_sampling``.
SAMPLING = np.dtype([("temperature", "f8"), ("top_k", "i8"), ("top_p", "f8"), ("min_p", "f8")], align=True)

_CERTAIN, _DENSE, _SPARSE = 0, 1, 2


class _Layout(NamedTuple):
    """Where the parts of each request begin, counted in rows."""

    form: str  # "single": [K + 1, V]; "padded": [B, K + 1, V]; "ragged": requests one after the other
    lengths: npt.NDArray[np.int64]  # [B] drafted tokens
    target: npt.NDArray[np.int64]  # [B] first target row, uniform and mask row, in flat arrays
    draft: npt.NDArray[np.int64]  # [B] first draft row and token, in flat arrays
    width: int  # K + 1 of the longest request, or of the padded arrays

    def flat(self, extra: int) -> int:
        """Rows of all requests together, each with `extra` beyond its drafted tokens."""
        return int(self.lengths.sum()) + extra * len(self.lengths)


class Options(TypedDict, total=False):
    """Keyword arguments of the operations; what they mean is documented at :func:`specverify.verify_sampled`."""

    sampling: Sampling | Sequence[Sampling] | None
    mask: Any
    bias: Any
    lengths: Any
    cu_lengths: Any
    threads: int
    on_error: str
    detail: bool
    out: tuple[np.ndarray, np.ndarray] | None


def verify(
    rule: str,
    target: Any,
    draft: Any,
    tokens: Any,
    uniforms: Any,
    options: Options,
    normalized: bool = False,
) -> Any:
    """Do what ``verify.py`` documents for the operation named `rule`."""
    _inputs.check_names(options, Options.__annotations__)
    on_error, detail = options.get("on_error", "raise"), options.get("detail", False)
    if on_error not in ("raise", "mark"):
        raise ValueError(f"on_error: expected 'raise' or 'mark', got {on_error!r}")
    _inputs.check_options(options, normalized, rule == "greedy")
    keep: list[Any] = []  # what the addresses point into
    rounds, layout = _rounds(
        target, draft, tokens, uniforms, options.get("lengths"), options.get("cu_lengths"), rule, keep
    )
    if rule == "block" and layout.lengths.max(initial=0) > _core.LONGEST_BLOCK:
        _inputs.fail_long_block(int(layout.lengths.max()), _core.LONGEST_BLOCK)
    rounds["normalized"] = normalized
    _set_sampler(rounds, layout, options.get("sampling"), options.get("mask"), options.get("bias"), keep)
    probs = None
    if detail and rule != "greedy":
        probs = np.ones((len(rounds), layout.width))
        rounds["emitted_probs"] = _addresses(probs, 8 * layout.width * np.arange(len(rounds)), keep)
    verdicts = np.empty(len(rounds), VERDICT)
    if options.get("out") is not None:
        if layout.form == "single":
            raise ValueError("out: expected None for one round")
        _inputs.check_out(options["out"], len(rounds))
    _threads.run(rule, rounds, verdicts, options.get("threads", 1), keep)
    if on_error == "raise":
        single = layout.form == "single"
        _raise_first(rounds, verdicts, lambda b: _inputs.Place("" if single else f"request {b}: "))
    return _results(verdicts, layout, tokens, probs, options.get("out"), detail or on_error == "mark")


def draw(rows: Any, uniforms: Any, single: bool, options: Options) -> npt.NDArray[np.int64]:
    """Draw a token from each row of a stack, shape [B, 1, V]; `single` says how messages count the rows."""
    keep: list[Any] = []
    rounds = _draws(rows, uniforms, options, keep)
    verdicts = np.empty(len(rounds), VERDICT)
    _threads.run("token", rounds, verdicts, 1, keep)
    _raise_first(rounds, verdicts, lambda b: _place_of_draw(b, single))
    return np.array(verdicts["next_token"])


def probabilities(rows: Any, single: bool, options: Options) -> npt.NDArray[np.float32]:
    """Write out the law of each row of a stack, shape [B, 1, V]: shape [B, V]."""
    keep: list[Any] = []
    rounds = _draws(rows, np.zeros((len(rows), 1)), options, keep)
    out = np.empty((len(rounds), rows.shape[-1]), np.float32)
    verdicts = np.empty(len(rounds), VERDICT)
    _core.write_probabilities(rounds, verdicts, out)
    _raise_first(rounds, verdicts, lambda b: _place_of_draw(b, single))
    return out


def _draws(rows: Any, uniforms: Any, options: Options, keep: list[Any]) -> np.ndarray:
    """Make a round without drafted tokens of each row."""
    _inputs.check_options(options, False, False)
    rounds, layout = _rounds(rows, None, np.empty((len(rows), 0), int), uniforms, None, None, "token", keep)
    _set_sampler(rounds, layout, options.get("sampling"), options.get("mask"), options.get("bias"), keep)
    return rounds


def _raise_first(rounds: np.ndarray, verdicts: np.ndarray, place: Callable[[int], _inputs.Place]) -> None:
    """Raise what is wrong with the first round that has no result."""
    bad = np.flatnonzero(verdicts["status"])
    if bad.size:
        _core.explain(rounds, verdicts, int(bad[0]), place(int(bad[0])))


def _place_of_draw(b: int, single: bool) -> _inputs.Place:
    return _inputs.Place(target="rows", uniforms="uniform", where=() if single else (b,))


def _rounds(
    target: Any, draft: Any, tokens: Any, uniforms: Any, lengths: Any, cu_lengths: Any, rule: str, keep: list[Any]
) -> tuple[np.ndarray, _Layout]:
    """Fill in everything but the sampler."""
    if isinstance(target, (list, tuple)) and len(target) == 0:
        # An empty batch has no shape of its own.
        target = np.empty((0, 1, 1) if cu_lengths is None else (0, 1), np.float32)
        tokens, uniforms, draft, lengths = np.empty((0, 0), int), np.empty((0, 1)), None, None
    if not isinstance(target, SparseRows):
        target = _inputs.as_float_rows(target, "target", (2,) if cu_lengths is not None else (2, 3))
    elif rule == "greedy":
        _inputs.fail_sparse_greedy()
    vocab = _inputs.known_vocab(target) if isinstance(target, SparseRows) else target.shape[-1]
    layout = _layout(target, lengths, cu_lengths)
    rounds = np.zeros(len(layout.lengths), ROUND)
    rounds["k"] = layout.lengths
    rounds["vocab"] = vocab
    _set_rows(rounds["target"], target, layout.target, keep)
    if draft is not None:
        _set_draft(rounds["draft"], draft, layout, vocab, keep)
    order, padded = np.arange(len(rounds)), layout.form == "padded"
    shape = (len(rounds), layout.width - 1) if padded else (layout.flat(0),)
    begins = order * (layout.width - 1) if padded else layout.draft
    rounds["tokens"] = _addresses(_inputs.as_token_array(tokens, shape), 8 * begins, keep)
    if rule != "greedy":
        shape = (len(rounds), layout.width) if padded else (layout.flat(1),)
        begins = order * layout.width if padded else layout.target
        rounds["uniforms"] = _addresses(_inputs.as_uniform_array(uniforms, shape), 8 * begins, keep)
    return rounds, layout


def _layout(target: Any, lengths: Any, cu_lengths: Any) -> _Layout:
    if lengths is not None and (cu_lengths is not None or isinstance(target, SparseRows) or target.ndim == 2):
        raise ValueError("lengths: expected None, except with a target of shape [B, K + 1, V]")
    if cu_lengths is not None:
        bounds = _inputs.as_bounds(cu_lengths, len(target))
        counts, begins = np.diff(bounds), bounds[:-1]
        return _Layout("ragged", counts, begins + np.arange(len(counts)), begins, int(counts.max(initial=0)) + 1)
    if isinstance(target, SparseRows) or target.ndim == 2:
        if len(target) == 0 or (not isinstance(target, SparseRows) and target.shape[1] == 0):
            _inputs.fail_target_shape(target)
        zero = np.zeros(1, np.int64)
        return _Layout("single", np.array([len(target) - 1]), zero, zero, len(target))
    size, width = target.shape[:2]
    if width == 0 or target.shape[2] == 0:
        _inputs.fail_target_shape(target)
    zeros = np.zeros(size, np.int64)
    return _Layout("padded", _inputs.as_lengths(lengths, size, width - 1), zeros, zeros, width)


def _addresses(array: np.ndarray, offsets: np.ndarray, keep: list[Any]) -> np.ndarray:
    keep.append(array)
    return (array.ctypes.data + offsets).astype(np.uint64)


def _set_rows(fields: np.ndarray, rows: Any, begins: np.ndarray, keep: list[Any]) -> None:
    """Point requests at their rows in a matrix, in a stack of matrices, or in a list of sparse rows."""
    if isinstance(rows, SparseRows):
        keep += [rows.ids, rows.probs, rows.offsets]
        fields["kind"] = _SPARSE
        fields["ids"] = rows.ids.ctypes.data
        fields["probs"] = rows.probs.ctypes.data
        fields["offsets"] = rows.offsets.ctypes.data + 8 * begins
        return
    fields["kind"] = _DENSE
    fields["dtype"] = _inputs.dtype_code(rows)
    fields["stride"] = rows.strides[-2]
    steps = np.arange(len(fields)) if rows.ndim == 3 else begins
    fields["data"] = _addresses(rows, steps * rows.strides[0], keep)


def _set_draft(fields: np.ndarray, draft: Any, layout: _Layout, vocab: int, keep: list[Any]) -> None:
    if isinstance(draft, (list, tuple)) and layout.form != "single" and _inputs.is_list_of_drafts(draft):
        if len(draft) != len(fields):
            raise ValueError(f"draft: expected one entry for each of {len(fields)} requests, got {len(draft)}")
        for b, one in enumerate(draft):  # a kind of its own for each request
            if one is not None:
                if not isinstance(one, SparseRows) and len(one) == layout.width - 1:
                    one = one[: layout.lengths[b]]  # padded as the target is
                own = _Layout("single", layout.lengths[b : b + 1], np.zeros(1, int), np.zeros(1, int), 0)
                _set_draft(fields[b : b + 1], one, own, vocab, keep)
        return
    if isinstance(draft, SparseRows):
        if layout.form == "padded":
            raise TypeError("draft: expected a list of SparseRows, one for each request, got one SparseRows")
        _inputs.check_sparse_draft(draft, layout.flat(0), vocab)
        _set_rows(fields, draft, layout.draft, keep)
        return
    padded = layout.form == "padded"
    expected = (len(fields), layout.width - 1, vocab) if padded else (layout.flat(0), vocab)
    rows = _inputs.as_float_rows(draft, "draft", (len(expected),), expected)
    if rows.shape != expected:
        raise ValueError(f"draft: expected shape {expected} beside the target's, got {rows.shape}")
    _set_rows(fields, rows, layout.draft, keep)


def _set_sampler(rounds: np.ndarray, layout: _Layout, sampling: Any, mask: Any, bias: Any, keep: list[Any]) -> None:
    _set_sampling(rounds, sampling, keep)
    _set_mask(rounds, mask, layout, keep)
    _set_bias(rounds, bias, keep)


def _set_sampling(rounds: np.ndarray, sampling: Any, keep: list[Any]) -> None:
    if sampling is None:
        return
    each = sampling if isinstance(sampling, (list, tuple)) else [sampling]
    for one in each:
        _inputs.check_sampling(one, int(rounds["vocab"].max(initial=0)))
    if not isinstance(sampling, Sampling) and len(each) != len(rounds):
        raise ValueError(f"sampling: expected one for each of {len(rounds)} requests, got {len(each)}")
    table = np.array([(one.temperature, one.top_k, one.top_p, one.min_p) for one in each], SAMPLING)
    begins = np.zeros(len(rounds), int) if isinstance(sampling, Sampling) else np.arange(len(rounds))
    rounds["sampling"] = _addresses(table, SAMPLING.itemsize * begins, keep)


def _set_mask(rounds: np.ndarray, mask: Any, layout: _Layout, keep: list[Any]) -> None:
    if mask is None or not len(rounds):
        return
    vocab = int(rounds["vocab"][0])
    words = (vocab + 31) // 32
    padded = layout.form == "padded"
    shape = (len(rounds), layout.width, words) if padded else (layout.flat(1), words)
    rows = _inputs.as_mask(mask, shape, vocab)
    rounds["mask_stride"] = rows.strides[-2]
    rounds["mask"] = _addresses(rows, (np.arange(len(rounds)) if padded else layout.target) * rows.strides[0], keep)


def _set_bias(rounds: np.ndarray, bias: Any, keep: list[Any]) -> None:
    if bias is None:
        return
    rows = _inputs.as_bias(bias, len(rounds), int(rounds["vocab"][0]) if len(rounds) else 0)
    rounds["bias"] = _addresses(rows, np.arange(len(rounds)) * (rows.strides[0] if rows.ndim == 2 else 0), keep)


def _results(
    verdicts: np.ndarray,
    layout: _Layout,
    tokens: Any,
    probs: np.ndarray | None,
    out: tuple[np.ndarray, np.ndarray] | None,
    wants_detail: bool,
) -> Any:
    n_accepted, next_token = verdicts["n_accepted"], verdicts["next_token"]
    if out is not None:
        out[0][...], out[1][...] = n_accepted, next_token
        n_accepted, next_token = out
    if not wants_detail:
        if layout.form == "single":
            return Verdict(int(n_accepted[0]), int(next_token[0]))
        return BatchVerdict(n_accepted, next_token)
    emitted = _emitted(n_accepted, next_token, layout, tokens)
    logprobs = None
    if probs is not None:
        with np.errstate(divide="ignore"):
            logprobs = np.where(emitted >= 0, np.log(probs), np.nan)
    if layout.form == "single":
        last = int(n_accepted[0]) + 1
        return Detail(
            int(n_accepted[0]),
            int(next_token[0]),
            emitted[0, :last],
            None if logprobs is None else logprobs[0, :last],
            verdicts["status"][0],
        )
    return Detail(n_accepted, next_token, emitted, logprobs, verdicts["status"])


def _emitted(n_accepted: np.ndarray, next_token: np.ndarray, layout: _Layout, tokens: Any) -> np.ndarray:
    """Emitted tokens in the padded convention: [B, K + 1], -1 past the end."""
    emitted = np.full((len(n_accepted), layout.width), -1, np.int64)
    column = np.arange(layout.width)
    if layout.form == "padded":
        emitted[:, :-1] = _inputs.as_token_array(tokens, (len(n_accepted), layout.width - 1))
    else:
        drafted = column[:-1] < layout.lengths[:, None]
        emitted[:, :-1][drafted] = _inputs.as_token_array(tokens, (layout.flat(0),))
    emitted[column >= n_accepted[:, None]] = -1
    good = np.flatnonzero(n_accepted >= 0)
    emitted[good, n_accepted[good]] = next_token[good]
    return emitted
