"""Texts that end a generation, however tokens spell them. Sequences of tokens that do: specverify/stopping.py."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from ..generation import Round
from ._stream import TextStream


def until_text(
    rounds: Iterable[Round],
    decode: Callable[[Sequence[int]], str],
    texts: Sequence[str],
    before: Sequence[int] = (),
) -> Iterator[Round]:
    """Give rounds until the new text contains one of some texts, and end it with the token that completes that.

    Parameters
    ----------
    rounds : iterable of Round
        Those of one text, as :meth:`specverify.SpeculativeDecoder.rounds` gives them.
    decode : callable
        ``decode(tokens) -> str``, as :meth:`CachedModel.decode`.
    texts : sequence of str
        Each ends the text, and stays in it. A part of one in the prompt does not count.
    before : sequence of int
        The last tokens of the prompt, on which the look of the first new one may depend.

    Yields
    ------
    Round
        As they come; the last one cut, and its reason "stop", unless the very token is an end token by itself.

    Raises
    ------
    ValueError
        A text is empty.

    Notes
    -----
    A draft may have run past the end; the caches then hold more than the text, and are to be emptied or rolled back
    before the next one, which a decoder does when a text begins.

    Examples
    --------
    >>> from specverify.adapters import until_text
    >>> from specverify.generation import Round
    >>> rounds = [Round(tuple(b"on"), 2, 1, 0.0, 0.0, 0.0, None), Round(tuple(b"e. Two"), 5, 5, 0.0, 0.0, 0.0, None)]
    >>> found = list(until_text(rounds, lambda tokens: bytes(tokens).decode(), ["e. "]))
    >>> [bytes(one.tokens) for one in found], found[-1].finish_reason
    ([b'on', b'e. '], 'stop')
    """
    if not all(texts):
        raise ValueError("texts: expected texts that are not empty, got an empty one")
    completes = _Search(decode, texts, before).completes
    return _until(rounds, completes) if texts else iter(rounds)


def _until(rounds: Iterable[Round], completes: Callable[[int], bool]) -> Iterator[Round]:
    for one in rounds:
        n = next((n for n, token in enumerate(one.tokens, 1) if completes(token)), None)
        if n is None:
            yield one
        else:
            ends_anyway = n == len(one.tokens) and one.finish_reason == "end"
            yield one if ends_anyway else one._replace(tokens=one.tokens[:n], finish_reason="stop")
            return


class _Search:
    """The end of a growing text: as much as may become one of the texts."""

    def __init__(self, decode: Callable[[Sequence[int]], str], texts: Sequence[str], before: Sequence[int]) -> None:
        self._stream = TextStream(decode, before)
        self._texts = texts
        self._kept = max(map(len, texts), default=1) - 1
        self._recent = ""

    def completes(self, token: int) -> bool:
        recent = self._recent + self._stream.add(token)
        self._recent = recent[max(0, len(recent) - self._kept) :]
        # With what is held back: a token may end one of the texts and begin a character.
        recent += self._stream.waiting
        return any(text in recent for text in self._texts)
