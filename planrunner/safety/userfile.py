"""The settings of a user for every project: ``$XDG_CONFIG_HOME/planrunner/config.yaml``."""

from __future__ import annotations

import os
import stat

from planrunner.errors import UsageError
from planrunner.safety.parts import read_regular

USER_SECTIONS = ("policy", "network", "models", "provider_credentials")
"""What may stand there: what belongs to a person or a machine, not to one project."""


def user_file() -> str:
    """Its path, ``~/.config/planrunner/config.yaml`` where the variable is not set; empty where there is no home."""
    root = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(root):  # the rule of these folders: a relative one is not heeded
        home = os.path.expanduser("~")
        root = os.path.join(home, ".config") if os.path.isabs(home) else ""
    return os.path.join(root, "planrunner", "config.yaml") if root else ""


def user_content() -> bytes | None:
    """What it holds; None where there is none. Raises UsageError where it cannot be read, or anybody may write it."""
    path = user_file()
    if not path or not os.path.lexists(path):
        return None
    try:
        if os.stat(path).st_mode & stat.S_IWOTH:
            raise UsageError(f"anybody may write `{path}`", f"take that right away: `chmod o-w {path}`")
        return read_regular(path)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror or error}") from None
