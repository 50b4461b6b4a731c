"""A batch decides as its requests alone: padded, ragged, of mixed kinds, over threads, with a faulty one among them."""

import itertools
import multiprocessing
import sys
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from helpers import ALMOST_ONE

from specverify import (
    BatchVerdict,
    Detail,
    Sampling,
    SparseRows,
    reference,
    verify_block,
    verify_greedy,
    verify_sampled,
)

F = np.float32
NAN = float("nan")


class Request(NamedTuple):
    target: np.ndarray
    draft: Any
    tokens: np.ndarray
    uniforms: np.ndarray


def requests(seed: int, size: int = 7, vocab: int = 70, longest: int = 4, dtype: Any = F) -> list[Request]:
    """Rounds of every length, with tokens that are often accepted. The rows serve as probabilities and as logits."""
    rng = np.random.default_rng(seed)
    made = []
    for b in range(size):
        k = b % (longest + 1)
        target = (rng.exponential(size=(k + 1, vocab)) ** 3).astype(F)
        draft = (target[:k] * rng.uniform(0.2, 1, size=(k, vocab))).astype(F).astype(dtype)
        target = target.astype(dtype)
        tokens = np.array([int(row.argmax()) for row in (draft if b % 3 else target[:k]).astype(F)], np.int64)
        made.append(Request(target, draft, tokens, np.append(rng.random(k) * 0.5, rng.random())))
    return made


def padded(given: list[Request]) -> tuple[tuple[np.ndarray, ...], dict]:
    """[B, K + 1, V] and so on, with poison past every length."""
    k = max(len(one.tokens) for one in given)
    vocab, dtype = given[0].target.shape[1], given[0].target.dtype
    target, draft = np.full((len(given), k + 1, vocab), NAN, dtype), np.full((len(given), k, vocab), NAN, dtype)
    tokens, uniforms = np.full((len(given), k), -1), np.full((len(given), k + 1), NAN)
    for b, one in enumerate(given):
        n = len(one.tokens)
        target[b, : n + 1], draft[b, :n], tokens[b, :n], uniforms[b, : n + 1] = one
    return (target, draft, tokens, uniforms), {"lengths": [len(one.tokens) for one in given]}


def ragged(given: list[Request]) -> tuple[tuple[np.ndarray, ...], dict]:
    arrays = tuple(np.concatenate(parts) for parts in zip(*given, strict=True))
    return arrays, {"cu_lengths": np.cumsum([0, *(len(one.tokens) for one in given)])}


def pairs(batch) -> list[tuple[int, int]]:
    return list(zip(batch.n_accepted.tolist(), batch.next_token.tolist(), strict=True))


