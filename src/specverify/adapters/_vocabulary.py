"""Whether two models mean the same by a token. Holds no conversion between vocabularies: none is exact."""

from ._cached import CachedModel


def check_same_vocabulary(target: CachedModel, draft: CachedModel) -> None:
    """Refuse a draft whose token ids mean something else than the target's.

    Parameters
    ----------
    target, draft : CachedModel
        The two models. Entries that no text uses (padding to a round size) may differ.

    Raises
    ------
    ValueError
        The sizes differ, or an id stands for different text; the message names both models, and the first such id.
    """
    names = f"target {target.name} and draft {draft.name}"
    if target.vocab_size != draft.vocab_size:
        raise ValueError(
            f"draft: expected the target's vocabulary of {target.vocab_size} tokens, got {draft.vocab_size} ({names})"
        )
    for token, (wanted, got) in enumerate(zip(target.vocabulary(), draft.vocabulary(), strict=True)):
        if wanted != got and wanted is not None and got is not None:
            raise ValueError(f"draft: expected token {token} to be {wanted!r} as in the target, got {got!r} ({names})")
