"""Estimate what a round would take on a Raspberry Pi 4 and 5, from the machine code alone, and write docs/pi.md,
which BENCHMARKS.md repeats.

usage: pi_estimate.py FOLDER OUTPUT

FOLDER holds the cross-built kernel modules with their symbols (tools/pi_estimate.sh makes them). For each row loop, its
machine code is read, its elements per pass are counted from its vector loads, and llvm-mca says how many cycles a pass
takes. Nothing is measured.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

OBJDUMP = "aarch64-linux-gnu-objdump"
MCA = "llvm-mca-19"
PASSES = 1000

K, VOCAB = 4, 32_000
STRETCH = 4096  # LONG_STRETCH and SV_BLOCK: what is searched again for the token is half of it on average
VISITED = 2.84  # mean positions visited by the rounds of which spec-verify published the times


@dataclass(frozen=True)
class Core:
    name: str
    module: str  # the variant taken there
    model: str  # of llvm-mca
    gigahertz: float
    peak: float  # GB/s of the board's memory
    published: tuple[int, int]  # µs a round, greedy and sampled, measured by spec-verify


CORES = (
    Core("Pi 5, Cortex-A76", "cortex_a76", "neoverse-n1", 2.4, 17.1, (33, 117)),
    Core("Pi 4, Cortex-A72", "generic", "cortex-a72", 1.8, 12.8, (126, 657)),
)

# Function of _kernels.pxi: what its loop does, and how many rows it goes along.
LOOPS = {
    "whole_mass": ("sum of a row, with the check of its signs", 1),
    "piece_mass": ("sum of a piece, to find a token", 1),
    "piece_residual": ("sum of max(0, target - scale * draft)", 2),
    "top_bits": ("check of a trusted row", 1),
    "tops": ("maximum of a row, with the check for NaN", 1),
    "holds": ("search for the maximum", 1),
}


@dataclass(frozen=True)
class Loop:
    instructions: float  # per element, as the cycles
    cycles: float


def functions(module: Path) -> dict[str, list[tuple[int, str, str]]]:
    """Address, mnemonic and operands of each instruction, by function of _kernels.pxi."""
    listing = subprocess.run(
        [OBJDUMP, "-d", "--no-show-raw-insn", module], check=True, capture_output=True, text=True
    ).stdout
    found: dict[str, list[tuple[int, str, str]]] = {}
    body: list[tuple[int, str, str]] = []
    for line in listing.splitlines():
        if head := re.match(r"[0-9a-f]+ <(?:__pyx_f_\w+?_kernels_(?:generic|cortex_a76)_)?([\w.]+)>:", line):
            body = found.setdefault(head[1].partition(".")[0], [])
        elif code := re.match(r"\s+([0-9a-f]+):\s+(\S+)\s*([^/]*)", line):
            body.append((int(code[1], 16), code[2], code[3].strip()))
    return found


def vector_bytes(mnemonic: str, operands: str) -> int:
    """Bytes that an instruction loads into vector registers."""
    if not mnemonic.startswith("ld"):
        return 0
    sizes = {"q": 16, "d": 8, "s": 4}
    return sum(sizes[register[0]] for register in re.findall(r"\b[qds]\d+\b", operands.partition("[")[0]))


def main_loop(body: list[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """The innermost loop that loads most into vector registers."""
    spans = []
    for address, mnemonic, operands in body:
        target = re.search(r"(?:^|, )([0-9a-f]+) <", operands)
        if target and re.match(r"b(\.|$)|[ct]bn?z", mnemonic) and body[0][0] <= int(target[1], 16) <= address:
            spans.append((int(target[1], 16), address))
    innermost = [
        (first, last)
        for first, last in spans
        if not any(other != (first, last) and first <= other[0] and other[1] <= last for other in spans)
    ]
    loops = [[code for code in body if first <= code[0] <= last] for first, last in innermost]
    return max(loops, key=lambda loop: sum(vector_bytes(*code[1:]) for code in loop))


def cycles(loop: list[tuple[int, str, str]], model: str) -> float:
    lines = [f"{mnemonic} {re.sub(r'[0-9a-f]+ <.*', 'loop', operands)}" for _, mnemonic, operands in loop]
    report = subprocess.run(
        [MCA, "-mtriple=aarch64", f"-mcpu={model}", f"-iterations={PASSES}"],
        input="\n".join(["loop:", *lines, ""]),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    total = re.search(r"Total Cycles:\s+(\d+)", report)
    assert total
    return int(total[1]) / PASSES


def analyse(module: Path, model: str) -> dict[str, Loop]:
    code = functions(module)
    loops = {}
    for name, (_, rows) in LOOPS.items():
        loop = main_loop(code[name])
        elements = sum(vector_bytes(*instruction[1:]) for instruction in loop) / 4 / rows
        assert elements >= 4, f"{module.name}: the loop of {name} is not vectorised"
        loops[name] = Loop(len(loop) / elements, cycles(loop, model) / elements)
    return loops


@dataclass(frozen=True)
class Estimate:
    what: str
    rows: float  # read, to compare with the memory
    cycles: float
    published: int | None = None  # index into Core.published
    target: float | None = None  # µs, Pi 5


def rounds(loops: dict[str, Loop]) -> list[Estimate]:
    """Cycles of the row loops in one round: rows times what a row costs, and half a block to find the token."""
    per_row = {name: VOCAB * loop.cycles for name, loop in loops.items()}
    search = {name: STRETCH / 2 * loop.cycles for name, loop in loops.items()}
    mass, residual = per_row["whole_mass"], per_row["piece_residual"]
    trusted = residual + 2 * per_row["top_bits"]
    return [
        Estimate("greedy, all accepted", K + 1, (K + 1) * (per_row["tops"] + search["holds"]), 0, 20),
        Estimate("sampled, all accepted", 2 * K + 1, (2 * K + 1) * mass + search["piece_mass"], None, 75),
        Estimate(
            "sampled, rejected in the middle",
            2 * VISITED,
            2 * VISITED * mass + residual + search["piece_residual"],
            1,
            75,
        ),
        Estimate("sampled `normalized=True`, all accepted", 1, mass + search["piece_mass"], None, 15),
        Estimate("sampled `normalized=True`, rejected", 2, trusted + search["piece_residual"], None, None),
    ]


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]) + "\n"


def page(analysed: dict[Core, dict[str, Loop]]) -> str:
    loops = [
        [f"`{name}`", what]
        + [f"{analysed[core][name].instructions:.2f} / **{analysed[core][name].cycles:.2f}**" for core in CORES]
        for name, (what, _) in LOOPS.items()
    ]
    parts = [
        """# What a Raspberry Pi would take