LAYOUTS = (padded, ragged)
SAMPLERS = [None, Sampling(0.8), Sampling(0.7, 20, 0.9, 0.05), Sampling(0)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [F, np.float16, ml_dtypes.bfloat16, np.float64], ids=["f32", "f16", "bf16", "f64"])
def test_every_layout_gives_what_each_request_gives_alone(isa, layout, dtype):
    given = requests(1, dtype=dtype)
    arrays, lengths = layout(given)
    accepted = set()
    for verify, sampling, kind in itertools.product((verify_sampled, verify_block), SAMPLERS, ("dense", "none")):
        alone, together = given, arrays
        if kind == "none":
            alone, together = [one._replace(draft=None) for one in given], (arrays[0], None, *arrays[2:])
        expected = [tuple(verify(*one, sampling=sampling)) for one in alone]
        for threads in (1, 2, 3):
            batch = verify(*together, sampling=sampling, threads=threads, **lengths)
            assert isinstance(batch, BatchVerdict)
            assert pairs(batch) == expected
        accepted |= {n for n, _ in expected}
    assert accepted == {0, 1, 2, 3, 4}
    expected = [tuple(verify_greedy(one.target, one.tokens)) for one in given]
    assert pairs(verify_greedy(arrays[0], arrays[2], **lengths)) == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_request_has_its_own_sampler_mask_and_bias(isa, layout):
    """Greedy and sampled requests beside each other."""
    given, rng = requests(2, size=9), np.random.default_rng(2)
    each = [SAMPLERS[1 + b % 3] for b in range(9)]
    masks = [rng.integers(-(2**31), 2**31, (len(one.target), 3)).astype(np.int32) for one in given]
    bias = rng.normal(size=(9, 70)).astype(F)
    arrays, lengths = layout(given)
    if layout is ragged:
        mask = np.concatenate(masks)
    else:
        mask = np.zeros((9, 5, 3), np.int32)
        for b, own in enumerate(masks):
            mask[b, : len(own)] = own
    for verify in (verify_sampled, verify_block):
        expected = [tuple(verify(*one, sampling=each[b], mask=masks[b], bias=bias[b])) for b, one in enumerate(given)]
        assert pairs(verify(*arrays, sampling=each, mask=mask, bias=bias, threads=2, **lengths)) == expected
        shared = [tuple(verify(*one, sampling=each[b], bias=bias[0])) for b, one in enumerate(given)]
        assert pairs(verify(*arrays, sampling=each, bias=bias[0], **lengths)) == shared
    greedy = [tuple(verify_greedy(one.target, one.tokens, mask=masks[b], bias=bias[b])) for b, one in enumerate(given)]
    assert pairs(verify_greedy(arrays[0], arrays[2], mask=mask, bias=bias, **lengths)) == greedy


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_request_has_its_own_kind_of_draft(isa, layout):
    given = requests(3, size=12)
    for b, one in enumerate(given):
        if b % 3 == 1:
            given[b] = one._replace(draft=None)
        elif b % 3 == 2:
            ids = [np.union1d(row.argsort()[-9:], token) for row, token in zip(one.draft, one.tokens, strict=True)]
            probs = [row[own] for row, own in zip(one.draft, ids, strict=True)]
            given[b] = one._replace(draft=SparseRows(ids, probs))
    arrays, lengths = layout([one._replace(draft=np.zeros((len(one.tokens), 70), F)) for one in given])
    drafts = [one.draft for one in given]
    for verify, sampling in itertools.product((verify_sampled, verify_block), SAMPLERS[:3]):
        expected = [tuple(verify(*one, sampling=sampling)) for one in given]
        batch = verify(arrays[0], drafts, *arrays[2:], sampling=sampling, threads=2, **lengths)
        assert pairs(batch) == expected


def test_a_ragged_batch_of_sparse_rows(isa):
    given, rng = requests(4), np.random.default_rng(4)
    sparse, dense = [], []
    for one in given:
        k = len(one.tokens)
        target = SparseRows([rng.permutation(70)[:30] for _ in range(k + 1)], rng.random((k + 1, 30)), 70)
        draft = SparseRows([np.roll(np.arange(70), -token)[:20] for token in one.tokens], rng.random((k, 20)), 70)
        sparse.append((target, draft))
        dense.append(Request(target.dense(), draft.dense(), one.tokens, one.uniforms))
    arrays, lengths = ragged(dense)
    flat = [
        SparseRows(
            [i for rows in side for i in np.split(rows.ids, rows.offsets[1:-1]) if len(rows)],
            [p for rows in side for p in np.split(rows.probs, rows.offsets[1:-1]) if len(rows)],
            70,
        )
        for side in zip(*sparse, strict=True)
    ]
    for verify in (verify_sampled, verify_block):
        expected = [tuple(verify(*one)) for one in dense]
        assert pairs(verify(*flat, *arrays[2:], **lengths)) == expected
        assert pairs(verify(*arrays, **lengths)) == expected


