"""A double of torch and transformers, as far as the adapter uses them: a cache of layers, and a model that fills it.

test_runtimes.py asks the same of a small real model where it may (marker `models`).
"""

import contextlib
from types import SimpleNamespace

import numpy as np

VOCAB, END, MOST = 16, 2, 32
N_LAYERS = 2


class Tensor(np.ndarray):
    """As much of a tensor as rows need."""

    def float(self):
        return self

    def numpy(self):
        return np.asarray(self)


class Layer:
    def __init__(self):
        self.tokens = []

    def get_seq_length(self):
        return len(self.tokens)

    def crop(self, excess):
        if excess > 0:
            raise ValueError("Calling `crop` with a positive value is not supported")
        if excess:
            del self.tokens[excess:]


class DynamicCache:
    """Has no layers before the first pass."""

    def __init__(self):
        self.layers = []


class TinyModel:
    """Row i depends on all tokens up to it. `breaks_at` makes a pass break off before a layer."""

    def __init__(self, layer_types=None):
        self.config = SimpleNamespace(vocab_size=VOCAB, max_position_embeddings=MOST, eos_token_id=END)
        self.config.get_text_config = lambda decoder: self.config
        if layer_types:
            self.config.layer_types = layer_types
        self.device = SimpleNamespace(type="cpu")
        self.breaks_at = None
        self.rows_made = []

    def eval(self):
        return self

    def forward(self, input_ids, cache=None, use_cache=None, logits_to_keep=0):
        (tokens,) = input_ids.tolist()
        if max(tokens) >= VOCAB:
            raise IndexError("index out of range in self")
        cache.layers += [Layer() for _ in range(N_LAYERS - len(cache.layers))]
        for i, layer in enumerate(cache.layers):
            if i == self.breaks_at:
                raise MemoryError("the pass broke off between two layers")
            layer.tokens += tokens
        held = cache.layers[-1].tokens
        rows = [
            np.random.default_rng(held[:end]).normal(size=VOCAB) for end in range(len(held) - len(tokens), len(held))
        ]
        logits = np.array([rows[-logits_to_keep:]], np.float32).view(Tensor)  # 0 keeps all of them
        self.rows_made.append(logits.shape[1])
        return SimpleNamespace(logits=logits)

    def __call__(self, **options):
        return self.forward(**options)


class OldModel(TinyModel):
    """Of a version that calls the cache otherwise, and gives all rows."""

    def forward(self, input_ids, past_key_values=None, use_cache=None):
        return TinyModel.forward(self, input_ids, past_key_values, use_cache)


class Tokenizer:
    """Digits are tokens; ``<s>`` is token 1, put in front unless told otherwise; ``</s>`` is token 2."""

    eos_token_id = END

    def __init__(self, chat_template="a template"):
        self.chat_template = chat_template

    def __len__(self):
        return 12

    def encode(self, text, add_special_tokens, split_special_tokens, verbose):
        tokens = [1] if add_special_tokens else []
        if not split_special_tokens:
            text = text.replace("<s>", "1").replace("</s>", "2")
        return tokens + [int(character) for character in text if character.isdigit()]

    def decode(self, tokens, skip_special_tokens, clean_up_tokenization_spaces):
        assert isinstance(tokens, list)
        return "".join(str(token) for token in tokens if token > END or not skip_special_tokens)

    def convert_ids_to_tokens(self, tokens):
        return [f"<{token}>" for token in tokens]

    def apply_chat_template(self, messages, add_generation_prompt, tokenize):
        assert add_generation_prompt
        assert not tokenize
        if self.chat_template == "refuses":
            raise LookupError("only users may speak")
        return "<s>" + "".join(message["content"] + "</s>" for message in messages)


class Library:
    """What stands for both modules, and what was asked of it."""

    def __init__(self):
        self.asked = {}
        self.threads = None
        self.float32 = "float32"
        self.DynamicCache = DynamicCache
        self.no_grad = contextlib.nullcontext
        self.tensor = np.array
        self.AutoModelForCausalLM = SimpleNamespace(from_pretrained=self._model)
        self.AutoTokenizer = SimpleNamespace(from_pretrained=lambda path, **options: Tokenizer())

    def set_num_threads(self, n):
        self.threads = n

    def _model(self, path, **options):
        self.asked = options
        return TinyModel()
