"""Pieces of work, done here or by an executor. Knows nothing of what they are."""

import concurrent.futures
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Piece = TypeVar("Piece")
Outcome = TypeVar("Outcome")
Progress = Callable[[int, int], None]


def ignore(done: int, total: int) -> None:
    """Tell nobody."""


def run_all(
    function: Callable[[Piece], Outcome],
    pieces: Sequence[Piece],
    executor: concurrent.futures.Executor | None = None,
    progress: Progress = ignore,
) -> list[Outcome]:
    """Apply a function to every piece and give the results in order, whoever does it in whatever order."""
    if executor is None:
        results = []
        for number, piece in enumerate(pieces, 1):
            results.append(function(piece))
            progress(number, len(pieces))
        return results
    futures = [executor.submit(function, piece) for piece in pieces]
    for number, future in enumerate(concurrent.futures.as_completed(futures), 1):
        future.result()  # the first failure ends the run
        progress(number, len(pieces))
    return [future.result() for future in futures]


@contextmanager
def processes(workers: int) -> Iterator[concurrent.futures.Executor | None]:
    """Give an executor of so many processes, or None for one: this."""
    if workers == 1:
        yield None
        return
    # Not forked: a copy of a process with threads can wait for ever.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as executor:
        yield executor
