#!/bin/sh
# Draws the figures of docs/figures.md. Takes a minute.
set -eu
cd "$(dirname "$0")/.."
: "${PYTHON:?the Python of an environment with specverify and matplotlib installed; make figures sets it}"

"$PYTHON" -m specverify sweep --tokens 20000 --agreement 0 0.4 0.7 0.9 1 --plot docs/sweep.svg >/dev/null
"$PYTHON" -m specverify law --rounds 6000 --plot docs/lengths.svg >/dev/null
"$PYTHON" -c 'import pathlib, specverify.figures as f; print(f.draw_emitted(pathlib.Path("docs/emitted.svg")))'
