"""Measure rounds of verification on this machine, in turn with NumPy and with reading the same rows once.

Holds the rounds to measure, the timing in turn and the ratios; the description of a machine: machine.py. Used by
``specverify bench`` (cli/bench.py) and by the pytest-benchmark suite (benchmarks/). Holds no table.

How a figure comes about:

1. A wrong answer has no time: before a case is timed, every contender's answer is compared with the reference's.
2. Contenders run in turn, one call each, so that whatever else the machine does meets all of them. A figure is the
   median of such calls, a ratio is one of medians. Where other processes take the core away in the middle of calls,
   long calls suffer more than short ones, which no median mends: so such interruptions are counted and stored.
3. Rows in cache: all calls use the same rows, and each timed call follows one of the same contender that is not timed.
   Rows from memory: calls go round a pool of rows four times as large as the last-level cache, each contender a part
   of the pool after the next, so that rows have been thrown out of the cache before any contender comes to them.
4. NumPy's arrays of intermediate results come from memory that the process already has. Without that, the allocator of
   glibc may hand them back to the system after each call, and NumPy would take two to three times as long.
5. The read floor is ``numpy.max`` over exactly the rows that the round must read.
"""

import functools
import resource
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from . import _isa, _numpy_verify, machine, reference
from .verify import verify_greedy, verify_sampled

SCHEMA = 2
#: Kinds of results of a document. The first two are what the short suite measures, all are what benchmarks/ measures.
KINDS = (
    "rows",
    "fixed",
    "visited",
    "warped",
    "logits",
    "sparse",
    "batches",
    "requests",
    "block",
    "loops",
    "lookups",
    "peers",
    "models",
)
VOCABULARIES = (32_000, 128_256, 151_936)  # Llama 2, Llama 3 and Qwen 2.5
FIXED_K, FIXED_VOCAB = 4, 8

_CACHED_ROUNDS = 16  # with different tokens and uniforms, on the same rows
_CHECKED_ROUNDS = 2  # by the reference, which takes a tenth of a second for the largest
_SCANNED = 1000  # entries among which a token to reject is looked for
_FEWEST_TURNS, _MOST_TURNS = 15, 2000
_LARGEST_KEPT = 31 << 20  # bytes; malloc learns from blocks up to 32 MiB


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of round. `rejected_at` is the position of the first rejection, None where all is accepted."""

    operation: str
    vocab: int
    k: int
    rejected_at: int | None = None
    normalized: bool = False
    from_memory: bool = False

    def rows_to_read(self) -> tuple[range, range]:
        """Tell the target and draft rows that no implementation of the contract can do without reading."""
        last = self.k if self.rejected_at is None else self.rejected_at
        if self.operation == "greedy":
            return range(last + 1), range(0)
        rejected = range(last, last + 1) if self.rejected_at is not None else range(0)
        if self.normalized:
            return range(last, last + 1), rejected
        return range(last + 1), range(last + len(rejected))

    def bytes_to_read(self) -> int:
        return sum(len(rows) for rows in self.rows_to_read()) * self.vocab * 4


class Round(NamedTuple):
    """The arguments of one call; greedy rounds leave `draft` and `uniforms` unused."""

    target: np.ndarray
    draft: np.ndarray
    tokens: np.ndarray
    uniforms: np.ndarray


class Contender(NamedTuple):
    """A function to time and the arguments of each round. The first `checked` entries of an answer must be right."""

    function: Callable[..., Any]
    inputs: list[tuple[Any, ...]]
    checked: int = 2


def make_rounds(case: Case, pool_bytes: int | None = None) -> list[Round]:
    """Make the rounds of a case; the same ones at every call."""
    rng = np.random.default_rng([case.vocab, case.k])
    target_rows, draft_rows = case.rows_to_read()
    if case.from_memory:
        step = max(len(target_rows), len(draft_rows))
        size = 4 * machine.cache_bytes() if pool_bytes is None else pool_bytes
        total = size // (4 * case.vocab) + 1 + max(case.k, 16)
    else:
        step, total = 0, case.k + 1
    targets, drafts = _make_rows(case.vocab, total)
    count = (total - case.k - 1) // step + 1 if step else _CACHED_ROUNDS
    windows = [slice(i * step, i * step + case.k + 1) for i in range(count)]
    return [_make_round(case, targets[window], drafts[window][: case.k], rng) for window in windows]


@functools.lru_cache(maxsize=1)
def _make_rows(vocab: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Softmax rows with a spread of logits of some language models' order, and drafts that are near them."""
    rng = np.random.default_rng(vocab)
    targets = rng.standard_normal((count, vocab), dtype=np.float32)
    drafts = rng.standard_normal((count, vocab), dtype=np.float32)
    for target, draft in zip(targets, drafts, strict=True):
        np.exp(2 * target + 0.7 * draft, out=draft)
        np.exp(2 * target, out=target)
        target /= target.sum(dtype=np.float64)
        draft /= draft.sum(dtype=np.float64)
    return targets, drafts


