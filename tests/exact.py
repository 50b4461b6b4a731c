"""The round in exact rational numbers, and the law that a verifier emits, without sampling.

Holds no code of the package: it is what the package is compared with. The rule is written as the contract says it,
once; where it compares fractions, they stand multiplied out, since whole numbers are compared many times as fast. Laws
are found by calling a verifier on every cell of a grid of uniforms on which its result is constant.
"""

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

Row = Sequence[int]
Verifier = Callable[..., tuple[int, int]]
Breakpoints = Callable[..., list[list[Fraction]]]
Model = Callable[[tuple[int, ...]], Row]  # from what was emitted so far to the row that predicts what follows


def verify(
    target: Sequence[Row], draft: Sequence[Row] | None, tokens: Sequence[int], uniforms: Sequence[float | Fraction]
) -> tuple[int, int]:
    """One sampled round on integer rows, each up to a positive factor."""
    for i, token in enumerate(tokens):
        draft_row = one_hot(token, len(target[i])) if draft is None else draft[i]
        n, d = uniforms[i].as_integer_ratio()
        if n * draft_row[token] * sum(target[i]) < d * target[i][token] * sum(draft_row):  # n / d * q / Q < p / P
            continue
        return i, draw(rejected_weights(target[i], draft_row), uniforms[-1])
    return len(tokens), draw(target[-1], uniforms[-1])


def verify_block(
    target: Sequence[Row],
    draft: Sequence[Row] | None,
    tokens: Sequence[int],
    uniforms: Sequence[float | Fraction],
    *,
    cap: Callable[[Fraction], Fraction] = lambda path: min(Fraction(1), path),
    chance: Callable[..., Fraction] | None = None,
    residual_path: Callable[[Fraction], Fraction] = lambda path: path,
    scan: Callable[[int], Sequence[int]] = lambda k: range(k, 0, -1),
    last_is_path: bool = True,
) -> tuple[int, int]:
    """One round of the block rule; the parts are there to be replaced by wrong ones (mutants.py)."""
    if draft is None:
        draft = [one_hot(token, len(target[0])) for token in tokens]
    k = len(tokens)
    path, accepts = _block_chances(_frozen(target), _frozen(draft), tuple(tokens), cap, chance, last_is_path)
    for i in scan(k):
        n, d = uniforms[i - 1].as_integer_ratio()
        if n * accepts[i].denominator < d * accepts[i].numerator:
            if i == k:
                return k, draw(target[k], uniforms[-1])
            return i, draw(block_weights(residual_path(path[i]), target[i], draft[i]), uniforms[-1])
    if k == 0:
        return 0, draw(target[0], uniforms[-1])
    return 0, draw(block_weights(Fraction(1), target[0], draft[0]), uniforms[-1])


@functools.lru_cache(1000)  # a round is asked for on every cell of its uniforms
def _block_chances(
    target: tuple, draft: tuple, tokens: tuple, cap: Callable, chance: Callable | None, last_is_path: bool
) -> tuple[list[Fraction], list[Fraction]]:
    """The paths, and with which probability each prefix is accepted if no longer one is."""
    path, chance = paths(target, draft, tokens, cap), chance or block_chance
    pairs = zip(path, target, [*draft, target[-1]], strict=True)
    accepts = [chance(reached, normalise(p), normalise(q)) for reached, p, q in pairs]
    return path, [*accepts[:-1], path[-1] if last_is_path else accepts[-1]]


def _frozen(rows: Sequence[Row]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, rows))


def paths(
    target: Sequence[Row],
    draft: Sequence[Row],
    tokens: Sequence[int],
    cap: Callable[[Fraction], Fraction] = lambda path: min(Fraction(1), path),
) -> list[Fraction]:
    """For each prefix the probability that the target would have kept it as a whole."""
    path = [Fraction(1)]
    for token, p, q in zip(tokens, target, draft, strict=False):
        ratio = Fraction(p[token] * sum(q), q[token] * sum(p)) if q[token] else Fraction(bool(p[token]))
        path.append(cap(path[-1] * ratio))
    return path