def test_rows_of_a_batch_may_lie_anywhere(isa):
    """Requests, rows and columns at other distances, backwards, shared."""
    given = [one for one in requests(5, size=12) if len(one.tokens) == 4]
    (target, draft, tokens, uniforms), _ = padded(given)
    expected = [tuple(verify_sampled(*one)) for one in given]
    wide = np.full((len(given), 10, 80), 9, F)
    wide[:, ::2, 3:73] = target
    assert pairs(verify_sampled(wide[:, ::2, 3:73], draft, tokens, uniforms)) == expected
    backwards = verify_sampled(target[::-1], draft[::-1], tokens[::-1], uniforms[::-1])
    assert pairs(backwards) == expected[::-1]
    assert (
        pairs(verify_sampled(np.asfortranarray(target), draft, tokens.astype(np.int32), uniforms.tolist())) == expected
    )
    assert pairs(verify_sampled(target.tolist(), draft.tolist(), tokens.tolist(), uniforms.tolist())) == expected
    shared = np.broadcast_to(target[0], (3, 5, 70)), np.broadcast_to(draft[0], (3, 4, 70))
    once = verify_sampled(*shared, np.tile(tokens[0], (3, 1)), np.tile(uniforms[0], (3, 1)), threads=3)
    assert pairs(once) == expected[:1] * 3


def test_long_rows_over_threads(isa):
    """Long enough for the threads to overlap; the reference says the same."""
    given = requests(6, size=10, vocab=5000, longest=2)
    arrays, lengths = padded(given)
    sampling = Sampling(0.9, 200, 0.95)
    batches = {tuple(pairs(verify_sampled(*arrays, sampling=sampling, threads=n, **lengths))) for n in (1, 2, 3, 8, 64)}
    assert batches == {tuple(tuple(reference.verify_sampled(*one, sampling=sampling)) for one in given)}


def test_one_thread_pool_serves_several_callers():
    from concurrent.futures import ThreadPoolExecutor

    given = requests(7, size=16, vocab=2000)
    arrays, lengths = padded(given)
    expected = [tuple(verify_sampled(*one)) for one in given]
    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(verify_sampled, *arrays, threads=1 + n % 4, **lengths) for n in range(40)]
        assert all(pairs(future.result()) == expected for future in futures)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("verify", [verify_sampled, verify_block])
def test_details_are_the_emitted_tokens_and_their_log_probabilities(isa, layout, verify):
    given = requests(8)
    arrays, lengths = layout(given)
    for sampling in SAMPLERS:
        detail = verify(*arrays, sampling=sampling, detail=True, **lengths)
        assert isinstance(detail, Detail)
        assert detail.tokens.shape == detail.logprobs.shape == (7, 5)
        assert (detail.status == 0).all()
        for b, one in enumerate(given):
            verdict = verify(*one, sampling=sampling)
            assert (detail.n_accepted[b], detail.next_token[b]) == verdict
            emitted = [*one.tokens[: verdict.n_accepted], verdict.next_token]
            assert detail.tokens[b].tolist() == emitted + [-1] * (5 - len(emitted))
            probs = reference.emitted_probabilities(one.target, one.tokens, verdict, sampling=sampling)
            assert detail.logprobs[b, : len(emitted)].tolist() == np.log(probs).tolist()
            assert np.isnan(detail.logprobs[b, len(emitted) :]).all()
            alone = verify(*one, sampling=sampling, detail=True)
            assert (alone.n_accepted, alone.next_token, alone.status) == (*verdict, 0)
            assert alone.tokens.tolist() == emitted
            assert alone.logprobs.tolist() == np.log(probs).tolist()


def test_details_of_greedy_verification(isa):
    given = requests(9)
    arrays, lengths = padded(given)
    detail = verify_greedy(arrays[0], arrays[2], detail=True, **lengths)
    assert detail.logprobs is None
    for b, one in enumerate(given):
        n_accepted, next_token = verify_greedy(one.target, one.tokens)
        emitted = [*one.tokens[:n_accepted], next_token]
        assert detail.tokens[b].tolist() == emitted + [-1] * (5 - len(emitted))


