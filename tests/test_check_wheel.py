"""The checker of wheels finds the instructions it is there to find (tools/check_wheel.py)."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import check_wheel

# As objdump prints them; built with -mcpu=cortex-a76 or newer, from what a compiler may well use.
FORBIDDEN = [
    "ldaddal\tw0, w1, [x2]",
    "casal\tx0, x1, [x2]",
    "swpb\tw0, w1, [x2]",
    "stadd\tw0, [x1]",
    "crc32cx\tw0, w0, x1",
    "udot\tv0.4s, v1.16b, v2.16b",
    "sdot\tv0.4s, v1.16b, v2.4b[0]",
    "fadd\tv0.8h, v1.8h, v2.8h",
    "fmul\th0, h1, h2",
    "scvtf\th0, w1",
    "sqrdmlah\tv0.8h, v1.8h, v2.8h",
    "ldapr\tx0, [x1]",
    "ldaprb\tw0, [x1]",
    "fcmla\tv0.4s, v1.4s, v2.4s, #90",
    "retaa",
    "pacia\tx0, x1",
    "fmlal\tv0.4s, v1.4h, v2.4h",
    "bfdot\tv0.4s, v1.8h, v2.8h",
    "smmla\tv0.4s, v1.16b, v2.16b",
    "aese\tv0.16b, v1.16b",
    "ld1w\t{z0.s}, p0/z, [x0]",
    "fadd\tz0.d, z0.d, z1.d",
    "setf8\tw0",
    "cpyfp\t[x0]!, [x1]!, x2!",
]

ALLOWED = [
    "ldadd\tw0, w1, [x2]",  # when `cbz w16` came before
    "fcvtl\tv0.4s, v1.4h",
    "fcvt\ts0, h1",
    "fcvtn\tv0.4h, v1.4s",
    "add\tv0.8h, v1.8h, v2.8h",
    "fmaxnm\tv0.2d, v1.2d, v2.2d",
    "stlr\tw0, [x1]",
    "ldar\tw0, [x1]",
    "ldaxr\tw0, [x1]",
    "stp\tx29, x30, [sp, #-16]!",
    "paciasp",
    "bti\tc",
    "csetm\tw0, eq",
    "sbfiz\tx0, x1, #2, #32",
    "stur\tx0, [x1, #-8]",
]


def listing(*instructions: str) -> list[str]:
    return [f"    {4 * i:x}:\t{instruction}" for i, instruction in enumerate(instructions)]


@pytest.mark.parametrize("instruction", FORBIDDEN)
def test_what_a_cortex_a72_lacks_is_found(instruction: str) -> None:
    assert len(check_wheel.beyond_armv8_0(listing("nop", instruction, "ret"))) == 1


@pytest.mark.parametrize("instruction", ALLOWED)
def test_what_every_aarch64_has_is_let_pass(instruction: str) -> None:
    assert check_wheel.beyond_armv8_0(listing("cbz\tw16, 10 <f+0x10>", instruction)) == []


def test_the_guard_lets_nothing_but_atomics_pass() -> None:
    assert check_wheel.beyond_armv8_0(listing("cbz\tw16, 10 <f>", "udot\tv0.4s, v1.16b, v2.16b")) != []


def test_avx_is_found_and_sse_is_let_pass() -> None:
    assert len(check_wheel.beyond_x86_64(listing("vaddpd %ymm0,%ymm1,%ymm2", "vzeroupper"))) == 2
    assert check_wheel.beyond_x86_64(listing("addpd  %xmm0,%xmm1", "verr   %ax")) == []
