"""What is measured: targets, drafts, draft lengths, temperatures and domains, and how much of each. Measures nothing.

A group is everything that is run in turn and compared: one target, one temperature, one domain, plain decoding and all
drafts and draft lengths. Groups are what a run that was stopped has or has not done.
"""

from dataclasses import asdict, dataclass, field, replace

from .prompts import COPIES, DOMAINS, NEW_TEXT
from .shapes import all_shapes

AUTO = "auto"  # AdaptiveDraftLength that knows the times of the steps, one for all texts of a pair (lengths.py)
ONLINE = "online"  # one that finds them out, knowing only how large the models are
ADAPTIVE = (AUTO, ONLINE)
LENGTHS = (1, 2, 4, 8, AUTO)
MAX_K = 8
PLAIN = ("none", 0)
TEMPERATURES = (0, 1)
FOUND = ("lookup", "ngram")  # drafts without a model

DRAFT_WORDS = {"none": "plain", "lookup": "prompt lookup", "ngram": "n-gram"}


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
    """Parts, and the size of each run: new tokens of a text, prompts of a domain of either kind, repeats.

    Plain decoding and the adaptive lengths are to be told apart where they differ by a few per cent: `close_repeats`
    are theirs, by target.
    """

    parts: tuple
    name: str = ""
    tokens: int = 64
    new_text_prompts: int = 2
    copy_prompts: int = 1  # there are five kinds of them
    repeats: int = 3
    close_repeats: dict = field(default_factory=dict)
    identity_tokens: int = 24
    identity_domains: tuple = NEW_TEXT
    only: tuple = ()  # targets; none for all

    def takes(self, target):
        """Say whether a target is measured."""
        return not self.only or target in self.only

    def repeats_of(self, target, contender):
        """Give how often a contender (draft, k) is run."""
        is_close = contender == PLAIN or contender[1] in ADAPTIVE
        return max(self.repeats, self.close_repeats.get(target, 0) if is_close else 0)

    def prompts(self, domain):
        """Give how many prompts of a domain are used."""
        return self.new_text_prompts if domain in NEW_TEXT else self.copy_prompts

    def groups(self):
        """Give the groups in the order in which they are run: one target after the other, cheap to restart."""
        found = {}
        for part in filter(lambda part: self.takes(part.target), self.parts):
            for temperature in part.temperatures:
                for domain in part.domains:
                    key = (part.target, temperature, domain)
                    group = found.setdefault(key, Group(*key))
                    new = tuple((part.draft, k) for k in part.lengths)
                    found[key] = replace(group, contenders=group.contenders + new)
        return list(found.values())


# About an hour. Every length where a model as draft pays (the slow target) and where copying does; where nothing can
# pay, one fixed length shows that, and the adaptive one what it makes of it. At temperature 1 copies are rare.
STANDARD = Plan(
    name="standard",
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
    close_repeats={"hf-f32": 4, "f32": 7, "q8_0": 9, "q4_0": 9},
)
QUICK = Plan(
    name="quick",
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
    name="whole",
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
PLANS = {plan.name: plan for plan in (QUICK, STANDARD, WHOLE)}

# Targets of the comparison of texts at temperature 0, each with a model draft. The first four give the same rows alone
# and in a batch, as far as greedy decoding can see; the others do not promise it.
IDENTICAL = {"hf-f32": "q4_1", "q8_0": "q4_1", "q4_0": "q4_1", "q4_1": "q4_0"}
ROUNDED = {"f16": "q8_0", "f32": "q8_0", "f16-plain": "q8_0", "f32-plain": "q8_0", "q4_1-plain": "q4_1"}
IDENTITY = IDENTICAL | ROUNDED
TARGETS = tuple(dict.fromkeys([*(part.target for plan in PLANS.values() for part in plan.parts), *IDENTITY]))

# The pair whose rows both rules judge: nearly the same law on both sides.
COMPARED = ("f32", "q4_1")
COMPARED_K = 4
RULES = ("rejection", "sample and compare")

DEPTH_CONTEXT = 64  # tokens before the one that is timed
DEPTH_K = 4


def cell_keys(plan):
    """Give the keys of the lines of speeds, in the order of ``plan.groups()``."""
    return [
        group.key
        | {"tokens": plan.tokens, "prompts": plan.prompts(group.domain)}
        | {"contenders": [list(one) for one in group.contenders]}
        | {"repeats": [plan.repeats_of(group.target, one) for one in group.contenders]}
        for group in plan.groups()
    ]


def identity_keys(plan):
    """Give the keys of the lines of texts at temperature 0."""
    return [
        {"target": target, "domain": domain, "tokens": plan.identity_tokens}
        for target in filter(plan.takes, IDENTITY)
        for domain in plan.identity_domains
    ]


def compare_keys(plan):
    """Give the keys of the lines of both rules."""
    target, draft = COMPARED
    pair = {"target": target, "draft": draft, "k": COMPARED_K}
    return [
        pair | {"domain": domain, "tokens": plan.tokens, "prompts": plan.prompts(domain)}
        for domain in plan.identity_domains
        if plan.takes(target)
    ]


def depth_keys(plan):
    """Give the one key of a line of depths, the same for all plans."""
    return [{"shapes": [[*where, *asdict(shape).values()] for where, shape in all_shapes().items()]}]


KEYS = {"cells": cell_keys, "identity": identity_keys, "compare": compare_keys, "depth": depth_keys}
