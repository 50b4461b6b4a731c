"""Tables and sentences of texts at temperature 0."""

from . import grid
from .models import KINDS
from .words import NOTHING, by, draft_words, header, line


def identity_section(document):
    if not document:
        return ["## Temperature 0: the same text?", NOTHING]
    columns = ("texts", "the same as plain", "each token the most probable of its row", "logits differ by up to")
    lines = header(["target"], columns)
    for target, cells in by(document["cells"], "target").items():
        partings = [cell["parting"] for cell in cells if "parting" in cell]
        largest = f"{max(one['largest_difference'] for one in partings):.2g}" if partings else ""
        same, best = (sum(cell[name] for cell in cells) for name in ("same", "argmax"))
        lines.append(line(KINDS[target].words, len(cells), same, best, largest))
    cells = document["cells"]
    lengths = ", ".join(map(str, dict.fromkeys(cell["k"] for cell in cells)))
    domains = ", ".join(dict.fromkeys(cell["domain"] for cell in cells))
    found = [
        "## Temperature 0: the same text?",
        f"Greedy texts of {document['tokens']} tokens, k = {lengths}; {domains}; drafts: prompt look-up, n-gram, a "
        "model in another format.",
        "\n".join(lines),
        "\n".join(f"- {fact}" for fact in identity_facts(document)),
    ]
    partings = [cell for cell in cells if "parting" in cell]
    if partings:
        found += [
            "Where texts part, both sides were computed anew without draft and verification: the same tokens one by "
            "one, and in the same passes. The lead is that of the token which that side emitted over the other's:",
            "\n".join(parting_table(partings)),
        ]
    return found


def identity_facts(document):
    if not document:
        return []
    cells = document["cells"]
    promised = [cell for cell in cells if cell["target"] in grid.IDENTICAL]
    others = [cell for cell in cells if cell["target"] not in grid.IDENTICAL]
    partings = [cell["parting"] for cell in cells if "parting" in cell]
    found = [
        f"Temperature 0, {', '.join(KINDS[name].words for name in grid.IDENTICAL)} with flash attention: "
        f"{sum(cell['same'] for cell in promised)} of {len(promised)} speculative texts are plain decoding's, token "
        f"for token. The other targets: {sum(cell['same'] for cell in others)} of {len(others)}.",
        f"In {sum(cell['argmax'] for cell in cells)} of {len(cells)} texts every token is the most probable one of the "
        "row that its pass gave.",
    ]
    if partings:
        own = sum(one["each_its_own"] and one["largest_difference"] > 0 for one in partings)
        found.append(
            f"In {own} of the {len(partings)} texts that part from plain decoding's, the runtime's own logits differ "
            "there between one token at a time and the same tokens in one pass, and each text takes the largest of its "
            "own."
        )
    return found


def parting_table(cells):
    columns = ("k", "at token", "tokens in the pass", "logits differ by up to", "lead alone", "lead in the pass")
    lines = header(("target", "domain", "draft"), columns)
    for cell in cells:
        one = cell["parting"]
        logits = (f"{one[name]:.2g}" for name in ("largest_difference", "lead_single", "lead_batched"))
        words = KINDS[cell["target"]].words, cell["domain"], draft_words(cell["draft"])
        lines.append(line(*words, cell["k"], one["at"], one["pass"], *logits))
    return lines
