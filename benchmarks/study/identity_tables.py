"""Tables and sentences of texts at temperature 0."""

from layout import table

from . import grid
from .models import KINDS
from .words import NOTHING, by, draft_words


def identity_section(document):
    if not document:
        return ["## Temperature 0: the same text?", NOTHING]
    rows = []
    for target, cells in by(document["cells"], "target").items():
        partings = [cell["parting"] for cell in cells if "parting" in cell]
        largest = f"{max(one['largest_difference'] for one in partings):.2g}" if partings else ""
        same, best = (sum(cell[name] for cell in cells) for name in ("same", "argmax"))
        rows.append((KINDS[target].words, len(cells), same, best, largest))
    columns = ("texts", "the same as plain", "each token the most probable of its row", "logits differ by up to")
    cells = document["cells"]
    lengths = ", ".join(map(str, dict.fromkeys(cell["k"] for cell in cells)))
    domains = ", ".join(dict.fromkeys(cell["domain"] for cell in cells))
    found = [
        "## Temperature 0: the same text?",
        f"Greedy texts of {document['tokens']} tokens, k = {lengths}; {domains}; drafts: prompt lookup, n-gram, a "
        "model in another format.",
        "\n".join(table(["target ", *columns], rows)),
        "\n".join(f"- {fact}" for fact in identity_facts(document)),
    ]
    partings = [cell for cell in cells if "parting" in cell]
    if partings:
        found += [
            "Where texts part, the target was run anew without draft and verification: the same tokens one by one, and "
            "in passes of the same lengths:",
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
    rows = []
    for cell in cells:
        one = cell["parting"]
        words = KINDS[cell["target"]].words, cell["domain"], draft_words(cell["draft"])
        own = "yes" if one["each_its_own"] else "no"
        rows.append((*words, cell["k"], one["at"], one["pass"], f"{one['largest_difference']:.2g}", own))
    columns = ("k", "at token", "tokens in the pass", "logits differ by up to", "each text the largest of its own ")
    return table(["target ", "domain ", "draft ", *columns], rows)
