"""The adapters' own code on doubles of their runtimes; and, where a model is named, the same calls on the real ones.

What all adapters share is tested in test_adapters.py.
"""

import contextlib
import gc
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import llama_double
import numpy as np
import pytest
import torch_double

from specverify.adapters import _extras, llama_cpp, transformers
from specverify.decoder import SpeculativeDecoder

REAL = pytest.param(
    "real",
    # llama_cpp leaves a file open when it is imported.
    marks=[pytest.mark.models, pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")],
)


class Formatter:
    """Of chats: the template's name, its end token, and the messages."""

    def __init__(self, template, eos, bos):
        self.template, self.eos, self.bos = template, eos, bos

    def __call__(self, messages):
        if self.template == "refuses":
            raise LookupError("only users may speak")
        front = self.bos if self.template == "begins" else ""
        return SimpleNamespace(prompt=front + "".join(one["content"] + self.eos for one in messages))


@pytest.fixture
def llama(monkeypatch, tmp_path):
    """Make a model of a double: ``llama(lib, **options)``."""

    def make(lib=None, **options):
        lib = lib or llama_double.Lib()
        modules = {"llama_cpp": lib, "llama_cpp.llama_chat_format": SimpleNamespace(Jinja2ChatFormatter=Formatter)}
        monkeypatch.setattr(llama_cpp, "require", modules.__getitem__)
        path = tmp_path / "double.gguf"
        path.touch()
        return llama_cpp.Model(path, **{"n_ctx": 256, "n_threads": 1, "n_batch": 64, **options})

    return make


@pytest.fixture(params=["double", REAL])
def model(request, llama):
    if request.param == "double":
        return llama()
    return llama_cpp.Model(os.environ["SPECVERIFY_MODEL"], 256, 1, n_batch=64)


def codes(lib, path):
    """What the functions answer, step by step; only what does not depend on the vocabulary."""
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(os.fsencode(path), lib.llama_model_default_params())
    settings = lib.llama_context_default_params()
    settings.n_ctx, settings.n_threads, settings.n_threads_batch = 200, 1, 1
    settings.n_batch = settings.n_ubatch = 64
    settings.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
    context = lib.llama_init_from_model(model, settings)
    memory, vocab, batch = (
        lib.llama_get_memory(context),
        lib.llama_model_get_vocab(model),
        lib.llama_batch_init(64, 0, 1),
    )
    size = lib.llama_vocab_n_tokens(vocab)
    found = [bool(lib.llama_model_has_encoder(model)), bool(lib.llama_model_has_decoder(model))]
    found += [lib.llama_n_ctx(context), lib.LLAMA_FLASH_ATTN_TYPE_DISABLED, lib.LLAMA_TOKEN_ATTR_UNUSED]

    def decode(tokens, start):
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = (
                token,
                start + i,
                1,
                0,
                0,
            )
        batch.n_tokens = len(tokens)
        found.append(("decode", lib.llama_decode(context, batch), lib.llama_memory_seq_pos_max(memory, 0)))

    def remove(begin):
        found.append(("rm", lib.llama_memory_seq_rm(memory, 0, begin, -1), lib.llama_memory_seq_pos_max(memory, 0)))

    decode([], 0)
    decode([4, 5, 6], 0)
    for wrong in ([], [size], [-1], [4, size]):
        decode(wrong, 3)
    for place in (5, 1):  # a gap; a position that is taken
        decode([4], place)
    remove(2)
    remove(9)
    decode([7], 2)
    remove(0)
    for start in range(0, 256, 64):
        decode([4] * 64, start)
    decode([4], 256)
    remove(250)
    decode([4] * 8, 250)  # some would fit
    lib.llama_memory_clear(memory, False)
    decode([4], 0)

    data, eos = b"abc", lib.llama_vocab_eos(vocab)
    tokens = (llama_double._INT * 64)()
    n = lib.llama_tokenize(vocab, data, len(data), tokens, 64, False, False)
    found += [n > 0, lib.llama_tokenize(vocab, data, len(data), tokens, 0, False, False) == -n]
    name = lib.llama_vocab_get_text(vocab, eos)
    found += [lib.llama_tokenize(vocab, name, len(name), tokens, 64, False, True), tokens[0] == eos]
    found.append(lib.llama_tokenize(vocab, name, len(name), tokens, 64, False, False) > 1)
    buffer = llama_double.ctypes.create_string_buffer(64)
    found.append(lib.llama_token_to_piece(vocab, eos, buffer, 64, 0, False))
    found.append(lib.llama_token_to_piece(vocab, eos, buffer, 64, 0, True) == len(name))
    found.append(lib.llama_token_to_piece(vocab, eos, buffer, 2, 0, True) == -len(name))
    found += [bool(lib.llama_vocab_is_eog(vocab, eos)), lib.llama_model_n_ctx_train(model)]
    lib.llama_batch_free(batch)
    lib.llama_free(context)
    lib.llama_model_free(model)
    return found


@pytest.mark.models
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_the_double_answers_as_llama_cpp_does():
    path = Path(os.environ["SPECVERIFY_MODEL"])
    assert codes(_extras.require("llama_cpp"), path) == codes(llama_double.Lib(), path)


def test_a_batch_says_which_rows_are_wanted(model):
    """Filled anew for each pass, whatever a longer one has left behind."""
    text = [4, 5, 6, 7, 8]
    model._feed(text, 5)
    model._tokens += text
    batch = model._batch.filled([9, 10, 11], 5, 2)
    assert batch.n_tokens == 3
    assert (batch.token[:3], batch.pos[:3], batch.logits[:3]) == ([9, 10, 11], [5, 6, 7], [0, 1, 1])
    assert batch.n_seq_id[:3] == [1, 1, 1]
    assert [batch.seq_id[i][0] for i in range(3)] == [0, 0, 0]
    rows = model._feed([9, 10, 11], 2)
    assert rows.shape == (2, model.vocab_size)
    assert np.isfinite(rows).all()
    assert not rows.flags.writeable
    assert model._held() == 8


def test_rows_are_those_of_the_text_however_it_came_about(model):
    text = [4, 5, 6, 7, 8, 9]
    wanted = model.logits(text, 3).copy()
    model.extend([3, 3, 3], 1)
    assert model.truncate(4) == 5
    assert model._held() == 4
    np.testing.assert_array_equal(model.logits(text, 3), wanted)
    assert model._feed([5], 0).shape == (0, model.vocab_size)
    model.reset()
    assert model._held() == 0
    np.testing.assert_array_equal(model.logits(text, 3), wanted)


def test_a_memory_that_is_full_refuses_the_pass_and_keeps_what_it_has(model):
    model.context_length = 1000  # or the adapter would not try
    model.logits([4] * 252)
    with pytest.raises(
        RuntimeError, match=r"a pass over 8 tokens at position 252 failed: there is no room left in its"
    ):
        model.extend([4] * 8, 8)
    assert model.n_cached == model._held() == 252
    model.extend([4] * 4)
    assert model._held() == 256


def test_what_the_runtime_refuses_is_said_with_its_code(model):
    model.logits([4, 5])
    size, model.vocab_size = model.vocab_size, 1 << 30  # or the adapter would not try
    with pytest.raises(RuntimeError, match=r"a pass over 1 tokens at position 2 failed: llama_decode returned -1"):
        model.extend([size])
    assert model.n_cached == model._held() == 2


def test_text_and_tokens(model):
    for text in ("", "né 漢字\n", "a" * 200, "=" * 250):
        assert model.decode(model.encode(text)) == text
    (end,) = {token for token in model.end_tokens if token == model._eos}
    name = model._spelling(end)
    assert model.encode(name, special=True) == [end]
    assert len(model.encode(name)) > 1
    assert (model.decode([end]), model.decode([end], special=True)) == ("", name)
    assert model.vocabulary()[end] == name
    assert len(model.vocabulary()) == model.vocab_size
    chat = model.encode_chat([{"role": "user", "content": "hi"}])
    assert end in chat
    assert "hi" in model.decode(chat)


def test_a_closed_model_says_so_and_is_freed_once(model):
    model.logits([4, 5])
    model.close()
    model.close()
    for use in (
        lambda: model.logits([4]),
        model.reset,
        lambda: model.truncate(1),
        lambda: model.encode("a"),
        lambda: model.decode([4]),
        model.vocabulary,
        lambda: model.encode_chat([]),
    ):
        with pytest.raises(ValueError, match="is closed"):
            use()


def test_greedy_texts_on_the_double(llama):
    plain = SpeculativeDecoder(None, llama().as_target()).generate([4, 5], 20).tokens
    target, draft = llama(), llama()
    found, report = SpeculativeDecoder(draft.as_draft(), target.as_target(), 3).generate([4, 5], 20)
    assert found == plain
    assert report.accepted == report.drafted
    nonsense = lambda prefix, k: ([4] * k, None)  # noqa: E731
    assert SpeculativeDecoder(nonsense, target.as_target(), 3).generate([4, 5], 20).tokens == plain


def test_a_long_piece_takes_a_second_call(llama):
    assert llama()._piece(llama_double.LONG, False) == b"=" * 100


@pytest.mark.parametrize("wrong", [-1, 10**6, 2**32 + 4, 2**40])
def test_what_is_no_id_never_reaches_the_runtime(wrong, model):
    """llama.cpp ends the process over it, or cuts it to 32 bits."""
    for given in ([4, wrong], np.array([4, wrong])):
        with pytest.raises(ValueError, match=rf"tokens\[1\] = {wrong} is outside \[0, {model.vocab_size}\)"):
            model.decode(given)
    with pytest.raises(ValueError, match=rf"tokens\[0\] = {model.vocab_size} is outside"):
        model.decode([model.vocab_size])
    model.decode([model.vocab_size - 1])
    with pytest.raises(TypeError, match=r"tokens\[0\]: expected a token id, got float"):
        model.decode([4.0])


def test_an_unused_entry_has_no_spelling(llama):
    assert llama().vocabulary()[: llama_double.FIRST_BYTE] == [None, "<s>", "</s>"]


@pytest.mark.parametrize(
    ("template", "bos", "expected"),
    [(b"chat", False, []), (b"chat", True, [1]), (b"begins", False, [1]), (b"begins", True, [1])],
)
def test_a_chat_begins_once(template, bos, expected, llama):
    lib = llama_double.Lib(template=template, bos=bos)
    body = [ord("h") + 3, ord("i") + 3, llama_double.EOS]
    assert llama(lib).encode_chat([{"role": "user", "content": "hi"}]) == expected + body
    assert llama(lib).encode("hi") == [1] * bos + body[:2]
    assert llama(lib).encode("hi", begin=False) == body[:2]


def test_a_model_without_a_template_says_so(llama):
    with pytest.raises(ValueError, match=r"expected a model with a chat template, got double\.gguf"):
        llama(llama_double.Lib(template=None)).encode_chat([{"role": "user", "content": "hi"}])


REFUSED = r"^messages: the chat template of .* refuses them: only users may speak$"


def test_a_template_may_refuse_messages_in_any_way(llama):
    with pytest.raises(ValueError, match=REFUSED):
        llama(llama_double.Lib(template=b"refuses")).encode_chat([{"role": "system", "content": "hi"}])


@pytest.mark.parametrize(
    ("asked", "trained", "expected"), [(100, 8192, 100), (4096, 2048, 2048), (4096, 0, 4096), (300, 300, 300)]
)
def test_the_context_is_cut_to_the_length_of_training(asked, trained, expected, llama):
    lib = llama_double.Lib(n_ctx_train=trained)
    assert llama(lib, n_ctx=asked).context_length == lib.settings.n_ctx == expected


@pytest.mark.parametrize("asked", [64, 101, 2**32 + 8])
def test_a_pass_is_no_longer_than_the_context(asked, llama):
    """The runtime cuts the number to 32 bits; a batch of the whole was filled beyond its end."""
    lib = llama_double.Lib(n_ctx_train=100)
    assert llama(lib, n_batch=asked).n_batch == lib.settings.n_batch == min(asked, 100)


def test_settings_reach_the_runtime(llama):
    for flash in (False, True):
        lib = llama_double.Lib()
        model = llama(lib, flash_attn=flash, n_batch=7, n_threads=3)
        settings = lib.settings
        assert settings.flash_attn_type == int(flash)
        assert (settings.n_batch, settings.n_ubatch, settings.n_threads, settings.n_threads_batch) == (7, 7, 3, 3)
        assert settings.swa_full
        model.logits(list(range(3, 30)), 20)  # passes of 7


def test_by_default_a_pass_has_the_cpus_of_this_process(llama, library, monkeypatch, tmp_path):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    lib = llama_double.Lib()
    llama(lib, n_threads=None)
    transformers.Model.from_pretrained(tmp_path)
    assert lib.settings.n_threads == lib.settings.n_threads_batch == library.threads == 3


@pytest.mark.parametrize(
    ("options", "message", "made"),
    [
        ({"loads": False}, "expected a model that llama.cpp can load", []),
        ({"encoder": True}, "expected a decoder-only model", ["model"]),
        ({"fits": False}, "expected a context length that there is memory for, got 256", ["model"]),
    ],
)
def test_what_cannot_be_used_is_refused_and_freed(options, message, made, llama):
    lib = llama_double.Lib(**options)
    with pytest.raises(ValueError, match=message):
        llama(lib)
    gc.collect()
    assert (lib.alive, lib.freed) == ([], made)


@pytest.fixture
def interruptible():
    """As the interpreter starts, whatever the tests were started by."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("during", ["llama_model_load_from_file", "llama_init_from_model"])
def test_an_interrupt_while_loading_is_not_lost(during, llama, monkeypatch, interruptible):
    lib = llama_double.Lib()
    works, goes_on = getattr(lib, during), []

    def interrupted(*arguments):
        ask = getattr(arguments[1], "progress_callback", lambda progress, data: None)
        goes_on.append(ask(0.0, None))
        # As in a callback of ctypes, which prints what is raised and goes on.
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        goes_on.append(ask(0.5, None))
        return works(*arguments)

    monkeypatch.setattr(lib, during, interrupted)
    with pytest.raises(KeyboardInterrupt):
        llama(lib)
    assert goes_on == ([True, False] if during == "llama_model_load_from_file" else [None, None])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    gc.collect()
    assert not lib.alive


@pytest.mark.parametrize("end", ["close", "with", "forget"])
def test_everything_is_freed_once_and_in_order(end, llama):
    lib = llama_double.Lib()
    model = llama(lib)
    if end == "close":
        model.close()
    elif end == "with":
        with model:
            pass
    del model
    gc.collect()
    assert (lib.alive, lib.freed) == ([], ["batch", "context", "model"])


def test_a_recurrent_memory_is_no_ground_to_build_upon(llama):
    model = llama(llama_double.Lib(recurrent=True))
    model.logits([4, 5, 6])
    with pytest.raises(
        RuntimeError, match=r"expected 1 cached tokens after removing 2, got 3: .* cannot be rolled back"
    ):
        model.truncate(1)
    assert model.n_cached == model._held() == 0
    plain = SpeculativeDecoder(None, llama().as_target()).generate([4, 5], 9).tokens
    assert SpeculativeDecoder(None, model.as_target()).generate([4, 5], 9).tokens == plain


def test_impossible_settings_are_refused_before_anything_is_loaded(llama, tmp_path):
    for name in ("n_ctx", "n_batch", "n_threads"):
        with pytest.raises(ValueError, match=f"{name}: expected at least 1, got 0"):
            llama(**{name: 0})
    with pytest.raises(FileNotFoundError, match="which is not a file"):
        llama_cpp.Model(tmp_path)


MESSAGES = [
    ([{"role": "user", "content": "1"}, {"role": "user"}], ValueError, r"messages\[1\]: .*, got no content"),
    ([{"content": "1"}], ValueError, r"messages\[0\]: expected role and content, got no role"),
    (["hi"], TypeError, r"messages\[0\]: expected a mapping with role and content, got str"),
]


@pytest.mark.parametrize(("messages", "error", "said"), MESSAGES)
def test_messages_that_lack_something_are_refused(messages, error, said, llama, library):
    for model in (llama(), transformers.Model(torch_double.TinyModel(), torch_double.Tokenizer())):
        with pytest.raises(error, match=said):
            model.encode_chat(messages)


@pytest.fixture
def library(monkeypatch):
    library = torch_double.Library()
    monkeypatch.setattr(transformers, "require", lambda name: library)
    return library


@pytest.fixture(params=["double", "old", REAL])
def tiny(request):
    """A model of few numbers with an end token, a context of 32 tokens, and passes of at most 8."""
    if request.param == "real":
        torch, library = pytest.importorskip("torch"), pytest.importorskip("transformers")
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
        config = library.LlamaConfig(
            vocab_size=torch_double.VOCAB,
            num_hidden_layers=torch_double.N_LAYERS,
            max_position_embeddings=torch_double.MOST,
            eos_token_id=torch_double.END,
            **sizes,
        )
        return transformers.Model(library.LlamaForCausalLM(config), n_batch=8)
    request.getfixturevalue("library")
    kind = torch_double.TinyModel if request.param == "double" else torch_double.OldModel
    return transformers.Model(kind(), n_batch=8)


def close_to(wanted):
    # Other orders of summation over up to 32 float32 products of about 1, in 2 layers; a wrong token moves more.
    return pytest.approx(wanted, rel=0, abs=1e-4)


def test_rows_of_a_module_are_those_of_the_text(tiny):
    text = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    wanted = tiny.logits(text, 4).copy()
    assert wanted.shape == (4, torch_double.VOCAB)
    assert wanted.dtype == np.float32
    assert np.ptp(wanted, axis=0).min() > 1e-3  # rows that differ, or the comparisons below say nothing
    assert tiny._held() == 10
    tiny.extend([3, 3], 2)
    assert tiny.truncate(6) == 6
    assert tiny._held() == 6
    assert tiny.logits(text, 4) == close_to(wanted)
    assert tiny._feed([5], 0).shape == (0, torch_double.VOCAB)
    tiny.reset()
    assert tiny._held() == 0
    singly = np.concatenate([tiny.extend([token]).copy() for token in text])
    assert singly[-4:] == close_to(wanted)


def test_a_module_knows_its_ends_its_context_and_that_it_is_closed(tiny):
    assert (tiny.context_length, tiny.end_tokens) == (torch_double.MOST, (torch_double.END,))
    for use in (lambda: tiny.encode("1"), lambda: tiny.decode([1]), tiny.vocabulary, lambda: tiny.encode_chat([])):
        with pytest.raises(ValueError, match="tokenizer: expected one"):
            use()
    tiny.logits([4, 5])
    tiny.close()
    tiny.close()
    with pytest.raises(ValueError, match="is closed"):
        tiny.logits([4])


def test_greedy_texts_of_a_module_are_those_of_plain_decoding(tiny):
    plain = SpeculativeDecoder(None, tiny.as_target()).generate([4, 5], 12).tokens
    tiny.reset()
    repeats = lambda prefix, k: ([prefix[-1]] * k, None)  # noqa: E731
    assert SpeculativeDecoder(repeats, tiny.as_target(), 3).generate([4, 5], 12).tokens == plain


def test_what_a_module_refuses_leaves_the_cache(tiny):
    tiny.logits([4, 5])
    tiny.vocab_size = 1 << 30  # or the adapter would not try
    with pytest.raises(IndexError):
        tiny.extend([99])
    assert tiny.n_cached == tiny._held() == 2


@pytest.mark.parametrize("breaks_at", range(torch_double.N_LAYERS))
def test_layers_that_disagree_after_a_failure_are_brought_together(breaks_at, library):
    module = torch_double.TinyModel()
    model = transformers.Model(module)
    wanted = model.logits([4, 5, 6], 2).copy()
    module.breaks_at = breaks_at
    with pytest.raises(MemoryError):
        model.extend([7, 8])
    assert {layer.get_seq_length() for layer in model._cache.layers} == {3}
    module.breaks_at = None
    np.testing.assert_array_equal(model.logits([4, 5, 6], 2), wanted)


def test_no_more_rows_are_computed_than_asked_for(library):
    """A row of a real model is V x width products; 0 rows cannot be asked for, since 0 means all."""
    module = torch_double.TinyModel()
    model = transformers.Model(module, n_batch=4)
    model.logits([4, 5, 6, 7, 8, 9, 10], 2)
    assert module.rows_made == [1, 1, 2]


def test_layers_that_disagree_are_no_length(library):
    model = transformers.Model(torch_double.TinyModel())
    model.logits([4, 5, 6])
    model._cache.layers[0].crop(-1)
    assert model._held() == -1


@pytest.mark.parametrize(("asked", "expected"), [(None, 32), (8, 8), (1000, 32)])
def test_the_context_is_cut_to_the_positions_of_the_model(asked, expected, library, tmp_path):
    assert transformers.Model(torch_double.TinyModel(), n_ctx=asked).context_length == expected
    loaded = transformers.Model.from_pretrained(tmp_path, n_ctx=asked, n_threads=3, gguf_file="a.gguf")
    assert (loaded.context_length, loaded.name, library.threads) == (expected, "a.gguf", 3)
    assert library.asked == {"dtype": "float32", "local_files_only": True, "gguf_file": "a.gguf"}


def test_modules_that_cannot_be_used_are_refused(library, tmp_path):
    with pytest.raises(ValueError, match=r"whose cache can be rolled back, got linear_attention, mamba in TinyModel"):
        transformers.Model(torch_double.TinyModel(["mamba", "full_attention", "linear_attention"]))
    transformers.Model(torch_double.TinyModel(["full_attention", "sliding_attention"]))
    elsewhere = torch_double.TinyModel()
    elsewhere.device = SimpleNamespace(type="cuda")
    with pytest.raises(ValueError, match="expected a model on the CPU"):
        transformers.Model(elsewhere)
    with pytest.raises(FileNotFoundError, match="expected a folder"):
        transformers.Model.from_pretrained(tmp_path / "none")
    for wrong in ({"n_ctx": 0}, {"n_ctx": -5}, {"n_batch": 0}):
        with pytest.raises(ValueError, match=rf"{next(iter(wrong))}: expected at least 1, got"):
            transformers.Model(torch_double.TinyModel(), **wrong)
    with pytest.raises(ValueError, match="n_threads: expected at least 1, got 0"):
        transformers.Model.from_pretrained(tmp_path, n_threads=0)
    unbounded = torch_double.TinyModel()
    del unbounded.config.max_position_embeddings
    with pytest.raises(ValueError, match="n_ctx: expected the most tokens of a text, which TinyModel does not say"):
        transformers.Model(unbounded)
    assert transformers.Model(unbounded, n_ctx=9).context_length == 9


def test_a_model_that_would_forget_is_refused(library):
    """Some take any argument, and no cache; one that takes it may still not use it."""

    class Deaf(torch_double.TinyModel):
        def forward(self, input_ids, **others):
            return super().forward(input_ids, torch_double.DynamicCache())

    with pytest.raises(ValueError, match="expected one that takes a cache of keys and values, got Deaf"):
        transformers.Model(Deaf())

    class Polite(Deaf):
        def forward(self, input_ids, cache=None, **others):
            return super().forward(input_ids)

    model = transformers.Model(Polite())
    with pytest.raises(RuntimeError, match="Polite: expected 2 cached tokens after a pass, got 0"):
        model.logits([3, 4, 5])
    assert model.n_cached == 0


def test_a_tokenizer_is_asked_for_what_is_meant(library):
    model = transformers.Model(torch_double.TinyModel(), torch_double.Tokenizer())
    assert model.encode("45") == [1, 4, 5]
    assert model.encode("45</s>", begin=False) == [4, 5]
    assert model.encode("45</s>", begin=False, special=True) == [4, 5, 2]
    assert (model.decode((1, 4, 5, 2)), model.decode([1, 4, 2], special=True)) == ("45", "142")
    assert model.encode_chat([{"role": "user", "content": "67"}]) == [1, 6, 7, 2]
    for wrong in (-1, torch_double.VOCAB, 2**40):
        with pytest.raises(ValueError, match=rf"tokens\[1\] = {wrong} is outside \[0, 16\)"):
            model.decode([4, wrong])
    assert model.vocabulary() == [*(f"<{token}>" for token in range(12)), None, None, None, None]
    model.tokenizer.chat_template = "refuses"
    with pytest.raises(ValueError, match=REFUSED):
        model.encode_chat([{"role": "system", "content": "67"}])
    model.tokenizer.chat_template = None
    with pytest.raises(ValueError, match="expected a model with a chat template, got TinyModel"):
        model.encode_chat([{"role": "user", "content": "67"}])
