"""The shipped loops are vectorised and hold no fused multiply-add: read in the machine code itself.

A compiler drops a vector form without a word when a line of a loop changes shape, and contracts a multiplication and an
addition by default; the first costs the speed, the second the bits. The environment variable SPECVERIFY_OBJDUMP, or
OBJDUMP, names another objdump.
"""

import functools
import itertools
import os
import pathlib
import re
import shutil
import subprocess

import disassembly
import pytest

import specverify

PACKAGE = pathlib.Path(specverify.__file__).parent
KERNEL_MODULES = sorted(PACKAGE.glob("_kernels_*.so"))
COMPILED = sorted(PACKAGE.glob("_*.so"))
by_module = functools.partial(pytest.mark.parametrize, "module", ids=lambda path: path.name.split(".")[0])

# Instructions that tell what a vector loop does, x86-64 (without the AVX prefix) or aarch64. Of integers the maximum is
# one instruction from SSE4.1 on, a comparison and a selection before; GCC writes an equality to zero as cmeq or cmtst.
ADD = r"addpd|fadd"
CONVERT = r"cvtps2pd|fcvtl2?"
MAXIMUM = r"pmax[us]d|pcmpgtd|[us]max|cmhi|cmgt|cmhs|cmge"
MINIMUM = r"pmin[us]d|pcmpgtd|[us]min|cmhi|cmgt|cmhs|cmge"
EQUALITY = r"pcmpeqd|cmeq|cmtst"
ADD_SINGLE = r"addps|fadd"
SUBTRACT_SINGLE = r"subps|fsub"
MULTIPLY_SINGLE = r"mulps|fmul"
COMPARE_SINGLE = r"cmp\w*ps|fcm(ge|gt|eq|le|lt)"
SHIFT = r"p(sll|sra)[dw]|punpck[lh]wd|[us]?sh(l|r|ll)2?"  # a zero beside 16 bits is a shift too
AND = r"p?and(ps|d|n|nps)?|pblendvb|blendvps|p?blendm(d|ps)|bsl|bit|bif"  # or a selection
EXCLUSIVE_OR = r"pxor|xorps|pternlogd|eor"

UNROLLED = EQUALITY  # holds() always has the same trip count, of which AVX-512 leaves no loop at all

EXPECTED = {
    "whole_mass": [ADD, CONVERT],
    "piece_mass": [ADD, CONVERT],
    "piece_residual": [ADD, CONVERT, r"mulpd|fmul", r"subpd|fsub", r"maxpd|fmaxnm"],
    "top_bits": [MAXIMUM],
    "tops": [MAXIMUM],
    "holds": [EQUALITY],
    "lowest_bits": [MINIMUM],
    "copy": [ADD_SINGLE],
    "widen_float16": [ADD_SINGLE, MULTIPLY_SINGLE, SHIFT],
    "widen_bfloat16": [ADD_SINGLE, SHIFT],
    "add_bias": [ADD_SINGLE],
    "apply_mask": [AND],
    "weigh": [ADD_SINGLE, MULTIPLY_SINGLE, SUBTRACT_SINGLE, SHIFT, COMPARE_SINGLE],
    "keep": [COMPARE_SINGLE, AND],
    "quarter_keys": [EXCLUSIVE_OR, MAXIMUM],
    "highest": [MAXIMUM],
    "pair_tops": [MAXIMUM],
    "top_key": [EXCLUSIVE_OR, MAXIMUM],
}
# What may be left in a loop: counters, pointers, the jump.
MOST_OTHERS = 6
# On aarch64 whole_mass collects signs in general registers, for which see src/specverify/_tuning.h: four loads of two
# words and eight operations.
SIGN_WORDS = {"whole_mass": 12}
# A step of 64 entries, in which it is asked whether the arrays overlap.
LONG_STEPS = {"quarter_keys": 10}
LANES = 16
# One vector holds two float64 (SSE2, NEON), four (AVX2) or eight (AVX-512): that many additions do 16 lanes.
ADDITIONS_PER_STEP = {"zmm": 2, "ymm": 4, "": 8}


