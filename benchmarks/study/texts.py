"""One text: models and drafts by name, a run of the loop against the clock, and what it asked of the target."""

import time

import numpy as np

from specverify import Sampling
from specverify.decoder import SpeculativeDecoder
from specverify.drafts import NGramDraft, PromptLookup

from . import grid
from .models import Warm, open_model

CLOCK = time.perf_counter  # of all runs and steps; the processor's own, time.process_time, is one to try parts with


class Models:
    """The open models, each opened once, and once more if it is also needed as a draft."""

    def __init__(self, folder):
        self._folder = folder
        self._open = {}

    def target(self, name):
        return self._get(name, "target")

    def draft(self, name):
        return self._get(name, "draft")

    def _get(self, name, side):
        if (name, side) not in self._open:
            self._open[name, side] = Warm(open_model(self._folder, name))
        return self._open[name, side]

    def draft_step(self, name):
        """Make the draft step of this name; None for plain decoding."""
        if name == "none":
            return None
        if name in grid.FOUND:
            return PromptLookup(max_n=8, min_n=3) if name == "lookup" else NGramDraft(order=4, width=16, min_order=3)
        return self.draft(name).as_draft()

    def close_but(self, *names):
        """Free the models of other names."""
        for key in [key for key in self._open if key[0] not in names]:
            self._open.pop(key).model.close()


def decoder(models, target_step, draft, length, temperature, seed=0):
    """Make the loop of a contender."""
    sampling = Sampling(temperature=temperature) if temperature else None
    return SpeculativeDecoder(models.draft_step(draft), target_step, length, sampling=sampling, rng=seed)


def timed(loop, prompt, n_tokens):
    """Run a text; give its rounds, its duration and the processor's time, both without what the prompt took."""
    rounds = loop.rounds(prompt, n_tokens)  # begins the text: prompts are fed here
    cpu, clock = time.process_time(), CLOCK()
    found = list(rounds)
    return found, CLOCK() - clock, time.process_time() - cpu


def tokens_of(rounds):
    return [token for one in rounds for token in one.tokens]


class Recording:
    """A target step that keeps what it was asked, and the most probable token of each row that it gave."""

    def __init__(self, step):
        self._step = step
        self.calls = []

    def begin(self, start):
        self.calls = []
        self._step.begin(start)

    def __call__(self, prefix, proposed):
        rows = self._step(prefix, proposed)
        self.calls.append((len(prefix), list(proposed), np.argmax(rows, axis=1).tolist()))
        return rows

    @property
    def n_cached(self):
        return self._step.n_cached

    def truncate(self, keep):
        return self._step.truncate(keep)
