"""``http.download``: streamed to a file, resumed where it broke off, checked, and put in place as a whole."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, BinaryIO, NamedTuple, Unpack, cast

import httpx2

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.files.inputs import artifact_name
from planrunner.capabilities.files.records import forget_old
from planrunner.capabilities.files.verb import kept, open_tree
from planrunner.capabilities.http.answer import Received, name_of
from planrunner.capabilities.http.exchange import answered, judged, opened, passing
from planrunner.capabilities.http.inputs import INLINE, Fetching, Url
from planrunner.capabilities.http.request import Ask, asked, call_of, previewed, size_of
from planrunner.fileio import replace_file
from planrunner.files.beneath import Beneath
from planrunner.files.changes import Change, stepped, ways
from planrunner.files.staged import perform
from planrunner.files.walk import FileState, entries, state_at, state_from, state_of

FOLDER = "http-downloads"

_NOTED = 1 << 18
"""Bytes after which the note is renewed while a file grows. A runner that is killed loses so many of it."""
_CHUNK = 1 << 20


class Partial:
    """The beginning of a file and what it is the beginning of: the validator that the server gave it.

    One download at a time holds it; another one of the same address at the same time gets a place of its own.
    """

    __slots__ = (
        *("_context", "_digest", "_file", "_folder", "_gone", "_name", "_noted", "_shared", "_sure"),
        *("resumed", "validator"),
    )

    def __init__(self, context: Context, identity: str) -> None:
        self._context = context
        self._folder = context.cache(FOLDER)
        self._name = hashlib.sha256(identity.encode()).hexdigest()[:32]
        if self._name.startswith("0"):  # now and then
            forget_old(self._folder)
        self._file = self._open()
        self._shared = _locked(self._file)
        if not self._shared:
            self._file.close()
            self._name = f"{self._name}-{uuid.uuid4().hex[:12]}"
            self._file = self._open()
        self._gone = False
        self._digest = hashlib.sha256()
        self._sure = self._noted = 0
        self.validator = self._remembered()
        self.resumed = 0

    @property
    def path(self) -> str:
        return os.path.join(self._folder, f"{self._name}.part")

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def begin(self, validator: str) -> None:
        """Forget what is there; what comes now belongs to ``validator`` (empty: it cannot be continued)."""
        self._file.truncate(0)
        self._digest = hashlib.sha256()
        self._sure = self._noted = 0
        self.validator, self.resumed = validator, 0

    def add(self, data: bytes) -> None:
        self._file.seek(0, os.SEEK_END)
        rest = memoryview(data)
        while rest:  # a disk that is nearly full takes a part
            rest = rest[self._file.write(rest) :]
        self._digest.update(data)
        self._sure += len(data)
        if self._sure - self._noted >= _NOTED:
            self._write_note()

    def digest(self) -> str:
        self._file.seek(0)
        return hashlib.file_digest(self._file, "sha256").hexdigest()  # type: ignore[arg-type]

    def parts(self) -> Iterator[bytes]:
        """The whole content in pieces."""
        self._file.seek(0)
        while part := self._file.read(_CHUNK):
            yield part

    def drop(self) -> None:
        """Remove it: the download is complete, or what is there is worth nothing."""
        self._gone = True
        for path in (self.path, self._note()):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def close(self) -> None:
        if not self._shared:
            self.drop()
        elif not self._gone and self._sure > self._noted:
            with contextlib.suppress(OSError):  # then less is continued
                self._write_note()
        self._file.close()

    def _open(self) -> BinaryIO:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return cast("BinaryIO", os.fdopen(os.open(self.path, flags, 0o600), "r+b", buffering=0))

    def _note(self) -> str:
        return os.path.join(self._folder, f"{self._name}.json")

    def _remembered(self) -> str:
        """The validator of what is there; what no validator covers is removed."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            with open(self._note(), encoding="utf-8") as note:
                stored = self._context.opened(f"download {self._name}", note.read())
            validator, size, digest = json.loads(stored or "null")
            if self._read_up_to(size) == size and digest == self._digest.hexdigest():
                self._file.truncate(size)
                self._sure = self._noted = size
                return str(validator)
        self.begin("")
        return ""

    def _read_up_to(self, size: int) -> int:
        """Digest the beginning of the file; gives how much there is of it."""
        have = 0
        while have < size and (part := self._file.read(min(_CHUNK, size - have))):
            self._digest.update(part)
            have += len(part)
        return have

    def _write_note(self) -> None:
        state = json.dumps([self.validator, self._sure, self._digest.hexdigest()])
        replace_file(self._note(), self._context.vouched(f"download {self._name}", state).encode("utf-8"))
        self._noted = self._sure