def test_results_go_where_one_wants(isa):
    given = requests(10)
    arrays, lengths = padded(given)
    expected = [tuple(verify_sampled(*one)) for one in given]
    out = np.full(7, 99), np.full(7, 99)
    batch = verify_sampled(*arrays, out=out, **lengths)
    assert batch.n_accepted is out[0]
    assert batch.next_token is out[1]
    assert pairs(batch) == expected
    columns = np.full((7, 3), 99)
    verify_sampled(*arrays, out=(columns[:, 0], columns[:, 2]), **lengths)
    assert [(n, token) for n, _, token in columns.tolist()] == expected
    assert (columns[:, 1] == 99).all()


def read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ((np.zeros(7, int),), r"^out: expected two arrays \(n_accepted, next_token\), got 1$"),
        ((np.zeros(6, int), np.zeros(7, int)), r"^out: expected int64 arrays of shape \(7,\)$"),
        ((np.zeros(7, np.int32), np.zeros(7, int)), r"^out: expected int64 arrays of shape \(7,\)$"),
        (([0] * 7, np.zeros(7, int)), r"^out: expected int64 arrays of shape \(7,\)$"),
        ((np.zeros(7, int), read_only(np.zeros(7, int))), r"^out: expected writable arrays$"),
    ],
)
def test_where_results_cannot_go(out, message):
    arrays, lengths = padded(requests(10))
    with pytest.raises(ValueError, match=message):
        verify_sampled(*arrays, out=out, **lengths)


def faulty() -> tuple[list[Request], dict[int, tuple[int, str]]]:
    """Requests of which four are bad, each in its own way: status, and what is said."""
    given = requests(11, size=10)
    given[1].tokens[0] = 70
    given[3].uniforms[3] = 1.0
    given[4].target[0, 5] = NAN
    given[8].draft[0, 69] = -1
    return given, {
        1: (1, r"request 1: tokens\[0\] = 70 is outside \[0, 70\)"),
        3: (2, r"request 3: uniforms\[3\] = 1.0 is outside \[0, 1\)"),
        4: (3, r"request 4: target\[0, 5\] = nan: expected a finite probability, 0 or more"),
        8: (4, r"request 8: draft\[0, 69\] = -1.0: expected a finite probability, 0 or more"),
    }


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("verify", [verify_sampled, verify_block])
def test_the_error_names_the_request(isa, layout, verify):
    given, faults = faulty()
    for bad, (_, message) in faults.items():
        good = [one if b == bad or b not in faults else given[0] for b, one in enumerate(given)]
        arrays, lengths = layout(good)
        for threads in (1, 2):
            with pytest.raises(ValueError, match=f"^{message}$"):
                verify(*arrays, threads=threads, **lengths)
    arrays, lengths = layout(given)
    with pytest.raises(ValueError, match=r"^request 1: tokens"):  # the first of several, whoever finds it
        verify(*arrays, threads=3, **lengths)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_marked_request_does_not_fail_the_others(isa, layout, threads):
    given, faults = faulty()
    arrays, lengths = layout(given)
    for detail in (False, True):
        marked = verify_sampled(*arrays, on_error="mark", threads=threads, detail=detail, **lengths)
        assert marked.status.tolist() == [faults[b][0] if b in faults else 0 for b in range(10)]
        for b, one in enumerate(given):
            if b in faults:
                assert (marked.n_accepted[b], marked.next_token[b]) == (-1, -1)
                assert (marked.tokens[b] == -1).all()
            else:
                assert (marked.n_accepted[b], marked.next_token[b]) == verify_sampled(*one)
        assert (marked.logprobs is not None) == detail


def test_marks_of_greedy_and_single_rounds(isa):
    rows = np.eye(4, dtype=F)[[[1, 2], [3, 0]]]
    rows[1, 0, 2] = NAN
    marked = verify_greedy(rows, [[1], [3]], on_error="mark")
    assert (marked.n_accepted.tolist(), marked.next_token.tolist(), marked.status.tolist()) == (
        [1, -1],
        [2, -1],
        [0, 3],
    )
    alone = verify_greedy(rows[1], [3], on_error="mark")
    assert (alone.n_accepted, alone.next_token, alone.tokens.tolist(), alone.status) == (-1, -1, [], 3)
    with pytest.raises(ValueError, match=r"^request 1: target\[0, 2\] = nan: expected a number below infinity$"):
        verify_greedy(rows, [[1], [3]])


