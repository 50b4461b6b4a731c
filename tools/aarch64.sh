#!/bin/bash
# Cross-build the aarch64 wheels and run the test suite under emulation, as a Raspberry Pi 4 and a Raspberry Pi 5 would.
#
# From a clean x86-64 Debian machine with Python 3.11 or newer; how, see arm64.sh. Left out are only tests marked
# `statistical`: what they prove about the law is proved here by equal bits (tests/test_golden.py).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/arm64.sh

step "Debian packages"
install_cross_tools
mkdir -p "$ARM64_WORK"

step "build environment and sdist"
make_build_venv
sdist=$(make_sdist "$ARM64_WORK/venv" "$ARM64_WORK/sdist")
mapfile -t test_requirements < <(requirements project dependencies && requirements project optional-dependencies test)
test_requirements+=(pytest-xdist)

prepare() { # Python version: its Debian, its packages, and this one cross-built
    local root wheel site=$ARM64_WORK/site-$1 installed=$ARM64_WORK/installed-$1
    step "Python $1: arm64 Debian ${ARM64_SUITE[$1]}"
    root=$(arm64_root "$1")

    step "Python $1: arm64 NumPy and test requirements"
    if [ "$(cat "$site.complete" 2>/dev/null)" != "${test_requirements[*]}" ]; then
        rm -rf "$site"
        arm64_pip "$1" "$site" "${test_requirements[@]}"
        echo "${test_requirements[*]}" >"$site.complete"
    fi
    same_numpy_sizes "$site"

    step "Python $1: cross build"
    # Not stripped, unlike what is published (wheels.sh): tests/test_assembly.py finds the loops by their names.
    wheel=$(STRIP='' cross_wheel "$1" "$sdist" "$ARM64_WORK/wheelhouse")
    "$PYTHON" tools/check_wheel.py --with-symbols "$wheel"
    rm -rf "$installed"
    arm64_pip "$1" "$installed" --no-deps "$wheel"
}

run_on() { # Python version, CPU model of the emulator, the variant that must be in use there: a process of its own
    local site=$ARM64_WORK/site-$1 installed=$ARM64_WORK/installed-$1
    # For tests that build or read machine code with programs of the host, which the emulator starts as they are.
    # The arm64 Python itself names aarch64-linux-gnu-gcc as its compiler.
    export SPECVERIFY_OBJDUMP=aarch64-linux-gnu-objdump CPATH=$ARM64_WORK/build-$1/include
    export SPECVERIFY_TEST_EXAMPLES=12 OPENBLAS_NUM_THREADS=1
    export PYTHONPATH=$installed:$site PYTHONPYCACHEPREFIX=$ARM64_WORK/pycache PYTHONDONTWRITEBYTECODE=

    emulate "$1" "$2" "/usr/bin/python$1" -c "
import specverify
print('in use:', specverify.active_isa(), ' available:', *specverify.available_isas())
assert specverify.active_isa() == '$3', specverify.active_isa()"

    local TIMEFORMAT='CPU seconds: %U, and %S in the kernel'
    time emulate "$1" "$2" "/usr/bin/python$1" -m pytest -q -p no:cacheprovider --assert=plain -m "not statistical" \
        "${workers[@]}" "${pytest_args[@]}"
}

same_numpy_sizes() { # The build used the host's NumPy headers: true if the sizes in them are the target's.
    diff <(sizes "$("$ARM64_WORK/venv/bin/python" -c 'import numpy; print(numpy.get_include())')") \
        <(sizes "$1/numpy/_core/include")
}
sizes() { grep -h SIZEOF "$1/numpy/_numpyconfig.h"; }

pytest_args=("$@")
# Emulated, a suite takes eight times as long as here, so every core helps. Both at once need no second process for
# either on two cores, which would import, collect and make the inputs anew; on more cores, pytest-xdist shares them out.
# --assert=plain: rewriting the assertions of all test files takes longer than most of them.
workers=(-p no:xdist)
[ "$(nproc)" -lt 4 ] || workers=(--numprocesses "$(($(nproc) / 2))")

machines=("3.11 cortex-a72 generic" "3.13 cortex-a76 cortex-a76")
for machine in "${machines[@]}"; do
    prepare "${machine%% *}"
done
step "both test suites"
runs=() failed=0
for machine in "${machines[@]}"; do
    # shellcheck disable=SC2086  # three words
    run_on $machine >"$ARM64_WORK/suite-${machine%% *}.log" 2>&1 &
    runs+=($!)
done
for i in "${!machines[@]}"; do
    wait "${runs[i]}" || failed=1
    step "Python ${machines[i]}"
    cat "$ARM64_WORK/suite-${machines[i]%% *}.log"
done
[ "$failed" = 0 ] || { echo "error: a test failed under emulation, see above" >&2; exit 1; }
step "done"
