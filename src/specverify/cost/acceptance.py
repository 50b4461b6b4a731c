"""How many drafted tokens are proposed and accepted, position by position. Holds no times."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How many drafted tokens are accepted, position by position.

    Attributes
    ----------
    rates : tuple of float
        ``rates[i - 1]``: probability that drafted token i is accepted when it exists and those before it were.
    tested : tuple of float
        Rounds behind each rate; 0 for a rate that was assumed or follows from one of 0.

    Raises
    ------
    ValueError
        A rate outside [0, 1]; as many counts as rates are needed, none negative.

    Notes
    -----
    P(accepted >= k) is the product of the first k rates. Nothing is taken to be equal across positions.
    """

    rates: tuple[float, ...]
    tested: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_rates("rates", self.rates)
        _check_counts(self.tested, len(self.rates))

    @classmethod
    def from_rounds(cls, drafted: Iterable[int], accepted: Iterable[int]) -> "Acceptance":
        """Estimate from rounds, which may have drafted different numbers of tokens.

        Parameters
        ----------
        drafted, accepted : iterable of int
            Drafted and accepted tokens of each round, as in :class:`specverify.generation.Report`.

        Returns
        -------
        Acceptance
            As far as the rounds tell: up to the longest draft, or to the last position that was ever tested.

        Raises
        ------
        ValueError
            The two differ in length, or a round accepted fewer than 0 or more than it drafted.

        Notes
        -----
        The rate of position i is taken over the rounds that drafted at least i tokens and accepted the i - 1 before. So
        a short draft that was accepted as a whole is not held against longer ones: it is censored, not rejected. The
        product of such rates is the estimator of Kaplan and Meier; it is right if how many tokens are drafted tells
        nothing about how many of them pass. Where it does, as in lookups, see :meth:`by_length`.

        References
        ----------
        Kaplan and Meier, Nonparametric estimation from incomplete observations, JASA 53, 1958.

        Examples
        --------
        >>> three = Acceptance.from_rounds(drafted=[4, 4, 4], accepted=[1, 0, 4])
        >>> [round(three.at_least(k), 3) for k in range(5)]
        [1.0, 0.667, 0.333, 0.333, 0.333]
        >>> three.tested
        (3.0, 2.0, 1.0, 1.0)
        """
        pairs = _pairs("drafted", drafted, "accepted", accepted)
        return cls(*_chain(pairs))

    @classmethod
    def by_length(cls, drafted: Iterable[int], accepted: Iterable[int]) -> dict[int, "Acceptance"]:
        """Estimate apart for each number of drafted tokens; arguments and errors as of :meth:`from_rounds`."""
        groups: dict[int, list[tuple[int, int]]] = {}
        for pair in _pairs("drafted", drafted, "accepted", accepted):
            groups.setdefault(pair[0], []).append(pair)
        return {n: cls(*_chain(pairs)) for n, pairs in sorted(groups.items())}

    @classmethod
    def from_rate(cls, alpha: float, max_k: int) -> "Acceptance":
        """Assume one acceptance rate at all of `max_k` positions."""
        return cls((float(alpha),) * max_k, (0.0,) * max_k)

    @classmethod
    def from_at_least(cls, shares: Sequence[float]) -> "Acceptance":
        """Take P(accepted >= 1), P(accepted >= 2), ... as given.

        Raises
        ------
        ValueError
            A share outside [0, 1] or above the one before it.
        """
        _check_rates("shares", shares)
        before = (1.0, *shares)
        for i, share in enumerate(shares):
            if share > before[i]:
                raise ValueError(f"shares[{i}]: expected at most shares[{i - 1}] = {before[i]}, got {share}")
        rates = tuple(share / earlier if earlier else 0.0 for earlier, share in pairwise(before))
        return cls(rates, (0.0,) * len(rates))

    @property
    def max_k(self) -> int:
        """The longest draft about which something is known."""
        return len(self.rates)

    def at_least(self, k: int) -> float:
        """P(accepted >= k) in rounds that draft at least k tokens.

        Raises
        ------
        ValueError
            Nothing is known of position k.
        """
        if not 0 <= k <= self.max_k:
            raise ValueError(f"k = {k}: expected at most {self.max_k}, the positions whose acceptance is known")
        return math.prod(self.rates[:k], start=1.0)

    def standard_error(self, k: int) -> float:
        """Standard error of :meth:`at_least`, by Greenwood's formula; NaN for a share of 0 or of assumed rates."""
        share = self.at_least(k)
        if share == 0.0 or not all(self.tested[:k]):
            return math.nan
        return share * math.sqrt(sum((1 - r) / (r * n) for r, n in zip(self.rates[:k], self.tested[:k], strict=True)))


