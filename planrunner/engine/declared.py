"""The files that tasks declare as artifacts, kept from below their working directory and from nowhere else."""

from __future__ import annotations

import os
import stat

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.files.beneath import Beneath
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Json = Any


def keep_beneath(state: str, directory: str, path: str) -> Mapping[str, Json]:
    """Keep a file or a folder below ``directory`` in the store of ``state``; links on the way are followed as long as
    they stay inside. Raises Failure (policy) for a path that leads out or is a link, and for the state folder; OSError
    for what cannot be read."""
    if "\0" in path:
        raise Failure(f"{path!r} is no path")
    _leave_the_state(os.path.realpath(state), os.path.realpath(os.path.join(directory, path)), path)
    folder, name = os.path.split(os.path.normpath(path))
    with Beneath(directory) as tree:
        opened = tree.open_to_read(folder or ".")
        try:
            if stat.S_ISLNK(os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode):
                raise Failure(f"{path} is a link", "policy")
            return ArtifactStore(state).keep_in(opened, name)
        finally:
            os.close(opened)


def _leave_the_state(state: str, path: str, said: str) -> None:
    """Raises Failure where a path is, holds or lies in the state folder: its contents change while they are kept."""
    if path == state or path.startswith(f"{state}/"):
        raise Failure(f"{said} lies in the state folder of planrunner", "policy")
    if state.startswith(f"{path.rstrip('/')}/"):
        raise Failure(f"{said} holds the state folder of planrunner: name what is to be kept in it", "policy")
