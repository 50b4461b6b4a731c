"""How many tokens to draft in the next round: always the same number, or the one that has paid.

Holds the protocol that the draft/verify loop asks, and what fulfils it. The cost model behind it, for whole texts:
cost/; its running estimates: _running.py; the loop: decoder.py.
"""

import math
from itertools import accumulate
from numbers import Real
from typing import Protocol

from . import _inputs
from ._running import Chain, KnownTimes, LearnedTimes
from .cost import Acceptance, StepTimes
from .generation import Round

__all__ = ["AdaptiveDraftLength", "DraftLength", "FixedDraftLength", "NotedDraftLength"]

# Constants of the adaptive length, chosen by hand; what they must achieve is in tests/test_draft_length.py, over tables
# of measured costs. Rounds are rounds with a draft.
_FIRST_RATE, _RATE_WEIGHT = 0.7, 1.5  # acceptance before anything is known, and how many rounds that weighs
_PROPOSAL_WEIGHT = 0.5  # rounds that "a draft proposes what it is asked for" weighs
_SURE_ROUNDS, _SURE_GAIN = 4.0, 2.0  # after so many rounds acceptance is trusted, if the gain is so often the cost
_FIRST_PAUSE, _LONGEST_PAUSE = 4, 256  # plain rounds between trials
_IDLE_ROUNDS = 64.0  # plain rounds that make a trial as hopeful as one more accepted token would
_LEAST_GAIN = 0.01  # of a plain step: less is noise


class DraftLength(Protocol):
    """Decides the draft length from round to round.

    To leave the law of a text alone, a choice may depend on the past text, past rounds and past times; never on a token
    that was drawn in the round it is for.
    """

    def begin(self) -> None:
        """Learn that a new text begins."""

    def choose(self, limit: int, /) -> int:
        """Give the tokens to draft in the next round, 0 to `limit`: how many fit into the text before the last one."""

    def observe(self, done: Round, requested: int, /) -> None:
        """Learn from a round for which `requested` tokens were asked of the draft, which may have proposed fewer."""


class FixedDraftLength:
    """The same draft length in every round.

    Parameters
    ----------
    k : int
        Tokens to draft; 0 is plain decoding.

    Raises
    ------
    TypeError
        `k` is no integer.
    ValueError
        `k` is negative.

    Examples
    --------
    >>> length = FixedDraftLength(4)
    >>> length.choose(100), length.choose(2)
    (4, 2)
    """

    def __init__(self, k: int) -> None:
        self.k = _inputs.as_count(k, "k")

    def begin(self) -> None:
        """Do nothing: no text differs from another."""

    def choose(self, limit: int, /) -> int:
        """Give k, or `limit` where less fits."""
        return min(self.k, limit)

    def observe(self, done: Round, requested: int, /) -> None:
        """Do nothing."""


class NotedDraftLength:
    """A draft length, and a note of how many tokens it asked for in each round.

    Rounds say what was drafted; how often a draft proposes less than it is asked for takes both.

    Parameters
    ----------
    length : DraftLength
        What decides.

    Attributes
    ----------
    requested : list of int
        One number for each round of the last text.
    """

    def __init__(self, length: DraftLength) -> None:
        self.length = length
        self.requested: list[int] = []

    def begin(self) -> None:
        """Begin a text."""
        self.requested.clear()
        self.length.begin()

    def choose(self, limit: int, /) -> int:
        """Ask the length."""
        return self.length.choose(limit)

    def observe(self, done: Round, requested: int, /) -> None:
        """Note what was asked for, and tell the length."""
        self.requested.append(requested)
        self.length.observe(done, requested)


