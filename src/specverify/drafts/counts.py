"""Counts of what followed which words, and the law that they give the next token.

Holds the counts of one text, and the interpolation of several texts' counts into one row of few entries. Holds no
random numbers and nothing of how a text is followed (ngram.py). The demo's models (ngram.py) are interpolated
likewise, but of bytes, with dense rows, and counted once for all.
"""

from collections.abc import Collection, Sequence


class Followers:
    """What followed one context: how often each token, and how many tokens in all.

    Parameters
    ----------
    width : int
        How many of the most frequent tokens :attr:`best` holds.
    """

    __slots__ = ("_best", "_enough", "_width", "counts", "total")

    def __init__(self, width: int) -> None:
        self.counts: dict[int, int] = {}
        self.total = 0
        self._width = width
        self._best: set[int] | None = None  # as long as it would hold all of them
        self._enough = 0  # no count in it is less

    @property
    def best(self) -> Collection[int]:
        """The tokens of the largest counts, ties by lowest id, in no order; all if there are no more than `width`."""
        return self.counts if self._best is None else self._best

    def add(self, token: int) -> None:
        """Count a token. Only the token itself can get among the best by that, and only one can get out."""
        count = self.counts.get(token, 0) + 1
        self.counts[token] = count
        self.total += 1
        if len(self.counts) <= self._width:
            return
        if self._best is None:
            self._best = self.counts.keys() - {token}
        if count < self._enough or token in self._best:
            return
        last = min(self._best, key=self._rank)
        if self._rank(token) > self._rank(last):
            self._best.remove(last)
            self._best.add(token)
            last = min(self._best, key=self._rank)
        self._enough = self.counts[last]

    def _rank(self, token: int) -> tuple[int, int]:
        return self.counts[token], -token


class ContextCounts:
    """Counts of every token after each of the contexts of 0 to ``order - 1`` tokens before it.

    Parameters
    ----------
    order : int
        The length of the longest sequence counted, at least 1.
    width : int
        How many of the most frequent tokens to know of each context.
    """

    def __init__(self, order: int, width: int) -> None:
        self._order = order
        self._width = width
        # Most long contexts are met once: what followed them then stands here itself, in a fifth of the memory.
        self._behind: dict[tuple[int, ...], int | Followers] = {}

    def count(self, tokens: Sequence[int], start: int = 0) -> None:
        """Count the tokens from `start` on, each after all the contexts that end before it."""
        behind = self._behind
        for i in range(start, len(tokens)):
            token = tokens[i]
            window = tuple(tokens[max(0, i - self._order + 1) : i])
            for n in range(len(window) + 1):
                context = window[n:]
                found = behind.get(context)
                if found is None:
                    behind[context] = token
                    continue
                if isinstance(found, int):
                    found = behind[context] = self._met_once(found)
                found.add(token)

    def behind(self, context: tuple[int, ...]) -> Followers | None:
        """What followed a context, None if nothing did."""
        found = self._behind.get(context)
        return self._met_once(found) if isinstance(found, int) else found

    def _met_once(self, token: int) -> Followers:
        followers = Followers(self._width)
        followers.add(token)
        return followers


def interpolated(experts: Sequence[Followers], width: int) -> list[tuple[int, float]]:
    """Mix counts, the most general first, into the probabilities of the next token (Witten-Bell).

    Parameters
    ----------
    experts : sequence of Followers, at least one
        What followed the contexts, each of which the next one is trusted more than.
    width : int
        The most tokens to give.

    Returns
    -------
    list of (token, probability)
        The most probable first, ties by lowest id; probabilities of all that are given sum to 1 up to rounding.

    Notes
    -----
    An expert that saw n tokens, t different ones, among them x c(x) times, turns the law P of those before it into
    ``(c(x) + t * P(x)) / (n + t)``; the first one takes ``c(x) / n``. Looked at are the tokens that are among the
    `width` most frequent of one of the experts. Float64 in one order: the same bits on every machine.

    References
    ----------
    Witten, Bell: The zero-frequency problem, IEEE Transactions on Information Theory 37 (1991), method C.
    """
    first, *others = experts
    stages = [(expert.counts, len(expert.counts), expert.total + len(expert.counts)) for expert in others]
    law = []
    for token in set().union(*(expert.best for expert in experts)):
        probability = first.counts.get(token, 0) / first.total
        for counts, kinds, scale in stages:
            probability = (counts.get(token, 0) + kinds * probability) / scale
        law.append((-probability, token))
    law.sort()
    kept = law[:width]
    total = sum(probability for probability, _ in kept)
    return [(token, probability / total) for probability, token in kept]
