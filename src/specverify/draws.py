"""What a draft needs so that its law is the one it is verified with: a draw, and the law it was drawn from.

By the same code path as verification; nothing is computed here.
"""

from typing import Any

import numpy as np

from . import _batch, _inputs
from .sampling import Sampling
from .verify import verify_sampled

_NO_TOKENS = np.empty(0, np.int64)


def sample(
    rows: Any,
    uniform: Any,
    sampling: Sampling | None = None,
    *,
    mask: Any = None,
    bias: Any = None,
    with_probabilities: bool = False,
) -> Any:
    """Draw one token from a row, or one from each of several.

    Parameters
    ----------
    rows : array_like, shape [V] or [B, V]
        Probabilities up to a positive factor, or, with `sampling`, logits.
    uniform : float, or array_like of float64, shape [B]
        A uniform number in ``[0, 1)`` for each draw.
    sampling : Sampling, optional
        How logits become probabilities.
    mask : array_like of int32, shape [ceil(V / 32)] or [B, ceil(V / 32)], optional
        Token bitmask, or booleans, as in :func:`verify_sampled`.
    bias : array_like of float32, shape [V], optional
        Added to the logits.
    with_probabilities : bool
        Also return the law that was drawn from, as :func:`probabilities` gives it.

    Returns
    -------
    int, or ndarray of int64, shape [B]
        The smallest index whose cumulative weight exceeds ``uniform *`` total. With `with_probabilities` a pair of it
        and the probabilities.

    Raises
    ------
    TypeError, ValueError
        As :func:`verify_sampled`.

    Notes
    -----
    This is a round without drafted tokens, so that a draft's tokens come from exactly the law that
    ``verify_sampled(target, logits, tokens, uniforms, sampling=sampling)`` takes it to have.

    Examples
    --------
    >>> import numpy as np, specverify
    >>> specverify.sample(np.log([0.6, 0.4]), 0.7, specverify.Sampling())
    1
    """
    rows, single = _stack(rows)
    uniforms = _inputs.as_draw_uniforms(uniform, len(rows))
    mask = _stack_mask(mask, single, rows.shape[-1])
    options: _batch.Options = {"sampling": sampling, "mask": mask, "bias": bias}
    token: Any = _draw_one(rows[0], uniforms[0], options) if single else None
    if token is None:
        token = _batch.draw(rows, uniforms, single, options)
    if not with_probabilities:
        return token
    law = _batch.probabilities(rows, single, options)
    return token, law[0] if single else law


def probabilities(rows: Any, sampling: Sampling | None = None, *, mask: Any = None, bias: Any = None) -> np.ndarray:
    """Turn logits (or unnormalised probabilities) into the probabilities that are drawn from and verified.

    Parameters
    ----------
    rows, sampling, mask, bias
        As in :func:`sample`.

    Returns
    -------
    ndarray of float32, shape [V] or [B, V]
        Weights over their float64 sum, rounded to float32.

    Raises
    ------
    TypeError, ValueError
        As :func:`verify_sampled`.

    Notes
    -----
    The rounding moves each probability by at most 2**-24 of itself. Where the law must be exact to the last place, pass
    the logits and `sampling` to the verifier instead.

    Examples
    --------
    >>> import numpy as np, specverify
    >>> specverify.probabilities(np.log([0.5, 0.3, 0.2]), specverify.Sampling(top_p=0.8)).round(3).tolist()
    [0.625, 0.375, 0.0]
    """
    rows, single = _stack(rows)
    law = _batch.probabilities(
        rows, single, {"sampling": sampling, "mask": _stack_mask(mask, single, rows.shape[-1]), "bias": bias}
    )
    return law[0] if single else law


def _draw_one(rows: np.ndarray, uniforms: np.ndarray, options: _batch.Options) -> int | None:
    """Draw by the fast gate, not as a batch of one: a draft comes here for every token. None: something is wrong."""
    mask = None if options["mask"] is None else options["mask"][0]
    try:
        drawn = verify_sampled(
            rows, None, _NO_TOKENS, uniforms, sampling=options["sampling"], mask=mask, bias=options["bias"]
        )
    except ValueError:
        return None
    return int(drawn.next_token)


def _stack(rows: Any) -> tuple[np.ndarray, bool]:
    array = _inputs.as_float_rows(rows, "rows", (1, 2))
    if array.shape[-1] == 0:
        raise ValueError(f"rows: expected shape [V] or [B, V] with V > 0, got {array.shape}")
    return array.reshape(-1, 1, array.shape[-1]), array.ndim == 1


def _stack_mask(mask: Any, single: bool, vocab: int) -> Any:
    if mask is None:
        return None
    words = np.asarray(mask)
    if words.ndim != (1 if single else 2):
        expected = "[ceil(V / 32)]" if single else "[B, ceil(V / 32)]"
        raise ValueError(f"mask: expected shape {expected}, got {words.shape}")
    if words.dtype == bool and words.shape[-1] != vocab:
        expected = f"[{vocab}]" if single else f"[B, {vocab}]"
        raise ValueError(f"mask: expected shape {expected} of bool, got {words.shape}")
    return words.reshape(1, 1, -1) if single else words[:, None, :]
