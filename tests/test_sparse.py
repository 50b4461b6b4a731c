"""Rows given as lists decide as the same rows written out, in any order of their ids; and what SparseRows refuses."""

import helpers
import numpy as np
import pytest
from helpers import ALMOST_ONE

import specverify
from specverify import SparseRows, reference, verify_block, verify_sampled

F = np.float32


def listed(rng, k: int, vocab: int, n: int, vocab_size: int | None = None) -> SparseRows:
    """Rows of up to n entries with ids anywhere, the ends of pieces and blocks included."""
    edges = [i for i in (0, 15, 16, 255, 256, 4095, 4096, vocab - 1) if i < vocab]
    ids, probs = [], []
    for _ in range(k):
        own = rng.permutation(np.union1d(rng.integers(0, vocab, n), rng.choice(edges, min(3, len(edges)))))
        ids.append(own)
        probs.append(rng.random(len(own)).astype(F) ** 3 + F(1e-6))
    return SparseRows(ids, probs, vocab_size)


@pytest.mark.parametrize("vocab", [1, 2, 16, 17, 255, 257, 4096, 4097, 9000, 70_000])
def test_lists_are_the_rows_written_out(isa, vocab):
    rng = np.random.default_rng(vocab)
    for n in (1, 5, 40, 2000):
        dense = (rng.random((4, vocab)) ** 6).astype(F) + F(1e-9)
        target, draft = listed(rng, 4, vocab, n, vocab), listed(rng, 3, vocab, n)
        for own, other in ((dense, draft), (target, draft), (target, dense[:3]), (target, None)):
            written = own.dense() if own is target else own, other.dense(vocab) if other is draft else other
            for u in (0.02, 0.5, ALMOST_ONE):
                tokens = [
                    int(rng.choice(draft.ids[a:b])) for a, b in zip(draft.offsets, draft.offsets[1:], strict=False)
                ]
                uniforms = [u, u, u, rng.random()]
                for verify, slow in (
                    (verify_sampled, reference.verify_sampled),
                    (verify_block, reference.verify_block),
                ):
                    got = verify(own, other, tokens, uniforms)
                    assert got == verify(*written, tokens, uniforms)
                    if vocab < 5000 and n != 5:
                        assert got == slow(own, other, tokens, uniforms)


def test_a_row_longer_than_a_million_doubles_its_groups(isa):
    vocab = 1_048_577
    rng = np.random.default_rng(0)
    target, draft = listed(rng, 2, vocab, 50, vocab), listed(rng, 1, vocab, 50)
    for last in (0.0, 0.5, ALMOST_ONE):
        arguments = [int(draft.ids[0])], [0.9, last]
        assert verify_sampled(target, draft, *arguments) == verify_sampled(
            target.dense(), draft.dense(vocab), *arguments
        )


def test_any_order_of_ids_is_the_same_row(isa):
    rng = np.random.default_rng(1)
    ids, probs = rng.permutation(1000)[:60], rng.random(60).astype(F)
    target = (rng.random((2, 1000)) ** 4).astype(F)
    verdicts = set()
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(60)
        draft = SparseRows([ids[order]], [probs[order]])
        assert draft.ids.tolist() == sorted(ids)
        verdicts.add(tuple(verify_sampled(target, draft, [int(ids[0])], [0.8, 0.3])))
    assert len(verdicts) == 1


def test_trusted_lists_take_no_sums(isa):
    """Rows summing to 1 in units of 2**-8, and rows that do not, as written out."""
    rng = np.random.default_rng(2)
    target = rng.exponential(size=(3, 300)).astype(F)
    for total in (1.0, 2.5):
        draft = SparseRows([[7, 3, 250]] * 2, F([[0.5, 0.25, 0.25]] * 2) * F(total))
        for rows in (target / target.sum(1, keepdims=True), target):
            for u in (0.0, 0.6, ALMOST_ONE):
                arguments = [7, 250], [u, u, 0.4]
                for verify in (verify_sampled, verify_block):
                    expected = verify(rows, draft.dense(300), *arguments, normalized=True)
                    assert verify(rows, draft, *arguments, normalized=True) == expected


