"""The law that a function emits: no sampling, and no formula in between.

What a verifier returns is a step function of each of its uniforms. At fixed rows and tokens each step is found by
bisection over the float64 numbers themselves, to the last place, on the function as it runs; summed over all drafts
with their probabilities this is the law that the function really emits. Works for any callable
``(target, draft, tokens, uniforms) -> (n_accepted, next_token)``, compiled or not. Knows no rule: a formula serves only
to guess where a step will be found, and a wrong guess costs calls, not truth.

What is assumed, and probed at random points: position i passes below a threshold in ``uniforms[i]`` alone, and the
drawn token depends on ``uniforms[K]`` alone, every token in one interval. A function that breaks this shape, by using
one uniform for two purposes for instance, shows in ``unexplained``.

Laws are exact: float32 entries and float64 steps are whole numbers of some power of 2, and are added up as such.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .closed_form import Model
from .rounding import rounding_bound

Verifier = Callable[[Any, Any, Any, Any], tuple[int, int]]

# (token, key of the first uniform after its interval), in order of the uniform. A key is the bit pattern of a float64;
# numbers that are not negative are ordered like their patterns.
Steps = tuple[tuple[int, int], ...]

_ONE = int(np.array(1.0).view(np.int64))
_UNIT = 1074  # every float64 is a whole number of 2**-1074, and so is every float32
_WHOLE = 1 << _UNIT
_PROBES = 16
FORWARD, BACKWARD = "forward", "backward"
_GALLOP = 4  # from a guess that misses, steps grow by this factor


@dataclass(frozen=True, slots=True)
class PositionLaw:
    """The law of the token that one position emits.

    Attributes
    ----------
    emitted : tuple of int
        Probability of each token in units of 1 / `whole`, when a uniform is any number in ``[0, 1)`` rounded down to
        float64.
    emitted_53 : tuple of int
        The same when it is k / 2**53, which is what ``numpy.random.Generator.random`` returns.
    whole : int
        What both sum to.
    target : tuple of int
        Weights of the target row, exactly as given.
    bound : float
        The total variation that rounding explains, for this package's functions.
    calls : int
        How often the verifier was called.
    unexplained : int
        Random probes whose result the steps do not predict. Anything but 0 means that the verifier does not have the
        shape that the module assumes, and that this is not its law.
    """

    emitted: tuple[int, ...]
    emitted_53: tuple[int, ...]
    whole: int
    target: tuple[int, ...]
    bound: float
    calls: int
    unexplained: int

    @property
    def total_variation(self) -> float:
        """Distance from the target row, with uniforms of full precision; computed exactly, rounded once."""
        return self._distance(self.emitted)

    @property
    def total_variation_53(self) -> float:
        """Distance from the target row, with uniforms of 53 bits."""
        return self._distance(self.emitted_53)

    @property
    def probabilities(self) -> tuple[Fraction, ...]:
        """`emitted` as fractions."""
        return tuple(Fraction(weight, self.whole) for weight in self.emitted)

    def _distance(self, emitted: tuple[int, ...]) -> float:
        mass = sum(self.target)
        pairs = zip(emitted, self.target, strict=True)
        return sum(abs(e * mass - t * self.whole) for e, t in pairs) / (2 * mass * self.whole)


@dataclass(frozen=True, slots=True)
class RoundLaw:
    """The joint law of the K + 1 tokens after a prefix, a round that emits fewer being completed by the target.

    Attributes
    ----------
    emitted, target : dict of tuple of int to Fraction
        Probability of each text of K + 1 tokens: as emitted, and under the target alone.
    bound : float
        The total variation that rounding explains, for this package's functions.
    calls, unexplained : int
        As in :class:`PositionLaw`.
    """

    emitted: dict[tuple[int, ...], Fraction]
    target: dict[tuple[int, ...], Fraction]
    bound: float
    calls: int
    unexplained: int

    @property
    def total_variation(self) -> float:
        """Distance of the two joint laws; computed exactly, rounded once."""
        nothing = Fraction(0)
        texts = self.emitted.keys() | self.target.keys()
        return float(sum(abs(self.emitted.get(one, nothing) - self.target.get(one, nothing)) for one in texts) / 2)


def position_law(
    verifier: Verifier,
    target_row: Any,
    draft_row: Any,
    *,
    token: int | None = None,
    spot_checks: int | None = None,
    seed: int = 0,
) -> PositionLaw:
    """Find the law of the token that a verifier emits at one position, over all drafted tokens.

    Parameters
    ----------
    verifier : callable
        ``(target, draft, tokens, uniforms) -> (n_accepted, next_token)``, called with arrays: target [2, V] and draft
        [1, V] float32, tokens [1] int64, uniforms [2] float64. The array of uniforms is changed between calls.
    target_row : array_like, shape [V], float32
        The law to emit, up to a positive factor.
    draft_row : array_like, shape [V], float32, or None
        The law that the token is drawn from, up to a positive factor. None: the token is certain, `token` says which,
        and the verifier gets None as well.
    token : int, optional
        The drafted token, when `draft_row` is None. With both None there is no draft: K = 0, one draw.
    spot_checks : int, optional
        When the draw after one rejected token is known, check so many of its steps after each other rejected token,
        instead of all. This makes V in the thousands feasible.
    seed : int
        Of the random probes and checks.

    Returns
    -------
    PositionLaw
        With its total variation from the target row.

    Raises
    ------
    ValueError
        Both a draft row and a token are given; or whatever the verifier raises.

    Notes
    -----
    About 2 calls for each pair of a rejected and a redrawn token, at most V**2 / 2 of them, and up to 62 for a step
    whose place the formula does not guess.

    Examples
    --------
    >>> import specverify
    >>> law = position_law(specverify.verify_sampled, [0.5, 0.25, 0.25, 0.0], [0.25, 0.5, 0.0, 0.25])
    >>> law.probabilities[0], law.total_variation, law.unexplained
    (Fraction(1, 2), 0.0, 0)
    """
    if draft_row is not None and token is not None:
        raise ValueError("token: expected None beside a draft row, since every token is drawn from that")
    target = np.asarray(target_row, np.float32)
    vocab = len(target)
    draft = None if draft_row is None else np.asarray(draft_row, np.float32)
    k = 0 if draft is None and token is None else 1
    rng = np.random.default_rng(seed)
    prober = _Prober(verifier, np.stack([target] * (k + 1)), None if draft is None else draft[np.newaxis], k)
    proposal = whole_row(draft) if draft is not None else [int(x == token) for x in range(vocab)]
    accepted, accepted_53 = [0] * vocab, [0] * vocab
    redrawn: dict[Steps, list[int]] = defaultdict(lambda: [0, 0])
    rate = 0.0

    if k == 0:
        steps = prober.draw(_guessed_steps(target, None, None))
        redrawn[steps] = [_WHOLE, _WHOLE]
        total = 1
        prober.probe(rng, _PROBES, {0: ([], [steps])})
    else:
        total = sum(proposal)
        known: Steps | None = None
        plans: dict[int, tuple[list[int], list[Steps]]] = {}
        guesses = _guessed_thresholds(target, draft, token)
        for x in range(vocab):
            if not proposal[x]:
                continue
            prober.tokens[0] = x
            threshold = prober.threshold(0, guesses[x])
            kept, kept_53 = _measure(threshold), _measure_53(threshold)
            accepted[x], accepted_53[x] = proposal[x] * kept, proposal[x] * kept_53
            plans[x] = [threshold], []
            if threshold == _ONE:
                continue
            prober.keys[0] = _ONE - 1
            if known is None or spot_checks is None or not prober.agrees(known, spot_checks, rng):
                known = prober.draw(known or _guessed_steps(target, draft, token))
            plans[x][1].append(known)
            redrawn[known][0] += proposal[x] * (_WHOLE - kept)
            redrawn[known][1] += proposal[x] * (_WHOLE - kept_53)
        rate = sum(accepted) / (total * _WHOLE)
        prober.probe(rng, _PROBES, plans)

    laws = []
    for which, (kept_mass, measure) in enumerate(((accepted, _measure), (accepted_53, _measure_53))):
        emitted = [mass * _WHOLE for mass in kept_mass]
        for steps, masses in redrawn.items():
            for one, length in _lengths(steps, measure):
                emitted[one] += masses[which] * length
        laws.append(tuple(emitted))
    return PositionLaw(
        emitted=laws[0],
        emitted_53=laws[1],
        whole=total * _WHOLE * _WHOLE,
        target=tuple(whole_row(target)),
        bound=rounding_bound(vocab, min(rate, 1.0)),
        calls=prober.calls,
        unexplained=prober.unexplained,
    )


def round_law(
    verifier: Verifier,
    target: Model,
    draft: Model | None,
    k: int,
    prefix: Sequence[int] = (),
    *,
    tokens: Sequence[int] | None = None,
    scan: str = FORWARD,
    seed: int = 0,
) -> RoundLaw:
    """Find the joint law of the K + 1 tokens that a round emits, over all drafts. For small V and K.

    Parameters
    ----------
    verifier : callable
        As in :func:`position_law`, called with K + 1 target rows.
    target : Model
        The law to emit; its rows may depend on the whole text.
    draft : Model or None
        What the tokens are drawn from. None: they are certain, and `tokens` says which.
    k : int
        Drafted tokens.
    prefix : sequence of int
        The text before the round.
    tokens : sequence of int, optional
        The drafted tokens, when `draft` is None.
    scan : {"forward", "backward"}
        What the uniforms decide. Forward, the token rule: the first position whose uniform is not below its threshold
        is rejected. Backward, the block rule: the last position whose uniform is below its threshold is accepted, and
        all before it are.
    seed : int
        Of the random probes.

    Returns
    -------
    RoundLaw
        Accepted prefix, residual and bonus token together, completed by the target to K + 1 tokens.

    Raises
    ------
    ValueError
        There is no such `scan`; or whatever the verifier raises.

    Notes
    -----
    V**K drafts, and for each up to K (K + 1) V / 2 steps.

    Examples
    --------
    >>> import specverify
    >>> from specverify.simulate import MarkovModel
    >>> target = MarkovModel([[0.375, 0.625], [0.25, 0.75]])
    >>> draft = MarkovModel([[0.75, 0.25], [0.5, 0.5]])
    >>> law = round_law(specverify.verify_sampled, target, draft, k=2)
    >>> law.emitted[1, 0, 1], law.target[1, 0, 1], law.total_variation
    (Fraction(25, 256), Fraction(25, 256), 0.0)
    """
    if scan not in (FORWARD, BACKWARD):
        raise ValueError(f"scan: expected {FORWARD!r} or {BACKWARD!r}, got {scan!r}")
    emitted: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    rng = np.random.default_rng(seed)
    calls = unexplained = vocab = 0
    own = dict(_texts(target, tuple(prefix), k + 1))
    drafts = [(tuple(tokens or ()), Fraction(1))] if draft is None else _texts(draft, tuple(prefix), k)
    for drafted, chance in drafts:
        paths = [(*prefix, *drafted[:i]) for i in range(k + 1)]
        target_rows = np.array([target.next_dist(path) for path in paths], np.float32)
        draft_rows = None if draft is None else np.array([draft.next_dist(path) for path in paths[:k]], np.float32)
        vocab = target_rows.shape[1]
        prober = _Prober(verifier, target_rows, draft_rows, k)
        prober.tokens[:] = drafted
        thresholds: list[int] = []
        draws: list[Steps] = []
        for i in range(k):
            draft_row = None if draft_rows is None else draft_rows[i]
            guess = _guessed_thresholds(target_rows[i], draft_row, drafted[i])[drafted[i]]
            thresholds.append(prober.threshold(i, guess, scan))
        shares = [Fraction(_measure(threshold), _WHOLE) for threshold in thresholds]
        for n in range(k + 1):
            ends = _chance_of_length(shares, n, scan)
            draws.append(())
            if ends:
                prober.end_at(n, scan)
                draft_row = None if draft_rows is None or n == k else draft_rows[n]
                draws[n] = prober.draw(_guessed_steps(target_rows[n], draft_row, drafted[n] if n < k else None))
                _add(emitted, chance * ends, draws[n], drafted[:n], target, tuple(prefix), k)
        prober.probe(rng, _PROBES, {None: (thresholds, draws)}, scan)
        calls += prober.calls
        unexplained += prober.unexplained
    # Positions add up, each reached with probability 1 at most; `rounding_bound` is largest at one end or the other.
    bound = (k + 1) * max(rounding_bound(vocab, 0.0), rounding_bound(vocab, 1.0))
    return RoundLaw(dict(emitted), own, bound, calls, unexplained)


class _Prober:
    """A verifier at fixed rows, its uniforms moved one by one."""

    def __init__(self, verifier: Verifier, target: NDArray[Any], draft: NDArray[Any] | None, k: int) -> None:
        self.tokens = np.zeros(k, np.int64)
        self.calls = 0
        self.unexplained = 0
        self._verifier, self._target, self._draft = verifier, target, draft
        self._uniforms = np.zeros(k + 1)
        self.keys = self._uniforms.view(np.int64)
        self._k = k

    def _call(self) -> tuple[int, int]:
        self.calls += 1
        return self._verifier(self._target, self._draft, self.tokens, self._uniforms)

    def end_at(self, n_accepted: int, scan: str) -> None:
        """Set the uniforms so that so many tokens are accepted, as far as uniforms can."""
        if scan == FORWARD:
            self.keys[:] = 0
            if n_accepted < self._k:
                self.keys[n_accepted] = _ONE - 1
        else:
            self.keys[: self._k] = _ONE - 1
            if n_accepted:
                self.keys[n_accepted - 1] = 0

    def threshold(self, position: int, guess: int, scan: str = FORWARD) -> int:
        """Find the first key of uniforms[position] that rejects, where the scan comes to this position."""
        keys = self.keys
        self.end_at(position + 1 if scan == BACKWARD else self._k, scan)
        keys[self._k] = 0

        def rejects(key: int) -> bool:
            keys[position] = key
            return self._call()[0] <= position

        if not rejects(_ONE - 1):
            return _ONE
        if rejects(0):
            return 0
        return _edge(rejects, 0, _ONE - 1, guess)

    def draw(self, guess: Steps) -> Steps:
        """Find the interval of each token in the last uniform, the others being as they are."""
        keys, last = self.keys, self._k
        guesses = dict(guess)
        behind = token = 0

        def differs(key: int) -> bool:
            nonlocal behind
            keys[last] = key
            got = self._call()[1]
            if got == token:
                return False
            behind = got  # an edge is approached from above by the keys that differ, so the last one to differ is it
            return True

        keys[last] = _ONE - 1
        final = self._call()[1]
        keys[last] = 0
        token = self._call()[1]
        steps: list[tuple[int, int]] = []
        start = 0
        while token != final and len(steps) < self._target.shape[1]:
            behind = final
            start = _edge(differs, start, _ONE - 1, guesses.get(token, 0))
            steps.append((token, start))
            token = behind
        if token != final:
            self.unexplained += 1  # more intervals than tokens
        keys[last] = 0
        return (*steps, (final, _ONE))

    def agrees(self, steps: Steps, n_checks: int, rng: np.random.Generator) -> bool:
        """Whether some of these steps, drawn at random, are steps at the present tokens as well."""
        for i in rng.integers(len(steps), size=n_checks).tolist():
            token, end = steps[i]
            self.keys[self._k] = end - 1
            if self._call()[1] != token:
                return False
            if i + 1 < len(steps):
                self.keys[self._k] = end
                if self._call()[1] != steps[i + 1][0]:
                    return False
        return True

    def probe(
        self, rng: np.random.Generator, n: int, plans: dict[Any, tuple[list[int], list[Steps]]], scan: str = FORWARD
    ) -> None:
        """Compare random calls with what thresholds and draws predict. A plan's key is the only token, or None."""
        choices = list(plans)
        chosen = rng.integers(len(choices), size=n).tolist()
        places = rng.integers(max(self._k, 1), size=n).tolist()
        points = rng.random((n, self._k + 1))
        for number in range(n):
            choice = choices[chosen[number]]
            thresholds, draws = plans[choice]
            if choice is not None and self._k:
                self.tokens[0] = choice
            self._uniforms[:] = points[number]
            if number % 2 and places[number] < len(thresholds):
                # Every other probe goes to a rejection, however rare.
                edge = _measure(thresholds[places[number]]) / _WHOLE
                inside = edge + points[number, places[number]] * (1.0 - edge)
                self._uniforms[places[number]] = min(inside, 1.0 - 2.0**-53)
            keys = self.keys.tolist()
            passed = [key < edge for key, edge in zip(keys, thresholds, strict=False)]  # there is one key more
            if scan == FORWARD:
                n_accepted = [*passed, False].index(False)
            else:
                n_accepted = len(passed) - [*reversed(passed), True].index(True)
            got = self._call()
            if got[0] != n_accepted:
                self.unexplained += 1
            elif n_accepted < len(draws):
                token = next(one for one, end in draws[n_accepted] if keys[-1] < end)
                self.unexplained += got[1] != token


