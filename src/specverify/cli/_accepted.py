"""Accepted lengths on a screen: how often each came, what the law says, and whether they agree.

Holds no figure of its own: lengths.py computes them.
"""

from collections.abc import Sequence

from ..lengths import FALSE_ALARM_RATE, CountCheck
from ._terminal import Screen

_BAR_WIDTH = 40


def show_lengths(screen: Screen, observed: Sequence[int], by_law: Sequence[float] | None) -> None:
    """Print how many rounds accepted 0, 1, ... tokens, beside what the law says, if one is known."""
    screen.print("accepted   rounds" + ("" if by_law is None else f"   by law {screen.stroke}"))
    largest = max(*observed, *(by_law or ()), 1)
    for length, count in enumerate(observed):
        expected = None if by_law is None else by_law[length]
        column = "" if expected is None else f" {expected:8.1f}"
        screen.print(f"{length:8} {count:8}{column}   {screen.bar(count, expected, largest, _BAR_WIDTH)}".rstrip())


def judge_lengths(screen: Screen, check: CountCheck) -> None:
    """Print whether the accepted lengths follow their law."""
    if check.passed and not check.degrees:
        screen.paragraph("Too few rounds to compare the accepted lengths with their law.")
        return
    screen.verdict(
        check.passed,
        f"the accepted lengths {'follow' if check.passed else 'DO NOT FOLLOW'} their law: chi-square "
        f"{check.chi_square:.2f}, {check.degrees} degrees of freedom, p = {check.p_value:.2g} "
        f"(fails below {FALSE_ALARM_RATE:.0e})",
    )
