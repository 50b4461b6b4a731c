"""What a run has still to do, and how long that takes by speeds and steps that were stored. Measures nothing."""

from statistics import median

from . import figures, grid, steps
from .store import Lines, load

UNKNOWN = 1.5  # time of a contender of which nothing is stored, as a multiple of plain decoding
# Seconds of a token of plain decoding, to begin with; on an x86-64 machine of two cores when nothing else ran.
USUAL = {"hf-f32": 0.042, "f32": 0.0165, "f16": 0.012, "q8_0": 0.0072, "q4_1": 0.0057, "q4_0": 0.0057}


def words(plan, work, folder):
    """Say what is missing in the lines of a plan, and for how many minutes of the two parts that take long."""
    missing = {name: _missing(folder, name, keys(plan)) for name, keys in grid.KEYS.items()}
    cells = sum(len(key["contenders"]) for key in missing["cells"])
    parts = ", ".join(f"{name} {len(found)} of {len(grid.KEYS[name](plan))}" for name, found in missing.items())
    known = Known(*_stored(work))
    minutes = known.seconds(missing["cells"], missing["identity"]) / 60
    source = "what is stored" if known else "a guess, since nothing is stored"
    return f"to measure, in lines: {parts}; {cells} cells; some {minutes:.0f} minutes by {source}"


class Known:
    """Seconds of a token and of the steps, by rows of cells and of steps."""

    def __init__(self, cells, rows):
        self._tokens, self._steps = {}, {}
        for row in cells:
            self._tokens.setdefault((row["target"], row["draft"], row["k"]), []).append(1 / row["per_second"][0])
        for row in rows:
            self._steps.setdefault(row["target"], []).append(_of_steps(row))

    def __bool__(self):
        return any(draft == "none" for _, draft, _ in self._tokens)

    def plain(self, target):
        """Seconds of a token; of an unknown target as usual, in the proportion in which known ones are."""
        mine = self._tokens.get((target, *grid.PLAIN))
        if mine:
            return median(mine)
        ratios = [self.plain(name) / _usual(name) for name, draft, _ in self._tokens if draft == "none"]
        return _usual(target) * (median(ratios) if ratios else 1.0)

    def token(self, target, draft, k):
        """Seconds of a token of a contender; else of the pair, else in proportion to plain decoding."""
        exact = self._tokens.get((target, draft, k))
        pair = [one for name, found in self._tokens.items() if name[:2] == (target, draft) for one in found]
        return median(exact or pair or [self.plain(target) * (1 if draft == "none" else UNKNOWN)])

    def steps(self, target):
        """Seconds of the steps of a group, before and after it."""
        passes = 4 * sum(steps.KS) * 2 * (steps.REPEATS + 1)
        return median(self._steps.get(target) or [self.plain(target) * passes])

    def seconds(self, cells, identity):
        """Seconds of the lines of cells and of identity with these keys."""
        found = 0.0
        for key in cells:
            tokens = key["tokens"] * key["prompts"]
            found += self.steps(key["target"])
            for contender, repeats in zip(key["contenders"], key["repeats"], strict=True):
                found += tokens * repeats * self.token(key["target"], *contender)
        texts = 1 + (len(grid.FOUND) + 1) * len(grid.LENGTHS)
        return found + sum(texts * key["tokens"] * self.plain(key["target"]) for key in identity)


def _usual(target):
    return USUAL[target.removesuffix("-plain")]


def _of_steps(row):
    """Seconds of both timings of a group's steps from their row; each round is timed twice."""
    once = sum(milliseconds for _, milliseconds in row["target_ms"]) + sum(steps.KS) * row["draft_token_ms"]
    return 4 * (steps.REPEATS + 1) * once / 1e3


def _missing(folder, name, keys):
    lines = Lines(folder / f"{name}.jsonl")
    return [key for key in keys if key not in lines]


def _stored(work):
    """Give rows of cells and of steps: published ones, and those of all plans that were run here."""
    document = load("cells") or {"cells": [], "steps": []}
    lines = [line for path in work.glob("*/cells.jsonl") for line in Lines(path)]
    cells = document["cells"] + [row for line in lines for row in figures.cells_of(line)]
    return cells, document["steps"] + [row for line in lines for row in figures.steps_of(line)]
