"""The measurements measure what they say, and the published tables are those of the stored results.

Nothing here asserts a time.
"""

import importlib.util
import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from specverify import (
    Sampling,
    _numpy_verify,
    active_isa,
    machine,
    measure,
    reference,
    simulate,
    verify_block,
    verify_sampled,
)
from specverify.cli import bench
from specverify.measure import Case, Contender

ROOT = Path(__file__).resolve().parents[1]
US_OF = {
    "greedy": {"specverify", "numpy_eager", "numpy_lazy", "argmax", "read"},
    "sampled": {"specverify", "numpy_eager", "numpy_lazy", "read"},
}


def load(name):
    path = ROOT / "benchmarks" / f"{name}.py"
    if not path.is_file():
        pytest.skip("benchmarks/ is not in this tree")
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # where it finds its neighbours, as when it is run
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


@pytest.fixture(scope="module")
def report():
    return load("report")


@pytest.fixture(scope="module")
def samplers():
    return load("samplers")


@pytest.fixture(scope="module")
def rules():
    return load("rules")


SMALL_CASES = [
    Case(operation, vocab, k, rejected_at, normalized, from_memory)
    for operation, vocab, k, normalized, from_memory in product(
        ("greedy", "sampled"), (5, 97), (1, 4), (False, True), (False, True)
    )
    for rejected_at in dict.fromkeys((None, 0, k - 1))
    if not (operation == "greedy" and normalized)
]


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("verify", [_numpy_verify.verify_sampled_eager, _numpy_verify.verify_sampled_lazy])
def test_numpy_sampled_agrees_with_the_reference(verify, normalized):
    """On other summation orders a draw may differ where it hits a boundary; 400 rounds of 40 entries hit none."""
    rng = np.random.default_rng(5)
    ends = set()
    for k in (0, 1, 2, 5):
        for _ in range(100):
            target = rng.exponential(size=(k + 1, 40)).astype(np.float32) ** 2
            draft = rng.exponential(size=(k, 40)).astype(np.float32) ** 2
            if normalized:
                target /= target.sum(axis=1, keepdims=True)
                draft /= draft.sum(axis=1, keepdims=True)
            tokens, uniforms = rng.integers(0, 40, k), rng.random(k + 1)
            expected = reference.verify_sampled(target, draft, tokens, uniforms, normalized=normalized)
            assert verify(target, draft, tokens, uniforms, normalized=normalized) == expected
            ends.add((k, expected.n_accepted == k))
    assert ends == {(0, True), *product((1, 2, 5), (False, True))}


@pytest.mark.parametrize("verify", [_numpy_verify.verify_greedy_eager, _numpy_verify.verify_greedy_lazy])
def test_numpy_greedy_agrees_with_the_reference(verify):
    rng = np.random.default_rng(6)
    for k in (0, 1, 2, 5):
        for _ in range(100):
            target = rng.integers(0, 4, (k + 1, 9)).astype(np.float32)  # with ties
            tokens = np.where(rng.random(k) < 0.7, target[:k].argmax(axis=1), rng.integers(0, 9, k))
            assert verify(target, tokens) == reference.verify_greedy(target, tokens)


