"""What the spacing of float64 uniforms alone does to a law, in whole numbers. Runs no verifier (exact_law.py)."""

import math
from typing import Any

from .exact_law import whole_row

#: 1 in units of 2**-1074, of which every float64 is a whole number: sums of fractions look for common divisors.
_ONE = 2**1074


def spacing_total_variation(target_row: Any, draft_row: Any) -> float:
    """Give the total variation that the spacing of float64 uniforms explains, without any rounding of sums.

    Parameters
    ----------
    target_row, draft_row : array_like, shape [V], float32
        Rows, each up to a positive factor.

    Returns
    -------
    float
        The distance from the target of the best that a function of float64 uniforms can do by the same rule: every
        exact step moved to the next float64. In ``[0.5, 1)`` these are 2**-53 apart, and a draw over V tokens has
        V - 1 steps: about V / 9 * 2**-53 on average.
    """
    target, draft = whole_row(target_row), whole_row(draft_row)
    p, q = [entry * sum(draft) for entry in target], [entry * sum(target) for entry in draft]  # of the same sum
    whole = sum(p) * _ONE
    accepted = [b * _next_float(min(a, b), b) if b else 0 for a, b in zip(p, q, strict=True)]
    rejected = whole - sum(accepted)
    weights = [max(0, a - b) for a, b in zip(p, q, strict=True)]
    total, running, before, distance = sum(weights), 0, 0, 0
    for a, emitted, weight in zip(p, accepted, weights, strict=True):
        emitted *= _ONE
        if weight:
            running += weight
            step = _next_float(running, total)
            emitted += rejected * (step - before)
            before = step
        distance += abs(emitted - a * _ONE * _ONE)
    return distance / (2 * whole * _ONE)


def _next_float(numerator: int, denominator: int) -> int:
    """The smallest float64 that is not below a quotient in [0, 1], in units."""
    near = numerator / denominator
    if _units(near) * denominator < numerator * _ONE:
        near = math.nextafter(near, 2.0)
    return _units(near)


def _units(number: float) -> int:
    numerator, denominator = number.as_integer_ratio()
    return numerator * (_ONE // denominator)
