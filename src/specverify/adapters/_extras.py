"""Import of what only an extra brings, with a message that says how to get it; and the CPUs it may use."""

import os
from importlib import import_module
from typing import Any

# Module to the extra of pyproject.toml and the packages in it.
_EXTRAS = {
    "llama_cpp": ("llama", "llama-cpp-python"),
    "torch": ("transformers", "torch transformers"),
    "transformers": ("transformers", "torch transformers"),
}


def require(module: str) -> Any:
    """Import a module of an extra.

    Raises
    ------
    ImportError
        It is missing; the message names the extra and its packages.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        extra, packages = _EXTRAS[module]
        raise ImportError(
            f"{module} is missing: install this package with its extra [{extra}], or: pip install {packages}",
            name=module,
        ) from None


def usable_cpus() -> int:
    """Count the CPUs that this process may use: on a machine that is shared, fewer than it has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
