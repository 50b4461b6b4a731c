"""Draft lengths by name, and what the adaptive ones keep from text to text. Runs no text."""

from dataclasses import dataclass

from specverify import cost
from specverify.draft_length import AdaptiveDraftLength
from specverify.generation import Round

from . import grid
from .models import KINDS


def new_length(k, times, draft, target, prior=None):
    """Give what a decoder takes for a draft length of this name."""
    if k == grid.AUTO:
        return AdaptiveDraftLength(max_k=grid.MAX_K, times=times, prior=prior)
    if k == grid.ONLINE:
        ratio = 0.0 if draft in grid.FOUND else KINDS[draft].bits / KINDS[target].bits
        return AdaptiveDraftLength(max_k=grid.MAX_K, draft_cost=ratio)
    return k


@dataclass
class _Kept:
    length: AdaptiveDraftLength
    texts: int = 0
    drafted: int = 0
    told: bool = False


class Lengths:
    """The draft lengths of the contenders of a target, text by text.

    `auto` is one object for all texts of a target, a draft and a temperature in a repeat, as in a program. One that has
    not asked a model draft in its first text, since it would have to read more than may be lost, would never learn
    better: it is told the acceptance of past texts, those of the pair's fixed lengths. `online` is new for each group.
    """

    def __init__(self):
        self._auto = {}
        self._online = {}
        self._rounds = {}  # (drafted, accepted) of fixed lengths, by target, temperature and draft

    def of(self, group, draft, k, repeat, times):
        """Give the length for the next text."""
        if k == grid.ONLINE:
            key = (group, draft, repeat)
            if key not in self._online:
                self._online = {one: length for one, length in self._online.items() if one[0] == group}
                self._online[key] = new_length(k, times, draft, group.target)
            return self._online[key]
        if k != grid.AUTO:
            return k
        pair = _pair(group, draft)
        kept = self._auto.setdefault((*pair, repeat), _Kept(new_length(k, times, draft, group.target)))
        past = self._rounds.get(pair)
        if draft in KINDS and kept.texts and not kept.drafted and not kept.told and past:
            prior = cost.Acceptance.from_rounds(*zip(*past, strict=True))
            kept.length, kept.told = new_length(k, times, draft, group.target, prior), True
        return kept.length

    def learn(self, group, run):
        """Learn from a finished run, a dict as in a line; say in it whether `auto` was told an acceptance."""
        pair = _pair(group, run["draft"])
        if run["k"] == grid.AUTO:
            kept = self._auto[(*pair, run["repeat"])]
            kept.texts += 1
            kept.drafted += sum(drafted for drafted, *_ in run["rounds"])
            run["told"] = kept.told
        elif run["k"] not in (0, grid.ONLINE):
            self._rounds.setdefault(pair, []).extend((drafted, accepted) for drafted, accepted, *_ in run["rounds"])

    def replay(self, group, line, n_tokens):
        """Learn from a stored line what its runs taught when they were made. `auto` looks at counts, not at a clock."""
        for run in line["runs"]:
            if run["k"] == grid.AUTO:
                times, _, _ = cost.from_json({"times": line["steps"][0][run["draft"]]})
                length = self.of(group, run["draft"], run["k"], run["repeat"], times)
                left = n_tokens
                length.begin()
                for drafted, accepted, emitted, *seconds in run["rounds"]:
                    asked = length.choose(left - 1)
                    length.observe(Round((0,) * emitted, drafted, accepted, *seconds, None), asked)
                    left -= emitted
            self.learn(group, run)


def _pair(group, draft):
    return group.target, group.temperature, draft
