"""Rows of logits and rounds of them, sparse rounds, batches."""

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import peers
import pytest
import samplers

from specverify import SparseRows, active_isa, measure, reference, verify_sampled
from specverify.measure import VOCABULARIES, Contender

K = 4
ENDS = {"rejected0": 0, "accepted": None}
ROWS = [
    (vocab, kind, dtype, settings)
    for vocab in VOCABULARIES
    for kind, dtype in (("peaked", "float32"), ("peaked", "float16"), ("flat", "float32"))
    for settings in samplers.SETTINGS
    if not (kind == "flat" and vocab > 130_000)  # the reference takes half a minute for each
]


@pytest.mark.parametrize(("vocab", "kind", "dtype", "settings"), ROWS)
def test_row_of_logits(vocab, kind, dtype, settings, benchmark, time_in_turn):
    competing = samplers.one_row(kind, vocab, samplers.SETTINGS[settings], dtype)
    turns, seconds = time_in_turn(competing, warm=True)
    about = {"vocab": vocab, "kind": kind, "dtype": dtype, "settings": settings, "variant": active_isa()}
    benchmark.extra_info["warped"] = about | turns.result(seconds)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("settings", ["temperature", "top-k, top-p, min-p"])
@pytest.mark.parametrize("vocab", VOCABULARIES)
def test_round_of_logits(vocab, settings, end, benchmark, time_in_turn):
    sampling, rejected_at = samplers.SETTINGS[settings], ENDS[end]
    rounds = samplers.rounds_of_logits(vocab, K, sampling, rejected_at)
    competing = samplers.logit_contenders(rounds, sampling, rejected_at) | peers.logit_contenders(rounds, sampling)
    samplers.check(samplers.expect(rounds, sampling, rejected_at), competing)
    turns, seconds = time_in_turn(competing, warm=True)
    about = {"vocab": vocab, "k": K, "rejected_at": rejected_at, "settings": settings, "variant": active_isa()}
    benchmark.extra_info["logits"] = about | turns.result(seconds)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("vocab", VOCABULARIES)
def test_sparse_round(vocab, end, benchmark, time_in_turn):
    """Top 40 on both sides; and what it takes to make such rows from arrays of ids and probabilities."""
    rounds = samplers.sparse_rounds(vocab, K, ENDS[end])
    target, draft = rounds[0][:2]
    lists = [
        (np.split(rows.ids, rows.offsets[1:-1]), np.split(rows.probs, rows.offsets[1:-1]), vocab)
        for rows in (target, draft)
    ]
    competing = {
        "specverify": Contender(verify_sampled, rounds),
        "make": Contender(lambda: [SparseRows(*one) for one in lists], [()], checked=0),
    }
    samplers.check([reference.verify_sampled(*one) for one in rounds], competing)
    turns, seconds = time_in_turn(competing, warm=True)
    about = {"vocab": vocab, "k": K, "entries": samplers.ENTRIES, "rejected_at": ENDS[end], "variant": active_isa()}
    benchmark.extra_info["sparse"] = about | turns.result(seconds)


def test_batch_on_two_threads(benchmark, time_in_turn):
    arrays = samplers.batch(samplers.REQUESTS, samplers.BATCH_K, samplers.BATCH_VOCAB)
    on = {threads: functools.partial(verify_sampled, threads=threads) for threads in (1, 2)}
    for function in on.values():
        samplers.check_batch(arrays, function(*arrays))
    competing = {f"threads_{threads}": Contender(function, [arrays], 0) for threads, function in on.items()}
    with ThreadPoolExecutor(2) as executor:
        reading = functools.partial(samplers.read_batch, arrays)
        competing["read_1"] = Contender(reading, [(map,)], 0)
        competing["read_2"] = Contender(reading, [(executor.map,)], 0)
        turns, seconds = time_in_turn(competing, warm=True)
    about = {"requests": samplers.REQUESTS, "k": samplers.BATCH_K, "vocab": samplers.BATCH_VOCAB}
    benchmark.extra_info["batches"] = about | {"variant": active_isa()} | turns.result(seconds, "threads_1")


def test_cost_of_a_request(benchmark, time_in_turn):
    """Rows so short that a batch costs what its requests cost; the slope between few and many is that of one more."""
    vocab = measure.FIXED_VOCAB
    few, many = (samplers.batch(requests, 1, vocab) for requests in (samplers.FEW_REQUESTS, samplers.MANY_REQUESTS))
    for arrays in (few, many):
        samplers.check_batch(arrays, verify_sampled(*arrays), requests=len(arrays[0]))
    competing = {"many": Contender(verify_sampled, [many], 0), "few": Contender(verify_sampled, [few], 0)}
    turns, seconds = time_in_turn(competing, warm=True)
    about = {"few": samplers.FEW_REQUESTS, "many": samplers.MANY_REQUESTS, "k": 1, "vocab": vocab}
    benchmark.extra_info["requests"] = about | {"variant": active_isa()} | turns.result(seconds, "many")
