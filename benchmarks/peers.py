"""Other ways to do the same, each where it is installed, on one thread.

The textbook rule in torch, from probabilities and behind the processors of its samplers; numba and JAX as one writes
them; transformers' own function; vLLM's C++ kernels. Those that draw their own random numbers are checked on rounds
that end the same way whatever these are. None is changed; what they take is prepared before any time is taken.
"""

import importlib
import importlib.metadata
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from specverify import Sampling, _numpy_verify, verify_sampled
from specverify.measure import Contender, Round

try:
    import torch
except ImportError:
    torch = None


def contenders(case, rounds):
    """Give the peers of a sampled case; their inputs are tensors before any time is taken."""
    if torch is None or case.operation != "sampled":
        return {}
    torch.set_num_threads(1)
    inputs = [(*(torch.from_numpy(array) for array in one), case.normalized) for one in rounds]
    return {
        "torch": Contender(verify_torch, inputs),
        "torch_multinomial": Contender(verify_torch_multinomial, inputs, checked=1),
    }


def verify_torch(target, draft, tokens, uniforms, normalized):
    n, weights = _accept(target, draft, tokens, uniforms, normalized)
    cumulative = weights.cumsum(0, dtype=torch.float64)
    return n, int(torch.searchsorted(cumulative, uniforms[-1] * cumulative[-1], right=True))


def verify_torch_multinomial(target, draft, tokens, uniforms, normalized):
    n, weights = _accept(target, draft, tokens, uniforms, normalized)
    return n, int(torch.multinomial(weights, 1))


def _accept(target, draft, tokens, uniforms, normalized):
    k = len(tokens)
    positions = torch.arange(k)
    in_target = target[positions, tokens].double()
    in_draft = draft[positions, tokens].double()
    if not normalized:
        scale = target[:k].sum(1, dtype=torch.float64) / draft.sum(1, dtype=torch.float64)
        in_draft *= scale
    accepted = uniforms[:k] * in_draft < in_target
    n = int(accepted.long().cumprod(0).sum())
    if n == k:
        return n, target[k]
    return n, torch.clamp(target[n] - (draft[n] if normalized else draft[n] * scale[n]), min=0)


def logit_contenders(rounds: list[Round], sampling: Sampling) -> dict[str, Contender]:
    """Give torch doing what a round from logits does, from the given uniforms."""
    if torch is None:
        return {}
    torch.set_num_threads(1)
    return {"torch": Contender(verify_torch_logits, [(*map(torch.from_numpy, one), sampling) for one in rounds])}


def verify_torch_logits(target, draft, tokens, uniforms, sampling):
    return verify_torch(processed(target, sampling), processed(draft, sampling), tokens, uniforms, False)


def processed(logits, sampling):
    """Apply the processors in the way of those of transformers: masks of -inf, top-p by a sort, min-p by a softmax."""
    logits = logits / sampling.temperature
    if sampling.top_k:
        lowest = torch.topk(logits, sampling.top_k)[0][..., -1, None]
        logits = logits.masked_fill(logits < lowest, -torch.inf)
    if sampling.top_p < 1:
        ascending, order = torch.sort(logits)
        removed = ascending.softmax(-1).cumsum(-1) <= 1 - sampling.top_p
        removed[..., -1:] = False
        logits = logits.masked_fill(removed.scatter(1, order, removed), -torch.inf)
    if sampling.min_p:
        probabilities = logits.softmax(-1)
        least = sampling.min_p * probabilities.amax(-1, keepdim=True)
        logits = logits.masked_fill(probabilities < least, -torch.inf)
    return logits.softmax(-1)


def table_contenders(logits: Round, rows: Round) -> dict[str, Contender]:
    """Give everything that does one round on the same arrays: the package first, on the path that its user would take.

    `logits` and `rows` hold the same laws, the one as logits at temperature 1, the other as probabilities.
    """
    softmax = Sampling()
    found = {
        "specverify": Contender(verify_sampled, [rows]),
        "specverify_trusted": Contender(lambda *one: verify_sampled(*one, normalized=True), [rows]),
        "specverify_logits": Contender(lambda *one: verify_sampled(*one, sampling=softmax), [logits]),
        "numpy_eager": Contender(_numpy_verify.verify_sampled_eager, [rows]),
        "numpy_lazy": Contender(_numpy_verify.verify_sampled_lazy, [rows]),
    }
    if torch is not None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        as_tensors = tuple(map(torch.from_numpy, rows))
        found["torch"] = Contender(verify_torch_multinomial, [(*as_tensors, True)], checked=1)
        for name, make in (("transformers", _transformers), ("vllm", _vllm)):
            found |= _if_there(name, make, logits if name == "transformers" else rows, checked=1)
    found |= _if_there("numba", _numba, rows, checked=2)
    found |= _if_there("jax", _jax, rows, checked=1)
    return found


