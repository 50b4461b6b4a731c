"""Several threads at once, long calls without the GIL, and use after fork.

Data races are looked for here by their result alone: every thread must get what one thread gets.
"""

import multiprocessing
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import golden_rounds
import numpy as np
import pytest

import specverify

THREADS = 8
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def verdict(given: golden_rounds.Round) -> tuple[int, int]:
    if given.greedy:
        return specverify.verify_greedy(given.target, given.tokens)
    return specverify.verify_sampled(
        given.target, given.draft, given.tokens, given.uniforms, normalized=given.normalized
    )


@pytest.fixture(scope="module")
def shared_rounds() -> list[golden_rounds.Round]:
    """Short rounds, which keep the GIL, and long ones, which do not."""
    return [given for given in golden_rounds.rounds(largest=32000, every=11) if given.target.shape[1] > 60]


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Let the interpreter change threads as often as it can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("eager_switching")
def test_threads_on_shared_inputs_get_what_one_thread_gets(shared_rounds: list[golden_rounds.Round]) -> None:
    alone = [verdict(given) for given in shared_rounds]
    together = threading.Barrier(THREADS)

    def run(thread: int) -> list[tuple[int, int]]:
        """All rounds twice, each thread beginning elsewhere, so that different rounds overlap; in order again."""
        first = thread * len(shared_rounds) // THREADS
        order = [*range(first, len(shared_rounds)), *range(first)] * 2
        together.wait()
        found = {}
        for i in order:
            got = verdict(shared_rounds[i])
            assert found.setdefault(i, got) == got
        return [found[i] for i in range(len(shared_rounds))]

    with ThreadPoolExecutor(THREADS) as pool:
        for got in pool.map(run, range(THREADS)):
            assert got == alone


def ticks_during(call: Callable[..., Any], *arguments: Any) -> int:
    """How often another thread, which sleeps a millisecond at a time, woke up in the middle half of one call.

    While a call holds the GIL that thread wakes not even once. At the end of the call it may wake any number of times,
    for as long as a busy machine keeps this thread from going on; so the ends are not looked at.
    """
    ticks: list[float] = []
    over = threading.Event()

    def tick() -> None:
        while not over.is_set():
            time.sleep(0.001)
            ticks.append(time.perf_counter())

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        while len(ticks) < 3:  # it runs
            time.sleep(0.001)
        start = time.perf_counter()
        call(*arguments)
        quarter = (time.perf_counter() - start) / 4
    finally:
        over.set()
        ticker.join()
    return sum(start + quarter < now < start + 3 * quarter for now in ticks)


CLEARLY_INSIDE = 5


def at_least_a_fifth_of_a_second(make: Callable[[int], tuple[Any, ...]], call: Callable[..., Any]) -> tuple[Any, ...]:
    """Arguments of a call that takes long enough for hundreds of ticks, on whatever machine this is."""
    size = 1000
    while True:
        arguments = make(size)
        start = time.perf_counter()
        call(*arguments)
        if time.perf_counter() - start > 0.2:
            return arguments
        size *= 2


def greedy_round(k: int) -> tuple[Any, ...]:
    """All accepted. The k + 1 rows are one row in memory."""
    row = np.arange(32000, dtype=np.float32)
    return np.broadcast_to(row, (k + 1, 32000)), np.full(k, 31999)


def sampled_round(k: int) -> tuple[Any, ...]:
    rows = np.broadcast_to(np.full(32000, 0.25, np.float32), (k + 1, 32000))
    return rows, rows[:k], np.zeros(k, np.int64), np.full(k + 1, 0.5)


@pytest.mark.parametrize(
    ("make", "call"), [(greedy_round, specverify.verify_greedy), (sampled_round, specverify.verify_sampled)]
)
def test_another_thread_runs_during_a_long_call(make: Callable[..., Any], call: Callable[..., Any]) -> None:
    """Three attempts: a busy machine may let the other thread starve, while a call with the GIL never lets it run."""
    arguments = at_least_a_fifth_of_a_second(make, call)
    assert any(ticks_during(call, *arguments) >= CLEARLY_INSIDE for _ in range(3))


@pytest.mark.skipif(FREE_THREADED, reason="this Python has no GIL to hold")
def test_a_call_that_holds_the_gil_would_be_found() -> None:
    """``sum`` of a range runs in C and never lets go."""
    (numbers,) = at_least_a_fifth_of_a_second(lambda size: (range(1000 * size),), sum)
    assert all(ticks_during(sum, numbers) < CLEARLY_INSIDE for _ in range(3))


@pytest.mark.spawns
@pytest.mark.skipif(not FREE_THREADED, reason="this Python always has a GIL")
def test_importing_leaves_the_gil_off() -> None:
    code = "import sys, specverify; assert not sys._is_gil_enabled()"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


def child(rounds: list[golden_rounds.Round], expected: list[tuple[int, int]]) -> None:
    with ThreadPoolExecutor(2) as pool:
        sys.exit(list(pool.map(verdict, rounds)) != expected)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_use_after_fork(shared_rounds: list[golden_rounds.Round]) -> None:
    """A forked child goes on with what the parent had set up, in threads of its own. NumPy's idle threads may make
    Python warn of the fork itself."""
    with ThreadPoolExecutor(2) as pool:
        expected = list(pool.map(verdict, shared_rounds))
    process = multiprocessing.get_context("fork").Process(target=child, args=(shared_rounds, expected))
    process.start()
    process.join(60)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode == 0
