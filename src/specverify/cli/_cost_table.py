"""What a draft length gains or costs, as a table and as JSON. Holds no prediction (specverify/cost/)."""

from typing import Any

from .. import cost
from ._terminal import Screen


def show(screen: Screen, advice: cost.Advice, known: int | None = None) -> None:
    """Print the predictions of all draft lengths, the advised one in colour, and the advice.

    `known` is the longest draft of which something is known, if not all were asked for.
    """
    screen.print("  k   tokens per target pass   ms per round   tokens/s   speed-up   ceiling")
    for one in advice.predictions:
        mark = " " if one.measured else "~"
        line = (
            f"{one.k:3}   {one.tokens_per_round:22.3f}   {mark}{1e3 * one.seconds_per_round:11.3f}   "
            f"{one.tokens_per_second:8.1f}   {one.speedup:7.2f}x   {one.ceiling:6.2f}x"
        )
        screen.print(screen.paint(line, "good") if one.k == advice.k else line)
    if not all(one.measured for one in advice.predictions):
        screen.print("~: the target pass is interpolated")
    if len(advice.predictions) > 1:
        screen.paragraph(
            "ceiling: of rounds that propose k tokens. A lookup that proposes fewer in many rounds can be above it."
        )
    considered = len(advice.predictions) - 1
    if known is not None and known > considered:
        screen.paragraph(f"k = {considered + 1} to {known} can be predicted as well: --max-k.")
    screen.print()
    screen.print(advice.sentence)


def show_ceiling(screen: Screen, times: cost.StepTimes) -> None:
    """Print what is known where nothing was drafted, so nothing of acceptance."""
    best = max(range(1, times.max_k + 1), key=lambda k: cost.ceiling(times, k))
    screen.paragraph(
        "Nothing was drafted in this text, so nothing is known of acceptance. If all were accepted: at most "
        f"{cost.ceiling(times, best):.2f}x plain decoding, with k = {best}."
    )


def as_json(
    times: cost.StepTimes,
    acceptance: cost.Acceptance,
    proposed: cost.ProposedLengths | None,
    advice: cost.Advice,
) -> dict[str, Any]:
    """Give what `specverify cost --from` reads again, and what was predicted from it."""
    return {
        **cost.to_json(times, acceptance, proposed),
        "predictions": [one._asdict() for one in advice.predictions],
        "k": advice.k,
        "advice": advice.sentence,
    }