def test_a_token_that_is_not_on_the_list(isa):
    """It cannot have been drawn: accepted iff the target can, the limit of the rule."""
    draft = SparseRows([[0, 2]], [[0.5, 0.5]])
    assert verify_sampled([[0.0, 0.5, 0.5, 0.0]] * 2, draft, [1], [ALMOST_ONE, 0.2]) == (1, 1)
    assert verify_sampled([[0.0, 0.5, 0.5, 0.0]] * 2, draft, [3], [0.0, 0.2]) == (0, 1)


def test_zeros_and_types_on_a_list():
    draft = SparseRows(np.array([[3, 1]], np.uint8), np.float64([[0.0, 2.0]]))
    assert draft.probs.dtype == F
    assert verify_sampled([[0.2, 0.4, 0.2, 0.2]] * 2, draft, [1], [0.3, 0.9]) == (1, 3)
    assert (draft.dense(4) == [[0, 2, 0, 0]]).all()


def test_a_residual_behind_a_list_is_not_contracted(isa):
    """Scale 1/3 rounded down: times 3 that rounds to 1 and leaves nothing but the last entries."""
    target = np.ones((2, 40), F)
    target[0, -2:] = 2, 0
    draft = SparseRows([[*range(38), 39]], [[3.0] * 38 + [6.0]])
    assert verify_sampled(target, draft, [39], [0.0, 0.0]) == (0, 38)


@pytest.mark.parametrize("u", [0.3, ALMOST_ONE])
def test_equal_lists_accept_and_disjoint_ones_do_not(isa, u):
    rng = np.random.default_rng(3)
    rows = listed(rng, 3, 5000, 40, 5000)
    draft = SparseRows(
        *(
            [rows.ids[a:b] for a, b in zip(rows.offsets[:2], rows.offsets[1:], strict=False)],
            [rows.probs[a:b] * F(4) for a, b in zip(rows.offsets[:2], rows.offsets[1:], strict=False)],
        )
    )
    tokens = [int(rows.ids[0]), int(rows.ids[rows.offsets[1]])]
    for verify in (verify_sampled, verify_block):
        assert verify(rows, draft, tokens, [u, u, 0.5]).n_accepted == 2
    other = SparseRows([[1, 3]], [[0.5, 0.5]], 6), SparseRows([[0, 2]], [[0.5, 0.5]])
    target = SparseRows([[1, 3]] * 2, [[0.5, 0.5]] * 2, 6)
    for verify in (verify_sampled, verify_block):
        assert verify(target, other[1], [2], [0.0, u]) == (0, 1 if u < 0.5 else 3)


def test_sparse_rows_beside_logits_stay_probabilities(isa):
    """The target is warped, the list is what it says."""
    rng = np.random.default_rng(4)
    logits, sampling = rng.normal(size=(3, 300)).astype(F), specverify.Sampling(0.7, 100, 0.95)
    draft = listed(rng, 2, 300, 30)
    tokens = [int(draft.ids[0]), int(draft.ids[draft.offsets[1]])]
    warped = np.stack([reference.weights(row, sampling) for row in logits])
    for u in (0.01, 0.6, 0.99):
        for verify in (verify_sampled, verify_block):
            expected = verify(warped, draft.dense(300), tokens, [u, u, 0.3])
            assert verify(logits, draft, tokens, [u, u, 0.3], sampling=sampling) == expected


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([[0]], []), ValueError, r"^SparseRows: expected as many rows of probs as of ids \(1\), got 0$"),
        (
            ([[0, 1]], [[1.0]]),
            ValueError,
            r"^SparseRows: row 0: expected ids and probs of one length, got \(2,\) and \(1,\)",
        ),
        (
            ([[0], [1, 1]], [[1.0], [0.5, 0.5]]),
            ValueError,
            r"^SparseRows: row 1: expected ids of 0 or more without rep",
        ),
        (([[-1]], [[1.0]]), ValueError, r"^SparseRows: row 0: expected ids of 0 or more"),
        (([[0.0]], [[1.0]]), TypeError, r"^SparseRows: row 0: expected integer ids, got dtype float64$"),
        (([[0]], [["a"]]), TypeError, r"^SparseRows: row 0: expected real probabilities, got dtype <U1$"),
        (([[4]], [[1.0]], 4), ValueError, r"^SparseRows: id 4 is outside \[0, 4\)$"),
        (([[2**64 - 1]], [[1.0]]), ValueError, r"^SparseRows: "),
        (([[]], [[]], 0), ValueError, r"^SparseRows: expected a vocab_size of 1 to 16777216, got 0$"),
        (([[]], [[]], 4.0), ValueError, r"^SparseRows: expected a vocab_size of 1 to 16777216, got 4.0$"),
    ],
)
def test_lists_that_are_no_rows(arguments, error, message):
    with pytest.raises(error, match=message):
        SparseRows(*arguments)


