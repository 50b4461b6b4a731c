"""Tables and sentences of speeds, and of predicted beside measured ones."""

from inspect import signature
from statistics import median

from layout import table

from specverify.draft_length import AdaptiveDraftLength

from . import figures, grid, prompts
from .models import KINDS
from .words import NOTHING, PLOTS, by, draft_words, percent, where

GOAL = 0.97  # of plain decoding: the goal that was set for the adaptive length, in every cell
PROMISED = signature(AdaptiveDraftLength).parameters["max_loss"].default


def speed_section(document):
    if not document:
        return ["## Speed", NOTHING]
    found = [
        "## Speed",
        f"![Speed-up by draft length]({PLOTS['speed-up']})",
        "\n".join(f"- {fact}" for fact in (*adaptive_facts(document), *share_facts(document))),
        "### What a pass over several tokens costs",
        "C(n): a target pass over n tokens, median over all groups. A round of k drafted tokens has a pass over k + 1, "
        "and emits k + 1 tokens at most. Drafting: a fourth of a draft call for four tokens. Switch: the extra time "
        "of a pass that follows one over another number of tokens.",
        "\n".join(pass_table(document)),
        *best_table(document),
        "### Targets beside each other",
        "New text at temperature 0, tokens/s, median over the domains: plainly, and with the best draft and fixed "
        "length of each domain. What a target of fewer bits gives is another law.",
        "\n".join(target_table(document)),
    ]
    for (target, temperature), cells in by(document["cells"], "target", "temperature").items():
        found += [f"### {KINDS[target].words}, temperature {temperature}", "\n".join(cell_table(cells))]
    return found


def pass_table(document):
    sizes = sorted({n for row in document["steps"] for n, _ in row["target_ms"]})
    passes = [f"C({n}) ms" if n == 1 else f"C({n})/C(1)" for n in sizes]
    lines = []
    for target, rows in by(document["steps"], "target").items():
        times = {n: [] for n in sizes}
        for row in rows:
            for n, milliseconds in row["target_ms"]:
                times[n].append(milliseconds)
        middle = {n: median(found) for n, found in times.items() if found}
        values = [f"{middle[n]:.1f}" if n == 1 else f"{middle[n] / middle[1]:.2f}" for n in middle]
        costs = {draft: median(map(draft_ms, mine)) for draft, mine in by(rows, "draft").items()}
        drafts = "; ".join(f"{draft_words(draft)} {cost:.3g} ms" for draft, cost in costs.items())
        switch = f"{median(row['switch_ms'] for row in rows):.2f}"
        lines.append((KINDS[target].words, drafts, *values, switch))
    return table(["target ", "drafting a token ", *passes, "switch ms"], lines)


def target_table(document):
    lines = []
    rows = [row for row in document["cells"] if row["temperature"] == 0 and row["domain"] in prompts.NEW_TEXT]
    for target, mine in by(rows, "target").items():
        plain = [row["per_second"][0] for row in mine if row["draft"] == "none"]
        others = by([row for row in mine if row["draft"] != "none" and row["k"] not in grid.ADAPTIVE], "domain")
        best = [max(row["per_second"][0] for row in cells) for cells in others.values()]
        lines.append((KINDS[target].words, f"{median(plain):.1f}", f"{median(best):.1f}"))
    return table(["target ", "plain", "with a draft"], lines)


def draft_ms(row):
    """A draft call of four tokens, by token: a lookup's cost is that of the call."""
    return row["draft_token_ms"] + row["draft_fixed_ms"] / 4


def best_table(document):
    """The median speed-up over domains of each pair and length, new text and copies apart; what loses stays in."""
    rows = [row for row in document["cells"] if row["draft"] != "none"]
    lengths = [k for k in (*grid.LENGTHS, grid.ONLINE) if any(row["k"] == k for row in rows)]
    columns = [k if k in grid.ADAPTIVE else f"k = {k}" for k in lengths]
    header = ["target ", "draft ", "T ", "texts ", *columns, "tested acceptance"]
    lines = []
    for (target, draft, temperature), mine in by(rows, "target", "draft", "temperature").items():
        for words, domains in (("new", prompts.NEW_TEXT), ("copies", prompts.COPIES)):
            cells = [row for row in mine if row["domain"] in domains]
            if not cells:
                continue
            ups = {k: [row["speedup"][0] for row in cells if row["k"] == k] for k in lengths}
            middle = {k: median(found) if found else None for k, found in ups.items()}
            best = max(value for value in middle.values() if value)
            values = [marked(middle[k], best) for k in lengths]
            rates = [row["tested_acceptance"] for row in cells if row["tested_acceptance"] is not None]
            rate = f"{median(rates):.2f}" if rates else ""
            lines.append((KINDS[target].words, draft_words(draft), temperature, words, *values, rate))
    return ["Speed-up, median over the domains; below 1 speculation loses:", "\n".join(table(header, lines))]


def marked(value, best):
    return "" if value is None else f"**{value:.2f}**" if value == best and round(value, 2) > 1 else f"{value:.2f}"