def block_chance(path: Fraction, in_target: Sequence[Fraction], in_draft: Sequence[Fraction]) -> Fraction:
    """With which probability a prefix that is not the whole draft is accepted, if no longer one is."""
    surplus = sum((max(Fraction(0), path * p - q) for p, q in zip(in_target, in_draft, strict=True)), Fraction(0))
    return surplus / (surplus + 1 - path) if surplus + 1 - path else Fraction(1)


def block_weights(path: Fraction, target_row: Row, draft_row: Row) -> Row:
    """What follows an accepted prefix; if that is nothing, a branch of probability 0, the target row.

    max(0, path * p / P - q / Q), times P, Q and the denominator of path.
    """
    ours, theirs = path.numerator * sum(draft_row), path.denominator * sum(target_row)
    residual = [max(0, ours * p - theirs * q) for p, q in zip(target_row, draft_row, strict=True)]
    return residual if any(residual) else target_row


def draw(weights: Row, uniform: float | Fraction) -> int:
    """The smallest index whose cumulative weight exceeds uniform * total: half-open buckets."""
    n, d = uniform.as_integer_ratio()
    point = n * sum(weights) // d  # a whole number exceeds another number iff it exceeds that rounded down
    return next(j for j, running in enumerate(itertools.accumulate(weights)) if running > point)


def rejected_weights(target_row: Row, draft_row: Row) -> Row:
    """The residual. It is empty only for equal rows and a token that is in neither: then the target row."""
    return block_weights(Fraction(1), target_row, draft_row)


def normalise(row: Row) -> list[Fraction]:
    return list(_shares(tuple(row)))


@functools.lru_cache(1000)
def _shares(row: tuple[int, ...]) -> list[Fraction]:
    return [Fraction(entry, sum(row)) for entry in row]


def one_hot(token: int, vocab: int) -> list[int]:
    return [int(j == token) for j in range(vocab)]


def breakpoints(target: Sequence[Row], draft: Sequence[Row] | None, tokens: Sequence[int]) -> list[list[Fraction]]:
    """For each uniform, every number at which the exact round can change its result, in order, without 0 and 1."""
    points: list[set[Fraction]] = [set() for _ in target]
    draws = [target[-1]]
    for i, token in enumerate(tokens):
        draft_row = one_hot(token, len(target[i])) if draft is None else draft[i]
        if draft_row[token]:
            points[i].add(Fraction(target[i][token] * sum(draft_row), sum(target[i]) * draft_row[token]))
        draws.append(rejected_weights(target[i], draft_row))
    for weights in draws:
        points[-1].update(Fraction(running, sum(weights)) for running in itertools.accumulate(weights))
    return [sorted(point for point in column if 0 < point < 1) for column in points]


def block_breakpoints(
    target: Sequence[Row], draft: Sequence[Row] | None, tokens: Sequence[int]
) -> list[list[Fraction]]:
    """As breakpoints, of the block rule."""
    rows = [one_hot(token, len(target[0])) for token in tokens] if draft is None else draft
    path, k = paths(target, rows, tokens), len(tokens)
    points: list[set[Fraction]] = [set() for _ in target]
    draws = [target[-1]]
    for i in range(k):
        draws.append(block_weights(path[i], target[i], rows[i]))
        if i:
            points[i - 1].add(block_chance(path[i], normalise(target[i]), normalise(rows[i])))
    if k:
        points[k - 1].add(path[k])
    for weights in draws:
        points[-1].update(Fraction(running, sum(weights)) for running in itertools.accumulate(weights))
    return [sorted(point for point in column if 0 < point < 1) for column in points]


def cells(
    target: Sequence[Row], draft: Sequence[Row] | None, tokens: Sequence[int], points: Breakpoints = breakpoints
) -> Iterator[tuple[Fraction, list[float]]]:
    """Split [0, 1) ** (K + 1) at the breakpoints; give the volume of each cell and a float64 point inside it.

    With small integer rows a cell is far wider than 2 ** -53 in every direction, so the point is inside.
    """
    axes = []
    for column in points(target, draft, tokens):
        edges = [Fraction(0), *column, Fraction(1)]
        axes.append([(high - low, float((low + high) / 2)) for low, high in itertools.pairwise(edges)])
    for cell in itertools.product(*axes):
        volume = Fraction(1)
        for width, _ in cell:
            volume *= width
        yield volume, [point for _, point in cell]


