"""Where and when a line was measured: date, machine, versions. Only lines of one origin stand beside each other."""

import datetime
from importlib.metadata import PackageNotFoundError, version

from specverify import machine

PACKAGES = {"torch": "torch", "transformers": "transformers", "llama-cpp-python": "llama_cpp_python"}


def here_and_now():
    """Give the head of the lines of this run; the version of specverify stands among the machine's entries."""
    found = {}
    for name, package in PACKAGES.items():
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            continue
    return {"date": datetime.date.today().isoformat(), "machine": machine.describe(), "versions": found}


def difference(one, other):
    """Say in what the machines or versions of two heads differ; an empty string if in nothing, whatever the date."""
    mine, yours = (head.get("machine", {}) | head.get("versions", {}) for head in (one, other))
    names = [name for name in {**mine, **yours} if mine.get(name) != yours.get(name)]
    return ", ".join(f"{name} {mine.get(name, 'unknown')} and {yours.get(name, 'unknown')}" for name in names)


def together(heads):
    """Give the head of a document: that of its lines, from the first date to the last."""
    dates = sorted({head["date"] for head in heads})
    return heads[0] | {"date": dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"}