def _make_round(case: Case, target: np.ndarray, draft: np.ndarray, rng: np.random.Generator) -> Round:
    r = case.rejected_at
    uniforms = np.zeros(case.k + 1)  # accepts whatever has a probability
    uniforms[case.k] = rng.random()
    if case.operation == "greedy":
        tokens = target[: case.k].argmax(axis=1)
        if r is not None:
            tokens[r] = (tokens[r] + 1) % case.vocab
    else:
        tokens = rng.integers(0, case.vocab, case.k)
        if r is not None:
            tokens[r] = np.argmax(draft[r, :_SCANNED] / target[r, :_SCANNED])
            uniforms[r] = 1 - 2.0**-20
    return Round(target, draft, tokens, uniforms)


def contenders(case: Case, rounds: list[Round]) -> dict[str, Contender]:
    """Name what is measured beside each other: the package first, then NumPy written in two ways, then the floor."""
    target_rows, draft_rows = (slice(rows.start, rows.stop) for rows in case.rows_to_read())
    to_read: list[tuple[Any, ...]] = [(one.target[target_rows], one.draft[draft_rows]) for one in rounds]
    if case.operation == "greedy":
        inputs: list[tuple[Any, ...]] = [(one.target, one.tokens) for one in rounds]
        return {
            "specverify": Contender(verify_greedy, inputs),
            "numpy_eager": Contender(_numpy_verify.verify_greedy_eager, inputs),
            "numpy_lazy": Contender(_numpy_verify.verify_greedy_lazy, inputs),
            "argmax": Contender(_argmax, to_read, checked=0),
            "read": Contender(_read, to_read, checked=0),
        }
    inputs = list(rounds)
    functions = (verify_sampled, _numpy_verify.verify_sampled_eager, _numpy_verify.verify_sampled_lazy)
    core, eager, lazy = (functools.partial(function, normalized=case.normalized) for function in functions)
    return {
        "specverify": Contender(core, inputs),
        "numpy_eager": Contender(eager, inputs),
        "numpy_lazy": Contender(lazy, inputs),
        "read": Contender(_read, to_read, checked=0),
    }


def _read(target: np.ndarray, draft: np.ndarray) -> None:
    np.max(target)
    if len(draft):
        np.max(draft)


def _argmax(target: np.ndarray, _: np.ndarray) -> None:
    np.argmax(target, axis=1)


def check(case: Case, rounds: list[Round], competing: dict[str, Contender]) -> None:
    """Compare every contender's answers with the reference's, for the first rounds."""
    for i, one in enumerate(rounds[:_CHECKED_ROUNDS]):
        if case.operation == "greedy":
            expected = reference.verify_greedy(one.target, one.tokens)
        else:
            expected = reference.verify_sampled(*one, normalized=case.normalized)
        if expected.n_accepted != (case.k if case.rejected_at is None else case.rejected_at):
            raise AssertionError(f"{case}: the round made for it accepts {expected.n_accepted}")
        for name, contender in competing.items():
            if contender.checked:
                answer = contender.function(*contender.inputs[i])
                if tuple(answer)[: contender.checked] != expected[: contender.checked]:
                    raise AssertionError(f"{case}: {name} answers {answer}, the reference {expected}")


@functools.cache
def keep_freed_memory() -> None:
    """Make glibc's malloc keep freed memory, which it does up to the size of the largest block it has seen freed."""
    np.empty(_LARGEST_KEPT, dtype=np.uint8)


