"""Projects whose user has said that their plans may be run from anywhere: trusted as a folder, for as long as their
settings stay what they were."""

from __future__ import annotations

import os

from planrunner.safety import trust
from planrunner.safety.project import FILE


def trusted_home(path: str) -> str:
    """The root of the trusted project that a file lies in; empty where there is none."""
    at = os.path.dirname(os.path.realpath(path))
    while True:
        found = trust.trusted(at, "project")
        if found is not None and found.sha256 == trust.digest(settings_text(at)):
            return at
        above = os.path.dirname(at)
        if above == at:
            return ""
        at = above


def settings_text(folder: str) -> bytes:
    """The settings of a project as they stand in its file; empty where it has none, or none that can be read."""
    try:
        with open(os.path.join(folder, FILE), "rb") as file:
            return file.read()
    except OSError:
        return b""
