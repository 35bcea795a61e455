"""The bytes of the files of settings, and what settings come to: all that a run without any needs."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any

from planrunner.errors import UsageError
from planrunner.frozen import EMPTY
from planrunner.records import Struct
from planrunner.source import MAX_TEXT

if TYPE_CHECKING:
    from planrunner.syntax.tree import Mapping, Node

Json = Any

READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class Said(Struct):
    """One level of policy as the settings say it: ``name`` is ``planrunner.yaml``, the path of the user's file, or
    ``profile ci``; ``file`` where it stands, in words; ``data`` and ``tree`` are the same, as JSON and as nodes;
    ``pieces`` are what each file says of it."""

    name: str
    file: str
    data: Json
    tree: Node
    pieces: tuple[tuple[Any, Mapping], ...] = ()

    def place(self, section: str) -> tuple[Any, Mapping]:
        """The file that says something of a section such as ``network``, else the first, and what it says."""
        return next((piece for piece in self.pieces if piece[1].key(section)), self.pieces[0])


class Settings(Struct):
    """The settings that hold. ``data`` has the sections, the user's beneath those of the project and the chosen profile
    over both; ``own`` those of the project and its profile alone. ``levels`` are the policies that hold at the same
    time: none widens another; ``parts`` the files that all this was read from."""

    data: dict[str, Json] = EMPTY
    own: dict[str, Json] = EMPTY
    profile: str = ""
    levels: tuple[Said, ...] = ()
    parts: tuple[Any, ...] = ()


def read_regular(path: str) -> bytes:
    """The content of a regular file, no more than a file of settings may have and one byte. Raises OSError; a pipe or a
    device, which may never end, is one."""
    return content_of(os.open(path, READ))


def content_of(descriptor: int) -> bytes:
    """The content of an open file. Raises OSError as ``read_regular``."""
    with open(descriptor, "rb", closefd=True) as file:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read(MAX_TEXT + 1)


SECTIONS = (
    *("people", "policy", "network", "models", "research", "sql", "dask", "git", "forge", "artifacts", "plugins"),
    *("agents", "tools", "contexts", "reflect", "memory", "workflow", "scheduler", "provider_credentials"),
    *("profiles", "cli_profiles"),
    *("triggers", "telemetry", "notify"),
    *("include", "profile", "env_file", "mcp"),
)
"""What the file of a project may hold."""

USER_SECTIONS = ("policy", "network", "models", "memory", "provider_credentials")
"""What the user's own file may hold: what belongs to a person or a machine, not to one project."""


def user_file() -> str:
    """The path of the user's file, ``~/.config/planrunner/config.yaml`` where the variable is not set; empty without
    a home."""
    root = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(root):  # the rule of these folders: a relative one is not heeded
        home = os.path.expanduser("~")
        root = os.path.join(home, ".config") if os.path.isabs(home) else ""
    return os.path.join(root, "planrunner", "config.yaml") if root else ""


def user_content() -> bytes | None:
    """The content of the user's file; None without one. Raises UsageError where it cannot be read, or is writable by
    everyone."""
    path = user_file()
    if not path or not os.path.lexists(path):
        return None
    try:
        if os.stat(path).st_mode & stat.S_IWOTH:
            raise UsageError(f"anybody may write `{path}`", f"take that right away: `chmod o-w {path}`")
        return read_regular(path)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror or error}") from None
