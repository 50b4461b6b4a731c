"""Print docs/peers.md: what the conformance kit says of the verifiers that are installed here.

python tools/peers.py > docs/peers.md       needs torch; transformers and FlashInfer are taken along if installed
"""

import argparse
import platform

import specverify
from specverify import conformance
from specverify.conformance import peers

HEAD = """# Other verifiers under the same kit

What `specverify.conformance` finds on verifiers of other packages, as they are installed, unchanged. Each draws its own
random numbers, so its law cannot be found exactly: what is tested is frequencies. "bad input" asks whether what has no
answer is refused with a `ValueError` or `TypeError`. That is a promise of this package which the others never made,
and inside their own frameworks such input may be caught elsewhere. So it is reported, and counts for nothing here. The
textbook rule is Leviathan et al.'s algorithm 1 as one writes it in torch, and stands in this package.

Made by `python tools/peers.py --rounds {rounds} > docs/peers.md`, specverify {version}, Python {python}.
"""


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20_000)
    options = parser.parse_args()
    python = platform.python_version()
    print(HEAD.format(rounds=options.rounds, version=specverify.__version__, python=python))
    for peer in peers.installed():
        report = conformance.check(
            peer.verifier, takes_uniforms=False, deterministic_drafts=False, rounds=options.rounds
        )
        print(f"## {peer.name}, {peer.version}\n")
        print("| layer | | finding |\n| --- | --- | --- |")
        for result in report.results:
            verdict = "" if result.layer == "bad input" else "passed" if result.passed else "failed"
            print(f"| {result.layer} | {verdict} | {finding(result)} |")
        try:
            at_zero = peers.verdict_at_zero(peer)
        except RuntimeError:
            continue
        print(f"| a random number of 0 | | {at_zero} |")
        print()


def finding(result: conformance.Result) -> str:
    """Say what a layer found, politely."""
    if result.layer != "bad input":
        return str(result.detail)
    errors = [detail.split(": ", 1) for detail in result.numbers["details"]]
    others = [f"{name}: {answer.split(',')[0]}" for name, answer in errors if "neither" in answer]
    answered = [f"{name}: {answer}" for name, answer in errors if "neither" not in answer]
    parts = [
        f"{result.numbers['cases'] - len(errors)} of {result.numbers['cases']} refused so",
        *([f"other errors for {'; '.join(others)}"] if others else []),
        *([f"an answer for {'; '.join(answered)}"] if answered else []),
    ]
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."


if __name__ == "__main__":
    main()
