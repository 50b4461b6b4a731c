"""What a call costs beside the rows: its fixed cost, and what rows after the first rejection add (nothing)."""

import peers
import pytest

from specverify import active_isa, measure
from specverify.measure import VOCABULARIES, Case, Contender

LONG_K = 16


@pytest.mark.parametrize("inputs", ["NumPy", "torch"])
@pytest.mark.parametrize("operation", ["greedy", "sampled"])
def test_fixed_cost(operation, inputs, benchmark, request):
    calls = measure.fixed_calls(operation)
    if inputs == "torch":
        if peers.torch is None:
            pytest.skip("torch is not installed")
        function, arguments = calls["specverify"]
        calls = {"specverify": (function, tuple(peers.torch.from_numpy(array) for array in arguments))}
    function, arguments = calls["specverify"]
    benchmark.pedantic(function, arguments, iterations=1000, rounds=50, warmup_rounds=1)
    if benchmark.disabled:
        pytest.skip("measured only with --benchmark-enable")
    us = measure.measure_fixed(calls, request.config.getoption("--seconds"))
    benchmark.extra_info["fixed"] = {"operation": operation, "inputs": inputs, "variant": active_isa(), "us": us}


@pytest.mark.parametrize("normalized", [False, True], ids=["exact", "normalized"])
@pytest.mark.parametrize("vocab", VOCABULARIES)
def test_rows_behind_the_rejection(vocab, normalized, benchmark, time_in_turn):
    """A round of K = 16 rejected at 0, beside the same round cut down to K = 1."""
    case = Case("sampled", vocab, LONG_K, rejected_at=0, normalized=normalized)
    rounds = measure.make_rounds(case)
    long = measure.contenders(case, rounds)["specverify"]
    short = [(one.target[:2], one.draft[:1], one.tokens[:1], one.uniforms[[0, -1]]) for one in rounds]
    competing = {"long": long, "short": Contender(long.function, short)}
    measure.check(case, rounds, competing)
    turns, seconds = time_in_turn(competing, warm=True)
    about = {"vocab": vocab, "k": LONG_K, "normalized": normalized, "variant": active_isa()}
    benchmark.extra_info["visited"] = about | turns.result(seconds, "long")