A **static lower bound, not a measurement**: nothing here was ever run on a Raspberry Pi. Written by
`tools/pi_estimate.sh` from the machine code of the cross-built modules and a model of the cores (llvm-mca 19).
Measure yours with `specverify bench`.

## The loops

Instructions / **cycles** per element.

""",
        table(["function", "does", *(core.name for core in CORES)], loops),
        f"""
## A round

K = {K}, V = {VOCAB:,}, float32 rows. "Reads" is what the rows have to deliver for the loops to run at this speed; where
it exceeds what the memory of the board can give at best, rows that are in no cache set the time. Beside it the times
that spec-verify's authors published, measured on the boards; their sampled rounds visit {VISITED} positions on average.
""",
    ]
    for core in CORES:
        rows = []
        for estimate in rounds(analysed[core]):
            microseconds = estimate.cycles / core.gigahertz / 1000
            rows.append(
                [
                    estimate.what,
                    f"{estimate.cycles / 1000:,.0f} k",
                    f"**{microseconds:.1f}**",
                    f"{estimate.rows * VOCAB * 4 / microseconds / 1000:.1f} GB/s",
                    "" if estimate.published is None else f"{core.published[estimate.published]}",
                ]
            )
        parts += [
            f"\n{core.name} at {core.gigahertz} GHz; memory at best {core.peak} GB/s:\n\n",
            table(["round", "cycles", "µs, at least", "reads", "spec-verify, µs measured"], rows),
        ]
    parts.append(
        """
## What the model leaves out

- It takes every load from the first-level cache and every branch as predicted. The rows of a round (1.2 MB for a
  sampled one that is all accepted) do not fit there.
- It counts the vector loops over rows, and the search for the token in half a block. Not counted: folding the lanes
  at the end of each block of 4096, the last piece that is walked entry by entry, and the call from Python (about
  a microsecond).
- llvm-mca's model `neoverse-n1` is of the A76's server sibling; its `cortex-a76` repeats the much older A57. For the
  A72 there is only that: its model `cortex-a72` is the A57's, too.
- The compiler is Debian's GCC 12; the released wheels are built with another, which may schedule differently.
"""
    )
    return "".join(parts)


def main() -> None:
    folder, output = map(Path, sys.argv[1:])
    analysed = {core: analyse(folder / f"_kernels_{core.module}.so", core.model) for core in CORES}
    for estimate in rounds(analysed[CORES[0]]):
        microseconds = estimate.cycles / CORES[0].gigahertz / 1000
        if estimate.target and microseconds >= estimate.target:
            print(f"warning: Pi 5, {estimate.what}: {microseconds:.1f} µs, the target is {estimate.target}")
    output.write_text(page(analysed), encoding="utf-8")
    put_into_benchmarks(output.read_text(encoding="utf-8"), output.parents[1] / "BENCHMARKS.md")


def put_into_benchmarks(text: str, benchmarks: Path) -> None:
    """The page without its title, a level deeper, between the marks that BENCHMARKS.md has for it."""
    section = re.sub(r"^#", "##", text.partition("\n")[2].strip(), flags=re.MULTILINE)
    before, begin, rest = benchmarks.read_text(encoding="utf-8").partition("<!-- pi:begin -->\n")
    end = "<!-- pi:end -->"
    benchmarks.write_text(before + begin + section + "\n" + end + rest.partition(end)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
