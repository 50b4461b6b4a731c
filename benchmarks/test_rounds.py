"""Rounds over vocabulary, draft length, place of the rejection, trust in rows, place of rows, and variant."""

from itertools import product

import peers
import pytest

from specverify import active_isa, available_isas, measure
from specverify.measure import VOCABULARIES, Case


def rejections(k):
    """At the first position, the second, in the middle, never."""
    return [*sorted({r for r in (0, 1, k // 2) if r < k}), None]


CASES = [
    Case(operation, vocab, k, rejected_at, normalized, from_memory)
    for vocab, from_memory, operation, normalized, k in product(
        VOCABULARIES, (False, True), ("greedy", "sampled"), (False, True), (1, 4, 8)
    )
    for rejected_at in rejections(k)
    if not (operation == "greedy" and normalized)
]


def name(case):
    return "-".join(
        [
            f"V{case.vocab}",
            "memory" if case.from_memory else "cache",
            case.operation,
            *(["normalized"] if case.normalized else []),
            f"K{case.k}",
            "accepted" if case.rejected_at is None else f"rejected{case.rejected_at}",
        ]
    )


@pytest.mark.parametrize("case", CASES, ids=name)
def test_round(case, variant, benchmark, time_in_turn):
    if variant != available_isas()[0] and case.k != 4:
        pytest.skip("the other variants are measured at K = 4")
    rounds = measure.make_rounds(case)
    competing = measure.contenders(case, rounds)
    if case.k == 4 and not case.from_memory and variant == available_isas()[0]:
        competing |= peers.contenders(case, rounds)
    measure.check(case, rounds, competing)
    turns, seconds = time_in_turn(competing, warm=not case.from_memory)
    assert active_isa() == variant
    benchmark.extra_info["rows"] = measure.as_row(case, turns.result(seconds))
