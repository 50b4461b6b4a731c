"""Models of transformers, in torch on the CPU (extra ``transformers``).

Holds the differences between its versions: what the cache is called, and which way it is cropped. What is fed when:
_cached.py.
"""

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ._cached import CachedModel, check_sizes, rendered
from ._cpus import usable_cpus
from ._extras import require

# Layers whose keys and values are all kept; a sliding window is then only a mask.
_KEPT_WHOLE = {"full_attention", "sliding_attention", "chunked_attention"}


class Model(CachedModel):
    """A causal language model of transformers.

    Parameters
    ----------
    model : PreTrainedModel
        On the CPU, float32 or bfloat16. Set to evaluation.
    tokenizer : PreTrainedTokenizerBase, optional
        Only text needs it.
    n_ctx : int, optional
        Most tokens of a text, cut to the model's ``max_position_embeddings``, which is the default; needed for a model
        without it.
    n_batch : int
        Most tokens of a pass.
    name : str, optional
        What messages call it.

    Raises
    ------
    ValueError
        The model is not on the CPU, takes no cache, or has layers (recurrent ones) whose memory cannot be cut; `n_ctx`
        or `n_batch` is below 1, or `n_ctx` is needed.
    ImportError
        torch or transformers is missing.

    Notes
    -----
    In float32 the rows of a batch and of one token at a time differ by rounding, some 1e-4 of a logit; bfloat16 differs
    by more, and is slow on CPUs without instructions for it.

    Examples
    --------
    >>> from specverify.adapters import transformers
    >>> model = transformers.Model.from_pretrained("SmolLM2-135M-Instruct")  # doctest: +SKIP
    >>> model.logits(model.encode("The capital of France is")).shape  # doctest: +SKIP
    (1, 49152)
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        n_ctx: int | None = None,
        n_batch: int = 512,
        name: str | None = None,
    ) -> None:
        check_sizes(n_ctx=n_ctx, n_batch=n_batch)
        self._torch = require("torch")
        self._new_cache = require("transformers").DynamicCache
        config = model.config.get_text_config(decoder=True)
        name = name or Path(str(getattr(config, "_name_or_path", "") or type(model).__name__)).name
        if model.device.type != "cpu":
            raise ValueError(f"model: expected a model on the CPU, got {name} on {model.device}")
        others = set(getattr(config, "layer_types", None) or ()) - _KEPT_WHOLE
        if others:
            raise ValueError(
                f"model: expected layers of attention, whose cache can be rolled back, got {', '.join(sorted(others))} "
                f"in {name}"
            )
        longest = getattr(config, "max_position_embeddings", None) or n_ctx
        if longest is None:
            raise ValueError(f"n_ctx: expected the most tokens of a text, which {name} does not say, got None")
        accepted = inspect.signature(model.forward).parameters
        caches = [each for each in ("cache", "past_key_values") if each in accepted]  # renamed in transformers 5
        if not caches:
            raise ValueError(f"model: expected one that takes a cache of keys and values, got {name}, which takes none")
        super().__init__(name, config.vocab_size, min(n_ctx or longest, longest), n_batch)
        self._model: Any = model.eval()
        self.tokenizer = tokenizer
        self._cache_name = caches[0]
        settings = getattr(model, "generation_config", None) or config
        self._ends: int | list[int] | None = settings.eos_token_id
        self._crops_logits = "logits_to_keep" in accepted
        self._cache = self._new_cache()

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        gguf_file: str | None = None,
        n_ctx: int | None = None,
        n_threads: int | None = None,
        dtype: Literal["float32", "bfloat16"] = "float32",
    ) -> Self:
        """Load model and tokenizer from a folder; nothing is downloaded.

        Parameters
        ----------
        path : str or Path
            A folder as ``save_pretrained`` writes it, or one that holds a GGUF file.
        gguf_file : str, optional
            Its name in the folder; its weights are brought back to `dtype`. Needs the package gguf.
        n_ctx : int, optional
            Most tokens of a text, cut as above.
        n_threads : int, optional
            Threads of torch in this process. Default: the CPUs that it may use.
        dtype : {"float32", "bfloat16"}
            What weights and activations are.

        Raises
        ------
        FileNotFoundError
            There is no such folder.
        ValueError
            `n_ctx` or `n_threads` is below 1, or as of the class.
        ImportError
            torch or transformers is missing.
        """
        if not Path(path).is_dir():
            raise FileNotFoundError(f"path: expected a folder, got {path}, which is none")
        check_sizes(n_ctx=n_ctx, n_threads=n_threads)
        torch, library = require("torch"), require("transformers")
        torch.set_num_threads(n_threads or usable_cpus())
        options: dict[str, Any] = {"local_files_only": True}
        if gguf_file is not None:
            options["gguf_file"] = gguf_file
        model = library.AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), **options)
        tokenizer = library.AutoTokenizer.from_pretrained(path, **options)
        return cls(model, tokenizer, n_ctx=n_ctx, name=gguf_file or Path(path).name)

    # The cache.

    def _feed(self, tokens: list[int], n_rows: int) -> NDArray[np.float32]:
        if self._model is None:
            raise ValueError(f"{self.name} is closed")
        options: dict[str, Any] = {self._cache_name: self._cache, "use_cache": True}
        if self._crops_logits:
            options["logits_to_keep"] = max(n_rows, 1)  # 0 means all of them
        with self._torch.no_grad():
            found = self._model(input_ids=self._torch.tensor([tokens]), **options).logits[0]
        held, expected = self._held(), self.n_cached + len(tokens)
        if held != expected:
            raise RuntimeError(
                f"{self.name}: expected {expected} cached tokens after a pass, got {held}: its rows would be wrong"
            )
        rows: NDArray[np.float32] = found[len(found) - n_rows :].float().numpy()
        return rows

    def _cut(self, keep: int) -> None:
        # Layer by layer: after a pass that failed half-way they hold different numbers of tokens. Negative numbers mean
        # tokens to remove in every version; positive ones meant tokens to keep, and are refused since transformers 5.
        for layer in self._cache.layers:
            excess = layer.get_seq_length() - keep
            if excess > 0:
                layer.crop(-excess)

    def _clear(self) -> None:
        self._cache = self._new_cache()

    def _held(self) -> int:
        held = {int(layer.get_seq_length()) for layer in self._cache.layers} or {0}
        return held.pop() if len(held) == 1 else -1  # a pass failed between two layers

    def close(self) -> None:
        """Let go of model and cache; the model cannot be used any more."""
        self._model = None
        self.reset()

    # Text.

    def encode(self, text: str, *, begin: bool = True, special: bool = False) -> list[int]:
        """Turn text into tokens; see :meth:`CachedModel.encode`."""
        tokens: list[int] = self._tokenizer().encode(
            text, add_special_tokens=begin, split_special_tokens=not special, verbose=False
        )
        return tokens

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Turn messages into a prompt by the tokenizer's template; see :meth:`CachedModel.encode_chat`."""
        tokenizer = self._tokenizer()
        if not tokenizer.chat_template:
            raise ValueError(f"messages: expected a model with a chat template, got {self.name}, which has none")
        template = partial(tokenizer.apply_chat_template, add_generation_prompt=True, tokenize=False)
        return self.encode(rendered(template, messages, self.name), begin=False, special=True)

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Turn tokens into text; see :meth:`CachedModel.decode`."""
        text: str = self._tokenizer().decode(
            self._ids(tokens), skip_special_tokens=not special, clean_up_tokenization_spaces=False
        )
        return text

    def vocabulary(self) -> list[str | None]:
        """Give the tokenizer's spelling of each token, None for rows of the model that no token has."""
        tokenizer = self._tokenizer()
        known = min(len(tokenizer), self.vocab_size)
        spellings: list[str | None] = tokenizer.convert_ids_to_tokens(list(range(known)))
        return spellings + [None] * (self.vocab_size - known)

    @cached_property
    def end_tokens(self) -> tuple[int, ...]:
        """The end tokens of the model's settings for generation, and of its tokenizer."""
        ends = self._ends if isinstance(self._ends, list | tuple) else [self._ends]
        found = [*ends, getattr(self.tokenizer, "eos_token_id", None)]
        return tuple(sorted({token for token in found if token is not None}))

    def _tokenizer(self) -> Any:
        if self.tokenizer is None:
            raise ValueError(f"tokenizer: expected one to turn text into tokens and back, got None for {self.name}")
        return self.tokenizer
