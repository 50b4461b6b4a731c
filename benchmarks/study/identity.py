"""Are the texts of speculative and plain greedy decoding the same, token for token? If not, who made the difference?

Verification takes the most probable token of the rows it is given. So a text can differ from plain decoding only if
the target gives other rows for several tokens in one pass than for one after the other, which is a property of the
runtime's kernels and number format. Each run is therefore judged twice:

1. Every token that came out must be the most probable of the row that the pass gave for its place. This must hold for
   every target.
2. The text is compared with plain decoding's. Where they part, the target is fed anew, with no draft and no
   verification, in the passes of the text and token by token, and its rows at that place are compared
   (specverify.adapters.comparison).
"""

from itertools import accumulate

from specverify import cost
from specverify.adapters.comparison import batch_effect, first_difference

from . import grid, prompts
from .lengths import new_length
from .texts import Models, Recording, decoder, timed, tokens_of

# What the adaptive length is told here: a pass costs the same whatever its length, so that it drafts a lot.
TIMES = cost.StepTimes(target=((1, 1.0), (grid.MAX_K + 1, 1.0)), draft_token=0.1, between="linear")


def measure(folder, lines, plan, report=print):
    """Run what is missing in `lines`, one line for each target and domain."""
    models = Models(folder)
    for key in grid.identity_keys(plan):
        target, domain = key["target"], key["domain"]
        if key in lines:
            continue
        model_draft = grid.IDENTITY[target]
        models.close_but(target, model_draft)
        cells = compare(models, target, (*grid.FOUND, model_draft), domain, plan.identity_tokens)
        lines.add(key, cells=cells)
        report(
            f"identity: {target}, {domain}: {sum(cell['same'] for cell in cells)} of {len(cells)} texts are the same"
        )
    models.close_but()


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
                cell["parting"] = parting(warm.model, prompt, plain, text, rounds)
            cells.append(cell)
    return cells


def all_most_probable(calls, rounds):
    """Say whether every token of every round is the most probable one of the row that the target gave for its place."""
    return len(calls) == len(rounds) and all(
        list(one.tokens) == best[: len(one.tokens)] for (_, _, best), one in zip(calls, rounds, strict=True)
    )


def parting(model, prompt, plain, text, rounds):
    """Ask the target anew where two texts differ first: has each of them the most probable token of its own rows?"""
    at = first_difference(plain, text)
    effect = batch_effect(model, prompt, rounds, at)
    return {
        "at": at,
        "pass": next(one.n_drafted + 1 for one, end in zip(rounds, ends(rounds), strict=True) if at < end),
        "largest_difference": effect.largest_difference,
        "each_its_own": (effect.single_token, effect.batched_token) == (plain[at], text[at]),
    }


def ends(rounds):
    """Give where each round ends, counted from the end of the prompt."""
    return accumulate(len(one.tokens) for one in rounds)
