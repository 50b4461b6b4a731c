"""Running estimates of what decides a draft length: rates of acceptance and proposal, times of steps.

Holds no decision (draft_length.py) and no prediction (cost/).
"""

import math
from collections import deque

from .cost import Acceptance, StepTimes
from .generation import Round

_FORGET = 0.96  # a round counts for half after 17 more
_CARRIED_ROUNDS = 8.0  # what is known from earlier texts weighs as much as so many rounds
_ASSUMED_ROUNDS = 4.0  # an assumed prior
_PLAIN_ROUNDS = 2  # plain steps that are timed before anything is drafted
_REFRESH_TOKENS = 256  # a plain step is timed at least so often
_MEDIAN_OF = 9
_OUTLIER = 3.0  # times the expected duration: more is not the draft's fault
_SECOND_TOKEN = 0.8  # of a plain step, for the second token of a pass: .2 to 1.1 in docs/study.md
_LEAST_SLOPE = 0.25  # of a plain step, for a further token in the worst case
_DRAFT_GUESS = 0.2  # of a plain step, for drafting a token with a draft of which nothing is known
_NO_DRAFT = -1  # before the second pass of a text: that another length came first was no draft's doing
_FREE_START = 0.01  # of the target's reading of the prompt: less is a lookup's index


class Chain:
    """Rates of the steps of a chain, each counted over the rounds that reached it; forgets exponentially."""

    def __init__(self, length: int, first_guess: float, weight: float, *, alike: bool = True) -> None:
        self._tested = [0.0] * length
        self._passed = [0.0] * length
        self._first_guess = first_guess
        self._weight = weight
        self._alike = alike

    @property
    def rounds(self) -> float:
        """How many rounds the first rate rests on."""
        return self._tested[0] if self._tested else 0.0

    def assume(self, prior: Acceptance) -> None:
        """Begin with a law that somebody gave."""
        for i, (rate, tested) in enumerate(zip(prior.rates, prior.tested, strict=True)):
            if i < len(self._tested):
                self._tested[i] = min(tested, _CARRIED_ROUNDS) or _ASSUMED_ROUNDS
                self._passed[i] = rate * self._tested[i]

    def carry_over(self) -> None:
        """Let the rounds of a new text soon outweigh those of earlier ones."""
        if self.rounds > _CARRIED_ROUNDS:
            self._fade(_CARRIED_ROUNDS / self.rounds)

    def observe(self, possible: int, reached: int) -> None:
        """Count a round that could have gone `possible` steps and went `reached`."""
        self._fade(_FORGET)
        for i in range(min(possible, reached + 1, len(self._tested))):
            self._tested[i] += 1.0
            self._passed[i] += i < reached

    def rates(self, length: int, hope: float = 0.0) -> list[float]:
        """Estimate each rate. A position that was seldom reached is taken to be like the one before, if they are alike,
        else like the first guess.

        `hope` counts as so many further rounds that passed.
        """
        guess = self._first_guess
        found = []
        for i in range(length):
            guess = (self._passed[i] + self._weight * guess + hope) / (self._tested[i] + self._weight + hope)
            found.append(guess)
            if not self._alike:
                guess = self._first_guess
        return found

    def _fade(self, factor: float) -> None:
        self._tested = [factor * count for count in self._tested]
        self._passed = [factor * count for count in self._passed]


class KnownTimes:
    """Times that are known. Looks at no clock, so choices depend on counts alone."""

    is_stale = False

    def __init__(self, times: StepTimes, longest: int) -> None:
        self.longest = longest
        self.plain = times.plain_seconds
        self.extra_catch_up = times.extra_catch_up
        self.switch = times.switch
        self.read = times.extra_catch_up
        self.start = times.draft_start
        self._costs = [
            times.draft_seconds(n) + times.target_seconds(n + 1) + times.verify_seconds(n) for n in range(longest + 1)
        ]
        self._draft_nothing = times.draft_seconds(0)
        self._last: int | None = None

    def begin(self) -> None:
        self._last = None

    def expected(self, n: int) -> float:
        return self._costs[n]

    hoped = expected

    def worst(self, n: int) -> float:
        return self._costs[n] + self.extra_catch_up + 2.0 * self.switch

    def observe(self, done: Round, requested: int, unread: int, *, first: bool, began: bool, late: bool) -> float:
        """Give the seconds that drafting lost in this round, or after an earlier one."""
        n, last = done.n_drafted, self._last
        self._last = n
        switching = self.switch if last is not None and last != n else 0.0
        if not requested:
            return switching
        reading = self.read * unread + (0.0 if began else self.start)
        if not n:
            return switching + reading + self._draft_nothing
        spent = self._costs[n] + reading + switching + (self.extra_catch_up if late else 0.0)
        return spent - len(done.tokens) * self.plain


