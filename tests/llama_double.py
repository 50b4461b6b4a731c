"""A double of llama.cpp, as far as the adapter uses it: it keeps tokens and positions, and refuses what that refuses.

What the real one does was asked of it, and test_runtimes.py asks again where a model is named (marker `models`): the
same calls, the same codes. Where the real one would crash, this one raises AssertionError.
"""

import ctypes
from types import SimpleNamespace

import numpy as np

UNUSED, BOS, EOS, FIRST_BYTE, LONG = 0, 1, 2, 3, 259
NAMES = {UNUSED: b"<unused>", BOS: b"<s>", EOS: b"</s>"}
PIECES = [NAMES.get(token, bytes([max(token - FIRST_BYTE, 0)])) for token in range(LONG)] + [b"=" * 100]
VOCAB = len(PIECES)
_PADDING = 256  # a context is made in multiples of so many tokens
_INT, _INTS = ctypes.c_int32, ctypes.POINTER(ctypes.c_int32)


class Batch(ctypes.Structure):
    _fields_ = (
        ("n_tokens", _INT),
        ("token", _INTS),
        ("embd", ctypes.POINTER(ctypes.c_float)),
        ("pos", _INTS),
        ("n_seq_id", _INTS),
        ("seq_id", ctypes.POINTER(_INTS)),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    )


def row_behind(tokens) -> np.ndarray:
    """Logits that depend on every token and its place."""
    return np.random.default_rng(tokens).normal(size=VOCAB).astype(np.float32)


class Lib:
    """The functions. Options are what a file may be: recurrent, no model at all, too large for a context, ..."""

    LLAMA_FLASH_ATTN_TYPE_DISABLED = 0
    LLAMA_FLASH_ATTN_TYPE_ENABLED = 1
    LLAMA_TOKEN_ATTR_UNUSED = 2

    def __init__(
        self, *, n_ctx_train=8192, recurrent=False, loads=True, fits=True, encoder=False, template=b"chat", bos=False
    ):
        self.n_ctx_train, self.recurrent, self.loads, self.fits = n_ctx_train, recurrent, loads, fits
        self.encoder, self.template, self.bos = encoder, template, bos
        self.alive, self.freed = [], []
        self.settings = None

    def _made(self, kind, **parts):
        one = SimpleNamespace(kind=kind, **parts)
        self.alive.append(one)
        return one

    def _free(self, one):
        assert any(one is other for other in self.alive), f"freed twice: {one}"
        self.alive = [other for other in self.alive if other is not one]
        self.freed.append(one.kind)

    def _living(self, one):
        assert any(one is other for other in self.alive), f"used after it was freed: {one}"
        return one

    # Model and context.

    def llama_backend_init(self):
        pass

    def llama_model_default_params(self):
        return SimpleNamespace()

    def llama_progress_callback(self, function):
        return function

    def llama_model_load_from_file(self, path, parameters):
        assert isinstance(path, bytes)
        return self._made("model") if self.loads else None

    def llama_model_has_encoder(self, model):
        return self.encoder

    def llama_model_has_decoder(self, model):
        return True

    def llama_model_n_ctx_train(self, model):
        return self.n_ctx_train

    def llama_model_get_vocab(self, model):
        return self._living(model)

    def llama_model_chat_template(self, model, name):
        return self.template

    def llama_context_default_params(self):
        return SimpleNamespace(n_ctx=512, n_batch=2048, n_ubatch=512, flash_attn_type=-1, swa_full=True)

    def llama_init_from_model(self, model, settings):
        self.settings = settings
        if not self.fits:
            return None
        n_cells = -(-settings.n_ctx // _PADDING) * _PADDING
        rows = np.full((settings.n_batch, VOCAB), np.nan, np.float32)
        return self._made("context", model=self._living(model), n_cells=n_cells, held=[], rows=rows)

    def llama_n_ctx(self, context):
        return self._living(context).n_cells

    def llama_get_memory(self, context):
        return self._living(context)

    def llama_free(self, context):
        self._living(context.model)  # a context of a model that is gone
        self._free(context)

    def llama_model_free(self, model):
        self._free(model)

    # Passes.

    def llama_batch_init(self, size, embd, n_seq_max):
        ids = [(_INT * n_seq_max)() for _ in range(size)]
        batch = Batch(
            0, (_INT * size)(), None, (_INT * size)(), (_INT * size)(), (_INTS * size)(), (ctypes.c_int8 * size)()
        )
        for i, one in enumerate(ids):
            batch.seq_id[i] = ctypes.cast(one, _INTS)
        batch.made = self._made("batch", ids=ids)
        return batch

    def llama_batch_free(self, batch):
        self._free(batch.made)

    def llama_decode(self, context, batch):
        self._living(batch.made)
        held, n = self._living(context).held, batch.n_tokens
        assert n <= len(context.rows), "more tokens than n_batch: the real one aborts"
        tokens = batch.token[:n]
        wrong_ids = any(batch.n_seq_id[i] != 1 or batch.seq_id[i][0] != 0 for i in range(n))
        if not n or wrong_ids or not all(0 <= token < VOCAB for token in tokens):
            return -1
        if batch.pos[:n] != list(range(len(held), len(held) + n)):
            return -1
        if len(held) + n > context.n_cells:
            return 1
        context.rows[:] = np.nan  # the rows of the pass before are gone
        n_rows = 0
        for token, wanted in zip(tokens, batch.logits[:n], strict=True):
            held.append(token)
            if wanted:
                context.rows[n_rows] = row_behind(held)
                n_rows += 1
        return 0

    def llama_get_logits(self, context):
        return self._living(context).rows.ctypes.data_as(ctypes.POINTER(ctypes.c_float))

    # Memory.

    def llama_memory_seq_rm(self, memory, sequence, begin, end):
        held = self._living(memory).held
        assert (sequence, end) == (0, -1)
        if self.recurrent and 0 < begin < len(held):
            return False
        del held[begin:]
        return True

    def llama_memory_clear(self, memory, data):
        self._living(memory).held.clear()

    def llama_memory_seq_pos_max(self, memory, sequence):
        return len(self._living(memory).held) - 1

    # Text.

    def llama_vocab_n_tokens(self, vocab):
        return VOCAB

    def llama_tokenize(self, vocab, data, n, out, n_most, add_special, parse_special):
        self._living(vocab)
        tokens = [BOS] if add_special and self.bos else []
        at = 0
        while at < n:
            names = {BOS, EOS, LONG} if parse_special else {LONG}
            token = next((token for token in names if data[at:n].startswith(PIECES[token])), data[at] + FIRST_BYTE)
            tokens.append(token)
            at += len(PIECES[token])
        if len(tokens) > n_most:
            return -len(tokens)
        out[: len(tokens)] = tokens
        return len(tokens)

    def llama_token_to_piece(self, vocab, token, buffer, size, lstrip, special):
        self._living(vocab)
        piece = PIECES[token] if special or token not in NAMES else b""
        if len(piece) > size:
            return -len(piece)
        ctypes.memmove(buffer, piece, len(piece))
        return len(piece)

    def llama_vocab_get_text(self, vocab, token):
        return PIECES[token]

    def llama_vocab_get_attr(self, vocab, token):
        return self.LLAMA_TOKEN_ATTR_UNUSED if token == UNUSED else 1

    def llama_vocab_get_add_bos(self, vocab):
        return self.bos

    def llama_vocab_bos(self, vocab):
        return BOS

    def llama_vocab_eos(self, vocab):
        return EOS

    def llama_vocab_is_eog(self, vocab, token):
        return token == EOS
