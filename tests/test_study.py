"""The study of benchmarks/study without its models: which cells there are, what is made of lines, what is published.

Toy models stand in for real ones where a run is needed. Nothing here asserts a time. One test, marked `models`,
compares texts of the real model.
"""

import json
import os
import re
import statistics
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from specverify import cost
from specverify.adapters.comparison import BatchEffect
from specverify.generation import Round
from specverify.sampling import Sampling

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"
if not (BENCHMARKS / "study").is_dir():
    pytest.skip("benchmarks/ is not in this tree", allow_module_level=True)
sys.path.insert(0, str(BENCHMARKS))
try:
    layout = import_module("layout")
    cells, compare, estimate, figures, grid, identity, lengths, models, origin, prompts, report, shapes, steps = (
        import_module(f"study.{name}")
        for name in (
            *("cells", "compare", "estimate", "figures", "grid", "identity", "lengths", "models", "origin", "prompts"),
            *("report", "shapes", "steps"),
        )
    )
    speed_tables, store, tables, texts = (
        import_module(f"study.{name}") for name in ("speed_tables", "store", "tables", "texts")
    )
finally:
    sys.path.remove(str(BENCHMARKS))

V = 7
HEAD = {
    "date": "2000-01-01",
    "machine": {"cpu": "a", "os": "b", "python": "c", "numpy": "d"},
    "versions": {"torch": "1"},
}


