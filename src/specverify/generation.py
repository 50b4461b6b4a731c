"""What the draft/verify loop gives back: the rounds, and the figures of a text. Holds no loop (decoder.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

FinishReason = Literal["end", "stop", "length"]


class Round(NamedTuple):
    """One round of the loop: a draft, a target pass, a verdict.

    Attributes
    ----------
    tokens : tuple of int
        The tokens added to the text: accepted ones, then the residual or bonus token. Cut where the text ended.
    n_drafted, n_accepted : int
        Drafted tokens, and how many of them verification accepted, whether or not the text was cut before them.
    draft_seconds, target_seconds, verify_seconds : float
        Durations of the three parts.
    finish_reason : {"end", "stop", "length"} or None
        Why the text ends with this round, if it does.
    """

    tokens: tuple[int, ...]
    n_drafted: int
    n_accepted: int
    draft_seconds: float
    target_seconds: float
    verify_seconds: float
    finish_reason: FinishReason | None


@dataclass(frozen=True, slots=True)
class Report:
    """Figures of a text. Rates are None where there was nothing to count.

    Attributes
    ----------
    tokens : int
        Tokens added to the prompt.
    drafted, accepted : tuple of int
        Drafted and accepted tokens of each round.
    finish_reason : {"end", "stop", "length"}
        An end token, a stop sequence or stop text, or the limit on new tokens: the first of them that a loop of one
        token at a time would have met, an end token before a stop sequence before the limit.
    seconds, draft_seconds, target_seconds, verify_seconds : float
        Duration of the whole, and of its parts.
    """

    tokens: int
    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    finish_reason: FinishReason
    seconds: float
    draft_seconds: float
    target_seconds: float
    verify_seconds: float

    @property
    def rounds(self) -> int:
        """Target passes."""
        return len(self.accepted)

    @property
    def histogram(self) -> tuple[int, ...]:
        """Rounds that accepted 0, 1, ..., K tokens, K the longest draft."""
        counts = [0] * (max(self.drafted, default=0) + 1)
        for n_accepted in self.accepted:
            counts[n_accepted] += 1
        return tuple(counts)

    @property
    def tested_acceptance(self) -> float | None:
        """Accepted / (accepted + first rejections): a consistent estimate of the acceptance rate."""
        accepted = sum(self.accepted)
        rejections = sum(n < drafted for n, drafted in zip(self.accepted, self.drafted, strict=True))
        return accepted / (accepted + rejections) if accepted + rejections else None

    @property
    def draft_utilisation(self) -> float | None:
        """Accepted / drafted, which several engines call their acceptance rate."""
        drafted = sum(self.drafted)
        return sum(self.accepted) / drafted if drafted else None

    @property
    def tokens_per_target_pass(self) -> float | None:
        """Mean number of tokens that a round added to the text, the residual or bonus token included."""
        return self.tokens / self.rounds if self.rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens over the duration of the whole."""
        return self.tokens / self.seconds if self.seconds and self.tokens else None

    @property
    def shares(self) -> tuple[float, float, float] | None:
        """Of the duration of the whole: what draft, target and verification took."""
        if not self.seconds:
            return None
        return (
            self.draft_seconds / self.seconds,
            self.target_seconds / self.seconds,
            self.verify_seconds / self.seconds,
        )


class Generation(NamedTuple):
    """A generated text.

    Attributes
    ----------
    tokens : list of int
        The new tokens, without the prompt; an end token or stop sequence that ended them is among them.
    report : Report
        Its figures.
    """

    tokens: list[int]
    report: Report


def report_of(rounds: Sequence[Round], seconds: float, finish_reason: FinishReason = "length") -> Report:
    """Sum up the rounds of a text; `finish_reason` is that of a text without a round."""
    return Report(
        tokens=sum(len(one.tokens) for one in rounds),
        drafted=tuple(one.n_drafted for one in rounds),
        accepted=tuple(one.n_accepted for one in rounds),
        finish_reason=(rounds[-1].finish_reason if rounds else None) or finish_reason,
        seconds=seconds,
        draft_seconds=sum(one.draft_seconds for one in rounds),
        target_seconds=sum(one.target_seconds for one in rounds),
        verify_seconds=sum(one.verify_seconds for one in rounds),
    )