def _locked(opened: BinaryIO) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return os.fstat(opened.fileno()).st_nlink > 0  # else its holder has removed it meanwhile


_PROGRESS = 1 << 16
"""Bytes after which an attempt whose connection breaks off does not count against `retries`."""


class Wanted(NamedTuple):
    """What has to come out: digest and size, if they are known, and the size it may have at most."""

    sha256: str
    size: int | None
    limit: int

    def fault(self, partial: Partial) -> str:
        """What is wrong with a file that is complete, or an empty string."""
        if self.size is not None and partial.size != self.size:
            return f"the file has {partial.size} bytes, expected {self.size}"
        if self.sha256 and (found := partial.digest()) != self.sha256:
            return f"the file has the SHA-256 {found}, expected {self.sha256}"
        return ""


def read_to_end(context: Context, ask: Ask, wanted: Wanted, partial: Partial) -> None:
    """Read the file, of which a server may send a part at a time. A connection that breaks off fails the attempt, and
    the next one reads on from there; after a good part it has as many further attempts as at first. Raises Failure."""
    note, before = f"http attempt {_note(context)}", partial.size
    noted = context.noted(note)
    try:
        with opened(context, ask) as connected:
            size = before
            while not _read(context, ask, wanted, partial, connected):
                if partial.size <= size:
                    raise passing(ask, Failure(f"{ask.shown}: nothing of the rest came"))
                size = partial.size
        if wanted.fault(partial) and partial.resumed:
            partial.begin("")
            raise passing(ask, Failure(f"{ask.shown}: the beginning belonged to another file"))
    except Failure as failure:
        if failure.retry and partial.size >= before + _PROGRESS and _resumable(wanted, partial):
            noted = str(context.call.attempt)
            context.note(note, noted)
        if failure.retry and noted:
            failure.retry["attempts"] += int(noted) - 1
        raise
    if noted:
        context.note(note, "")


def _resumable(wanted: Wanted, partial: Partial) -> bool:
    return bool(partial.size and (partial.validator or wanted.sha256))


def _read(context: Context, ask: Ask, wanted: Wanted, partial: Partial, connected: httpx2.Client) -> bool:
    """Read as much as one answer gives; tells whether that was the rest, of which a server may send a part."""
    have = partial.size if _resumable(wanted, partial) else 0
    more = {"range": f"bytes={have}-"} if have else {}
    if have and partial.validator:
        more["if-range"] = partial.validator
    with answered(ask, connected, more) as response:
        if response.status_code == 416 and have:
            if total_of(response.headers) == have:
                partial.resumed = have
                return True
            partial.begin("")
            raise passing(ask, Failure(f"{ask.shown}: there is nothing after {have} bytes"))
        if response.status_code == 206 and have and _is_other(response, partial):
            partial.begin("")
            raise passing(ask, Failure(f"{ask.shown}: the file is another one now"))
        if response.status_code == 206 and have and _start(response) == have:
            partial.resumed = partial.resumed or have
        elif response.status_code == 206 or not ask.expected.good(response.status_code):
            received = Received(context, INLINE, INLINE)
            nothing = ask._replace(expected=ask.expected._replace(ranges=()))
            try:
                received.take(response)
                judged(context, nothing, response, received)
            finally:
                received.close()
        else:
            partial.begin(validator_of(response.headers))
        _check_announced(ask, wanted, response, partial.size)
        for part in response.iter_raw():
            if partial.size + len(part) > wanted.limit:
                raise Failure(f"{ask.shown}: the file is larger than `max_bytes`, which is {wanted.limit}")
            partial.add(part)
        return response.status_code != 206 or partial.size >= total_of(response.headers)