class Turns:
    """Call contenders in turn; the first of them is the subject, which the caller times, the others are timed here."""

    def __init__(self, competing: dict[str, Contender], *, warm: bool) -> None:
        keep_freed_memory()
        (_, self.subject), *others = competing.items()
        self.seconds: dict[str, list[float]] = {name: [] for name, _ in others}
        self._others = [(contender, self.seconds[name]) for name, contender in others]
        self._warm = warm
        self._turn = 0
        self._interruptions = _interruptions()

    def time_others(self) -> tuple[Any, ...]:
        """Time every other contender once, and return what the subject is to be called with."""
        for place, (contender, seconds) in enumerate(self._others, start=1):
            arguments = self._prepare(contender, place)
            start = perf_counter()
            contender.function(*arguments)
            seconds.append(perf_counter() - start)
        arguments = self._prepare(self.subject, 0)
        self._turn += 1
        return arguments

    def count_for(self, seconds: float) -> int:
        """Tell how many turns fit into so many seconds, from one turn that is not kept."""
        start = perf_counter()
        self.subject.function(*self.time_others())
        for kept in self.seconds.values():
            kept.clear()
        self._interruptions = _interruptions()
        return max(_FEWEST_TURNS, min(_MOST_TURNS, int(seconds / (perf_counter() - start))))

    def _prepare(self, contender: Contender, place: int) -> tuple[Any, ...]:
        count = len(contender.inputs)
        arguments = contender.inputs[(self._turn + place * count // (1 + len(self._others))) % count]
        if self._warm:
            contender.function(*arguments)
        return arguments

    def result(self, subject_seconds: list[float], name: str = "specverify") -> dict[str, Any]:
        """Give the medians, the number of turns and how often another process interrupted them."""
        times = {name: subject_seconds} | self.seconds
        return {
            "turns": len(subject_seconds),
            "interruptions": _interruptions() - self._interruptions,
            "us": {key: _microseconds(values) for key, values in times.items()},
        }


def _interruptions() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def measure(case: Case, seconds: float, rounds: list[Round] | None = None) -> dict[str, Any]:
    """Check one case and time it for some seconds."""
    rounds = make_rounds(case) if rounds is None else rounds
    competing = contenders(case, rounds)
    check(case, rounds, competing)
    turns = Turns(competing, warm=not case.from_memory)
    subject_seconds: list[float] = []
    for _ in range(turns.count_for(seconds)):
        arguments = turns.time_others()
        start = perf_counter()
        turns.subject.function(*arguments)
        subject_seconds.append(perf_counter() - start)
    return as_row(case, turns.result(subject_seconds))


def as_row(case: Case, result: dict[str, Any]) -> dict[str, Any]:
    """Put one result into the form that is stored."""
    return asdict(case) | {"variant": _isa.active_isa(), "bytes": case.bytes_to_read()} | result


def fixed_calls(operation: str) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Give calls on rows so short that only the fixed cost is left: the package's and NumPy's."""
    case = Case(operation, FIXED_VOCAB, FIXED_K)
    rounds = make_rounds(case)
    competing = contenders(case, rounds)
    check(case, rounds, competing)
    names = ("specverify", "numpy_eager", "numpy_lazy")
    return {name: (competing[name].function, competing[name].inputs[0]) for name in names}


def measure_fixed(
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]], seconds: float, number: int = 1000
) -> dict[str, float]:
    """Time whole loops of calls in turn; a figure is the median of the loops' means."""
    timers = {name: _timer(function, arguments) for name, (function, arguments) in calls.items()}
    found: dict[str, list[float]] = {name: [] for name in timers}
    stop = perf_counter() + seconds
    while perf_counter() < stop or not all(found.values()):
        for name, timer in timers.items():
            found[name].append(timer.timeit(number) / number)
    return {name: _microseconds(values) for name, values in found.items()}


def _timer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> timeit.Timer:
    if isinstance(function, functools.partial):
        function = function.func  # its keywords are the defaults, and a partial is a cost of the measurement
    names = [f"a{i}" for i in range(len(arguments))]
    return timeit.Timer(f"f({', '.join(names)})", globals=dict(zip(names, arguments, strict=True)) | {"f": function})


def _microseconds(seconds: list[float]) -> float:
    return float(f"{median(seconds) * 1e6:.4g}")


def short_cases() -> list[Case]:
    """List what ``specverify bench`` measures."""
    return [
        case
        for vocab in VOCABULARIES
        for case in (
            Case("greedy", vocab, 4),
            Case("sampled", vocab, 4),
            Case("sampled", vocab, 4, rejected_at=0),
            Case("sampled", vocab, 4, normalized=True),
            Case("sampled", vocab, 4, rejected_at=0, normalized=True),
        )
    ]


def measure_machine(seconds: float = 30.0) -> dict[str, Any]:
    """Measure the short list of cases and the fixed cost of a call."""
    cases, operations = short_cases(), ("greedy", "sampled")
    share = seconds / (len(cases) + len(operations))
    result = document("short")
    result["rows"] = [measure(case, share) for case in cases]
    for operation in operations:
        us = measure_fixed(fixed_calls(operation), share)
        result["fixed"].append({"operation": operation, "inputs": "NumPy", "variant": _isa.active_isa(), "us": us})
    return result


def document(suite: str) -> dict[str, Any]:
    """Give the form in which results are stored, without results.

    ``rows`` has what :func:`as_row` gives; ``fixed`` the fixed costs of a call. Only the full suite measures the rest:
    ``visited``, long rounds that end at position 0 beside short ones; ``warped``, one row of logits; ``logits`` and
    ``sparse``, rounds of such rows; ``batches`` and ``requests``, many requests and the cost of one more; ``block``,
    the block rule beside the token rule; ``loops``, the draft/verify loop beside verification; ``lookups``, drafts from
    a growing text beside a scan; and, dated, ``peers`` and ``models``, for which other packages must be there.
    """
    return {"schema": SCHEMA, "suite": suite, "machine": machine.describe(), **{kind: [] for kind in KINDS}}


def numpy_us(us: dict[str, float]) -> float:
    """Time of the faster of the two NumPy versions."""
    return min(us["numpy_eager"], us["numpy_lazy"])


def ratios(row: dict[str, Any]) -> dict[str, float]:
    """Derive from a stored row: times faster than NumPy, times the read floor, GB/s of the bytes that must be read."""
    us = row["us"]
    mine = us["specverify"]
    found = {
        "numpy": numpy_us(us) / mine,
        "read": mine / us["read"],
        "numpy_at_floor": numpy_us(us) / us["read"],
        "gb_per_s": row["bytes"] / mine / 1e3,
    }
    if "argmax" in us:
        found["argmax"] = us["argmax"] / mine
    return found
