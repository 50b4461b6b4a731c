"""The texts to go on from: small files in prompts/, where their origin and licence stand."""

from pathlib import Path

FOLDER = Path(__file__).parent / "prompts"
NEW_TEXT = ("code", "factual", "dialogue", "prose")
COPIES = ("copy-code", "copy-prose", "json", "rename-edit", "passage")
DOMAINS = NEW_TEXT + COPIES


def of_domain(domain):
    """Give the prompts of a domain, in the order of their numbers, without the newline that ends a file."""
    paths = sorted(FOLDER.glob(f"{domain}-[0-9].txt"))
    if not paths:
        raise ValueError(f"domain: expected one of {', '.join(DOMAINS)}, got {domain!r}")
    return [path.read_text().rstrip("\n") for path in paths]