@dataclass(frozen=True, slots=True)
class ProposedLengths:
    """How many tokens a draft proposes when it is asked for k: a lookup finds nothing in many rounds.

    Attributes
    ----------
    rates : tuple of float
        ``rates[i - 1]``: probability of an i-th token when at least i are asked for and i - 1 are there. As many as
        needed are taken to be 1 after the last: what finds that many tokens finds more.
    tested : tuple of float
        Rounds behind each rate; 0 for a rate that was assumed.

    Raises
    ------
    ValueError
        As :class:`Acceptance`.
    """

    rates: tuple[float, ...] = ()
    tested: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check_rates("rates", self.rates)
        _check_counts(self.tested, len(self.rates))

    @classmethod
    def from_rounds(cls, requested: Iterable[int], drafted: Iterable[int]) -> "ProposedLengths":
        """Estimate from what was asked for and what came; the same estimator as :meth:`Acceptance.from_rounds`.

        Examples
        --------
        >>> ProposedLengths.from_rounds(requested=[4, 4, 2, 4], drafted=[0, 4, 2, 0]).shares(4)
        (0.5, 0.0, 0.0, 0.0, 0.5)
        """
        return cls(*_chain(_pairs("requested", requested, "drafted", drafted)))

    def at_least(self, n: int) -> float:
        """P(proposed >= n) when at least n tokens are asked for."""
        return math.prod(self.rates[:n], start=1.0)

    def shares(self, k: int) -> tuple[float, ...]:
        """Shares of rounds that propose 0, 1, ..., k tokens when k are asked for."""
        reached = [self.at_least(n) for n in range(k + 1)]
        return (*(more - less for more, less in pairwise(reached)), reached[-1])


def _chain(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Estimate the rate of each step of a chain from (longest possible, reached), and count the rounds behind it."""
    rates: list[float] = []
    tested: list[float] = []
    for i in range(1, max((possible for possible, _ in pairs), default=0) + 1):
        trials = sum(possible >= i and reached >= i - 1 for possible, reached in pairs)
        if not trials:
            # Past a step that nothing passes all is known to be 0; past one that nothing reached, nothing is known.
            if rates and 0.0 in rates:
                rates.append(0.0)
                tested.append(0.0)
                continue
            break
        rates.append(sum(reached >= i for _, reached in pairs) / trials)
        tested.append(float(trials))
    return tuple(rates), tuple(tested)


def _pairs(more: str, upper: Iterable[int], less: str, lower: Iterable[int]) -> list[tuple[int, int]]:
    first, second = list(upper), list(lower)
    if len(first) != len(second):
        raise ValueError(f"{more}, {less}: expected one of each a round, got {len(first)} and {len(second)}")
    for i, (most, got) in enumerate(zip(first, second, strict=True)):
        if not 0 <= got <= most:
            raise ValueError(f"{less}[{i}]: expected 0 to {more}[{i}] = {most}, got {got}")
    return list(zip(first, second, strict=True))


def _check_rates(name: str, rates: Sequence[float]) -> None:
    for i, rate in enumerate(rates):
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"{name}[{i}]: expected a probability, got {rate}")


def _check_counts(tested: Sequence[float], expected: int) -> None:
    if len(tested) != expected:
        raise ValueError(f"tested: expected one count a rate, {expected}, got {len(tested)}")
    for i, count in enumerate(tested):
        if not 0.0 <= count < math.inf:
            raise ValueError(f"tested[{i}]: expected a count, got {count}")
