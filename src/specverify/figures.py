"""Figures of what the commands compute. Needs matplotlib, which is imported when a figure is drawn.

Each function draws one figure into a file, SVG, PNG or PDF by its ending; the same numbers give the same bytes of SVG.
Which command makes which figure of the documentation: docs/figures.md.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from . import mutants, proof
from ._result import Verdict
from .experiments import Cell, Replay
from .verify import verify_sampled

# Okabe and Ito's colours, which every kind of eye tells apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "osD^vP"

# One pair of rows on which both famous mistakes show.
EXAMPLE_TARGET = (0.35, 0.25, 0.2, 0.12, 0.08, 0.0)
EXAMPLE_DRAFT = (0.1, 0.4, 0.1, 0.1, 0.2, 0.1)


def require() -> None:
    """Raise an ImportError that says what to install, if there is no matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("figures need matplotlib: pip install matplotlib") from None


def draw_sweep(cells: Sequence[Cell], path: Path) -> None:
    """Draw speed-up against acceptance, and tokens per target pass against draft length with its ceiling k + 1.

    Parameters
    ----------
    cells : sequence of Cell
        From ``experiments.sweep``.
    path : Path
        The file.
    """
    rules = list(dict.fromkeys(cell.rule for cell in cells))
    ks = sorted({cell.k for cell in cells})
    agreements = sorted({cell.agreement for cell in cells})
    with _figure(path, 2) as (left, right):
        for style, rule in zip(("-", "--", ":"), rules, strict=False):
            suffix = f", {rule} rule" if len(rules) > 1 else ""
            for number, k in enumerate(ks):
                mine = sorted(
                    (cell for cell in cells if (cell.rule, cell.k) == (rule, k)), key=lambda one: one.tested_acceptance
                )
                x, y = [one.tested_acceptance for one in mine], [one.speedup for one in mine]
                left.plot(x, y, _MARKERS[number % 6] + style, color=_COLOURS[number % 6], label=f"k = {k}{suffix}")
            for number, agreement in enumerate(agreements):
                mine = sorted(
                    (cell for cell in cells if (cell.rule, cell.agreement) == (rule, agreement)), key=lambda one: one.k
                )
                rate = mine[-1].tested_acceptance
                right.plot(
                    [one.k for one in mine],
                    [one.tokens_per_target_pass for one in mine],
                    _MARKERS[number % 6] + style,
                    color=_COLOURS[number % 6],
                    label=f"acceptance {rate:.2f}{suffix}",
                )
        left.axhline(1.0, color="grey", linewidth=1)
        ratio = cells[0].draft_cost_ratio
        left.set(
            xlabel="tested acceptance",
            ylabel="speed-up over the target alone",
            title=f"A draft pass takes {ratio:g} of a target pass",
        )
        right.plot(ks, [k + 1 for k in ks], color="black", linewidth=1, label="ceiling: k + 1")
        right.set(xlabel="k, drafted tokens in a round", ylabel="tokens per target pass", xticks=ks)
        for axes in (left, right):
            axes.legend(fontsize=7)


def draw_lengths(found: Replay, path: Path) -> None:
    """Draw the histogram of accepted lengths beside its law.

    Parameters
    ----------
    found : Replay
        From ``experiments.replay``.
    path : Path
        The file.
    """
    observed = np.array(found.check.observed)
    n_rounds = observed.sum()
    x = np.arange(len(observed))
    law = np.array(found.law)
    with _figure(path, 1) as (axes,):
        axes.bar(x, observed / n_rounds, 0.6, color=_COLOURS[5], label=f"seen in {n_rounds:,} rounds")
        error = 2 * np.sqrt(law * (1 - law) / n_rounds)
        axes.errorbar(x, law, error, fmt="o", color=_COLOURS[1], capsize=4, label="by law, two standard errors")
        axes.set(
            xlabel="accepted tokens in a round",
            ylabel="share of rounds",
            xticks=x,
            title=f"chi-square {found.check.chi_square:.1f}, p = {found.check.p_value:.2g}",
        )
        axes.legend()


def draw_emitted(path: Path) -> dict[str, float]:
    """Draw the law that this build emits for one pair of rows, and those of the two mistakes that everyone makes.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict of str to float
        The total variation of each from the target. All laws are exact, found by bisection.
    """
    laws = emitted_laws()
    target = np.array(EXAMPLE_TARGET) / sum(EXAMPLE_TARGET)
    x = np.arange(len(target))
    width = 0.8 / (len(laws) + 1)
    with _figure(path, 1, wide=True) as (axes,):
        axes.bar(x - 0.4 + width / 2, target, width, color="black", label="target")
        for number, (name, (law, distance)) in enumerate(laws.items()):
            label = f"{name}: total variation {distance:.2g}"
            axes.bar(x - 0.4 + (number + 1.5) * width, law, width, color=_COLOURS[number], label=label)
        axes.set(xlabel="token", ylabel="probability", xticks=x, title="What comes out at one position")
        axes.legend(fontsize=8)
    return {name: distance for name, (_, distance) in laws.items()}


def emitted_laws() -> dict[str, tuple[list[float], float]]:
    """Give what :func:`draw_emitted` draws: for each verifier the emitted law and its total variation."""
    redrawn = proof.position_law(mutants.MUTANTS["residual_is_target"], EXAMPLE_TARGET, EXAMPLE_DRAFT)
    built = proof.position_law(verify_sampled, EXAMPLE_TARGET, EXAMPLE_DRAFT)

    # A draft that takes its argmax, verified against the softmax it did not draw from.
    def softmax_for_argmax(target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
        verdict: Verdict = verify_sampled(target, np.array([EXAMPLE_DRAFT], np.float32), tokens, uniforms)
        return verdict

    most_likely = int(np.argmax(EXAMPLE_DRAFT))
    argmax = proof.position_law(softmax_for_argmax, EXAMPLE_TARGET, None, token=most_likely)
    found = {
        "this build": built,
        "rejected, redrawn from the target itself": redrawn,
        "argmax draft passed with its softmax": argmax,
    }
    return {name: ([float(one) for one in law.probabilities], law.total_variation) for name, law in found.items()}


@contextmanager
def _figure(path: Path, n_panels: int, *, wide: bool = False) -> Iterator[Sequence[Any]]:
    require()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Text stays text, and the same figure gives the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "specverify", "svg.fonttype": "none"}):
        size = (11 if n_panels == 2 else 9 if wide else 6, 4.5)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, n_panels, squeeze=False)[0]
        yield panels
        for axes in panels:
            axes.grid(True, alpha=0.3)
            axes.set_axisbelow(True)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(path, metadata=metadata)
