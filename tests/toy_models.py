"""Models whose runtime is a list of tokens. Doubles of real runtimes: llama_double.py and torch_double.py."""

import numpy as np

from specverify.adapters import CachedModel

VOCAB, END = 8, 7

PROMPT = "Say: "
TEXT = "né 漢字, né 漢字\n\tdone\x1b[2J."
TEXT_END = 0
SCRIPT = [*(PROMPT + TEXT).encode(), TEXT_END]


class Toy(CachedModel):
    """The memory that both share; one that `refuses` cannot be cut."""

    end = END

    def __init__(self, name, vocab_size, context_length, n_batch, refuses):
        super().__init__(name, vocab_size, context_length, n_batch)
        self.memory: list[int] = []
        self.refuses = refuses
        self.closed = False

    def _cut(self, keep):
        if not self.refuses:
            del self.memory[keep:]

    def _clear(self):
        self.memory.clear()

    def _held(self):
        return len(self.memory)

    def vocabulary(self):
        return [f"{self.vocab_size}:{token}" for token in range(self.vocab_size)]

    @property
    def end_tokens(self):
        return (self.end,)

    def close(self):
        self.closed = True
        self.reset()


def row_behind(tokens) -> np.ndarray:
    """Logits that depend on every token and its place; the most probable one is mostly last + 1."""
    weights = np.arange(1, len(tokens) + 1)
    noise = np.random.default_rng([*tokens, int(weights @ np.array(tokens))]).normal(size=VOCAB)
    row = noise.astype(np.float32)
    row[(tokens[-1] + 1) % VOCAB] += 2
    return row


class Recorded(Toy):
    """Computes a row from the tokens that it holds. `fails_after` makes a pass break off within."""

    def __init__(self, name="recorded", vocab_size=VOCAB, context_length=64, n_batch=16, refuses=False, spellings=None):
        super().__init__(name, vocab_size, context_length, n_batch, refuses)
        self.passes: list[list[int]] = []
        self.rows = np.full((n_batch, vocab_size), np.nan, np.float32)  # one buffer, overwritten by each pass
        self.fails_after: int | None = None
        self.spellings = spellings

    def _feed(self, tokens, n_rows):
        assert len(tokens) <= self.n_batch
        self.passes.append(list(tokens))
        self.rows[:] = np.nan
        for i, token in enumerate(tokens):
            if self.fails_after == i:
                raise MemoryError("the pass broke off")
            self.memory.append(token)
            self.rows[i] = row_behind(self.memory)
        return self.rows[len(tokens) - n_rows : len(tokens)]

    def encode(self, text, *, begin=True, special=False):
        return [int(character) for character in text]

    def encode_chat(self, messages):
        raise ValueError("no template")

    def decode(self, tokens, *, special=False):
        return "".join(map(str, tokens))

    def vocabulary(self):
        return self.spellings or [str(token) for token in range(self.vocab_size)]


class Bytes(Toy):
    """Says a text, byte for byte, whatever it is told; from the beginning of the prompt on.

    `wrong` names places of the text at which it says something else. `flips` does so only where a pass gives several
    rows: the effect of a batch on a runtime's rounding.
    """

    end = TEXT_END

    def __init__(self, name="target", *, n_ctx=256, wrong=(), flips=(), vocab_size=256, refuses=False):
        super().__init__(name, vocab_size, n_ctx, 32, refuses)
        self.begun = 0
        self._wrong = [len(PROMPT.encode()) + place for place in wrong]
        self._flips = [len(PROMPT.encode()) + place for place in flips]

    def _feed(self, tokens, n_rows):
        self.begun += not self.memory
        self.memory += tokens
        held = len(self.memory)
        rows = np.zeros((n_rows, self.vocab_size), np.float32)
        for row, place in zip(rows, range(held - n_rows + 1, held + 1), strict=True):
            row[SCRIPT[place] if place < len(SCRIPT) else TEXT_END] = 20
            if place in self._wrong or (place in self._flips and n_rows > 1):
                row[ord("?")] = 21
        return rows

    def encode(self, text, *, begin=True, special=False):
        return list(text.encode())

    def encode_chat(self, messages):
        assert [message["role"] for message in messages] == ["user"]
        return list(messages[0]["content"].encode())

    def decode(self, tokens, *, special=False):
        return bytes(token for token in tokens if token != TEXT_END).decode("utf-8", "replace")
