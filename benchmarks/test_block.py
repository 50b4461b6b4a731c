"""The block rule beside the token rule: tokens per target pass, and what a round takes more."""

import os
from pathlib import Path

import numpy as np
import pytest
import rules
import samplers

from specverify import Sampling, active_isa, reference, verify_block, verify_sampled
from specverify.measure import VOCABULARIES, Contender, Round

PAIRS = [(vocab, agreement, k) for vocab, k in ((16, 4), (4, 8)) for agreement in (0.3, 0.6, 0.9)]
MODEL_ROWS = Path(os.environ.get("SPECVERIFY_MODEL_ROWS", ".work/model-rows.npz"))  # benchmarks/model_rows.py makes it
SOFTMAX = Sampling()


def contenders(rounds, **options):
    """Both rules on the same rounds, each checked with the reference by the caller."""

    def with_options(function):
        return Contender(lambda *arguments: function(*arguments, **options), rounds)

    return {"block": with_options(verify_block), "token": with_options(verify_sampled)}


def check(rounds, competing, **options):
    for name in competing:
        rule = {"block": reference.verify_block, "token": reference.verify_sampled}[name]
        samplers.check([rule(*one, **options) for one in rounds[:2]], {name: competing[name]})


@pytest.mark.parametrize("from_logits", [False, True], ids=["probabilities", "logits"])
@pytest.mark.parametrize("k", [4, 8])
@pytest.mark.parametrize("vocab", VOCABULARIES)
def test_time_of_the_block_rule(vocab, k, from_logits, benchmark, time_in_turn):
    """Tokens from the draft and uniforms at random, a hundred rounds: some end early, some are accepted whole."""
    target, draft = samplers.make_pair(vocab, k)
    laws = samplers.softmax(draft)
    rng = np.random.default_rng([vocab, k])
    drafted = [[int(rng.choice(vocab, p=law / law.sum())) for law in laws.astype(np.float64)] for _ in range(20)]
    rows = (target, draft) if from_logits else (samplers.softmax(target), laws)
    options = {"sampling": SOFTMAX} if from_logits else {}
    rounds = [Round(*rows, np.array(drafted[i % 20]), rng.random(k + 1)) for i in range(100)]
    competing = contenders(rounds, **options)
    check(rounds, competing, **options)
    turns, seconds = time_in_turn(competing, warm=True)
    about = {"pair": "logits" if from_logits else "probabilities", "vocab": vocab, "k": k, "variant": active_isa()}
    benchmark.extra_info["block"] = about | {"tokens": None} | turns.result(seconds, "block")


@pytest.mark.parametrize(("vocab", "agreement", "k"), PAIRS)
def test_tokens_per_pass_exactly(vocab, agreement, k, benchmark):
    """Every draft of a pair of Markov models, weighted by its probability; no time is taken."""
    token, block = benchmark.pedantic(rules.exact_tokens_per_pass, (vocab, agreement, k, 0))
    if benchmark.disabled:
        pytest.skip("measured only with --benchmark-enable")
    about = {"pair": f"agreement {agreement}", "vocab": vocab, "k": k, "variant": active_isa()}
    benchmark.extra_info["block"] = about | {"tokens": {"token": token, "block": block}, "us": None}


@pytest.mark.parametrize("k", [4, 8])
@pytest.mark.parametrize("name", ["weights in 4 bits", "weights in 3 bits", "temperature 1.5"])
def test_rows_of_a_model(name, k, benchmark, time_in_turn):
    if not MODEL_ROWS.is_file():
        pytest.skip("benchmarks/model_rows.py was not run")
    with np.load(MODEL_ROWS) as stored:
        if f"{name}/target" not in stored:
            pytest.skip("benchmarks/model_rows.py has not come to this draft")
        model, date, *versions = (str(stored[key]) for key in ("model", "date", "torch", "transformers"))
        target, draft, tokens, *at_tokens = (
            stored[f"{name}/{key}"] for key in ("target", "draft", "tokens", "in_target", "in_draft")
        )
    ratios = (at_tokens[0] / at_tokens[1])[:, :k]
    token, block, error = rules.sampled_tokens_per_pass(ratios)
    rng = np.random.default_rng(k)
    rounds = [
        Round(target[i % len(target), : k + 1], draft[i % len(target), :k], tokens[i % len(target), :k], uniforms)
        for i, uniforms in enumerate(rng.random((48, k + 1)))
    ]
    competing = contenders(rounds, sampling=SOFTMAX)
    check(rounds, competing, sampling=SOFTMAX)
    turns, seconds = time_in_turn(competing, warm=True)
    about = {"model": model, "draft": name, "vocab": target.shape[2], "k": k, "drafts": len(ratios)}
    found = {"tokens": {"token": token, "block": block, "error": error}}
    when = {"date": date, "versions": dict(zip(("torch", "transformers"), versions, strict=True))}
    benchmark.extra_info["models"] = about | {"variant": active_isa()} | when | found | turns.result(seconds, "block")
