"""The requests of a batch over several threads.

Holds the pool: native threads that the core runs without the GIL. Each takes the next request that nobody has, so
results do not depend on the number of threads or their order. The pool is made at the first use, and anew in a forked
child, where its threads do not exist.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

from . import _core

_pool: list[tuple[int, ThreadPoolExecutor]] = []
os.register_at_fork(after_in_child=_pool.clear)


def run(rule: str, rounds: np.ndarray, verdicts: np.ndarray, threads: int, keep: object) -> None:
    """Run all rounds with up to `threads` threads, this one included. `keep` is what the rounds point to."""
    if not isinstance(threads, (int, np.integer)) or threads < 1:
        raise ValueError(f"threads: expected a positive integer, got {threads!r}")
    queue = _core.Queue()
    helpers = min(int(threads), len(rounds)) - 1
    waiting: list[Future[None]] = []
    try:
        for _ in range(helpers):
            waiting.append(_pool_of(helpers).submit(_core.run_rounds, rule, rounds, verdicts, queue, keep))
        _core.run_rounds(rule, rounds, verdicts, queue)
    finally:
        queue.close()  # where this thread was interrupted, the others finish what they have and no more
        wait(waiting)
    for future in waiting:
        future.result()


def _pool_of(size: int) -> ThreadPoolExecutor:
    """The pool, made anew where it is too small."""
    if not _pool or _pool[0][0] < size:
        _pool[:] = [(size, ThreadPoolExecutor(size, "specverify"))]
    return _pool[0][1]
