"""Sample-and-compare beside rejection: how many drafted tokens each rule accepts, on the same rows.

Both emit the target's law. Sample-and-compare draws the next token from the target's row and keeps the drafted one if
it is the same: llama.cpp's server and mlx-lm do that. It keeps a token with probability sum(target * draft), rejection
with probability sum(min(target, draft)).
"""

import numpy as np

from specverify import Sampling, sample, verify_sampled
from specverify.decoder import SpeculativeDecoder

from . import grid, prompts
from .grid import RULES
from .texts import Models

JUDGEMENTS = 16  # of each round, with fresh random numbers


def sample_and_compare(target, tokens, uniforms, sampling):
    """Draw from the target's rows until a drafted token is not the one drawn; give what is accepted, and the next."""
    for i, token in enumerate(tokens):
        drawn = sample(target[i], uniforms[i], sampling)
        if drawn != token:
            return i, drawn
    return len(tokens), sample(target[-1], uniforms[-1], sampling)


class Kept:
    """A step that keeps what it gave last, in all else the one that it is made of."""

    def __init__(self, step, keep=lambda given: given):
        self._step, self._keep = step, keep
        self.last = None

    def __getattr__(self, name):
        return getattr(self._step, name)

    def __call__(self, prefix, other):
        given = self._step(prefix, other)
        self.last = self._keep(given)
        return given


class Judge:
    """Lets both rules judge every round of texts, many times."""

    def __init__(self, draft_step, target_step, k, sampling, rng):
        # The target's rows are a runtime's own, and promised only until its next call, which may be a roll-back.
        self._draft, self._target, self._k = Kept(draft_step), Kept(target_step, np.array), k
        self._sampling, self._rng = sampling, rng
        self.accepted = dict.fromkeys(RULES, 0)
        self.rejected = dict.fromkeys(RULES, 0)
        self.rounds = 0

    def read(self, prompt, n_tokens, seed):
        """Write a text and judge its rounds."""
        loop = SpeculativeDecoder(self._draft, self._target, self._k, sampling=self._sampling, rng=seed)
        for one in loop.rounds(prompt, n_tokens):
            if one.n_drafted:
                self.rounds += 1
                for _ in range(JUDGEMENTS):
                    self._judge(self._target.last, *self._draft.last)

    def _judge(self, target_rows, tokens, draft_rows):
        tokens = np.asarray(tokens)
        uniforms = self._rng.random(len(tokens) + 1)
        verdicts = (
            verify_sampled(target_rows, draft_rows, tokens, uniforms, sampling=self._sampling),
            sample_and_compare(target_rows, tokens.tolist(), uniforms, self._sampling),
        )
        for rule, (n_accepted, _) in zip(RULES, verdicts, strict=True):
            self.accepted[rule] += n_accepted
            self.rejected[rule] += n_accepted < len(tokens)


def measure(folder, lines, plan, report=print):
    """Let both rules judge the drafts along texts that the target continues at temperature 1."""
    models = Models(folder)
    for key in grid.compare_keys(plan):
        if key in lines:
            continue
        warm, domain = models.target(key["target"]), key["domain"]
        steps = models.draft(key["draft"]).as_draft(), warm.as_target()
        judge = Judge(*steps, key["k"], Sampling(temperature=1.0), np.random.default_rng(0))
        for number, text in enumerate(prompts.of_domain(domain)[: key["prompts"]]):
            judge.read(warm.model.encode(text), key["tokens"], number)
        lines.add(key, rounds=judge.rounds, judgements=JUDGEMENTS, accepted=judge.accepted, rejected=judge.rejected)
        report(f"compare: {domain}")
    models.close_but()
