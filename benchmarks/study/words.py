"""Words and grouping that the tables and plots of the study share."""

from . import grid
from .models import KINDS

NOTHING = "Not measured yet: `make study`."
PLOTS = {"speed-up": "study-speedup.svg", "predicted": "study-predicted.svg", "depth": "study-depth.svg"}


def by(rows, *names):
    """Group rows by one column, or by several, in the order in which they come."""
    found = {}
    for row in rows:
        key = row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)
        found.setdefault(key, []).append(row)
    return found


def draft_words(draft):
    return grid.DRAFT_WORDS.get(draft) or KINDS[draft].words


def percent(value):
    return f"{value:.0%}"


def where(row):
    """Say which cell this is."""
    length = row["k"] if row["k"] in grid.ADAPTIVE else f"k = {row['k']}"
    parts = (KINDS[row["target"]].words, draft_words(row["draft"]), length, f"T = {row['temperature']}", row["domain"])
    return ", ".join(parts)


def machine_words(document):
    machine = document["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    return (
        f"{machine['cpu']}, {machine['os']}, {machine['python']}, NumPy {machine['numpy']}, {versions}; one thread; "
        f"{document['date']}."
    )
