"""specverify: the verification step of speculative decoding on CPUs, exact and at the speed of memory.

Start with :func:`verify_sampled` and :func:`verify_greedy` (verify.py); :mod:`specverify.reference` is the same in
plain NumPy, the executable specification.
"""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from pathlib import Path as _Path
from typing import Any as _Any

from . import _isa
from ._isa import active_isa, available_isas
from ._result import BatchVerdict, Detail, Verdict
from .decoder import SpeculativeDecoder
from .draft_length import AdaptiveDraftLength
from .draws import probabilities, sample
from .rows import SparseRows
from .sampling import Sampling
from .verify import verify_block, verify_greedy, verify_sampled

_isa.select_at_import()

__version__ = _version("specverify")
__all__ = [
    "AdaptiveDraftLength",
    "BatchVerdict",
    "Detail",
    "Sampling",
    "SparseRows",
    "SpeculativeDecoder",
    "Verdict",
    "active_isa",
    "available_isas",
    "get_include",
    "probabilities",
    "sample",
    "verify_block",
    "verify_greedy",
    "verify_sampled",
]


def __getattr__(name: str) -> _Any:
    """Import the submodules that a README names when they are first used."""
    if name in ("adapters", "conformance", "cost", "drafts", "proof", "reference", "simulate"):
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def get_include() -> str:
    """Name the folder to pass to a C, C++ or Cython compiler for ``#include <specverify/kernels.h>``.

    Returns
    -------
    str
        An absolute path, for ``-I``.
    """
    package = _Path(__file__).parent
    installed = package / "include"
    return str(installed if installed.is_dir() else package.parents[1] / "include")  # the latter in a source tree
