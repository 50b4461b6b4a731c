"""Try an installed wheel as its first user would: run the README's first example, and say what is in use.

usage: try_wheel.py README.md

Needs nothing but the installed package: no compiler, no test runner.
"""

import re
import sys
from pathlib import Path

import numpy as np

import specverify

readme = Path(sys.argv[1]).read_text(encoding="utf-8")
example = re.search(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
assert example, "README.md shows no Python"
exec(compile(example[1], "README.md", "exec"), {})

# Token 0 has target probability .75 and draft probability 1, so u = .75 is the first uniform that rejects it; the
# residual is all on token 1.
target, draft = np.array([[0.75, 0.25], [0.5, 0.5]], np.float32), np.array([[1.0, 0.0]], np.float32)
assert specverify.verify_sampled(target, draft, [0], [0.749, 0.5]) == (1, 1)
assert specverify.verify_sampled(target, draft, [0], [0.75, 0.5]) == (0, 1)
assert specverify.verify_greedy(target, [1]) == (0, 0)
assert Path(specverify.get_include(), "specverify", "kernels.h").is_file()
assert "site-packages" in specverify.__file__ or "installed" in specverify.__file__, specverify.__file__
print(f"specverify {specverify.__version__}: {specverify.active_isa()} of {', '.join(specverify.available_isas())}")