@functools.cache
def disassemble(path: pathlib.Path) -> str:
    objdump = os.environ.get("SPECVERIFY_OBJDUMP") or os.environ.get("OBJDUMP") or "objdump"
    if not shutil.which(objdump):
        pytest.skip(f"no {objdump} here; SPECVERIFY_OBJDUMP may name another")
    done = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=False)
    if "UNKNOWN" in done.stderr or "can't disassemble" in done.stderr:
        pytest.skip("this objdump does not know the architecture of the modules")
    assert done.returncode == 0, done.stderr
    return done.stdout


def find_function(text: str, name: str) -> list[disassembly.Instruction]:
    """Cython's mangled name ends in the function's; GCC may add .constprop or .isra.

    Of a stripped module everything is given: then some loop of it must be as expected, and the exact test is left to
    builds that kept their names.
    """
    bodies = disassembly.functions(text)
    if not any(symbol.startswith("__pyx_") for symbol in bodies):
        return [instruction for body in bodies.values() for instruction in body]
    module = r"__pyx_f_\d+specverify_\d+_kernels_(generic|x86_64_v[34]|cortex_a76)"
    found = [symbol for symbol in bodies if re.fullmatch(rf"{module}_{name}(\.(constprop|isra)\.\d+)*", symbol)]
    assert len(found) == 1, f"{name}: expected one function, got {found}"
    return bodies[found[0]]


def why_not_vectorised(
    body: list[disassembly.Instruction], expected: list[str], most_others: int = MOST_OTHERS
) -> str | None:
    """None if one innermost loop does everything that is expected on vectors, else what is missing."""
    loops = disassembly.innermost_loops(body)
    if not loops and UNROLLED in expected:
        loops = [body]
    if not loops:
        return "it has no loop"
    reasons = []
    for loop in loops:
        packed, others = disassembly.names(loop, packed=True), disassembly.names(loop, packed=False)
        missing = [pattern for pattern in expected if not any(re.fullmatch(pattern, name) for name in packed)]
        if missing:
            reasons.append(f"no {missing[0]} on vectors")
        elif others.total() > most_others:
            reasons.append(f"{others.total()} instructions of a loop do not work on vectors")
        elif ADD in expected and additions(packed) != additions_per_step(loop):
            reasons.append(f"{additions(packed)} vector additions for {LANES} lanes")
        else:
            return None
    return "; ".join(reasons)


def additions_per_step(loop: list[disassembly.Instruction]) -> int:
    return next(n for register, n in ADDITIONS_PER_STEP.items() if any(register in x.operands for x in loop))


def additions(packed) -> int:
    return sum(count for name, count in packed.items() if re.fullmatch(ADD, name))


def test_there_is_a_module_for_every_variant():
    assert len(KERNEL_MODULES) >= len(specverify.available_isas())


@pytest.mark.spawns
@by_module(KERNEL_MODULES)
@pytest.mark.parametrize("name", EXPECTED)
def test_the_inner_loop_is_vectorised(module, name):
    body = find_function(disassemble(module), name)
    signs = SIGN_WORDS.get(name, 0) if any(x.name == "fcvtl" for x in body) else 0
    assert why_not_vectorised(body, EXPECTED[name], MOST_OTHERS + signs + LONG_STEPS.get(name, 0)) is None


@pytest.mark.spawns
@by_module(COMPILED)
def test_nothing_is_fused(module):
    assert disassembly.fused(disassemble(module)) == []


@pytest.mark.spawns
@by_module([path for path in COMPILED if not re.match(r"_kernels_(x86_64_v[34]|cortex_a76)", path.name)])
def test_portable_modules_hold_nothing_that_an_old_machine_lacks(module):
    """AVX on x86-64; on aarch64 the atomics, dot products and half precision that came after ARMv8.0-A.

    But for the compiler's outline atomics, which ask what the machine has in the instruction before: ``cbz w16``.
    """
    newer = re.compile(
        r"^(v[a-z]\w+|(ld|st)(add|clr|set|eor|[su]max|[su]min)(a|l|al)?[bh]?|(cas|swp)(a|l|al)?[bhp]?|[su]dot|sqrdml[as]h)$"
    )
    wrong = [
        instruction
        for body in disassembly.functions(disassemble(module)).values()
        for before, instruction in itertools.pairwise([body[0], *body])
        if newer.match(instruction.name) and not (before.name == "cbz" and before.operands.startswith("w16"))
    ]
    assert wrong == []


