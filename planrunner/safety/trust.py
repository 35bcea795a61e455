"""What their user has looked at and trusts, by content: files that are plugins, plans from outside a project, and
projects whose plans are run from elsewhere; and what belongs to a project without being looked at. Kept for each user,
outside every project.

A record holds path, digest and text of what was trusted. It counts where the digest still is what it was, and where
no other user could have written the record: it belongs to the user and is theirs alone to write. What is trusted as one
kind is nothing as another: a plan that was looked at may not be executed as a plugin. A record of the kind ``draft``
gives nothing: it is the mark of a plan file whose text came from outside, and takes from it that it runs without a
question.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from typing import Any, Literal

from planrunner.caller import workspace
from planrunner.errors import StorageFailed
from planrunner.fileio import read_regular, replace_file
from planrunner.records import Struct, astuple, fields
from planrunner.safety.project import FILE, read_data, settings_files
from planrunner.source import MAX_TEXT

Json = Any
TrustState = Literal["trusted", "changed", "untrusted"]
Kind = Literal["plugin", "plan", "project", "draft"]

_MARKS = (FILE, ".git")
_ALL_MARKS = (".planrunner", *_MARKS)

UNWATCHED = frozenset({".git", "node_modules", "__pycache__", "venv", ".venv", "site-packages"})
"""Folders with files by the thousand: it is not looked what a run writes there, so a plan there waits for a person."""

_PREFIXES: dict[str, str] = {"plugin": "", "plan": "plan-", "project": "project-", "draft": "draft-"}
"""How the names of the records of a kind begin."""


class Record(Struct):
    """What was trusted once: the digest (SHA-256) and text of the file, and when (seconds since 1970). Of a mark
    ``why`` says in words where the text came from, and ``before`` is the digest of what the file held before, empty for
    a new one."""

    path: str
    sha256: str
    text: str
    at: float
    why: str = ""
    before: str = ""
    earlier: tuple[str, ...] = ()
    """The digests of the texts that the file was marked for before."""


class Note(Struct):
    """What a process may write plans into meanwhile, the digests of those that were there, and why that matters."""

    pid: int
    folders: list[str]
    before: dict[str, str]
    why: str


_LONGEST = 1 << 26
"""Bytes of a note."""


def trust_folder() -> str:
    """``$XDG_DATA_HOME/planrunner/trust`` or ``~/.local/share/planrunner/trust``."""
    root = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(root):
        root = os.path.expanduser("~/.local/share")
    return os.path.join(root, "planrunner", "trust")


def digest(text: bytes) -> str:
    """The digest by which a text is known."""
    return hashlib.sha256(text).hexdigest()


def trust_state(path: str, text: bytes, kind: Kind = "plugin") -> TrustState:
    """Whether this text of the file is trusted, or another one was."""
    record = trusted(path, kind)
    if record is None:
        return "untrusted"
    return "trusted" if record.sha256 == digest(text) else "changed"


def trusted(path: str, kind: Kind = "plugin") -> Record | None:
    """What was trusted of a file; None where nothing was, or the record is not the user's own."""
    record = _read(_place(path, kind))
    return record if record is not None and record.path == _real(path) else None


def records(kind: Kind) -> list[Record]:
    """Everything of a kind that is trusted, by path."""
    try:
        names = os.listdir(trust_folder())
    except OSError:
        return []
    places = [name for name in names if name.endswith(".json") and _kind_of(name) == kind]
    stored = [_read(os.path.join(trust_folder(), name)) for name in places]
    sound = [each for each in stored if each is not None]
    return sorted((each for each in sound if os.path.basename(_place(each.path, kind)) in places), key=astuple)


def trust(path: str, text: bytes, kind: Kind = "plugin") -> None:
    """Trust this text of the file from now on. Raises StorageFailed where that cannot be kept safely."""
    _keep(Record(_real(path), digest(text), text.decode("utf-8", "surrogateescape"), time.time()), kind)


def _keep(record: Record, kind: Kind) -> None:
    folder, place = trust_folder(), _place(record.path, kind)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not _is_own(os.stat(folder)):
            raise StorageFailed(f"`{folder}` can be written by others, so what it says is worth nothing",
                                f"make it yours alone: `chmod 700 {folder}`")  # fmt: skip
        replace_file(place, json.dumps(record._asdict()).encode("ascii"), durable=True)
    except OSError as error:
        raise StorageFailed(f"trust cannot be kept in `{folder}`: {error.strerror or error}") from error


