"""Are the texts of speculative and plain greedy decoding the same, token for token? If not, who made the difference?

Verification takes the most probable token of the rows it is given. So a text can differ from plain decoding only if
the target gives other rows for several tokens in one pass than for one after the other, which is a property of the
runtime's kernels and number format. Each run is therefore judged twice:

1. Every token that came out must be the most probable of the row that the pass gave for its place. This must hold for
   every target.
2. The text is compared with plain decoding's. Where they part, both sides are fed anew, with no draft and no
   verification, the same tokens in the same passes, and their rows at that place are compared.
"""

from types import SimpleNamespace

import numpy as np

from specverify import cost

from . import grid, prompts
from .texts import Models, Recording, decoder, new_length, timed, tokens_of

# What the adaptive length is told here: a pass costs the same whatever its length, so that it drafts a lot.
TIMES = cost.StepTimes(target=((1, 1.0), (grid.MAX_K + 1, 1.0)), draft_token=0.1, between="linear")


def measure(folder, lines, plan, report=print, targets=None):
    """Run what is missing in `lines`, one line for each target and domain."""
    models = Models(folder)
    for key in keys(plan):
        target, domain = key["target"], key["domain"]
        if key in lines or (targets is not None and target not in targets):
            continue
        model_draft = grid.IDENTITY[target]
        models.close_but(target, model_draft)
        cells = compare(models, target, (*grid.FOUND, model_draft), domain, plan.identity_tokens)
        lines.add(key, cells=cells)
        report(
            f"identity: {target}, {domain}: {sum(cell['same'] for cell in cells)} of {len(cells)} texts are the same"
        )
    models.close_but()


def keys(plan):
    """Give the keys of the lines of a plan."""
    return [
        {"target": target, "domain": domain, "tokens": plan.identity_tokens}
        for target in grid.IDENTITY
        for domain in plan.identity_domains
    ]


def compare(models, target, drafts, domain, n_tokens):
    """Compare all drafts and draft lengths on the first prompt of a domain."""
    warm = models.target(target)
    prompt = warm.model.encode(prompts.of_domain(domain)[0])
    plain = tokens_of(timed(decoder(models, warm.as_target(), "none", 0, 0), prompt, n_tokens)[0])
    cells = []
    for draft in drafts:
        for k in grid.LENGTHS:
            step = Recording(warm.as_target())
            rounds, _, _ = timed(decoder(models, step, draft, new_length(k, TIMES, draft, target), 0), prompt, n_tokens)
            text = tokens_of(rounds)
            cell = {
                "draft": draft,
                "k": k,
                "same": text == plain,
                "argmax": all_most_probable(step.calls, rounds),
                "passes": len(rounds),
                "drafted": sum(one.n_drafted for one in rounds),
                "accepted": sum(one.n_accepted for one in rounds),
            }
            if text != plain:
                cell["parting"] = parting(warm, prompt, plain, text, step.calls)
            cells.append(cell)
    return cells


def all_most_probable(calls, rounds):
    """Say whether every token of every round is the most probable one of the row that the target gave for its place."""
    return len(calls) == len(rounds) and all(
        list(one.tokens) == best[: len(one.tokens)] for (_, _, best), one in zip(calls, rounds, strict=True)
    )


def parting(warm, prompt, plain, text, calls):
    """Feed both sides anew up to the first difference, without draft and verification; compare their rows there."""
    at = next(i for i, (one, other) in enumerate(zip(plain, text, strict=False)) if one != other)
    single = replayed(warm, prompt, [(prompt + plain[:i], []) for i in range(at + 1)])[0]
    passes = [(prompt + text[: start - len(prompt)], proposed) for start, proposed, _ in calls]
    before = [one for one in passes if len(one[0]) <= len(prompt) + at]
    batched = replayed(warm, prompt, before)[len(prompt) + at - len(before[-1][0])]
    mine, theirs = text[at], plain[at]
    return {
        "at": at,
        "pass": len(before[-1][1]) + 1,
        "largest_difference": float(np.abs(single - batched).max()),
        "lead_single": float(single[theirs] - single[mine]),
        "lead_batched": float(batched[mine] - batched[theirs]),
        "each_its_own": bool(np.argmax(single) == theirs and np.argmax(batched) == mine),
    }


def replayed(warm, prompt, passes):
    """Ask a target for the rows of these passes from the beginning; give a copy of those of the last."""
    step = warm.as_target()
    step.begin(SimpleNamespace(prompt=prompt, greedy=True, sampling=None, rng=None, mask=None))
    for prefix, proposed in passes:
        step.truncate(len(prefix) - 1)
        rows = step(prefix, proposed)
    return np.array(rows)
