"""GGUF models by llama.cpp, through the low-level interface of llama-cpp-python (extra ``llama``).

The high-level ``Llama`` keeps the logits of the whole context, samples by itself, and has flash attention off by
default, without which some quantisations give other logits in a batch than one by one. Here: one ``llama_decode`` for a
pass, rows in place, roll-back of the memory. What is fed when: _cached.py.
"""

import ctypes
import logging
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._cached import CachedModel, check_sizes, rendered
from ._cpus import usable_cpus
from ._extras import require

_SEQUENCE = 0  # the only one in use
_LONGEST = 2**31 - 1  # positions are int32
_MAGIC = b"GGUF"  # what every such file begins with


class Model(CachedModel):
    """A GGUF file on the CPU.

    Parameters
    ----------
    path : str or Path
        The file.
    n_ctx : int
        Most tokens of a text, cut to the length that the file says the model was trained for; memory for them is taken
        at once.
    n_threads : int, optional
        Threads of a pass. Default: the CPUs that this process may use.
    n_batch : int
        Most tokens of a pass, cut to the length of the context.
    flash_attn : bool
        Compute attention in the runtime's fused kernel. It makes rows of a batch of a few tokens equal to those of one
        token at a time in the formats Q8_0, Q4_0 and Q4_1; without it Q4_1 differs enough to change greedy texts.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is no model of text that llama.cpp can load, or the context cannot be made.
    ImportError
        llama-cpp-python is missing.

    Notes
    -----
    What llama.cpp says while loading is left out, unless the logger ``llama-cpp-python`` has a level.

    Examples
    --------
    >>> import specverify
    >>> from specverify.adapters import llama_cpp
    >>> from specverify.drafts import PromptLookup
    >>> with llama_cpp.Model("model.gguf") as model:  # doctest: +SKIP
    ...     decoder = specverify.SpeculativeDecoder(PromptLookup(), model.as_target(), end_tokens=model.end_tokens)
    ...     print(model.decode(decoder.generate(model.encode("The capital of France is")).tokens))
    """

    def __init__(
        self,
        path: str | Path,
        n_ctx: int = 4096,
        n_threads: int | None = None,
        *,
        n_batch: int = 512,
        flash_attn: bool = True,
    ) -> None:
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"path: expected a GGUF file, got {path}, which is not a file")
        check_sizes(n_ctx=n_ctx, n_batch=n_batch, n_threads=n_threads)
        self._lib = lib = require("llama_cpp")
        logger = logging.getLogger("llama-cpp-python")
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.ERROR)
        lib.llama_backend_init()

        handles = _Handles(lib)
        self._close = weakref.finalize(self, handles.free)
        with _interrupt_kept() as interrupted:
            loading = lib.llama_model_default_params()
            loading.progress_callback = lib.llama_progress_callback(lambda progress, data: not interrupted())
            self._model = handles.model = lib.llama_model_load_from_file(os.fsencode(path), loading)
        if not self._model:
            raise ValueError(f"path: expected a model that llama.cpp can load, got {path}, {_what_it_is(path)}")
        if lib.llama_model_has_encoder(self._model) or not lib.llama_model_has_decoder(self._model):
            self.close()
            raise ValueError(f"path: expected a decoder-only model, got {path}")
        n_threads = n_threads or usable_cpus()
        n_ctx = min(n_ctx, lib.llama_model_n_ctx_train(self._model) or _LONGEST)  # 0: the file does not say
        n_batch = min(n_batch, n_ctx)
        settings = lib.llama_context_default_params()
        settings.n_ctx = n_ctx
        settings.n_batch = settings.n_ubatch = n_batch  # one pass is one pass
        settings.n_threads = settings.n_threads_batch = n_threads
        settings.flash_attn_type = (
            lib.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash_attn else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        settings.swa_full = True  # or sliding windows could not be rolled back
        with _interrupt_kept():
            self._context = handles.context = lib.llama_init_from_model(self._model, settings)
        if not self._context:
            self.close()
            raise ValueError(f"n_ctx: expected a context length that there is memory for, got {n_ctx} ({path})")
        self._memory = lib.llama_get_memory(self._context)
        self._vocabulary = lib.llama_model_get_vocab(self._model)
        handles.batch = lib.llama_batch_init(n_batch, 0, 1)
        self._batch = _Batch(handles.batch, n_batch)
        super().__init__(path.name, lib.llama_vocab_n_tokens(self._vocabulary), n_ctx, n_batch)

    # The cache.

    def _feed(self, tokens: list[int], n_rows: int) -> NDArray[np.float32]:
        lib = self._lib
        code = lib.llama_decode(self._live(), self._batch.filled(tokens, self.n_cached, n_rows))
        if code:
            reason = "there is no room left in its memory" if code == 1 else f"llama_decode returned {code}"
            raise RuntimeError(
                f"{self.name}: a pass over {len(tokens)} tokens at position {self.n_cached} failed: {reason}"
            )
        if not n_rows:
            return np.empty((0, self.vocab_size), np.float32)
        rows: NDArray[np.float32] = np.ctypeslib.as_array(
            lib.llama_get_logits(self._context), shape=(n_rows, self.vocab_size)
        )
        rows.flags.writeable = False
        return rows

    def _cut(self, keep: int) -> None:
        # It returns False where it cannot be done; _held() tells as well, and more reliably.
        self._live()
        self._lib.llama_memory_seq_rm(self._memory, _SEQUENCE, keep, -1)

    def _clear(self) -> None:
        self._live()
        self._lib.llama_memory_clear(self._memory, False)

    def _held(self) -> int:
        self._live()
        return int(self._lib.llama_memory_seq_pos_max(self._memory, _SEQUENCE)) + 1

    def _live(self) -> Any:
        if not self._close.alive:
            raise ValueError(f"{self.name} is closed")
        return self._context

    def close(self) -> None:
        """Free the model. Rows that it gave point to nothing from then on; the model cannot be used any more."""
        self._close()

    # Text.

    def encode(self, text: str, *, begin: bool = True, special: bool = False) -> list[int]:
        """Turn text into tokens; see :meth:`CachedModel.encode`."""
        self._live()
        data = text.encode()
        tokens = (ctypes.c_int32 * (len(data) + 2))()  # never more tokens than bytes, one before and one after
        n = self._lib.llama_tokenize(self._vocabulary, data, len(data), tokens, len(tokens), begin, special)
        if n < 0:
            raise RuntimeError(f"{self.name}: a text of {len(data)} bytes could not be tokenized ({n})")
        return list(tokens[:n])

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Turn messages into a prompt by the template in the file; see :meth:`CachedModel.encode_chat`."""
        self._live()
        template = self._lib.llama_model_chat_template(self._model, None)
        if not template:
            raise ValueError(f"messages: expected a model with a chat template, got {self.name}, which has none")
        formatter = require("llama_cpp.llama_chat_format").Jinja2ChatFormatter
        eos, bos = self._spelling(self._eos), self._spelling(self._bos)

        def written(given: list[dict[str, str]]) -> str:
            prompt: str = formatter(template.decode(), eos, bos)(messages=given).prompt
            return prompt

        tokens = self.encode(rendered(written, messages, self.name), begin=False, special=True)
        if self._lib.llama_vocab_get_add_bos(self._vocabulary) and tokens[:1] != [self._bos]:
            tokens.insert(0, self._bos)
        return tokens

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Turn tokens into text; see :meth:`CachedModel.decode`."""
        return b"".join(self._piece(token, special) for token in self._ids(tokens)).decode("utf-8", "replace")

    def vocabulary(self) -> list[str | None]:
        """Give the file's spelling of each token, None for those marked as unused."""
        self._live()
        unused = self._lib.LLAMA_TOKEN_ATTR_UNUSED
        return [
            None if self._lib.llama_vocab_get_attr(self._vocabulary, token) & unused else self._spelling(token)
            for token in range(self.vocab_size)
        ]

    @cached_property
    def end_tokens(self) -> tuple[int, ...]:
        """The tokens that the file marks as ends of a generation."""
        self._live()
        is_end = self._lib.llama_vocab_is_eog
        return tuple(token for token in range(self.vocab_size) if is_end(self._vocabulary, token))

    @property
    def _bos(self) -> int:
        return int(self._lib.llama_vocab_bos(self._vocabulary))

    @property
    def _eos(self) -> int:
        return int(self._lib.llama_vocab_eos(self._vocabulary))

    def _spelling(self, token: int) -> str:
        return self._lib.llama_vocab_get_text(self._vocabulary, token).decode("utf-8", "replace") if token >= 0 else ""

    def _piece(self, token: int, special: bool) -> bytes:
        # `token` has to be an id: any other ends the process by an exception of C++.
        self._live()
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            n = self._lib.llama_token_to_piece(self._vocabulary, token, buffer, size, 0, special)
            if n >= 0:
                return buffer.raw[:n]
            size = -n


def _what_it_is(path: Path) -> str:
    """Say what is known of a file that was refused; llama.cpp gives no reason but in its log."""
    with path.open("rb") as file:
        magic = file.read(len(_MAGIC))
    size = f"{path.stat().st_size:,} bytes"
    if magic != _MAGIC:
        return f"which is no GGUF file ({size}, beginning with {magic!r}, not {_MAGIC!r})"
    return f"a GGUF file of {size}: is it complete, and of an architecture that this version of llama.cpp knows?"


@contextmanager
def _interrupt_kept() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C wait until llama.cpp returns; gives whether one waits that will end the work.

    llama.cpp logs through a function in Python, and a KeyboardInterrupt raised in there is printed and forgotten.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield lambda: False
        return
    received: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield lambda: bool(received) and usual is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, usual)
        if received:
            usual(*received[0])


class _Handles:
    """What llama.cpp has to free, apart from the model object, so that its finaliser can hold it."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self.model: Any = None
        self.context: Any = None
        self.batch: Any = None

    def free(self) -> None:
        if self.batch is not None:
            self._lib.llama_batch_free(self.batch)
        if self.context:
            self._lib.llama_free(self.context)
        if self.model:
            self._lib.llama_model_free(self.model)


class _Batch:
    """The arrays of a llama_batch as NumPy sees them, to be filled without a loop."""

    def __init__(self, batch: Any, size: int) -> None:
        self._batch = batch
        self._tokens, self._positions, self._wanted, n_ids = (
            np.ctypeslib.as_array(pointer, shape=(size,))
            for pointer in (batch.token, batch.pos, batch.logits, batch.n_seq_id)
        )
        n_ids[:] = 1
        for i in range(size):
            batch.seq_id[i][0] = _SEQUENCE

    def filled(self, tokens: list[int], start: int, n_rows: int) -> Any:
        n = len(tokens)
        self._tokens[:n] = tokens
        self._positions[:n] = np.arange(start, start + n)
        self._wanted[: n - n_rows] = 0
        self._wanted[n - n_rows : n] = 1
        self._batch.n_tokens = n
        return self._batch
