"""The command ``specverify``: parse, call, print. Nothing is computed here.

One module holds one command: ``add(subparsers)`` declares its options and sets ``run``, which takes the parsed options
and returns the exit code. A new command is a new module in ``_COMMANDS``. Exit codes:

- 0: done, and what was checked holds.
- 1: a check failed; for ``generate --compare``, another text than plain decoding's.
- 2: it cannot be done: wrong options, something missing, a file or standard stream that cannot be read or written. One
  line on the standard error says what; argparse puts the usage before it.
- 130, 141: ended by Ctrl-C, or since nobody reads the output on: 128 + the signal, as a shell counts.

Shared: _options.py (option types), _failure.py (what cannot be done, in a line), _json.py (results for programs),
_terminal.py (colour, bars, marked text), _progress.py (work that takes long); of ``generate``, _shown.py (text and
summary); of ``generate`` and ``cost``, _cost_table.py.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stderr

import specverify

from . import bench, cost, demo, generate, law, run, sweep, verify
from ._failure import abandon, fail, settle

_COMMANDS = (demo, generate, verify, run, sweep, law, cost, bench)
_INTERRUPTED = 128 + 2  # SIGINT
_BROKEN_PIPE = 128 + 13  # SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="specverify", description="The verification step of speculative decoding on CPUs."
    )
    parser.add_argument("--version", action="version", version=_version())
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add(subparsers)
    with ExitStack() as opened:
        if sys.stderr is None:  # closed by the caller: print would take the standard output instead
            opened.enter_context(redirect_stderr(opened.enter_context(open(os.devnull, "w", encoding="utf-8"))))
        opened.callback(settle, sys.stderr)
        if sys.stdout is None:
            return fail(OSError("standard output: expected an open stream, got a closed one"))
        try:
            return _run(parser, arguments)
        except BrokenPipeError:  # the reader, `head` for one, has seen enough
            abandon(sys.stdout)
            return _BROKEN_PIPE
        except OSError as error:
            return fail(_of_output(error))
        except KeyboardInterrupt:
            return _INTERRUPTED


def _run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run the command, and see that what it wrote arrives, be it a text of help."""
    try:
        options = parser.parse_args(arguments)
        code: int = options.run(options)
        return code
    finally:
        sys.stdout.flush()


def _of_output(error: OSError) -> OSError:
    """Name the standard output in an error of its own: what could not be written is still there to be written."""
    try:
        sys.stdout.flush()
    except OSError as again:
        abandon(sys.stdout)
        return OSError(f"standard output: expected to write to it, got: {again.strerror}")
    return error


def _version() -> str:
    available = ", ".join(specverify.available_isas())
    return f"specverify {specverify.__version__} ({specverify.active_isa()} in use; available: {available})"