def cell_table(cells):
    columns = ("k", "tested acceptance", "draft utilisation", "tokens per target pass", "tokens/s", "speed-up")
    lines = []
    for row in cells:
        rates = ("" if row[name] is None else f"{row[name]:.2f}" for name in ("tested_acceptance", "draft_utilisation"))
        middle, least, largest = row["speedup"]
        up = "" if row["draft"] == "none" else f"{middle:.2f} [{least:.2f}, {largest:.2f}]"
        speeds = f"{row['tokens_per_pass']:.2f}", f"{row['per_second'][0]:.1f}", up
        shares = percent(row["draft_share"]), f"{row['verify_share']:.2%}"
        predicted = f"{row['predicted']:.1f}", f"{row['predicted'] / row['per_second'][0] - 1:+.0%}"
        lines.append((row["domain"], draft_words(row["draft"]), row["k"], *rates, *speeds, *shares, *predicted))
    more = ("drafting", "verification", "predicted tokens/s", "error")
    return table(["domain ", "draft ", *columns, *more], lines)


def adaptive_facts(document):
    if not document:
        return []
    rows = [row for row in document["cells"] if row["k"] in grid.ADAPTIVE]
    drafted = [row for row in document["cells"] if row["draft"] != "none"]
    best = max(drafted, key=lambda row: row["speedup"][0])
    # The least speed-up of the repeats: a median of 1.00 is above 1 as often as not, whatever was drafted.
    wins = {target: [row["speedup"][1] > 1 for row in mine] for target, mine in by(drafted, "target").items()}
    counts = ", ".join(f"{KINDS[target].words} {sum(won)} of {len(won)}" for target, won in wins.items())
    found = [
        f"Best: {best['speedup'][0]:.2f} times plain decoding ({where(best)}). "
        f"Cells that win in every repeat, by target: {counts}."
    ]
    models = [row for row in document["cells"] if row["draft"] in KINDS]
    if models:
        best = max(models, key=lambda row: row["speedup"][0])
        found.append(f"Best with a model as draft: {best['speedup'][0]:.2f} times ({where(best)}).")
    if rows:
        worst = min(rows, key=lambda row: row["speedup"][0])
        kept = sum(row["speedup"][0] >= GOAL for row in rows)
        found.append(
            f"The adaptive length reaches at least {GOAL} of plain decoding, the goal of this study, in {kept} of "
            f"{len(rows)} cells; its worst is {worst['speedup'][0]:.3f} ({where(worst)}). It promises to lose at most "
            f"{PROMISED:.1%}, as far as times can be foreseen."
        )
        found += caution_facts(document, rows)
    return found


def caution_facts(document, adaptive):
    """Say where an adaptive length is farthest below the best fixed one."""
    names = ("target", "draft", "temperature", "domain")
    fixed = by([row for row in document["cells"] if row["k"] not in (0, *grid.ADAPTIVE)], *names)
    pairs = []
    for row in adaptive:
        found = [(one["speedup"][0], one["k"]) for one in fixed.get(tuple(row[name] for name in names), ())]
        pairs += [(max(found), row)] if found else []
    if not pairs:
        return []
    (best, k), row = max(pairs, key=lambda pair: pair[0][0] / pair[1]["speedup"][0])
    return [
        f"What this caution costs at most: {row['speedup'][0]:.2f} where k = {k} gives {best:.2f} ({where(row)}). A "
        "longer draft, were it rejected, would lose more there than may be lost in so short a text."
    ]


def share_facts(document):
    if not document:
        return []
    rows = [row for row in document["cells"] if row["draft"] != "none"]
    worst = max(rows, key=lambda row: row["verify_share"])
    below = sum(row["verify_share"] < 0.01 for row in rows)
    return [
        f"Verification from logits (V = {document['vocabulary']:,}) takes under 1 % of the time in {below} of "
        f"{len(rows)} cells; at most {worst['verify_share']:.2%} ({where(worst)})."
    ]


def audit_section(document):
    if not document:
        return ["## The cost model beside the clock", NOTHING]
    drifts = [row["drift"] for row in document["steps"]]
    lines = []
    for target, rows in by(document["cells"], "target").items():
        found = figures.audit_of(rows)
        worst = max(found.errors, key=abs)
        errors = f"{median(found.errors):+.1%}", f"{worst:+.0%}"
        lines.append((KINDS[target].words, len(rows), percent(found.within), *errors))
    header = ["target ", "cells", f"within {figures.BOUND:.0%}", "median error", "worst"]
    return [
        "## The cost model beside the clock",
        f"![Predicted and measured]({PLOTS['predicted']})",
        "Steps were timed on their own before and after each group of runs (`specverify.cost.measure_steps`), "
        "acceptance and proposed lengths are those of the runs, and `specverify.cost.predict` gives the speed. Between "
        f"the two timings a target's single pass changed by a factor of {min(drifts):.2f} to {max(drifts):.2f}.",
        "\n".join(table(header, lines)),
        "\n".join(f"- {fact}" for fact in audit_facts(document)),
    ]


def audit_facts(document):
    if not document:
        return []
    rows = document["cells"]
    found = figures.audit_of(rows)
    within = sum(abs(error) <= figures.BOUND for error in found.errors)
    place = max(range(len(rows)), key=lambda i: abs(found.errors[i]))
    return [
        f"Predicted speed is within {figures.BOUND:.0%} of the measured one in {within} of {len(rows)} cells "
        f"({percent(found.within)}); worst {found.errors[place]:+.0%} ({where(rows[place])})."
    ]
