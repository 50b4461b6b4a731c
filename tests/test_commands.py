"""The commands verify, run, sweep and law: what they print, their exit codes, and that workers change nothing."""

import concurrent.futures
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from specverify import certification, cli, experiments, lengths, simulate
from specverify._work import processes
from specverify.cli._progress import Bar


def call(capsys, *arguments):
    code = cli.main(arguments)
    return code, capsys.readouterr().out


def as_json(capsys, *arguments):
    code, out = call(capsys, *arguments, "--json")
    return code, json.loads(out)


@pytest.mark.statistical
def test_verify_certifies(capsys):
    code, out = call(capsys, "verify", "--pairs", "20")
    assert code == 0
    assert out.splitlines()[-1].startswith(("PASS", "float64"))
    assert "worst total variation" in out
    assert "wrong verifiers are rejected" in out


def test_verify_fails_with_exit_code_1(capsys, monkeypatch):
    wrong = certification.Finding("a claim", False, "it does not hold", {"total_variation": 0.5, "pairs": 1})
    monkeypatch.setattr(certification, "certify", lambda **_: [wrong])
    code, out = call(capsys, "verify")
    assert code == 1
    assert "FAIL  a claim" in out
    code, found = as_json(capsys, "verify")
    assert code == 1
    assert found["passed"] is False
    assert found["total_variation"] == 0.5


def test_run_reports_what_the_generation_took(capsys):
    code, found = as_json(capsys, "run", "--tokens", "500", "--k", "3", "--agreement", "0.9")
    assert code == 0
    assert found["tokens"] == 500
    assert found["drafted"] == 3 * found["target_passes"]
    assert found["tokens_per_target_pass"] == 500 / found["target_passes"]
    assert found["speedup"] == found["tokens_per_target_pass"] / 1.3
    code, out = call(capsys, "run", "--tokens", "500", "--k", "3", "--agreement", "0.9")
    assert code == 0
    assert f"{found['target_passes']:,}   target alone: 500" in out
    assert f"{found['tested_acceptance']:.3f}" in out


def test_a_perfect_draft_reaches_the_ceiling(capsys):
    _, found = as_json(capsys, "run", "--tokens", "500", "--k", "4", "--agreement", "1")
    assert found["tokens_per_target_pass"] == 5.0


def test_sweep_tabulates_every_cell(capsys):
    arguments = ("sweep", "--tokens", "200", "--agreement", "0.2", "1", "--k", "1", "4")
    code, found = as_json(capsys, *arguments)
    assert code == 0
    assert [(cell["agreement"], cell["k"]) for cell in found["cells"]] == [(0.2, 1), (0.2, 4), (1.0, 1), (1.0, 4)]
    _, out = call(capsys, *arguments)
    assert len([line for line in out.splitlines() if line.startswith("token ")]) == 4


def test_sweep_takes_every_rule_of_this_build(capsys):
    _, found = as_json(capsys, "sweep", "--tokens", "100", "--agreement", "0.5", "--k", "2", "--rule", "all")
    assert [cell["rule"] for cell in found["cells"]] == list(simulate.rules())


@pytest.mark.parametrize("executor", ["threads", pytest.param("processes", marks=pytest.mark.spawns)])
def test_executors_change_nothing(executor):
    kind = {"threads": concurrent.futures.ThreadPoolExecutor, "processes": processes}
    axes = {"agreements": (0.3, 0.9), "ks": (1, 3), "n_tokens": 200}
    here = experiments.sweep(**axes)
    done = []
    with kind[executor](2) as pool:
        assert experiments.sweep(**axes, executor=pool, progress=lambda *at: done.append(at)) == here
    assert done == [(i, 4) for i in (1, 2, 3, 4)]


def test_a_dask_cluster_is_an_executor():
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        axes = {"agreements": (0.5,), "ks": (1, 2), "n_tokens": 50}
        assert experiments.sweep(**axes, executor=client.get_executor()) == experiments.sweep(**axes)


def test_law_passes_and_shows_the_histogram(capsys):
    code, out = call(capsys, "law", "--rounds", "300", "--vocab", "1000")
    assert code == 0
    assert "PASS: the accepted lengths follow" in " ".join(out.split())
    code, found = as_json(capsys, "law", "--rounds", "300", "--vocab", "1000")
    assert code == 0
    assert sum(found["check"]["observed"]) == 300
    assert abs(found["mean"] - found["mean_by_law"]) < 6 * found["standard_error"]


def test_law_fails_a_wrong_verifier(capsys, monkeypatch):
    """A verifier that accepts what it should not; the tokens are drawn before, by the right function."""
    right = experiments.verify_sampled

    def eager(target, draft, tokens, uniforms):
        return right(target, draft, tokens, uniforms if draft is None else np.asarray(uniforms) * 0.8)

    monkeypatch.setattr(experiments, "verify_sampled", eager)
    code, out = call(capsys, "law", "--rounds", "600", "--vocab", "1000")
    assert code == 1
    assert "DO NOT FOLLOW" in out