X86_VECTOR = """
0000000000001000 <__pyx_f_kernels_generic_piece_mass>:
    1000:\tmovups (%rdi),%xmm0
    1004:\tcvtps2pd (%rdi),%xmm1
    1008:\taddpd  %xmm1,%xmm2
    100c:\taddpd  %xmm1,%xmm3
    1010:\taddpd  %xmm1,%xmm4
    1014:\taddpd  %xmm1,%xmm5
    1018:\taddpd  %xmm1,%xmm6
    101c:\taddpd  %xmm1,%xmm7
    1020:\taddpd  %xmm1,%xmm8
    1024:\taddpd  %xmm1,%xmm9
    1028:\tcmp    %rax,%rdi
    102c:\tjne    1000 <__pyx_f_kernels_generic_piece_mass>
    1030:\tret
"""
X86_SCALAR = """
0000000000001000 <__pyx_f_kernels_generic_piece_mass>:
    1000:\tmovss  (%rdi),%xmm0
    1004:\tcvtss2sd %xmm0,%xmm0
    1008:\taddsd  %xmm0,%xmm1
    100c:\tcmp    %rax,%rdi
    1010:\tjne    1000 <__pyx_f_kernels_generic_piece_mass>
    1014:\taddpd  %xmm1,%xmm2
    1018:\tret
"""
AARCH64 = """
0000000000001000 <__pyx_f_kernels_generic_piece_mass>:
    1000:\tldr\tq0, [x0], #16
    1004:\tfcvtl\tv1.2d, v0.2s
    1008:\tfcvtl2\tv0.2d, v0.4s
    100c:\tfadd\tv2.2d, v2.2d, v1.2d
    1010:\tfadd\tv3.2d, v3.2d, v0.2d
    1014:\tcmp\tx0, x1
    1018:\tb.ne\t1000 <__pyx_f_kernels_generic_piece_mass>  // b.any
    101c:\tret
"""
NAME = "__pyx_f_kernels_generic_piece_mass"


def test_the_reader_tells_vectors_from_scalars():
    assert why_not_vectorised(disassembly.functions(X86_VECTOR)[NAME], [ADD, CONVERT]) is None
    assert "no addpd" in why_not_vectorised(disassembly.functions(X86_SCALAR)[NAME], [ADD, CONVERT])
    assert why_not_vectorised(disassembly.functions(X86_VECTOR)[NAME], [ADD, CONVERT, r"mulpd|fmul"]).startswith(
        "no mul"
    )
    aarch64 = disassembly.functions(AARCH64)[NAME]
    assert disassembly.names(disassembly.innermost_loops(aarch64)[0], packed=False) == {"cmp": 1, "b.ne": 1}
    assert why_not_vectorised(aarch64, [ADD, CONVERT]) == "2 vector additions for 16 lanes"
    assert why_not_vectorised(aarch64[-1:], [ADD]) == "it has no loop"


def test_the_reader_knows_vector_instructions_that_look_scalar():
    def packed(name, operands):
        return disassembly.is_packed(disassembly.Instruction(0, name, operands))

    assert packed("vpmaxsd", "(%rdi),%ymm1,%ymm1")
    assert packed("maxpd", "%xmm0,%xmm1")
    assert not packed("maxsd", "%xmm0,%xmm1")
    assert not packed("vcvtss2sd", "%xmm0,%xmm0,%xmm1")
    assert not packed("mov", "%rax,%rbx")
    assert packed("ldp", "q0, q1, [x0]")
    assert not packed("fadd", "d0, d1, d2")


@pytest.mark.parametrize(
    "line",
    [
        *("vfmadd231pd %ymm0,%ymm1,%ymm2", "vfnmadd132sd %xmm0,%xmm1,%xmm2", "vfmsub213ps %xmm0,%xmm1,%xmm2"),
        *("fmadd\td0, d1, d2, d3", "fnmsub\td0, d1, d2, d3", "fmla\tv0.2d, v1.2d, v2.2d", "fmls\tv0.2d, v1.2d, v2.2d"),
    ],
)
def test_the_reader_finds_fused_instructions(line):
    assert len(disassembly.fused(f"{X86_SCALAR}    101c:\t{line}\n")) == 1
    assert disassembly.fused(X86_SCALAR + X86_VECTOR + AARCH64) == []
