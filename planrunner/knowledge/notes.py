"""A knowledge base: notes and claims with their citations, a YAML file for each.

The files hold what was said and by whom. Whether a claim is confirmed is never written down: see ``claims.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from planrunner.errors import UsageError
from planrunner.failures import Failure
from planrunner.files.beneath import Beneath, steps
from planrunner.files.walk import contents, entries
from planrunner.knowledge.sources import owner
from planrunner.records import Struct, defaults, fields
from planrunner.source import Source
from planrunner.syntax.notations import parse, write
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node, Scalar, to_json
from planrunner.syntax.tree import Sequence as SequenceNode

Json = Any
Kind = Literal["note", "claim"]

FOLDER = "kb"
LARGEST = 1 << 20
"""Bytes of a file of the base."""
_ID = re.compile(r"[a-z0-9][a-z0-9-]*")
MOST = 20_000
"""Files that a base may have."""


class Citation(NamedTuple):
    """Where something is said: at a ``url``, in a ``file`` of the project, or in an ``artifact``. ``checked`` tells
    that the quote stood in a text that was kept, or that file or artifact were there; only such a citation counts."""

    url: str = ""
    file: str = ""
    artifact: str = ""
    title: str = ""
    author: str = ""
    quote: str = ""
    sha256: str = ""
    text_sha256: str = ""
    date: str = ""
    copy_of: str = ""
    """The digest of the text of an earlier citation that this one nearly repeats, as a mirror does."""
    checked: bool = False

    @property
    def place(self) -> tuple[str, str]:
        """What tells it from another citation."""
        return (self.url or self.file or self.artifact, self.quote)

    @property
    def voice(self) -> str:
        """Who speaks: the author, else the owner of the site; files and artifacts of a project are one voice."""
        return self.author.casefold() or (owner(self.url) if self.url else "this project")


class PassedTest(Struct):
    """A test that came out well: the task of a run, and what it carries out."""

    task: str
    run: str
    command: str = ""


class Note(Struct):
    """A note or a claim; the ``title`` of a claim is what it states. ``by`` is who wrote it, ``created`` the day. A
    ``confidence`` that is stated, from 0 to 1, stands for the one that is counted."""

    kind: Kind
    id: str
    title: str
    text: str = ""
    tags: tuple[str, ...] = ()
    created: str = ""
    by: str = ""
    confidence: float | None = None
    citations: tuple[Citation, ...] = ()
    tests: tuple[PassedTest, ...] = ()
    contradicts: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """The note as data, without what says nothing."""
        data = self._asdict()
        data["citations"] = [_filled(citation._asdict()) for citation in self.citations]
        data["tests"] = [_filled(test._asdict()) for test in self.tests]
        return _filled({name: [*each] if isinstance(each, tuple) else each for name, each in data.items()})


def id_of(title: str) -> str:
    """The id of a note or claim, which is also the name of its file: words of the title and a digest of all of them."""
    words = re.findall(r"[a-z0-9]+", title.casefold())
    whole = " ".join(re.findall(r"\w+", title.casefold()))
    return "-".join((*words[:6], sha256(whole.encode("utf-8", "replace")).hexdigest()[:8]))[-100:]


def read_notes(tree: Beneath, folder: str) -> list[Note]:
    """All notes of a base, in the order of their ids; none where there is no such folder. Raises Failure for a file
    that is not one, policy for a folder outside the directory and what may not be read."""
    parts = steps(tree.directory, folder)
    try:
        paths = sorted(e.path for e in entries(tree, parts, lambda _: False) if e.name.endswith(".yaml"))
    except Failure as failure:
        if isinstance(failure.__context__, FileNotFoundError):
            return []
        raise
    if len(paths) > MOST:
        raise Failure(f"the knowledge base `{folder}` has more than {MOST:,} files")
    return [read_note(tree, path) for path in paths]


def read_note(tree: Beneath, path: str) -> Note:
    """The note in a file. Raises Failure."""
    try:
        handle = tree.open_to_read(path)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from None
    with open(handle, "rb") as file:
        return note_from(contents(file.fileno(), path, LARGEST), path)


def note_from(data: bytes, path: str) -> Note:
    """The note that a file holds. Raises Failure that says where it is wrong."""
    try:
        source = Source(data.decode("utf-8"), path, "yaml")
    except UnicodeDecodeError as error:
        raise Failure(f"{path} is not UTF-8 text: byte {error.start} does not fit") from None
    parsed = parse(source)
    wrong = next((each for each in parsed.findings if each.severity == "error"), None)
    if parsed.tree is None or wrong is not None:
        line, column = source.place(wrong.span.start) if wrong is not None else (1, 1)
        raise Failure(f"{path}:{line}:{column}: {wrong.message if wrong is not None else 'the file is empty'}")
    try:
        return _note(to_json(parsed.tree), path.rpartition("/")[2].removesuffix(".yaml"))
    except UsageError as error:
        raise Failure(f"{path} is not a note or claim: {error.message}") from None


_PARTS: dict[str, Any] = {"citations": Citation, "tests": PassedTest}


def _note(data: Json, name: str) -> Note:
    values: dict[str, Any] = {"kind": "", "id": "", "title": "", **_given(Note, data, "it")}
    for key in ("tags", "citations", "tests", "contradicts"):
        items = values.get(key, [])
        if not isinstance(items, list):
            raise UsageError(f"`{key}` is not a list")
        kind = _PARTS.get(key)
        values[key] = tuple(items if kind is None else (_part(kind, each, f"an item of `{key}`") for each in items))
    note = Note(**values)
    texts: tuple[Any, ...] = (note.title, note.text, note.created, note.by, *note.tags, *note.contradicts)
    if note.kind not in ("note", "claim") or note.id != name or not _ID.fullmatch(name) or not note.title:
        raise UsageError(f"it needs `kind` (note or claim), `id` (`{name}`, as the file is called) and `title`")
    if not all(isinstance(each, str) for each in texts):
        raise UsageError("`title`, `text`, `created`, `by` and all tags are text; write dates in quotes")
    stated: Any = note.confidence
    numbers = (int, float)
    if stated is not None and (isinstance(stated, bool) or not isinstance(stated, numbers) or not 0 <= stated <= 1):
        raise UsageError("`confidence` is a number from 0 to 1")
    return note


def _given(kind: Any, said: Json, what: str) -> dict[str, Json]:
    """What a mapping says; a key without a value says nothing. Raises UsageError, also for an unknown key."""
    if not isinstance(said, dict):
        raise UsageError(f"{what} is not a mapping")
    unknown = next((key for key in said if key not in fields(kind)), None)
    if unknown is not None:
        raise UsageError(f"{what} has no key `{unknown}`: expected {', '.join(fields(kind))}")
    return {key: value for key, value in said.items() if value is not None}


def _part(kind: Any, said: Json, what: str) -> Any:
    """A citation or a test. Raises UsageError."""
    given = _given(kind, said, what)
    for key, value in given.items():
        if not isinstance(value, bool if key == "checked" else str):
            wanted = "true or false" if key == "checked" else "text; write it in quotes"
            raise UsageError(f"`{key}` of {what} must be {wanted}")
    missing = next((key for key in fields(kind) if key not in defaults(kind) and key not in given), None)
    if missing is not None:
        raise UsageError(f"{what} needs `{missing}`")
    return kind(**given)


def note_text(note: Note) -> str:
    """A note as the YAML of its file."""
    return write(_node(note.as_json()), "yaml")


def _node(value: Json) -> Node:
    if isinstance(value, dict):
        return MappingNode([(Scalar(key, 0, 0, key), _node(each)) for key, each in value.items()], 0, 0)
    if isinstance(value, list):
        return SequenceNode([_node(each) for each in value], 0, 0)
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode()  # half of a surrogate pair would make the file unreadable
    return Scalar(value, 0, 0, str(value))


def _filled(data: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in data.items() if value not in ("", [], (), None, False)}
