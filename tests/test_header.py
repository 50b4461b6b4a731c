"""Programs in C, C++ and Cython reach the kernels through the header, without Python's lock, and get the same result.

The programs are in programs/; they are compiled with the compiler that CC and CXX name, or else sysconfig, all
warnings being errors.
"""

import importlib.machinery
import importlib.util
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig

import helpers
import numpy as np
import pytest

import specverify
from specverify import _core, reference
from specverify.reference import sums
from specverify.reference.warp import power_of_two

PROGRAMS = pathlib.Path(__file__).parent / "programs"
PYTHON_INCLUDES = [f"-isystem{sysconfig.get_path(name)}" for name in ("include", "platinclude")]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def compiler(variable: str) -> list[str]:
    command = shlex.split(os.environ.get(variable) or sysconfig.get_config_var(variable) or "")
    if not command or not shutil.which(command[0]):
        pytest.skip(f"no {variable} compiler here")
    return command


pytestmark = pytest.mark.spawns

TOKEN, BLOCK, GREEDY = 0, 1, 2  # the rules of in_c
NO_LOGITS = -1.0


def build(command: list[str], source: pathlib.Path, folder: pathlib.Path, *options: str):
    """Compile one source file to an extension module and import it."""
    name = source.stem
    library = folder / f"{name}{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    includes = [*PYTHON_INCLUDES, f"-I{specverify.get_include()}"]
    subprocess.run(
        [*command, "-O2", "-shared", "-fPIC", "-pthread", *options, *includes, source, "-o", library], check=True
    )
    spec = importlib.util.spec_from_file_location(name, library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def in_c(tmp_path_factory):
    return build(compiler("CC"), PROGRAMS / "in_c.c", tmp_path_factory.mktemp("c"), "-std=c11", *WARNINGS)


@pytest.fixture(scope="module")
def in_cpp(tmp_path_factory):
    return build(compiler("CXX"), PROGRAMS / "in_cpp.cpp", tmp_path_factory.mktemp("cpp"), "-std=c++17", *WARNINGS)


@pytest.fixture(scope="module")
def in_cython(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cython")
    generated = folder / "in_cython.c"
    command = [sys.executable, "-m", "cython", "-3", PROGRAMS / "in_cython.pyx", "-o", generated]
    subprocess.run(command, check=True)
    return build(compiler("CC"), generated, folder, "-O0")  # its speed is not tested


def a_round(kind: str, position: int):
    rows = helpers.rows_of_kind(kind, 5000)
    tokens, uniforms = helpers.round_ending_at(rows, position, normalized=False)
    return *rows, np.array(tokens, np.int64), np.array([*uniforms, 0.4])


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("kind", ["dense", "none"])
@pytest.mark.parametrize("normalized", [False, True])
def test_c_in_a_thread(in_c, isa, kind, position, normalized):
    arguments = a_round(kind, position)
    expected = specverify.verify_sampled(*arguments, normalized=normalized)
    assert in_c.run(*arguments, 3, 5000, normalized, TOKEN, NO_LOGITS) == (*expected, 0, -1)


@pytest.mark.parametrize("kind", ["dense", "none"])
def test_c_block_and_logits(in_c, isa, kind):
    target, draft, tokens, uniforms = a_round(kind, 2)
    expected = specverify.verify_block(target, draft, tokens, uniforms)
    assert in_c.run(target, draft, tokens, uniforms, 3, 5000, False, BLOCK, NO_LOGITS) == (*expected, 0, -1)
    target, draft = target * 5000, None if draft is None else draft * 5000
    for rule, verify in ((TOKEN, specverify.verify_sampled), (BLOCK, specverify.verify_block)):
        for temperature in (0.0, 0.8):
            sampling = specverify.Sampling(temperature, top_p=0.9)
            expected = verify(target, draft, tokens, uniforms, sampling=sampling)
            got = in_c.run(target, draft, tokens, uniforms, 3, 5000, False, rule, temperature)
            assert got == (*expected, 0, -1)


def test_c_greedy(in_c, isa):
    target, _, _, uniforms = a_round("dense", 3)
    best = target.argmax(1)
    for n_accepted in range(4):
        tokens = best[:3].copy()
        tokens[n_accepted:] = (tokens[n_accepted:] + 1) % 5000
        result = in_c.run(target, None, tokens, uniforms, 3, 5000, False, GREEDY, NO_LOGITS)
        assert result == (n_accepted, best[n_accepted], 0, -1)


def test_c_statuses(in_c, isa):
    """The numbers of sv_status, and where: what Python turns into messages."""
    target, draft, tokens, uniforms = a_round("dense", 3)

    def status(*, rule=TOKEN, normalized=False, **changes):
        given = {"target": target, "draft": draft, "tokens": tokens, "uniforms": uniforms} | changes
        n_accepted, next_token, number, where = in_c.run(*given.values(), 3, 5000, normalized, rule, NO_LOGITS)
        assert (n_accepted, next_token) == (-1, -1)
        return number, where

    def with_entry(array, index, value):
        changed = array.copy()
        changed[index] = value
        return changed

    assert status(tokens=with_entry(tokens, 1, 5000)) == (1, 1)
    assert status(tokens=with_entry(tokens, 2, -1), rule=GREEDY) == (1, 2)
    assert status(uniforms=with_entry(uniforms, 3, 1.0)) == (2, 3)
    assert status(target=with_entry(target, (2, 77), np.nan)) == (3, 2)
    assert status(target=with_entry(target, (0, 77), np.inf), rule=GREEDY) == (3, 0)
    assert status(draft=with_entry(draft, (1, 77), -1)) == (4, 1)
    rejected = {"tokens": with_entry(tokens, 0, int((draft[0] - target[0]).argmax())), "normalized": True}
    rejected["uniforms"] = with_entry(uniforms, 0, helpers.ALMOST_ONE)
    other = int((target[0] - draft[0]).argmax())
    assert status(**rejected, draft=with_entry(draft, (0, other), np.nan)) == (4, 0)


@pytest.mark.parametrize("size", [1, 17, 256, 5000])
def test_cpp_calls_the_row_loops(in_cpp, isa, size):
    target, draft = helpers.rows_of_kind("dense", size, k=1)
    found_isa, mass, residual, piece, argmax, weights, top = in_cpp.run(target[0], draft[0], 0.75)
    assert found_isa == specverify.active_isa() == isa
    assert [mass] == _core.row_masses(target[:1])
    assert residual == _core.residual_mass(target[:1], draft, 0.75)
    assert piece == reference.lane_sum(target[0, :256].astype(float))
    assert argmax == target[0].argmax()
    assert weights == power_of_two(target[0], np.float32(1.5), np.float32(0.75)).tobytes()
    assert top == target[0].max().view(np.int32)  # keys of numbers that are not negative are their bits


@pytest.mark.parametrize("position", range(4))
def test_cython_without_the_gil(in_cython, isa, position):
    arguments = a_round("dense", position)
    addresses = [array.ctypes.data for array in arguments]
    assert in_cython.run(*addresses, 3, 5000) == (*specverify.verify_sampled(*arguments), 0, -1)


@pytest.mark.parametrize(("variable", "language", "standard"), [("CC", "c", "c11"), ("CXX", "c++", "c++17")])
def test_the_header_stands_alone(tmp_path, variable, language, standard):
    """Without Python.h it still declares everything but the import; no warning in either language."""
    command = [*compiler(variable), "-x", language, f"-std={standard}", *WARNINGS, f"-I{specverify.get_include()}"]
    subprocess.run([*command, PROGRAMS / "alone.c", "-o", tmp_path / "alone"], check=True)


def test_the_constants_of_header_and_reference_agree():
    text = (pathlib.Path(specverify.get_include()) / "specverify" / "kernels.h").read_text()
    for name in ("LANES", "BLOCK", "MAX_GROUPS", "PIECE"):
        assert f"#define SV_{name} {getattr(sums, name)} " in text