def _check_announced(ask: Ask, wanted: Wanted, response: httpx2.Response, have: int) -> None:
    length = response.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        return
    whole = have + int(length)
    if whole > wanted.limit:
        raise Failure(f"{ask.shown}: the file has {whole} bytes, more than `max_bytes`, which is {wanted.limit}")
    if wanted.size is not None and whole != wanted.size and not have:
        raise Failure(f"{ask.shown}: the file has {whole} bytes, expected {wanted.size}")


def validator_of(headers: Any) -> str:
    """What tells by a range request whether the file is still the same; empty where nothing does."""
    etag = str(headers.get("etag", "")).strip()
    if etag.startswith('"'):
        return etag
    modified = str(headers.get("last-modified", "")).strip()
    return "" if etag or _is_fresh(modified, str(headers.get("date", ""))) else modified


def _is_fresh(modified: str, sent: str) -> bool:
    """Whether the file was changed in the second in which it was sent: it may have been once more since."""
    try:
        return (parsedate_to_datetime(sent) - parsedate_to_datetime(modified)).total_seconds() < 1
    except (TypeError, ValueError, OverflowError):
        return False


def _is_other(response: httpx2.Response, partial: Partial) -> bool:
    """Whether a part belongs to another file than the one begun, though the server was asked not to send such a one."""
    validator = validator_of(response.headers)
    return bool(validator and partial.validator and validator != partial.validator)


def _start(response: httpx2.Response) -> int:
    """Where the bytes of a partial answer begin; -1 where it does not say."""
    unit, _, span = response.headers.get("content-range", "").partition(" ")
    first = span.partition("-")[0].strip()
    return int(first) if unit == "bytes" and first.isascii() and first.isdigit() else -1


def total_of(headers: Any) -> int:
    """How long the file is of which a part came; -1 where that is not told."""
    total = str(headers.get("content-range", "")).rpartition("/")[2].strip()
    return int(total) if total.isascii() and total.isdigit() else -1


def state_there(context: Context, path: str) -> FileState | None:
    """The file at a path, None where it or its folder does not exist. Raises Failure for what is not a file, or cannot
    be one; policy for a link, and for a path that plans do not write to."""
    with open_tree(context) as tree:
        return _state_there(tree, path)


def put(
    context: Context,
    path: str,
    wanted: FileState | None,
    source: Callable[[], Iterable[bytes]] | None,
    mark: str,
    parents: bool = False,
) -> None:
    """Have ``wanted`` stand at a path, with the bytes of ``source``, or nothing. Readers see the one or the other.

    Meanwhile files lie beside it whose names begin with ``mark``; ``clean`` knows them by it after a kill. Raises
    Failure where it cannot be done, also because another process changes the file at the same time.
    """
    with open_tree(context) as tree:
        parts = tree.writable(path)
        change = Change("/".join(parts), _state_there(tree, path), wanted, source)
        folders = ways(tree, parts, parents) if wanted is not None else []
        perform(tree, stepped(tree, (change, *folders), mark))


def clean(context: Context, path: str, mark: str) -> None:
    """Remove what a kill left beside a path, or above it where its folder was still to be made."""
    with open_tree(context) as tree, contextlib.suppress(OSError, Failure):
        parts = tree.writable(path)
        (step,) = stepped(tree, (Change("/".join(parts), None, None),), mark)
        for count in range(len(parts)):
            with contextlib.suppress(OSError), tree.inside("/".join(parts[:count])) as folder:
                os.unlink(step.aside, dir_fd=folder)


