#!/bin/bash
# Cross-build the kernel modules with their symbols and write docs/pi.md from their machine code (pi_estimate.py).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/arm64.sh

install_cross_tools
install_debian llvm-19
make_build_venv
sdist=$(make_sdist "$ARM64_WORK/venv" "$ARM64_WORK/sdist")
STRIP='' cross_wheel 3.11 "$sdist" "$ARM64_WORK/unstripped" >/dev/null
rm -rf "$ARM64_WORK/unstripped/modules"
mkdir "$ARM64_WORK/unstripped/modules"
"$PYTHON" -m zipfile -e "$ARM64_WORK"/unstripped/*.whl "$ARM64_WORK/unstripped/modules"
for module in "$ARM64_WORK"/unstripped/modules/specverify/_kernels_*.so; do
    mv "$module" "${module%%.cpython*}.so"
done
"$PYTHON" tools/pi_estimate.py "$ARM64_WORK/unstripped/modules/specverify" docs/pi.md
