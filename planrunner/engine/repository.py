"""What git says about a directory: where it stands, and which files it leaves alone. Nothing is changed by asking."""

from __future__ import annotations

import os
import subprocess

PATIENCE = 60.0
"""Seconds that git may take."""


def in_repository(directory: str) -> bool:
    """Whether the directory, or one around it, holds a ``.git``."""
    at = os.path.realpath(directory)
    while not os.path.lexists(os.path.join(at, ".git")):
        at, before = os.path.dirname(at), at
        if at == before:
            return False
    return True


def git_position(directory: str) -> dict[str, str]:
    """``head`` (a commit) and ``branch``, as far as there are any."""
    found = {
        "head": _git(directory, "rev-parse", "--verify", "--quiet", "HEAD"),
        "branch": _git(directory, "symbolic-ref", "--short", "--quiet", "HEAD"),
    }
    return {name: os.fsdecode(text).strip() for name, text in found.items() if text}


def git_ignored(directory: str) -> frozenset[str] | None:
    """The files and folders below ``directory`` that git ignores, by their relative paths; a folder stands for all that
    it holds. None where git cannot tell, and where the whole directory is ignored: nothing would be left."""
    listed = _git(directory, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    if listed is None:
        return None
    names = {name.rstrip("/") for name in os.fsdecode(listed).split("\0") if name}
    if names & {"", "."} or not _is_known(directory, names):
        return None
    return frozenset(names)


def _is_known(directory: str, names: set[str]) -> bool:
    """Whether git looks at the directory at all: in one that it ignores every file is."""
    return not names or _git(directory, "check-ignore", "--quiet", ".") is None


def _git(directory: str, *arguments: str) -> bytes | None:
    """What git prints, None where it fails or is not installed. It takes no lock and runs no program of the project."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *arguments],
            cwd=directory,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
