"""``python -m specverify``: the same as the command ``specverify``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