_MARKED = 1_000
"""Texts of one file that are known to be from outside, the latest ones."""
DRAFTED = "it was drafted for a goal"
"""Why a plan that planrunner or a model wrote for a person waits for one."""


def mark(path: str, text: bytes, why: str, before: str | None = None) -> None:
    """Note that a plan file gets text from outside: this text, and any that it was marked for earlier, runs only as a
    person allows it, unless it is what it was ``before`` (the digest of that, empty for nothing; None: what it holds
    now). ``why``
    says in words where the text came from. Raises StorageFailed where that cannot be kept safely."""
    earlier = trusted(path, "draft")
    if earlier is not None:
        before = earlier.before
    elif before is None:
        before = _digest_of(path)
    content = text.decode("utf-8", "surrogateescape")
    marked = () if earlier is None else tuple(dict.fromkeys((earlier.sha256, *earlier.earlier)))[:_MARKED]
    _keep(Record(_real(path), digest(text), content, time.time(), why, before, marked), "draft")


def why_marked(path: str, sha256: str = "") -> str:
    """Why a plan file of the project needs the word of a person, in words; empty for one that a person wrote, also over
    text from outside, and for one that holds again what it held before that came. A drafted one needs it whatever a
    person made of it. ``sha256`` is the digest of what was read of it."""
    record = trusted(path, "draft")
    if record is None or (record.before and record.before == (sha256 or _digest_of(path))):
        return _why_unwatched(path) or _why_noted(path, sha256)
    if record.why and record.why != DRAFTED and not _is_marked_text(record, sha256 or _digest_of(path)):
        return _why_unwatched(path) or _why_noted(path, sha256)
    return record.why or DRAFTED


def note(folders: list[str], before: dict[str, str], why: str) -> str:
    """Note that text from outside may be written into these folders until the note is taken back: a plan file there
    with another digest than ``before`` waits for a person, also where the process that watches is killed. The path of
    the note. Raises StorageFailed."""
    place = os.path.join(trust_folder(), "notes", f"{os.urandom(8).hex()}.json")
    try:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        text = json.dumps(Note(os.getpid(), folders, before, why)._asdict())
        replace_file(place, text.encode("ascii"), durable=False)
    except OSError as error:
        raise StorageFailed(
            f"it cannot be noted in `{trust_folder()}` what may write plans: {error.strerror or error}"
        ) from error
    return place


def take_back(place: str) -> None:
    """Take a note back, once what was written is marked."""
    try:
        os.unlink(place)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StorageFailed(f"`{place}` cannot be taken back: {error.strerror or error}") from error


def notes() -> Iterator[tuple[str, Note]]:
    """The notes that stand, with their paths."""
    folder = os.path.join(trust_folder(), "notes")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        try:
            yield os.path.join(folder, name), Note(**json.loads(read_regular(os.path.join(folder, name), _LONGEST)))
        except (OSError, ValueError, TypeError):
            continue  # it was taken back just now


def _why_noted(path: str, sha256: str) -> str:
    real = _real(path)
    for _, each in notes():
        inside = any(real.startswith(f"{folder.rstrip('/')}/") for folder in each.folders)
        if inside and each.before.get(real, "") != (sha256 or _digest_of(path)):
            return each.why
    return ""


def _why_unwatched(path: str) -> str:
    """Why it is not known who wrote a plan file, in words; empty for any other."""
    below = os.path.relpath(_real(path), os.path.realpath(workspace().root)).split(os.sep)
    folder = next((part for part in below[:-1] if part in UNWATCHED), "")
    return f"what is written in a folder `{folder}` is not watched" if folder else ""


def holds_marked(path: str) -> bool:
    """Whether a file holds a text from outside that it was marked for, and nothing that a person made of it."""
    record = trusted(path, "draft")
    return record is not None and _is_marked_text(record, _digest_of(path))


def _is_marked_text(record: Record, sha256: str) -> bool:
    return sha256 in (record.sha256, *record.earlier)


def _digest_of(path: str) -> str:
    try:
        return digest(read_regular(path, MAX_TEXT + 1))
    except OSError:
        return ""


def untrust(path: str, kind: Kind = "plugin") -> bool:
    """Trust nothing of a file any more; whether there was something."""
    try:
        os.unlink(_place(path, kind))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageFailed(f"trust cannot be taken back in `{trust_folder()}`: {error.strerror or error}") from error
    return True


