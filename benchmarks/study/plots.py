"""The plots of docs/study.md, in SVG; the same documents give the same bytes. Needs matplotlib."""

from statistics import median

from . import grid, prompts
from .figures import BOUND
from .models import KINDS
from .words import PLOTS, by, draft_words

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
MARKERS = "osD^vP"


def draw(documents, folder):
    """Draw what there are documents for into a folder."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "specverify"  # the same file from the same results
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    folder.mkdir(parents=True, exist_ok=True)
    if documents["cells"]:
        _save(_speedup(documents["cells"]), folder / PLOTS["speed-up"])
        _save(_predicted(documents["cells"]), folder / PLOTS["predicted"])
    if documents["depth"]:
        _save(_depth(documents["depth"]), folder / PLOTS["depth"])


def _save(figure, path):
    from matplotlib import pyplot

    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _speedup(document):
    """One panel for each target, temperature and kind of text: median speed-up over the domains by draft length."""
    from matplotlib import pyplot

    rows = [row for row in document["cells"] if row["draft"] != "none"]
    kinds = {"new text": prompts.NEW_TEXT, "copies": prompts.COPIES}
    panels = [
        (target, temperature, kind)
        for target, temperature in by(rows, "target", "temperature")
        for kind, domains in kinds.items()
        if _select(rows, target, temperature, domains)
    ]
    columns = min(4, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(
        lines, columns, figsize=(3.2 * columns, 2.9 * lines), sharey=True, squeeze=False, layout="constrained"
    )
    drafts = list(dict.fromkeys(row["draft"] for row in rows))
    places = {k: place for place, k in enumerate(grid.LENGTHS)}
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, (target, temperature, kind) in zip(axes.flat, panels, strict=False):
        mine = _select(rows, target, temperature, kinds[kind])
        for draft, found in by(mine, "draft").items():
            number = drafts.index(draft)
            style = {"color": COLOURS[number % 6], "marker": MARKERS[number % 6]}
            middle = {k: median(row["speedup"][0] for row in cells) for k, cells in by(found, "k").items()}
            fixed = sorted((places[k], value) for k, value in middle.items() if k not in grid.ADAPTIVE)
            axis.plot(*zip(*fixed, strict=True), "-", label=draft_words(draft), **style)
            if grid.AUTO in middle:
                axis.plot([places[grid.AUTO]], [middle[grid.AUTO]], linestyle="none", **style)
        axis.axhline(1.0, color="grey", linewidth=1)
        axis.set_title(f"{KINDS[target].words}, T = {temperature}, {kind}", fontsize=8)
        axis.set(xticks=list(places.values()), xticklabels=list(map(str, places)), xlabel="k, drafted tokens")
        axis.grid(True, alpha=0.3)
        axis.legend(fontsize=7)
    for line in axes:
        line[0].set_ylabel("speed-up")
    return figure


def _select(rows, target, temperature, domains):
    wanted = (target, temperature)
    return [row for row in rows if (row["target"], row["temperature"]) == wanted and row["domain"] in domains]


def _predicted(document):
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 5), layout="constrained")
    for number, (target, rows) in enumerate(by(document["cells"], "target").items()):
        x, y = [row["per_second"][0] for row in rows], [row["predicted"] for row in rows]
        style = {"color": COLOURS[number % 6], "marker": MARKERS[number % 6], "linestyle": "none", "markersize": 4}
        axis.plot(x, y, label=KINDS[target].words, alpha=0.7, **style)
    speeds = [row["per_second"][0] for row in document["cells"]]
    ends = [min(speeds), max(speeds)]
    axis.plot(ends, ends, color="grey", linewidth=1)
    low, high = ([factor * end for end in ends] for factor in (1 - BOUND, 1 + BOUND))
    axis.fill_between(ends, low, high, color="grey", alpha=0.2, label=f"{BOUND:.0%}")
    axis.set(xscale="log", yscale="log", xlabel="measured tokens/s", ylabel="predicted tokens/s")
    axis.legend(fontsize=8)
    axis.grid(True, alpha=0.3)
    return figure


def _depth(document):
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(8, 3.5), sharey=True, layout="constrained")
    series = by(document["rows"], "series")
    target = series["target"][0]["seconds"]
    for axis, (name, column, label) in zip(
        axes,
        (("depth", "layers", "layers, equal parameters"), ("parameters", "parameters", "parameters, equal layers")),
        strict=True,
    ):
        rows = series[name]
        x = [row[column] for row in rows]
        axis.plot(x, [row["seconds"] / target for row in rows], "o-", color=COLOURS[0])
        axis.set(xscale="log", ylim=(0, None), xlabel=label)
        axis.set_xticks(x, [f"{size / 1e6:.0f} M" if column == "parameters" else str(size) for size in x])
        axis.minorticks_off()
        axis.grid(True, alpha=0.3)
    axes[0].set_ylabel("step, as a share of the target's")
    return figure
