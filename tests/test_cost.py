"""The cost model: against enumeration of rounds and closed forms, with published cases, fake steps and a fake clock."""

import itertools
import json
import math

import numpy as np
import pytest

from specverify import cli, cost
from specverify.cost import Acceptance, ProposedLengths, StepTimes, predict, recommend
from specverify.generation import Round, report_of

FP32 = ((1, 0.068), (2, 0.116), (5, 0.140), (9, 0.146))


def test_a_draft_that_is_always_right_and_still_slower():
    """Plain 6 ms, a pass over two tokens 30 ms, free draft: 66.7 against 166.7 tokens/s."""
    advice = recommend(StepTimes(target=((1, 0.006), (2, 0.030))), Acceptance.from_rate(1.0, 1), max_k=1)
    plain, one = advice.predictions
    assert plain.tokens_per_second == pytest.approx(1000 / 6)
    assert one.tokens_per_second == pytest.approx(2000 / 30)
    assert one.speedup == pytest.approx(0.4)
    assert advice.k == 0
    assert "do not speculate" in advice.sentence.casefold()
    assert "were all accepted 0.40x" in advice.sentence


def test_positions_count_up_to_the_first_rejection_only():
    """Four drafted; positions that would pass as yes-no-yes-yes, no-yes-yes-yes, all yes: accepted 1, 0, 4."""
    accepted = [len(list(itertools.takewhile(bool, row))) for row in ((1, 0, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1))]
    law = Acceptance.from_rounds([4, 4, 4], accepted)
    assert [law.at_least(k) * 3 for k in range(1, 5)] == pytest.approx([2, 1, 1, 1])
    found = predict(StepTimes(target=((1, 1.0), (5, 1.0))), law, k=4)
    assert found.tokens_per_round == pytest.approx(8 / 3)
    assert found.tokens_per_round - 1 == pytest.approx(5 / 3)


def test_a_short_draft_is_censored_not_rejected():
    """Two rounds drafted 1 and had it accepted: they say nothing of position 2."""
    law = Acceptance.from_rounds(drafted=[1, 1, 2, 2, 0], accepted=[1, 1, 2, 0, 0])
    assert law.rates == (0.75, 1.0)
    assert law.tested == (4.0, 1.0)


def test_rounds_of_one_length_give_plain_shares():
    """With equal lengths the product telescopes to the share of rounds that accepted at least k; 1e-12: rounding."""
    accepted = np.random.default_rng(3).integers(0, 6, 100).tolist()
    law = Acceptance.from_rounds([5] * 100, accepted)
    for k in range(6):
        share = sum(n >= k for n in accepted) / 100
        assert law.at_least(k) == pytest.approx(share, abs=1e-12)
        if k:
            assert law.standard_error(k) == pytest.approx(math.sqrt(share * (1 - share) / 100), abs=1e-12)


def test_what_follows_from_a_rate_of_0_is_known_and_what_nothing_reached_is_not():
    assert Acceptance.from_rounds([3, 3], [0, 0]).rates == (0.0, 0.0, 0.0)
    mixed = Acceptance.from_rounds([1, 2], [1, 0])
    assert mixed.rates == (0.5,)
    with pytest.raises(ValueError, match=r"k = 2: expected at most 1"):
        mixed.at_least(2)


def test_a_report_gives_its_acceptance():
    rounds = [Round((1, 2), 2, 1, 0.0, 0.0, 0.0, None), Round((3,), 2, 0, 0.0, 0.0, 0.0, "length")]
    report = report_of(rounds, 1.0)
    assert Acceptance.from_rounds(report.drafted, report.accepted).rates == (0.5, 0.0)


def test_acceptance_by_length_keeps_lengths_apart():
    laws = Acceptance.by_length([1, 1, 2, 2], [1, 0, 2, 2])
    assert {n: law.rates for n, law in laws.items()} == {1: (0.5,), 2: (1.0, 1.0)}


