"""Documents from the lines of a run, tables and plots from the documents. Nothing else writes into the repository."""

from pathlib import Path

from layout import replaced

from . import figures, grid, plots, tables
from .origin import difference, together
from .store import ROOT, Lines, load, save

MARKER = "study"


def write(folder, plan, root, say=print):
    """Store what `folder` holds lines of, then write tables and plots of all that is stored under `root`.

    Raises
    ------
    ValueError
        Lines or documents are of several machines, versions or plans.
    """
    refuse_other_plans(plan, root)
    made = {}
    for name, make in MAKERS.items():
        lines, wanted = Lines(Path(folder) / f"{name}.jsonl"), grid.KEYS[name](plan)
        found = [lines[key] for key in wanted if key in lines]
        say(f"report: {name}: {len(found)} of {len(wanted)} lines")
        if found:
            made[name] = together(lines.heads_of(found)) | {"plan": size_of(plan)} | make(found, plan)
    results = results_in(root)
    documents = {name: made.get(name) or load(name, results) for name in tables.PARTS}
    refuse_other_machines(documents, made, results)
    for name, document in made.items():
        save(name, document, results)
    benchmarks = root / "BENCHMARKS.md"
    if benchmarks.is_file():
        benchmarks.write_text(replaced(benchmarks.read_text(), tables.short(documents), MARKER))
    plots.draw(documents, root / "docs")
    (root / "docs" / "study.md").write_text(tables.page(documents))


def results_in(root):
    return root / "benchmarks" / "results" / "study"


def refuse_other_plans(plan, root):
    """Raise ValueError if results of another plan are published: they are not to be replaced unnoticed."""
    results = results_in(root)
    for name in tables.PARTS:
        document = load(name, results)
        if document and document["plan"]["name"] != plan.name:
            raise ValueError(
                f"{results / name}.json: expected results of the plan {plan.name}, got {document['plan']['name']}: "
                "remove the files of that plan to publish another one"
            )


def refuse_other_machines(documents, made, folder):
    """Raise ValueError if what stays published is not of the machine and the versions of what is new."""
    for new in made.values():
        for name, document in documents.items():
            found = difference(document, new) if document else ""
            if found:
                raise ValueError(f"{folder / name}.json: expected one machine and version, got {found}: remove it")


def size_of(plan):
    """Give the name of a plan, and how much of everything it measures."""
    names = ("name", "tokens", "new_text_prompts", "copy_prompts", "repeats", "close_repeats")
    return {name: getattr(plan, name) for name in names}


def cells_document(lines, plan):
    (vocabulary,) = {line["vocabulary"] for line in lines}
    return {
        "vocabulary": vocabulary,
        "cells": [row for line in lines for row in figures.cells_of(line)],
        "steps": [row for line in lines for row in figures.steps_of(line)],
    }


def identity_document(lines, plan):
    rows = [
        {name: line["key"][name] for name in ("target", "domain")} | cell for line in lines for cell in line["cells"]
    ]
    return {"tokens": plan.identity_tokens, "cells": rows}


def compare_document(lines, plan):
    names = ("rounds", "judgements", "accepted", "rejected")
    return {"rows": [line["key"] | {name: line[name] for name in names} for line in lines]}


def depth_document(lines, plan):
    return {"rows": [row for line in lines for row in line["rows"]]}


MAKERS = {
    "cells": cells_document,
    "identity": identity_document,
    "compare": compare_document,
    "depth": depth_document,
}


def root_of(plan, work):
    """Give the repository for a plan whose figures are published; a folder beside the lines for the quick one."""
    return work / plan.name / "report" if plan.name == grid.QUICK.name else ROOT
