"""What was measured as JSON, for ``specverify cost --from``."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from .acceptance import Acceptance, ProposedLengths
from .times import StepTimes


def to_json(
    times: StepTimes, acceptance: Acceptance | None = None, proposed: ProposedLengths | None = None
) -> dict[str, Any]:
    """Give what was measured in types that the json module writes; seconds throughout.

    Returns
    -------
    dict
        ``{"times": ..., "acceptance": ..., "proposed": ...}``; the last two may be None.

    Examples
    --------
    >>> record = to_json(StepTimes(target=((1, 0.5), (2, 0.75))), Acceptance.from_rate(0.5, 1))
    >>> record["times"]["target"], record["acceptance"]
    ([[1, 0.5], [2, 0.75]], {'rates': [0.5], 'tested': [0.0]})
    >>> from_json(record)[1]
    Acceptance(rates=(0.5,), tested=(0.0,))
    """

    def law(one: Acceptance | ProposedLengths | None) -> dict[str, Any] | None:
        return None if one is None else {"rates": [*map(float, one.rates)], "tested": [*map(float, one.tested)]}

    def table(pairs: Sequence[tuple[int, float]]) -> list[list[float]]:
        return [[int(n), float(seconds)] for n, seconds in pairs]

    return {
        "times": {
            "target": table(times.target),
            "draft_token": float(times.draft_token),
            "draft_fixed": float(times.draft_fixed),
            "catch_up": None if times.catch_up is None else float(times.catch_up),
            "draft_start": float(times.draft_start),
            "switch": float(times.switch),
            "verify": table(times.verify),
            "between": times.between,
        },
        "acceptance": law(acceptance),
        "proposed": law(proposed),
    }


def from_json(record: Mapping[str, Any]) -> tuple[StepTimes, Acceptance | None, ProposedLengths | None]:
    """Read what :func:`to_json` gave, alone or as the entry ``"cost"`` of a longer report.

    Raises
    ------
    ValueError
        Something is missing or of another form, or a value is out of its bounds.
    """
    inner = record.get("cost", record) if isinstance(record, Mapping) else None
    try:
        if not isinstance(inner, Mapping):
            raise TypeError("not a mapping")
        given = inner["times"]
        times = StepTimes(
            target=_table(given["target"]),
            draft_token=float(given.get("draft_token", 0.0)),
            draft_fixed=float(given.get("draft_fixed", 0.0)),
            catch_up=None if given.get("catch_up") is None else float(given["catch_up"]),
            draft_start=float(given.get("draft_start", 0.0)),
            switch=float(given.get("switch", 0.0)),
            verify=_table(given.get("verify", ())),
            between=given.get("between", "refuse"),
        )
        acceptance = None if inner.get("acceptance") is None else Acceptance(*_law(inner["acceptance"]))
        proposed = None if inner.get("proposed") is None else ProposedLengths(*_law(inner["proposed"]))
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"record: expected what cost.to_json gives, got something without it: {error!r}") from error
    return times, acceptance, proposed


def _table(pairs: Any) -> tuple[tuple[int, float], ...]:
    return tuple((operator.index(n), float(seconds)) for n, seconds in map(_pair, pairs))


def _pair(pair: Any) -> tuple[Any, Any]:
    if len(pair) != 2:
        raise TypeError(f"expected a pair of a number and a time, got {pair}")
    return pair[0], pair[1]


def _law(given: Mapping[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(float(rate) for rate in given["rates"]), tuple(float(count) for count in given["tested"])
