"""What a figure depends on: processor, caches, system, Python, NumPy, compiler and flags. Measures nothing."""

import os
import platform
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__, _isa

_WITHOUT_CACHE_SIZE = 32 << 20  # bytes to assume where the system does not tell the size of its cache
_ARM_CORES = {"0xd03": "Cortex-A53", "0xd08": "Cortex-A72", "0xd0b": "Cortex-A76", "0xd0c": "Neoverse-N1"}


def describe() -> dict[str, Any]:
    """Tell what a figure depends on: processor, system, Python, NumPy, compiler and flags, variant in use."""
    compiler, flags = _build_of_kernels()
    return {
        "specverify": __version__,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "cache_bytes": cache_bytes(),
        "os": f"{_os_name()}, {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "compiler": compiler,
        "flags": flags,
        "variant": _isa.active_isa(),
        "variants": list(_isa.available_isas()),
    }


def cpu_name(root: Path = Path("/")) -> str:
    """Name the board, where there is one, and the processor."""
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name", "")
    if "cpu family" in fields:
        name += f" (family {fields['cpu family']}, model {fields.get('model', '?')})"
    elif "CPU part" in fields:
        name = _ARM_CORES.get(fields["CPU part"], f"ARM part {fields['CPU part']}")
    board = root / "proc/device-tree/model"
    if board.is_file():
        model = board.read_text().strip("\0\n ")
        name = f"{model} ({name})" if name else model
    return name or platform.machine()


def cache_bytes(root: Path = Path("/")) -> int:
    """Size of the largest cache."""
    sizes = [
        int(match[1]) * {"K": 1 << 10, "M": 1 << 20, "": 1}[match[2]]
        for size in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*/size")
        if (match := re.fullmatch(r"(\d+)([KM]?)", size.read_text().strip()))
    ]
    return max(sizes, default=_WITHOUT_CACHE_SIZE)


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _build_of_kernels() -> tuple[str, str]:
    """Read compiler and flags out of the module of the variant in use; a stripped module has lost its flags."""
    spec = find_spec(f"{__package__}._kernels_{_isa.active_isa().replace('-', '_')}")
    content = Path(spec.origin).read_bytes() if spec and spec.origin else b""
    compiler = re.search(rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+", content)
    flags = re.search(rb"(?<=GNU C\d\d ).+?(?=\0)", content)
    return (
        compiler[0].decode() if compiler else "not recorded",
        flags[0].decode().partition(" ")[2] if flags else "not recorded",
    )
