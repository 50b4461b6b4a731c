"""Speeds: plain decoding and all contenders of a group in turn, text by text, and the steps before and after.

The clock runs from the first pass after the prompt to the last token: the prompt is in all caches before, and costs
the same whatever is drafted. Nothing ends a text early, so all runs of a group give the same number of tokens. In each
repeat the contenders begin at another place of the order.
"""

from specverify import cost

from . import grid, prompts, steps
from .lengths import Lengths
from .texts import Models, decoder, timed, tokens_of


def measure(folder, lines, plan, report=print):
    """Run the groups that are missing in `lines`."""
    models, lengths = Models(folder), Lengths()
    groups = plan.groups()
    for number, (group, key) in enumerate(zip(groups, grid.cell_keys(plan), strict=True), 1):
        if key in lines:
            lengths.replay(group, lines[key], plan.tokens)
            continue
        drafts = [draft for draft, _ in group.contenders if draft not in (*grid.FOUND, "none")]
        models.close_but(group.target, *drafts)
        lines.add(key, **run_group(models, group, plan, lengths))
        report(f"cells: {number} of {len(groups)}: {group.target}, temperature {group.temperature}, {group.domain}")
    models.close_but()


def run_group(models, group, plan, lengths):
    """Measure a group: its runs, and the steps of each of its drafts before and after them."""
    warm = models.target(group.target)
    texts = [warm.model.encode(text) for text in prompts.of_domain(group.domain)[: plan.prompts(group.domain)]]
    drafts = list(dict.fromkeys(draft for draft, _ in group.contenders))
    # A text of which half is there: the cache is as long on average when steps are measured as in the runs.
    middle = texts[0] + tokens_of(timed(_plain(models, group), texts[0], max(1, plan.tokens // 2))[0])
    before = steps.measure(models, group, drafts, middle)
    runs = []
    for number, prompt in enumerate(texts):
        found = []
        often = {one: plan.repeats_of(group.target, one) for one in group.contenders}
        for repeat in range(max(often.values())):
            for draft, k in rotated([one for one in often if often[one] > repeat], repeat):
                length = lengths.of(group, draft, k, repeat, before.get(draft))
                seed = 1000 * number + repeat
                loop = decoder(models, warm.as_target(), draft, length, group.temperature, seed)
                rounds, seconds, cpu = timed(loop, prompt, plan.tokens)
                run = {"draft": draft, "k": k, "prompt": number, "repeat": repeat, "seconds": seconds, "cpu": cpu}
                run["rounds"] = [_brief(one) for one in rounds]
                found.append((run, tokens_of(rounds)))
        if group.temperature == 0:
            plain = next(text for run, text in found if run["draft"] == "none")
            for run, text in found:
                run["same"] = text == plain
        runs += [run for run, _ in found]
    after = steps.measure(models, group, drafts, middle)
    measured = [{draft: cost.to_json(one)["times"] for draft, one in side.items()} for side in (before, after)]
    sizes = {"vocabulary": warm.model.vocab_size, "prompt_tokens": [len(one) for one in texts]}
    return sizes | {"steps": measured, "runs": runs}


def rotated(contenders, repeat):
    """Give the contenders in another order for each repeat."""
    start = repeat * max(1, len(contenders) // 3) % len(contenders)
    return contenders[start:] + contenders[:start]


def _plain(models, group):
    return decoder(models, models.target(group.target).as_target(), "none", 0, group.temperature)


def _brief(one):
    times = (one.draft_seconds, one.target_seconds, one.verify_seconds)
    return [one.n_drafted, one.n_accepted, len(one.tokens), *(round(seconds, 7) for seconds in times)]
