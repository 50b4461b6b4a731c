"""Write tests/golden/*.txt: what specverify.reference says of every golden round.

Needs NumPy; takes seconds. Run it only when the contract changes or rounds are added: the files are the proof that
nothing else changed. The compiled core has no part in it: the reference is imported by itself, not as a part of the
package.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src" / "specverify")]

import golden_rounds  # noqa: E402
import golden_samplers  # noqa: E402
import reference  # noqa: E402

for golden in (golden_rounds, golden_samplers):
    lines = [golden.reference_line(given, reference) for given in golden.rounds()]
    golden.FILE.parent.mkdir(exist_ok=True)
    golden.FILE.write_text("\n".join(lines) + "\n")
    print(f"{golden.FILE.relative_to(ROOT)}: {len(lines)} rounds, {golden.FILE.stat().st_size} bytes")
