"""The command ``specverify``: parse, call, print. Nothing is computed here.

One module holds one command: ``add(subparsers)`` declares its options and sets ``run``, which takes the parsed options
and returns the exit code: 0, or 1 when a check failed. A new command is a new module in ``_COMMANDS``. Shared:
_options.py (option types), _failure.py (what cannot be done, in a line), _json.py (results for programs), _terminal.py
(colour, bars, marked text), _progress.py (work that takes long); of ``generate``, _shown.py (text and summary); of
``generate`` and ``cost``, _cost_table.py.
"""

import argparse
import os
import sys
from collections.abc import Sequence

import specverify

from . import bench, cost, demo, generate, law, run, sweep, verify

_COMMANDS = (demo, generate, verify, run, sweep, law, cost, bench)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="specverify", description="The verification step of speculative decoding on CPUs."
    )
    parser.add_argument("--version", action="version", version=_version())
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add(subparsers)
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader, `head` for one, has seen enough. Python would complain again when it closes the stream at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def _version() -> str:
    available = ", ".join(specverify.available_isas())
    return f"specverify {specverify.__version__} ({specverify.active_isa()} in use; available: {available})"
