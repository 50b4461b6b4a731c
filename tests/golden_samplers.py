"""Golden rounds of what came after plain probabilities: logits under a sampler, sparse rows, the block rule, halves.

As golden_rounds.py, whose generator this uses: inputs are made from integers alone, and one line of text says what came
of each round. Of each warped row the line holds a digest of the float32 probabilities, so that every weight counts.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from golden_rounds import SplitMix64, _floats, _uniform

FILE = Path(__file__).parent / "golden" / "samplers.txt"

# Sizes around the edges of mask words, groups of 64 logits, pieces, blocks; and more logits than 4096 groups of 64.
ROUNDS = {
    **dict.fromkeys((1, 2, 3, 8, 31, 32, 33, 63, 64, 65, 97), 60),
    **dict.fromkeys((255, 256, 257, 1000), 50),
    **dict.fromkeys((4095, 4096, 4097), 24),
    **dict.fromkeys((8200, 12305), 10),
    32000: 8,
    262_177: 2,
}


class Round(NamedTuple):
    number: int
    block: bool
    target: np.ndarray
    draft: Any  # rows, None, or lists of ids and of probabilities
    tokens: np.ndarray
    uniforms: np.ndarray
    sampling: SimpleNamespace | None
    mask: np.ndarray | None
    bias: np.ndarray | None


def _bell(random: SplitMix64, n: int, steps: int) -> np.ndarray:
    """Sums of four bytes, in 64ths: bell-shaped, with many ties where `steps` is small."""
    words = random.words(n)
    total = sum(((words >> np.uint64(8 * byte)) & np.uint64(255)).astype(np.int64) for byte in range(4))
    return ((total - 510) // steps * steps).astype(np.float32) / np.float32(32)


def _logits(random: SplitMix64, n: int) -> np.ndarray:
    row = _bell(random, n, random.choice((1, 1, 1, 64)))
    kind = random.below(6)
    if kind == 0:
        row -= np.float32(40)  # all negative, as log-probabilities
    if kind == 1:
        row[random.words(n) % np.uint64(3) == 0] = -np.inf
        row[random.below(n)] = 2.5
    if kind == 2:
        row *= np.float32(16)
    return row


def _sampling(random: SplitMix64) -> SimpleNamespace:
    return SimpleNamespace(
        temperature=random.choice((0.0, 0.8, 1.0, 1.0, 1.7, 1e-5)),
        top_k=random.choice((0, 0, 1, 2, 5, 40, 3000)),
        top_p=random.choice((1.0, 1.0, 0.95, 0.5, 0.999)),
        min_p=random.choice((0.0, 0.0, 0.05, 0.4)),
    )


def _lists(random: SplitMix64, rows: int, n: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """For each row some different ids, ascending, and a weight for each."""
    ids, probs = [], []
    for _ in range(rows):
        chosen = np.unique(random.words(1 + random.below(min(n, 50))) % np.uint64(n)).astype(np.int64)
        ids.append(chosen)
        probs.append(((random.words(len(chosen)) >> np.uint64(40)) + np.uint64(1)).astype(np.float32))
    return ids, probs


def make(number: int, n: int) -> Round:
    """One round; what kind it is follows from its number alone."""
    random = SplitMix64(number + 1_000_001)
    k = random.choice((0, 1, 2, 4, 4)) if n < 100_000 else 1
    block, warped = random.below(2) == 0, random.below(3) != 0
    uniforms = np.array([_uniform(random) for _ in range(k + 1)])
    sampling = mask = bias = None
    if warped:
        target = np.stack([_logits(random, n) for _ in range(k + 1)])
        draft: Any = np.stack([target[i] + _bell(random, n, 1) / np.float32(8) for i in range(k)]) if k else target[:0]
        sampling = _sampling(random)
        if random.below(4) == 0:
            mask = (random.words((k + 1) * (-(-n // 32))) >> np.uint64(32)).astype(np.uint32).view(np.int32)
            mask = mask.reshape(k + 1, -1)
            mask[:, 0] |= 1  # one token at least is always allowed
            target[:, 0], draft[:, 0] = 1.0, 0.5
        if random.below(4) == 0:
            bias = _bell(random, n, 1)
        if random.below(4) == 0:
            target, draft = target.astype(np.float16), draft.astype(np.float16)
    else:
        words = random.words((2 * k + 1) * n).reshape(2 * k + 1, n)
        rows = _floats(((np.uint64(100) + words % np.uint64(28)) << np.uint64(23)) | (words >> np.uint64(41)))
        target, draft = rows[: k + 1], rows[k + 1 :]
        if random.below(4) == 0:
            target, draft = target.astype(np.float16), draft.astype(np.float16)
            target[:, random.below(n)] = 0.5
            draft[:, random.below(n)] = 0.5
    kind = random.below(4)
    if kind == 0:
        draft = None
    if kind == 1:
        draft = _lists(random, k, n)
        tokens = [int(random.choice(ids)) for ids in draft[0]]
    else:
        likely = target if draft is None else draft
        tokens = [int(np.argmax(likely[i])) if random.below(3) else random.below(n) for i in range(k)]
    return Round(number, block, target, draft, np.array(tokens, np.int64), uniforms, sampling, mask, bias)


def rounds(largest: int = 2**31, every: int = 1) -> Iterator[Round]:
    """The rounds, or every so many of them, with rows of at most `largest` entries."""
    sizes = [n for n, count in ROUNDS.items() for _ in range(count)]
    for number, n in list(enumerate(sizes))[::every]:
        if n <= largest:
            yield make(number, n)


def line(given: Round, verdict: tuple[int, int], law: np.ndarray | None) -> str:
    """What is written down: number, accepted, next token, and a digest of the law of the first target row."""
    digest = "-" if law is None else hashlib.sha256(law.tobytes()).hexdigest()[:16]
    return f"{given.number} {verdict[0]} {verdict[1]} {digest}"


def result_line(given: Round, operations: Any, sparse_rows: Any, sampling_of: Any, probabilities: Any) -> str:
    """The line of a round by the functions of `operations`: the package, or its reference."""
    options: dict[str, Any] = {}
    if given.sampling is not None:
        options = {"sampling": sampling_of(given.sampling), "mask": given.mask, "bias": given.bias}
    draft = sparse_rows(*given.draft, given.target.shape[1]) if isinstance(given.draft, tuple) else given.draft
    rule = operations.verify_block if given.block else operations.verify_sampled
    verdict = rule(given.target, draft, given.tokens, given.uniforms, **options)
    law = None
    if given.sampling is not None:
        mask = None if given.mask is None else given.mask[0]
        law = probabilities(given.target[0], options["sampling"], mask=mask, bias=given.bias)
    return line(given, verdict, law)


class Lists(NamedTuple):
    """Sparse rows as the reference takes them, whose package knows no other of ours."""

    ids: np.ndarray
    probs: np.ndarray
    offsets: np.ndarray
    rows: int

    def __len__(self) -> int:
        return self.rows


def lists(ids: list[np.ndarray], probs: list[np.ndarray], vocab_size: int) -> Lists:
    offsets = np.cumsum([0, *map(len, ids)])
    return Lists(np.concatenate([*ids, []]).astype(np.int64), np.concatenate([*probs, []]), offsets, len(ids))


def reference_line(given: Round, reference: Any) -> str:
    return result_line(given, reference, lists, lambda sampling: sampling, reference.probabilities)