def versions() -> dict[str, str]:
    """Name the versions of what is installed."""
    found = {}
    for name in ("torch", "transformers", "numba", "jax"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if _vllm_library() is not None:
        found["vllm"] = os.environ.get("VLLM_VERSION", "not recorded")
    return found


def _if_there(name: str, make: Callable[[Round], Contender], one: Round, checked: int) -> dict[str, Contender]:
    try:
        function, arguments = make(one)
    except ImportError:
        return {}
    function(*arguments)  # compiles what compiles at the first call
    return {name: Contender(function, [arguments], checked)}


def _transformers(one: Round) -> Any:
    rule = importlib.import_module("transformers.generation.utils")._speculative_sampling
    target, draft, tokens = (torch.from_numpy(array)[None] for array in one[:3])

    def verify(target: Any, draft: Any, tokens: Any) -> tuple[int, int]:
        valid, n_matches = rule(tokens, draft, tokens.shape[1], target)
        return int(n_matches), int(valid[0, -1])

    return verify, (target, draft, tokens)


def _numba(one: Round) -> Any:
    """One pass over one pair of rows, which are trusted to sum to 1."""
    numba = importlib.import_module("numba")

    @numba.njit
    def verify(target, draft, tokens, uniforms):
        k = len(tokens)
        n = 0
        while n < k and uniforms[n] * np.float64(draft[n, tokens[n]]) < target[n, tokens[n]]:
            n += 1
        total = 0.0
        if n == k:
            for p in target[n]:
                total += p
        else:
            for j in range(target.shape[1]):
                total += max(np.float32(0), target[n, j] - draft[n, j])
        point, running, last = uniforms[k] * total, 0.0, 0
        for j in range(target.shape[1]):
            weight = target[n, j] if n == k else max(np.float32(0), target[n, j] - draft[n, j])
            running += weight
            if weight > 0:
                last = j
            if running > point:
                break
        return n, last

    return verify, tuple(one)


def _jax(one: Round) -> Any:
    """Fixed shapes, compiled; draws by the cumulative sum of float32, JAX's own type."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    jax = importlib.import_module("jax")
    jnp = jax.numpy

    @jax.jit
    def verify(target, draft, tokens, uniforms):
        k = len(tokens)
        positions = jnp.arange(k)
        accepted = uniforms[:k] * draft[positions, tokens] < target[positions, tokens]
        n = jnp.cumprod(accepted.astype(jnp.int32)).sum()
        beyond = target[n] - draft[jnp.minimum(n, k - 1)]
        cumulative = jnp.cumsum(jnp.where(n < k, jnp.maximum(beyond, 0), target[n]))
        return n, jnp.searchsorted(cumulative, uniforms[k] * cumulative[-1], side="right")

    def call(*arguments: Any) -> tuple[int, int]:
        n, token = verify(*arguments)
        return int(n), int(token)

    return call, (*map(jnp.asarray, one[:3]), jnp.asarray(one.uniforms, jnp.float32))


def _vllm_library() -> Path | None:
    """The C++ kernels of vLLM's wheel for CPUs, unzipped: the environment variable VLLM_SO names the file."""
    path = Path(os.environ.get("VLLM_SO", ""))
    return path if torch is not None and path.is_file() else None


def _vllm(one: Round) -> Any:
    """The two kernels with the random numbers that vLLM's rejection sampler and its sampler of bonus tokens draw."""
    library = _vllm_library()
    if library is None:
        raise ImportError("VLLM_SO does not name a file")
    torch.ops.load_library(library)
    target, draft, tokens, _ = map(torch.from_numpy, one)
    k, vocab = draft.shape
    bounds = torch.tensor([k])
    kernels = torch.ops._C

    def verify(target: Any, draft: Any, tokens: Any) -> tuple[int, int]:
        bonus = (target[k] / torch.empty(vocab).exponential_()).argmax().reshape(1, 1)
        inverse = torch.empty(1, vocab).exponential_().reciprocal()
        recovered, output = torch.empty_like(tokens), torch.full((1, k + 1), -1)
        uniforms = torch.rand(k, dtype=torch.float64).to(torch.float32)
        kernels.sample_recovered_tokens_kernel_impl(recovered, bounds, tokens, draft, target[:k], inverse, vocab, False)
        kernels.rejection_random_sample_kernel_impl(
            output, bounds, tokens, draft, target[:k], bonus, recovered, uniforms, None, k, vocab, False
        )
        emitted = [token for token in output[0].tolist() if token >= 0]
        return len(emitted) - 1, emitted[-1]

    return verify, (target, draft, tokens)
