"""Tokens to text while they come: what can be shown now, and what has to wait for the rest of a character."""

from collections.abc import Callable, Sequence

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # what decoders give for bytes that are no character, or not yet one
_LONGEST = 4  # bytes of a character: so many marks at the end are not one that is incomplete


class TextStream:
    """Text that grows token by token, cut only between characters.

    Parameters
    ----------
    decode : callable
        ``decode(tokens) -> str``, as :meth:`CachedModel.decode`: bytes that are no character come out as U+FFFD.
    before : sequence of int
        The last tokens of the text so far, on which the look of the first one may depend.

    Notes
    -----
    A token may hold part of a character, and what a token looks like may depend on the one before (a leading space).
    So each new token is decoded after those that were shown last, and what is new of the text is given out unless it
    ends in the middle of a character.

    Examples
    --------
    >>> from specverify.adapters import TextStream
    >>> stream = TextStream(lambda tokens: bytes(tokens).decode("utf-8", "replace"))
    >>> [stream.add(byte) for byte in "né".encode()], stream.flush()
    (['n', '', 'é'], '')
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], before: Sequence[int] = ()) -> None:
        self._decode = decode
        self._shown = list(before)  # context: the tokens given out last
        self._waiting: list[int] = []

    def add(self, token: int) -> str:
        """Append a token; give the text that can be shown now, "" while a character is incomplete."""
        self._waiting.append(token)
        new = self._new_text()
        if not _marks(new):
            self._shown, self._waiting = self._waiting, []
            return new
        shown = ""
        while _marks(new) >= _LONGEST:
            # Too many for one character: the first token is what it is, the last ones may still become one.
            first, self._waiting = self._waiting[:1], self._waiting[1:]
            shown += self._decode([*self._shown, *first])[len(self._decode(self._shown)) :]
            self._shown = [*self._shown, *first]
            new = self._new_text()
        return shown

    @property
    def waiting(self) -> str:
        """What is held back: the beginning of a character, as U+FFFD; mostly ""."""
        return self._new_text() if self._waiting else ""

    def flush(self) -> str:
        """Give what was held back, at the end of a text."""
        new = self.waiting
        self._shown, self._waiting = [], []
        return new

    def _new_text(self) -> str:
        before = self._decode(self._shown)
        return self._decode([*self._shown, *self._waiting])[len(before) :]


def _marks(text: str) -> int:
    return len(text) - len(text.rstrip(_UNFINISHED))
