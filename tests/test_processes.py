"""What only a fresh interpreter shows: import, its side effects, and the choice of the variant by the environment."""

import os
import subprocess
import sys

import pytest

import specverify

pytestmark = pytest.mark.spawns


def run(code: str, *options: str, **environment: str) -> subprocess.CompletedProcess:
    inherited = {name: value for name, value in os.environ.items() if name != "SPECVERIFY_ISA"}
    return subprocess.run(
        [sys.executable, *options, "-c", code], env=inherited | environment, capture_output=True, text=True, check=False
    )


def printed(code: str, *options: str, **environment: str) -> str:
    done = run(code, *options, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


IMPORT_EVERYTHING = """
import importlib, pathlib, specverify
from specverify import _isa
for isa in specverify.available_isas():
    importlib.import_module("specverify." + _isa._MODULES[isa])
importlib.import_module("specverify._dlpack")
importlib.import_module("specverify._lookup")
importlib.import_module("specverify.reference")
"""


def test_import_warns_of_nothing():
    """An extension that is not declared safe without the GIL warns on a free-threaded interpreter."""
    assert printed(IMPORT_EVERYTHING, "-W", "error") == ""


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="this Python has no build without the GIL")
def test_import_leaves_the_gil_as_it_was():
    """sqlalchemy/sqlalchemy#13592, fonttools/fonttools#4073."""
    before = printed("import sys; print(sys._is_gil_enabled())")
    assert printed(IMPORT_EVERYTHING + "import sys; print(sys._is_gil_enabled())") == before


def test_import_changes_no_floating_point_mode():
    """A library linked with -ffast-math flushes subnormals to zero in the whole process. numpy/numpy#20895.

    Compared bit by bit with a process that has not imported it, arithmetic of subnormals included.
    """
    code = """
import sys, numpy as np
if sys.argv[1:] == ["import"]:
    import specverify
    from specverify import _isa
    for isa in specverify.available_isas():
        with _isa.using(isa):
            specverify.verify_sampled(np.float32([[1e-40, 1], [0, 1]]), np.float32([[2e-40, 1]]), [0], [.5, .5])
assert np.finfo(np.float32).smallest_subnormal > 0
assert np.float32(1e-40) * np.float32(.5) > 0
assert np.array([5e-324]) > 0
print((np.float32([1e-40, 3e-45]) * np.float32(.5)).tobytes().hex(), (np.array([1e-310]) / 3).tobytes().hex())
print((np.array([1.0, 2.0]) / 3).tobytes().hex(), np.geterr())
"""

    def output(*arguments):
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", code, *arguments], capture_output=True, text=True, check=True
        ).stdout

    assert output("import") == output()


def test_import_needs_no_optional_package():
    """Neither a framework nor a test tool is imported with the package."""
    loaded = printed("import sys, specverify; print(*sorted({name.split('.')[0] for name in sys.modules}))").split()
    for name in ("torch", "jax", "ml_dtypes", "scipy", "matplotlib", "Cython", "pytest"):
        assert name not in loaded


ACTIVE = "import specverify; print(specverify.active_isa())"


@pytest.mark.parametrize("isa", specverify.available_isas())
def test_the_environment_names_the_variant(isa):
    assert printed(ACTIVE, SPECVERIFY_ISA=isa) == isa


@pytest.mark.parametrize("isa", [None, ""])
def test_without_a_name_the_best_variant_is_taken(isa):
    environment = {} if isa is None else {"SPECVERIFY_ISA": isa}
    assert printed(ACTIVE, **environment) == specverify.available_isas()[0]


REFUSALS = """
import os, sys
for os.environ["SPECVERIFY_ISA"] in sys.argv[1:]:
    for name in [name for name in sys.modules if name.split(".")[0] == "specverify"]:
        del sys.modules[name]
    try:
        import specverify
    except ImportError as error:
        print(error)
    else:
        print(specverify.active_isa())
"""


def test_an_unknown_variant_is_an_error_that_lists_the_valid_ones():
    """All in one process, each with an import of its own; the last name is right, and works after the failures."""
    unknown = ["unknown", "x86-64-v9", "GENERIC", "generic,unknown"]
    done = subprocess.run(
        [sys.executable, "-c", REFUSALS, *unknown, "generic"], capture_output=True, text=True, check=True
    )
    valid = ", ".join(specverify.available_isas())
    refusals = [f"SPECVERIFY_ISA: expected one of {valid} on this machine, got {isa!r}" for isa in unknown]
    assert done.stdout.splitlines() == [*refusals, "generic"]


def test_a_variant_of_another_machine_is_an_error():
    """It exists, but not here; its module is not even loaded, which on its own machine's enemy would be fatal."""
    absent = ({"x86-64-v3", "x86-64-v4", "cortex-a76", "generic"} - set(specverify.available_isas())).pop()
    done = run("import specverify", SPECVERIFY_ISA=absent)
    assert done.returncode == 1
    assert "ImportError: SPECVERIFY_ISA: expected one of" in done.stderr
    assert "generic" in done.stderr


def test_all_variants_of_a_process_give_the_same_bits():
    """The golden round of test_kernels.py once more, but with a variant that nothing was selected before."""
    code = """
import numpy as np, specverify
from specverify import _core
rows = np.random.default_rng(1).exponential(size=(5, 32000)).astype(np.float32)
print([mass.hex() for mass in _core.row_masses(rows)], _core.residual_mass(rows[:1], rows[1:2], .7).hex())
"""
    outputs = {printed(code, SPECVERIFY_ISA=isa) for isa in specverify.available_isas()}
    assert len(outputs) == 1
