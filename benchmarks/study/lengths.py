"""Draft lengths by name, and what the adaptive ones keep from text to text. Runs no text."""

from dataclasses import replace

from specverify import cost
from specverify.draft_length import AdaptiveDraftLength
from specverify.generation import Round

from . import grid
from .models import KINDS


def new_length(k, times, draft, target):
    """Give what a decoder takes for a draft length of this name."""
    if k == grid.AUTO:
        # The prompt is in the draft's cache before the clock runs: its reading is no cost of drafting here.
        return AdaptiveDraftLength(max_k=grid.MAX_K, times=replace(times, draft_start=0.0))
    if k == grid.ONLINE:
        ratio = 0.0 if draft in grid.FOUND else KINDS[draft].bits / KINDS[target].bits
        return AdaptiveDraftLength(max_k=grid.MAX_K, draft_cost=ratio)
    return k


class Lengths:
    """The draft lengths of the contenders of a target, text by text.

    `auto` is one object for all texts of a target, a draft and a temperature in a repeat, as in a program. `online` is
    new for each group.
    """

    def __init__(self):
        self._auto = {}
        self._online = {}

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
        key = (group.target, group.temperature, draft, repeat)
        if key not in self._auto:
            self._auto[key] = new_length(k, times, draft, group.target)
        return self._auto[key]

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
