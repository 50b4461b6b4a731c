"""Drafts that need no model: what they propose comes from the text itself.

Holds :class:`PromptLookup`, which copies what followed the same words before (lookup.py), and :class:`NGramDraft`,
which counts the text while it grows and draws from the counts (ngram.py, its law in counts.py). Both are draft steps
for the loop (steps.py says what that is) and can be called without it. Holds no verification.
"""

from .lookup import PromptLookup
from .ngram import NGramDraft

__all__ = ["NGramDraft", "PromptLookup"]
