"""Figures of cells from the lines of a run: rates, speeds, shares, and predictions beside them. Measures nothing.

A prediction rests on steps that were measured before and after the runs of a group; the mean of both counts, since the
speed of a machine drifts. Acceptance and proposed lengths are those of the runs. So what is tested is the model of the
cost: that a round is a draft, a pass over so many tokens and a verification, and nothing else.
"""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from statistics import median

from specverify import cost

from . import grid

GROUP = ("target", "temperature", "domain")
BOUND = 0.1  # relative error of a predicted speed that counts as right
DRAFTED, ACCEPTED, TOKENS, IN_DRAFT, IN_TARGET, IN_VERIFICATION = range(6)  # of a round in a line


def cells_of(line):
    """Give a row for each contender of a group, plain decoding first.

    A contender's speed in one repeat is that of all its texts together; speed and speed-up are medians over repeats,
    with the least and the largest. A speed-up is over plain decoding in the same repeat, and a prediction is of one
    repeat, too.
    """
    group = {name: line["key"][name] for name in GROUP}
    plain = _by_repeat(line["runs"], *grid.PLAIN)
    rows = []
    for draft, k in line["key"]["contenders"]:
        found = _by_repeat(line["runs"], draft, k)
        rounds = [one for runs in found.values() for run in runs for one in run["rounds"]]
        speeds = [_tokens(runs) / _seconds(runs) for runs in found.values()]
        ups = [_seconds(plain[repeat]) / _seconds(runs) for repeat, runs in found.items()]
        runs = [run for several in found.values() for run in several]
        row = group | {"draft": draft, "k": k, "tokens": _tokens(runs), "texts": len(runs), **rates_of(rounds)}
        row |= {"per_second": spread(speeds), "speedup": spread(ups), **shares_of(runs, rounds)}
        if group["temperature"] == 0:
            row["same"] = all(run["same"] for run in runs)
        times = step_times(line, draft)
        row["predicted"] = median(predicted_of(times, draft, k, runs) for runs in found.values())
        rows.append({name: rounded(value) for name, value in row.items()})
    return rows


def rates_of(rounds):
    """Give acceptance, in both senses, and tokens per target pass; None where there was nothing to count."""
    drafted, accepted = (sum(one[i] for one in rounds) for i in (DRAFTED, ACCEPTED))
    tested = accepted + sum(one[ACCEPTED] < one[DRAFTED] for one in rounds)
    return {
        "tested_acceptance": accepted / tested if tested else None,
        "draft_utilisation": accepted / drafted if drafted else None,
        "drafted_per_round": drafted / len(rounds),
        "tokens_per_pass": sum(one[TOKENS] for one in rounds) / len(rounds),
    }


def shares_of(runs, rounds):
    """Give the shares of drafting and verification in the whole time, and the processor's share of the clock's."""
    seconds = _seconds(runs)
    return {
        "draft_share": sum(one[IN_DRAFT] for one in rounds) / seconds,
        "verify_share": sum(one[IN_VERIFICATION] for one in rounds) / seconds,
        "cpu_share": sum(run["cpu"] for run in runs) / seconds,
    }


def step_times(line, draft):
    """Give the mean of the step times before and after a group; plain decoding's stand beside any draft."""
    before, after = line["steps"]
    name = draft if draft in before else next(iter(before))
    return mean_times(before[name], after[name])


def predicted_of(times, draft, k, runs):
    """Predict the speed of the runs of a repeat from the steps, and from what these runs drafted and accepted."""
    if draft == "none":
        return 1 / times.plain_seconds
    texts = [[(one[DRAFTED], one[ACCEPTED]) for one in run["rounds"]] for run in runs]
    return predicted(times, texts, adaptive=k in grid.ADAPTIVE)


