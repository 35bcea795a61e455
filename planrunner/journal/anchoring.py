"""What lies outside the state directory and is made once: the key of a user, the heads of a journal."""

from __future__ import annotations

import errno
import os
import stat

from planrunner.errors import RecordMismatch, StorageFailed
from planrunner.journal.chain import KEY_VARIABLE, Chain, read_key

_NO_HOME = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT)


def make_key(path: str, state: str) -> Chain:
    """A chain with a new key in ``path``, or with the one another process made meanwhile; where the user may not write
    to a home of their own it has none and says why. Raises StorageFailed for a key that is not safe, or out of reach,
    and for a disk that fails."""
    if not path:
        return Chain(state, None, "the user has no home to keep a key in")
    try:
        if not os.path.lexists(path):
            if not os.environ.get(KEY_VARIABLE):
                make_folder(os.path.dirname(path))
            _write_key(path)
        return Chain(state, read_key(path, state))
    except OSError as error:
        if os.environ.get(KEY_VARIABLE) or os.path.lexists(path) or error.errno not in _NO_HOME:
            raise StorageFailed(
                f"the audit key `{path}` cannot be used: {error.strerror}",
                "mend that; without it the journal is neither written nor verified",
            ) from error
        return Chain(state, None, f"no key can be kept in `{path}`: {error.strerror}")


def anchor(chain: Chain, journal: bytes | None, state: str) -> None:
    """Tie a chain to the journal it writes, and make its heads where they are missing. Raises RecordMismatch where the
    heads of this place are those of another journal."""
    if not isinstance(journal, bytes) or (chain.journal and chain.journal != journal):
        raise RecordMismatch(
            f"the journal in `{state}` is not the one that was written here before",
            "`planrunner audit verify` tells more; `planrunner audit accept` takes it as it is",
        )
    chain.journal = journal
    if not chain.anchored and chain.heads_path:
        make_heads(chain, journal)


def make_heads(chain: Chain, journal: bytes) -> None:
    """Begin the heads of a journal; where they cannot be kept verification says so. Their first record is durable on
    return, so that heads which are missing were taken away."""
    folder = os.path.dirname(chain.heads_path)
    staged = _staged(chain.heads_path)
    try:
        make_folder(folder)
        descriptor = os.open(staged, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            chain.start_heads(descriptor, journal)
            os.fsync(descriptor)
            os.link(staged, chain.heads_path)
        except FileExistsError:
            chain.close()  # another process was first
            chain.open_heads()
        finally:
            os.unlink(staged)
        _sync(folder)
    except OSError:
        return


def _write_key(path: str) -> None:
    staged = _staged(path)
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # whatever the umask
        os.write(descriptor, os.urandom(32).hex().encode() + b"\n")
        os.fsync(descriptor)
        os.link(staged, path)  # whole or not at all, and never over one that is there
    except FileExistsError:
        pass  # another process was first
    finally:
        os.close(descriptor)
        os.unlink(staged)
    _sync(os.path.dirname(path))


def _staged(path: str) -> str:
    """Where a file is written before it gets its name; processes in different containers have the same number."""
    return f"{path}.{os.getpid()}-{os.urandom(4).hex()}"


def make_folder(folder: str) -> None:
    """Make a folder that is the user's alone. Raises OSError, StorageFailed for one that belongs to somebody else."""
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise StorageFailed(
            f"`{folder}` is a link or belongs to another user, so an audit key in it is worth nothing",
            f"move it away, or choose another place with {KEY_VARIABLE}",
        )
    if found.st_mode & 0o777 != 0o700:
        os.chmod(folder, 0o700)  # what others could have put there is refused by its owner


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