class AdaptiveDraftLength:
    """The draft length that is predicted to be fastest, 0 included, learned while the text is written.

    Parameters
    ----------
    max_k : int
        The longest draft. With `times`, at most as long as they reach.
    times : StepTimes, optional
        Known durations. Without it they are learned from the rounds.
    prior : Acceptance, optional
        What is thought of the acceptance before the first round; it weighs as much as its counts, up to 8 rounds, and 4
        if it was assumed.
    draft_cost : float, optional
        Until measured: the time of drafting one token as a fraction of a plain step's, and of reading the prompt as a
        fraction of the target's reading. 0 for a lookup; for models about the ratio of their sizes. Default: the draft
        is taken to be cheap, and the cost of its very first call is not bounded. Not with `times`.
    max_loss : float
        Share of the time of plain decoding that a text may lose if nothing is accepted.
    shortest : int
        Texts shorter than this, in tokens, may lose as many seconds as one of this length: at 16 tokens four times the
        share, with the default.

    Attributes
    ----------
    debt : float
        Seconds that drafting has lost in this text; negative when it has won.

    Raises
    ------
    TypeError
        `max_k`, `shortest` or `draft_cost` is no number, `times` no StepTimes or `prior` no Acceptance.
    ValueError
        A negative `max_k`, `draft_cost` or `shortest`, `max_loss` outside [0, 1], `times` with a gap, or both `times`
        and `draft_cost`.

    Notes
    -----
    **Prediction.** The model of :func:`specverify.cost.predict`, with running estimates: the acceptance of each
    position and the lengths that the draft proposes, both forgetting exponentially; and medians of the last times of
    passes over 1, 2, ... tokens, of draft calls, and of the extra time of a pass that follows one of another length.
    The first pass of a text, which reads the prompt, is not counted. A pass over more tokens than any before is taken
    to go on with half the slope seen so far. What was learned is kept from one text to the next.

    **Budget.** Every round with a draft is entered in an account: its duration, less what plain decoding takes for the
    tokens that came out; and so is the extra time of a plain step that follows it. A draft is asked for only if the
    account would stay within ``max_loss`` of the time so far (or of `shortest` tokens) even if none of it were
    accepted. Only what is read before a text's first draft may exceed it, when past rounds make it likely to pay within
    `shortest` tokens. So a text loses at most `max_loss`, as far as times can be foreseen, and what was won may be
    spent.

    **Exploration.** Where no length is predicted to win, one that could win if things went well is tried after a pause;
    pauses double while this fails, and start anew when a round has won. If not even full acceptance could win, nothing
    is tried. A draft that proposes nothing is no trial. What pays only when it is long, as a model draft of a third of
    the target's time does, may be too dear to be tried: 2 % of 64 tokens are 1.28 plain steps. Where texts are longer,
    say so by `shortest`.

    **Law.** A choice depends on past rounds only, never on a token drawn in the round it is for, so the law of the text
    is untouched. With `times` it depends on counts only, and a seed gives the same text each time, if this object is in
    the same state; without, it depends on the clock, and only the law is the same.

    One object serves one text at a time.

    References
    ----------
    Leviathan et al., arXiv:2211.17192, section 3.5, for the choice of the length from acceptance and cost.

    Examples
    --------
    A pass over two tokens costs five times as much as one over one: nothing is ever drafted.

    >>> from specverify.cost import StepTimes
    >>> length = AdaptiveDraftLength(max_k=1, times=StepTimes(target=((1, 0.006), (2, 0.030))))
    >>> length.begin()
    >>> length.choose(100)
    0
    """

    def __init__(
        self,
        max_k: int = 8,
        times: StepTimes | None = None,
        *,
        prior: Acceptance | None = None,
        draft_cost: float | None = None,
        max_loss: float = 0.02,
        shortest: int = 64,
    ) -> None:
        max_k = _inputs.as_count(max_k, "max_k")
        if not (times is None or isinstance(times, StepTimes)):
            raise TypeError(f"times: expected StepTimes, got {type(times).__name__}")
        if not (draft_cost is None or isinstance(draft_cost, Real)):
            raise TypeError(f"draft_cost: expected a number, got {type(draft_cost).__name__}")
        if not (prior is None or isinstance(prior, Acceptance)):
            raise TypeError(f"prior: expected Acceptance, got {type(prior).__name__}")
        if times is not None and draft_cost is not None:
            raise ValueError(f"draft_cost: expected None beside times, which say what a draft takes, got {draft_cost}")
        if draft_cost is not None and not 0.0 <= draft_cost < math.inf:
            raise ValueError(f"draft_cost: expected a ratio of at least 0, got {draft_cost}")
        if not 0.0 <= max_loss <= 1.0:
            raise ValueError(f"max_loss: expected a share from 0 to 1, got {max_loss}")
        shortest = _inputs.as_count(shortest, "shortest")
        self.max_k = max_k if times is None else min(max_k, times.max_k)
        self.debt = 0.0
        self._times: KnownTimes | LearnedTimes = (
            LearnedTimes(self.max_k, draft_cost) if times is None else KnownTimes(times, self.max_k)
        )
        self._max_loss = max_loss
        self._shortest = shortest
        self._accepted = Chain(self.max_k, first_guess=_FIRST_RATE, weight=_RATE_WEIGHT)
        # What proposes one token proposes the next one, too, until something else is seen.
        self._proposed = Chain(self.max_k, first_guess=1.0, weight=_PROPOSAL_WEIGHT, alike=False)
        if prior is not None:
            self._accepted.assume(prior)
        self._pause = _FIRST_PAUSE
        self._wait = 0
        self._idle = 0
        self._reset()

    def _reset(self) -> None:
        self.debt = 0.0
        self._tokens = 0
        self._rounds = 0
        self._unread = 0
        self._all_accepted = False
        self._draft_began = False
        self._exploring = False
        self._excused = 0.0

    def begin(self) -> None:
        """Begin a text: an empty account; what was learned is kept, but new rounds count for more."""
        self._reset()
        self._times.begin()
        self._accepted.carry_over()
        self._proposed.carry_over()
        self._pause = max(_FIRST_PAUSE, self._pause // 2)
        self._wait = min(self._wait, self._pause)

    def choose(self, limit: int, /) -> int:
        """Give the length that is predicted to be fastest, or one to be tried; at most `limit`."""
        self._exploring, self._excused = False, 0.0
        most = min(limit, self.max_k, self._times.longest)
        plain = self._times.plain
        if most < 1 or plain is None or self._wait or self._times.is_stale:
            return 0
        start = 0.0 if self._draft_began else self._times.start
        if start is None:
            return 0
        late = start + self._unread * self._times.read
        room = self._max_loss * plain * max(self._shortest, self._tokens) - self.debt
        # What was read must pay in the tokens that are sure to come, as far as any are.
        horizon = min(max(self._shortest, 1), limit + 1)
        affordable = self._affordable(most, plain, room, late, horizon)
        for hope in (0.0, 1.0 + self._idle / _IDLE_ROUNDS):
            k, gain = self._best(affordable, plain, hope=hope)
            if k and gain * horizon > late:
                self._exploring = hope > 0.0
                return k
        return 0

    def observe(self, done: Round, requested: int, /) -> None:
        """Learn from a round."""
        tokens, n = len(done.tokens), done.n_drafted
        first = self._rounds == 0
        self._rounds += 1
        self._tokens += tokens
        lost = self._times.observe(
            done, requested, self._unread, first=first, began=self._draft_began, late=self._all_accepted
        )
        self.debt += lost - (self._excused if requested else 0.0)
        won = n > 0 and lost < 0.0
        if won:
            self._pause = _FIRST_PAUSE
        if requested:
            self._draft_began = True
            self._unread = 0
            self._all_accepted = 0 < n == done.n_accepted
            self._proposed.observe(requested, n)
        else:
            self._unread += tokens
            self._wait = max(0, self._wait - 1)
            self._idle += 1
        if n:
            self._accepted.observe(n, done.n_accepted)
            self._idle = 0
            if self._exploring and not (won or self._all_accepted):
                self._wait, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        self._exploring = False

    def _affordable(self, most: int, plain: float, room: float, late: float, horizon: int) -> int:
        """Give the longest draft that the account can bear if none of it is accepted.

        `late` is what the draft has to read before: within the account, or else if it is likely to pay within `horizon`
        tokens.
        """
        if late <= room:
            room -= late
        elif (
            not self._draft_began  # once a text, or each pause would be excused when it ends
            and self._accepted.rounds >= _SURE_ROUNDS
            and self._best(most, plain)[1] * horizon > _SURE_GAIN * late
        ):
            self._excused = late
        else:
            return 0
        worst = self._times.worst
        if min(self._proposed.rates(most)) < 1.0:
            # It may also propose less, and a shorter pass may take longer.
            losses = accumulate((worst(n) - plain for n in range(1, most + 1)), max)
            return sum(loss <= room for loss in losses)
        while most and worst(most) - plain > room:
            most -= 1
        return most

    def _best(self, most: int, plain: float, *, hope: float = 0.0) -> tuple[int, float]:
        """Give the fastest length up to `most` and the time it gains for each token, or 0 if none gains.

        The sums of cost.predict, taken up from one length to the next; tests compare the two.
        """
        cost = self._times.hoped if hope else self._times.expected
        extra, switch = self._times.extra_catch_up, self._times.switch
        accepted = self._accepted.rates(most, hope)
        proposed = self._proposed.rates(most)
        tokens = there = passed = both = 1.0
        shorter = shorter_all = shorter_same = 0.0
        before = cost(0)
        none = 0.0
        best, most_gain = 0, 0.0
        for k in range(1, most + 1):
            stop = there * (1.0 - proposed[k - 1])
            shorter += stop * before
            shorter_same += stop * stop
            if k == 1:
                none = stop
            else:
                shorter_all += stop * passed
            there *= proposed[k - 1]
            passed *= accepted[k - 1]
            both *= proposed[k - 1] * accepted[k - 1]
            tokens += both
            before = cost(k)
            seconds = shorter + there * before + (shorter_all + there * passed) * (1.0 - none) * extra
            seconds += (1.0 - shorter_same - there * there) * switch
            gain = plain - seconds / tokens
            if gain > most_gain and gain > _LEAST_GAIN * plain * (1.0 - none):
                best, most_gain = k, gain
        return best, most_gain
