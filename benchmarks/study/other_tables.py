"""Tables and sentences of the two rules on the same rows, and of depth and parameters."""

from layout import table

from . import grid
from .grid import RULES
from .models import KINDS
from .words import NOTHING, PLOTS, percent


def compare_section(document):
    if not document:
        return ["## Rejection, or sample and compare", NOTHING]
    rows = [
        (row["domain"], row["rounds"], *(percent(acceptance(row, rule)) for rule in RULES)) for row in document["rows"]
    ]
    first = document["rows"][0]
    return [
        "## Rejection, or sample and compare",
        "Tested acceptance of both rules on the same rows at temperature 1: target "
        f"{KINDS[first['target']].words}, draft {KINDS[first['draft']].words}, k = {first['k']}, each round judged "
        f"{first['judgements']} times. Sample-and-compare draws from the target's row and keeps a drafted token that "
        "is the one drawn; the server of llama.cpp and mlx-lm do it.",
        "\n".join(table(["domain ", "rounds", *RULES], rows)),
    ]


def compare_facts(document):
    if not document:
        return []
    rates = {rule: [acceptance(row, rule) for row in document["rows"]] for rule in RULES}
    low, high = (f"{percent(min(rates[rule]))} to {percent(max(rates[rule]))}" for rule in RULES[::-1])
    return [f"On the same rows at temperature 1 sample-and-compare accepts {low}, rejection {high}."]


def acceptance(row, rule):
    return row["accepted"][rule] / (row["accepted"][rule] + row["rejected"][rule])


def depth_section(document):
    if not document:
        return ["## Depth or parameters", NOTHING]
    target = next(row for row in document["rows"] if row["series"] == "target")
    rows = []
    for row in document["rows"]:
        share = row["seconds"] / target["seconds"]
        most = "" if row is target else f"{(grid.DEPTH_K + 1) / (1 + grid.DEPTH_K * share):.2f}"
        size = f"{row['parameters'] / 1e6:.1f} M"
        times = f"{1e3 * row['seconds']:.2f}", f"{share:.3f}"
        rows.append((row["series"], row["layers"], row["width"], size, *times, most))
    header = ["series ", "layers", "width", "parameters", "ms", "c", f"at most, k = {grid.DEPTH_K}"]
    return [
        "## Depth or parameters",
        f"![Cost of a draft's step]({PLOTS['depth']})",
        "Random weights, transformers float32, one token after a text of "
        f"{grid.DEPTH_CONTEXT}; c is the step as a share of the target's, and (k + 1) / (1 + k c) the most that any "
        "acceptance could gain if a pass over k + 1 tokens cost no more than one over a single token.",
        "\n".join(table(header, rows)),
        "\n".join(f"- {fact}" for fact in depth_facts(document)),
    ]


def depth_facts(document):
    if not document:
        return []
    found = {}
    for name in ("depth", "parameters"):
        rows = [row for row in document["rows"] if row["series"] == name]
        column = "layers" if name == "depth" else "parameters"
        found[name] = rows[-1]["seconds"] / rows[0]["seconds"], rows[-1][column] / rows[0][column]
    sentence = "{1:.0f} times the {2} make a draft's step {0:.1f} times as long"
    return [
        sentence.format(*found["depth"], "layers at equal parameters")
        + "; "
        + sentence.format(*found["parameters"], "parameters at equal depth")
        + "."
    ]
