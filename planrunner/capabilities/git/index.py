"""The index of a working tree: changed in a copy of our own, put in place as a whole, and put back byte for byte.

Meanwhile a file of our own is linked to ``index.lock``, which is how git says that it writes the index. A lock that a
kill left behind is ours exactly if it is that file; no other is ever removed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.contract import Context, Failure

if TYPE_CHECKING:
    from planrunner.capabilities.git.repository import Repository


ABSENT = ""


def digest(path: str) -> str:
    """SHA-256 of an index; empty where there is none. Raises Failure for what is no file."""
    try:
        return sha256(_read(path)[0]).hexdigest()
    except FileNotFoundError:
        return ABSENT


def _read(path: str) -> tuple[bytes, os.stat_result]:
    """The bytes of an index. A pipe in its place is not waited for."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # a socket could not even be opened
        raise _no_file(path)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise _no_file(path)
    with open(handle, "rb") as file:
        return file.read(), found


def _no_file(path: str) -> Failure:
    return Failure(f"{path} is no file, so there is no index to read")


def keep(context: Context, repository: Repository) -> dict[str, Any]:
    """Keep the bytes of the index; gives what ``put_back`` and ``must_have_been`` need."""
    try:
        data, found = _read(repository.index_path)
    except FileNotFoundError:
        return {"sha256": ABSENT}
    kept = context.keep(data, "index", "git-index")
    said = says(repository, repository.index_path)
    same = digest(repository.index_path) == kept["sha256"]
    return {
        "sha256": kept["sha256"],
        "mtime": found.st_mtime_ns,
        "mode": found.st_mode & 0o777,
        "says": said if same else "",
    }


class Copy:
    """A copy of the index to work on, beside it. ``name`` is the visit's, so that leftovers of a kill are found."""

    __slots__ = ("_held", "_lock", "_real", "before", "path")

    def __init__(self, repository: Repository, name: str) -> None:
        self._real = repository.index_path
        self._lock = self._real + ".lock"
        self._held = f"{self._real}.{name}.held.planrunner"
        self.path = f"{self._real}.{name}.planrunner"
        self.before = ABSENT

    def take(self) -> None:
        """Copy the index, after what an earlier attempt left behind is gone."""
        self.clear()
        try:
            data, found = _read(self._real)
        except FileNotFoundError:
            return
        self.before = sha256(data).hexdigest()
        self.write(data, found.st_mtime_ns, found.st_mode & 0o777)

    def write(self, data: bytes, mtime: int | None = None, mode: int = 0o644) -> None:
        """Give the copy this content."""
        with open(self.path, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        if mtime is not None:
            os.utime(self.path, ns=(mtime, mtime))

    def hold(self) -> None:
        """Keep others from writing the index until the copy is published or cleared. Raises Failure (transient) where
        it is no longer what was copied, or somebody else is writing it: another attempt may find it at rest."""
        if self._is_held():
            return
        with open(self._held, "wb"):
            pass
        try:
            os.link(self._held, self._lock)
        except FileExistsError:
            self.clear()
            raise Failure(
                f"another git process has the index, or one was killed: {self._lock} exists", "transient"
            ) from None
        if digest(self._real) != self.before:
            self.clear()
            raise Failure("the index was changed meanwhile", "transient")

    def publish(self) -> None:
        """Put the copy in the place of the index. Raises Failure as ``hold`` does."""
        self.hold()
        os.rename(self.path, self._real)
        self.clear()

    def remove(self) -> None:
        """Take the index away where there was none before. Raises Failure as ``hold`` does."""
        self.hold()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._real)
        self.clear()

    def clear(self) -> None:
        """Remove the copy and the locks that are provably ours."""
        if self._is_held():
            os.unlink(self._lock)
        for leftover in (self._held, self.path, self.path + ".lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(leftover)

    def _is_held(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return os.path.samefile(self._held, self._lock)
        return False


def must_have_been(before: dict[str, Any], began: str | None, said: str = "") -> None:
    """Raises Failure (moved) where the task began with another index than what was kept; None: that is not known.
    ``said`` is what it said when the task began: one that was but refreshed in between still says the same."""
    if began is not None and began != before["sha256"] and not (said and said == before.get("says")):
        raise Failure(
            "the index was changed by somebody else before this task changed it, so it is left as it is: "
            "unstage with `git restore --staged`",
            "moved",
        )


def says(repository: Repository, path: str) -> str:
    """SHA-256 of what an index says, whatever it has learnt about times of files."""
    git = repository.git._replace(directory=repository.top)
    return sha256(git.raw("ls-files", "--stage", "-v", "-z", index=path)).hexdigest()


def can_put_back(repository: Repository, before: dict[str, Any], after: str, said: str = "") -> bool:
    """Whether the index has to be put back; raises Failure (moved) where neither we nor nobody changed it. ``after`` is
    the digest that our change left, ``said`` what the index said then; empty where that is not known."""
    now = digest(repository.index_path)
    if now == before["sha256"]:
        return False
    if now != after and not (said and said == says(repository, repository.index_path)):
        raise Failure("the index was changed since, so it is left as it is", "moved")
    return True


def put_back(context: Context, repository: Repository, before: dict[str, Any], name: str) -> None:
    """Make the index what it was, byte for byte."""
    copy = Copy(repository, name)
    copy.take()
    if before["sha256"] == ABSENT:
        copy.remove()
        return
    with context.artifact(before["sha256"]) as kept:
        copy.write(kept.read(), before.get("mtime"), before.get("mode", 0o644))
    copy.publish()
