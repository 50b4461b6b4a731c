"""Rounds from logits, of sparse rows and of whole batches: what is measured of them, and the answers they must give.

Holds no timing (specverify/measure.py) and no table (report.py). Logits come in two kinds:

- peaked, as a language model's: normal noise times 2, and 32 tokens of each row raised by 8 and an exponential variable
  of mean 2, which at temperature 0.8 leaves an entropy of one or two bits. A draft adds normal noise times 0.8.
- flat: normal noise times 0.1, so that every token is about as likely as any other.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from specverify import Sampling, SparseRows, _numpy_verify, reference, verify_sampled
from specverify.measure import Contender, Round

SETTINGS = {
    "temperature": Sampling(temperature=0.8),
    "min-p": Sampling(temperature=0.8, min_p=0.05),
    "top-p": Sampling(temperature=0.8, top_p=0.95),
    "top-k, top-p, min-p": Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05),
}
ENTRIES = 40  # of each sparse row
REQUESTS, BATCH_K, BATCH_VOCAB = 32, 4, 32_000
FEW_REQUESTS, MANY_REQUESTS = 64, 4096

_RAISED, _RAISED_BY, _MEAN_BEYOND, _NOISE = 32, 8.0, 2.0, 0.8
_DRAWS = 4  # rounds on the same rows that differ in their uniforms
_CERTAINLY_REJECTED = 1 - 2.0**-20


def make_logits(kind: str, vocab: int, count: int) -> np.ndarray:
    """Make rows of logits of a kind; the same ones at every call."""
    rng = np.random.default_rng([vocab, count])
    rows = rng.standard_normal((count, vocab), dtype=np.float32)
    rows *= {"peaked": 2.0, "flat": 0.1}[kind]
    if kind == "peaked":
        raised = min(_RAISED, vocab)
        for row in rows:
            row[rng.choice(vocab, raised, replace=False)] += _RAISED_BY + rng.exponential(_MEAN_BEYOND, raised)
    return rows


def make_pair(vocab: int, k: int, rejected_at: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Make peaked logits of a target, K + 1 rows, and of a draft that is near it, K rows.

    Where a round is to reject, the draft takes the target's two best tokens for each other, so that there is something
    to reject and something to draw whatever the filters leave.
    """
    target = make_logits("peaked", vocab, k + 1)
    noise = np.random.default_rng([vocab, k]).standard_normal((k, vocab), dtype=np.float32)
    draft = target[:k] + np.float32(_NOISE) * noise
    if rejected_at is not None:
        second, best = np.argpartition(target[rejected_at], -2)[-2:]
        draft[rejected_at, [second, best]] = target[rejected_at, [best, second]]
    return target, draft


def softmax(logits: np.ndarray) -> np.ndarray:
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, dtype=np.float64, keepdims=True).astype(np.float32)


