"""Two small language models counted from text that every Python machine has.

Holds byte-level n-gram models, the text they are counted from, and the pair the demo uses: a target and a weaker,
faster draft. They are the cheapest real models there are: their rows depend on the text so far, as a large model's do,
and the same text gives the same rows. Holds no random numbers and nothing of verification; the loop is in demo.py.
"""

import sysconfig
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

VOCAB_SIZE = 256

# A window and the byte after it share one uint64, and the code past the last one must fit as well.
MAX_ORDER = 7

# Modules of Python's standard library that are prose and plain code, are in every supported version and in Debian's
# python3 package. Together about 1.3 MB; a file that a version lacks is passed over.
_STDLIB_FILES = (
    "argparse.py", "bdb.py", "bisect.py", "calendar.py", "cmd.py", "collections/__init__.py", "configparser.py",
    "contextlib.py", "copy.py", "csv.py", "dataclasses.py", "difflib.py", "doctest.py", "enum.py", "fractions.py",
    "functools.py", "gettext.py", "heapq.py", "inspect.py", "ipaddress.py", "json/decoder.py", "json/encoder.py",
    "logging/__init__.py", "mailbox.py", "optparse.py", "pickle.py", "platform.py", "pprint.py", "random.py",
    "shutil.py", "statistics.py", "string.py", "subprocess.py", "tarfile.py", "tempfile.py", "textwrap.py",
    "threading.py", "timeit.py", "traceback.py", "typing.py", "unittest/case.py", "unittest/mock.py",
)  # fmt: skip

# One megabyte is counted in a fraction of a second on a Raspberry Pi and gives readable text at order 7.
_TEXT_BYTES = 1_000_000
_TARGET_ORDER = 7
_DRAFT_ORDER = 5
_DRAFT_SHARE = 2  # the draft has read one byte in so many of what the target has read


class NGram:
    """A byte-level n-gram model, interpolated over all shorter contexts (Witten-Bell).

    Parameters
    ----------
    text : bytes
        What is counted: every window of `order` bytes, and the beginnings of the same windows for shorter contexts.
    order : int
        Between 1 and 7: the context is the last ``order - 1`` bytes.

    Raises
    ------
    ValueError
        `order` is outside ``[1, 7]``, or `text` is shorter than `order`.

    Notes
    -----
    A context seen n times with t different bytes after it gives byte x the probability
    ``(count(x) + t * shorter(x)) / (n + t)``, where ``shorter`` is the row of the context without its first byte, and
    the row of no context at all is uniform. So no probability is 0. Counting is one sort of ``len(text)`` numbers.

    References
    ----------
    Witten, Bell: The zero-frequency problem, IEEE Transactions on Information Theory 37 (1991), method C.

    Examples
    --------
    Behind "a" stood "b" twice and "c" once: n = 3 and t = 2, so a shorter context has a weight of 2 / 5.

    >>> row = NGram(b"abacab", order=2).next_dist(b"a")
    >>> bool(row[ord("b")] > row[ord("c")] > row[ord("d")] > 0)
    True
    """

    def __init__(self, text: bytes, order: int) -> None:
        if not 1 <= order <= MAX_ORDER:
            raise ValueError(f"order: expected 1 to {MAX_ORDER}, got {order}")
        if len(text) < order:
            raise ValueError(f"text: expected at least order = {order} bytes, got {len(text)}")
        self.order = order
        self.n_bytes = len(text)
        symbols = np.frombuffer(text, np.uint8)
        n_windows = len(symbols) - order + 1
        windows = np.zeros(n_windows, np.uint64)
        for i in range(order):
            windows = windows << np.uint64(8) | symbols[i : i + n_windows]
        windows.sort()
        # Beginnings of sorted windows are sorted: one sort serves every order.
        self._tables = [_Table(windows >> np.uint64(8 * (order - n))) for n in range(1, order + 1)]

    def next_dist(self, prefix: Sequence[int]) -> NDArray[np.float32]:
        """Predict the byte that follows `prefix`: a float32 row of 256 probabilities."""
        row = np.full(VOCAB_SIZE, 1.0 / VOCAB_SIZE)
        code = 0
        for n, table in enumerate(self._tables):
            if n > len(prefix):
                break
            if n:
                code |= prefix[-n] << 8 * (n - 1)
            symbols, counts = table.behind(code)
            if not len(counts):
                break  # a longer context has not been seen either
            total = counts.sum() + len(counts)
            row *= len(counts) / total
            row[symbols] += counts / total
        return row.astype(np.float32)


class Unrepeating:
    """A byte-level model that avoids repeating itself: the repetition penalty of inference engines.

    Without it the greedy text of an n-gram model runs into a loop within a few lines. And with it a row depends on the
    whole text so far, as a large model's does.

    Parameters
    ----------
    model : NGram
        Where the rows come from. Each time the last 8 bytes have occurred in the prefix before, the byte that followed
        them there loses nine tenths of its probability; then the row is normalised again.
    """

    _WINDOW = 8  # with the byte after it longer than what the longest model sees
    _PENALTY = np.float32(0.1)

    def __init__(self, model: NGram) -> None:
        self.model = model

    def next_dist(self, prefix: Sequence[int]) -> NDArray[np.float32]:
        """Predict the byte that follows `prefix`: a float32 row of 256 probabilities."""
        row = self.model.next_dist(prefix)
        text = bytes(prefix)
        recent = text[-self._WINDOW :]
        place = text.find(recent)
        while 0 <= place < len(text) - len(recent):
            row[text[place + len(recent)]] *= self._PENALTY
            place = text.find(recent, place + 1)
        row /= row.sum()
        return row


class _Table:
    """Counts of all windows of one length, in the order of their codes: a context and the byte after it."""

    def __init__(self, sorted_codes: NDArray[np.uint64]) -> None:
        first = np.flatnonzero(np.concatenate(([True], sorted_codes[1:] != sorted_codes[:-1])))
        self._codes = sorted_codes[first]
        self._symbols = (self._codes & np.uint64(VOCAB_SIZE - 1)).astype(np.intp)
        self._counts = np.diff(first, append=len(sorted_codes))

    def behind(self, context: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Give the bytes seen after a context, and how often each."""
        ends = np.array((context << 8, (context + 1) << 8), np.uint64)
        start, stop = self._codes.searchsorted(ends)
        return self._symbols[start:stop], self._counts[start:stop]


def local_text(n_bytes: int = _TEXT_BYTES) -> bytes:
    """Read up to so many bytes of this package's own sources, then of Python's standard library, in a fixed order."""
    package = sorted(Path(__file__).parent.glob("*.py"))
    stdlib = Path(sysconfig.get_path("stdlib"))
    text = bytearray()
    for path in (*package, *(stdlib / name for name in _STDLIB_FILES)):
        if len(text) >= n_bytes:
            break
        if path.is_file():
            text += path.read_bytes()
    return bytes(text[:n_bytes])


def target_and_draft() -> tuple[Unrepeating, Unrepeating]:
    """Count the demo's pair of models: the target, and a draft of lower order that has read less of the same text."""
    text = local_text()
    target = NGram(text, _TARGET_ORDER)
    draft = NGram(text[: len(text) // _DRAFT_SHARE], _DRAFT_ORDER)
    return Unrepeating(target), Unrepeating(draft)