def _edge(changed: Callable[[int], bool], low: int, high: int, guess: int) -> int:
    """Give the smallest key at which `changed`, which is false at `low`, true at `high` and monotone in between."""
    if low < guess < high:
        stride = 1
        if changed(guess):
            high = guess
            while high - stride > low:
                if not changed(high - stride):
                    low = high - stride
                    break
                high -= stride
                stride *= _GALLOP
        else:
            low = guess
            while low + stride < high:
                if changed(low + stride):
                    high = low + stride
                    break
                low += stride
                stride *= _GALLOP
    while high - low > 1:
        middle = (low + high) // 2
        if changed(middle):
            high = middle
        else:
            low = middle
    return high


def _guessed_thresholds(target: NDArray[Any], draft: NDArray[Any] | None, token: int | None) -> list[int]:
    p = target.astype(np.float64)
    q = np.zeros(len(p)) if draft is None else draft.astype(np.float64)
    if draft is None and token is not None:
        q[token] = 1.0
    ratio = np.divide(p * q.sum(), q * p.sum(), out=np.ones(len(p)), where=q > 0)
    guesses: list[int] = np.minimum(ratio, 1.0).view(np.int64).tolist()
    return guesses


def _guessed_steps(target: NDArray[Any], draft: NDArray[Any] | None, token: int | None) -> Steps:
    weights = target.astype(np.float64)
    if draft is not None:
        q = draft.astype(np.float64)
        weights = np.maximum(weights - q * (weights.sum() / q.sum()), 0.0)
    elif token is not None:
        weights[token] = 0.0
    total = weights.sum()
    if not total > 0.0:
        return ()
    ends = np.minimum(weights.cumsum() / total, 1.0).view(np.int64)
    return tuple((int(x), int(ends[x])) for x in np.flatnonzero(weights))


