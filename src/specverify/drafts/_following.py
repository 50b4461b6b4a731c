"""How a draft follows a text that grows: only what is new is looked at.

Holds the reading of new tokens, the test whether a text goes on from what is known of it, and the messages about both.
Holds nothing of what is made of the tokens.
"""

import operator
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

_END_OF_IDS = 2**63


class _Known(Protocol):
    """The tokens that were taken in already."""

    def __len__(self) -> int: ...
    def __getitem__(self, i: int, /) -> int: ...


def continues(text: Sequence[int], known: _Known) -> bool:
    """Tell whether a text begins with the known one, by its length and some of its tokens.

    Compared are the first of the known tokens, and those 1, 2, 4, 8, ... from their end: a text that was replaced or
    went on otherwise shows there, and looking costs no more as it grows.
    """
    n = len(known)
    if len(text) < n:
        return False
    back = 1
    while back < n:
        if text[n - back] != known[n - back]:
            return False
        back *= 2
    return n == 0 or text[0] == known[0]


def tokens_of(text: Sequence[int], start: int, stop: int) -> list[int]:
    """Give some tokens of a list, tuple, array or other sequence that can be sliced as a list of its own."""
    part: Any = text[start:stop]
    if type(part) is list:
        return part
    return part.tolist() if hasattr(part, "tolist") else list(part)


def as_ids(tokens: Sequence[int], name: str, start: int = 0) -> list[int]:
    """Give token ids as Python ints; `start` is the place of the first one in the argument `name`."""
    try:
        ids = [operator.index(token) for token in tokens]
    except TypeError:
        fail(tokens, name, start)
    if ids and not (min(ids) >= 0 and max(ids) < _END_OF_IDS):
        fail(tokens, name, start)
    return ids


def fail(tokens: Sequence[Any], name: str, start: int) -> NoReturn:
    """Say which of these tokens is none."""
    for i, token in enumerate(tokens, start):
        try:
            value = operator.index(token)
        except TypeError:
            raise TypeError(f"{name}[{i}]: expected an integer, got {type(token).__name__}") from None
        if not 0 <= value < _END_OF_IDS:
            raise ValueError(f"{name}[{i}] = {value} is outside [0, 2**63)")
    raise TypeError(f"{name}: expected integers")


def check_k(k: int) -> None:
    """Refuse a number of tokens that is none."""
    if k < 0:
        raise ValueError(f"k: expected 0 or more, got {k}")
