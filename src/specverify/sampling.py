"""How logits become probabilities: the settings, and nothing else.

What they do to a row is in ``_warp.pxi``, and in plain NumPy in :mod:`specverify.reference`.
"""

import math
from dataclasses import dataclass
from numbers import Integral, Real


@dataclass(frozen=True, slots=True)
class Sampling:
    """A sampler's settings, applied to target and draft alike, in this order, each on the survivors of the one before.

    Parameters
    ----------
    temperature : float
        Divides the logits. 0 is greedy: all probability on the first maximum, whatever the filters say.
    top_k : int
        Keep exactly the `top_k` largest logits; 0 keeps all.
    top_p : float
        Keep the fewest largest logits whose probabilities, among the survivors of top-k, add up to `top_p` or more: the
        token that crosses is kept. 1 keeps all.
    min_p : float
        Keep tokens of at least `min_p` times the probability of the most probable one. 0 keeps all.

    Raises
    ------
    TypeError
        Something is no number.
    ValueError
        A temperature below 0 or not finite, a negative `top_k`, a `top_p` outside ``(0, 1]``, a `min_p` outside
        ``[0, 1]``.

    Notes
    -----
    Ties are kept by lowest index. At least one token survives. ``Sampling()`` is the softmax.

    Examples
    --------
    >>> import numpy as np, specverify
    >>> logits = np.log([0.5, 0.3, 0.15, 0.05])
    >>> specverify.probabilities(logits, specverify.Sampling(top_k=2)).round(3).tolist()
    [0.625, 0.375, 0.0, 0.0]
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p"):
            if not isinstance(getattr(self, name), Real):
                raise TypeError(f"{name}: expected a number, got {type(getattr(self, name)).__name__}")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature: expected a finite number, 0 or more, got {self.temperature}")
        if not (isinstance(self.top_k, Integral) and 0 <= self.top_k < 2**63):
            raise ValueError(f"top_k: expected an integer, 0 (all) or more, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: expected a number in (0, 1], got {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p: expected a number in [0, 1], got {self.min_p}")
