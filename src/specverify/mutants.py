"""Wrong verifiers, each a mistake that was really made somewhere. A test of a law is worth what it tells from these.

All have the signature of ``verify_sampled`` and are right in everything but the one thing their docstring names. They
compute in rational numbers, so that no rounding adds a second fault. ``specverify verify`` shows with them that its
checks can fail: :data:`CLAIMED_BY` names, for each, the layer of :mod:`specverify.conformance` that must reject it.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

Verifier = Callable[[Any, Any, Any, Any], tuple[int, int]]

MUTANTS: dict[str, Verifier] = {}


def mutant(function: Verifier) -> Verifier:
    """Put a wrong verifier on the list."""
    MUTANTS[function.__name__] = function
    return function


def _exact(row: Any) -> list[Fraction]:
    return list(_fractions(tuple(row)))


def _normalised(row: Any) -> list[Fraction]:
    return list(_shares(tuple(row)))


@functools.lru_cache(1000)
def _fractions(row: tuple[float, ...]) -> list[Fraction]:
    return [Fraction(float(entry)) for entry in row]


@functools.lru_cache(1000)
def _shares(row: tuple[float, ...]) -> list[Fraction]:
    total = sum(_fractions(row))
    return [entry / total for entry in _fractions(row)]


def _draft_row(draft: Any, i: int, tokens: Any, vocab: int, normalised: Any = _normalised) -> list[Fraction]:
    return [Fraction(int(j == tokens[i])) for j in range(vocab)] if draft is None else normalised(draft[i])


def _residual(target_row: Sequence[Fraction], draft_row: Sequence[Fraction]) -> list[Fraction]:
    weights = [max(Fraction(0), p - q) for p, q in zip(target_row, draft_row, strict=True)]
    return weights if any(weights) else list(target_row)


def _draw(weights: Sequence[Fraction], uniform: float) -> int:
    point = Fraction(float(uniform)) * sum(weights)
    return next(j for j, running in enumerate(itertools.accumulate(weights)) if running > point)


def _accepts(p: Fraction, q: Fraction, u: float) -> bool:
    return Fraction(float(u)) * q < p


def _round(
    target: Any,
    draft: Any,
    tokens: Any,
    uniforms: Any,
    *,
    accepts: Any = _accepts,
    residual: Any = _residual,
    draw: Any = _draw,
    normalised: Any = _normalised,
    final: Any = lambda uniforms, rejected: uniforms[-1],
) -> tuple[int, int]:
    """The right round, with parts to replace."""
    vocab = len(target[0])
    for i, token in enumerate(tokens):
        target_row = normalised(target[i])
        draft_row = _draft_row(draft, i, tokens, vocab, normalised)
        if not accepts(target_row[token], draft_row[token], uniforms[i]):
            return i, draw(residual(target_row, draft_row), final(uniforms, i))
    return len(tokens), draw(normalised(target[len(tokens)]), final(uniforms, None))


def right(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """Not a mutant: the parts put together must pass every test that the mutants fail."""
    return _round(target, draft, tokens, uniforms)


@mutant
def residual_is_target(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """After a rejection it draws from the target row itself."""
    return _round(target, draft, tokens, uniforms, residual=lambda p, q: p)


@mutant
def residual_softmax(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It normalises the residual with a softmax, which makes its zeros positive."""
    return _round(
        target,
        draft,
        tokens,
        uniforms,
        residual=lambda p, q: [Fraction(math.exp(w)) for w in _residual(p, q)],
    )


