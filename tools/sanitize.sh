#!/bin/bash
# Builds the extension with AddressSanitizer and UndefinedBehaviorSanitizer and runs the test suite on it: no read or
# write past a row, no misaligned access, no overflow. GCC; `make sanitize` calls it. PYTHON names the interpreter.
# Arguments go to pytest. Left out: tests that draw many rounds, and those that start interpreters and compilers, into
# which the preloaded sanitizer would be carried.
set -euo pipefail
cd "$(dirname "$0")/.."

. tools/lib.sh

work=$PWD/.work/sanitize
venv=$work/venv
mkdir -p "$work"
install_native_tools
make_venv "$venv"

# From a copy, so that no object or library in the source tree is replaced or taken for a sanitized one.
rm -rf "$work/source"
mkdir "$work/source"
tar --create --exclude='*.so' --exclude='src/specverify/*.c' --exclude=__pycache__ --exclude='*.egg-info' \
    src include setup.py pyproject.toml README.md LICENSE | tar --extract --directory "$work/source"
export SPECVERIFY_CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
export SPECVERIFY_LDFLAGS="-fsanitize=address,undefined"
"$venv/bin/python" -m pip uninstall --quiet --yes specverify # or it may be taken for installed already
"$venv/bin/python" -m pip install --quiet --no-cache-dir "$work/source[test]"

# Others that start interpreters, compilers or forks.
skipped=()
for name in bench check_wheel demo docs threads; do
    skipped+=("--ignore=tests/test_$name.py")
done

# The runtimes come first in the process, since the interpreter itself is not sanitized; the C++ one because libasan
# wants to see it before it intercepts exceptions. Leaks: the interpreter's own would be reported.
compiler=${CC:-gcc}
preload=
for library in libasan.so libubsan.so libstdc++.so.6; do
    preload+="$($compiler -print-file-name=$library) "
done

run() {
    LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc \
        "$venv/bin/python" "$@"
}

# Are the sanitizers at work? A view that claims one entry more than its memory has must end the process.
planted='
import numpy, specverify
row = numpy.ones(1000, numpy.float32)
specverify.verify_greedy(numpy.lib.stride_tricks.as_strided(row, (1, 1001), row.strides * 2), [])'
if run -c "$planted" >"$work/planted.log" 2>&1 || ! grep -q heap-buffer-overflow "$work/planted.log"; then
    echo "sanitize.sh: a planted read past a row was not noticed, see $work/planted.log" >&2
    exit 1
fi

# -s: pytest would swallow the report of a sanitizer that ends the process.
run -m pytest -q -s -p no:cacheprovider -m "not statistical and not spawns" tests "${skipped[@]}" "$@"
