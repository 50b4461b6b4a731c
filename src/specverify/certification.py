"""What ``specverify verify`` certifies: the formula, every variant of the build, the edge cases, the checks themselves.

Holds the pairs of rows and the order of the checks; how a law is found is in proof/, how one verifier is run through
the contract in conformance/. No printing. Work is cut into pieces that any ``concurrent.futures.Executor`` can take.
"""

import concurrent.futures
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _isa, conformance, mutants, proof, simulate
from ._work import Progress, ignore, run_all
from .verify import verify_greedy, verify_sampled

LARGEST = 64
LARGE = 4096
BAR = 1e-15  # at V <= 64, beyond what the spacing of uniforms alone explains
BAR_LARGE = 1e-12
BAR_ROUND = 1e-14
BAR_CLOSED_FORM = 1e-12
_PIECE = 100  # pairs in one piece of work: a fifth of a second
_SPOT_CHECKS = 2
_SCANS = {"token": "forward", "block": "backward"}  # which way a rule looks for the accepted length
_ROUNDS = tuple((vocab, k, zeros) for vocab in (2, 3, 4) for k in (0, 1, 2, 3) for zeros in (0.0, 0.4))

KINDS = (
    "sparse", "dense", "zeros", "ties", "one-hot draft", "one-hot target", "disjoint", "equal", "subnormal",
    "unnormalised", "wide",
)  # fmt: skip