@pytest.mark.parametrize(
    ("target", "draft", "error", "message"),
    [
        (np.ones((2, 4)), SparseRows([[4]], [[1.0]]), ValueError, r"^draft: id 4 is outside \[0, 4\)$"),
        (np.ones((2, 4)), SparseRows([[1]] * 2, [[1.0]] * 2), ValueError, r"^draft: expected 1 sparse rows .* got 2$"),
        (np.ones((2, 4)), SparseRows([[1]], [[0.0]]), ValueError, r"^draft\[0\] sums to 0"),
        (np.ones((2, 4)), SparseRows([[]], [[]]), ValueError, r"^draft\[0\] sums to 0"),
        (np.ones((2, 4)), SparseRows([[1, 3]], [[0.5, np.nan]]), ValueError, r"^draft\[0, 3\] = nan"),
        (np.ones((2, 4)), SparseRows([[1, 3]], [[0.5, -1]]), ValueError, r"^draft\[0, 3\] = -1.0"),
        (np.ones((2, 4)), SparseRows([[1, 3]], [[0.5, 1e39]]), ValueError, r"^draft\[0, 3\] = inf"),
        (
            SparseRows([[1]] * 2, [[1.0]] * 2),
            None,
            ValueError,
            r"^target: expected SparseRows with vocab_size, got None$",
        ),
        (SparseRows([[1], []], [[1.0], []], 4), None, ValueError, r"^target\[1\] sums to 0"),
        (
            SparseRows([], [], 4),
            None,
            ValueError,
            r"^target: expected shape .* at least one row and V > 0, got \(0, 4\)$",
        ),
    ],
)
def test_lists_that_do_not_fit(isa, target, draft, error, message):
    for verify in (verify_sampled, verify_block):
        with pytest.raises(error, match=message):
            verify(target, draft, [1], [0.0, 0.5])


def test_greedy_needs_whole_rows():
    with pytest.raises(TypeError, match=r"^target: expected dense rows for greedy verification, got SparseRows$"):
        specverify.verify_greedy(SparseRows([[1]], [[1.0]], 4), [])


def test_the_width_of_a_list_written_out_must_be_known():
    assert SparseRows([[1]], [[1.0]], 3).dense().tolist() == [[0, 1, 0]]
    with pytest.raises(ValueError, match=r"^SparseRows\.dense: vocab_size is not known$"):
        SparseRows([[1]], [[1.0]]).dense()
    assert repr(SparseRows([[1]], [[1.0]], 3)) == "SparseRows(1 rows, 1 entries, vocab_size=3)"


def test_no_dense_row_is_built():
    """A round of lists takes no memory that grows with the vocabulary."""
    from test_inputs import peak_memory

    vocab = 10_000_000
    target, draft = SparseRows([[5, vocab - 1]] * 2, [[0.5, 0.5]] * 2, vocab), SparseRows([[5, 7]], [[0.5, 0.5]])
    tokens, uniforms = np.array([7]), np.array([0.5, 0.7])
    assert verify_sampled(target, draft, tokens, uniforms) == (0, vocab - 1)
    assert peak_memory(verify_sampled, target, draft, tokens, uniforms) < 1000
    dense = helpers.rows_of_kind("dense", 32_000, k=1).target
    assert peak_memory(verify_sampled, dense, draft, tokens, uniforms) < 1000
