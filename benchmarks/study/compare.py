"""Sample-and-compare beside rejection: how many drafted tokens each rule accepts, on the same rows.

Both emit the target's law. Sample-and-compare draws the next token from the target's row and keeps the drafted one if
it is the same: llama.cpp's server and mlx-lm do that. It keeps a token with probability sum(target * draft), rejection
with probability sum(min(target, draft)).
"""

import numpy as np

from specverify import Sampling, sample, verify_sampled
from specverify.decoder import SpeculativeDecoder

from . import grid, prompts
from .texts import Models

JUDGEMENTS = 16  # of each round, with fresh random numbers
RULES = ("rejection", "sample and compare")


def sample_and_compare(target, tokens, uniforms, sampling):
    """Draw from the target's rows until a drafted token is not the one drawn; give what is accepted, and the next."""
    for i, token in enumerate(tokens):
        drawn = sample(target[i], uniforms[i], sampling)
        if drawn != token:
            return i, drawn
    return len(tokens), sample(target[-1], uniforms[-1], sampling)


class Judge:
    """A draft and a target step of the loop that let both rules judge every round, many times."""

    def __init__(self, draft_step, target_step, sampling, rng):
        self._draft, self._target = draft_step, target_step
        self._sampling, self._rng = sampling, rng
        self._rows = None
        self.accepted = dict.fromkeys(RULES, 0)
        self.rejected = dict.fromkeys(RULES, 0)
        self.rounds = 0

    def begin(self, start):
        self._draft.begin(start)
        self._target.begin(start)

    def draft(self, prefix, k):
        tokens, self._rows = self._draft(prefix, k)
        return tokens, self._rows

    def target(self, prefix, proposed):
        rows = self._target(prefix, proposed)
        if len(proposed):
            self.rounds += 1
            for _ in range(JUDGEMENTS):
                self._judge(rows, np.asarray(proposed))
        return rows

    def _judge(self, rows, tokens):
        uniforms = self._rng.random(len(tokens) + 1)
        verdicts = (
            verify_sampled(rows, self._rows, tokens, uniforms, sampling=self._sampling),
            sample_and_compare(rows, tokens.tolist(), uniforms, self._sampling),
        )
        for rule, (n_accepted, _) in zip(RULES, verdicts, strict=True):
            self.accepted[rule] += n_accepted
            self.rejected[rule] += n_accepted < len(tokens)


def keys(plan):
    """Give the keys of the lines of a plan."""
    target, draft = grid.COMPARED
    pair = {"target": target, "draft": draft, "k": grid.COMPARED_K}
    return [
        pair | {"domain": domain, "tokens": plan.tokens, "prompts": plan.prompts(domain)}
        for domain in plan.identity_domains
    ]


def measure(folder, lines, plan, report=print):
    """Let both rules judge the drafts along texts that the target continues at temperature 1."""
    models = Models(folder)
    sampling = Sampling(temperature=1.0)
    for key in keys(plan):
        if key in lines:
            continue
        target, draft, domain = key["target"], key["draft"], key["domain"]
        warm = models.target(target)
        sides = models.draft(draft).as_draft(), warm.as_target()
        judge = Judge(*sides, sampling, np.random.default_rng(0))
        for number, text in enumerate(prompts.of_domain(domain)[: plan.prompts(domain)]):
            # Steps without a cache as far as the loop knows: the models find out by themselves what to feed.
            loop = SpeculativeDecoder(judge.draft, _Begin(judge), grid.COMPARED_K, sampling=sampling, rng=number)
            loop.generate(warm.model.encode(text), plan.tokens)
        lines.add(key, rounds=judge.rounds, judgements=JUDGEMENTS, accepted=judge.accepted, rejected=judge.rejected)
        report(f"compare: {domain}")
    models.close_but()


class _Begin:
    """The target side of a judge: what the loop tells when a text begins goes to both sides."""

    def __init__(self, judge):
        self._judge = judge

    def begin(self, start):
        self._judge.begin(start)

    def __call__(self, prefix, proposed):
        return self._judge.target(prefix, proposed)