def test_given_shares_come_back():
    law = Acceptance.from_at_least([0.8, 0.4, 0.0, 0.0])
    assert [law.at_least(k) for k in range(5)] == pytest.approx([1, 0.8, 0.4, 0, 0])
    assert math.isnan(law.standard_error(1))
    assert math.isnan(law.standard_error(3))


def test_the_prediction_is_the_mean_of_rounds_enumerated():
    """A draft that proposes 0, 1 or 3 tokens, acceptance that differs by length: every outcome, weighted.

    Catch-up and switch of a round depend on the round before, so pairs of rounds are enumerated; 1e-12 is rounding.
    """
    times = StepTimes(
        target=((1, 1.0), (2, 1.5), (3, 9.0), (4, 1.8)),
        draft_token=0.1,
        draft_fixed=0.05,
        catch_up=0.17,
        switch=0.013,
        verify=((0, 0.01), (3, 0.04)),
    )
    laws = {1: Acceptance.from_rate(0.5, 1), 3: Acceptance((0.9, 0.6, 0.3), (0, 0, 0))}
    outcomes = [(0.3, 0, 0)]
    for n, share in ((1, 0.5), (3, 0.2)):
        for accepted in range(n + 1):
            below = laws[n].at_least(accepted + 1) if accepted < n else 0.0
            outcomes.append((share * (laws[n].at_least(accepted) - below), n, accepted))
    assert sum(weight for weight, _, _ in outcomes) == pytest.approx(1.0)
    tokens = seconds = 0.0
    for (before, n_before, accepted_before), (weight, n, accepted) in itertools.product(outcomes, repeat=2):
        late = n and n_before and accepted_before == n_before
        spent = 0.05 + 0.1 * n + dict(times.target)[n + 1] + 0.01 + 0.01 * n
        spent += (0.07 if late else 0.0) + (0.013 if n != n_before else 0.0)
        tokens += before * weight * (accepted + 1)
        seconds += before * weight * spent
    found = predict(times, laws, 3, proposed=[0.3, 0.5, 0.0, 0.2])
    assert found.tokens_per_round == pytest.approx(tokens, rel=1e-12)
    assert found.seconds_per_round == pytest.approx(seconds, rel=1e-12)
    assert found.speedup == pytest.approx(tokens / seconds * 1.01, rel=1e-12)


def test_a_flat_cost_gives_the_textbook():
    for alpha, k, c in itertools.product((0.0, 0.3, 0.99, 1.0), (1, 4), (0.0, 0.2, 1.0)):
        times = StepTimes(target=((1, 1.0), (k + 1, 1.0)), draft_token=c)
        found = predict(times, Acceptance.from_rate(alpha, k), k)
        assert found.speedup == pytest.approx(cost.closed_form_speedup(alpha, k, c), rel=1e-12)


def test_nothing_beats_the_ceiling_and_full_acceptance_reaches_it():
    times = StepTimes(target=FP32, draft_token=0.01, between="linear")
    for k, alpha in itertools.product(range(1, 9), (0.0, 0.5, 0.9)):
        found = predict(times, Acceptance.from_rate(alpha, k), k)
        assert found.speedup < found.ceiling == cost.ceiling(times, k)
        assert predict(times, Acceptance.from_rate(1.0, k), k).speedup == pytest.approx(found.ceiling)


def test_a_draft_that_proposes_nothing_costs_its_call():
    times = StepTimes(target=FP32, draft_fixed=0.001, between="linear")
    found = predict(times, Acceptance.from_rate(0.9, 4), 4, ProposedLengths((0.0,), (5.0,)))
    assert (found.tokens_per_round, found.seconds_per_round) == (1.0, pytest.approx(0.069))


def test_the_fastest_length_is_advised():
    times = StepTimes(target=FP32, between="linear")
    advice = recommend(times, Acceptance.from_rate(0.9, 8), max_k=8)
    assert advice.k == max(range(9), key=lambda k: advice.predictions[k].tokens_per_second) == 8
    assert advice.best.k == 8
    assert advice.sentence.startswith("Speculate with k = 8")
    hesitant = recommend(times, Acceptance.from_rate(0.3, 8), max_k=8)
    assert hesitant.k == 0
    assert "whatever" not in hesitant.sentence
    assert recommend(times, Acceptance.from_rate(0.3, 8), max_k=0).k == 0


