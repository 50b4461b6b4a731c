"""The requests of a batch over several threads.

Holds the pool: native threads that the core runs without the GIL. Each takes the next request that nobody has, so
results do not depend on the number of threads or their order. The pool is made at the first use, and anew in a forked
child, where its threads do not exist.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral

import numpy as np

from . import _core

_pools: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_pools.clear)


def run(rule: str, rounds: np.ndarray, verdicts: np.ndarray, threads: int) -> None:
    """Run all rounds with up to `threads` threads, this one included."""
    if not isinstance(threads, Integral) or threads < 1:
        raise ValueError(f"threads: expected a positive integer, got {threads!r}")
    queue = _core.Queue()
    helpers = min(int(threads), len(rounds)) - 1
    if helpers > 0:
        pool = _pools.get(helpers) or _pools.setdefault(helpers, ThreadPoolExecutor(helpers, "specverify"))
        waiting = [pool.submit(_core.run_rounds, rule, rounds, verdicts, queue) for _ in range(helpers)]
    _core.run_rounds(rule, rounds, verdicts, queue)
    if helpers > 0:
        for future in waiting:
            future.result()
