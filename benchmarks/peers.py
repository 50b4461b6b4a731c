"""The textbook rule in torch, where torch is installed: once drawing from the given uniform, once as most code does."""

from specverify.measure import Contender

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