def test_interpolation_is_asked_for_and_never_goes_beyond():
    refusing = StepTimes(target=FP32)
    assert refusing.target_seconds(5) == 0.140
    with pytest.raises(ValueError, match=r"n = 3: expected a measured number .* \[1, 2, 5, 9\]"):
        refusing.target_seconds(3)
    linear = StepTimes(target=FP32, between="linear")
    assert linear.target_seconds(3) == pytest.approx(0.124)
    assert not predict(linear, Acceptance.from_rate(0.5, 2), 2).measured
    for n in (0, 10):
        with pytest.raises(ValueError, match=f"n = {n}"):
            linear.target_seconds(n)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"target": ()}, "target: expected a time of a pass over 1"),
        ({"target": ((2, 1.0),)}, "target: expected a time of a pass over 1"),
        ({"target": ((1, 1.0), (1, 2.0))}, r"target\[1\]: expected numbers of tokens in rising order, got 1"),
        ({"target": ((1, math.nan),)}, r"target\[0\]: expected a finite time"),
        ({"target": ((1, 0.0),)}, "target: expected a positive time"),
        ({"target": ((1, 1.0),), "draft_token": -1.0}, "draft_token: expected a finite time"),
        ({"target": ((1, 1.0),), "switch": math.inf}, "switch: expected a finite time"),
        ({"target": ((1, 1.0),), "draft_token": 0.2, "catch_up": 0.1}, "catch_up: expected at least draft_token"),
        ({"target": ((1, 1.0),), "between": "cubic"}, "between: expected"),
    ],
)
def test_wrong_times_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        StepTimes(**wrong)


