"""Plugins: what is installed, trusted and loaded."""

SUPPORTED = (1,)
"""Versions of ``planrunner.api`` that plugins may be written for."""