class ToyModel:
    """Logits of a text: the token after its last one by a fixed table. `flips` are positions where a pass over several
    tokens gives another row than one over a single token, as some kernels do."""

    vocab_size = V

    def __init__(self, flips=()):
        self.flips = flips
        self.cached = []

    @property
    def n_cached(self):
        return len(self.cached)

    def truncate(self, keep):
        removed = max(0, len(self.cached) - keep)
        del self.cached[keep:]
        return removed

    def reset(self):
        self.cached = []

    def extend(self, tokens, n_last=1):
        return self.logits([*self.cached, *tokens], n_last)

    def logits(self, text, n_last=1):
        self.cached = list(text)
        return np.stack([self.row(text[:end], n_last > 1) for end in range(len(text) - n_last + 1, len(text) + 1)])

    def encode(self, text):
        return [ord(letter) % V for letter in text[:5]]

    def close(self):
        pass

    def row(self, text, together):
        row = np.linspace(0.0, 0.5, V, dtype=np.float32)
        row[(text[-1] * 3 + len(text) // 4 + 1) % V] = 2.0
        if together and len(text) in self.flips:
            row[(text[-1] + 5) % V] = 2.5
        return row

    def as_target(self):
        return ToyTarget(self)

    def as_draft(self):
        return ToyDraft(self)


class ToyStep:
    def __init__(self, model):
        self.model = model

    def begin(self, start):
        self.start = start

    @property
    def n_cached(self):
        return self.model.n_cached

    def truncate(self, keep):
        return self.model.truncate(keep)


class ToyTarget(ToyStep):
    def __call__(self, prefix, proposed):
        text = [*prefix, *proposed]
        together = len(text) - self.model.n_cached > 1
        self.model.cached = list(text)
        return np.stack([self.model.row(text[:end], together) for end in range(len(prefix), len(text) + 1)])


class ToyDraft(ToyStep):
    """Knows the target's table, but errs after token 2."""

    def __call__(self, prefix, k):
        text = list(prefix)
        rows = []
        for _ in range(k):
            rows.append(self.model.row(text, False))
            text.append(0 if text[-1] == 2 else int(np.argmax(rows[-1])))
        self.model.cached = text[:-1]
        return text[len(prefix) :], None


@pytest.fixture
def toys(monkeypatch):
    """Models by the study's names, of which nothing is opened."""
    flips = {"q4_1-plain": (9, 10, 11)}
    monkeypatch.setattr(texts, "open_model", lambda folder, name: ToyModel(flips.get(name, ())))
    return texts.Models("nowhere")


@pytest.fixture
def small_plan():
    parts = (
        grid.Part("hf-f32", "q4_1", ("code",), (0,), (1, 4, grid.AUTO)),
        grid.Part("hf-f32", "lookup", ("code",), (0,), (4,)),
    )
    return grid.Plan(parts, name="small", tokens=12, repeats=2, identity_tokens=12, identity_domains=("code",))


@pytest.mark.parametrize("plan", grid.PLANS.values(), ids=list(grid.PLANS))
def test_groups_begin_with_plain_decoding_and_name_everything_once(plan):
    groups = plan.groups()
    keys = [tuple(group.key.values()) for group in groups]
    assert len(set(keys)) == len(keys)
    for group in groups:
        assert group.contenders[0] == grid.PLAIN
        assert len(set(group.contenders)) == len(group.contenders) >= 2
        assert group.domain in prompts.DOMAINS
        assert {group.target} | {draft for draft, _ in group.contenders} <= set(models.KINDS) | {*grid.FOUND, "none"}
    # A target's groups follow each other: opening a model takes longer than a group of a fast one.
    targets = [group.target for group in groups]
    assert sum(one != other for one, other in pairwise(targets)) == len(set(targets)) - 1


def test_every_prompt_has_a_note_of_its_origin():
    notes = (prompts.FOLDER / "README.md").read_text()
    rows = [line for line in notes.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([^`]+\.txt)`", row)}
    assert named == {path.name for path in prompts.FOLDER.glob("*.txt")}
    assert all(row.rstrip("| ").endswith(("Apache-2.0", "public domain")) for row in rows)
    for domain in prompts.DOMAINS:
        assert len(prompts.of_domain(domain)) >= 2
    with pytest.raises(ValueError, match=r"domain: expected one of code, .*, got 'poems'"):
        prompts.of_domain("poems")


def test_shapes_hold_fixed_what_they_say():
    found = shapes.series()
    assert {shape.parameters // 10**6 for shape in found["depth"]} <= {11, 12}
    assert max(abs(shape.parameters / shapes.PARAMETERS - 1) for shape in found["depth"]) < 0.02
    assert [shape.layers for shape in found["depth"]] == sorted({shape.layers for shape in found["depth"]})
    assert {shape.layers for shape in found["parameters"]} == {shapes.LAYERS}
    sizes = [shape.parameters for shape in found["parameters"]]
    assert sizes == sorted(set(sizes))
    assert shapes.Shape(1, 2, 3).parameters == shapes.VOCABULARY * 2 + (4 * 4 + 3 * 2 * 3 + 2 * 2) + 2


def test_each_contender_comes_first_in_some_repeat_or_other_place():
    contenders = tuple(range(5))
    orders = [cells.rotated(contenders, repeat) for repeat in range(3)]
    assert len({order[0] for order in orders}) == 3
    assert all(sorted(order) == list(contenders) for order in orders)
    assert cells.rotated((0,), 2) == (0,)


def test_lines_survive_a_stop(tmp_path):
    path = tmp_path / "x" / "lines.jsonl"
    lines = store.Lines(path)
    lines.add({"a": 1}, value=2)
    lines.add({"a": 2}, value=3)
    with path.open("a") as file:
        file.write('{"key": {"a": 3}, "val')  # stopped while it was written
    again = store.Lines(path)
    assert {"a": 1} in again
    assert {"a": 3} not in again
    again.add({"a": 3}, value=4)
    again.add({"a": 1}, value=5)
    third = store.Lines(path)
    assert [line["value"] for line in third] == [5, 3, 4]
    assert third[{"a": 3}]["value"] == 4


def test_lines_of_another_machine_or_version_are_refused(tmp_path):
    path = tmp_path / "lines.jsonl"
    store.Lines(path, HEAD).add({"a": 1}, value=2)
    later = HEAD | {"date": "2000-01-03"}
    lines = store.Lines(path, later)
    lines.add({"a": 2}, value=3)
    assert origin.together(lines.heads_of(lines)) == HEAD | {"date": "2000-01-01 to 2000-01-03"}
    with pytest.raises(ValueError, match=r"lines.jsonl: expected lines of one machine and version, got cpu a and z"):
        store.Lines(path, HEAD | {"machine": HEAD["machine"] | {"cpu": "z"}})
    with pytest.raises(ValueError, match="got torch 1 and unknown: remove it"):
        store.Lines(path, HEAD | {"versions": {}})
    with path.open("a") as file:  # of a version that did not say
        file.write('{"key": {"a": 3}}\n')
    lines = store.Lines(path)
    with pytest.raises(ValueError, match="got cpu unknown and a"):
        lines.heads_of(list(lines))


def test_documents_come_back_as_they_were(tmp_path):
    document = {"date": "2000-01-01", "plan": {"tokens": 1}, "cells": [{"k": 1}, {"k": "auto"}], "steps": []}
    store.save("cells", document, tmp_path)
    assert store.load("cells", tmp_path) == document
    assert (tmp_path / "cells.json").read_text().count("\n") == 9  # a row a line
    assert store.load("identity", tmp_path) is None


def test_a_wrong_model_file_is_refused(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"other")
    with pytest.raises(ValueError, match=f"expected sha256 {models.SHA256}, got d9298a10"):
        models.make(tmp_path / "models", tmp_path / "model.gguf")
    assert not list((tmp_path / "models").iterdir())


def test_a_prompt_is_fed_once_and_kept():
    model = ToyModel()
    warm = models.Warm(model)
    fed = []
    model.logits = lambda text, n_last=1: (fed.append(text), model.cached.extend(text))
    for prompt in ([1, 2, 3], [1, 2, 3], [1, 2, 4], [5]):
        warm.as_target().begin(SimpleNamespace(prompt=prompt))
        assert model.cached == prompt[:-1]
        model.cached += [6, 6]
    assert fed == [[1, 2, 3]]  # [1, 2, 4] begins alike; of [5] nothing is fed before its first pass


def test_identity_finds_who_made_the_difference(toys):
    same = identity.compare(toys, "q8_0", ("q4_1",), "code", 12)
    assert [cell["k"] for cell in same] == list(grid.LENGTHS)
    assert all(cell["same"] and cell["argmax"] for cell in same)
    assert all("parting" not in cell for cell in same)
    assert any(cell["accepted"] for cell in same)
    toys.close_but()
    parted = [cell for cell in identity.compare(toys, "q4_1-plain", ("q4_1",), "code", 12) if not cell["same"]]
    assert parted
    for cell in parted:
        assert cell["argmax"]
        assert cell["parting"]["each_its_own"]
        assert cell["parting"]["largest_difference"] > 0.4
        assert 2 <= cell["parting"]["pass"] <= 9


def test_a_parting_is_of_the_pass_that_made_its_token(monkeypatch):
    rounds = [Round((1, 2), 1, 1, 0.0, 0.0, 0.0, None), Round((3, 4, 5), 4, 2, 0.0, 0.0, 0.0, None)]
    monkeypatch.setattr(identity, "batch_effect", lambda model, prompt, rounds, at: BatchEffect(at, 3, 6, 0.5))
    found = identity.parting(None, [0], [1, 2, 6, 6, 6], [1, 2, 3, 4, 5], rounds)
    assert found == {"at": 2, "pass": 5, "largest_difference": 0.5, "each_its_own": True}
    assert not identity.parting(None, [0], [1, 2, 7, 6, 6], [1, 2, 3, 4, 5], rounds)["each_its_own"]


def test_identity_catches_a_verifier_that_does_not_take_the_most_probable(toys, monkeypatch):
    monkeypatch.setattr("specverify.decoder.verify_greedy", lambda rows, tokens: (0, int(np.argmin(rows[0]))))
    (cell, *_) = identity.compare(toys, "q8_0", ("q4_1",), "code", 12)
    assert not cell["argmax"]


def test_a_group_gives_a_row_for_each_contender(toys, small_plan, monkeypatch):
    (group,) = small_plan.groups()
    ticks = iter(range(10**6))
    monkeypatch.setattr(texts, "CLOCK", lambda: next(ticks) * 0.5)
    line = {"key": group.key | {"contenders": [list(one) for one in group.contenders]}}
    line |= json.loads(json.dumps(cells.run_group(toys, group, small_plan, lengths.Lengths())))
    rows = figures.cells_of(line)
    assert [(row["draft"], row["k"]) for row in rows] == list(group.contenders)
    assert all(row["same"] for row in rows)
    for row in rows:
        # Two prompts twice, of 12 tokens; by the clock above every text takes half a second.
        assert (row["texts"], row["tokens"]) == (4, 48)
        assert row["per_second"] == [24.0] * 3
        assert row["speedup"] == [1.0] * 3
    plain, one, four = rows[:3]
    assert plain["tested_acceptance"] is None
    assert plain["tokens_per_pass"] == 1.0
    assert 1.0 < one["tokens_per_pass"] <= 2.0
    assert one["tokens_per_pass"] < four["tokens_per_pass"]
    found = figures.steps_of(line)
    assert [row["draft"] for row in found] == ["q4_1", "lookup"]
    assert found[0]["target_ms"] == found[1]["target_ms"]
    assert [n for n, _ in found[0]["target_ms"]] == [1, *(k + 1 for k in steps.KS)]


def test_auto_goes_on_where_a_stopped_run_was(toys, small_plan, tmp_path, monkeypatch):
    """The second domain is drafted for with what the first one taught, whether or not they are of one run."""
    ticks = iter(range(10**6))
    monkeypatch.setattr(texts, "CLOCK", lambda: next(ticks) * 0.5)
    parts = [replace(part, domains=("code", "prose")) for part in small_plan.parts]
    plan = replace(small_plan, parts=tuple(parts))
    monkeypatch.setattr(cells, "Models", lambda folder: toys)

    def rounds(line):
        return [[one[:3] for one in run["rounds"]] for run in line["runs"] if run["k"] == grid.AUTO]

    whole = store.Lines(tmp_path / "whole.jsonl", HEAD)
    cells.measure("nowhere", whole, plan, lambda text: None)
    _, second = whole
    resumed = store.Lines(tmp_path / "resumed.jsonl", HEAD)
    first, _ = whole
    resumed.add(first["key"], **{name: first[name] for name in ("vocabulary", "steps", "runs")})
    cells.measure("nowhere", resumed, plan, lambda text: None)
    assert rounds(resumed[second["key"]]) == rounds(second)


def test_a_replay_asks_what_was_asked(small_plan):
    """At the end of a text, too, where less fits than would pay."""
    group = small_plan.groups()[0]
    steps_of_draft = replace(SLOW, draft_start=0.0)
    live, again = lengths.Lengths(), lengths.Lengths()
    length = live.of(group, "lookup", grid.AUTO, 0, steps_of_draft)
    length.begin()
    done, left = [], 12
    while left:
        asked = length.choose(left - 1)
        one = Round((0,) * (asked + 1), asked, asked, 0.25, 1.0, 0.0, None)
        length.observe(one, asked)
        done.append([asked, asked, asked + 1, 0.25, 1.0, 0.0])
        left -= asked + 1
    run = {"draft": "lookup", "k": grid.AUTO, "repeat": 0, "rounds": done}
    again.replay(group, {"runs": [run], "steps": [{"lookup": cost.to_json(steps_of_draft)["times"]}]}, 12)
    replayed = again.of(group, "lookup", grid.AUTO, 0, steps_of_draft)
    assert [drafted for drafted, *_ in done][-1] < 8
    assert replayed._proposed.rates(8) == length._proposed.rates(8)
    assert replayed._accepted.rates(8) == length._accepted.rates(8)


SLOW = cost.StepTimes(target=((1, 1.0), (9, 1.5)), draft_token=0.05, draft_start=10.0, between="linear")


def test_auto_is_one_for_a_pair_and_knows_that_the_prompt_is_read():
    """By the times given, reading the prompt takes ten tokens' time, more than may be lost."""
    group, other = grid.Group("hf-f32", 0, "code"), grid.Group("hf-f32", 0, "prose")
    known = lengths.Lengths()
    first = known.of(group, "q4_1", grid.AUTO, 0, SLOW)
    first.begin()
    assert first.choose(60) > 0
    assert known.of(other, "q4_1", grid.AUTO, 0, SLOW) is first
    assert known.of(grid.Group("hf-f32", 1, "code"), "q4_1", grid.AUTO, 0, SLOW) is not first
    assert known.of(group, "lookup", grid.AUTO, 0, SLOW) is not first
    assert known.of(group, "q4_1", grid.AUTO, 1, SLOW) is not first


def test_online_is_new_for_each_group_and_repeat():
    known = lengths.Lengths()
    one = known.of(grid.Group("f32", 0, "code"), "q8_0", grid.ONLINE, 0, None)
    assert known.of(grid.Group("f32", 0, "code"), "q8_0", grid.ONLINE, 0, None) is one
    assert known.of(grid.Group("f32", 0, "code"), "q8_0", grid.ONLINE, 1, None) is not one
    assert known.of(grid.Group("f32", 0, "prose"), "q8_0", grid.ONLINE, 0, None) is not one


def test_a_look_up_has_its_own_start_and_verification(toys, monkeypatch):
    """By this clock a look takes 1, its first call 100 more, a verification 10 more, with rows of a draft 20."""
    now = [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    class Found:
        def begin(self, start):
            self.begun = False

        def __call__(self, prefix, k):
            now[0] += 0.0 if self.begun else 100.0
            self.begun = True
            return [], None

    asked = []

    def verify_sampled(target_rows, draft_rows, tokens, uniforms, sampling):
        asked.append((len(tokens), draft_rows is None))
        now[0] += 10.0 if draft_rows is None else 20.0

    monkeypatch.setattr(texts, "CLOCK", clock)
    monkeypatch.setattr(texts, "PromptLookup", lambda **sizes: Found())
    monkeypatch.setattr(steps, "verify_sampled", verify_sampled)
    monkeypatch.setattr(ToyDraft, "__call__", lambda self, prefix, k: ([1] * k, np.ones((k, V), np.float32)))
    group = grid.Group("hf-f32", 1, "code")
    found = steps.measure(toys, group, ["none", "lookup", "q4_1"], [1, 2, 3, 4])
    assert found["lookup"].draft_start == 100.0
    assert (found["lookup"].draft_fixed, found["lookup"].draft_token) == (1.0, 0.0)
    assert found["lookup"].verify == tuple((k, 11.0) for k in (0, *steps.KS))
    assert found["q4_1"].verify == ((0, 11.0), *((k, 21.0) for k in steps.KS))
    assert found["lookup"].target == found["q4_1"].target
    assert (4, True) in asked


def test_an_estimate_adds_up_what_is_stored(small_plan):
    cells_rows = [
        {"target": "hf-f32", "draft": draft, "k": k, "per_second": [speed] * 3}
        for draft, k, speed in (("none", 0, 4.0), ("q4_1", 4, 8.0))
    ]
    step_row = {"target": "hf-f32", "target_ms": [[1, 250.0], [2, 500.0]], "draft_token_ms": 0.0}
    known = estimate.Known(cells_rows, [step_row])
    # Two prompts twice of 12 tokens; k = 1 and auto are like k = 4, lookups half as much again as plain decoding.
    (key,) = grid.cell_keys(small_plan)
    runs = 48 * (0.25 + 3 * 0.125 + 1.5 * 0.25)
    assert known.seconds([key], []) == pytest.approx(runs + 2 * 2 * 4 * 0.75)
    usual = estimate.USUAL
    assert known.plain("q8_0") == pytest.approx(0.25 * usual["q8_0"] / usual["hf-f32"])
    assert estimate.Known([], []).plain("f32-plain") == usual["f32"]
    assert known.seconds([], [{"target": "hf-f32", "tokens": 4}]) == 16 * 4 * 0.25
    assert not estimate.Known([], [])


def test_an_estimate_counts_what_is_missing(small_plan, tmp_path, monkeypatch):
    monkeypatch.setattr(estimate, "load", lambda name: None)
    store.Lines(tmp_path / "small" / "identity.jsonl", HEAD).add(grid.identity_keys(small_plan)[0], cells=[])
    n = len(grid.IDENTITY)
    found = estimate.words(small_plan, tmp_path, tmp_path / "small")
    assert found.startswith(
        f"to measure, in lines: cells 1 of 1, identity {n - 1} of {n}, compare 1 of 1, depth 1 of 1; 5"
    )
    assert found.endswith("minutes by a guess, since nothing is stored")
    only = estimate.words(replace(small_plan, only=("q8_0",)), tmp_path, tmp_path / "small")
    assert "cells 0 of 0, identity 1 of 1, compare 0 of 0, depth 1 of 1; 0 cells" in only


def test_speed_up_is_of_each_repeat():
    def run(draft, k, repeat, prompt, seconds):
        rounds = [[k, k, k + 1, 0.1, 0.2, 0.001]] * (4 // (k + 1))
        names = {"draft": draft, "k": k, "repeat": repeat, "prompt": prompt}
        return names | {"seconds": seconds, "cpu": seconds, "rounds": rounds, "same": True}

    times = {"target": [[1, 1.0], [2, 1.5]], "draft_token": 0.25, "verify": []}
    line = {
        "key": {"target": "f32", "temperature": 0, "domain": "code", "contenders": [["none", 0], ["q8_0", 1]]},
        "steps": [{"q8_0": times}, {"q8_0": times}],
        "runs": [run("none", 0, r, p, 4.0 * (r + 1)) for r in range(3) for p in range(2)]
        + [run("q8_0", 1, r, p, seconds) for r, seconds in enumerate((2.0, 2.0, 6.0)) for p in range(2)],
    }
    plain, drafted = figures.cells_of(line)
    assert drafted["speedup"] == [2.0, 2.0, 4.0]  # 4 / 2, 8 / 2, 12 / 6: not 8 / 2 of the medians
    assert drafted["per_second"] == rounded([2.0, 4 / 6, 2.0])
    assert (drafted["tested_acceptance"], drafted["tokens_per_pass"]) == (1.0, 2.0)
    assert plain["predicted"] == 1.0
    assert drafted["predicted"] == rounded(2 / 1.75)
    assert drafted["verify_share"] == rounded(3 * 2 * 2 * 0.001 / 20.0)


def rounded(value):
    if isinstance(value, list):
        return figures.rounded([sorted(value)[len(value) // 2], min(value), max(value)])
    return figures.rounded(value)


TIMES = cost.StepTimes(
    target=((1, 1.0), (2, 1.5), (3, 1.75)),
    draft_token=0.125,
    draft_fixed=0.25,
    catch_up=0.25,
    switch=0.0625,
    verify=((0, 0.0),),
)


@pytest.mark.parametrize(
    ("rounds", "adaptive", "tokens", "seconds"),
    [
        ([(0, 0)] * 4, True, 4, 4 * 1.0),
        ([(0, 0)] * 4, False, 4, 4 * 1.25),  # asked in vain
        ([(1, 0), (1, 0)], False, 2, 2 * (0.375 + 1.5)),
        ([(1, 1), (1, 1)], False, 4, 2 * (0.375 + 1.5 + 0.125)),  # each time two tokens to read
        ([(2, 1), (0, 0)], False, 3, (0.5 + 1.75) + 1.25 + 0.0625),  # one in two after its like, were they independent
        ([(2, 1), (0, 0)], True, 3, (0.5 + 1.75) + 1.0 + 0.0625),
        ([(2, 1), (0, 0), (0, 0), (2, 1)], True, 6, 2 * (0.5 + 1.75) + 2 * 1.0 + 2 * 0.0625),
    ],
)
def test_predictions_add_up_the_steps(rounds, adaptive, tokens, seconds):
    assert figures.predicted(TIMES, [rounds], adaptive) == pytest.approx(tokens / seconds, rel=1e-12)


def test_no_text_is_behind_another():
    rounds = [(2, 1), (2, 1)]
    plain = [(0, 0), (0, 0)]
    seconds = 2 * (0.5 + 1.75) + 2 * 1.0
    assert figures.predicted(TIMES, [rounds, plain], adaptive=True) == pytest.approx(6 / seconds, rel=1e-12)


def test_steps_before_and_after_are_averaged():
    before = cost.to_json(TIMES)["times"]
    after = cost.to_json(replace(TIMES, target=((1, 3.0), (2, 2.5), (3, 1.75)), draft_fixed=0.75))["times"]
    after["switch"] = 0.1875
    found = figures.mean_times(before, after)
    assert found.target == ((1, 2.0), (2, 2.0), (3, 1.75))
    assert (found.draft_fixed, found.draft_token, found.catch_up, found.switch) == (0.5, 0.125, 0.25, 0.125)


def test_sample_and_compare_keeps_what_the_target_drew():
    rows = np.log(np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 1e-9]], np.float32))
    sampling = Sampling(temperature=1.0)
    assert compare.sample_and_compare(rows, [0, 1], [0.4, 0.5, 0.5], sampling) == (2, 0)
    assert compare.sample_and_compare(rows, [0, 1], [0.4, 0.1, 0.5], sampling) == (1, 0)
    assert compare.sample_and_compare(rows, [0, 1], [0.6, 0.1, 0.5], sampling) == (0, 1)


def test_rules_accept_what_their_formulas_say():
    """Rows that never change: rejection accepts a token with sum(min), sample-and-compare with sum(product)."""
    target, draft = np.array([0.6, 0.3, 0.1]), np.array([0.3, 0.5, 0.2])
    rng = np.random.default_rng(1)

    def draft_step(prefix, k):
        return rng.choice(3, size=k, p=draft), np.log(np.tile(draft, (k, 1))).astype(np.float32)

    def target_step(prefix, proposed):
        return np.log(np.tile(target, (len(proposed) + 1, 1))).astype(np.float32)

    sampling = Sampling(temperature=1.0)
    judge = compare.Judge(draft_step, target_step, 1, sampling, np.random.default_rng(2))
    judge.read([0], 600, 3)
    n = judge.rounds * compare.JUDGEMENTS
    assert judge.rounds > 300
    for rule, wanted in zip(grid.RULES, (np.minimum(target, draft).sum(), (target * draft).sum()), strict=True):
        assert judge.accepted[rule] + judge.rejected[rule] == n
        # Judgements of one round share its token, so only rounds are independent: six standard errors of these.
        assert judge.accepted[rule] / n == pytest.approx(wanted, abs=6 * 0.5 / judge.rounds**0.5)


def stored():
    return {name: store.load(name) for name in tables.PARTS}


def test_published_tables_are_those_of_the_stored_results():
    """After an edit by hand: PYTHONPATH=benchmarks python -m study report"""
    text = (ROOT / "BENCHMARKS.md").read_text()
    assert layout.replaced(text, tables.short(stored()), report.MARKER) == text
    assert (ROOT / "docs" / "study.md").read_text() == tables.page(stored())


def test_the_readme_quotes_the_stored_results():
    """Medians over the domains of new text at temperature 0, with a model as draft."""
    document = stored()["cells"]

    def middle(target, k):
        cells = [row for row in document["cells"] if (row["target"], row["k"], row["temperature"]) == (target, k, 0)]
        ups = [row["speedup"][0] for row in cells if row["domain"] in prompts.NEW_TEXT and row["draft"] in models.KINDS]
        return f"{statistics.median(ups):.2f} times"

    quoted = (
        f"k = 8 gives {middle('hf-f32', 8)} plain decoding with float32 weights in transformers and {middle('f32', 8)} "
        f"in llama.cpp, k = 4 gives {middle('q8_0', 4)} with 8-bit weights and {middle('q4_0', 4)} with 4-bit ones"
    )
    assert quoted in " ".join((ROOT / "README.md").read_text().split())


def test_a_win_is_more_than_noise():
    """A cell wins if it does in every repeat, not if its median is a hair above 1; nor is that hair set in bold."""
    row = {"target": "q8_0", "k": 4, "temperature": 0, "domain": "code", "verify_share": 0.001}
    ups = {"none": [1.0, 1.0, 1.0], "lookup": [1.004, 0.98, 1.1], "ngram": [1.02, 1.01, 1.03]}
    document = {"vocabulary": V, "cells": [row | {"draft": draft, "speedup": up} for draft, up in ups.items()]}
    assert "win in every repeat, by target: llama.cpp Q8_0 1 of 2." in speed_tables.adaptive_facts(document)[0]
    assert [speed_tables.marked(up[0], up[0]) for up in ups.values()] == ["1.00", "1.00", "**1.02**"]


def test_a_report_is_made_of_lines(toys, small_plan, tmp_path, monkeypatch):
    """From toy runs to tables and back; what was not measured is said to be so."""
    monkeypatch.setattr(texts, "Models", lambda folder: toys)
    for module in (cells, identity):
        monkeypatch.setattr(module, "Models", lambda folder: toys)
        name = module.__name__.rpartition(".")[2]
        lines = store.Lines(tmp_path / "lines" / f"{name}.jsonl", HEAD)
        module.measure("nowhere", lines, small_plan, lambda text: None)
    stale = {"target": "q8_0", "domain": "code", "tokens": 99}  # of an earlier plan
    store.Lines(tmp_path / "lines" / "identity.jsonl", HEAD).add(stale, cells=[{}])
    (tmp_path / "docs").mkdir()
    (tmp_path / "BENCHMARKS.md").write_text("a\n<!-- study:begin -->\n<!-- study:end -->\nb\n")
    monkeypatch.setattr(report.plots, "draw", lambda documents, folder: None)
    report.write(tmp_path / "lines", small_plan, tmp_path, lambda text: None)
    assert tables.NOTHING in (tmp_path / "BENCHMARKS.md").read_text()
    page = (tmp_path / "docs" / "study.md").read_text()
    assert page.count(tables.NOTHING) == 2  # the rules and the depths
    assert "| llama.cpp Q8_0 | 15 | 15 | 15 |  |" in page
    assert re.search(r"In (\d+) of the \1 texts that part", page)
    assert len(re.findall(r"^\| code \|", page, re.MULTILINE)) == 5
    document = store.load("cells", tmp_path / "benchmarks" / "results" / "study")
    assert (document["plan"]["name"], document["plan"]["repeats"], document["vocabulary"]) == ("small", 2, V)
    assert "`small`" in page
    with pytest.raises(ValueError, match=r"cells.json: expected results of the plan other, got small: remove"):
        report.write(tmp_path / "lines", replace(small_plan, name="other"), tmp_path, lambda text: None)
    store.Lines(tmp_path / "more" / "depth.jsonl", HEAD | {"versions": {"torch": "2"}}).add(
        grid.depth_keys(small_plan)[0], rows=[]
    )
    with pytest.raises(ValueError, match=r"cells.json: expected one machine and version, got torch 1 and 2: remove"):
        report.write(tmp_path / "more", small_plan, tmp_path, lambda text: None)


def test_layout_imports_no_measuring():
    """So that tables can be written, and told to be those of the results, where nothing can be measured."""
    code = "import sys, study.report; print(*sorted(name for name in sys.modules if name.startswith('study.')))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(BENCHMARKS), *filter(None, sys.path)])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    names = set(run.stdout.split())
    assert {"study.grid", "study.tables"} <= names
    assert not names & {
        f"study.{name}" for name in ("cells", "compare", "depth", "identity", "lengths", "steps", "texts")
    }


def test_markers_must_be_there_once():
    with pytest.raises(ValueError, match="expected one <!-- x:begin --> and one <!-- x:end -->, got 0 and 1"):
        layout.replaced("<!-- x:end -->", "new", "x")
    assert layout.replaced("a<!-- x:begin -->b<!-- x:end -->c", "new", "x") == "a<!-- x:begin -->\nnew\n<!-- x:end -->c"


@pytest.mark.models
@pytest.mark.parametrize("domain", prompts.NEW_TEXT)
def test_real_texts_are_those_of_plain_decoding(domain, tmp_path):
    """The file as it is, with flash attention: its rows do not depend on how many tokens a pass has."""
    named = Path(os.environ.get("SPECVERIFY_MODEL", ""))
    assert named.is_file(), f"SPECVERIFY_MODEL: expected the path of a GGUF file, got {str(named)!r}"
    (tmp_path / "q4_1.gguf").symlink_to(named.resolve())
    opened = texts.Models(tmp_path)
    found = identity.compare(opened, "q4_1", (*grid.FOUND, "q4_1"), domain, 24)
    opened.close_but()
    assert [cell for cell in found if not (cell["same"] and cell["argmax"])] == []
    assert sum(cell["accepted"] for cell in found) > 0
