"""Which compiled variant of the row loops is in use.

Holds the list of variants, the choice at import and its override by the environment variable ``SPECVERIFY_ISA``.
What a CPU can run is asked in ``_cpu.h``; the loops are in ``_kernels.pxi``. All variants give the same bits.
"""

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Iterator

from . import _core

# Best first. A wheel holds those of its architecture.
_MODULES = {
    "x86-64-v4": "_kernels_x86_64_v4",
    "x86-64-v3": "_kernels_x86_64_v3",
    "cortex-a76": "_kernels_cortex_a76",
    "generic": "_kernels_generic",
}


def available_isas() -> tuple[str, ...]:
    """Name the variants that this build has and this CPU runs, the preferred one first.

    Returns
    -------
    tuple of str
        What ``SPECVERIFY_ISA`` may be set to. The last one is always ``"generic"``.
    """
    return tuple(
        isa
        for isa, module in _MODULES.items()
        if importlib.util.find_spec(f"{__package__}.{module}") and _core.cpu_runs(isa)
    )


def active_isa() -> str:
    """Name the variant in use, which changes speed and never a result.

    Returns
    -------
    str
        ``"generic"``, ``"x86-64-v3"``, ``"x86-64-v4"`` or ``"cortex-a76"``.
    """
    return _core.kernels_in_use()


def select(isa: str) -> None:
    """Use this variant from now on. Its module is imported only here: on another CPU that could be fatal."""
    valid = available_isas()
    if isa not in valid:
        raise ImportError(f"SPECVERIFY_ISA: expected one of {', '.join(valid)} on this machine, got {isa!r}")
    _core.use_kernels(importlib.import_module(f"{__package__}.{_MODULES[isa]}").KERNELS)


@contextlib.contextmanager
def using(isa: str) -> Iterator[None]:
    """Use a variant inside a ``with`` block; in every thread, so this is for tests and proofs."""
    before = active_isa()
    select(isa)
    try:
        yield
    finally:
        select(before)


def select_at_import() -> None:
    """Take what ``SPECVERIFY_ISA`` names, else the best that this CPU runs."""
    select(os.environ.get("SPECVERIFY_ISA") or available_isas()[0])
