"""Documents from the lines of a run, tables and plots from the documents. Nothing else writes into the repository."""

import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from specverify import measure

from . import cells, compare, depth, figures, grid, identity, plots, tables
from .store import ROOT, Lines, load, save

BEGIN, END = "<!-- study:begin -->", "<!-- study:end -->"
PACKAGES = {"torch": "torch", "transformers": "transformers", "llama-cpp-python": "llama_cpp_python"}


def write(folder, plan_name, root, say=print):
    """Store what `folder` holds lines of, then write tables and plots of all that is stored under `root`."""
    results = root / "benchmarks" / "results" / "study"
    plan = grid.PLANS[plan_name]
    for name, (keys, make) in MAKERS.items():
        lines = Lines(Path(folder) / f"{name}.jsonl")
        found = [lines[key] for key in keys(plan) if key in lines]
        if found:
            save(name, head(plan_name) | make(found, plan), results)
            say(f"report: {name}")
    documents = {name: load(name, results) for name in tables.PARTS}
    benchmarks = root / "BENCHMARKS.md"
    if benchmarks.is_file():
        benchmarks.write_text(replaced(benchmarks.read_text(), tables.short(documents)))
    plots.draw(documents, root / "docs")
    (root / "docs" / "study.md").write_text(tables.page(documents))


def head(plan_name):
    """Give what a document begins with: the machine, the versions, the size of the runs."""
    plan = grid.PLANS[plan_name]
    found = {}
    for name, package in PACKAGES.items():
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.date.today().isoformat(),
        "machine": measure.describe_machine(),
        "versions": found,
        "plan": {
            "name": plan_name,
            "tokens": plan.tokens,
            "new_text_prompts": plan.new_text_prompts,
            "copy_prompts": plan.copy_prompts,
            "repeats": plan.repeats,
        },
    }


def cells_document(lines, plan):
    return {
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
    "cells": (cells.keys, cells_document),
    "identity": (identity.keys, identity_document),
    "compare": (compare.keys, compare_document),
    "depth": (depth.keys, depth_document),
}


def replaced(text, part):
    """Put a generated part between the markers."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"expected one {BEGIN} and one {END}")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{part}\n{END}{rest.partition(END)[2]}"


def root_of(plan_name, work):
    """The repository for a plan whose figures are published; a folder beside the lines for the quick one."""
    return work / plan_name / "report" if plan_name == "quick" else ROOT
