"""What a working tree holds that would be lost with it: looked at before it is removed as a whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from planrunner.capabilities.git.command import Git
from planrunner.capabilities.git.repository import UNDER_WAY, Repository
from planrunner.capabilities.git.status import parsed
from planrunner.capabilities.git.trees import MODULE


def held(repository: Repository, ignored: bool = False) -> list[str]:
    """What a working tree holds beside what is committed: changes and new files, those that git was told not to look
    at, submodules that are filled, and what is half done. ``ignored`` counts ignored files too."""
    git = repository.git._replace(directory=repository.top)
    asked = ["status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all"]
    asked.append(f"--ignored={'traditional' if ignored else 'no'}")
    found = [entry["path"] for entry in parsed(git.raw(*asked)).entries]
    found += _unseen(git)
    kept = (*UNDER_WAY, "modules")
    return found + [name for name in kept if os.path.lexists(os.path.join(repository.folder, name))]


def _unseen(git: Git) -> Iterator[str]:
    """The paths at which ``git status`` does not look."""
    for item in git.items("ls-files", "-v", "--stage", "-z"):
        facts, _, path = item.partition("\t")
        tag, mode, _ = facts.split(" ", 2)
        place = os.path.join(git.directory, path)
        if (tag == "S" or tag.islower()) and os.path.lexists(place):
            yield path
        elif mode == MODULE:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if os.listdir(place):
                    yield path
