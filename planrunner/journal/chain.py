"""The chain over the journal: each event vouches for all before it, and only who has the key can add to it.

``link`` of an event is a digest over the link before and the event as it is stored; anybody can compute it. ``mac`` is
the link under a key that lies outside the state directory; it is stored beside the event. The last link of each run is
kept outside as well, in the heads: a journal that was cut still chains, and only they tell. A head is written after the
commit of its events, so a crash leaves it behind the journal, never ahead of it; what the journal has beyond its head
counts because it bears the key.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

from planrunner.errors import Hint, NextStep, RecordMismatch, StorageFailed
from planrunner.fileio import sync_folder

if TYPE_CHECKING:
    from planrunner.journal.codec import Row
    from planrunner.journal.records import Lease

Chained = tuple[int, float, str, int, str, bytes | None]

KEY_VARIABLE = "PLANRUNNER_AUDIT_KEY_FILE"
KEY_FILE = "audit.key"
RECORD = 128
"""Bytes of a head. Records are aligned to it, so one never lies across two sectors of a disk and is never half new."""

_LOOKS = 100
"""Times that a head is read before it counts as damaged: a reader during a write sees half of each."""

_HEADS = "restore the file from a copy; moved away, nothing tells any more whether the journal was cut"
_ID = 6
_NAME = 48
_MAC = 16
_NAME_START = 8
_LEAST_KEY = 32
_SEQ = (1 << 32) - 1


def first_link(run: str, plan_id: str, digest: str, created: float) -> bytes:
    """The link before the first event of a run."""
    text = "\n".join(("planrunner", run, plan_id, digest, repr(created + 0.0)))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()


def next_link(link: bytes, stored: bytes) -> bytes:
    """The link of an event after ``link``; ``stored`` is ``SEQ AT VERSION KIND BODY`` in UTF-8."""
    return blake2b(link + stored, digest_size=32).digest()


def mac_of(link: bytes, key: bytes) -> bytes:
    return blake2b(link, digest_size=_MAC, key=key).digest()


def data_folder() -> str:
    """``$XDG_DATA_HOME/planrunner`` or ``~/.local/share/planrunner``; empty for a user who has no home."""
    root = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(root):
        root = os.path.expanduser("~/.local/share")
    return os.path.join(root, "planrunner") if os.path.isabs(root) else ""


def key_path() -> str:
    """The file of the key: the one that PLANRUNNER_AUDIT_KEY_FILE names, else ``audit.key`` of the data folder."""
    chosen = os.environ.get(KEY_VARIABLE)
    folder = data_folder()
    return os.path.abspath(chosen) if chosen else os.path.join(folder, KEY_FILE) if folder else ""


def read_key(path: str, state: str) -> bytes:
    """The key in a file. Raises OSError (where there is none), StorageFailed for a file that others can read, that
    is too short, or that lies in the state directory which it is to protect."""
    if os.path.realpath(path).startswith(os.path.realpath(state) + os.sep):
        raise StorageFailed(
            f"the audit key `{path}` lies in the state directory, which it is to protect",
            f"move it elsewhere and name it in {KEY_VARIABLE}",
        )
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        about = os.fstat(descriptor)
        text = os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o037:
        raise StorageFailed(
            f"the audit key `{path}` is not a file that is yours alone", f"look at it, then `chmod 600 {path}`"
        )
    if len(text) < _LEAST_KEY:
        raise StorageFailed(
            f"the audit key `{path}` is damaged: it has {len(text)} bytes, {_LEAST_KEY} are the least",
            "restore it from a copy; without it nothing that it chained can be verified",
        )
    return blake2b(text, digest_size=32, person=b"planrunner key").digest()


class Chain:
    """What a writer needs to chain a journal. Without a ``key`` (None), for the reason in ``unchained``, events are
    stored without. ``journal`` tells journals apart: 16 random bytes that are stored in each and in its heads."""

    def __init__(self, state: str, key: bytes | None, unchained: str = "") -> None:
        self.key = key
        self.unchained = unchained
        self.key_id = b"" if key is None else blake2b(key, digest_size=_ID, person=b"planrunner id").digest()
        self.heads_path = ""
        self.journal = b""
        self._descriptor = -1
        folder = data_folder()
        if key is not None and folder:
            place = blake2b(os.fsencode(os.path.realpath(state)), digest_size=16, key=key).hexdigest()
            self.heads_path = os.path.join(folder, "audit", f"{place}.heads")

    def open_heads(self, write: bool = True) -> None:
        """Open the heads of this place where there are some, and take the name of their journal. Raises StorageFailed
        for damaged ones."""
        try:
            how = os.O_RDWR if write else os.O_RDONLY
            self._descriptor = os.open(self.heads_path, how | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return  # none yet, or out of reach: verification says so
        head = os.pread(self._descriptor, RECORD, 0)
        if len(head) < RECORD or head[-_MAC:] != self._record_mac(0, head[:16], head):
            raise StorageFailed(f"the heads of the journal in `{self.heads_path}` are damaged", _HEADS)
        self.journal = head[:16]

    def start_heads(self, descriptor: int, journal: bytes) -> None:
        """Lay out new heads in an empty file."""
        self._descriptor, self.journal = descriptor, journal
        head = journal.ljust(RECORD - _MAC, b"\0")
        os.pwrite(descriptor, head + self._record_mac(0, journal, head), 0)

    @property
    def anchored(self) -> bool:
        """Whether heads are kept."""
        return self._descriptor >= 0

    def count(self) -> int:
        """The highest number of a run that the heads know."""
        return os.fstat(self._descriptor).st_size // RECORD - 1 if self._descriptor >= 0 else 0

    def extend(self, link: bytes, rows: Iterable[Row]) -> tuple[list[Chained], bytes]:
        """Rows with their macs, and the link of the last."""
        key = self.key
        if key is None:
            return [(*row, None) for row in rows], link
        chained: list[Chained] = []
        add = chained.append
        for number, at, kind, version, body in rows:
            stored = f"{number & _SEQ} {at + 0.0!r} {version} {kind} {body}".encode()
            link = blake2b(link + stored, digest_size=32).digest()
            add((number, at, kind, version, body, blake2b(link, digest_size=_MAC, key=key).digest()))
        return chained, link

    def seal(self, *row: object) -> bytes | None:
        """The seal of a row beside its own columns, which only the key can make."""
        if self.key is None:
            return None
        text = ascii((self.journal, *row)).encode()
        return self.key_id + blake2b(text, digest_size=_MAC, key=self.key, person=b"planrunner row").digest()

    def new_name(self) -> bytes:
        """A name for a new journal that is recognised with the key (``is_own``)."""
        start = os.urandom(_NAME_START)
        return start + (os.urandom(_NAME_START) if self.key is None else self._name_end(start))

    def is_own(self, journal: bytes) -> bool:
        """Whether the holder of the key gave a journal its name."""
        return self.key is not None and journal[_NAME_START:] == self._name_end(journal[:_NAME_START])

    def _name_end(self, start: bytes) -> bytes:
        return blake2b(start, digest_size=_NAME_START, key=self.key or b"", person=b"planrunner name").digest()

    def vouched(self, name: str, value: bytes) -> bytes | None:
        """A value of a cache as it is stored; None without a key, since its origin could not be verified later."""
        return None if self.key is None else self._made(name, value) + value

    def opened(self, name: str, stored: object) -> bytes | None:
        """The value that ``vouched`` was given under the same name; None for anything else."""
        if self.key is None or not isinstance(stored, bytes) or stored[:_MAC] != self._made(name, stored[_MAC:]):
            return None
        return stored[_MAC:]

    def mac_of_text(self, text: str) -> str:
        """What vouches for a text that is kept in a file, in hexadecimal digits; empty without a key."""
        return "" if self.key is None else self._made("", text.encode("utf-8", "surrogatepass")).hex()

    def _made(self, name: str, value: bytes) -> bytes:
        mac = blake2b(name.encode() + b"\0", digest_size=_MAC, key=self.key or b"", person=b"planrunner cache")
        mac.update(value)
        return mac.digest()

    def note(self, run: Lease) -> None:
        """Write the head of a run; its events are durable by now. A head that cannot be written stays behind, which
        does not fail the run: verification tells how far the heads reach."""
        if self._descriptor < 0:
            return
        head = run.last_seq.to_bytes(4, "big") + run.epoch.to_bytes(4, "big") + run.link
        head = (head + run.run.encode()[:_NAME]).ljust(RECORD - _MAC, b"\0")
        try:
            record = head + self._record_mac(run.number, self.journal, head)
            os.pwrite(self._descriptor, record, run.number * RECORD)
        except OSError:
            pass

    def forget(self, number: int) -> None:
        """Know nothing of a run any more. Raises OSError."""
        os.pwrite(self._descriptor, bytes(RECORD), number * RECORD)

    def head(self, number: int) -> Head | None:
        """What is known of a run; None where nothing is. Raises StorageFailed for a damaged one."""
        for _ in range(_LOOKS):
            record = os.pread(self._descriptor, RECORD, number * RECORD) if self._descriptor >= 0 else b""
            if not record.strip(b"\0"):
                return None
            if len(record) == RECORD and record[-_MAC:] == self._record_mac(number, self.journal, record):
                break
        else:
            raise StorageFailed(f"head {number} in `{self.heads_path}` is damaged", _HEADS)
        name = record[40 : 40 + _NAME].rstrip(b"\0").decode("utf-8", "replace")
        return int.from_bytes(record[:4], "big"), int.from_bytes(record[4:8], "big"), record[8:40], name

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _record_mac(self, number: int, journal: bytes, record: bytes) -> bytes:
        text = b"%b %d %b" % (journal, number, record[: RECORD - _MAC])
        return blake2b(text, digest_size=_MAC, key=self.key or b"", person=b"planrunner head").digest()


Head = tuple[int, int, bytes, str]
"""Last seq, epoch, link and id of a run."""


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
                "fix that; without it the journal is neither written nor verified",
            ) from error
        return Chain(state, None, f"no key can be kept in `{path}`: {error.strerror}")


def anchor(chain: Chain, journal: bytes | None, state: str) -> None:
    """Tie a chain to the journal it writes, and make its heads where they are missing. Raises RecordMismatch where the
    heads of this place are those of another journal."""
    if not isinstance(journal, bytes) or (chain.journal and chain.journal != journal):
        raise RecordMismatch(
            f"the journal in `{state}` is not the one that was written here before",
            Hint("see ", NextStep("audit verify"), "; ", NextStep("audit accept"), " accepts it as it is"),
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
        sync_folder(folder)
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
    sync_folder(os.path.dirname(path))


def _staged(path: str) -> str:
    """Where a file is written before it gets its name; processes in different containers have the same number."""
    return f"{path}.{os.getpid()}-{os.urandom(4).hex()}"


def make_folder(folder: str) -> None:
    """Make a folder that is the user's alone. Raises OSError, StorageFailed for one that belongs to another user."""
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    about = os.lstat(folder)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        raise StorageFailed(
            f"`{folder}` is a link or belongs to another user, so an audit key in it is worth nothing",
            f"move it away, or choose another place with {KEY_VARIABLE}",
        )
    if about.st_mode & 0o777 != 0o700:
        os.chmod(folder, 0o700)  # what others could have put there is refused by its owner


def known_chain(state: str) -> Chain:
    """The chain of a state directory for verification; nothing is made. It has no key where there is none. Raises
    StorageFailed for a key that is not safe."""
    path = key_path()
    try:
        return Chain(state, read_key(path, state))
    except OSError as error:
        return Chain(
            state, None, f"the key `{path}` is not here: {error.strerror}" if path else "the user has no home for a key"
        )


def forget_place(state: str) -> None:
    """Keep nothing of a state directory that was made for a trial and is gone."""
    chain = known_chain(state)
    if chain.heads_path and os.path.lexists(chain.heads_path):
        os.unlink(chain.heads_path)
