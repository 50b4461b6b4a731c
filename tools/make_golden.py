"""Write tests/golden/rounds.txt: what specverify.reference says of every golden round.

Needs NumPy; takes seconds. Run it only when the contract changes or rounds are added: the file is the proof that
nothing else changed. The compiled core has no part in it.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def load(name: str, path: Path) -> Any:
    """Import one file by its path: `import specverify` would bring the compiled core."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


golden = load("golden_rounds", ROOT / "tests" / "golden_rounds.py")
reference = load("reference", ROOT / "src" / "specverify" / "reference.py")
lines = [golden.reference_line(given, reference) for given in golden.rounds()]
golden.FILE.parent.mkdir(exist_ok=True)
golden.FILE.write_text("\n".join(lines) + "\n")
print(f"{golden.FILE.relative_to(ROOT)}: {len(lines)} rounds, {golden.FILE.stat().st_size} bytes")
