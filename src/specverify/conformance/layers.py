"""The layers of the kit: each asks a verifier one kind of question and gives one result.

Holds no case (cases.py) and no rule of verification: answers come from cases, from exact laws (proof/) and from the law
of the accepted length (lengths.py).
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import lengths, proof
from ..simulate import MarkovModel
from . import cases

FALSE_ALARM_RATE = 1e-8  # of each test of frequencies
POWER = 0.999
_REPEATS = 20  # a certain answer, asked of a verifier that draws its own random numbers
_GREEDY_ROUNDS = 200

Law = proof.PositionLaw | proof.RoundLaw


class VerdictError(Exception):
    """What a verifier gave cannot be the result of a round."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A verifier and what is known about it; the arguments of ``conformance.check``."""

    verifier: Callable[..., tuple[int, int]]
    takes_uniforms: bool
    deterministic_drafts: bool
    greedy: Callable[[Any, Any], tuple[int, int]] | None
    tolerance: float
    rounds: int
    seed: int
    fail_fast: bool = False

    def run(self, target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
        """Verify one round with arrays of the documented types, copies that the verifier may write to."""
        n_accepted, token = self._ask(target, draft, tokens, uniforms)
        return int(n_accepted), int(token)

    def judged(self, target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
        """Verify as `run` does; VerdictError for a result that no law counts."""
        return _verdict(self._ask(target, draft, tokens, uniforms), len(tokens), len(target[0]))

    def called(self, target: Any, draft: Any, tokens: Any, uniforms: Any) -> tuple[int, int]:
        """Call the verifier itself; VerdictError for a result that no law counts."""
        return _verdict(self.verifier(target, draft, tokens, uniforms), len(tokens), len(target[0]))

    def _ask(self, target: Any, draft: Any, tokens: Any, uniforms: Any) -> Any:
        rows = np.array(target, np.float32)
        vocab = rows.shape[1]
        drafted = np.array(tokens, np.int64)
        draft_rows = None if draft is None else np.array(draft, np.float32).reshape(-1, vocab)
        if draft is None and not self.deterministic_drafts:
            draft_rows = np.eye(vocab, dtype=np.float32)[drafted]
        if self.takes_uniforms:
            return self.verifier(rows, draft_rows, drafted, np.array(uniforms, np.float64))
        return self.verifier(rows, draft_rows, drafted)


def _verdict(found: Any, k: int, vocab: int) -> tuple[int, int]:
    try:
        n_accepted, token = int(found[0]), int(found[1])
    except (TypeError, ValueError, IndexError):
        raise VerdictError(f"expected (n_accepted, next_token), got {found!r}") from None
    if not (0 <= n_accepted <= k and 0 <= token < vocab):
        raise VerdictError(
            f"expected 0 to {k} accepted tokens and a next token in [0, {vocab}), got ({n_accepted}, {token})"
        )
    return n_accepted, token


@dataclass(frozen=True, slots=True)
class Result:
    """What one layer found.

    Attributes
    ----------
    layer : str
        One of ``conformance.LAYERS``.
    passed : bool
        Whether the verifier gives what the contract says.
    detail : str
        In words.
    numbers : dict
        The same for programs.
    """

    layer: str
    passed: bool
    detail: str
    numbers: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{'PASS' if self.passed else 'FAIL'} {self.layer}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Report:
    """What all layers found.

    Attributes
    ----------
    results : tuple of Result
        One for each layer that was run.
    skipped : tuple of str
        Layers that do not apply to this verifier.
    """

    results: tuple[Result, ...]
    skipped: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every layer that was run passed, and any was."""
        return bool(self.results) and all(result.passed for result in self.results)

    def __bool__(self) -> bool:
        """As `passed`, so that ``assert check(verify)`` says what it seems to say."""
        return self.passed

    def __str__(self) -> str:
        lines = [*map(str, self.results), *(f"skip {name}: does not apply" for name in self.skipped)]
        return "\n".join([*lines, "PASS" if self.passed else "FAIL"])


class Layer(NamedTuple):
    """A question, and to whom it can be put."""

    ask: Callable[[Subject], Result]
    applies: Callable[[Subject], bool]


def run_layer(name: str, subject: Subject) -> Result:
    """Run one layer; a verifier that raises fails it, and so does one whose result is none."""
    try:
        return LAYERS[name].ask(subject)
    except VerdictError as error:
        return Result(name, False, str(error))
    except Exception as error:
        return Result(name, False, f"raised {type(error).__name__}: {error}")


def _edge_cases(subject: Subject) -> Result:
    wrong = []
    asked = [case for case in cases.CASES if subject.takes_uniforms or case.certain]
    for case in asked:
        for _ in range(1 if subject.takes_uniforms else _REPEATS):
            try:
                got: Any = subject.run(*case[1:5])
            except Exception as error:
                got = f"{type(error).__name__}: {error}"
            if got != case.expected:
                wrong.append(f"{case.name}: {got} instead of {case.expected}")
                break
    return _counted("edge cases", len(asked), wrong, "wrong")


def _bad_input(subject: Subject) -> Result:
    asked = [case for case in cases.BAD_CASES if subject.takes_uniforms or "uniform" not in case.name]
    silent = []
    for case in asked:
        try:
            got = subject.run(*case[1:5])
        except (ValueError, TypeError):
            continue
        except Exception as error:
            silent.append(f"{case.name}: {type(error).__name__}, neither ValueError nor TypeError")
        else:
            silent.append(f"{case.name}: {got}")
    return _counted("bad input", len(asked), silent, "not refused")


def _temperature_0(subject: Subject) -> Result:
    """One-hot rows leave no chance: the verdict is that of argmax decoding, whatever the uniforms."""
    rng = np.random.default_rng(subject.seed)
    wrong = []
    for number in range(_GREEDY_ROUNDS):
        k, vocab = int(rng.integers(0, 5)), int(rng.integers(1, 6))
        logits = rng.integers(0, 3, size=(k + 1, vocab)).astype(np.float32)  # with ties, which go to the lowest index
        best = logits.argmax(1)
        tokens = np.where(rng.random(k) < 0.7, best[:k], rng.integers(vocab, size=k))
        n_accepted = int(np.append(tokens == best[:k], False).argmin())
        expected = n_accepted, int(best[n_accepted])
        rows = np.eye(vocab, dtype=np.float32)
        draft = None if number % 2 else rows[tokens]
        got = subject.run(rows[best], draft, tokens, rng.random(k + 1))
        if got != expected:
            wrong.append(f"one-hot rows at {best.tolist()}, tokens {tokens.tolist()}: {got} instead of {expected}")
        if subject.greedy is not None and tuple(subject.greedy(logits, tokens)) != expected:
            wrong.append(f"greedy, argmax {best.tolist()}, tokens {tokens.tolist()}: expected {expected}")
    return _counted("temperature 0", _GREEDY_ROUNDS, wrong, "wrong")


def _counted(name: str, asked: int, wrong: list[str], verb: str) -> Result:
    detail = f"{len(wrong)} of {asked} {verb}, first: {wrong[0]}" if wrong else f"{asked} as they should be"
    return Result(name, not wrong, detail, {"cases": asked, "wrong": len(wrong), "details": wrong})


def _law_of_a_position(subject: Subject) -> Result:
    rng = np.random.default_rng(subject.seed)
    pairs = [*cases.PAIRS, *((f"random, V = {vocab}", *rng.exponential(size=(2, vocab))) for vocab in (2, 5, 8))]
    laws = ((name, proof.position_law(subject.called, target, draft)) for name, target, draft in pairs)
    return _law_result("law of a position", subject, laws)


def _law_of_a_deterministic_draft(subject: Subject) -> Result:
    laws = (
        (f"{name}, token {token}", proof.position_law(subject.called, target, None, token=token))
        for name, target, _ in cases.PAIRS
        for token in range(len(target))
    )
    return _law_result("law of a deterministic draft", subject, laws)


def _law_of_a_round(subject: Subject) -> Result:
    def laws() -> Iterator[tuple[str, Law]]:
        for vocab, k in ((2, 0), (3, 1), (3, 2), (2, 3)):
            # A Markov model is enough: its rows differ from position to position, and depend on what was drafted.
            rng = np.random.default_rng([subject.seed, vocab, k])
            target, draft = (MarkovModel(rng.dirichlet(np.ones(vocab), size=vocab)) for _ in range(2))
            yield f"V = {vocab}, K = {k}", proof.round_law(subject.called, target, draft, k)

    return _law_result("law of a round", subject, laws())


def _law_result(name: str, subject: Subject, laws: Iterable[tuple[str, Law]]) -> Result:
    found: list[tuple[str, Law]] = []
    for case, law in laws:
        found.append((case, law))
        if subject.fail_fast and (law.unexplained or law.total_variation > subject.tolerance):
            break
    distances = {case: law.total_variation for case, law in found}
    odd = [case for case, law in found if law.unexplained]
    worst = max(distances, key=lambda case: distances[case])
    detail = f"total variation {distances[worst]:.1e} at worst ({worst}) over {len(found)} laws"
    if odd:
        detail += f"; not a function of the expected uniforms: {odd[0]}"
    return Result(
        name,
        distances[worst] <= subject.tolerance and not odd,
        detail,
        {"cases": len(found), "total_variation": distances[worst], "worst": worst, "by_case": distances, "odd": odd},
    )


def _joint_frequencies(subject: Subject) -> Result:
    return _frequencies("joint frequencies", subject, certain=False)


def _frequencies_of_a_deterministic_draft(subject: Subject) -> Result:
    return _frequencies("frequencies of a deterministic draft", subject, certain=True)


def _frequencies(name: str, subject: Subject, *, certain: bool) -> Result:
    """Chi-square of the first two tokens, in 16 cells, of independent texts that are made with rounds of K = 2."""
    rng = np.random.default_rng([subject.seed, certain])
    counts = np.zeros((4, 4), np.int64)
    for _ in range(subject.rounds):
        text: list[int] = []
        while len(text) < 2:
            tokens, _, verdict = _one_round(subject, text[-1] if text else 0, 2, certain, rng)
            text += [*tokens[: verdict[0]], verdict[1]]
        counts[text[0], text[1]] += 1
    expected = subject.rounds * cases.TARGET[0][:, None] * cases.TARGET
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return _tested(name, lengths.chi_square_tail(statistic, 15), subject.rounds, 16, "texts")


def _accepted_length(subject: Subject) -> Result:
    """Accepted lengths of rounds of K = 4 against the law that each has given its drafted tokens."""
    rng = np.random.default_rng([subject.seed, 2])
    accepted, laws = [], []
    known: dict[tuple[int, ...], Any] = {}
    for _ in range(subject.rounds):
        tokens, rows, verdict = _one_round(subject, 0, 4, False, rng)
        accepted.append(verdict[0])
        if tuple(tokens) not in known:
            known[tuple(tokens)] = lengths.law_given_draft(lengths.acceptance_probabilities(*rows, tokens))
        laws.append(known[tuple(tokens)])
    found = lengths.check_counts(accepted, laws)
    result = _tested("accepted length", found.p_value, subject.rounds, 5, "rounds")
    result.numbers.update(observed=found.observed, expected=found.expected)
    return result


def _one_round(
    subject: Subject, last: int, k: int, certain: bool, rng: np.random.Generator
) -> tuple[list[int], tuple[Any, Any], tuple[int, int]]:
    tokens: list[int] = []
    path = [last]
    points = rng.random(2 * k + 1).tolist()
    for point in points[:k]:
        token = int(cases.DRAFT[path[-1]].argmax()) if certain else _drawn(_CUMULATIVE[path[-1]], point)
        tokens.append(token)
        path.append(token)
    target, draft = _TARGET[path], None if certain else _DRAFT[path[:-1]]
    return tokens, (target, draft), subject.judged(target, draft, tokens, points[k:])


def _drawn(cumulative: list[float], point: float) -> int:
    return sum(edge <= point for edge in cumulative[:-1])


_TARGET, _DRAFT = cases.TARGET.astype(np.float32), cases.DRAFT.astype(np.float32)
_CUMULATIVE = cases.DRAFT.cumsum(1).tolist()


def _tested(name: str, p_value: float, n: int, n_cells: int, unit: str) -> Result:
    caught = smallest_caught(n, n_cells)
    return Result(
        name,
        p_value >= FALSE_ALARM_RATE,
        f"p = {p_value:.2g} over {n:,} {unit} (fails below {FALSE_ALARM_RATE:.0e}; catches a total variation of "
        f"{caught:.3f} with power {POWER})",
        {"p_value": p_value, "n": n, "false_alarm_rate": FALSE_ALARM_RATE, "caught": caught, "power": POWER},
    )


def smallest_caught(n: int, n_cells: int) -> float:
    """Give the total variation from which a chi-square test at FALSE_ALARM_RATE has a power of at least POWER.

    A law at total variation d has noncentrality n sum(d_i^2 / p_i), by Cauchy-Schwarz at least 4 n d^2.
    """
    degrees = n_cells - 1
    critical = _bisect(lambda x: lengths.chi_square_tail(x, degrees) <= FALSE_ALARM_RATE, 0.0, 1000.0)
    return _bisect(lambda d: _noncentral_tail(critical, degrees, 4 * n * d * d) >= POWER, 0.0, 1.0)


def _noncentral_tail(x: float, degrees: int, noncentrality: float) -> float:
    """Probability that a noncentral chi-square variable exceeds x: central ones, mixed by a Poisson law."""
    if noncentrality > 20 * (x + degrees):
        return 1.0  # the mean is more than ten standard deviations above x
    mean = noncentrality / 2
    spread = 10 * math.sqrt(mean) + 10
    first = max(0, int(mean - spread))
    tail = lengths.chi_square_tail(x, degrees + 2 * first)
    total = 0.0
    for j in range(first, int(mean + spread) + 1):
        log_weight = j * math.log(mean) - mean - math.lgamma(j + 1) if mean else (0.0 if j == 0 else -math.inf)
        total += math.exp(log_weight) * tail
        half = degrees / 2 + j  # two degrees more: Abramowitz and Stegun 26.4.8
        tail = min(1.0, tail + math.exp(half * math.log(x / 2) - x / 2 - math.lgamma(half + 1)))
    return total


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _always(subject: Subject) -> bool:
    return True


LAYERS: dict[str, Layer] = {
    "edge cases": Layer(_edge_cases, _always),
    "bad input": Layer(_bad_input, _always),
    "temperature 0": Layer(_temperature_0, _always),
    "law of a position": Layer(_law_of_a_position, lambda subject: subject.takes_uniforms),
    "law of a deterministic draft": Layer(
        _law_of_a_deterministic_draft, lambda subject: subject.takes_uniforms and subject.deterministic_drafts
    ),
    "law of a round": Layer(_law_of_a_round, lambda subject: subject.takes_uniforms),
    "joint frequencies": Layer(_joint_frequencies, _always),
    "frequencies of a deterministic draft": Layer(
        _frequencies_of_a_deterministic_draft, lambda subject: subject.deterministic_drafts
    ),
    "accepted length": Layer(_accepted_length, _always),
}
