# shellcheck shell=bash
# For other scripts to source: what they share in making environments and building from a clean copy of the tree.
#
# Sourced from the root of the repository. Leaves traces only under .work.

shopt -s inherit_errexit # a failure inside $(...) counts too
PYTHON=${PYTHON:-python3}

step() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }

install_debian() { # packages...
    local missing=() package
    for package in "$@"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -q >/dev/null
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-remove --no-install-recommends "${missing[@]}" >/dev/null
}

make_venv() { # folder, packages...
    "$PYTHON" -c 'import ensurepip' 2>/dev/null || install_debian python3-venv
    [ -x "$1/bin/python" ] || "$PYTHON" -m venv "$1"
    pip_of "$1" install --upgrade pip "${@:2}"
}

install_native_tools() { # compilers, and the headers of the Python in use
    { command -v gcc && command -v g++; } >/dev/null || install_debian gcc g++ libc6-dev
    "$PYTHON" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
        install_debian python3-dev
}

pip_of() { # folder of an environment, pip arguments...; without a word unless something fails
    "$1/bin/python" -m pip --quiet --quiet --disable-pip-version-check "${@:2}"
}

requirements() { # table, key...: a list of pyproject.toml
    "$PYTHON" -c '
import functools, sys, tomllib
with open("pyproject.toml", "rb") as file:
    print(*functools.reduce(dict.__getitem__, sys.argv[1:], tomllib.load(file)), sep="\n")' "$@"
}

make_sdist() { # environment with `build` and the build requirements, folder for the sdist; prints the sdist
    local tree=.work/sdist-tree
    rm -rf "$tree" "$2"
    mkdir -p "$tree"
    # A copy, so that neither an earlier build of the tree gets into the sdist nor this one into the tree.
    tar -c --exclude='./.*' --exclude=./build --exclude=./dist --exclude=./wheelhouse --exclude='*.egg-info' \
        --exclude=__pycache__ --exclude='*.so' --exclude='./src/specverify/*.c' . | tar -x -C "$tree"
    "$1/bin/python" -m build --sdist --no-isolation --outdir "$2" "$tree" >"$tree/build.log" 2>&1 ||
        { cat "$tree/build.log" >&2; return 1; }
    ls "$2"/*.tar.gz
}