SETTINGS = [
    Sampling(temperature=0.8),
    Sampling(top_k=5),
    Sampling(top_p=0.7),
    Sampling(min_p=0.2),
    Sampling(temperature=0.8, top_k=12, top_p=0.9, min_p=0.05),
    Sampling(top_k=40),
]


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_numpy_from_logits_agrees_with_the_reference(sampling):
    """On rows without equal logits.

    An exponent of up to 24 is rounded three times in float32, which moves a weight by up to 72 * 2**-24 = 4.3e-6 of
    itself; the exponentials add some 1e-7.
    """
    rng = np.random.default_rng(8)
    for k in (0, 1, 2, 5):
        for _ in range(20):
            target, draft = (rng.normal(size=(n, 40), scale=2).astype(np.float32) for n in (k + 1, k))
            expected = np.array([reference.weights(row, sampling) for row in target])
            for found in (
                _numpy_verify.weights(target, sampling),
                [_numpy_verify.weights(r, sampling) for r in target],
            ):
                np.testing.assert_allclose(found, expected, rtol=5e-6)
            laws = [reference.probabilities(row, sampling) for row in draft]
            tokens = np.array([rng.choice(40, p=law.astype(float) / law.sum(dtype=float)) for law in laws], int)
            uniforms = rng.random(k + 1)
            verdict = reference.verify_sampled(target, draft, tokens, uniforms, sampling=sampling)
            for verify in (_numpy_verify.verify_logits_lazy, _numpy_verify.verify_logits_eager):
                assert verify(target, draft, tokens, uniforms, sampling=sampling) == verdict


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_torch_from_logits_agrees_with_the_reference(samplers, sampling):
    pytest.importorskip("torch")
    peers = load("peers")
    for rejected_at in (None, 0, 2):
        rounds = samplers.rounds_of_logits(97, 4, sampling, rejected_at)
        samplers.check(samplers.expect(rounds, sampling, rejected_at), peers.logit_contenders(rounds, sampling))


@pytest.mark.parametrize("case", SMALL_CASES, ids=str)
def test_rounds_end_where_their_case_says(case):
    rounds = measure.make_rounds(case, pool_bytes=100 * case.vocab * 4)
    measure.check(case, rounds, measure.contenders(case, rounds))


@pytest.mark.parametrize("case", SMALL_CASES, ids=str)
def test_a_round_needs_exactly_the_rows_it_is_said_to_need(case):
    """NaN in every other row changes nothing; in one of these it is an error."""
    one = measure.make_rounds(case, pool_bytes=0)[0]
    needed = [set(rows) for rows in case.rows_to_read()]
    assert case.bytes_to_read() == (len(needed[0]) + len(needed[1])) * case.vocab * 4

    def verdict(spoilt, i):
        rows = [one.target.copy(), one.draft.copy()]
        kept = rows[spoilt][i].copy()
        rows[spoilt][i] = np.nan
        if i < case.k and case.normalized:  # looked up, not read
            rows[spoilt][i, one.tokens[i]] = kept[one.tokens[i]]
        if case.operation == "greedy":
            return reference.verify_greedy(rows[0], one.tokens)
        return reference.verify_sampled(*rows, *one[2:], normalized=case.normalized)

    for spoilt, count in ((0, case.k + 1), (1, case.k)):
        for i in range(count):
            if i in needed[spoilt]:
                with pytest.raises(ValueError, match=r"row|maximum"):
                    verdict(spoilt, i)
            else:
                verdict(spoilt, i)


def test_a_pool_of_rows_has_no_row_twice():
    for case in (Case("sampled", 7, 4, None, True, True), Case("sampled", 7, 4, 1, False, True)):
        rounds = measure.make_rounds(case, pool_bytes=200 * 7 * 4)
        target_rows, draft_rows = case.rows_to_read()
        assert len(rounds) * len(target_rows) > 190
        for name, rows in (("target", target_rows), ("draft", draft_rows)):
            read = [getattr(one, name)[i].ctypes.data for one in rounds for i in rows]
            assert len(set(read)) == len(read)


def test_a_wrong_answer_has_no_time():
    case = Case("sampled", 97, 4)
    rounds = measure.make_rounds(case)
    wrong = Contender(lambda *_: (4, 98), list(rounds))
    with pytest.raises(AssertionError, match=r"liar answers \(4, 98\), the reference"):
        measure.check(case, rounds, {"liar": wrong})


