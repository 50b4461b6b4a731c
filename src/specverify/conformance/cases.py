"""Fixed rounds and their answers, and input that must be refused. Data only; layers.py asks them.

Each answer follows from the contract in a line of arithmetic, given in the name. `certain` answers do not depend on the
uniforms, so they can be asked of a verifier that draws its own.
"""

from typing import Any, NamedTuple

import numpy as np

LAST = 1 - 2**-53  # the largest uniform


class Case(NamedTuple):
    """A round with its answer. `draft` None: certain tokens."""

    name: str
    target: Any
    draft: Any
    tokens: list[int]
    uniforms: list[float]
    expected: tuple[int, int]
    certain: bool = False


class BadCase(NamedTuple):
    """A round without an answer."""

    name: str
    target: Any
    draft: Any
    tokens: list[int]
    uniforms: list[float]


_A = [0.6, 0.3, 0.1, 0.0]
_B = [0.2, 0.5, 0.3, 0.0]
_EQUAL = [0.1, 0.2, 0.7]

CASES = (
    Case("zero probability at u = 0", [[0, 0.25, 0.75], [1, 0, 0]], [[0.5, 0.25, 0.25]], [0], [0.0, 0.1], (0, 2), True),
    Case("residual (.4, 0, 0, 0), never a softmax of it", [_A, _A], [_B], [1], [0.9, 0.99], (0, 0)),
    Case("accepted, .7 falls into the bonus token 1", [_A, _A], [_B], [1], [0.5, 0.7], (1, 1)),
    Case("a residual of one token is certain", [[0.75, 0.25, 0], _A[:3]], [[0.25, 0.75, 0]], [1], [0.5, 0.3], (0, 0)),
    Case("disjoint rows are rejected", [[0, 0, 1], [1, 0, 0]], [[1, 0, 0]], [0], [0.0, 0.5], (0, 2), True),
    Case("equal rows are accepted at the largest u", [_EQUAL, [0, 1, 0]], [_EQUAL], [1], [LAST, 0.5], (1, 1), True),
    Case("half-open buckets: u = .5 is after the first half", [[0.5, 0.25, 0.25]], [], [], [0.5], (0, 1)),
    Case("a leading zero is skipped at u = 0", [[0, 1]], [], [], [0.0], (0, 1), True),
    Case("trailing zeros are never drawn", [[0.1] * 3 + [0.0] * 5], [], [], [LAST], (0, 2)),
    Case("one token", [[1], [1]], [[1]], [0], [0.5, 0.5], (1, 0), True),
    Case("K = 0 draws from row 0", [[0, 0, 1, 0]], [], [], [0.3], (0, 2), True),
    Case("a certain token passes below its probability", [[0.25, 0.6, 0.15]] * 2, None, [0], [0.2, 0.9], (1, 2)),
    Case("a certain token: the rest, low", [[0.25, 0.6, 0.15]] * 2, None, [0], [0.5, 0.0], (0, 1)),
    Case("a certain token: the rest, high", [[0.25, 0.6, 0.15]] * 2, None, [0], [0.5, 0.9], (0, 2)),
    Case("the last uniform draws, low", [[0.2, 0.3, 0.5]] * 2, [[0.6, 0.2, 0.2]], [0], [0.5, 0.1], (0, 1)),
    Case("the last uniform draws, high", [[0.2, 0.3, 0.5]] * 2, [[0.6, 0.2, 0.2]], [0], [0.5, 0.5], (0, 2)),
    Case("unnormalised rows", [[12, 6, 2, 0], [3, 1, 0, 0]], [[1, 2.5, 1.5, 0]], [1], [0.59, 0.8], (1, 1)),
    Case("unnormalised rows, rejected", [[12, 6, 2, 0], [3, 1, 0, 0]], [[1, 2.5, 1.5, 0]], [1], [0.61, 0.8], (0, 0)),
    Case("subnormal probabilities: 1e-40 / 2e-40", [[1e-40, 1], [0, 1]], [[2e-40, 1]], [0], [0.25, 0.3], (1, 1)),
    Case("subnormal probabilities, rejected", [[1e-40, 1], [0, 1]], [[2e-40, 1]], [0], [0.75, 0.3], (0, 1)),
    Case(
        "a rejection at 0 ends the round", [[0, 1], [1, 0], [1, 0]], [[1, 0], [1, 0]], [0, 0], [0, 0, 0], (0, 1), True
    ),
)