ROWS, DRAFTS, TOKENS, UNIFORMS = np.ones((2, 3, 4)), np.ones((2, 2, 4)), np.zeros((2, 2), int), np.full((2, 3), 0.5)
FLAT = np.ones((5, 4)), np.ones((3, 4)), np.zeros(3, int), np.full(5, 0.5)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((ROWS, DRAFTS, TOKENS, UNIFORMS), {"lengths": [1]}, r"^lengths: expected 2 integers, got shape \(1,\)"),
        ((ROWS, DRAFTS, TOKENS, UNIFORMS), {"lengths": [1.0, 2.0]}, r"^lengths: expected 2 integers, got .* float64$"),
        ((ROWS, DRAFTS, TOKENS, UNIFORMS), {"lengths": [1, 3]}, r"^lengths\[1\] = 3 is outside \[0, 2\]$"),
        ((ROWS, DRAFTS, TOKENS, UNIFORMS), {"lengths": [-1, 2]}, r"^lengths\[0\] = -1 is outside \[0, 2\]$"),
        ((ROWS[0], DRAFTS[0], TOKENS[0], UNIFORMS[0]), {"lengths": [2]}, r"^lengths: expected None, except"),
        ((ROWS, DRAFTS[:1], TOKENS, UNIFORMS), {}, r"^draft: expected shape \(2, 2, 4\) .*, got \(1, 2, 4\)$"),
        ((ROWS, DRAFTS[:, :, :3], TOKENS, UNIFORMS), {}, r"^draft: expected shape \(2, 2, 4\) .*, got \(2, 2, 3\)$"),
        ((ROWS, DRAFTS, TOKENS[0], UNIFORMS), {}, r"^tokens: expected shape \(2, 2\) beside the target's, got \(2,\)$"),
        ((ROWS, DRAFTS, TOKENS, UNIFORMS[:, :2]), {}, r"^uniforms: expected shape \(2, 3\) beside .* got \(2, 2\)$"),
        ((ROWS, [None], TOKENS, UNIFORMS), {}, r"^draft: expected one entry for each of 2 requests, got 1$"),
        ((ROWS, DRAFTS, TOKENS, UNIFORMS), {"sampling": [Sampling()]}, r"^sampling: expected one for each of 2 req"),
        ((ROWS, DRAFTS, TOKENS, UNIFORMS), {"threads": 0}, r"^threads: expected a positive integer, got 0$"),
        ((ROWS, DRAFTS, TOKENS, UNIFORMS), {"threads": None}, r"^threads: expected a positive integer, got None$"),
        ((ROWS, DRAFTS, TOKENS, UNIFORMS), {"threads": 1.5}, r"^threads: expected a positive integer, got 1.5$"),
        ((ROWS, DRAFTS, TOKENS, UNIFORMS), {"on_error": "skip"}, r"^on_error: expected 'raise' or 'mark', got 'skip'$"),
        ((np.ones((2, 0, 4)), None, TOKENS, UNIFORMS), {}, r"^target: expected shape \[K \+ 1, V\] with at least one"),
        ((ROWS, None, TOKENS, UNIFORMS), {"mask": np.ones((2, 3), np.int32)}, r"^mask and bias apply to logits"),
        (FLAT, {"cu_lengths": [1, 3]}, r"^cu_lengths: expected numbers from 0 that do not fall$"),
        (FLAT, {"cu_lengths": [0, 4, 3]}, r"^cu_lengths: expected numbers from 0 that do not fall$"),
        (FLAT, {"cu_lengths": [0, 1, 2]}, r"^target: expected 2 \+ 2 rows .*, got 5$"),
        (FLAT, {"cu_lengths": []}, r"^cu_lengths: expected B \+ 1 integers, got shape \(0,\)"),
        (FLAT, {"cu_lengths": [0, 1, 3], "lengths": [1, 2]}, r"^lengths: expected None, except"),
        ((FLAT[0], FLAT[1][:2], *FLAT[2:]), {"cu_lengths": [0, 1, 3]}, r"^draft: expected shape \(3, 4\) .*\(2, 4\)$"),
        ((*FLAT[:2], FLAT[2][:2], FLAT[3]), {"cu_lengths": [0, 1, 3]}, r"^tokens: expected shape \(3,\) .*\(2,\)$"),
        ((*FLAT[:3], FLAT[3][:4]), {"cu_lengths": [0, 1, 3]}, r"^uniforms: expected shape \(5,\) .*\(4,\)$"),
    ],
)
def test_batches_that_do_not_fit(arguments, options, message):
    for verify in (verify_sampled, verify_block):
        with pytest.raises(ValueError, match=message):
            verify(*arguments, **options)