def test_wrong_arguments_are_refused():
    times = StepTimes(target=((1, 1.0), (2, 1.0), (3, 1.0)))
    one = Acceptance.from_rate(0.5, 1)
    for call, message in (
        (lambda: predict(times, one, -1), "k: expected"),
        (lambda: recommend(times, one, -1), "max_k: expected at least 0, got -1"),
        (lambda: predict(times, one, 2), "acceptance: expected the rates of 2 positions, got 1"),
        (lambda: predict(times, {1: one}, 2), "acceptance: expected an entry for rounds of 2"),
        (lambda: predict(times, one, 1, [0.5, 0.6]), "proposed: expected 2 shares"),
        (lambda: predict(times, one, 1, [1.0]), "proposed: expected 2 shares"),
        (lambda: Acceptance((1.5,), (0.0,)), r"rates\[0\]: expected a probability"),
        (lambda: Acceptance((0.5,), ()), "tested: expected one count a rate"),
        (lambda: Acceptance.from_rounds([1], [2]), r"accepted\[0\]: expected 0 to drafted\[0\] = 1, got 2"),
        (lambda: Acceptance.from_rounds([1], []), "drafted, accepted: expected one of each a round"),
        (lambda: Acceptance.from_at_least([0.5, 0.6]), r"shares\[1\]: expected at most shares\[0\]"),
        (lambda: cost.closed_form_speedup(1.5, 1, 0.0), "alpha"),
        (lambda: cost.closed_form_speedup(0.5, 1, -1.0), "draft_cost"),
        (lambda: cost.audit([1.0], []), "as many of both"),
        (lambda: cost.audit([1.0], [0.0]), r"measured\[0\]: expected a positive"),
        (lambda: cost.from_json({"times": {}}), "record: expected what cost.to_json gives"),
        (lambda: cost.from_json([]), "record: expected"),
        (lambda: cost.from_json({"times": {"target": [[1.9, 1]]}}), "record: expected"),
        (lambda: cost.from_json({"times": {"target": [[float("inf"), 1]]}}), "record: expected"),
        (lambda: cost.from_json({"times": {"target": [[1, 1], [2]]}}), "record: expected"),
        (lambda: cost.from_json({"times": {"target": [[1, 10**400]]}}), "record: expected"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_an_audit_counts_cells_within_the_bound():
    found = cost.audit([90.0, 111.0, 100.0], [100.0, 100.0, 100.0], bound=0.105)
    assert found.errors == pytest.approx((-0.1, 0.11, 0.0))
    assert found.worst == pytest.approx(0.11)
    assert found.within == pytest.approx(2 / 3)


class FakeModel:
    """A step with a cache, and a clock that its work moves."""

    def __init__(self, clock, read, fixed=0.0, limit=99, switch=0.0):
        self.clock, self.read, self.fixed, self.limit, self.switch = clock, read, fixed, limit, switch
        self.n_cached = self.last = 0
        self.begun = 0
        self.calls = []

    def begin(self, start):
        self.begun += 1
        self.n_cached = 0

    def truncate(self, keep):
        assert keep < self.n_cached
        removed, self.n_cached = self.n_cached - keep, keep
        return removed

    def _feed(self, length):
        new = length - self.n_cached
        assert new >= 1
        self.clock[0] += self.read(new) + (self.switch if self.last not in (0, new) else 0.0)
        self.last = new
        self.n_cached = length
        return new

    def draft(self, prefix, k):
        self.clock[0] += self.fixed
        n = min(k, self.limit)
        self.calls.append(self._feed(len(prefix)))
        for i in range(1, n):
            self._feed(len(prefix) + i)
        return [7] * n, None

    def target(self, prefix, proposed):
        self.calls.append(self._feed(len(prefix) + len(proposed)))
        return np.zeros((len(proposed) + 1, 8), np.float32)


class Step:
    def __init__(self, model, name):
        self.model, self.name = model, name
        self.begin, self.truncate = model.begin, model.truncate

    n_cached = property(lambda self: self.model.n_cached)

    def __call__(self, *arguments):
        return getattr(self.model, self.name)(*arguments)


def test_measured_steps_are_those_of_the_models():
    """Target: 1 s and .25 s for every further token. Draft: a call .5 s, a step .125 s, .0625 s for a second token.

    Either takes .03125 s more after a pass of another length; a draft that catches up does so twice.
    """
    clock = [0.0]
    target = FakeModel(clock, lambda n: 1.0 + 0.25 * (n - 1), switch=0.03125)
    draft = FakeModel(clock, lambda n: 0.125 + 0.0625 * (n - 1), fixed=0.5, switch=0.03125)
    verified = []

    def verify(target_rows, draft_rows, tokens):
        assert len(target_rows) == len(tokens) + 1
        verified.append(len(tokens))
        clock[0] += 0.03125 * len(tokens)

    found = cost.measure_steps(
        Step(draft, "draft"), Step(target, "target"), [1, 2, 3], (4, 1), 3, verify=verify, clock=lambda: clock[0]
    )
    assert found.target == ((1, 1.0), (2, 1.25), (5, 2.0))
    assert found.draft_fixed == pytest.approx(0.5)
    assert found.draft_token == pytest.approx(0.125)
    assert found.switch == 0.03125
    assert found.catch_up == pytest.approx(0.1875 + 2 * 0.03125)
    assert found.draft_start == pytest.approx(2 * 0.0625)  # the first call reads three tokens instead of one
    assert found.verify == ((0, 0.0), (1, 0.03125), (4, 0.125))
    assert found.verify_seconds(2) == pytest.approx(0.0625)
    assert found.verify_seconds(9) == 0.125
    assert (target.begun, draft.begun) == (1, 1)
    # The prompt is read once, by the calls that are not counted; then each pass reads what a round would.
    assert target.calls == [3, 1, 2, 2, 5, 5] + [1, 1, 2, 2, 5, 5] * 3
    assert verified == [0, 0, 1, 1, 4, 4] * 4


def test_a_cache_of_another_text_is_emptied_first():
    clock = [0.0]
    target, draft = FakeModel(clock, lambda n: float(n)), FakeModel(clock, lambda n: float(n))
    steps = []
    for model, name in ((draft, "draft"), (target, "target")):
        step = Step(model, name)
        del step.begin
        model.n_cached = 50
        steps.append(step)
    cost.measure_steps(*steps, [1, 2, 3], (1,), 1, clock=lambda: clock[0])
    assert (target.calls[0], draft.calls[0]) == (3, 3)


def test_one_slow_second_does_not_count():
    clock, calls = [0.0], itertools.count()

    def target_step(prefix, proposed):
        clock[0] += 50.0 if next(calls) == 4 else 1.0
        return np.zeros((len(proposed) + 1, 4))

    found = cost.measure_steps(lambda prefix, k: ([1] * k, None), target_step, [1, 2], (1,), 3, clock=lambda: clock[0])
    assert found.target == ((1, 1.0), (2, 1.0))
    assert found.catch_up is None


def test_a_look_up_has_a_fixed_cost_only():
    clock = [0.0]

    def lookup(found):
        def step(prefix, k):
            clock[0] += 0.25
            return [3] * min(k, found), None

        return step

    def target_step(prefix, proposed):
        clock[0] += 1.0 + len(proposed)
        return np.zeros((len(proposed) + 1, 4))

    for found in (0, 1, 8):
        times = cost.measure_steps(lookup(found), target_step, [1, 2], (1, 4), 1, clock=lambda: clock[0])
        assert times.target == ((1, 1.0), (2, 2.0), (5, 5.0))
        if found != 1:  # calls that all proposed one token cannot be split: the time is counted per token
            assert (times.draft_fixed, times.draft_token) == (0.25, 0.0)


def test_wrong_measurements_are_refused():
    def step(*_):
        raise AssertionError

    for arguments, message in (
        (([1], (1,), 1), "prompt: expected at least 2 tokens, got 1"),
        (([1, 2], (), 1), "ks: expected"),
        (([1, 2], (0, 1), 1), "ks: expected"),
        (([1, 2], (1,), 0), "repeats: expected at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            cost.measure_steps(step, step, *arguments)


def test_records_come_back_through_json():
    times = StepTimes(
        target=FP32,
        draft_token=0.1,
        draft_fixed=0.2,
        catch_up=0.3,
        draft_start=0.4,
        switch=0.5,
        verify=((0, 0.1),),
        between="linear",
    )
    acceptance = Acceptance.from_rounds([2, 2], [1, 2])
    proposed = ProposedLengths.from_rounds([2, 2], [0, 2])
    record = json.loads(json.dumps(cost.to_json(times, acceptance, proposed)))
    assert cost.from_json(record) == (times, acceptance, proposed)
    assert cost.from_json({"tokens": 3, "cost": record}) == (times, acceptance, proposed)
    assert cost.from_json(cost.to_json(times)) == (times, None, None)


def call(capsys, *arguments):
    code = cli.main(("cost", *arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_advises(capsys):
    code, out, _ = call(capsys, "--target", "6,30", "--draft", "0", "--acceptance", "1")
    assert code == 0
    assert out.splitlines()[-1].startswith("Do not speculate: plain decoding gives 166.7 tokens/s")
    assert out.splitlines()[2].split() == ["1", "2.000", "30.000", "66.7", "0.40x", "0.40x"]


def test_a_clock_that_stands_still_gives_no_traceback(capsys):
    code, out, _ = call(capsys, "--target", "6,0", "--acceptance", "0.8")
    assert code == 0
    assert "inf" in out


def test_numbers_of_numpy_are_written(capsys):
    times = StepTimes(target=((np.int64(1), np.float64(0.5)), (np.int64(2), np.float32(0.75))))
    assert cost.from_json(json.loads(json.dumps(cost.to_json(times))))[0] == times


def test_the_command_interpolates_between_pairs_and_says_so(capsys):
    arguments = ("--target", "1:68,2:116,5:140", "--acceptance", "0.9,0.8,0.7,0.6", "--draft", "5", "--catch-up", "6")
    arguments += ("--draft-call", "2", "--verify", "1", "--proposes", "0.5", "--switch", "4")
    code, out, _ = call(capsys, *arguments)
    assert code == 0
    assert "~: the target pass is interpolated" in out
    code, out, _ = call(capsys, *arguments, "--json")
    found = json.loads(out)
    times = StepTimes(
        target=((1, 0.068), (2, 0.116), (5, 0.140)),
        draft_token=0.005,
        draft_fixed=0.002,
        catch_up=0.006,
        switch=0.004,
        verify=((0, 0.0), (1, 0.001)),
        between="linear",
    )
    proposed = ProposedLengths((0.5,), (0.0,))
    expected = recommend(times, Acceptance.from_at_least([0.9, 0.8, 0.7, 0.6]), 4, proposed)
    assert found["predictions"] == [one._asdict() for one in expected.predictions]
    assert (found["k"], found["advice"]) == (expected.k, expected.sentence)


@pytest.mark.parametrize("acceptance", ["0.9", ",".join(["0.5"] * 50)])
def test_the_command_considers_no_more_lengths_than_fit_a_screen_and_says_so(acceptance, capsys):
    """All of a million take hours; as many rates in a list, gigabytes."""
    known = 999_999_999_999 if acceptance == "0.9" else 50
    arguments = ("--target", "1:6,1000000000000:7", "--acceptance", acceptance)
    _, out, _ = call(capsys, *arguments)
    assert out.splitlines()[33].split()[0] == "32"
    assert f"k = 33 to {known} can be predicted as well: --max-k" in " ".join(out.split())
    _, out, _ = call(capsys, *arguments, "--max-k", "40")
    assert out.splitlines()[41].split()[0] == "40"
    assert "as well" not in out
    _, out, _ = call(capsys, *arguments, "--json")
    assert len(json.loads(out)["predictions"]) == 33


def test_the_command_reads_what_was_measured(capsys, tmp_path):
    file = tmp_path / "report.json"
    times = StepTimes(target=((1, 0.006), (2, 0.007), (3, 0.008)))
    file.write_text(json.dumps({"cost": cost.to_json(times, Acceptance.from_rounds([2, 2], [2, 1]))}), encoding="utf-8")
    code, out, _ = call(capsys, "--from", str(file))
    assert code == 0
    assert out.splitlines()[-1].startswith("Speculate with k = 2")
    _, out, _ = call(capsys, "--from", str(file), "--acceptance", "0", "--max-k", "1")
    assert out.splitlines()[-1].startswith("Do not speculate")
    code, _, err = call(capsys, "--from", str(file), "--draft", "3")
    assert code == 2
    assert "--draft: expected with --target only" in err


def test_the_command_says_what_is_missing(capsys, tmp_path):
    file = tmp_path / "other.json"
    for text in ("{}", "[1]", "not JSON"):
        file.write_text(text, encoding="utf-8")
        assert call(capsys, "--from", str(file))[0] == 2
    code, _, err = call(capsys, "--target", "6,30")
    assert code == 2
    assert "--acceptance: expected" in err
    code, _, err = call(capsys, "--target", "6,30", "--acceptance", "1", "--max-k", "2")
    assert code == 2
    assert "expected" in err
    for wrong in (("--target", "6;30"), ("--target", "1:2,3")):
        with pytest.raises(SystemExit):
            cli.main(("cost", *wrong, "--acceptance", "1"))


def test_steps_of_a_cache_that_does_not_shrink_are_not_timed():
    class Stuck:
        n_cached = 0

        def truncate(self, keep):
            return 0

        def __call__(self, prefix, proposed):
            self.n_cached = len(prefix) + len(proposed)
            return [[0.0]] * (len(proposed) + 1)

    with pytest.raises(RuntimeError, match=r"Stuck.truncate\(1\): expected to keep 1"):
        cost.measure_steps(lambda prefix, k: ([1] * k, None), Stuck(), [1, 2], [1], 1)