_GOOD = [[0.5, 0.5], [0.5, 0.5]]
_NAN = float("nan")

BAD_CASES = (
    BadCase("a target row with NaN", [[_NAN, 1.0], [0.5, 0.5]], [[0.5, 0.5]], [1], [0.5, 0.5]),
    BadCase("a draft row with NaN", _GOOD, [[_NAN, 1.0]], [1], [0.5, 0.5]),
    BadCase("a negative probability", [[1.5, -0.5], [0.5, 0.5]], [[0.5, 0.5]], [0], [0.5, 0.5]),
    BadCase("an infinite probability", [[np.inf, 0.5], [0.5, 0.5]], [[0.5, 0.5]], [1], [0.5, 0.5]),
    BadCase("a target row of zeros", [[0.0, 0.0], [0.5, 0.5]], [[0.5, 0.5]], [0], [0.5, 0.5]),
    BadCase("a token past the vocabulary", _GOOD, [[0.5, 0.5]], [2], [0.5, 0.5]),
    BadCase("the placeholder token -1", _GOOD, [[0.5, 0.5]], [-1], [0.5, 0.5]),
    BadCase("a uniform of 1", _GOOD, [[0.5, 0.5]], [0], [1.0, 0.5]),
    BadCase("a uniform that is NaN", _GOOD, [[0.5, 0.5]], [0], [0.5, _NAN]),
    BadCase("one target row too few", _GOOD[:1], [[0.5, 0.5]], [0], [0.5, 0.5]),
)
N_BAD_UNIFORMS = 2  # those of BAD_CASES that a verifier without uniforms cannot be asked

# One position each. Rows are what float32 makes of them.
PAIRS = (
    ("dense", [0.4, 0.1, 0.15, 0.35], [0.1, 0.3, 0.4, 0.2]),
    ("zeros", [0.6, 0.3, 0.1, 0.0], [0.2, 0.5, 0.0, 0.3]),
    ("a first token of target probability 0", [0.0, 0.5, 0.5], [0.6, 0.2, 0.2]),
    ("ties", [0.25, 0.25, 0.25, 0.25], [0.5, 0.125, 0.125, 0.25]),
    ("unnormalised", [3.0, 1.0, 0.5], [1.0, 20.0, 9.0]),
    ("disjoint", [0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.1, 0.9]),
    ("one-hot draft", [0.2, 0.3, 0.5], [0.0, 1.0, 0.0]),
    ("one-hot target", [0.0, 0.0, 1.0], [0.2, 0.5, 0.3]),
    ("equal", [0.1, 0.2, 0.7], [0.1, 0.2, 0.7]),
    ("rare", [1.0, 2.0**-30, 2.0**-30], [1.0, 1.0, 2.0**-30]),
    ("subnormal", [1e-40, 3e-40, 2e-40], [1e-40, 1e-45, 5e-40]),
    ("huge", [1e38, 3e38, 2e38], [1.0, 2.0, 3.0]),
    ("one token", [0.3], [0.7]),
)

# Row s is the law of the token after token s. They sum to 8 / 8, which float32 holds exactly.
TARGET = np.array([[4, 1, 2, 1], [1, 1, 3, 3], [2, 2, 2, 2], [1, 5, 1, 1]]) / 8
DRAFT = np.array([[2, 2, 1, 3], [3, 1, 3, 1], [1, 4, 2, 1], [2, 2, 2, 2]]) / 8
