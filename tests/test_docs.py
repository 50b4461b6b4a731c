"""What README.md and DESIGN.md show is executed here: their Python blocks, and the output printed beneath them."""

import contextlib
import doctest
import io
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

NOT_RUN = re.compile(r"<!-- not run: it needs a model -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: str) -> list[tuple[str, str]]:
    return FENCE.findall((ROOT / document).read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", ["README.md", "DESIGN.md", "docs/ancestors.md"])
def test_python_blocks_print_what_is_shown(document: str) -> None:
    """Blocks share one namespace in order; a block without a language right after one is its output.

    Marked as not run are those that need a model; of them only the syntax is looked at, and that they are few.
    """
    namespace: dict[str, object] = {}
    not_run = NOT_RUN.findall((ROOT / document).read_text(encoding="utf-8"))
    assert len(not_run) <= 1
    for (language, code), (next_language, shown) in itertools.pairwise([*blocks(document), ("end", "")]):
        if language != "python":
            continue
        if code in not_run:
            compile(code, document, "exec")
            continue
        if code.lstrip().startswith(">>>"):
            run_as_doctest(code, namespace, document)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, document, "exec"), namespace)
        if printed.getvalue() or not next_language:
            assert printed.getvalue() == shown


def run_as_doctest(code: str, namespace: dict[str, object], document: str) -> None:
    test = doctest.DocTestParser().get_doctest(code, namespace, document, document, 0)
    report = io.StringIO()
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.write, clear_globs=False)
    namespace.update(test.globs)
    assert tried > 0
    assert failed == 0, report.getvalue()


def test_readme_has_something_to_run() -> None:
    assert sum(language == "python" for language, _ in blocks("README.md")) >= 2


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "DESIGN.md",
        "CONTRIBUTING.md",
        "BENCHMARKS.md",
        "CHANGELOG.md",
        *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
    ],
)
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for link, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", text):
        path = (ROOT / document).parent / link if link else ROOT / document
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), f"{link}#{anchor}"


def anchors(path: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_promises_the_wheels_that_are_built() -> None:
    """tools/lint.sh compares the same list with what the configuration selects."""
    identifiers = (ROOT / "tools" / "wheel_identifiers.txt").read_text(encoding="utf-8").split()
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    promised = re.search(
        r"built for CPython ([\d., t]+and the free-threaded [\d.t]+), manylinux, x86-64 and aarch64", readme
    )
    assert promised
    versions = re.findall(r"3\.(\d+t?)", promised[1])
    architectures = ("x86_64", "aarch64")
    assert sorted(identifiers) == sorted(f"cp3{v}-manylinux_{a}" for v in versions for a in architectures)