def _read(place: str) -> Record | None:
    """A sound record of this user; None for any other."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with open(descriptor, encoding="utf-8") as file:
            if not _is_own(os.fstat(descriptor)) or not _is_own(os.stat(trust_folder())):
                return None
            kept = json.load(file)
        record = Record(**{field: kept[field] for field in fields(Record) if field in kept})
        return record if record.sha256 == digest(_bytes(record.text)) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _place(path: str, kind: Kind) -> str:
    return os.path.join(trust_folder(), f"{_PREFIXES[kind]}{digest(os.fsencode(_real(path)))[:40]}.json")


def _kind_of(name: str) -> str:
    return next((kind for kind, prefix in _PREFIXES.items() if prefix and name.startswith(prefix)), "plugin")


def _real(path: str) -> str:
    return os.path.realpath(path)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _is_own(about: os.stat_result) -> bool:
    return about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def trusted_home(path: str) -> str:
    """The root of the trusted project that a file lies in; empty for a file outside all of them."""
    at = os.path.dirname(os.path.realpath(path))
    while True:
        record = trusted(at, "project")
        if record is not None and record.sha256 == digest(settings_text(at)):
            return at
        above = os.path.dirname(at)
        if above == at:
            return ""
        at = above


def settings_text(folder: str) -> bytes:
    """The settings of a project as they stand in its file and those that it includes; empty where it has none."""
    text = _content(folder, FILE)
    if b"include" not in text:
        return text
    parts = [text]
    for name in settings_files(folder)[1:]:
        parts += [name.encode("utf-8", "surrogateescape"), _content(folder, name)]
    return b"\0".join(parts)


def _content(folder: str, name: str) -> bytes:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()
    except OSError:
        return b""


def why_outside(path: str, project: str, home: str = "") -> str:
    """Why a file does not belong to a project, in words; empty if it does. ``project`` is that of the working
    directory, ``home`` a trusted one that counts instead.

    What counts is where links lead to. Everything from the root of the project down to the file has to belong to the
    caller or to root, and no other repository may lie in between. A folder of downloads is not a
    project (see ``_is_project``): there only files beside the caller, or in ``plans`` beside them, count.
    """
    root, real = os.path.realpath(home or project), os.path.realpath(path)
    if not home and not _is_project(root):
        root = os.path.realpath(workspace().root)
        if os.path.dirname(real) not in (root, os.path.join(root, "plans")):
            return f"`{root}` is not a project (no .git or planrunner.yaml)"
    elif real != root and not real.startswith(f"{root.rstrip('/')}/"):
        return f"it lies outside the project `{root}`"
    return _passed_on(root, real)


def own_settings(project: str) -> dict[str, Json]:
    """What the settings of a project say; nothing where they come from outside. Raises as ``read_data``."""
    path = os.path.join(project, FILE)
    return {} if os.path.lexists(path) and why_outside(path, project) else read_data(project)


def _is_project(root: str) -> bool:
    """Whether all below a folder is one project: ``/`` and the home folder only if they are marked."""
    return _is_marked(root) or root not in ("/", os.path.realpath(os.path.expanduser("~")))


def _is_marked(root: str) -> bool:
    """Whether a folder is marked as a project; a state directory alone is not a mark, since runs leave it behind."""
    return any(os.path.lexists(os.path.join(root, mark)) for mark in _MARKS)


def _passed_on(root: str, real: str) -> str:
    """Why a file below a root is not of the one who has the root: another owner, or another project on the way."""
    mine = {0, os.geteuid(), _behind_sudo()}
    marks = (".git",) if _is_marked(root) else _ALL_MARKS
    at = real
    while True:
        try:
            about = os.lstat(at)
        except OSError:
            return ""  # reading it reports what is wrong
        if about.st_uid not in mine:
            return f"`{at}` belongs to another user ({about.st_uid})"
        if at == root:
            return ""
        if stat.S_ISDIR(about.st_mode) and any(os.path.lexists(os.path.join(at, mark)) for mark in marks):
            return f"`{at}` is a project of its own"
        at = os.path.dirname(at)


def _behind_sudo() -> int:
    """The user who became root by ``sudo``, as git takes it too; root without ``sudo``."""
    user = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return int(user) if user.isascii() and user.isdigit() else 0