def test_a_token_that_wraps_names_its_place():
    with pytest.raises(ValueError, match=r"^tokens\[1, 0\] = 9223372036854775808 is outside"):
        verify_sampled(ROWS, DRAFTS, np.array([[0, 1], [2**63, 0]], np.uint64), UNIFORMS)
    with pytest.raises(TypeError, match=r"^tokens: expected integers, got dtype float64$"):
        verify_sampled(ROWS, DRAFTS, np.zeros((2, 2)), UNIFORMS)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((np.empty((0, 3, 5), F), np.empty((0, 2, 5), F), np.empty((0, 2), int), np.empty((0, 3))), {}),
        ((np.empty((0, 3, 5), F), None, np.empty((0, 2), int), np.empty((0, 3))), {"lengths": []}),
        ((np.empty((0, 3, 5)), [], [], []), {"sampling": Sampling()}),
        (([], [], [], []), {}),
        (([], None, [], []), {"sampling": [], "threads": 4}),
        ((np.empty((0, 5), F), np.empty((0, 5), F), [], []), {"cu_lengths": [0]}),
        (([], [], [], []), {"cu_lengths": [0]}),
        ((SparseRows([], [], 5), SparseRows([], []), [], []), {"cu_lengths": [0]}),
    ],
)
def test_an_empty_batch_has_an_empty_result(arguments, options):
    """vllm-project/vllm PR#7244."""
    for verify in (verify_sampled, verify_block):
        for detail in (False, True):
            batch = verify(*arguments, detail=detail, **options)
            assert batch.n_accepted.shape == batch.next_token.shape == (0,)
            assert batch.n_accepted.dtype == np.int64
    if isinstance(arguments[0], SparseRows) or "sampling" in options:
        return
    assert verify_greedy(arguments[0], arguments[2], **options).n_accepted.shape == (0,)


def test_greedy_and_sampled_requests_beside_each_other(isa):
    """One place divided by a temperature of 0. vllm-project/vllm PR#27077, ggml-org/llama.cpp#5657."""
    target = [[[1, 3, 2], [0, 0, 5]], np.log([[0.2, 0.3, 0.5]] * 2), [[4, 1, 1], [0, 0, 5]]]
    draft = [[[0, 9, 0]], np.log([[0.6, 0.2, 0.2]]), [[0, 0, 7]]]
    tokens, uniforms = [[1], [0], [2]], [[0.99, 0.99], [0.5, 0.1], [0.0, 0.0]]
    samplers = [Sampling(0), Sampling(1), Sampling(0)]
    expected = [(1, 2), (0, 1), (0, 0)]
    assert pairs(verify_sampled(np.array(target), np.array(draft), tokens, uniforms, sampling=samplers)) == expected
    for b in range(3):
        assert verify_sampled(target[b], draft[b], tokens[b], uniforms[b], sampling=samplers[b]) == expected[b]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_any_order_of_ragged_requests(isa, order):
    """Offsets came from one order and rows lay in another. vllm-project/vllm PR#14645."""
    maxima, tokens = [[1, 3, 0], [4], [0, 1]], [[1, 3], [], [2]]
    expected = [(2, 0), (0, 4), (0, 0)]
    rows = np.concatenate([np.eye(5)[maxima[b]] for b in order])
    bounds = np.cumsum([0, *(len(tokens[b]) for b in order)])
    flat = [token for b in order for token in tokens[b]]
    assert pairs(verify_greedy(rows, flat, cu_lengths=bounds)) == [expected[b] for b in order]
    for b in order:
        assert verify_greedy(np.eye(5)[maxima[b]], tokens[b]) == expected[b]