class LearnedTimes:
    """Times learned from rounds. What a catch-up adds is in the medians of the draft calls.

    Passes are learned as they are after one over as many tokens; the extra time of others is learned from plain ones.
    """

    extra_catch_up = 0.0

    def __init__(self, max_k: int, draft_cost: float | None) -> None:
        self._max_k = max_k
        self._draft_cost = draft_cost
        self._passes = [Median() for _ in range(max_k + 1)]
        self._drafts = [Median() for _ in range(max_k + 1)]
        self._doubtful: set[int] = set()
        self._believed: set[int] = set()
        self._switches = Median()
        self._last = _NO_DRAFT
        self._first_plain: float | None = None
        self._reads = Median()
        self._starts = Median()
        self._start_guess = draft_cost or 0.0
        self._draft_at_most = math.inf
        self._since_plain = 0
        self._prefill: float | None = None
        self._first_call: tuple[int, float] | None = None

    @property
    def plain(self) -> float | None:
        steady = self._passes[0]
        if steady.count >= _PLAIN_ROUNDS:
            return steady.value
        # One of them may have been disturbed; the one after the prompt takes longer, if anything.
        return min(steady.value, self._first_plain) if steady.count and self._first_plain is not None else None

    @property
    def switch(self) -> float:
        """The extra time of a pass that follows one over another number of tokens."""
        return max(0.0, self._switches.value)

    @property
    def longest(self) -> int:
        """One token until the price of a second one is known, from which longer passes are guessed."""
        return self._max_k if any(one.count for one in self._passes[1:]) else 1

    @property
    def is_stale(self) -> bool:
        """Whether the last plain step is so long ago that it may have become slower or faster."""
        return self._since_plain >= _REFRESH_TOKENS

    @property
    def read(self) -> float:
        """What the draft takes to read a token that was written without it."""
        if self._reads.count:
            return self._reads.value
        # A call of a lookup takes the same whatever was written without it.
        if self._draft_cost == 0.0 or (self._draft_cost is None and self._draft_at_most == math.inf):
            return 0.0
        return self._draft(1)

    @property
    def start(self) -> float | None:
        """What the draft takes to read the prompt; None while the target has not read it either."""
        ratio = self._starts.value if self._starts.count else self._start_guess
        if ratio < _FREE_START:
            return 0.0
        return None if self._prefill is None else ratio * self._prefill

    def begin(self) -> None:
        self._prefill = None
        self._first_call = None
        self._last = _NO_DRAFT
        for n in self._doubtful:
            if self._passes[n].count == 1:
                self._passes[n] = Median()
        self._doubtful.clear()

    def expected(self, n: int) -> float:
        return self._draft(n) + self._pass(n, 0.5, 0.5)

    def hoped(self, n: int) -> float:
        return self._draft(n, hopeful=True) + self._pass(n, 0.0, 0.0)

    def worst(self, n: int) -> float:
        return self._draft(n) + self._pass(n, 1.0, _SECOND_TOKEN) + 2.0 * self.switch

    def observe(self, done: Round, requested: int, unread: int, *, first: bool, began: bool, late: bool) -> float:
        """Give the seconds that drafting lost in this round, or after an earlier one; 0 if nothing is known."""
        n, last = done.n_drafted, self._last
        scored = done.target_seconds + done.verify_seconds
        plain = self.plain
        usual = self._pass(n, 1.0, _SECOND_TOKEN) if plain is not None else math.inf
        drafted = self._observe_draft(done.draft_seconds, n, unread, began) if requested else 0.0
        if first:
            self._prefill = done.target_seconds
            scored = usual
        else:
            self._observe_pass(scored, n, last)
            if n and n not in self._believed:
                # The first of its length may have been disturbed, and could rule it out for good: once it is doubted.
                self._believed.add(n)
                if scored > _OUTLIER * usual:
                    self._doubtful.add(n)
        self._since_plain = 0 if n == last == 0 else self._since_plain + len(done.tokens)
        self._last = _NO_DRAFT if first else n
        if plain is None:
            return 0.0
        # A pause of the whole machine is not the draft's fault.
        scored = min(scored, _OUTLIER * usual)
        if n:
            return drafted + scored - len(done.tokens) * plain
        return drafted + (scored - plain if last > 0 else 0.0)

    def _observe_pass(self, seconds: float, n: int, last: int) -> None:
        if n == last:
            self._passes[n].add(seconds)
            if n == 0 and self._first_plain is not None and not self._switches.count:
                self._switches.add(max(0.0, self._first_plain - seconds))
        elif n:
            self._passes[n].add(max(0.0, seconds - self.switch))
        elif self._passes[0].count:
            self._switches.add(seconds - self._passes[0].value)
        elif self._first_plain is None:
            self._first_plain = seconds

    def _observe_draft(self, seconds: float, n: int, unread: int, began: bool) -> float:
        """Learn from a draft call; give its duration without the reading of the prompt."""
        if n:
            self._draft_at_most = min(self._draft_at_most, seconds / n)
        if not began:
            expected = self._draft(n) + (self.start or 0.0) + unread * self.read
            self._first_call = (n, seconds)
            if self._prefill:
                # All of it, until a second call shows which part is the reading of the prompt.
                self._start_guess = seconds / self._prefill
            return min(seconds, expected)
        if unread and not self._drafts[n].count:
            return seconds
        usual = self._draft(n)
        if unread:
            self._reads.add(max(0.0, seconds - usual) / unread)
            return min(seconds, _OUTLIER * (usual + unread * self.read))
        self._drafts[n].add(seconds)
        if self._first_call is not None and self._prefill:
            n_first, first_seconds = self._first_call
            self._starts.add(max(0.0, first_seconds - self._draft(n_first)) / self._prefill)
            self._first_call = None
        return min(seconds, _OUTLIER * self._drafts[n].value)

    def _draft(self, n: int, *, hopeful: bool = False) -> float:
        """Give the time of a call that proposes n tokens."""
        if self._drafts[n].count:
            return self._drafts[n].value
        known = [size for size, one in enumerate(self._drafts) if one.count and size]
        if known:
            near = min(known, key=lambda size: abs(size - n))
            return self._drafts[near].value * n / near
        guess = self._draft_cost
        if guess is None:
            guess = 0.0 if hopeful else _DRAFT_GUESS
        at_most = self._draft_at_most
        if self._drafts[0].count:
            # Seeing that there is nothing to propose takes as long as proposing one, of a lookup or of a model.
            at_most = min(at_most, self._drafts[0].value * (n + 1) / max(n, 1))
        return n * min(guess * self._passes[0].value, at_most)

    def _pass(self, n: int, slope_share: float, second: float) -> float:
        """Give the time of a pass that scores n drafted tokens.

        Beyond the longest pass known, each token adds `slope_share` of what one added up to there; when only plain
        steps are known, each adds `second` of a plain step.
        """
        if self._passes[n].count:
            return self._passes[n].value
        known = [size for size, one in enumerate(self._passes) if one.count]
        last = known[-1]
        if n > last:
            base, plain = self._passes[last].value, self._passes[0].value
            if last == 0:
                return base + n * second * plain
            slope = max(0.0, base - plain) / last
            if slope_share == 1.0:
                slope = max(slope, _LEAST_SLOPE * plain)
            return base + (n - last) * slope_share * slope
        upper = min(size for size in known if size > n)
        lower = max(size for size in known if size < n)
        share = (n - lower) / (upper - lower)
        return (1.0 - share) * self._passes[lower].value + share * self._passes[upper].value


class Median:
    """The lower median of the last few values: one slow round among them does not count."""

    __slots__ = ("_values", "count", "value")

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=_MEDIAN_OF)
        self.count = 0
        self.value = 0.0

    def add(self, value: float) -> None:
        self._values.append(value)
        self.count = len(self._values)
        self.value = sorted(self._values)[(self.count - 1) // 2]
