"""What is measured: targets, drafts, draft lengths, temperatures and domains, and how much of each. Measures nothing.

A group is everything that is run in turn and compared: one target, one temperature, one domain, plain decoding and all
drafts and draft lengths. Groups are what a run that was stopped has or has not done.
"""

from dataclasses import dataclass, field, replace

from .prompts import COPIES, DOMAINS, NEW_TEXT

AUTO = "auto"  # AdaptiveDraftLength that knows the times of the steps
ONLINE = "online"  # one that finds them out, knowing only how large the models are
ADAPTIVE = (AUTO, ONLINE)
LENGTHS = (1, 2, 4, 8, AUTO)
MAX_K = 8
PLAIN = ("none", 0)
TEMPERATURES = (0, 1)
FOUND = ("lookup", "ngram")  # drafts without a model

DRAFT_WORDS = {"none": "plain", "lookup": "prompt look-up", "ngram": "n-gram"}


@dataclass(frozen=True)
class Part:
    """A product of drafts, lengths, temperatures and domains for one target."""

    target: str
    draft: str
    domains: tuple = DOMAINS
    temperatures: tuple = TEMPERATURES
    lengths: tuple = LENGTHS


@dataclass(frozen=True)
class Group:
    """What is run in turn. `contenders` are (draft, k), the first of them plain decoding."""

    target: str
    temperature: float
    domain: str
    contenders: tuple = field(default=(PLAIN,))

    @property
    def key(self):
        return {"target": self.target, "temperature": self.temperature, "domain": self.domain}


@dataclass(frozen=True)
class Plan:
    """Parts, and the size of each run: new tokens of a text, prompts of a domain of either kind, repeats."""

    parts: tuple
    tokens: int = 64
    new_text_prompts: int = 2
    copy_prompts: int = 1  # there are five kinds of them
    repeats: int = 3
    identity_tokens: int = 24
    identity_domains: tuple = NEW_TEXT

    def prompts(self, domain):
        """Give how many prompts of a domain are used."""
        return self.new_text_prompts if domain in NEW_TEXT else self.copy_prompts

    def groups(self):
        """Give the groups in the order in which they are run: one target after the other, cheap to restart."""
        found = {}
        for part in self.parts:
            for temperature in part.temperatures:
                for domain in part.domains:
                    key = (part.target, temperature, domain)
                    group = found.setdefault(key, Group(*key))
                    new = tuple((part.draft, k) for k in part.lengths)
                    found[key] = replace(group, contenders=group.contenders + new)
        return list(found.values())


# Some 35 minutes. Every length where a model as draft pays (the slow target) and where copying does; where nothing can
# pay, one fixed length shows that, and the adaptive one what it makes of it. At temperature 1 copies are rare.
STANDARD = Plan(
    parts=(
        Part("hf-f32", "q4_1", NEW_TEXT, (0,)),
        Part("hf-f32", "q4_1", ("code", "prose"), (0,), (ONLINE,)),
        Part("hf-f32", "q4_1", NEW_TEXT, (1,), (4, 8, AUTO)),
        Part("hf-f32", "lookup", NEW_TEXT, (0,), (4, AUTO)),
        Part("hf-f32", "lookup", COPIES, (0,)),
        Part("hf-f32", "lookup", ("copy-code",), (1,), (4, AUTO)),
        Part("hf-f32", "ngram", ("code", "copy-code"), (0,), (4, AUTO)),
        Part("f32", "q8_0", NEW_TEXT, (0,), (4, 8, AUTO)),
        Part("f32", "q8_0", ("code", "prose"), (0,), (ONLINE,)),
        Part("f32", "q8_0", NEW_TEXT, (1,), (4, AUTO)),
        Part("f32", "lookup", NEW_TEXT, (0,), (4, AUTO)),
        Part("f32", "lookup", COPIES, (0,), (2, 4, 8, AUTO)),
        Part("q8_0", "q4_0", NEW_TEXT, TEMPERATURES, (4, AUTO)),
        Part("q8_0", "lookup", NEW_TEXT, (0,), (4, AUTO)),
        Part("q8_0", "lookup", COPIES, (0,)),
        Part("q4_0", "q8_0", NEW_TEXT, (0,), (4, AUTO)),
        Part("q4_0", "q8_0", ("code", "prose"), (0,), (ONLINE,)),
        Part("q4_0", "lookup", ("code", "prose", "copy-code"), (0,), (ONLINE,)),
        Part("q4_0", "lookup", NEW_TEXT, (0,), (4, AUTO)),
        Part("q4_0", "lookup", COPIES, (0,)),
    ),
)
QUICK = Plan(
    parts=(
        Part("hf-f32", "q4_1", ("code", "prose"), TEMPERATURES, (4, AUTO)),
        Part("hf-f32", "lookup", ("code", "copy-code"), (0,), (4, AUTO)),
        Part("q4_0", "lookup", ("prose", "copy-code"), (0,), (4, AUTO)),
        Part("q4_0", "q8_0", ("prose",), (0,), (4, AUTO)),
    ),
    new_text_prompts=1,
    repeats=1,
    identity_tokens=16,
    identity_domains=("prose",),
)
WHOLE = Plan(
    parts=tuple(
        Part(target, draft)
        for target, drafts in {
            "hf-f32": ("q4_1", "lookup", "ngram"),
            "f32": ("q8_0", "lookup", "ngram"),
            "f16": ("q8_0", "lookup"),
            "q8_0": ("q4_0", "lookup", "ngram"),
            "q4_0": ("q8_0", "lookup", "ngram"),
        }.items()
        for draft in drafts
    ),
    copy_prompts=2,
)
PLANS = {"quick": QUICK, "standard": STANDARD, "whole": WHOLE}

# Targets of the comparison of texts at temperature 0, each with a model draft. The first four give the same rows alone
# and in a batch, as far as greedy decoding can see; the others do not promise it.
IDENTICAL = {"hf-f32": "q4_1", "q8_0": "q4_1", "q4_0": "q4_1", "q4_1": "q4_0"}
ROUNDED = {"f16": "q8_0", "f32": "q8_0", "f16-plain": "q8_0", "f32-plain": "q8_0", "q4_1-plain": "q4_1"}
IDENTITY = IDENTICAL | ROUNDED

# The pair whose rows both rules judge: nearly the same law on both sides.
COMPARED = ("f32", "q4_1")
COMPARED_K = 4