def test_a_request_depends_on_its_own_uniforms_alone(isa):
    """Neighbours changed seeded results. vllm-project/vllm#6038, PR#10863, NVIDIA/TensorRT-LLM PR#17599."""
    row, sampling = np.log([0.5, 0.3, 0.2, 1e-30]), Sampling(1.0, top_k=3)
    rng, own = np.random.default_rng(), np.random.default_rng(7).random(3)
    alone = verify_sampled([row] * 3, [row] * 2, [1, 0], own, sampling=sampling)
    unseeded = set()
    for _ in range(100):
        uniforms = [own, rng.random(3), own]
        batch = verify_sampled([[row] * 3] * 3, [[row] * 2] * 3, [[1, 0]] * 3, uniforms, sampling=sampling)
        assert pairs(batch)[0] == pairs(batch)[2] == alone
        unseeded.add(int(batch.next_token[1]))
    assert unseeded == {0, 1, 2}


def test_padding_is_not_verified(isa):
    """More tokens were reported than drafted. flashinfer-ai/flashinfer#879, PR#3551."""
    target, draft = np.full((2, 4, 3), NAN), np.full((2, 3, 3), NAN)
    target[0, :2], draft[0, 0] = [[0.1, 0.2, 0.7], [1, 0, 0]], [0.2, 0.2, 0.6]
    target[1], draft[1] = np.eye(3)[[0, 1, 2, 1]], np.eye(3)[[0, 1, 2]]
    tokens, uniforms = [[2, -1, -1], [0, 1, 2]], [[0.5, 0.25, 0.25, 0.25], [0.5] * 4]
    for verify in (verify_sampled, verify_block):
        assert pairs(verify(target, draft, tokens, uniforms, lengths=[1, 3])) == [(1, 0), (3, 1)]


def child(arrays, lengths, expected) -> None:
    sys.exit(pairs(verify_sampled(*arrays, threads=2, **lengths)) != expected)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_threaded_call_after_fork():
    """The parent's threads do not exist in the child. scikit-learn/scikit-learn#19272, #7650."""
    arrays, lengths = padded(requests(12, vocab=3000))
    expected = pairs(verify_sampled(*arrays, threads=2, **lengths))
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=child, args=(arrays, lengths, expected)) for _ in range(4)]
    for process in children:
        process.start()
    for process in children:
        process.join(60)
        if process.is_alive():
            process.kill()
            process.join()
    assert [process.exitcode for process in children] == [0] * 4


def test_what_was_tested_tells_wrong_batches_from_right_ones():
    """The rounds of this file are such that a lost length, a shifted offset or a shared sampler changes a verdict."""
    given = requests(1)
    right = [tuple(verify_sampled(*one)) for one in given]
    longest_first = sorted(given, key=lambda one: -len(one.tokens))
    arrays, lengths = ragged(given)
    shifted = [np.roll(rows, 1, 0) for rows in arrays[:2]]
    assert pairs(verify_sampled(*shifted, *arrays[2:], **lengths)) != right
    assert [tuple(verify_sampled(*one)) for one in longest_first] != right
    for sampling in SAMPLERS[1:]:
        assert [tuple(verify_sampled(*one, sampling=sampling)) for one in given] != right
    (target, draft, tokens, uniforms), _ = padded(given)
    uniforms[np.isnan(uniforms)] = ALMOST_ONE
    with pytest.raises(ValueError, match="request"):
        verify_sampled(target, draft, tokens, uniforms)  # without the lengths
