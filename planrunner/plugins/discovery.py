"""Which plugins are installed, without the 47 ms that ``importlib.metadata`` takes to import and to look.

The answer is kept in the user's cache folder together with what it depends on: the time of each installation folder on
``sys.path``, and the names of the packages in any other folder on it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import NamedTuple

CAPABILITIES = "planrunner.capabilities"
PLUGINS = "planrunner.plugins"
_HEADER = "planrunner plugins 2"
_METADATA = (".dist-info", ".egg-info")


class Installed(NamedTuple):
    """An entry point: ``target`` is ``module`` or ``module:attribute``, ``plugin`` the distribution that has it."""

    group: str
    name: str
    target: str
    plugin: str
    version: str


def installed(keeps: bool = True) -> tuple[Installed, ...]:
    """Every plugin on ``sys.path``, from the cache where it still holds; it is brought up to date where ``keeps``."""
    key = "\n".join(_dependencies(sys.path))  # part of the file as well, so that a name shared by chance does no harm
    path = os.path.join(cache_folder(), f"plugins-{len(key)}-{sum(key.encode())}.txt")
    found = _read(path, key)
    if found is None:
        found = tuple(_look()) if any(map(_mentions, sys.path)) else ()
        if keeps:
            _write(path, key, found)
    return found


def cache_folder() -> str:
    """Where planrunner keeps what it can find out again: ``$XDG_CACHE_HOME/planrunner`` or ``~/.cache/planrunner``."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(root):
        root = os.path.expanduser("~/.cache")
    return os.path.join(root, "planrunner")


def _dependencies(path: Iterable[str]) -> list[str]:
    """What the answer depends on, a line each."""
    lines = [sys.version.split()[0]]
    for folder in path:
        try:
            if folder.startswith((sys.prefix, sys.base_prefix)) or folder.endswith(("-packages", ".zip")):
                lines.append(f"{folder}\t{os.stat(folder).st_mtime_ns}")
            else:
                names = sorted(name for name in os.listdir(folder or ".") if name.endswith(_METADATA))
                lines.extend(f"{os.path.abspath(folder)}\t{name}" for name in names)
        except OSError:
            continue  # sys.path may name what does not exist
    return [line.replace("\n", " ") for line in lines]


def _read(path: str, key: str) -> tuple[Installed, ...] | None:
    """The kept answer; None where there is none, it is not ours or it no longer holds."""
    try:
        with open(path, encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            if about.st_uid != os.geteuid() or about.st_mode & 0o022:
                return None
            header, kept, rows = file.read().split("\n\n", 2)
    except (OSError, ValueError):
        return None
    if header != _HEADER or kept != key:
        return None
    fields = [row.split("\t") for row in rows.splitlines()]
    return tuple(Installed(*row) for row in fields) if all(len(row) == 5 for row in fields) else None


def _write(path: str, key: str, found: Iterable[Installed]) -> None:
    """Keep the answer; a folder that cannot be written only means looking again next time."""
    rows = "\n".join("\t".join(one) for one in found)
    staged = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(f"{_HEADER}\n\n{key}\n\n{rows}")
        os.replace(staged, path)
    except OSError:
        return


def _mentions(folder: str) -> bool:
    """Whether a package of a folder may be a plugin: most places have none, and that is found out in 2 ms. What is no
    folder, such as an archive, may always."""
    try:
        names = os.listdir(folder or ".")
    except NotADirectoryError:
        return True
    except OSError:
        return False
    for name in names:
        if name.endswith(_METADATA):
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                    text = file.read()
                if CAPABILITIES.encode() in text or PLUGINS.encode() in text:
                    return True
            except NotADirectoryError:
                return True  # the metadata of an old installation is a file
            except OSError:
                continue
    return False


def _look() -> list[Installed]:
    found: dict[tuple[str, str, str], Installed] = {}
    from importlib.metadata import distributions

    for distribution in distributions():
        for point in distribution.entry_points:
            if point.group in (CAPABILITIES, PLUGINS):
                plugin = distribution.metadata["Name"] or "?"
                one = Installed(point.group, point.name, point.value, plugin, distribution.version or "?")
                found.setdefault((point.group, point.name, plugin), one)  # the first on sys.path is imported
    return [found[key] for key in sorted(found)]
