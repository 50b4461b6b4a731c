"""Options and fixtures of the measurements."""

import json

import pytest

from specverify import _isa, measure


def pytest_addoption(parser):
    parser.addoption("--seconds", type=float, default=0.5, help="time for each row (default: %(default)s)")


def pytest_collection_modifyitems(items):
    """Measure beside peers last: they load frameworks into this process."""
    items.sort(key=lambda item: item.path.name == "test_peers.py")


@pytest.fixture(params=_isa.available_isas())
def variant(request):
    """Use each variant of the row loops in turn."""
    with _isa.using(request.param):
        yield request.param


@pytest.fixture
def time_in_turn(benchmark, request):
    """Have pytest-benchmark time the subject, and every other contender before each of its calls."""

    def run(competing, *, warm):
        turns = measure.Turns(competing, warm=warm)
        count = turns.count_for(request.config.getoption("--seconds"))
        benchmark.pedantic(turns.subject.function, setup=lambda: (turns.time_others(), {}), rounds=count)
        if benchmark.disabled:
            pytest.skip("measured only with --benchmark-enable")
        return turns, benchmark.stats.stats.data

    return run


def pytest_benchmark_update_json(config, benchmarks, output_json):
    """Collect the rows that the measurements left in `extra_info` into the document that report.py stores."""
    document = measure.document("full")
    for one in output_json["benchmarks"]:
        for kind, row in one["extra_info"].items():
            document[kind].append(row)
    output_json["specverify"] = json.loads(json.dumps(document))
