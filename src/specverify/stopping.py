"""Where a text ends inside a block of tokens: end tokens, stop sequences, the limit. Holds no loop, no model."""

from collections.abc import Iterable, Sequence
from numbers import Integral

from . import _inputs
from .generation import FinishReason


class Ending:
    """What ends a text, and where it cuts a block that crosses it.

    Parameters
    ----------
    end_tokens : iterable of int, int or None
        Each ends the text by itself and is its last token.
    stop : iterable of sequences of int
        Each ends the text as soon as the new tokens end with it; it stays in the text. The prompt has no part in it.

    Raises
    ------
    TypeError
        Something is no token id.
    ValueError
        A stop sequence is empty.
    """

    def __init__(self, end_tokens: Iterable[int] | int | None = (), stop: Iterable[Sequence[int]] | None = ()) -> None:
        self.end_tokens = frozenset(_inputs.as_ids(end_tokens, "end_tokens"))
        self._by_last: dict[int, list[list[int]]] = {}
        if isinstance(stop, str):
            raise TypeError("stop: expected sequences of token ids, got str")
        for number, sequence in enumerate(() if stop is None else stop):
            if isinstance(sequence, Integral):
                raise TypeError(f"stop[{number}]: expected a sequence of token ids, got the number {sequence}")
            tokens = _inputs.as_ids(sequence, f"stop[{number}]")
            if not tokens:
                raise ValueError(f"stop[{number}]: expected at least one token, got none")
            self._by_last.setdefault(tokens[-1], []).append(tokens)

    def cut(self, text: Sequence[int], start: int, block: Sequence[int], limit: int) -> tuple[int, FinishReason | None]:
        """Find where a block ends the text, as a loop that adds one token at a time would.

        Parameters
        ----------
        text : sequence of int
            The tokens before the block.
        start : int
            Where the new ones among them begin.
        block : sequence of int
            The tokens to add.
        limit : int
            How many may be added, at least 1.

        Returns
        -------
        n : int
            How many of the block's tokens belong to the text.
        reason : {"end", "stop", "length"} or None
            Why it ends after them. A token that both ends the text and reaches the limit ends it for its own sake.

        Examples
        --------
        >>> Ending(end_tokens=[99]).cut([1], 1, [7, 99, 3, 4, 8], limit=4)
        (2, 'end')
        >>> Ending(stop=[[7, 99]]).cut([1], 1, [7, 99, 3, 4, 8], limit=1)
        (1, 'length')
        """
        for n, token in enumerate(block, 1):
            if token in self.end_tokens:
                return n, "end"
            if token in self._by_last and self._stops(text, start, block[:n]):
                return n, "stop"
            if n == limit:
                return n, "length"
        return len(block), None

    def ended(self, text: Sequence[int], start: int, since: int) -> bool:
        """Tell whether a text, whose new tokens begin at `start`, has ended at place `since` or later, limits aside."""
        return any(
            text[i] in self.end_tokens or (text[i] in self._by_last and self._stops(text[:i], start, [text[i]]))
            for i in range(since, len(text))
        )

    def _stops(self, text: Sequence[int], start: int, added: Sequence[int]) -> bool:
        for sequence in self._by_last[added[-1]]:
            missing = max(0, len(sequence) - len(added))  # tokens of the sequence that stand before the block
            if len(text) - missing >= start:
                tail = [*text[len(text) - missing :], *added]
                if tail[-len(sequence) :] == sequence:
                    return True
        return False
