"""Archives of directories, written out: nothing of one lands outside its folder, whatever it says."""

from __future__ import annotations

import os
import shutil
import tarfile
from typing import IO

from planrunner.errors import Hint, NextStep, StorageFailed, UsageError
from planrunner.files.beneath import Beneath

MOST = 1_000_000
"""Entries of one archive."""

_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class RefusedEntry(Exception):
    """An entry that would lead out of the folder, or is neither a file, a folder nor a link."""


def unpack(archive: IO[bytes], target: str) -> int:
    """Write an archive out as the new folder ``target``, all of it or nothing; gives the number of its entries.

    Raises UsageError for a target that is there or cannot be written, and for an archive with entries or links that
    lead out of the folder, devices or pipes; StorageFailed for one that is damaged.
    """
    if os.path.lexists(target):
        raise UsageError(f"`{target}` is there already", "name another place with -o")
    staged = f"{target.rstrip('/')}.{os.getpid()}-{os.urandom(4).hex()}.planrunner"
    try:
        os.mkdir(staged, 0o755)
        try:
            count = _written(archive, staged)
            os.rename(staged, target)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
    except RefusedEntry as error:
        raise UsageError(f"the archive is not written out: {error}", "`-o -` prints the archive itself") from error
    except tarfile.TarError as error:
        raise StorageFailed(
            f"the archive is damaged: {error}", Hint(NextStep("artifacts verify"), " looks at all")
        ) from error
    except OSError as error:
        raise UsageError(f"`{target}` cannot be written: {error.strerror or error}") from error
    return count


def _written(archive: IO[bytes], folder: str) -> int:
    """Files and folders first, each reached without following a link; links after all else is written."""
    links: list[tuple[list[str], str]] = []
    count = 0
    with Beneath(folder) as tree, tarfile.open(fileobj=archive, mode="r:") as opened:
        for count, member in enumerate(opened, 1):
            if count > MOST:
                raise RefusedEntry(f"it has more than {MOST:,} entries")
            parts = parts_of(member.name)
            if member.issym():
                check_link(parts, member.linkname)
                links.append((parts, member.linkname))
            elif member.isdir():
                with tree.parent([*parts, ""], make=True):
                    pass
            elif member.isreg():
                with tree.parent(parts, make=True) as (parent, name):
                    handle = os.open(name, _FILE, 0o755 if member.mode & 0o100 else 0o644, dir_fd=parent)
                with os.fdopen(handle, "wb") as file:
                    if (source := opened.extractfile(member)) is not None:
                        shutil.copyfileobj(source, file, 1 << 20)
            else:
                raise RefusedEntry(f"`{member.name}` is neither a file, a folder nor a symbolic link")
        for parts, aim in links:
            with tree.parent(parts, make=True) as (parent, name):
                os.symlink(aim, name, dir_fd=parent)
    return count


def parts_of(name: str) -> list[str]:
    """The steps to an entry. Raises RefusedEntry for one that leads out."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or not parts or ".." in parts or "\0" in name:
        raise RefusedEntry(f"`{name}` leads out of it")
    return parts


def check_link(parts: list[str], aim: str) -> None:
    """A link may climb first and descend then, as long as it stays inside. Raises RefusedEntry."""
    steps = [step for step in aim.split("/") if step not in ("", ".")]
    climbs = next((number for number, step in enumerate(steps) if step != ".."), len(steps))
    if aim.startswith("/") or climbs > len(parts) - 1 or ".." in steps[climbs:]:
        raise RefusedEntry(f"the link `{'/'.join(parts)}` leads to `{aim}`, which may lie outside")