@mutant
def residual_absolute(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It takes |target - draft| for the residual."""

    def residual(target_row: Sequence[Fraction], draft_row: Sequence[Fraction]) -> list[Fraction]:
        return [abs(p - q) for p, q in zip(target_row, draft_row, strict=True)]

    return _round(target, draft, tokens, uniforms, residual=residual)


@mutant
def residual_keeps_token(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """With a deterministic draft it forgets to take the rejected token out of the target row."""
    return _round(target, draft, tokens, uniforms, residual=_residual if draft is not None else lambda p, q: p)


@mutant
def residual_of_next_row(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """After a rejection it draws from the residual of the row after the right one."""
    n_accepted, _ = right(target, draft, tokens, uniforms)
    if n_accepted == len(tokens):
        return right(target, draft, tokens, uniforms)
    draft_row = _draft_row(draft, n_accepted, tokens, len(target[0]))
    return n_accepted, _draw(_residual(_normalised(target[n_accepted + 1]), draft_row), uniforms[-1])


@mutant
def bonus_after_rejection(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It always draws from target row K, rejected or not."""
    n_accepted, _ = right(target, draft, tokens, uniforms)
    return n_accepted, _draw(_normalised(target[len(tokens)]), uniforms[-1])


@mutant
def bonus_from_draft(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """When all are accepted it draws the bonus token from the last draft row."""
    n_accepted, next_token = right(target, draft, tokens, uniforms)
    if n_accepted < len(tokens) or len(tokens) == 0:
        return n_accepted, next_token
    return n_accepted, _draw(_draft_row(draft, len(tokens) - 1, tokens, len(target[0])), uniforms[-1])


@mutant
def accept_always(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It accepts whatever is drafted."""
    return _round(target, draft, tokens, uniforms, accepts=lambda p, q, u: True)


@mutant
def accept_never(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It rejects whatever is drafted."""
    return _round(target, draft, tokens, uniforms, accepts=lambda p, q, u: False)


@mutant
def accept_on_equality(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It tests <= instead of <: a token of target probability 0 passes when u is 0."""
    return _round(target, draft, tokens, uniforms, accepts=lambda p, q, u: Fraction(float(u)) * q <= p)


@mutant
def ratio_upside_down(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It accepts with probability min(1, draft / target)."""
    return _round(target, draft, tokens, uniforms, accepts=lambda p, q, u: _accepts(q, p, u))


@mutant
def acceptance_ignores_draft(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It accepts with the target probability, as if every draft were deterministic, but draws from the residual."""
    return _round(target, draft, tokens, uniforms, accepts=lambda p, q, u: _accepts(p, Fraction(1), u))


@mutant
def argmax_draft_with_softmax(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """A deterministic token is verified against a softmax that it was not drawn from."""
    if draft is not None:
        return right(target, draft, tokens, uniforms)
    vocab = len(target[0])
    softmax = [[2.0 if j == token else 1.0 for j in range(vocab)] for token in tokens]
    return right(target, softmax, tokens, uniforms)


@mutant
def counts_past_rejection(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It counts every position that passes, also after the first that does not."""
    n_accepted, next_token = right(target, draft, tokens, uniforms)
    vocab = len(target[0])
    for i in range(n_accepted + 1, len(tokens)):
        p = _normalised(target[i])[tokens[i]]
        n_accepted += _accepts(p, _draft_row(draft, i, tokens, vocab)[tokens[i]], uniforms[i])
    return n_accepted, next_token


@mutant
def rows_shifted(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It compares token i with target row i + 1, the one that already assumes it."""
    return right([*target[1:], target[-1]], draft, tokens, uniforms)


@mutant
def masses_ignored(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It takes every row for normalised."""
    return _round(target, draft, tokens, uniforms, normalised=_exact)


@mutant
def one_uniform(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It uses the first uniform for every test. Each position alone has the right law; the joint law is wrong."""
    return right(target, draft, tokens, [uniforms[0]] * len(tokens) + [uniforms[-1]])


@mutant
def uniform_reused_for_draw(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """The uniform that was rejected also makes the draw, so it is known to be large."""
    return _round(target, draft, tokens, uniforms, final=lambda u, rejected: u[-1] if rejected is None else u[rejected])


@mutant
def uniform_narrowed(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It draws with a 24-bit uniform, which can reach only some tokens of a long row."""
    return _round(target, draft, tokens, uniforms, final=lambda u, rejected: math.floor(u[-1] * 2**24) / 2**24)


@mutant
def draw_closed(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It closes the buckets on the right: >= instead of >. With u = 0 that is token 0, whatever its weight."""

    def draw(weights: Sequence[Fraction], uniform: float) -> int:
        point = Fraction(float(uniform)) * sum(weights)
        return next(j for j, running in enumerate(itertools.accumulate(weights)) if running >= point)

    return _round(target, draft, tokens, uniforms, draw=draw)


@mutant
def draw_without_total(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """It compares cumulative weights with u itself, not with u times their sum; the last token takes the rest."""

    def draw(weights: Sequence[Fraction], uniform: float) -> int:
        reached = [running > uniform for running in itertools.accumulate(weights)]
        return reached.index(True) if any(reached) else len(weights) - 1

    return _round(target, draft, tokens, uniforms, draw=draw)


@mutant
def last_token_unreachable(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """Its search ends one token early."""
    return _round(
        target,
        draft,
        tokens,
        uniforms,
        draw=lambda w, u: min(_draw(w, u), max(0, len(w) - 2)),
    )


@mutant
def first_token_unreachable(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
    """Its search starts at the second token."""
    return _round(target, draft, tokens, uniforms, draw=lambda w, u: max(_draw(w, u), min(1, len(w) - 1)))


CLAIMED_BY: dict[str, str] = {
    "accept_on_equality": "edge cases",
    "draw_closed": "edge cases",
    "residual_is_target": "law of a position",
    "residual_softmax": "law of a position",
    "residual_absolute": "law of a position",
    "accept_always": "law of a position",
    "accept_never": "law of a position",
    "ratio_upside_down": "law of a position",
    "acceptance_ignores_draft": "law of a position",
    "uniform_reused_for_draw": "law of a position",
    "uniform_narrowed": "law of a position",
    "masses_ignored": "law of a position",
    "draw_without_total": "law of a position",
    "last_token_unreachable": "law of a position",
    "first_token_unreachable": "law of a position",
    "residual_keeps_token": "law of a deterministic draft",
    "argmax_draft_with_softmax": "law of a deterministic draft",
    "residual_of_next_row": "law of a round",
    "bonus_after_rejection": "law of a round",
    "bonus_from_draft": "law of a round",
    "counts_past_rejection": "law of a round",
    "rows_shifted": "law of a round",
    "one_uniform": "law of a round",
}