def missing_folders(context: Context, path: str, parents: bool) -> list[str]:
    """Folders that are to be made for a file. Raises Failure where they may not be."""
    with open_tree(context) as tree:
        return [way.path for way in ways(tree, tree.writable(path), parents)]


def _remove_empty(context: Context, folders: list[str], mark: str) -> bool:
    """Remove the folders, each above the next one, that hold nothing; tells whether there was one."""
    with open_tree(context) as tree:
        for count, path in enumerate(reversed(folders)):
            now = state_at(tree, path)
            if now is None or now.kind != "folder" or next(entries(tree, path.split("/"), lambda _: False), None):
                return count > 0
            perform(tree, stepped(tree, (Change(path, now, None),), mark))
    return bool(folders)


def _state_there(tree: Beneath, path: str) -> FileState | None:
    parts = tree.writable(path)
    ways(tree, parts, True)
    found = state_of(tree, parts)
    if found is None or found.kind == "file":
        return found
    if found.kind == "link":
        raise Failure(f"{path} is a link", rule="files.link")
    raise Failure(f"{path} is a {found.kind}")


class Downloaded(NamedTuple):
    """What a download gives."""

    path: Annotated[str, Doc("file inside the working directory; empty where it is an artifact only")]
    size: Annotated[int, Doc("bytes", form="bytes")]
    sha256: Annotated[str, Doc("digest")]
    url: Annotated[str, Doc("address that was asked, without its query")]
    changed: Annotated[bool, Doc("false where the same file stood at the path already")]
    resumed: Annotated[int, Doc("bytes that were there from an earlier try and not sent again", form="bytes")]
    attempts: Annotated[int, Doc("number of the attempt that came to its end; 0 where the file was there already")]
    elapsed: Annotated[float, Doc("seconds", form="seconds")]
    artifact: Annotated[dict[str, Any] | None, Doc("record of the artifact, where it is kept as one")]


def _preview(context: Context, url: str, path: str = "", artifact: str = "", **options: Any) -> Preview:
    given = {name: value for name, value in options.items() if name in Fetching.__annotations__}
    ask = previewed(context, "GET", url, given, Fetching)
    where = path or f"the artifact `{artifact or name_of(_plain(ask))}`"
    return Preview(f"would download {_plain(ask)} to {where}", calls=(call_of(ask),))


def _capture(context: Context, url: str, path: str = "", parents: bool = False, **options: Any) -> dict[str, Any]:
    """Where the folder is missing and may not be made, nothing stands there: the attempt says so itself."""
    if not path:
        return {}
    found = state_there(context, path)
    if found is not None and context.keep_file(path, f"before/{artifact_name(path)}")["sha256"] != found.sha256:
        raise Failure(f"{path} is being changed by another process", "transient")
    before = {"path": path, "stood": found and found.as_json(), "note": _note(context)}
    folders = missing_folders(context, path, True) if parents else []
    return {**before, "folders": folders} if folders else before


def _undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any] | None:
    """Put back what stood at the path. What another process changed since is left as it is, and fails."""
    if not before:
        return None
    path, stood = before["path"], state_from(before["stood"])
    clean(context, path, before["note"])
    now = state_there(context, path)
    folders = before.get("folders", [])
    if now == stood:
        return {"changed": _remove_empty(context, folders, before["note"])}
    ours = {(outputs or {}).get("sha256"), context.noted(f"http {before['note']}"), stood and stood.sha256}
    if now is not None and now.sha256 not in ours:
        raise Failure(f"{path} was changed since it was downloaded, so it is left as it is")
    put(context, path, stood, kept(context, stood.sha256) if stood else None, before["note"])
    _remove_empty(context, folders, before["note"])
    return {"changed": True}


