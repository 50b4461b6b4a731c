"""Import of what only an extra brings, with a message that says how to get it."""

from importlib import import_module
from typing import Any

# Module to the extra of pyproject.toml and the packages in it.
_EXTRAS = {
    "llama_cpp": ("llama", "llama-cpp-python"),
    "torch": ("transformers", "torch transformers"),
    "transformers": ("transformers", "torch transformers"),
}


def require(module: str) -> Any:
    """Import a module of an extra, or one within it.

    Raises
    ------
    ImportError
        It is missing; the message names the extra and its packages.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        extra, packages = _EXTRAS[package]
        raise ImportError(
            f"{package} is missing: install this package with its extra [{extra}], or: pip install {packages}",
            name=package,
        ) from None
