#!/bin/bash
# Make what is published: the sdist, and from it the wheels for x86-64 and aarch64. Then check and try every one.
#
# The release workflow builds the wheels for all Pythons on native machines; this is the same for the Python at hand, and
# for aarch64 the two of Raspberry Pi OS. Results are in wheelhouse/.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/arm64.sh
work=$PWD/.work/wheels
wheelhouse=$PWD/wheelhouse

step "environment"
install_native_tools
install_cross_tools
make_build_venv
mkdir -p "$work"
rm -rf "$wheelhouse"

step "sdist"
sdist=$(make_sdist "$ARM64_WORK/venv" "$wheelhouse")
echo "$(basename "$sdist"): $(($(stat -c %s "$sdist") / 1000)) kB"

step "x86-64 wheel, from the sdist"
rm -rf "$work/raw"
# LDSHARED keeps the Python's own link flags, with its library folders, out of the modules; -s strips them.
env CC=gcc LDSHARED="gcc -shared" LDFLAGS=-Wl,-s "$ARM64_WORK/venv/bin/python" -m pip --quiet \
    --disable-pip-version-check wheel --no-deps --wheel-dir "$work/raw" "$sdist"
repair "$work/raw" "$wheelhouse"

for version in "${!ARM64_SUITE[@]}"; do
    step "aarch64 wheel for Python $version, from the sdist"
    cross_wheel "$version" "$sdist" "$wheelhouse" >/dev/null
done

step "check"
"$PYTHON" tools/check_wheel.py "$wheelhouse"/*.whl

step "try the x86-64 wheel: fresh environment, no program but Python on PATH"
rm -rf "$work/fresh" "$work/empty"
mkdir "$work/empty"
make_venv "$work/fresh"
PATH=$work/empty pip_of "$work/fresh" install --only-binary=:all: "$wheelhouse"/*x86_64.whl
PATH=$work/empty "$work/fresh/bin/python" -I -W error tools/try_wheel.py README.md

for version in "${!ARM64_SUITE[@]}"; do
    step "try the aarch64 wheel for Python $version, emulated"
    rm -rf "$work/installed-$version"
    arm64_pip "$version" "$work/installed-$version" --only-binary=:all: "$wheelhouse"/*-"cp${version/./}"-*aarch64.whl
    PYTHONPATH=$work/installed-$version emulate "$version" cortex-a72 "/usr/bin/python$version" -W error \
        tools/try_wheel.py README.md
done

step "the sdist on its own: built with the compiler's defaults, and its tests"
rm -rf "$work/unpacked" "$work/own"
mkdir "$work/unpacked"
tar -x -C "$work/unpacked" --strip-components=1 -f "$sdist"
make_venv "$work/own"
pip_of "$work/own" install "${sdist}[test]"
(cd "$work/unpacked" && "$work/own/bin/python" -m pytest -q -p no:cacheprovider -m "not statistical")

step "done"
