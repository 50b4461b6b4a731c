"""The order of summation, and the draw.

A row is summed in blocks of 4096 entries: entry j of a block goes to lane j % 16, and the lanes are folded in halves.
Blocks are added one after the other in groups, the sums of the groups one after the other; a group is one block unless
the row has more than 256. A draw searches groups, then blocks, then pieces of 256 entries, then entries.
"""

import numpy as np

LANES = 16
BLOCK = 4096
MAX_GROUPS = 256
PIECE = 256


def row_sum(weights: np.ndarray) -> float:
    """Add up one row of float64 weights."""
    total = 0.0
    for start, stop in _parts(0, len(weights), _group(len(weights))):
        total += _group_sum(weights, start, stop)
    return total


def lane_sum(weights: np.ndarray) -> float:
    """Add up a block or piece."""
    steps = np.zeros((1 + -(-len(weights) // LANES), LANES))  # the first: zeros, to which the others are added
    steps.ravel()[LANES : LANES + len(weights)] = weights
    lanes = np.add.accumulate(steps)[-1]  # one step after the other, by definition; np.sum may add in another order
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return float(lanes[0])


def draw(weights: np.ndarray, uniform: float) -> int:
    """Find the first index whose cumulative weight exceeds uniform * total."""
    point = uniform * row_sum(weights)
    before, start, stop = 0.0, 0, len(weights)
    for size, part_sum in ((_group(len(weights)), _group_sum), (BLOCK, _part_sum), (PIECE, _part_sum)):
        # Go to the part of this size in which the running sum passes the point, or else to the last one.
        for part, end in _parts(start, stop, size):
            after = before + part_sum(weights, part, end)
            if after > point or end == stop:
                start, stop = part, end
                break
            before = after
    running = np.add.accumulate([before, *weights[start:stop]])[1:]
    place = int(np.searchsorted(running, point, side="right"))
    if place < len(running):
        return start + place
    return int(np.flatnonzero(weights[:stop] > 0)[-1])  # the running sum fell short by rounding


def _group_sum(weights: np.ndarray, start: int, stop: int) -> float:
    total = 0.0
    for block, end in _parts(start, stop, BLOCK):
        total += lane_sum(weights[block:end])
    return total


def _part_sum(weights: np.ndarray, start: int, stop: int) -> float:
    return lane_sum(weights[start:stop])


def _parts(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    return [(part, min(part + size, stop)) for part in range(start, stop, size)]


def _group(n: int) -> int:
    group = BLOCK
    while n > group * MAX_GROUPS:
        group *= 2
    return group