@pytest.mark.parametrize("warm", [False, True])
def test_contenders_are_called_in_turn_on_all_inputs(warm):
    calls = []
    competing = {
        name: Contender(lambda i, name=name: calls.append((name, i)), [(i,) for i in range(6)]) for name in "abc"
    }
    turns = measure.Turns(competing, warm=warm)
    for _ in range(6):
        turns.subject.function(*turns.time_others())
    once = calls[:: 1 + warm]
    assert [name for name, _ in once] == ["b", "c", "a"] * 6
    assert calls == [call for call in once for _ in range(1 + warm)]
    for name in "abc":
        assert sorted(i for called, i in once if called == name) == list(range(6))
    assert [i for _, i in once[:3]] == [2, 4, 0], "a third of the pool apart"
    assert {name: len(seconds) for name, seconds in turns.seconds.items()} == {"b": 6, "c": 6}


@pytest.mark.parametrize("operation", ["greedy", "sampled"])
def test_rows_of_results(operation):
    case = Case(operation, 97, 4, 0)
    row = measure.measure(case, seconds=0.0)
    us = row.pop("us")
    assert row.pop("turns") >= 15
    assert row.pop("interruptions") >= 0
    assert row == {
        "operation": operation,
        "vocab": 97,
        "k": 4,
        "rejected_at": 0,
        "normalized": False,
        "from_memory": False,
        "variant": active_isa(),
        "bytes": 97 * 4 * (1 if operation == "greedy" else 2),
    }
    assert set(us) == US_OF[operation]
    assert all(time > 0 for time in us.values())


def test_ratios():
    row = {
        "bytes": 4000,
        "us": {"specverify": 2.0, "numpy_eager": 30.0, "numpy_lazy": 20.0, "read": 1.0, "argmax": 3.0},
    }
    assert measure.ratios(row) == {"numpy": 10, "read": 2, "numpy_at_floor": 20, "gb_per_s": 2, "argmax": 1.5}


@pytest.mark.parametrize("operation", ["greedy", "sampled"])
def test_fixed_cost(operation):
    us = measure.measure_fixed(measure.fixed_calls(operation), seconds=0.0, number=3)
    assert set(us) == {"specverify", "numpy_eager", "numpy_lazy"}
    assert all(time > 0 for time in us.values())


@pytest.mark.parametrize("settings", ["temperature", "min-p", "top-p", "top-k, top-p, min-p"])
@pytest.mark.parametrize("rejected_at", [None, 0, 2])
def test_rounds_from_logits_end_where_they_should(samplers, settings, rejected_at):
    sampling = samplers.SETTINGS[settings]
    rounds = samplers.rounds_of_logits(97, 4, sampling, rejected_at)
    competing = samplers.logit_contenders(rounds, sampling, rejected_at)
    samplers.check(samplers.expect(rounds, sampling, rejected_at), competing)
    with pytest.raises(AssertionError, match="specverify answers"):
        samplers.check([(5, 5)], competing)


def test_rows_sparse_rounds_and_batches_are_checked(samplers):
    for kind, dtype in product(("peaked", "flat"), ("float32", "float16")):
        assert set(samplers.one_row(kind, 97, samplers.SETTINGS["top-p"], dtype)) == {"specverify", "read"}
    for rejected_at in (None, 0):
        for one in samplers.sparse_rounds(97, 3, rejected_at):
            assert np.diff(one[0].offsets).tolist() == [40] * 4
            assert one[0].ids.size == 160
            verdict = reference.verify_sampled(*one)
            assert verdict == verify_sampled(*one)
            assert verdict.n_accepted == (3 if rejected_at is None else 0)
    arrays = samplers.batch(5, 2, 97)
    answer = verify_sampled(*arrays)
    assert answer.n_accepted.tolist() == [2] * 5
    samplers.check_batch(arrays, answer)
    answer.next_token[4] += 1
    with pytest.raises(AssertionError, match="request 4"):
        samplers.check_batch(arrays, answer)


def test_a_dominated_row_is_peaked_and_the_other_flat(samplers):
    """In bits: between a fraction of one and a few, against the 9.97 of 1000 equal ones."""
    for kind, low, high in (("peaked", 0, 5), ("flat", 9.9, 9.97)):
        for row in samplers.softmax(samplers.make_logits(kind, 1000, 20)):
            assert low <= -(row * np.log2(np.maximum(row, 1e-30))).sum() <= high