@capability(
    "http.download",
    effect="idempotent",
    risks=("reaches the network", "replaces the file that stands at the path"),
    spends=("calls",),
    preview=_preview,
    capture=_capture,
    undo=_undo,
    foreign=("url",),
    own=("path", "sha256", "artifact"),
    writes=("path",),
)
def download(
    context: Context,
    url: Url,
    path: Annotated[
        str, Doc("file to write, inside the working directory; default: an artifact instead", form="file-written")
    ] = "",
    artifact: Annotated[str, Doc("keep it as an artifact of this name, also beside the file")] = "",
    sha256: Annotated[
        str, Doc("digest it has to have; a file that has it already is not downloaded", use="digest")
    ] = "",
    size: Annotated[int | str | None, Doc("size it has to have", quantity="size")] = None,
    max_bytes: Annotated[int | str, Doc("refuse what is larger than this", quantity="size")] = "10GiB",
    parents: Annotated[bool, Doc("create missing folders")] = False,
    **options: Unpack[Fetching],
) -> Downloaded:
    """Download a file.

    Where a connection broke off, the next attempt or run reads on by a range request, as long as the server says by
    `ETag` or `Last-Modified` that the file is the same, or `sha256` is given. The file appears at its path as a whole,
    checked, or not at all. It is kept as the server sends it: nothing is unpacked.
    """
    started = time.monotonic()
    wrong = [name for name, text in (("path", path), ("artifact", artifact)) if type(text) is not str]
    if wrong:
        raise Failure(f"`{wrong[0]}` must be text")
    digest = str(sha256).lower().removeprefix("sha256:")
    if digest and not (len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
        raise Failure(f"`sha256` must be 64 hexadecimal digits, found {str(sha256)[:80]}")
    ask = asked(context, "GET", url, options, Fetching)
    ask = ask._replace(headers={**ask.headers, "accept-encoding": "identity"})
    length = None if size is None else size_of(size, "size")
    wanted = Wanted(digest, length, size_of(max_bytes, "max_bytes"))
    there = state_there(context, path) if path else None
    if path:
        missing_folders(context, path, parents)
    if there is not None and there.sha256 == wanted.sha256 and not artifact:
        return Downloaded(path, there.size, there.sha256, _plain(ask), False, 0, 0, 0.0, None)
    partial = Partial(context, json.dumps([ask.url, sorted(ask.headers.items()), dict(ask.credentials.shown)]))
    try:
        read_to_end(context, ask, wanted, partial)
        if fault := wanted.fault(partial):
            outputs = {"size": partial.size, "sha256": partial.digest()}
            raise Failure(f"{ask.shown}: {fault}", "logic", outputs)
        number = context.call.attempt
        found = Downloaded(path, partial.size, partial.digest(), _plain(ask), True, partial.resumed, number, 0.0, None)
        name = artifact or ("" if path else name_of(found.url))
        found = _deliver(context, found, name, partial, parents)
        partial.drop()
    except Failure as failure:
        if failure.failure not in ("transient", "interrupted"):  # then there is something to continue with
            partial.drop()
        raise
    finally:
        partial.close()
    return found._replace(elapsed=round(time.monotonic() - started, 3))


def _plain(ask: Ask) -> str:
    return ask.url.partition("?")[0]


def _deliver(context: Context, found: Downloaded, name: str, partial: Partial, parents: bool) -> Downloaded:
    if name:
        found = found._replace(artifact=context.keep_file(partial.path, name))
    if not found.path:
        return found
    there = state_there(context, found.path)
    if there is not None and there.sha256 == found.sha256:
        return found._replace(changed=False)
    context.note(f"http {_note(context)}", found.sha256)
    wanted = FileState("file", there.mode if there else 0o644, found.size, found.sha256)
    put(context, found.path, wanted, partial.parts, _note(context), parents)
    return found


def _note(context: Context) -> str:
    """Name of the note that tells an undo what was written where its end was not seen."""
    return hashlib.sha256((context.call.once or context.call.key).encode()).hexdigest()[:32]
