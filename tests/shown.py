"""The output that the gallery shows of a plan, held against that of a run which a test has made anyway.

With ``PLANRUNNER_GALLERY=write`` it is written there instead.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from workbench import ROOT

WRITES = os.environ.get("PLANRUNNER_GALLERY") == "write"  # read here: tests do not see the caller's settings


@cache
def gallery() -> ModuleType:
    """``docs/gallery_page.py``."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("gallery_page")
    finally:
        sys.path.remove(str(ROOT / "docs"))


def check_output(plan: str, printed: str, code: int, folder: Path) -> None:
    """A run of a plan (its path below ``plans/``) in a folder has printed what the gallery shows, and ended so."""
    where = plan.removeprefix("agents/") if plan.startswith("agents/") else f"plans/{plan}"
    seen = gallery().Shown(f"planrunner exec {where}", printed.replace(f"{folder}/", ""), code)
    if WRITES:
        gallery().write(plan, seen)
    else:
        told = gallery().differences(plan, seen)
        assert not told, "\n".join([*told, "if that is meant:", gallery().__doc__.splitlines()[-1].strip()])
