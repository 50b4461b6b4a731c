"""What once crashed, or answered wrongly without a word: memory that others can write to, and limits."""

import threading

import numpy as np
import pytest

import specverify
from specverify import Sampling, SparseRows, _core, conformance, verify_block, verify_greedy, verify_sampled


def test_sparse_rows_cannot_be_changed_behind_the_core():
    rows = SparseRows([[0, 1]], [[0.5, 0.5]], 4)
    for array in (rows.ids, rows.probs, rows.offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 10**9
    for name in ("ids", "probs", "offsets", "vocab_size", "largest_id"):
        with pytest.raises(AttributeError):
            setattr(rows, name, None)


def test_a_batch_checks_its_own_copy_of_tokens_and_uniforms():
    """Another thread that writes to them meanwhile may change the result, but never what memory is read."""
    target = np.ones((8, 3, 4000), np.float32)
    tokens, uniforms = np.zeros((8, 2), np.int64), np.full((8, 3), 0.5)
    over = threading.Event()

    def write():
        while not over.is_set():
            tokens[:], uniforms[:] = 2**40, 7.0
            tokens[:], uniforms[:] = 0, 0.5

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            try:
                verdict = verify_sampled(target, target[:, :2], tokens, uniforms, threads=2)
            except ValueError:
                continue
            assert ((verdict.next_token >= 0) & (verdict.next_token < 4000)).all()
    finally:
        over.set()
        writer.join()


def test_rows_that_are_too_long_for_a_sampler_are_refused():
    row = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1, 2**24 + 1), (4, 0))
    with pytest.raises(ValueError, match=r"^sampling: expected logits of at most 16777216 tokens, got 16777217$"):
        verify_sampled(row, None, [], [0.5], sampling=Sampling(top_k=3))


def test_the_block_rule_checks_trusted_rows_that_it_sums():
    target, draft = [[0.5, 0.5], [np.inf, 0.0], [0.5, 0.5]], [[0.5, 0.5]] * 2
    with pytest.raises(ValueError, match=r"^target\[1, 0\] = inf"):
        verify_block(target, draft, [0, 1], [0.1, 0.9, 0.5], normalized=True)


def test_the_row_loops_take_dense_float32_only():
    for rows in (np.ones((1, 8), np.float16), SparseRows([[0]], [[1.0]], 8)):
        with pytest.raises(TypeError, match="expected dense float32 rows"):
            _core.row_masses(rows)


def test_bfloat16_at_an_odd_address_is_copied():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    memory = np.zeros(2 * 12 + 1, np.uint8)
    rows = memory[1:].view(ml_dtypes.bfloat16).reshape(2, 6)
    rows[:] = np.arange(12).reshape(2, 6)
    assert verify_greedy(rows, [5]) == (1, 5)
    assert verify_sampled(rows, None, [5], [0.0, 0.99], sampling=Sampling(0.0)) == (1, 5)


def test_greedy_rows_of_float64_keep_their_precision():
    close = np.array([[1.0, 1.0 + 1e-12], [1e300, 1e299]])
    assert verify_greedy(close, [1]) == (1, 0)
    with pytest.raises(ValueError, match=r"^target\[0, 1\] = nan"):
        verify_greedy(np.array([[1.0, np.nan]]), [])


def test_masked_arrays_are_refused():
    rows = np.ma.masked_array(np.ones((1, 4), np.float32), [[0, 1, 0, 0]])
    for verify, arguments in ((verify_greedy, (rows, [])), (verify_sampled, (rows, None, [], [0.5]))):
        with pytest.raises(TypeError, match="masked array"):
            verify(*arguments)


def test_one_array_cannot_take_both_results():
    target, out = np.ones((2, 1, 4), np.float32), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match=r"^out: expected two different arrays$"):
        verify_sampled(target, None, np.empty((2, 0), int), np.zeros((2, 1)), out=(out, out))


def test_drafts_of_a_ragged_list_are_taken_one_by_one():
    rng = np.random.default_rng(3)
    target, draft = rng.random((3, 3, 5), dtype=np.float32), rng.random((3, 2, 5), dtype=np.float32)
    tokens, uniforms, lengths = rng.integers(0, 5, (3, 2)), rng.random((3, 3)), [2, 1, 0]
    expected = verify_sampled(target, draft, tokens, uniforms, lengths=lengths)
    for drafts in ([draft[0], draft[1, :1], draft[2, :0]], list(draft)):
        got = verify_sampled(target, drafts, tokens, uniforms, lengths=lengths)
        assert (got.n_accepted == expected.n_accepted).all()
        assert (got.next_token == expected.next_token).all()


def test_a_sparse_draft_of_another_vocabulary_is_refused():
    with pytest.raises(ValueError, match=r"^draft: expected a vocab_size of 4 beside the target's, got 10$"):
        verify_sampled(np.ones((2, 4)), SparseRows([[1]], [[1.0]], 10), [1], [0.5, 0.5])


def test_uniforms_of_a_draw_may_come_from_anywhere():
    assert specverify.sample([0.5, 0.5], [0.7]) == specverify.sample([0.5, 0.5], np.float32(0.7)) == 1
    with pytest.raises(ValueError, match=r"^uniform: expected one number for each of 1 rows, got shape \(2,\)$"):
        specverify.sample([0.5, 0.5], [0.1, 0.2])


def test_a_failed_report_is_false():
    assert not conformance.check(lambda *_: (0, 0), layers=["edge cases"])
    assert conformance.check(verify_sampled, layers=["edge cases"])


def test_submodules_come_when_they_are_named():
    assert specverify.reference.verify_sampled([[0.5, 0.5]], None, [], [0.7]) == (0, 1)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = specverify.nothing
