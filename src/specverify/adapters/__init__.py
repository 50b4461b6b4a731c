"""Real models for the draft/verify loop: llama.cpp and transformers, one module each, imported when they are used.

Every adapter is a :class:`CachedModel` (_cached.py): rows of logits for a text, of which only new tokens are fed. Holds
no loop (decoder.py), and no framework: importing this package imports neither.
"""

from pathlib import Path
from typing import Literal

from ._cached import CachedModel
from ._steps import DraftModel, TargetModel
from ._stop import until_text
from ._stream import TextStream
from ._vocabulary import check_same_vocabulary

__all__ = [
    "CachedModel",
    "DraftModel",
    "TargetModel",
    "TextStream",
    "check_same_vocabulary",
    "load",
    "until_text",
]


def load(
    path: str | Path,
    *,
    n_ctx: int = 4096,
    n_threads: int | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
) -> CachedModel:
    """Load a model by what its path looks like: a ``.gguf`` file by llama.cpp, a folder by transformers.

    Parameters
    ----------
    path : str or Path
        The file or folder. A folder that holds a single GGUF file is loaded by transformers all the same, its weights
        brought back to `dtype`.
    n_ctx : int
        Most tokens of a text, prompt included; cut to the length that the model was made for.
    n_threads : int, optional
        Threads of a pass; by default all CPUs that this process may use. In torch the number holds for the process.
    dtype : {"float32", "bfloat16"}
        What transformers computes in; llama.cpp takes it from the file.

    Returns
    -------
    CachedModel
        ``as_target()`` and ``as_draft()`` give the steps of a :class:`specverify.SpeculativeDecoder`.

    Raises
    ------
    FileNotFoundError
        There is nothing at `path`.
    ValueError
        It is neither such a folder nor a ``.gguf`` file, or no model that can be used.
    ImportError
        The framework is missing; the message names what to install.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"path: expected a model, got {path}, which does not exist")
    if path.is_dir():
        from . import transformers

        files = [] if (path / "config.json").exists() else sorted(one.name for one in path.glob("*.gguf"))
        if not files and not (path / "config.json").exists():
            raise ValueError(f"path: expected a folder with config.json or one .gguf file, got {path}")
        if len(files) > 1:
            raise ValueError(f"path: expected a folder with one .gguf file, got {', '.join(files)} in {path}")
        return transformers.Model.from_pretrained(
            path, gguf_file=files[0] if files else None, n_ctx=n_ctx, n_threads=n_threads, dtype=dtype
        )
    if path.suffix != ".gguf":
        raise ValueError(f"path: expected a folder (transformers) or a .gguf file (llama.cpp), got {path}")
    from . import llama_cpp

    return llama_cpp.Model(path, n_ctx=n_ctx, n_threads=n_threads)
