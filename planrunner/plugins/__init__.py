"""Plugins: what is installed, trusted and loaded."""

from __future__ import annotations

SUPPORTED = (1,)
"""Versions of ``planrunner.api`` that plugins may be written for."""
