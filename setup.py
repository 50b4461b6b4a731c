"""The compiled modules; everything else is in pyproject.toml.

One extension for each instruction set, all from the same body (src/specverify/_kernels.pxi), and the portable core. The
architecture comes from sysconfig, not from the running machine, so that a cross build asks for the right one.
"""

import os
import sysconfig

import numpy
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

# -ffp-contract=off: a fused multiply-add rounds differently, and the same inputs must give the same tokens everywhere.
# No -ffast-math in any form, no -march=native.
FLAGS = ["-O3", "-ffp-contract=off", "-fvisibility=hidden", *os.environ.get("SPECVERIFY_CFLAGS", "").split()]
LINK_FLAGS = os.environ.get("SPECVERIFY_LDFLAGS", "").split()
# Why: see SV_INLINE in src/specverify/_tuning.h.
# -fno-trapping-math: nobody reads the exception flags, and a select between floats is then no branch.
KERNEL_FLAGS = ["-fno-inline", "-fno-trapping-math"]

VARIANTS = {
    "x86_64": {
        "x86_64_v3": ["-march=x86-64-v3", "-mtune=znver3"],
        "x86_64_v4": ["-march=x86-64-v4", "-mtune=znver3", "-mprefer-vector-width=512"],
    },
    "aarch64": {"cortex_a76": ["-mcpu=cortex-a76"]},
}


def kernels(module: str, flags: list[str]) -> Extension:
    return Extension(
        f"specverify._kernels_{module}",
        [f"src/specverify/_kernels_{module}.pyx"],
        include_dirs=["include", "src/specverify"],
        depends=[
            "src/specverify/_kernels.pxi",
            "src/specverify/_lanes.pxi",
            "src/specverify/_table.pxi",
            "src/specverify/_exp2.h",
            "src/specverify/_tuning.h",
            "include/specverify/kernels.h",
        ],
        extra_compile_args=[*FLAGS, *KERNEL_FLAGS, *flags],
        extra_link_args=LINK_FLAGS,
    )


def portable(module: str, *depends: str) -> Extension:
    return Extension(
        f"specverify.{module}",
        [f"src/specverify/{module}.pyx"],
        include_dirs=["include", "src/specverify", numpy.get_include()],
        depends=list(depends),
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=FLAGS,
        extra_link_args=LINK_FLAGS,
    )


machine = sysconfig.get_platform().rsplit("-", 1)[-1]
extensions = [
    portable(
        "_core",
        "src/specverify/_rounds.pxi",
        "src/specverify/_lanes.pxi",
        "src/specverify/_cpu.h",
        "src/specverify/_table.pxi",
        "src/specverify/_warp_types.pxi",
        "src/specverify/_rows.pxi",
        "src/specverify/_warp.pxi",
        "src/specverify/_tuning.h",
        "include/specverify/kernels.h",
    ),
    portable("_dlpack"),
    portable("_lookup"),
    kernels("generic", []),
    *(kernels(module, flags) for module, flags in VARIANTS.get(machine, {}).items()),
]

setup(
    # The C header, which has its place at the top of the tree, is installed inside the package.
    packages=[*find_packages("src"), "specverify.include.specverify"],
    package_dir={"": "src", "specverify.include.specverify": "include/specverify"},
    ext_modules=cythonize(
        extensions,
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "freethreading_compatible": True,
        },
    ),
)
