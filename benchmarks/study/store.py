"""Lines of JSON that survive a run that is stopped, and the documents in the repository that are made from them."""

import json
from pathlib import Path

from .origin import difference

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ROOT / "benchmarks" / "results" / "study"


class Lines:
    """One file of results, one JSON object a line, each with a ``key`` that says what it is the result of.

    A line that was being written when the run was stopped has no newline at its end, and counts for nothing.

    Parameters
    ----------
    path : path
        The file.
    head : dict, optional
        Where and when results are measured that are added (origin.py). Without it nothing can be.

    Raises
    ------
    ValueError
        The file has lines of another machine or other versions than `head`'s.
    """

    def __init__(self, path, head=None):
        self.path = Path(path)
        self._head = head
        self._results = {}
        if self.path.is_file():
            whole, _, broken = self.path.read_text().rpartition("\n")
            for line in whole.splitlines():
                result = json.loads(line)
                self._results[_frozen(result["key"])] = result
            if broken:
                self.path.write_text(f"{whole}\n" if whole else "")
        for result in self._results.values() if head else ():
            self._refuse_others(result.get("head") or {}, head)

    def __contains__(self, key):
        return _frozen(key) in self._results

    def __iter__(self):
        return iter(self._results.values())

    def __getitem__(self, key):
        return self._results[_frozen(key)]

    def add(self, key, **result):
        """Write a result; a later one with the same key replaces it when the file is read."""
        result = {"key": key, "head": self._head, **result}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(result) + "\n")
        self._results[_frozen(key)] = result

    def heads_of(self, results):
        """Give the heads of some results, which must be of one origin."""
        heads = [result.get("head") or {} for result in results]
        for head in heads:
            self._refuse_others(head, heads[0])
        return heads

    def _refuse_others(self, head, wanted):
        found = difference(head, wanted)
        if found:
            raise ValueError(f"{self.path}: expected lines of one machine and version, got {found}: remove it")


def _frozen(key):
    return json.dumps(key, sort_keys=True)


def save(name, document, folder=None):
    """Write a document: its head, then one line for each row of each list, so that a difference can be read."""
    folder = Path(folder or DOCUMENTS)
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for key, value in document.items():
        if isinstance(value, list):
            lines = ",\n  ".join(json.dumps(row) for row in value)
            parts.append(f" {json.dumps(key)}: [\n  {lines}\n ]" if value else f" {json.dumps(key)}: []")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    (folder / f"{name}.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")


def load(name, folder=None):
    """Read a document, None if nothing was stored."""
    path = Path(folder or DOCUMENTS) / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else None
