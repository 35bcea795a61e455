"""Projects whose user has said that their plans may be run from anywhere: trusted as a folder, for as long as their
settings stay what they were."""

from __future__ import annotations

import os

from planrunner.safety import trust
from planrunner.safety.project import FILE, read_settings


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
    """The settings of a project as they stand in its file and those that it includes; empty where it has none."""
    text = _content(folder, FILE)
    if b"include" not in text:
        return text
    parts = [text]
    for name in read_settings(folder).files:
        parts += [name.encode("utf-8", "surrogateescape"), _content(folder, name)]
    return b"\0".join(parts)


def _content(folder: str, name: str) -> bytes:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()
    except OSError:
        return b""
