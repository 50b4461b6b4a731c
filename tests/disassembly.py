"""Reads what objdump prints: functions, their innermost loops, and which instructions work on whole vectors.

Knows x86-64 and aarch64, and nothing of what the loops should be: test_assembly.py does.
"""

import re
from collections import Counter
from typing import NamedTuple


class Instruction(NamedTuple):
    address: int
    name: str
    operands: str


_FUNCTION = re.compile(r"^[0-9a-f]+ <([\w.$]+)>:")
_INSTRUCTION = re.compile(r"^\s+([0-9a-f]+):\s+(\S+)\s*(.*)")
_TARGET = re.compile(r"(?:^|[ ,])([0-9a-f]+) <")


def functions(text: str) -> dict[str, list[Instruction]]:
    """Instructions of each function in the output of ``objdump -d --no-show-raw-insn``."""
    found: dict[str, list[Instruction]] = {}
    current = None
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            current = found.setdefault(match[1], [])
        elif (match := _INSTRUCTION.match(line)) and current is not None:
            current.append(Instruction(int(match[1], 16), match[2], match[3].split("//")[0].strip()))
    return found


def innermost_loops(body: list[Instruction]) -> list[list[Instruction]]:
    """The instructions between a backward branch and its target, where no other loop is inside."""
    spans = []
    for instruction in body:
        if _is_branch(instruction.name) and (match := _TARGET.search(instruction.operands)):
            target = int(match[1], 16)
            if body[0].address <= target <= instruction.address:
                spans.append((target, instruction.address))
    inner = [
        (start, end)
        for start, end in spans
        if not any(start <= a and b <= end and (a, b) != (start, end) for a, b in spans)
    ]
    return [[x for x in body if start <= x.address <= end] for start, end in inner]


def _is_branch(name: str) -> bool:
    return name.startswith("j") or name == "b" or name.startswith(("b.", "cbz", "cbnz", "tbz", "tbnz"))


_SCALAR_SUFFIX = re.compile(r"(ss|sd)$")
_INTEGER_VECTOR = re.compile(r"^v?p")  # vpmaxsd works on vectors although it ends in sd
_AARCH64_VECTOR = re.compile(r"\bv\d+\.(2|4|8|16)[sdhb]\b")
_AARCH64_QUAD = re.compile(r"\bq\d+\b")


def is_packed(instruction: Instruction) -> bool:
    """Whether it works on a vector of entries: loads and stores of whole vectors included."""
    name, operands = instruction.name, instruction.operands
    if "%" in operands:  # x86-64 in AT&T syntax
        if not re.search(r"%[xyz]mm", operands):
            return False
        return not (_SCALAR_SUFFIX.search(name) and not _INTEGER_VECTOR.match(name)) and not re.match(
            r"v?cvt(ss|sd|si)", name
        )
    return bool(_AARCH64_VECTOR.search(operands) or _AARCH64_QUAD.search(operands))


def names(loop: list[Instruction], *, packed: bool) -> Counter[str]:
    """How often each instruction is in a loop, without the leading v that marks its AVX form."""
    return Counter(
        re.sub(r"^v(?=[a-z])", "", x.name) if "%" in x.operands else x.name for x in loop if is_packed(x) == packed
    )


_FUSED = re.compile(r"^(vfn?m(add|sub)\w*|fn?m(add|sub)|fml[as]l?2?)$")


def fused(text: str) -> list[str]:
    """Multiply-adds with one rounding, of either architecture, each with its function."""
    return [
        f"{name}: {x.name} {x.operands}" for name, body in functions(text).items() for x in body if _FUSED.match(x.name)
    ]
