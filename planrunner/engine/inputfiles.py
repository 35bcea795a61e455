"""Digests of the files that a task reads: those that fit its patterns, behind links too, less those left out."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

from planrunner.engine import repository
from planrunner.engine.patterns import Refused, below, fits, inside, matching

if TYPE_CHECKING:
    from planrunner.engine.effects import Look


_CHUNK = 1 << 20


def digests(look: Look, state_dir: str) -> dict[str, str]:
    """The digest of every input file by its path. A link counts with the file, or the folder, that it leads to.

    Raises Refused for a pattern that nothing fits or that leads out of the directory of the run, for a link to a folder
    around it, and for a file that cannot be read.
    """
    reader, result = _Reader(look, state_dir), dict[str, str]()
    for pattern in look.inputs:
        if pattern.startswith("!"):
            continue
        fitting = False
        for path in matching(look.root, inside(look.root, look.directory, pattern), through=True):
            if not reader.leaves_out(path):
                fitting = True
                if path not in result:
                    result.update(reader.of(path))
        if not fitting:
            raise Refused(f"no file fits the input `{pattern}` in {look.directory}")
    return result


class _Reader:
    """Reads files below a root, but for those that fit a pattern with ``!``, those that git ignores where that is
    asked for, and the state of planrunner."""

    def __init__(self, look: Look, state_dir: str) -> None:
        self._root = look.root
        self._entered: set[str] = set()
        """Folders that were entered by a link: each counts once, so that circles end."""
        excluding = [pattern[1:] for pattern in look.inputs if pattern.startswith("!")]
        self._patterns = [inside(look.root, look.directory, pattern) for pattern in excluding]
        self._names = {os.path.relpath(os.path.realpath(state_dir), os.path.realpath(look.root))}
        if look.gitignore:
            ignored = repository.git_ignored(look.root)
            if ignored is None:
                raise Refused(f"`gitignore: true` needs a git repository, and {look.root} is not in one")
            self._names |= {*ignored, ".git"}

    def leaves_out(self, path: str) -> bool:
        parts = path.split("/")
        named = any("/".join(parts[:at]) in self._names for at in range(1, len(parts) + 1))
        return named or any(fits(path, pattern) for pattern in self._patterns)

    def of(self, path: str) -> Iterator[tuple[str, str]]:
        """The digest of a file; of a link, where it leads and the digests of what is there; nothing of a folder."""
        whole = os.path.join(self._root, path)
        try:
            mode = os.lstat(whole).st_mode
            if stat.S_ISREG(mode):
                yield path, _of_file(whole)
            elif stat.S_ISLNK(mode):
                yield path, f"link {os.readlink(whole)}"
                yield from self._behind(path, os.path.realpath(whole))
        except FileNotFoundError:
            yield path, "missing"  # removed while it was being looked at
        except OSError as error:
            raise Refused(f"the input {path} cannot be read: {error.strerror}") from None

    def _behind(self, link: str, target: str) -> Iterator[tuple[str, str]]:
        if os.path.isfile(target):
            yield f"{link}/", _of_file(target)
        elif os.path.isdir(target) and target not in self._entered:
            if f"{os.path.realpath(self._root)}/".startswith(f"{target.rstrip('/')}/"):
                raise Refused(
                    f"the input {link} is a link to {target}, which holds this directory; leave out `!{link}`"
                )
            self._entered.add(target)
            for path in below(self._root, link):
                if not self.leaves_out(path):
                    yield from self.of(path)


def _of_file(path: str) -> str:
    digest = sha256()
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    return digest.hexdigest()
