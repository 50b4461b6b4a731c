"""The law that a verifier emits at one position, found by bisection on the verifier itself.

No sampling and no formula in between: the result is a step function of each uniform, and its steps are found to one
unit of the lattice of 53-bit uniforms. Works for any function that takes its uniforms as arguments, compiled or not.
Holds no rule of verification; exact.py does.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

LATTICE = 2**53  # uniforms are k / LATTICE, 0 <= k < LATTICE: what random() of Python and NumPy returns

# How far the law of a right verifier may be from the target's at a token, with V <= 8 and u = 2**-53: sums of a row are
# off by at most 7u, relative; so P / Q by 15u; a breakpoint of the test, with three more products and one unit of the
# lattice, by 20u. A weight of the residual is off by 18u of the row's sum, so a cumulative weight by 8 * (18u + u) and
# the total too; times the chance of a rejection, which is the residual's share of the row, that is at most 2 * 152u of
# the law. The products with q(x) and the sum over x add no error: they are rational. Together below 20u + 304u < 512u.
TOLERANCE = Fraction(512, LATTICE)


def one_position_law(verifier: Callable, target_row: Sequence[float], draft_row: Sequence[float]) -> list[Fraction]:
    """Law of the token that is emitted at a position whose token is drawn from `draft_row`."""
    law = [Fraction(0)] * len(target_row)
    for token, in_draft in enumerate(draft_row):
        if in_draft:
            chance = Fraction(in_draft) / sum(map(Fraction, draft_row))
            conditional = emission_law(verifier, target_row, [draft_row], token)
            law = [before + chance * more for before, more in zip(law, conditional, strict=True)]
    return law


def emission_law(
    verifier: Callable, target_row: Sequence[float], draft_rows: Sequence[Sequence[float]] | None, token: int
) -> list[Fraction]:
    """Law of the token that is emitted at a position for which `token` was drafted."""

    def run(test: int, last: int) -> tuple[int, int]:
        return verifier([target_row, target_row], draft_rows, [token], [test / LATTICE, last / LATTICE])

    law = [Fraction(0)] * len(target_row)
    rejected = first(lambda k: run(k, 0)[0] == 0)
    law[token] = Fraction(rejected, LATTICE)
    if rejected < LATTICE:
        inside = (rejected + LATTICE) // 2
        drawn = draw_law(lambda last: run(inside, last)[1], len(target_row))
        law = [before + (1 - Fraction(rejected, LATTICE)) * more for before, more in zip(law, drawn, strict=True)]
    return law


def draw_law(draw: Callable[[int], int], vocab: int) -> list[Fraction]:
    """Law of a draw whose token does not fall when its uniform k / LATTICE grows."""
    law = [Fraction(0)] * vocab
    start = 0
    while start < LATTICE:
        token = draw(start)
        stop = first(lambda k, token=token: draw(k) > token, start)
        law[token] += Fraction(stop - start, LATTICE)
        start = stop
    return law


def first(holds: Callable[[int], bool], low: int = 0) -> int:
    """Smallest k >= low at which `holds` is true, given that it stays true; LATTICE if it never is."""
    high = LATTICE
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