def test_tokens_per_pass_are_the_known_ones(rules):
    """Two thirds for the other token at every position (the exact values of the block rule's authors' example)."""
    target, draft = np.array([1 / 3, 2 / 3]), np.array([2 / 3, 1 / 3])
    for k, token, block in ((1, 2 / 3, 2 / 3), (2, 10 / 9, 11 / 9), (3, 38 / 27, 5 / 3), (4, 130 / 81, 166 / 81)):
        drafts = np.array(list(product(range(2), repeat=k)))
        weights = draft[drafts].prod(axis=1)
        found = rules.reached((target / draft)[drafts])
        assert [(weights @ one).sum() for one in found] == pytest.approx([token, block], rel=1e-12)


def test_exact_tokens_per_pass_are_those_of_the_compiled_rules(rules):
    """20,000 rounds at K = 2: means within five standard errors, a false alarm in 2e6; 0.05 tokens would be seen."""
    token, block = rules.exact_tokens_per_pass(4, 0.3, 2, 0)
    target = simulate.random_markov(4, 0)
    draft = simulate.draft_from_target(target, 0.3, 1)
    law = simulate.law_of_accepted_length(target, draft, 2)[0]
    assert token == pytest.approx(1 + law @ [0, 1, 2], rel=1e-6)  # from rows in float32
    n, rng = 20_000, np.random.default_rng(2)
    first = rng.choice(4, n, p=draft.transition[0])
    second = (rng.random((n, 1)) > draft.transition[first].cumsum(axis=1)[:, :-1]).sum(axis=1)
    rows = [
        np.stack([model.transition[np.zeros(n, int)], model.transition[first], model.transition[second]], axis=1)
        for model in (target, draft)
    ]
    arguments = rows[0], rows[1][:, :2], np.stack([first, second], axis=1), rng.random((n, 3))
    for rule, expected in ((verify_sampled, token), (verify_block, block)):
        emitted = 1 + rule(*arguments).n_accepted
        assert abs(emitted.mean() - expected) < 5 * emitted.std() / n**0.5


def test_tokens_per_pass_of_drafts(rules):
    ratios = np.array([[2.0, 0.5], [0.5, 2.0]])
    assert rules.sampled_tokens_per_pass(ratios) == (2.25, 2.5, 0.25)


def test_description_of_this_machine():
    described = machine.describe()
    assert list(described) == [
        "specverify",
        "cpu",
        "cores",
        "cache_bytes",
        "os",
        "python",
        "numpy",
        "compiler",
        "flags",
        "variant",
        "variants",
    ]
    assert all(described.values())
    assert described["numpy"] == np.__version__


def test_names_of_processors(tmp_path):
    (tmp_path / "proc" / "device-tree").mkdir(parents=True)
    cpuinfo = tmp_path / "proc" / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU\ncpu family\t: 25\nmodel\t\t: 1\n")
    assert machine.cpu_name(tmp_path) == "Some CPU (family 25, model 1)"
    cpuinfo.write_text("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\nModel\t: as below\n")
    assert machine.cpu_name(tmp_path) == "Cortex-A76"
    (tmp_path / "proc" / "device-tree" / "model").write_bytes(b"Raspberry Pi 5 Model B Rev 1.0\0")
    assert machine.cpu_name(tmp_path) == "Raspberry Pi 5 Model B Rev 1.0 (Cortex-A76)"
    cpuinfo.write_text("CPU part\t: 0xfff\n")
    assert machine.cpu_name(tmp_path) == "Raspberry Pi 5 Model B Rev 1.0 (ARM part 0xfff)"


def test_size_of_the_cache(tmp_path):
    assert machine.cache_bytes(tmp_path) == 32 << 20
    for index, size in enumerate(("64K", "512K", "2M")):
        folder = tmp_path / "sys/devices/system/cpu/cpu0/cache" / f"index{index}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(size + "\n")
    assert machine.cache_bytes(tmp_path) == 2 << 20


