"""What verification returns. Holds nothing else; the compiled core fills a Verdict without calling Python."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Verdict(NamedTuple):
    """What a round of verification decided.

    Attributes
    ----------
    n_accepted : int
        How many drafted tokens were accepted: the first ``n_accepted`` of them, between 0 and K.
    next_token : int
        The token that follows them: the residual token after a rejection, the bonus token when all K passed.
    """

    n_accepted: int
    next_token: int


class BatchVerdict(NamedTuple):
    """What the rounds of a batch decided: a :class:`Verdict` of arrays.

    Attributes
    ----------
    n_accepted : ndarray of int64, shape [B]
    next_token : ndarray of int64, shape [B]
    """

    n_accepted: npt.NDArray[np.int64]
    next_token: npt.NDArray[np.int64]


class Detail(NamedTuple):
    """A verdict with what else is known of it, given with ``detail=True`` or ``on_error="mark"``.

    Attributes
    ----------
    n_accepted, next_token : int, or ndarray of int64, shape [B]
        As in :class:`Verdict`. -1 for a request that has no result.
    tokens : ndarray of int64, shape [n_accepted + 1] or [B, K + 1]
        The emitted tokens; -1 past the end of a request's own.
    logprobs : ndarray of float64, same shape, or None
        Natural logarithm of each emitted token's probability under the warped target; NaN past the end. None unless
        ``detail=True``, and for greedy verification.
    status : int32, or ndarray of int32, shape [B]
        0, or why a request has no result: 1 a token outside the vocabulary, 2 a uniform outside [0, 1), 3 a target row,
        4 a draft row without a distribution.
    """

    n_accepted: Any
    next_token: Any
    tokens: npt.NDArray[np.int64]
    logprobs: npt.NDArray[np.float64] | None
    status: Any
