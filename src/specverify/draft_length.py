"""How many tokens to draft in the next round."""

from typing import Protocol

from .generation import Round


class DraftLength(Protocol):
    """Decides how many tokens to draft, from what happened before."""

    def begin(self) -> None:
        """A text begins."""

    def choose(self, limit: int, /) -> int:
        """Give the number of tokens to draft in the next round, 0 to `limit`."""

    def observe(self, one: Round, requested: int, /) -> None:
        """Learn what came of it."""


class FixedDraftLength:
    """Draft `k` tokens in every round."""

    def __init__(self, k: int) -> None:
        if k < 0:
            raise ValueError(f"k: expected 0 or more, got {k}")
        self.k = k

    def begin(self) -> None:
        """A text begins."""

    def choose(self, limit: int, /) -> int:
        """Give `k`, or the limit."""
        return min(self.k, limit)

    def observe(self, one: Round, requested: int, /) -> None:
        """Learn nothing."""
