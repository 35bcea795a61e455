"""The plugin seam: what is installed, loaded only as far as it is used."""

from __future__ import annotations

from planrunner.plugins.registry import Registry

__all__ = ["Registry"]
