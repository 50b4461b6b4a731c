"""Write the tables of BENCHMARKS.md and README.md, and the plot, from the stored results.

    python benchmarks/report.py                           rewrite them from benchmarks/results/*.json
    python benchmarks/report.py --store .work/bench.json  first store what a run of the suite measured

Stored results are documents as ``specverify bench --json`` prints them ("suite": "short") and as the suite in this
folder collects them ("suite": "full"). Tables stand between the marker comments and are never edited by hand. What
needs other packages (peers, rows of a model) is stored with its date, and kept by a later run without them.
"""

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from layout import replaced, table

from specverify import measure
from specverify.cli.bench import as_markdown

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PLOT = ROOT / "docs" / "time.svg"
DATED = ("peers", "models")  # kept by a run that does not measure them
FILTERS = "top-k, top-p, min-p"
MARKER = "bench"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", type=Path, metavar="FILE", help="JSON of pytest-benchmark to take results from")
    options = parser.parse_args()
    if options.store:
        store(json.loads(options.store.read_text())["specverify"])
    documents = load()
    for name, part in tables(documents).items():
        path = ROOT / name
        path.write_text(replaced(path.read_text(), part, MARKER))
    plot(full(documents)[0], PLOT)


def store(document):
    """Write one machine's results, a line for each row."""
    path = RESULTS / f"{slug(document['machine']['cpu'])}.json"
    before = json.loads(path.read_text()) if path.is_file() else {}
    document = document | {kind: document[kind] or before.get(kind, []) for kind in DATED}
    head = {key: value for key, value in document.items() if key not in measure.KINDS}
    parts = [json.dumps(head, indent=1)[:-2]]
    for kind in measure.KINDS:
        lines = ",\n  ".join(json.dumps(row) for row in document[kind])
        parts.append(f' "{kind}": [\n  {lines}\n ]' if lines else f' "{kind}": []')
    path.write_text(",\n".join(parts) + "\n}\n")


