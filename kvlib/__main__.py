"""`python -m kvlib`."""

from __future__ import annotations

import sys

from kvlib.cli import main

if __name__ == "__main__":
    sys.exit(main())