def test_too_few_rounds_are_no_failure(capsys):
    code, out = call(capsys, "law", "--rounds", "2", "--vocab", "50")
    assert code == 0
    assert "Too few rounds" in out


def test_the_law_of_replayed_rows_is_that_of_their_rates():
    found = experiments.replay(50, k=3, vocab_size=200, seed=4)
    target, draft = experiments.mismatched_rows(200, 3, 4)
    assert found.law == tuple(lengths.law_of_rows(target, draft).tolist())
    reached = np.cumprod(found.acceptance_rates)
    assert found.mean_by_law == pytest.approx(reached.sum())
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert experiments.replay(50, k=3, vocab_size=200, seed=4, executor=pool) == found


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--agreement", "1.5"),
        ("run", "--k", "0"),
        ("sweep", "--agreement", "x"),
        ("sweep", "--draft-cost", "-1"),
        ("sweep", "--draft-cost", "inf"),
        ("law", "--rounds", "0"),
        ("verify", "--workers", "0"),
        ("run", "--rule", "guess"),
    ],
)
def test_impossible_options_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as exit_info:
        cli.main(arguments)
    assert exit_info.value.code == 2
    assert "error: argument" in capsys.readouterr().err


COMMANDS = (
    ("cost", "--target", "6,30", "--acceptance", "1"),
    ("cost", "--target", "6,30", "--acceptance", "1", "--json"),
    ("run", "--tokens", "20"),
)
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_closed_output_is_one_line(arguments, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err == "specverify: standard output: expected an open stream, got a closed one\n"


@needs_full
@pytest.mark.parametrize("arguments", [*COMMANDS, ("--version",), ("run", "--help")])
def test_an_output_that_is_full_is_one_line(arguments, capsys, monkeypatch):
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(arguments) == 2  # and closing it raises nothing any more
    assert capsys.readouterr().err == (
        "specverify: standard output: expected to write to it, got: No space left on device\n"
    )


@pytest.mark.parametrize("arguments", COMMANDS)
def test_an_output_that_nobody_reads_has_a_code_of_its_own(arguments, capsys, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert cli.main(arguments) == 141
    assert capsys.readouterr().err == ""


def test_a_closed_error_stream_puts_nothing_among_the_results(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(("cost", "--target", "6")) == 2
    assert cli.main(COMMANDS[-1]) == 0
    assert "specverify:" not in capsys.readouterr().out
    assert sys.stderr is None


@needs_full
def test_an_error_stream_that_is_full_changes_no_code(monkeypatch):
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert cli.main(("cost", "--target", "6")) == 2
        with pytest.raises(SystemExit) as ended:
            cli.main(("run", "--rule", "guess"))
        assert ended.value.code == 2


def test_a_file_that_cannot_be_written_is_one_line(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "none" / "x.svg"
    assert cli.main(("law", "--rounds", "5", "--vocab", "50", "--plot", str(path))) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert str(path) in err


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_shows_on_a_terminal_when_it_takes_long(monkeypatch):
    times = iter((0.0, 0.5, 4.0, 4.01, 8.0))
    monkeypatch.setattr("specverify.cli._progress.time.monotonic", lambda: next(times))
    stream = Terminal()
    with Bar(stream) as bar:
        bar(1, 4)
        assert stream.getvalue() == ""
        bar(2, 4)
        assert "2/4, 4 s left" in stream.getvalue()
        bar(3, 4)
        assert "3/4" not in stream.getvalue()  # too soon after the last picture
        bar(4, 4)
    assert stream.getvalue().endswith("\r")


def test_the_bar_is_silent_elsewhere(monkeypatch):
    times = iter((0.0, 100.0))
    monkeypatch.setattr("specverify.cli._progress.time.monotonic", lambda: next(times))
    stream = io.StringIO()
    with Bar(stream) as bar:
        bar(1, 2)
    assert stream.getvalue() == ""


def test_plots_are_written_and_the_same_each_time(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    for command in (("sweep", "--tokens", "50", "--agreement", "0.5", "1"), ("law", "--rounds", "20", "--vocab", "50")):
        for name in ("one.svg", "two.svg"):
            assert cli.main((*command, "--plot", str(tmp_path / name))) == 0
        assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    capsys.readouterr()


def test_a_missing_matplotlib_is_said(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as ended:
        cli.main(("law", "--plot", str(tmp_path / "x.svg")))
    assert ended.value.code == 2
    assert "pip install matplotlib" in capsys.readouterr().err


def test_the_famous_mistakes_are_as_far_off_as_the_documentation_says():
    from specverify import figures

    laws = figures.emitted_laws()
    assert laws["this build"][1] < 1e-15
    assert laws["rejected, redrawn from the target itself"][1] == pytest.approx(0.1465, abs=1e-6)
    assert laws["argmax draft passed with its softmax"][1] == pytest.approx(0.375, abs=1e-6)
