"""The rule is exact, and the compiled function follows it decision by decision.

First layer of the proof: in rational numbers, the K + 1 tokens of a round have the target's own law, with ``==``.
Second: on rows of small integers, which float32 holds exactly, the compiled function and the reference give the exact
rule's result on every cell of the uniforms and on every breakpoint that is a float64. So their law is exact as well.
"""

import itertools
import random

import exact
import mutants
import numpy as np
import pytest

import specverify
from specverify import reference

MODELS = ("dense", "sparse", "ties", "equal", "disjoint", "certain")


def make_model(kind: str, side: str, vocab: int) -> exact.Model:
    """An integer row for each text, a function of the text alone. Target and draft rows have different sums."""

    def model(before: tuple[int, ...]) -> list[int]:
        both = random.Random(f"{kind} {vocab} {before}")
        own = random.Random(f"{kind} {side} {vocab} {before}")
        if kind == "sparse":
            row = [own.choice((0, 0, 1, 3)) for _ in range(vocab)]
        elif kind == "ties":
            row = [own.choice((1, 2)) for _ in range(vocab)]
        elif kind == "equal":
            factor = 1 if side == "target" else 3
            row = [factor * both.randint(0, 4) for _ in range(vocab)]
        elif kind == "disjoint":
            in_target = [both.random() < 0.5 for _ in range(vocab)]
            row = [own.randint(1, 4) * (mine == (side == "target")) for mine in in_target]
        elif kind == "certain":
            row = exact.one_hot(own.randrange(vocab), vocab)
        else:
            row = [own.randint(1, 9) for _ in range(vocab)]
        return row if any(row) else [1] * vocab

    return model


def deterministic(draft: exact.Model) -> exact.Model:
    """The drafter that always proposes its model's first maximum, as the one-hot rows that it stands for."""
    return lambda before: exact.one_hot(int(np.argmax(draft(before))), len(draft(before)))


def law_of(verifier, kind: str, vocab: int, k: int, drafted: str) -> tuple[dict, dict]:
    """Emitted law and the target's own."""
    target, draft = make_model(kind, "target", vocab), make_model(kind, "draft", vocab)
    if drafted == "dense":
        emitted = exact.emitted_law(verifier, target, draft, draft, k)
    else:
        emitted = exact.emitted_law(verifier, target, None, deterministic(draft), k)
    return emitted, dict(exact.texts(target, k + 1))


@pytest.mark.parametrize("drafted", ["dense", "one-hot"])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("k", [0, 1, 2, 3])
@pytest.mark.parametrize("vocab", [1, 2, 3, 4])
def test_the_rule_emits_the_target_law(vocab, k, kind, drafted):
    emitted, own = law_of(exact.verify, kind, vocab, k, drafted)
    assert emitted == own


@pytest.mark.parametrize("drafted", ["dense", "one-hot"])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("vocab", "k"), [(2, 3), (3, 3), (4, 2)])
def test_the_compiled_function_emits_the_target_law(isa, vocab, k, kind, drafted):
    emitted, own = law_of(specverify.verify_sampled, kind, vocab, k, drafted)
    assert emitted == own


@pytest.mark.parametrize("drafted", ["dense", "one-hot"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_reference_emits_the_target_law(kind, drafted):
    emitted, own = law_of(reference.verify_sampled, kind, 3, 2, drafted)
    assert emitted == own


WRONG_LAW = [
    *("residual_is_target", "residual_softmax", "residual_absolute", "residual_of_next_row", "bonus_after_rejection"),
    *("bonus_from_draft", "accept_always", "ratio_upside_down", "acceptance_ignores_draft", "counts_past_rejection"),
    *("rows_shifted", "masses_ignored", "one_uniform", "uniform_reused_for_draw", "draw_without_total"),
    *("last_token_unreachable", "first_token_unreachable", "accept_never"),
]


@pytest.mark.parametrize("name", WRONG_LAW)
def test_enumeration_rejects(name):
    emitted, own = law_of(mutants.MUTANTS[name], "dense", 3, 2, "dense")
    assert emitted != own


@pytest.mark.parametrize("name", ["residual_keeps_token", "argmax_draft_with_softmax"])
def test_enumeration_of_a_deterministic_draft_rejects(name):
    emitted, own = law_of(mutants.MUTANTS[name], "dense", 3, 2, "one-hot")
    assert emitted != own


def test_decisions_of_the_compiled_function(isa):
    assert list(exact.wrong_decisions(specverify.verify_sampled)) == []


def test_decisions_of_the_reference():
    assert list(exact.wrong_decisions(reference.verify_sampled)) == []


def test_decisions_of_two_positions():
    rows = exact.ROWS[1:4]
    for first, second, draft_first, draft_second in itertools.product(rows, repeat=4):
        target, draft = [first, second, exact.ROWS[0]], [draft_first, draft_second]
        for tokens in ((0, 1), (2, 3), (1, 1)):
            for uniforms in exact.decision_points(target, draft, tokens):
                expected = exact.verify(target, draft, tokens, uniforms)
                assert specverify.verify_sampled(target, draft, tokens, uniforms) == expected
