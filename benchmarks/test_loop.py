"""What the draft/verify loop takes beside verification: models that answer at once, K = 4, everything accepted."""

import numpy as np
import pytest

from specverify import Sampling, SpeculativeDecoder, active_isa, verify_greedy, verify_sampled
from specverify.measure import Contender

VOCAB, K, ROUNDS = 32_000, 4, 200


def rows_for(kind):
    """Target rows, draft rows and tokens of a round in which everything is accepted."""
    rows = np.random.default_rng(1).normal(size=(K + 1, VOCAB)).astype(np.float32)
    if kind == "probabilities":
        rows = np.exp(rows)
    return rows, rows[:K].copy(), rows[:K].argmax(axis=1)


@pytest.mark.parametrize("kind", ["greedy", "probabilities", "logits"])
def test_a_round_of_the_loop(kind, benchmark, time_in_turn):
    """200 rounds of the loop, beside as many verifications of the same rows."""
    target, draft, tokens = rows_for(kind)
    uniforms = np.full(K + 1, 0.5)
    options = {"greedy": kind == "greedy", "sampling": Sampling() if kind == "logits" else None, "rng": 1}
    rows = None if kind == "greedy" else draft
    decoder = SpeculativeDecoder(
        lambda prefix, k: (tokens[:k], None if rows is None else rows[:k]),
        lambda prefix, proposed: target[: len(proposed) + 1],
        K,
        **options,
    )
    accepted = decoder.generate([1], ROUNDS * (K + 1)).report.accepted
    assert accepted == (K,) * ROUNDS

    def verify():
        for _ in range(ROUNDS):
            if kind == "greedy":
                verify_greedy(target, tokens)
            elif kind == "logits":
                verify_sampled(target, draft, tokens, uniforms, sampling=options["sampling"])
            else:
                verify_sampled(target, draft, tokens, uniforms)

    competing = {
        "specverify": Contender(decoder.generate, [([1], ROUNDS * (K + 1))]),
        "verification": Contender(verify, [()]),
    }
    turns, seconds = time_in_turn(competing, warm=True)
    about = {"rows": kind, "vocab": VOCAB, "k": K, "rounds": ROUNDS, "variant": active_isa()}
    benchmark.extra_info["loops"] = about | turns.result(seconds)
