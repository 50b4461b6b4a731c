"""Everything that does a round, on the same arrays, in one process, on one thread. Without peers installed: nothing."""

import datetime

import numpy as np
import peers
import pytest
import samplers

from specverify import active_isa, reference
from specverify.measure import VOCABULARIES, Round

K = 4
CERTAINLY = 40.0  # logits by which a token is worse for the target, or better, than for the draft


@pytest.mark.parametrize("rejected_at", [0, None], ids=["rejected0", "accepted"])
@pytest.mark.parametrize("vocab", VOCABULARIES)
def test_peers(vocab, rejected_at, benchmark, time_in_turn):
    """Rounds that end as they should whatever the random numbers: the drafted tokens surely pass, or surely fail."""
    if not peers.versions():
        pytest.skip("no peer is installed")
    target, draft = samplers.make_pair(vocab, K)
    tokens = target[:K].argmax(axis=1)
    positions = np.arange(K)
    draft[positions, tokens] = target[positions, tokens] - 3
    if rejected_at is not None:
        target[rejected_at, tokens[rejected_at]] -= CERTAINLY
    uniforms = np.array([0.5] * K + [0.3])
    logits, rows = (
        Round(*both, tokens, uniforms) for both in ((target, draft), map(samplers.softmax, (target, draft)))
    )
    expected = reference.verify_sampled(*rows)
    assert expected.n_accepted == (K if rejected_at is None else rejected_at)
    competing = peers.table_contenders(logits, rows)
    samplers.check([expected], competing)
    turns, seconds = time_in_turn(competing, warm=True)
    about = {"vocab": vocab, "k": K, "rejected_at": rejected_at, "variant": active_isa()}
    when = {"date": datetime.date.today().isoformat(), "versions": peers.versions()}
    benchmark.extra_info["peers"] = about | when | turns.result(seconds)
