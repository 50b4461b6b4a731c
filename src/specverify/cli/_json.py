"""How results are written as JSON: indented, and lists of numbers on a line each. Holds no result."""

import json
import re
from typing import Any

# Line ends stand between items only, never within a string, so this finds whole lists without strings or nesting.
_FLAT = re.compile(r'\[\n\s*([^\[\]{}"]+?)\n\s*\]')


def dumps(value: Any) -> str:
    """Give the JSON text of a value.

    Examples
    --------
    >>> print(dumps({"accepted": [4, 0, 3], "draft": "none"}))
    {
      "accepted": [4, 0, 3],
      "draft": "none"
    }
    """
    return _FLAT.sub(lambda found: f"[{' '.join(found[1].split())}]", json.dumps(value, indent=2))
