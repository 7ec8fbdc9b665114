"""`python -m autograde`."""

from __future__ import annotations

import sys

from autograde.cli import main

sys.exit(main())
