"""planrunner: plans as files, run with a journal."""

from __future__ import annotations

__version__ = "0.1.0"
