"""Check wheels before anyone installs them: what is inside, what it needs, and which instructions it may execute.

usage: check_wheel.py [--with-symbols] WHEEL...

With symbols, as a test needs them, a wheel may be of any size and is not for publishing.

Needs binutils: readelf for everything, and an objdump for the wheel's architecture (the variable OBJDUMP, else
aarch64-linux-gnu-objdump or objdump). Prints one line for a good wheel; lists every fault and exits with 1 otherwise.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_BYTES = 400_000
MAX_GLIBC = (2, 17)  # manylinux2014, older than any Raspberry Pi OS with a 64-bit kernel
PAGE = {"aarch64": 0x4000, "x86_64": 0x1000}  # Raspberry Pi OS runs the Pi 5 with pages of 16 KiB

# The modules of each architecture, and those that may use more than the architecture's first version.
PORTABLE = ("_core", "_dlpack", "_lookup", "_kernels_generic")
CHECKED_FOR = {"aarch64": ("_kernels_cortex_a76",), "x86_64": ("_kernels_x86_64_v3", "_kernels_x86_64_v4")}

# Beyond ARMv8.0-A without its optional parts, by the extension that added it (Arm Architecture Reference Manual, C6 and
# C7). Hints such as paciasp and bti are no-ops on older cores and therefore not listed.
BEYOND_ARMV8_0 = {
    "LSE": r"(cas|swp|ld(add|clr|eor|set|[su]m(ax|in))|st(add|clr|eor|set|[su]m(ax|in)))(p?)(a|l|al)?[bh]?",
    "CRC32": r"crc32c?[bhwx]",
    "crypto": r"aes\w+|sha(1|256|512)\w+|sm[34]\w+|eor3|rax1|xar|bcax",
    "RDM, LOR": r"sqrdml[as]h|ldlar[bh]?|stllr[bh]?",
    "dot product, matrices": r"[su]dot|usdot|sudot|[su]mmla|usmmla|bf(dot|mmla|mlal|cvt)\w*|fml[as]l2?",
    "RCPC": r"ldapu?r\w*|stlur\w*",
    "complex, JavaScript": r"fc(add|mla)|fjcvtzs|frint(32|64)[xz]",
    "pointer authentication": r"(ret|br|blr|ldr|eret)a[ab]z?|(pac|aut)([id][ab]|[id]z[ab])|pacga|xpac[id]",
    "flags, speculation": r"rmif|setf(8|16)|cfinv|xaflag|axflag|sb",
    "memory": r"(cpy|set)[fgpme]\w*|[ui]rg|stz?2?g|ldg",
}
# Half precision: everything on h registers or vectors but the conversions that ARMv8.0-A has.
HALF = re.compile(r"\b(h\d+|v\d+\.[48]h)\b")
HALF_ALLOWED = re.compile(r"fcvt|fcvtl2?|fcvtn2?")
SVE = re.compile(r"\bz\d+\.|\bp\d+(/|\.)")
PATTERNS = {name: re.compile(pattern) for name, pattern in BEYOND_ARMV8_0.items()}

INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\s+(\S+)\s*(.*)")


def beyond_armv8_0(listing: Iterable[str]) -> list[str]:
    """The instructions of an aarch64 listing that a Cortex-A72 need not have.

    LSE is let pass where the instruction before it is `cbz w16`: so look the compiler's outline atomics, which ask the
    kernel's word first (__aarch64_have_lse_atomics).
    """
    faults, before = [], ""
    for line in listing:
        match = INSTRUCTION.match(line)
        if not match:
            continue
        mnemonic, operands = match.groups()
        operands = operands.partition("//")[0]
        name = next((name for name, pattern in PATTERNS.items() if pattern.fullmatch(mnemonic)), None)
        if name is None and HALF.search(operands) and mnemonic[0] == "f" and not HALF_ALLOWED.fullmatch(mnemonic):
            name = "half precision"
        if name is None and re.match(r"[su]cvtf", mnemonic) and HALF.search(operands):
            name = "half precision"
        if name is None and SVE.search(operands):
            name = "SVE"
        if name and not (name == "LSE" and before.startswith("cbz w16")):
            faults.append(f"{name}: {mnemonic} {operands}".strip())
        before = f"{mnemonic} {operands}"
    return faults


def beyond_x86_64(listing: Iterable[str]) -> list[str]:
    """The instructions of an x86-64 listing with the VEX or EVEX encoding, hence AVX or later."""
    matches = (INSTRUCTION.match(line) for line in listing)
    return [match[0].strip() for match in matches if match and re.match(r"v(?!er[rw])", match[1])]


BEYOND = {"aarch64": beyond_armv8_0, "x86_64": beyond_x86_64}


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def objdump(machine: str) -> str:
    if name := os.environ.get("OBJDUMP"):
        return name
    cross = f"{machine}-linux-gnu-objdump"
    return cross if platform.machine() != machine and shutil.which(cross) else "objdump"


def check_module(path: Path, machine: str, *, with_symbols: bool) -> list[str]:
    module = path.name.partition(".")[0]
    dynamic, segments, sections = (run("readelf", option, str(path)) for option in ("-dW", "-lW", "-SW"))
    faults = []
    if re.search(r"\((RPATH|RUNPATH)\)", dynamic):
        faults.append("has a RUNPATH")
    if not with_symbols and re.search(r"\.(symtab|debug_\w+)\b", sections):
        faults.append("is not stripped")
    aligns = [int(line.split()[-1], 16) for line in segments.splitlines() if line.split()[:1] == ["LOAD"]]
    if not aligns or min(aligns) < PAGE[machine]:
        faults.append(f"LOAD segments aligned to {aligns}, expected at least {PAGE[machine]:#x}")
    if re.search(r"GNU_STACK.*E ", segments):
        faults.append("wants an executable stack")
    versions = {
        tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", run("readelf", "-VW", str(path)))
    }
    if versions and max(versions) > MAX_GLIBC:
        faults.append(f"needs glibc {max(versions)}, expected at most {MAX_GLIBC}")
    if module not in CHECKED_FOR[machine]:
        listing = run(objdump(machine), "-d", "--no-show-raw-insn", str(path)).splitlines()
        if sum(bool(INSTRUCTION.match(line)) for line in listing) < 500:
            faults.append("could not be disassembled")
        foreign = BEYOND[machine](listing)
        if foreign:
            faults.append(
                f"{len(foreign)} instructions that not every {machine} has, such as {sorted(set(foreign))[:3]}"
            )
    return [f"{module}: {fault}" for fault in faults]


def expected_files(name: str, python: str, machine: str) -> set[str]:
    """Every file of the wheel: no less, no more."""
    package = ROOT / "src" / "specverify"
    sources = {
        str(path.relative_to(package.parent))
        for pattern in ("*.py", "*.pyi", "py.typed")
        for path in package.rglob(pattern)
    }
    modules = {f"specverify/{module}.{python}-{machine}-linux-gnu.so" for module in (*PORTABLE, *CHECKED_FOR[machine])}
    info = {
        f"{name}.dist-info/{file}"
        for file in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE")
    }
    return sources | modules | info | {"specverify/include/specverify/kernels.h"}


def check_wheel(wheel: Path, *, with_symbols: bool) -> list[str]:
    distribution, version, _, abi, tag = wheel.stem.split("-")
    machine = "aarch64" if tag.endswith("aarch64") else "x86_64"
    faults = []
    if "manylinux_2_17" not in tag:
        faults.append(f"expected the tag manylinux_2_17, got {tag}")
    if not with_symbols and wheel.stat().st_size > MAX_BYTES:
        faults.append(f"{wheel.stat().st_size} bytes, expected at most {MAX_BYTES}")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        files = {file for file in archive.namelist() if not file.endswith("/")}
        expected = expected_files(f"{distribution}-{version}", f"cpython-{abi.removeprefix('cp')}", machine)
        faults += [f"holds {file}, which does not belong in a wheel" for file in sorted(files - expected)]
        faults += [f"lacks {file}" for file in sorted(expected - files)]
        archive.extractall(folder)
        for module in sorted(Path(folder).rglob("*.so")):
            faults += check_module(module, machine, with_symbols=with_symbols)
    return faults


def main(arguments: list[str]) -> int:
    wheels = [Path(argument) for argument in arguments if not argument.startswith("--")]
    bad = not wheels
    for wheel in wheels:
        faults = check_wheel(wheel, with_symbols="--with-symbols" in arguments)
        bad = bad or bool(faults)
        print(f"{wheel.name}: {wheel.stat().st_size // 1000} kB, {'FAULTY' if faults else 'good'}")
        print(*(f"  {fault}\n" for fault in faults), sep="", end="")
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