@pytest.fixture
def short_results(monkeypatch):
    monkeypatch.setattr(measure, "VOCABULARIES", (7, 64, 97))
    return measure.measure_machine(seconds=0.0)


def test_document_of_the_command(short_results):
    assert list(short_results) == ["schema", "suite", "machine", *measure.KINDS]
    assert (short_results["schema"], short_results["suite"]) == (2, "short")
    assert [kind for kind in measure.KINDS if short_results[kind]] == ["rows", "fixed"]
    assert len(short_results["rows"]) == 15
    assert all(set(row["us"]) == US_OF[row["operation"]] for row in short_results["rows"])
    assert [sorted(row) for row in short_results["fixed"]] == [["inputs", "operation", "us", "variant"]] * 2
    assert json.loads(json.dumps(short_results)) == short_results


def test_table_of_the_command(short_results):
    first, _, header, _, *rows = bench.as_markdown(short_results).splitlines()
    assert short_results["machine"]["cpu"] in first
    table = [row for row in rows if row.startswith("|")]
    assert len(table) == 17
    assert {row.count("|") for row in table} == {header.count("|")}
    assert "| sampled, normalized: the first rejected |" in table[4]


@pytest.mark.parametrize("name", ["README.md", "BENCHMARKS.md"])
def test_published_tables_are_those_of_the_stored_results(report, name):
    """After an edit by hand: python benchmarks/report.py"""
    text = (ROOT / name).read_text()
    assert report.replaced(text, report.tables(report.load())[name], report.MARKER) == text


def test_stored_results_have_the_form_of_this_version(report):
    documents = report.load()
    assert report.full(documents)
    for document in documents:
        assert list(document) == list(measure.document("full"))
        assert document["schema"] == measure.SCHEMA
        assert set(document["machine"]) == set(machine.describe())
        for kind in measure.KINDS:
            for row in document[kind]:
                assert row["variant"] in document["machine"]["variants"]
                assert kind not in report.DATED or (row["date"] and row["versions"])
        for row in document["rows"]:
            assert set(row) == {*Case.__slots__, "variant", "bytes", "turns", "interruptions", "us"}
            case = Case(**{name: row[name] for name in Case.__slots__})
            assert row["bytes"] == case.bytes_to_read()
            assert set(row["us"]) - {"torch", "torch_multinomial"} == US_OF[case.operation]


def test_storing_keeps_everything(report, short_results, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    report.store(short_results)
    assert report.load(tmp_path) == [short_results]
    measured = short_results | {"peers": [{"date": "2026-01-01"}], "visited": [{"k": 16}]}
    report.store(measured)
    report.store(short_results)  # without peers: theirs stay
    assert report.load(tmp_path) == [short_results | {"peers": [{"date": "2026-01-01"}]}]


def test_goals_count_what_reaches_them(report):
    rows = [{"vocab": vocab} for vocab in (5, 6, 7, 8)]
    at_most = report.Goal("small", rows, lambda row: row["vocab"], 6)
    at_least = report.Goal(
        "large", rows, lambda row: row["vocab"], 7, at_least=True, bound=lambda row: row["vocab"] + 1
    )
    reached = report.Goal("all", rows, lambda row: row["vocab"], 5, at_least=True, bound=lambda row: 0)
    assert report.goal_table([at_most, at_least, reached])[2:] == [
        "| small | no | 2 of 4 | 8.00 | V = 8 |",
        "| large | no | 2 of 4; reading alone rules out 1 | 5.00 | V = 5 |",
        "| all | yes | 4 of 4 | 5.00 | V = 5 |",
    ]


def test_a_file_without_markers_is_refused(report):
    with pytest.raises(ValueError, match="expected one <!-- bench:begin -->"):
        report.replaced("text", "table", report.MARKER)
