"""How long the parts of a round take. Holds no acceptance; who measures them is timing.py."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Between = Literal["refuse", "linear"]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Durations of the parts of a round, in seconds.

    Attributes
    ----------
    target : tuple of (n, seconds)
        A target pass over n = 1, 2, ... tokens that follows one over as many, each as measured, in rising order of n; n
        = 1 must be among them. A round that drafts n - 1 tokens has a pass over n.
    draft_token : float
        One draft step: reading one token and proposing the next.
    draft_fixed : float
        What a call of the draft takes whatever it proposes; all of a lookup.
    catch_up : float or None
        A draft step that reads two tokens, as the first one after a round in which all was accepted: the last drafted
        token and the bonus token. None: as long as a step that reads one.
    draft_start : float
        The draft's reading of the prompt, once a text. In no prediction of a round; a choice whether to begin drafting
        takes it into account.
    verify : tuple of (k, seconds)
        Verification, and the choice of the next token, in a round of k drafted tokens; linear between the measured k,
        constant beyond them, 0 if there are none. k = 0 belongs to plain decoding.
    between : {"refuse", "linear"}
        What an n between two measured ones takes: an error, or linear interpolation. Never anything beyond the last: a
        pass over more tokens can cost any amount.
    switch : float
        The extra time of a target pass that follows one over another number of tokens: a runtime that keeps the plan of
        its last pass has to make a new one.

    Raises
    ------
    ValueError
        A negative, infinite or NaN time, or 0 for one token of the target; `target` without n = 1; `target` or `verify`
        not in rising order; `catch_up` below `draft_token`; an unknown `between`.

    Examples
    --------
    >>> times = StepTimes(target=((1, 0.068), (2, 0.116), (5, 0.140)), draft_token=0.005, between="linear")
    >>> round(times.target_seconds(3), 3)
    0.124
    >>> times.draft_seconds(4)
    0.02
    """

    target: tuple[tuple[int, float], ...]
    draft_token: float = 0.0
    draft_fixed: float = 0.0
    catch_up: float | None = None
    draft_start: float = 0.0
    verify: tuple[tuple[int, float], ...] = ()
    between: Between = "refuse"
    switch: float = 0.0

    def __post_init__(self) -> None:
        if not self.target or self.target[0][0] != 1:
            raise ValueError(f"target: expected a time of a pass over 1 token first, got {self.target[:1]}")
        _check_table("target", self.target)
        _check_table("verify", self.verify)
        for name in ("draft_token", "draft_fixed", "catch_up", "draft_start", "switch"):
            _check_seconds(name, getattr(self, name) or 0.0)
        if self.target[0][1] == 0.0:
            raise ValueError("target: expected a positive time of a pass over 1 token, got 0")
        if self.catch_up is not None and self.catch_up < self.draft_token:
            raise ValueError(f"catch_up: expected at least draft_token = {self.draft_token}, got {self.catch_up}")
        if self.between not in ("refuse", "linear"):
            raise ValueError(f"between: expected 'refuse' or 'linear', got {self.between!r}")

    @property
    def max_k(self) -> int:
        """The longest draft whose target pass is known."""
        return self.target[-1][0] - 1

    @property
    def plain_seconds(self) -> float:
        """One token of plain decoding: a target pass over one token, and the choice of the next."""
        return self.target[0][1] + self.verify_seconds(0)

    @property
    def extra_catch_up(self) -> float:
        """What reading a second token adds to a draft step."""
        return 0.0 if self.catch_up is None else self.catch_up - self.draft_token

    def is_measured(self, n: int) -> bool:
        """Whether a target pass over n tokens was measured, not interpolated."""
        return any(known == n for known, _ in self.target)

    def target_seconds(self, n: int) -> float:
        """Duration of a target pass over n tokens.

        Raises
        ------
        ValueError
            `n` was not measured, and interpolation was not asked for or cannot help.
        """
        known = [size for size, _ in self.target]
        place = bisect_left(known, n)
        if place < len(known) and known[place] == n:
            return self.target[place][1]
        if self.between == "refuse" or not 0 < place < len(known):
            raise ValueError(f"n = {n}: expected a measured number of tokens in a target pass, one of {known}")
        return _between(self.target[place - 1], self.target[place], n)

    def draft_seconds(self, n: int) -> float:
        """Duration of a draft call that proposes n tokens, without a catch-up."""
        return self.draft_fixed + n * self.draft_token

    def verify_seconds(self, k: int) -> float:
        """Duration of the verification of k drafted tokens."""
        if not self.verify:
            return 0.0
        place = bisect_left(self.verify, (k, -math.inf))
        if place == len(self.verify) or self.verify[place][0] == k or place == 0:
            return self.verify[min(place, len(self.verify) - 1)][1]
        return _between(self.verify[place - 1], self.verify[place], k)


def _between(lower: tuple[int, float], upper: tuple[int, float], n: int) -> float:
    share = (n - lower[0]) / (upper[0] - lower[0])
    return lower[1] + share * (upper[1] - lower[1])


def _check_table(name: str, table: Sequence[tuple[int, float]]) -> None:
    for i, (n, seconds) in enumerate(table):
        _check_seconds(f"{name}[{i}]", seconds)
        if n < 0 or (i and n <= table[i - 1][0]):
            raise ValueError(f"{name}[{i}]: expected numbers of tokens in rising order, got {n}")


def _check_seconds(name: str, seconds: float) -> None:
    if not 0.0 <= seconds < math.inf:
        raise ValueError(f"{name}: expected a finite time of at least 0 s, got {seconds}")
