"""The oracle: what verification means, in plain NumPy, slow and obvious.

Public, and the executable specification: where this package and the compiled core differ, one of them is wrong. It
imports nothing else of specverify (settings and sparse rows are taken by their attributes). Rows are float32, every
sum, test and draw is float64, and sums run in the documented order, so that the two can be compared with ``==``, down
to the last bit of a mass. It is far slower than a plain NumPy version would be; for speed see :mod:`specverify`.

``sums`` has the order of summation and the draw, ``warp`` the way from logits to weights, ``rounds`` the rules.
"""

from .rounds import Verdict, emitted_probabilities, verify_block, verify_greedy, verify_sampled
from .sums import draw, lane_sum, row_sum
from .warp import probabilities, sample, weights

__all__ = [
    "Verdict",
    "draw",
    "emitted_probabilities",
    "lane_sum",
    "probabilities",
    "row_sum",
    "sample",
    "verify_block",
    "verify_greedy",
    "verify_sampled",
    "weights",
]
