"""The package as its user meets it: public names, docstrings, examples, stubs, and what the result is."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import specverify
from specverify import _core, reference
from specverify._batch import Options

PACKAGE = Path(specverify.__file__).parent
PUBLIC_FUNCTIONS = [name for name in specverify.__all__ if inspect.isfunction(getattr(specverify, name))]


def test_all_names_what_is_public():
    public = {
        name for name, value in vars(specverify).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert set(specverify.__all__) == public
    assert specverify.__all__ == sorted(specverify.__all__)


@pytest.mark.parametrize("name", specverify.__all__)
def test_every_public_name_is_typed_and_says_what_it_is(name):
    value = getattr(specverify, name)
    assert value.__doc__
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(parameter.annotation is not inspect.Parameter.empty for parameter in signature.parameters.values())


@pytest.mark.parametrize("name", specverify.__all__)
def test_every_public_name_is_in_the_readme(name):
    assert name in (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()


def parameters_of(function) -> list[str]:
    """Names of all parameters, those that come in as options by their own names."""
    names = list(inspect.signature(function).parameters)
    return [*names[:-1], *Options.__annotations__] if "options" in names else names


def test_the_oracle_has_the_same_signatures():
    """What concerns one round: batches, threads and details are not its business."""
    beyond_one_round = {"lengths", "cu_lengths", "threads", "on_error", "detail", "out"}
    for name in ("verify_greedy", "verify_sampled", "verify_block"):
        fast, slow = parameters_of(getattr(specverify, name)), parameters_of(getattr(reference, name))
        if name == "verify_greedy":
            fast.remove("sampling")
        assert slow == [parameter for parameter in fast if parameter not in beyond_one_round]


def test_the_oracle_imports_nothing_of_the_package():
    imported = set()
    for path in Path(reference.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                assert node.level <= 1
                imported.add("." * node.level + (node.module or ""))
    assert imported == {"typing", "numpy", ".rounds", ".sums", ".warp"}


def sections(docstring: str) -> dict[str, str]:
    """The sections of a numpydoc docstring: each title is underlined with hyphens."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def documented_parameters(docstring: str) -> list[str]:
    """Names that begin an entry, which may be several, and options by their own names where they are spelled out."""
    entries = re.findall(r"^(\S[\w*, ]*?)(?: : .*)?$", sections(docstring).get("Parameters", ""), flags=re.MULTILINE)
    return [name.strip("* ") for entry in entries for name in entry.split(",")]


@pytest.mark.parametrize("name", PUBLIC_FUNCTIONS)
def test_docstrings_are_numpydoc(name):
    function = getattr(specverify, name)
    summary = inspect.cleandoc(function.__doc__).split("\n\n")[0]
    assert "\n" not in summary
    assert summary.endswith(".")
    assert "Returns" in sections(function.__doc__)
    documented = documented_parameters(function.__doc__)
    assert documented in (list(inspect.signature(function).parameters), parameters_of(function))


@pytest.mark.parametrize("name", ["verify_greedy", "verify_sampled"])
def test_docstrings_of_operations_are_complete(name):
    found = sections(getattr(specverify, name).__doc__)
    assert list(found) == ["Parameters", "Returns", "Raises", "Notes", "References", "Examples"]
    for error in ("TypeError", "ValueError"):
        assert error in found["Raises"]


MODULES = ["specverify", *(module.name for module in pkgutil.walk_packages([str(PACKAGE)], "specverify."))]
PURE = [name for name in MODULES if not name.startswith("specverify._k") and name != "specverify.__main__"]


@pytest.mark.parametrize("name", PURE)
def test_examples_run(name):
    """Doctests of every module; that there are some where they matter is the next test."""
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_operations_have_examples():
    found = {test.name: len(test.examples) for test in doctest.DocTestFinder().find(specverify.verify_sampled)}
    assert found["verify_sampled"] >= 4
    found = {test.name: len(test.examples) for test in doctest.DocTestFinder().find(specverify.verify_greedy)}
    assert found["verify_greedy"] >= 3


@pytest.mark.parametrize("module", ["_core", "_dlpack", "_lookup"])
def test_stubs_say_what_the_compiled_modules_have(module):
    stub = PACKAGE / f"{module}.pyi"
    assert stub.is_file()
    compiled = importlib.import_module(f"specverify.{module}")
    tree = ast.parse(stub.read_text())
    functions = {node.name: [x.arg for x in node.args.args] for node in tree.body if isinstance(node, ast.FunctionDef)}
    public = {name: value for name, value in vars(compiled).items() if callable(value) and is_own(value, module)}
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert classes == {name for name, value in public.items() if isinstance(value, type)}
    assert functions.keys() == public.keys() - classes
    for name, parameters in functions.items():
        assert list(inspect.signature(public[name]).parameters) == parameters
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            assert hasattr(compiled, node.target.id)


def is_own(value, module: str) -> bool:
    """Defined in this compiled module; what it imported from elsewhere says so."""
    return getattr(value, "__module__", None) == f"specverify.{module}" and not value.__name__.startswith("__")


def test_the_result_is_a_named_tuple_of_python_ints():
    for verdict in (
        specverify.verify_greedy([[0.0, 1.0]], []),
        specverify.verify_sampled([[0.0, 1.0]], None, [], [0.5]),
    ):
        assert type(verdict) is specverify.Verdict
        assert isinstance(verdict, tuple)
        assert [type(value) for value in verdict] == [int, int]
        assert (verdict.n_accepted, verdict.next_token) == tuple(verdict) == (0, 1)
        assert repr(verdict) == "Verdict(n_accepted=0, next_token=1)"
        assert verdict == reference.Verdict(0, 1)


def test_results_are_independent_objects():
    """They are filled in place by C: one must not be the other."""
    first = specverify.verify_greedy([[0.0] * 300 + [1.0]], [])
    second = specverify.verify_greedy([[0.0] * 400 + [1.0]], [])
    assert (first, second) == ((0, 300), (0, 400))
    assert first._replace(n_accepted=5) == (5, 300)


def test_raw_masses_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="one row of the same length"):
        _core.residual_mass([[1.0, 2.0]], [[1.0]], 1.0)
    with pytest.raises(ValueError, match="one row of the same length"):
        _core.residual_mass([[1.0], [2.0]], [[1.0]], 1.0)
    with pytest.raises(TypeError):
        _core.cpu_runs(None)


def test_the_generic_variant_is_always_there_and_last():
    assert specverify.available_isas()[-1] == "generic"
    assert specverify.active_isa() in specverify.available_isas()


def test_a_variant_is_used_inside_its_block_and_not_after(isa):
    before = specverify.active_isa()
    for other in specverify.available_isas():
        with specverify._isa.using(other):
            assert specverify.active_isa() == other
    with pytest.raises(ZeroDivisionError), specverify._isa.using("generic"):
        raise ZeroDivisionError
    assert specverify.active_isa() == before == isa


def test_an_unknown_variant_is_refused_and_changes_nothing(isa):
    with pytest.raises(ImportError, match=r"expected one of .*generic.*, got 'unknown'"):
        specverify._isa.select("unknown")
    assert specverify.active_isa() == isa
    assert not _core.cpu_runs("unknown")


def test_get_include_holds_the_header():
    assert (Path(specverify.get_include()) / "specverify" / "kernels.h").is_file()
    assert Path(specverify.get_include()).is_absolute()
