"""``python -m planrunner``."""

from __future__ import annotations

import sys

from planrunner.cli import main

sys.exit(main())