def is_dyadic(number: Fraction) -> bool:
    """Whether float64 holds it exactly; all numbers here are far from the limits of precision and range."""
    return number.denominator & (number.denominator - 1) == 0


def decision_points(
    target: Sequence[Row], draft: Sequence[Row] | None, tokens: Sequence[int]
) -> Iterator[tuple[float, ...]]:
    """Uniforms inside every cell, and on every breakpoint, and 0, as far as float64 arithmetic is exact there."""
    columns = breakpoints(target, draft, tokens)
    exact_scale = draft is None or all(
        is_dyadic(Fraction(sum(p), sum(q)))
        for p, q in zip(target, draft, strict=False)  # target has one row more
    )
    axes = []
    for i, column in enumerate(columns):
        edges = [Fraction(0), *column, Fraction(1)]
        inside = [float((low + high) / 2) for low, high in itertools.pairwise(edges)]
        # u * (q * P) < p * Q is exact for such u. The final draw is only if P / Q is.
        on = [float(edge) for edge in column if is_dyadic(edge) and (i < len(tokens) or exact_scale)]
        axes.append([0.0, *inside, *on])
    return itertools.product(*axes)


# Sums of 8 and 16 put many breakpoints on float64 numbers; the others have none in the draw, but all kinds of cells.
ROWS = (
    [4, 2, 1, 1],
    [1, 2, 1, 4],
    [0, 4, 4, 0],
    [8, 0, 0, 0],
    [2, 2, 2, 2],
    [4, 8, 2, 2],
    [1, 2, 3, 4],
    [0, 1, 0, 5],
)


def wrong_decisions(verifier: Verifier) -> Iterator[tuple]:
    """Every decision of a round with one position that differs from the exact rule's."""
    for target_row, draft_row in itertools.product(ROWS, [*ROWS, None]):
        target = [target_row, [1, 1, 2, 4]]
        draft = None if draft_row is None else [draft_row]
        for token in range(4):
            for uniforms in decision_points(target, draft, [token]):
                expected = verify(target, draft, [token], uniforms)
                got = verifier(target, draft, [token], list(uniforms))
                if got != expected:
                    yield target, draft, token, uniforms, got, expected


def emitted_law(
    verifier: Verifier,
    target: Model,
    draft: Model | None,
    propose: Model,
    k: int,
    points: Breakpoints = breakpoints,
) -> dict:
    """The law of the K + 1 tokens that follow the empty text when one round is verified by `verifier`.

    Each draft comes with its exact probability under `propose` (the draft model, or for a deterministic drafter the
    one-hot rows it stands for, with `draft` None), each cell of uniforms with its volume. A round that emits fewer than
    K + 1 tokens is completed by the target alone.
    """
    law: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for tokens, chance in texts(propose, k):
        target_rows = [target(tokens[:i]) for i in range(k + 1)]
        draft_rows = None if draft is None else [draft(tokens[:i]) for i in range(k)]
        emitted: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for volume, uniforms in cells(target_rows, draft_rows, tokens, points):
            n_accepted, next_token = verifier(target_rows, draft_rows, list(tokens), uniforms)
            emitted[(*tokens[:n_accepted], next_token)] += volume
        for text, volume in emitted.items():
            for rest, rest_chance in texts(target, k + 1 - len(text), text):
                law[text + rest] += chance * volume * rest_chance
    return dict(law)


def expected_accepted(
    verifier: Verifier, target: Model, draft: Model, k: int, points: Breakpoints = breakpoints
) -> Fraction:
    """Expected number of drafted tokens that a verifier accepts in one round."""
    total = Fraction(0)
    for tokens, chance in texts(draft, k):
        target_rows = [target(tokens[:i]) for i in range(k + 1)]
        draft_rows = [draft(tokens[:i]) for i in range(k)]
        for volume, uniforms in cells(target_rows, draft_rows, tokens, points):
            total += chance * volume * verifier(target_rows, draft_rows, list(tokens), uniforms)[0]
    return total


def texts(model: Model, length: int, before: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Every continuation of this length that the model can produce, with its probability."""
    if length == 0:
        yield (), Fraction(1)
        return
    for token, chance in enumerate(normalise(model(before))):
        if chance:
            for rest, rest_chance in texts(model, length - 1, (*before, token)):
                yield (token, *rest), chance * rest_chance