def _measure(key: int) -> int:
    """Measure, in units of 2**-1074, of the numbers in [0, 1) that round down to a float64 below this one."""
    exponent, mantissa = key >> 52, key & (1 << 52) - 1
    return mantissa if exponent == 0 else (mantissa | 1 << 52) << exponent - 1


def _measure_53(key: int) -> int:
    """The same share of the numbers k / 2**53."""
    below = _UNIT - 53
    return -(-_measure(key) >> below) << below


def _lengths(steps: Steps, measure: Callable[[int], int]) -> Iterator[tuple[int, int]]:
    start = 0
    for token, end in steps:
        stop = measure(end)
        yield token, stop - start
        start = stop


def whole_row(row: Any) -> list[int]:
    """Give a float32 row in whole numbers, in units of the smallest subnormal, 2**-149."""
    patterns: list[int] = np.asarray(row, np.float32).view(np.uint32).tolist()
    return [bits & 0x7FFFFF if bits < 1 << 23 else (bits & 0x7FFFFF | 1 << 23) << (bits >> 23) - 1 for bits in patterns]


def _fractions(row: Any) -> list[Fraction]:
    weights = whole_row(row)
    total = sum(weights)
    return [Fraction(weight, total) for weight in weights]


def _texts(model: Model, prefix: tuple[int, ...], length: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Every continuation of this length that the model can produce, with its probability."""
    if not length:
        yield (), Fraction(1)
        return
    for token, chance in enumerate(_fractions(model.next_dist(prefix))):
        if chance:
            for rest, rest_chance in _texts(model, (*prefix, token), length - 1):
                yield (token, *rest), chance * rest_chance


def _chance_of_length(shares: Sequence[Fraction], n_accepted: int, scan: str) -> Fraction:
    """Chance of an accepted length, from the chances of the positions to pass their own tests."""
    if scan == FORWARD:
        tests = [*shares[:n_accepted], *(1 - share for share in shares[n_accepted : n_accepted + 1])]
    else:
        tests = [*shares[max(n_accepted - 1, 0) : n_accepted], *(1 - share for share in shares[n_accepted:])]
    return math.prod(tests, start=Fraction(1))


def _add(
    law: dict[tuple[int, ...], Fraction],
    chance: Fraction,
    steps: Steps,
    accepted: tuple[int, ...],
    target: Model,
    prefix: tuple[int, ...],
    k: int,
) -> None:
    """Add what one way to end a round contributes: accepted tokens, a drawn one, and the target's own after them."""
    for token, length in _lengths(steps, _measure):
        if length:
            text = (*accepted, token)
            share = chance * Fraction(length, _WHOLE)
            for rest, rest_chance in _texts(target, (*prefix, *text), k + 1 - len(text)):
                law[text + rest] += share * rest_chance