def end_at(rejected_at: int | None, target: np.ndarray, draft: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Choose tokens and uniforms so that rounds over these weights end where they should."""
    k = len(draft)
    tokens = target[:k].argmax(axis=1)
    uniforms = np.zeros((_DRAWS, k + 1))  # accepts whatever has a probability
    uniforms[:, k] = (np.arange(_DRAWS) + 0.5) / _DRAWS
    if rejected_at is not None:
        target_row, draft_row = (rows[rejected_at] / rows[rejected_at].sum() for rows in (target, draft))
        tokens[rejected_at] = np.argmax(draft_row - target_row)
        uniforms[:, rejected_at] = _CERTAINLY_REJECTED
    return [(tokens, one) for one in uniforms]


def check(expected: list[Any], competing: dict[str, Contender]) -> None:
    """Compare the answers that contenders give to their first inputs with those that they must give."""
    for name, contender in competing.items():
        if contender.checked:
            for answer, inputs in zip(expected, contender.inputs, strict=False):
                found = tuple(contender.function(*inputs))
                if found[: contender.checked] != tuple(answer)[: contender.checked]:
                    raise AssertionError(f"{name} answers {found}, the reference {answer}")


def expect(rounds: list[Round], sampling: Sampling, rejected_at: int | None) -> list[Any]:
    """Let the reference answer rounds that share their rows; it turns into weights only what they visit."""
    visited = len(rounds[0].tokens) + 1 if rejected_at is None else rejected_at + 1
    target, draft = (
        np.stack([reference.weights(row, sampling) if i < visited else row for i, row in enumerate(rows)])
        for rows in (rounds[0].target, rounds[0].draft)
    )
    answers = [reference.verify_sampled(target, draft, one.tokens, one.uniforms) for one in rounds]
    for answer in answers:
        if answer.n_accepted != (len(draft) if rejected_at is None else rejected_at):
            raise AssertionError(f"the round made to end at {rejected_at} accepts {answer.n_accepted}")
    return answers


def one_row(kind: str, vocab: int, sampling: Sampling, dtype: str) -> dict[str, Contender]:
    """A round of K = 0: one visited row and one draw from it. The floor reads the same row in float32."""
    row = make_logits(kind, vocab, 1).astype(dtype)
    uniforms = [np.array([(i + 0.5) / _DRAWS]) for i in range(_DRAWS)]
    expected = [reference.verify_sampled(reference.weights(row[0], sampling)[None], None, [], u) for u in uniforms]
    none = np.empty(0, np.int64)
    wide = row.astype(np.float32)

    def subject(uniform: np.ndarray) -> Any:
        return verify_sampled(row, None, none, uniform, sampling=sampling)

    competing = {
        "specverify": Contender(subject, [(u,) for u in uniforms]),
        "read": Contender(np.max, [(wide,)], checked=0),
    }
    check(expected, competing)
    return competing


def rounds_of_logits(vocab: int, k: int, sampling: Sampling, rejected_at: int | None) -> list[Round]:
    target, draft = make_pair(vocab, k, rejected_at)
    weights = (_numpy_verify.weights(rows, sampling) for rows in (target, draft))
    return [Round(target, draft, *end) for end in end_at(rejected_at, *weights)]


def logit_contenders(rounds: list[Round], sampling: Sampling, rejected_at: int | None) -> dict[str, Contender]:
    """The package, NumPy in two ways, and reading the rows that must be read."""
    last = len(rounds[0].tokens) if rejected_at is None else rejected_at
    target, draft = rounds[0].target[: last + 1], rounds[0].draft[: last + (rejected_at is not None)]

    def with_settings(function: Callable[..., Any]) -> Contender:
        return Contender(lambda *arguments: function(*arguments, sampling=sampling), list(rounds))

    return {
        "specverify": with_settings(verify_sampled),
        "numpy_eager": with_settings(_numpy_verify.verify_logits_eager),
        "numpy_lazy": with_settings(_numpy_verify.verify_logits_lazy),
        "read": Contender(_read, [(target, draft)], checked=0),
    }


def _read(target: np.ndarray, draft: np.ndarray) -> None:
    np.max(target)
    np.max(draft)


def sparse_rounds(vocab: int, k: int, rejected_at: int | None) -> list[tuple[Any, ...]]:
    """Rounds of which target and draft are lists of their 40 most probable tokens."""
    sampling = Sampling(temperature=0.8, top_k=ENTRIES)
    target, draft = (_numpy_verify.weights(rows, sampling) for rows in make_pair(vocab, k, rejected_at))
    listed = [sparse(rows) for rows in (target, draft)]
    return [(*listed, *end) for end in end_at(rejected_at, target, draft)]


def sparse(rows: np.ndarray) -> SparseRows:
    """List the entries of dense rows that are not 0."""
    ids = [np.flatnonzero(row) for row in rows]
    return SparseRows(ids, [row[listed] for row, listed in zip(rows, ids, strict=True)], rows.shape[1])


def batch(requests: int, k: int, vocab: int) -> tuple[np.ndarray, ...]:
    """Probabilities, tokens and uniforms of requests that accept all their tokens, and so read all rows."""
    rng = np.random.default_rng([requests, k, vocab])
    rows = rng.standard_normal((requests * (2 * k + 1), vocab), dtype=np.float32)
    for row in rows:
        np.exp(2 * row, out=row)
        row /= row.sum(dtype=np.float64)
    target = rows[: requests * (k + 1)].reshape(requests, k + 1, vocab)
    draft = rows[requests * (k + 1) :].reshape(requests, k, vocab)
    uniforms = np.zeros((requests, k + 1))
    uniforms[:, k] = rng.random(requests)
    return target, draft, rng.integers(0, vocab, (requests, k)), uniforms


def read_batch(arrays, mapping):
    """Take the maximum of every row of a batch, its requests in two halves: what reading alone takes."""
    target, draft = arrays[:2]
    half = len(target) // 2

    def read(part):
        for rows in (*target[part], *draft[part]):
            np.max(rows)

    return list(mapping(read, (slice(0, half), slice(half, None))))


def check_batch(arrays: tuple[np.ndarray, ...], answer: Any, requests: int = 2) -> None:
    """Compare the first requests of a batch with the reference, and the others with the same requests one by one."""
    for b, one in enumerate(zip(*arrays, strict=True)):
        expected = (reference.verify_sampled if b < requests else verify_sampled)(*one)
        if (answer.n_accepted[b], answer.next_token[b]) != tuple(expected):
            raise AssertionError(f"request {b}: {answer.n_accepted[b], answer.next_token[b]}, alone {expected}")