class Pair(NamedTuple):
    """One target row and one draft row, float32, each with a positive sum."""

    kind: str
    target: NDArray[np.float32]
    draft: NDArray[np.float32]

    @property
    def rows(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Target and draft, as :func:`specverify.proof.position_law` takes them."""
        return self.target, self.draft


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a certificate: a claim, whether it holds, and its numbers.

    Attributes
    ----------
    claim : str
        What is claimed.
    passed : bool
        Whether it held.
    detail : str
        Numbers, in words.
    numbers : dict
        The same for programs.
    """

    claim: str
    passed: bool
    detail: str
    numbers: dict[str, Any]


def random_pairs(n: int, largest: int, seed: int) -> Iterator[Pair]:
    """Give `n` pairs of every kind in turn, of 1 to `largest` tokens, small ones as often as large ones.

    Parameters
    ----------
    n : int
        How many.
    largest : int
        Largest vocabulary.
    seed : int
        The same seed gives the same pairs, and a prefix of them for a smaller `n`.

    Yields
    ------
    Pair
        Kinds: :data:`KINDS`.
    """
    for i in range(n):
        yield random_pair(i, largest, seed)


def random_pair(index: int, largest: int, seed: int) -> Pair:
    """Give pair number `index` of :func:`random_pairs`."""
    rng = np.random.default_rng([seed, index])
    kind = KINDS[index % len(KINDS)]
    size = int(math.exp(rng.uniform(0, math.log(largest + 1))))
    target, draft = rng.exponential(size=(2, size))
    if kind == "sparse":
        target, draft = rng.dirichlet(np.full(size, 0.3), size=2) if size > 1 else np.ones((2, 1))
    elif kind == "zeros":
        target, draft = target * (rng.random(size) < 0.5), draft * (rng.random(size) < 0.5)
    elif kind == "ties":
        target, draft = rng.integers(0, 3, size=(2, size)).astype(float)
    elif kind == "one-hot draft":
        draft = np.eye(size)[rng.integers(size)]
    elif kind == "one-hot target":
        target = np.eye(size)[rng.integers(size)]
    elif kind == "disjoint":
        half = rng.random(size) < 0.5
        target, draft = target * half, draft * ~half
    elif kind == "equal":
        draft = target * rng.choice([0.5, 1.0, 3.0])
    elif kind == "subnormal":
        target, draft = target * 1e-41, draft * 3e-43
    elif kind == "unnormalised":
        target, draft = target * rng.uniform(0.01, 100), draft * rng.uniform(0.01, 100)
    elif kind == "wide":
        target, draft = target ** rng.uniform(1, 30), draft ** rng.uniform(1, 30)
    rows = np.stack([target, draft])
    if kind not in ("subnormal", "unnormalised", "ties", "equal"):
        rows /= np.maximum(rows.sum(1, keepdims=True), np.finfo(float).tiny)
    narrow = rows.astype(np.float32)
    for row in narrow:
        if not row.any():
            row[rng.integers(size)] = 1.0
    return Pair(kind, narrow[0], narrow[1])


def certify(
    *,
    n_pairs: int,
    seed: int = 0,
    isas: Sequence[str] | None = None,
    executor: concurrent.futures.Executor | None = None,
    progress: Progress = ignore,
) -> list[Finding]:
    """Certify this build.

    Parameters
    ----------
    n_pairs : int
        Random pairs of rows for each variant.
    seed : int
        Of pairs and probes.
    isas : sequence of str, optional
        Variants; default: all that this machine has.
    executor : concurrent.futures.Executor, optional
        Takes the pieces of work; default: this thread. It must not run them in threads of this process, since the
        variant in use is one for the process.
    progress : callable
        Called with pieces done and pieces to do.

    Returns
    -------
    list of Finding
        In order: closed form; for each variant the law of one position, a large vocabulary, the law of a round and
        the edge cases; then the mutants.
    """
    from . import available_isas

    variants = tuple(isas or available_isas())
    starts = range(0, n_pairs, _PIECE)
    work: list[tuple[Any, ...]] = [("closed form", "", seed)]
    for isa in variants:
        work += [("pairs", isa, seed, start, min(start + _PIECE, n_pairs)) for start in starts]
        work += [("large", isa, seed), *(("round", isa, seed, rule) for rule in simulate.rules()), ("contract", isa)]
    work += [("mutant", "", name) for name in mutants.MUTANTS]

    results = run_all(_do, work, executor, progress)

    def of(kind: str, isa: str) -> list[Any]:
        return [results[i] for i, piece in enumerate(work) if piece[:2] == (kind, isa)]

    findings = [of("closed form", "")[0]]
    for isa in variants:
        findings += [_pairs_finding(isa, of("pairs", isa)), *of("large", isa), *of("round", isa), *of("contract", isa)]
    missed = [name for name in of("mutant", "") if name is not None]
    n_mutants = len(mutants.MUTANTS)
    words = "each by the layer that claims it" if not missed else f"not rejected: {', '.join(missed)}"
    return [
        *findings,
        Finding(
            f"{n_mutants} wrong verifiers are rejected", not missed, words, {"mutants": n_mutants, "missed": missed}
        ),
    ]


def _do(piece: tuple[Any, ...]) -> Any:
    """One piece of work; a function of the module, so that it can be sent to another process."""
    kind, isa, *arguments = piece
    task: Callable[..., Any] = _TASKS[kind]
    if not isa:
        return task(*arguments)
    with _isa.using(isa):
        return task(isa, *arguments)


def _closed_form(seed: int) -> Finding:
    target = simulate.random_markov(32, seed=seed + 1, concentration=0.3)
    prefixes = [[], *([i] for i in range(32))]
    worst = max(
        proof.max_total_variation(target, simulate.draft_from_target(target, agreement, seed=seed + 2), prefixes)
        for agreement in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    return Finding(
        "closed form: the rule emits the target's law",
        worst <= BAR_CLOSED_FORM,
        f"total variation {worst:.1e} at worst over 5 drafts and 33 prefixes",
        {"total_variation": worst},
    )


def _pairs(isa: str, seed: int, start: int, stop: int) -> dict[str, float]:
    worst: dict[str, float] = dict.fromkeys(
        ("plain", "excess", "lattice", "share", "unexplained", "calls", "pairs"), 0.0
    )
    for index in range(start, stop):
        pair = random_pair(index, LARGEST, seed)
        law = proof.position_law(verify_sampled, *pair.rows, seed=index)
        distance = excess = law.total_variation
        if distance > BAR:
            excess = distance - proof.spacing_total_variation(*pair.rows)
        worst["plain"] = max(worst["plain"], distance)
        worst["excess"] = max(worst["excess"], excess)
        worst["lattice"] = max(worst["lattice"], law.total_variation_53)
        worst["share"] = max(worst["share"], law.total_variation_53 / law.bound)
        worst["unexplained"] += law.unexplained
        worst["calls"] += law.calls
        worst["pairs"] += 1
    return worst


def _pairs_finding(isa: str, pieces: list[dict[str, float]]) -> Finding:
    summed = ("unexplained", "calls", "pairs")
    worst = {key: (sum if key in summed else max)([piece[key] for piece in pieces] or [0.0]) for key in
             ("plain", "excess", "lattice", "share", *summed)}  # fmt: skip
    passed = worst["excess"] <= BAR and worst["share"] <= 1.0 and not worst["unexplained"] and worst["pairs"] > 0
    return Finding(
        f"{isa}: the exact law of the build at one position, V <= {LARGEST}",
        passed,
        f"total variation {worst['plain']:.1e} at worst over {int(worst['pairs']):,} pairs ({worst['lattice']:.1e} "
        f"with 53-bit uniforms; {worst['share']:.0%} of what rounding explains), {int(worst['calls']):,} calls",
        {
            "total_variation": worst["plain"],
            "total_variation_53": worst["lattice"],
            "share_of_bound": worst["share"],
            "unexplained": int(worst["unexplained"]),
            "pairs": int(worst["pairs"]),
            "calls": int(worst["calls"]),
        },
    )


def _large(isa: str, seed: int) -> Finding:
    rows = np.random.default_rng([seed, LARGE]).dirichlet(np.full(LARGE, 0.1), size=2).astype(np.float32)
    law = proof.position_law(verify_sampled, *rows, spot_checks=_SPOT_CHECKS, seed=seed)
    return Finding(
        f"{isa}: the exact law of the build at one position, V = {LARGE:,}",
        law.total_variation <= BAR_LARGE and law.total_variation_53 <= law.bound and not law.unexplained,
        f"total variation {law.total_variation:.1e} (rounding explains {law.bound:.1e}), {law.calls:,} calls",
        {"total_variation": law.total_variation, "bound": law.bound, "calls": law.calls},
    )


def _round(isa: str, seed: int, rule: str, cases: Sequence[tuple[int, int, float]] = _ROUNDS) -> Finding:
    verifier = verify_sampled if rule == "token" else simulate.rules()[rule]
    worst, unexplained, calls = 0.0, 0, 0
    for vocab, k, zeros in cases:
        target, draft = (_ByText(vocab, seed + which, zeros) for which in (1, 2))
        law = proof.round_law(verifier, target, draft, k, scan=_SCANS[rule], seed=seed)
        worst, unexplained, calls = max(worst, law.total_variation), unexplained + law.unexplained, calls + law.calls
    return Finding(
        f"{isa}: the exact joint law of a round, {rule} rule, V <= 4, K <= 3",
        worst <= BAR_ROUND and not unexplained,
        f"total variation {worst:.1e} at worst over {len(cases)} models whose rows depend on the whole text, "
        f"{calls:,} calls",
        {"total_variation": worst, "unexplained": unexplained, "calls": calls},
    )


def _contract(isa: str) -> Finding:
    layers = ("edge cases", "bad input", "temperature 0", "law of a deterministic draft")
    report = conformance.check(verify_sampled, greedy=verify_greedy, layers=layers)
    failed = [result for result in report.results if not result.passed]
    n_cases = sum(result.numbers.get("cases", 0) for result in report.results)
    return Finding(
        f"{isa}: edge cases and bad input, as the contract says",
        report.passed,
        f"{n_cases} cases" if not failed else "; ".join(f"{one.layer}: {one.detail}" for one in failed),
        {"cases": n_cases},
    )


def _mutant(name: str) -> str | None:
    """The name of a mutant that gets through, or None."""
    report = conformance.check(mutants.MUTANTS[name], layers=(mutants.CLAIMED_BY[name],), fail_fast=True)
    return name if report.passed else None


_TASKS: dict[str, Callable[..., Any]] = {
    "closed form": _closed_form,
    "pairs": _pairs,
    "large": _large,
    "round": _round,
    "contract": _contract,
    "mutant": _mutant,
}


class _ByText:
    """A model whose rows depend on the whole text."""

    def __init__(self, vocab: int, seed: int, zeros: float) -> None:
        self._vocab, self._seed, self._zeros = vocab, seed, zeros

    def next_dist(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        rng = np.random.default_rng([self._seed, *tokens])
        row = rng.exponential(size=self._vocab) * (rng.random(self._vocab) >= self._zeros)
        return (row if row.any() else np.ones(self._vocab)).astype(np.float32)