def slug(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def load(folder=RESULTS):
    """Read all stored results, in the order of their file names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def full(documents):
    return [document for document in documents if document["suite"] == "full"]


def select(document, **wanted):
    """Give the rows with these values; those of the preferred variant unless `variant` is among them."""
    wanted = {"variant": document["machine"]["variant"], **wanted}
    return among(document["rows"], **wanted)


def among(rows, **wanted):
    """Give the rows with these values, or one of those in a tuple."""
    return [
        row
        for row in rows
        if all(row[key] in value if isinstance(value, tuple) else row[key] == value for key, value in wanted.items())
    ]


class Goal(NamedTuple):
    """A limit on a figure of some rows; `bound` is the figure of a round exactly as fast as the read floor."""

    text: str
    rows: list
    figure: Callable
    limit: float
    at_least: bool = False
    bound: Callable | None = None

    def reached_by(self, figure):
        return figure >= self.limit if self.at_least else figure <= self.limit


def goals(document):
    """Give the goals of the project for this kind of machine."""
    found = []
    places = (("in cache", False), ("from memory", True))
    sampled = {"operation": "sampled", "k": (4, 8), "rejected_at": (None, 0, 1)}
    for place, from_memory in places:
        for vocabularies, limit, chosen in (("every V", 10, {}), ("V = 32,000", 20, {"vocab": 32_000})):
            found.append(
                Goal(
                    f"sampled, {vocabularies}, rows {place}: at least {limit} times as fast as NumPy",
                    select(document, **sampled, **chosen, from_memory=from_memory),
                    lambda row: measure.ratios(row)["numpy"],
                    limit,
                    at_least=True,
                    bound=lambda row: measure.ratios(row)["numpy_at_floor"],
                )
            )
    for end, limit, chosen in (
        ("never rejected, rows in cache", 1.5, {"rejected_at": None, "from_memory": False}),
        ("rejected and redrawn, rows in cache", 2.2, {"rejected_at": (0, 1), "from_memory": False}),
        ("never rejected, rows from memory", 1.3, {"rejected_at": None, "from_memory": True}),
    ):
        found.append(
            Goal(
                f"sampled, {end}: at most {limit} times as long as `np.max` takes to read the same rows",
                select(document, **(sampled | chosen)),
                lambda row: measure.ratios(row)["read"],
                limit,
            )
        )
    for place, from_memory in places:
        found.append(
            Goal(
                f"greedy, rows {place}: at least 1.5 times as fast as `np.argmax` over the rows it must read",
                select(document, **(sampled | {"operation": "greedy"}), from_memory=from_memory),
                lambda row: measure.ratios(row)["argmax"],
                1.5,
                at_least=True,
                bound=lambda row: row["us"]["argmax"] / row["us"]["read"],
            )
        )
    for inputs, limit in (("NumPy", 0.6), ("torch", 5)):
        rows = [row for row in document["fixed"] if row["inputs"] == inputs]
        text = f"fixed cost of a call, {inputs} in: at most {limit} µs"
        found.append(Goal(text, rows, lambda row: row["us"]["specverify"], limit))
    text = "a round of K = 16 rejected at 0: at most 1.3 times as long as one of K = 1"
    found.append(Goal(text, document["visited"], lambda row: row["us"]["long"] / row["us"]["short"], 1.3))
    found += sampler_goals(document) + loop_goals(document) + peer_goals(document)
    return [goal for goal in found if goal.rows]


def sampler_goals(document):
    """Give the goals for logits, sparse rows and batches."""
    found = []
    for settings, words, limit in (
        ("temperature", "a temperature", 8),
        (FILTERS, "top-k 40, top-p .95, min-p .05", 14),
    ):
        rows = among(document["warped"], vocab=32_000, kind="peaked", dtype="float32", settings=settings)
        text = f"a row of logits, {words}, V = 32,000, in cache: at most {limit} times as long as `np.max` over it"
        found.append(Goal(text, rows, lambda row: row["us"]["specverify"] / row["us"]["read"], limit))
    rows = among(document["logits"], vocab=128_256, settings=FILTERS)
    with_torch = [row for row in rows if "torch" in row["us"]]
    text = "a round from logits, all filters, V = 128,256: at least {} times as fast as {}"
    for name, one, us, limit in (("torch", with_torch, torch_us, 20), ("NumPy", rows, measure.numpy_us, 10)):
        figure = ratio_to(us)
        found.append(Goal(text.format(limit, name), one, figure, limit, at_least=True))
    text = "a round of sparse rows, top 40 on both sides: at most 10 µs"
    found.append(Goal(text, document["sparse"], lambda row: row["us"]["specverify"], 10))
    text = "a batch of 32 requests, K = 4, V = 32,000: at least 1.8 times as fast on two threads as on one"
    found.append(Goal(text, document["batches"], on_two_threads, 1.8, True, reading_on_two_threads))
    found.append(Goal("one more request in a batch: at most 0.2 µs", document["requests"], us_of_a_request, 0.2))
    return found


def loop_goals(document):
    """Give the goals for the draft/verify loop and its drafts without a model."""
    text = "the draft/verify loop, K = 4, V = 32,000: at most 40 µs a round beside verification"
    lookups = "1,000 lookups in a text that grows to 50,000 tokens: at most 20 ms, the index included"
    return [
        Goal(text, document["loops"], us_of_the_loop, 40),
        Goal(lookups, document["lookups"], lambda row: row["us"]["specverify"] / 1000, 20),
    ]


def peer_goals(document):
    rows = [row for row in document["peers"] if "transformers" in row["us"]]
    text = "at least 50 times as fast as transformers' function, {}"
    return [
        Goal(text.format(words), rows, ratio_to(lambda us: us["transformers"], mine), 50, at_least=True)
        for words, mine in (("from probabilities", "specverify"), ("from logits as that", "specverify_logits"))
    ]


def ratio_to(other, mine="specverify"):
    return lambda row: other(row["us"]) / row["us"][mine]


def us_of_the_loop(row):
    return (row["us"]["specverify"] - row["us"]["verification"]) / row["rounds"]


def torch_us(us):
    return us["torch"]


def on_two_threads(row):
    return row["us"]["threads_1"] / row["us"]["threads_2"]


def reading_on_two_threads(row):
    return row["us"]["read_1"] / row["us"]["read_2"]


def us_of_a_request(row):
    return (row["us"]["many"] - row["us"]["few"]) / (row["many"] - row["few"])


def goal_table(goals):
    lines = []
    for goal in goals:
        figures = [goal.figure(row) for row in goal.rows]
        worst = (min if goal.at_least else max)(figures)
        missed = [row for row, figure in zip(goal.rows, figures, strict=True) if not goal.reached_by(figure)]
        cases = f"{len(goal.rows) - len(missed)} of {len(goal.rows)}"
        if missed and goal.bound:
            cases += f"; reading alone rules out {sum(not goal.reached_by(goal.bound(row)) for row in missed)}"
        where = words(goal.rows[figures.index(worst)])
        lines.append([goal.text, "no" if missed else "yes", cases, number(worst), where])
    return table(["goal ", "reached ", "in cases ", "worst", "where "], lines)


def words(row):
    """Say in a few words which row this is."""
    parts = [f"V = {row['vocab']:,}"] if "vocab" in row else []
    parts += [row["operation"]] if "operation" in row and "inputs" in row else []
    parts += ["normalized"] if row.get("normalized") else []
    parts += [row[key] for key in ("settings", "rows", "text") if key in row]
    if "rejected_at" in row:
        parts += [f"K = {row['k']}", f"rejected {rejection(row)}"]
    return ", ".join(parts)


def rejection(row):
    return "never" if row["rejected_at"] is None else f"at {row['rejected_at']}"


def number(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def time_table(document, **wanted):
    """Lay out rows with those in cache left and those from memory right."""
    ratio_names = ("NumPy", "argmax", "read") if wanted["operation"] == "greedy" else ("NumPy", "read")
    columns = ["µs", "GB/s", *(f"{name} ×" for name in ratio_names)]
    places = [f"{place}: µs" if column == "µs" else column for place in ("cache", "memory") for column in columns]
    lines = []
    for cached in select(document, from_memory=False, **wanted):
        same = {key: cached[key] for key in ("operation", "vocab", "k", "rejected_at", "normalized", "variant")}
        (streamed,) = select(document, from_memory=True, **same)
        cells = [f"{cached['vocab']:,}", str(cached["k"]), rejection(cached)]
        for row in (cached, streamed):
            found = measure.ratios(row)
            cells += [number(row["us"]["specverify"]), number(found["gb_per_s"])]
            cells += [number(found[name.lower()]) for name in ratio_names]
        lines.append(cells)
    return table(["V", "K", "rejected ", *places], lines)


def peer_table(document):
    rows = [row for row in select(document) if "torch" in row["us"]]
    if not rows:
        return ["torch was not installed."]
    lines = []
    for row in rows:
        us = row["us"]
        times = (us["specverify"], measure.numpy_us(us), us["torch"], us["torch_multinomial"])
        trust = "trusted" if row["normalized"] else "summed"
        lines.append([f"{row['vocab']:,}", trust, rejection(row), *map(number, times)])
    columns = ("specverify µs", "NumPy µs", "torch, given uniform µs", "torch, multinomial µs")
    return table(["V", "rows ", "rejected ", *columns], lines)


def call_tables(document):
    lines = []
    for row in document["fixed"]:
        numpy = number(measure.numpy_us(row["us"])) if "numpy_lazy" in row["us"] else ""
        lines.append([row["operation"], row["inputs"], number(row["us"]["specverify"]), numpy])
    found = table(["call, K = 4, V = 8 ", "inputs ", "µs", "NumPy µs"], lines)
    lines = []
    for row in document["visited"]:
        long, short = row["us"]["long"], row["us"]["short"]
        trust = "trusted" if row["normalized"] else "summed"
        lines.append([f"{row['vocab']:,}", trust, number(long), number(short), number(long / short)])
    return [*found, "", *table(["V", "rows ", "K = 16, rejected at 0, µs", "K = 1, µs", "ratio"], lines)]


def warped_table(document):
    header = [
        "V",
        "rows ",
        *(f"{settings}{unit}" for settings in settings_of(document) for unit in (", µs", ", read ×")),
    ]
    lines = []
    kinds = dict.fromkeys((row["vocab"], row["kind"], row["dtype"]) for row in document["warped"])
    for vocab, kind, dtype in kinds:  # the same settings for all
        cells = [f"{vocab:,}", kind if dtype == "float32" else f"{kind}, {dtype}"]
        for settings in settings_of(document):
            (row,) = among(document["warped"], vocab=vocab, kind=kind, dtype=dtype, settings=settings)
            us = row["us"]
            cells += [number(us["specverify"]), number(us["specverify"] / us["read"])]
        lines.append(cells)
    return table(header, lines)


def settings_of(document):
    return list(dict.fromkeys(row["settings"] for row in document["warped"]))


def logit_table(document):
    lines = []
    for row in document["logits"]:
        us, numpy = row["us"], measure.numpy_us(row["us"])
        cells = [f"{row['vocab']:,}", row["settings"], rejection(row), number(us["specverify"])]
        cells += [number(numpy), number(numpy / us["specverify"])]
        cells += [number(us["torch"]), number(us["torch"] / us["specverify"])] if "torch" in us else ["", ""]
        lines.append([*cells, number(us["specverify"] / us["read"])])
    header = ["V", "settings ", "rejected ", "specverify µs", "NumPy µs", "NumPy ×", "torch µs", "torch ×", "read ×"]
    return table(header, lines)


def sparse_table(document):
    lines = [
        [f"{row['vocab']:,}", rejection(row), number(row["us"]["specverify"]), number(row["us"]["make"])]
        for row in document["sparse"]
    ]
    return table(["V", "rejected ", "µs", "to make the rows from arrays, µs"], lines)


def batch_tables(document):
    lines = []
    for row in document["batches"]:
        us = row["us"]
        sizes = [str(row["requests"]), str(row["k"]), f"{row['vocab']:,}"]
        times = [us["threads_1"], us["threads_2"], on_two_threads(row), reading_on_two_threads(row)]
        lines.append([*sizes, *map(number, times)])

    def more(row):
        return f"{us_of_a_request(row):.3f}"

    found = table(["requests", "K", "V", "one thread, µs", "two threads, µs", "two threads ×", "`np.max` ×"], lines)
    lines = [
        [str(row["few"]), number(row["us"]["few"]), f"{row['many']:,}", number(row["us"]["many"]), more(row)]
        for row in document["requests"]
    ]
    header = ["requests, K = 1, V = 8", "µs", "requests", "µs", "one more request, µs"]
    return [*found, "", *table(header, lines)]


def block_tables(document):
    """Tokens per target pass and times, first of made rows, then of a model's."""
    lines = []
    for row in document["block"]:
        if row["tokens"]:
            lines.append([row["pair"], str(row["vocab"]), str(row["k"]), *gain(row["tokens"])])
    header = ["pair of Markov models ", "V", "K", "token rule", "block rule", "more tokens, %"]
    found = ["Tokens per target pass, exact:", "", *table(header, lines)]
    lines = [
        [f"{row['vocab']:,}", str(row["k"]), row["pair"], *extra(row["us"])] for row in document["block"] if row["us"]
    ]
    header = ["V", "K", "rows ", "token rule, µs", "block rule, µs", "more, µs"]
    found += ["", "Time of rounds that end as they may:", "", *table(header, lines)]

    def error(row):
        return number(100 * row["tokens"]["error"] / row["tokens"]["token"])

    if document["models"]:
        first = document["models"][0]
        versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
        found += [
            "",
            f"On rows of {first['model']}, V = {first['vocab']:,}, from logits ({first['date']}, {versions}):",
        ]
        lines = [
            [row["draft"], str(row["k"]), str(row["drafts"]), *gain(row["tokens"]), error(row), *extra(row["us"])]
            for row in document["models"]
        ]
        header = ["draft: the same model, ", "K", "drafts", "token rule", "block rule", "more tokens, %"]
        header += ["standard error, %", "token rule, µs", "block rule, µs", "more, µs"]
        found += ["", *table(header, lines)]
    return found


def loop_table(document):
    lines = [
        [
            row["rows"],
            number(row["us"]["specverify"] / row["rounds"]),
            number(row["us"]["verification"] / row["rounds"]),
            number(us_of_the_loop(row)),
        ]
        for row in document["loops"]
    ]
    return table(["rows ", "a round, µs", "verification, µs", "the rest, µs"], lines)


def lookup_table(document):
    lines = []
    for row in document["lookups"]:
        us = row["us"]
        lengths = f"{row['min_n']} to {row['max_n']}"
        each = us["specverify"] / row["lookups"]
        lines.append([row["text"], lengths, number(us["specverify"] / 1000), number(each), number(us["numpy_scan"])])
    header = [
        "text ",
        "matches ",
        "1,000 lookups and the index, ms",
        "each, µs",
        "one NumPy scan of 25,000 tokens, µs",
    ]
    return table(header, lines)


def gain(tokens):
    more = 100 * (tokens["block"] / tokens["token"] - 1)
    return [f"{tokens['token']:.3f}", f"{tokens['block']:.3f}", f"{more:.1f}"]


def extra(us):
    return [number(us["token"]), number(us["block"]), number(us["block"] - us["token"])]


def other_table(document):
    """Lay out what other packages take on the same arrays."""
    if not document["peers"]:
        return ["No peer was installed."]
    names = {
        "specverify": "specverify",
        "specverify_trusted": "specverify, trusted",
        "specverify_logits": "specverify, logits",
        "numpy": "NumPy",
        "numba": "numba, trusted",
        "jax": "JAX, trusted",
        "torch": "torch, trusted",
        "vllm": "vLLM's C++",
        "transformers": "transformers, logits",
    }
    rows = [row | {"us": row["us"] | {"numpy": measure.numpy_us(row["us"])}} for row in document["peers"]]
    present = {key: name for key, name in names.items() if all(key in row["us"] for row in rows)}
    lines = [
        [f"{row['vocab']:,}", rejection(row), *(number(row["us"][key]) for key in present)]
        + ([number(ratio_to(lambda us: us["transformers"], mine)(row)) for mine in ("specverify", "specverify_logits")])
        for row in rows
        if "transformers" in row["us"]
    ]
    versions = ", ".join(f"{name} {version}" for name, version in rows[0]["versions"].items())
    header = ["V", "rejected ", *(f"{name} µs" for name in present.values()), "transformers ×", "from logits ×"]
    return [f"Measured {rows[0]['date']} with {versions}.", "", *table(header, lines)]


def machine_table(machine):
    cells = {
        "processor": f"{machine['cpu']}, {machine['cores']} cores, largest cache {machine['cache_bytes'] >> 20} MiB",
        "system": machine["os"],
        "Python, NumPy": f"{machine['python']}, NumPy {machine['numpy']}",
        "compiler": machine["compiler"],
        "flags": f"`{machine['flags']}`",
        "variant in use": f"`{machine['variant']}`, of {', '.join(machine['variants'])}",
        "specverify": machine["specverify"],
    }
    return ["| | |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in cells.items())]


def full_section(document):
    machine = document["machine"]
    lines = [f"## Measured: {machine['cpu']}", "", *machine_table(machine)]
    turns, interruptions = (sum(row[key] for row in document["rows"]) for key in ("turns", "interruptions"))
    lines += [f"| interruptions by other processes | {interruptions:,} in {turns:,} turns |"]
    lines += ["", "### Goals", "", *goal_table(goals(document))]
    parts = {
        "Sampled": {"operation": "sampled", "normalized": False},
        "Sampled, `normalized=True`": {"operation": "sampled", "normalized": True},
        "Greedy": {"operation": "greedy"},
    }
    for title, wanted in parts.items():
        lines += ["", f"### {title}", "", *time_table(document, **wanted)]
    for variant in machine["variants"]:
        if variant != machine["variant"]:
            for title, wanted in parts.items():
                lines += ["", f"### {title}: variant `{variant}`", ""]
                lines += time_table(document, variant=variant, **wanted)
    lines += ["", "### Peers, K = 4, rows in cache", "", *peer_table(document)]
    lines += ["", "### What a call costs beside the rows", "", *call_tables(document)]
    later = {
        "A row of logits": ("warped", warped_table),
        "Rounds from logits, K = 4, rows in cache": ("logits", logit_table),
        "Sparse rounds, K = 4, 40 tokens a row": ("sparse", sparse_table),
        "Batches": ("batches", batch_tables),
        "Block rule": ("block", block_tables),
        "The loop, with models that answer at once, K = 4, V = 32,000": ("loops", loop_table),
        "Lookups in a text that grows to 50,000 tokens": ("lookups", lookup_table),
        "Other packages on the same arrays, K = 4": ("peers", other_table),
    }
    for title, (kind, layout) in later.items():
        if document[kind]:
            lines += ["", f"### {title}", "", *layout(document)]
    return lines


def benchmarks_tables(documents):
    lines = []
    for document in full(documents):
        lines += [*full_section(document), ""]
    for document in documents:
        if document["suite"] == "short":
            lines += [f"## Measured by `specverify bench`: {document['machine']['cpu']}", "", as_markdown(document), ""]
    return "\n".join(lines).rstrip()


def readme_table(document):
    rounds = {
        "greedy, all accepted": {"operation": "greedy", "rejected_at": None},
        "sampled, all accepted": {"operation": "sampled", "normalized": False, "rejected_at": None},
        "sampled, the first rejected": {"operation": "sampled", "normalized": False, "rejected_at": 0},
        "normalized, all accepted": {"operation": "sampled", "normalized": True, "rejected_at": None},
        "normalized, the first rejected": {"operation": "sampled", "normalized": True, "rejected_at": 0},
    }
    lines = []
    for title, wanted in rounds.items():
        cells = [title]
        for vocab in measure.VOCABULARIES:
            (row,) = select(document, vocab=vocab, k=4, from_memory=False, **wanted)
            us = row["us"]
            cells.append(f"**{number(us['specverify'])}** / {number(measure.numpy_us(us))} / {number(us['read'])}")
        lines.append(cells)
    header = ["K = 4; µs: specverify / NumPy / reading ", *(f"V = {vocab:,}" for vocab in measure.VOCABULARIES)]
    lines = table(header, lines)
    machine = document["machine"]
    lines += ["", f"{machine['cpu']}, variant `{machine['variant']}`, {machine['python']}, NumPy {machine['numpy']}."]
    return "\n".join(lines)


def tables(documents):
    """Give each file's generated part."""
    return {"README.md": readme_table(full(documents)[0]), "BENCHMARKS.md": benchmarks_tables(documents)}


def plot(document, path):
    """Draw time against V and against K, all accepted, rows in cache."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "specverify"  # the same file from the same results
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    from matplotlib import pyplot

    kinds = {
        "sampled": {"operation": "sampled", "normalized": False},
        "sampled, normalized": {"operation": "sampled", "normalized": True},
        "greedy": {"operation": "greedy"},
    }
    styles = {"specverify": "o-", "NumPy": "s--", "reading the rows": ".:"}
    figure, panels = pyplot.subplots(2, 3, figsize=(11, 7), sharey="row", layout="constrained")
    sides = (("V", "vocab", {"k": 4}, "K = 4"), ("K", "k", {"vocab": 128_256}, "V = 128,256"))
    for line, (label, key, fixed, title) in zip(panels, sides, strict=True):
        for axes, (kind, wanted) in zip(line, kinds.items(), strict=True):
            rows = sorted(
                select(document, **wanted, **fixed, rejected_at=None, from_memory=False), key=lambda row: row[key]
            )
            for name, style in styles.items():
                time = {
                    "specverify": lambda us: us["specverify"],
                    "NumPy": measure.numpy_us,
                    "reading the rows": lambda us: us["read"],
                }[name]
                axes.plot([row[key] for row in rows], [time(row["us"]) for row in rows], style, label=name)
            axes.set(title=f"{kind}, {title}", xlabel=label, yscale="log", xticks=[row[key] for row in rows])
            axes.tick_params(axis="x", labelsize=8)
            axes.grid(True, alpha=0.3)
        line[0].set_ylabel("µs a round")
    panels[0][0].legend()
    figure.suptitle(f"All accepted, rows in cache: {document['machine']['cpu']}")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()
