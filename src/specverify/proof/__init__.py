"""Proof: that what is emitted follows the target's law, for the formula, for the build that runs, and for one call.

Three trades, weakest claim first: closed_form.py computes the law of the *rule*; exact_law.py finds the law that a
*function* emits, compiled or not, by bisection on the function itself; certificate.py bounds how far *one call* can be
from the law of the rows behind it. rounding.py derives what float64's rounding can be blamed for, spacing.py what its
spacing can. To run any verifier through the whole contract, read :mod:`specverify.conformance` next.
"""

from .certificate import Certificate, certify_call
from .closed_form import (
    Model,
    accept_probability,
    induced_from_dists,
    induced_next_token_distribution,
    max_total_variation,
    residual,
    total_variation,
)
from .exact_law import PositionLaw, RoundLaw, position_law, round_law
from .rounding import additions, rounding_bound
from .spacing import spacing_total_variation

__all__ = [
    "Certificate",
    "Model",
    "PositionLaw",
    "RoundLaw",
    "accept_probability",
    "additions",
    "certify_call",
    "induced_from_dists",
    "induced_next_token_distribution",
    "max_total_variation",
    "position_law",
    "residual",
    "round_law",
    "rounding_bound",
    "spacing_total_variation",
    "total_variation",
]