def mean_times(before, after):
    """Give the StepTimes between two measurements of the same steps, as to_json writes them."""
    one, _, _ = cost.from_json({"times": before})
    other, _, _ = cost.from_json({"times": after})

    def table(first, second):
        second = dict(second)
        return tuple((n, (seconds + second.get(n, seconds)) / 2) for n, seconds in first)

    return cost.StepTimes(
        target=table(one.target, other.target),
        draft_token=(one.draft_token + other.draft_token) / 2,
        draft_fixed=(one.draft_fixed + other.draft_fixed) / 2,
        catch_up=None if one.catch_up is None else (one.catch_up + other.catch_up) / 2,
        switch=(one.switch + other.switch) / 2,
        verify=table(one.verify, other.verify),
        between="linear",
    )


def predicted(times, texts, adaptive=False):
    """Predict tokens per second from step times and what the rounds drafted and accepted.

    Parameters
    ----------
    times : StepTimes
        Of the group.
    texts : list of lists of (drafted, accepted)
        Of the rounds of each run of a contender.
    adaptive : bool
        A round that drafted nothing did not ask the draft, and lengths depend on each other: how often one follows
        another is counted. Else it asked and got nothing, and lengths are taken to be independent.
    """
    rounds = [pair for text in texts for pair in text]
    switching = 0.0
    if adaptive:
        switching = times.switch * sum(one[0] != other[0] for text in texts for one, other in pairwise(text))
        times = replace(times, switch=0.0)
    plain = [pair for pair in rounds if adaptive and pair[0] == 0]
    asked = rounds[:0] if len(plain) == len(rounds) else [pair for pair in rounds if not adaptive or pair[0]]
    longest = max((n for n, _ in asked), default=0)
    tokens, seconds = float(len(plain)), len(plain) * times.plain_seconds + switching
    if longest:
        counts = Counter(n for n, _ in asked)
        shares = [counts[n] / len(asked) for n in range(longest + 1)]
        acceptance = cost.Acceptance.by_length(*zip(*asked, strict=True))
        found = cost.predict(times, acceptance, longest, shares)
        tokens += found.tokens_per_round * len(asked)
        seconds += found.seconds_per_round * len(asked)
    elif asked:
        tokens += len(asked)
        seconds += len(asked) * (times.plain_seconds + times.draft_fixed)
    return tokens / seconds


def steps_of(line):
    """Give a row for each draft of a group: milliseconds of the steps, and how far the target's drifted."""
    group = {name: line["key"][name] for name in GROUP}
    rows = []
    for draft in line["steps"][0]:
        times = step_times(line, draft)
        first, last = (dict(map(tuple, side[draft]["target"])) for side in line["steps"])
        row = group | {
            "draft": draft,
            "target_ms": [[n, round(1e3 * seconds, 3)] for n, seconds in times.target],
            "draft_token_ms": 1e3 * times.draft_token,
            "draft_fixed_ms": 1e3 * times.draft_fixed,
            "catch_up_ms": None if times.catch_up is None else 1e3 * times.catch_up,
            "switch_ms": 1e3 * times.switch,
            "verify_ms": [[n, round(1e3 * seconds, 4)] for n, seconds in times.verify],
            "drift": last[1] / first[1],
        }
        rows.append({name: rounded(value) for name, value in row.items()})
    return rows


def audit_of(rows):
    """Compare predicted with measured speeds of all cells; the bound is BOUND."""
    return cost.audit([row["predicted"] for row in rows], [row["per_second"][0] for row in rows], BOUND)


def spread(values):
    """Give median, least and largest."""
    return [median(values), min(values), max(values)]


def rounded(value, digits=5):
    """Round to significant digits what is stored, lists too."""
    if isinstance(value, list):
        return [rounded(one, digits) for one in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def _by_repeat(runs, draft, k):
    found = {}
    for run in runs:
        if (run["draft"], run["k"]) == (draft, k):
            found.setdefault(run["repeat"], []).append(run)
    return found


def _tokens(runs):
    return sum(one[TOKENS] for run in runs for one in run["rounds"])


def _seconds(runs):
    return sum(run["seconds"] for run in runs)
