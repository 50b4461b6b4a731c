"""Verifiers of other packages, in the shape that ``conformance.check`` takes. Imports each only when it is asked for.

Three adapters: a rule on logits as transformers has it, the textbook rule in torch, and functions of FlashInfer's shape
(a batch of rows in, a batch of padded tokens out). They draw their own random numbers from torch's generator, so they
are checked with ``takes_uniforms=False, deterministic_drafts=False``. :func:`installed` gives those that can run here.
"""

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

OwnRandomVerifier = Callable[[Any, Any, Any], tuple[int, int]]


class Peer(NamedTuple):
    """A verifier of another package.

    Attributes
    ----------
    name : str
        What is called.
    version : str
        Of its package.
    verifier : callable
        ``(target, draft, tokens) -> (n_accepted, next_token)``.
    """

    name: str
    version: str
    verifier: OwnRandomVerifier


def installed(seed: int = 0) -> list[Peer]:
    """Give the peers that are installed and run on a CPU.

    Parameters
    ----------
    seed : int
        Of torch's generator.

    Returns
    -------
    list of Peer
        Empty without torch.
    """
    peers: list[Peer] = []
    if importlib.util.find_spec("torch") is None:
        return peers
    torch: Any = importlib.import_module("torch")

    torch.manual_seed(seed)
    version = importlib.metadata.version
    peers.append(Peer("the textbook rule in torch", f"torch {version('torch')}", textbook()))
    if importlib.util.find_spec("transformers") is not None:
        name = "transformers.generation.utils._speculative_sampling"
        peers.append(Peer(name, f"transformers {version('transformers')}", transformers_rule()))
    if importlib.util.find_spec("flashinfer") is not None and torch.cuda.is_available():
        chain = importlib.import_module("flashinfer.sampling").chain_speculative_sampling
        name = "flashinfer.sampling.chain_speculative_sampling"
        function = from_flashinfer(chain, lambda array: torch.from_numpy(array).cuda())
        peers.append(Peer(name, f"flashinfer {version('flashinfer-python')}", function))
    return peers


def verdict_at_zero(peer: Peer) -> str:
    """Say what a peer answers when torch's random number is 0, which `rand` gives once in 2**24 numbers.

    The drafted token has target probability 0. Raises RuntimeError for a peer that does not use ``torch.rand``.
    """
    from unittest import mock

    torch: Any = importlib.import_module("torch")

    target = np.array([[0, 0.25, 0.75], [1, 0, 0]], np.float32)
    draft = np.array([[0.5, 0.25, 0.25]], np.float32)
    rand, rand_like = mock.Mock(wraps=lambda *size: torch.zeros(*size)), mock.Mock(wraps=torch.zeros_like)
    with mock.patch("torch.rand", rand), mock.patch("torch.rand_like", rand_like):
        n_accepted, _ = peer.verifier(target, draft, np.array([0]))
    if not rand.called and not rand_like.called:
        raise RuntimeError(f"{peer.name} does not use torch.rand")
    answer = "accepted (its test is `<=`)" if n_accepted else "rejected, as it must be (its test is `<`)"
    return f"a token of target probability 0 is {answer}; `torch.rand` gives 0 once in 2**24 numbers"


def textbook() -> OwnRandomVerifier:
    """Give algorithm 1 of Leviathan et al. as one writes it in torch: float32, ``rand`` and ``multinomial``."""
    torch: Any = importlib.import_module("torch")

    def verify(target: Any, draft: Any, tokens: Any) -> tuple[int, int]:
        p, q = torch.from_numpy(target), torch.from_numpy(draft)
        for i, token in enumerate(tokens.tolist()):
            if torch.rand(()) <= p[i, token] / q[i, token]:
                continue
            weights = torch.clamp(p[i] - q[i], min=0)
            return i, int(torch.multinomial(weights / weights.sum(), 1))
        return len(tokens), int(torch.multinomial(p[-1], 1))

    return verify


def transformers_rule() -> OwnRandomVerifier:
    """Adapt the rule of transformers' assisted generation: logits in, valid tokens out; a batch of one."""
    torch: Any = importlib.import_module("torch")
    rule: Any = importlib.import_module("transformers.generation.utils")._speculative_sampling

    def verify(target: Any, draft: Any, tokens: Any) -> tuple[int, int]:
        drafted = torch.from_numpy(tokens)[None]
        logits, draft_logits = (torch.log(torch.from_numpy(np.array(rows)))[None] for rows in (target, draft))
        valid, n_matches = rule(drafted, draft_logits, len(tokens), logits)
        return int(n_matches), int(valid[0, -1])

    return verify


def from_flashinfer(
    function: Callable[..., Any], to_tensor: Callable[[Any], Any] = lambda array: array
) -> OwnRandomVerifier:
    """Adapt a function of the shape of FlashInfer's ``chain_speculative_sampling``.

    Parameters
    ----------
    function : callable
        ``(draft_probs [B, K, V], draft_token_ids [B, K], target_probs [B, K + 1, V]) -> (output_token_ids [B, K + 1],
        ...)``: emitted tokens, padded with -1.
    to_tensor : callable
        Makes what the function takes from NumPy arrays.

    Returns
    -------
    callable
        ``(target, draft, tokens) -> (n_accepted, next_token)``.
    """

    def verify(target: Any, draft: Any, tokens: Any) -> tuple[int, int]:
        ids = np.asarray(tokens, np.int32)
        output, *_ = function(*(to_tensor(np.ascontiguousarray(array)[None]) for array in (draft, ids, target)))
        emitted = [int(token) for token in output[0] if int(token) >= 0]
        return len(emitted) - 1, emitted[-1]

    return verify
