"""What every test may ask for. To import: helpers.py, the exact rule in exact.py, wrong verifiers in mutants.py."""

import pytest
from helpers import EXAMPLES
from hypothesis import settings

import specverify
from specverify import _isa

# Derandomised, so that a run says the same on every machine; no deadline, because no test here is about time.
settings.register_profile("specverify", deadline=None, derandomize=True, max_examples=EXAMPLES)
settings.load_profile("specverify")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "spawns: starts an interpreter or a compiler; left out under sanitizers, not under emulation"
    )


def pytest_collection_modifyitems(config, items):
    """Leave out tests on real models unless -m names them, whatever else it says; pytest reports them as deselected."""
    if "models" in config.getoption("markexpr"):
        return
    left_out = [item for item in items if item.get_closest_marker("models")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("models")]


@pytest.fixture(params=specverify.available_isas())
def isa(request):
    """Run the test once on every variant of the kernels that this machine has."""
    with _isa.using(request.param):
        yield request.param
