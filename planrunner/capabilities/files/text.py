"""One text file: read, written, appended to or rendered; and single files for plugins."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple
from zlib import crc32

from planrunner.capabilities.contract import Context, Doc, Failure, capability, size
from planrunner.capabilities.files.inputs import check, permissions
from planrunner.capabilities.files.scope import scope_in
from planrunner.capabilities.files.verb import Plan, Verb, open_tree, undone
from planrunner.files.beneath import Beneath
from planrunner.files.changes import Change, Planned, Step, ways
from planrunner.files.staged import write_new
from planrunner.files.walk import FileState, contents, file_of, sha256, state_of
from planrunner.files.walk import content as content_of
from planrunner.plan.expressions.values import Names, TemplateError, text_of
from planrunner.plan.templates import render_text


class Content(NamedTuple):
    content: Annotated[str, Doc("the text")]
    size: Annotated[int, Doc("bytes of the file", form="bytes")]
    sha256: Annotated[str, Doc("of its bytes, in hexadecimal")]


@capability("files.read", effect="read", foreign=("content",), own=("sha256",))
def read(
    context: Context,
    path: Annotated[str, Doc("file to read, inside the working directory", form="file-read")],
    encoding: Annotated[str, Doc("how the text is encoded")] = "utf-8",
    max_bytes: Annotated[int | str, Doc("refuse a file larger than this", quantity="size")] = "1MiB",
) -> Content:
    """Read a text file.

    Links are followed as long as they stay inside the working directory; one that leads out, like a path with `..`, is
    refused with the failure class `policy`.
    """
    check({"path": path, "encoding": encoding})
    limit = bytes_of("max_bytes", max_bytes)
    with Beneath(context.call.directory, scope=scope_in(context)) as tree:
        try:
            handle = tree.open_to_read(path)
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror}") from None
        try:
            data = contents(handle, path, limit)
        finally:
            os.close(handle)
    return Content(decoded(path, data, encoding), len(data), sha256(data))


def decoded(path: str, data: bytes, encoding: str) -> str:
    """The text of a file. Raises Failure."""
    try:
        return data.decode(encoding)
    except LookupError:
        raise Failure(f"`{encoding}` is not a known encoding") from None
    except UnicodeDecodeError as error:
        raise Failure(f"{path} is not {encoding} text: byte {error.start} does not fit") from None


def bytes_of(name: str, value: int | str) -> int:
    """A size as bytes. Raises Failure with the name of the input."""
    try:
        return size(value)
    except ValueError as error:
        raise Failure(f"`{name}`: {error}") from None


Json = Any

_LARGEST = 64 << 20
"""Bytes of a file that text is appended to, or of a template."""


MODE = 'permissions in octal, such as "0644"; default: those of the old file, else "0644"'


class Written(NamedTuple):
    path: Annotated[str, Doc("the path as it was given")]
    changed: Annotated[bool, Doc("false where everything was as it should be already")]
    size: Annotated[int, Doc("bytes of the file", form="bytes")]
    sha256: Annotated[str, Doc("of its bytes, in hexadecimal")]


class Text(NamedTuple):
    """The file that is to be written: what all three are told alike."""

    path: str
    encoding: str
    mode: str | int
    parents: bool


def planned(text: Text, make: Callable[[Beneath, list[str], FileState | None], bytes]) -> Plan:
    """A plan that puts what ``make`` gives at the path."""

    def plan(_: Context, tree: Beneath) -> Planned:
        if text.path.endswith("/"):
            raise Failure(f"{text.path} names a folder, not a file")
        parts = tree.writable(text.path)
        path = "/".join(parts)
        before = state_of(tree, parts)
        if before is not None and before.kind != "file":
            if before.kind == "link":
                raise Failure(f"{path} is a link", rule="files.link")
            raise Failure(f"{path} is a folder")
        data = make(tree, parts, before)
        mode = permissions(text.mode)
        after = file_of(data, (before.mode if before else 0o644) if mode is None else mode)
        change = Change(path, before, after, lambda: (data,))
        outputs = Written(text.path, before != after, after.size, after.sha256)
        return Planned((*ways(tree, parts, text.parents), change), outputs._asdict())

    return plan


def encoded(text: str, encoding: str) -> bytes:
    """Text as the bytes of a file. Raises Failure."""
    try:
        return text.encode(encoding)
    except (LookupError, UnicodeEncodeError) as error:
        raise Failure(f"the content cannot be written as {encoding}: {error}") from None


def to_write(path: str, content: str, encoding: str = "utf-8", mode: str | int = "", parents: bool = False) -> Plan:
    """The plan to put a text at a path."""
    data = encoded(content, encoding)
    return planned(Text(path, encoding, mode, parents), lambda *_: data)


_WRITE = Verb("files.write", to_write)


@capability(
    "files.write",
    effect="idempotent",
    risks=("replaces the file that stands there",),
    preview=_WRITE.preview,
    capture=_WRITE.capture,
    undo=undone,
    own=("*",),
    writes=("path",),
)
def write(
    context: Context,
    path: Annotated[str, Doc("file to write, inside the working directory", form="file-written")],
    content: Annotated[str, Doc("the whole new content")],
    encoding: Annotated[str, Doc("how the text is encoded")] = "utf-8",
    mode: Annotated[str | int, Doc(MODE)] = "",
    parents: Annotated[bool, Doc("create missing folders")] = False,
) -> Written:
    """Write a text file: readers see the old content or the new one, never a part.

    The same content already there is left alone (`changed` is false). A path that leads out of the working directory,
    by `..` or by a link, and one in `.git`, in `.planrunner` or of a `planrunner.yaml`, is refused with the failure
    class `policy`.
    """
    inputs = {"path": path, "content": content, "encoding": encoding, "mode": mode, "parents": parents}
    return Written(**_WRITE.act(context, **inputs))


def _append(path: str, content: str, encoding: str = "utf-8", parents: bool = False) -> Plan:
    data = encoded(content, encoding)

    def make(tree: Beneath, parts: list[str], before: FileState | None) -> bytes:
        return (content_of(tree, parts, _LARGEST) if before else b"") + data

    return planned(Text(path, encoding, "", parents), make)


def _still_appended(tree: Beneath, steps: Sequence[Step]) -> bool:
    """Whether others have but added to what an earlier attempt left."""
    path, after = next((step.change.path, step.change.after) for step in steps if not step.change.way)
    now = state_of(tree, path.split("/"))
    if after is None or now is None or now.kind != "file" or now.size < after.size:
        return False
    return sha256(content_of(tree, path.split("/"), _LARGEST)[: after.size]) == after.sha256


_APPEND = Verb("files.append", _append, _still_appended)


@capability(
    "files.append",
    effect="idempotent",
    risks=("changes the file that stands there",),
    preview=_APPEND.preview,
    capture=_APPEND.capture,
    undo=undone,
    own=("*",),
    writes=("path",),
)
def append(
    context: Context,
    path: Annotated[
        str, Doc("file to append to, inside the working directory; made where it is missing", form="file-written")
    ],
    content: Annotated[str, Doc("what comes after the present end")],
    encoding: Annotated[str, Doc("how the text is encoded")] = "utf-8",
    parents: Annotated[bool, Doc("create missing folders")] = False,
) -> Written:
    """Add text at the end of a file, once, however often the task has to be tried.

    The file is replaced as a whole: readers see it without the text or with all of it. Where others do not only add to
    the file but rewrite it between two tries, nothing tells whether they kept the text: it is added again.
    """
    inputs = {"path": path, "content": content, "encoding": encoding, "parents": parents}
    return Written(**_APPEND.act(context, **inputs))


def _template(
    path: str,
    template: str = "",
    text: str = "",
    values: dict[str, Json] | None = None,
    mode: str | int = "",
    parents: bool = False,
) -> Plan:
    if bool(template) == bool(text):
        raise Failure("either `template`, the path of a file, or `text` is needed")

    def make(tree: Beneath, parts: list[str], before: FileState | None) -> bytes:
        source = text
        if template:
            try:
                handle = tree.open_to_read(template)
            except OSError as error:
                raise Failure(f"{template} cannot be read: {error.strerror}") from None
            with os.fdopen(handle, "rb") as file:
                source = decoded(template, file.read(_LARGEST), "utf-8")
        try:
            return encoded(text_of(render_text(source, Names(values or {}))), "utf-8")
        except TemplateError as error:
            raise Failure(f"{template or 'the text'} cannot be rendered: {error.message}") from None

    return planned(Text(path, "utf-8", mode, parents), make)


_TEMPLATE = Verb("files.template", _template)


@capability(
    "files.template",
    effect="idempotent",
    risks=("replaces the file that stands there",),
    preview=_TEMPLATE.preview,
    capture=_TEMPLATE.capture,
    undo=undone,
    own=("*",),
    writes=("path",),
)
def template(
    context: Context,
    path: Annotated[str, Doc("file to write, inside the working directory", form="file-written")],
    template: Annotated[str, Doc("file that holds the template, inside the working directory", form="file-read")] = "",
    text: Annotated[str, Doc("the template itself, instead of a file")] = "",
    values: Annotated[dict[str, Any] | None, Doc("what the names in the template stand for")] = None,
    mode: Annotated[str | int, Doc(MODE)] = "",
    parents: Annotated[bool, Doc("create missing folders")] = False,
) -> Written:
    """Write a file from a template and values.

    The template sees the values and nothing else, in the language of the templates of plans; a name that has no
    value fails. A template in a file is the usual form: `{{ … }}` in a plan is filled in before the task starts,
    unless it stands between `{% raw %}` and `{% endraw %}`.
    """
    inputs = {"path": path, "template": template, "text": text, "values": values, "mode": mode, "parents": parents}
    return Written(**_TEMPLATE.act(context, **inputs))


LIMIT = 16 << 20
"""Bytes that are read of a file where nothing else is said."""


def read_inside(context: Context, path: str, limit: int = LIMIT) -> bytes | None:
    """The content of a file, relative to the working directory; None where it does not exist. Links are followed
    as long as they stay inside. Raises Failure: ``policy`` for a path that leads out, ``logic`` for one that cannot be
    read or has more than ``limit`` bytes."""
    with open_tree(context, looks=True) as tree:
        try:
            handle = tree.open_to_read(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror}") from None
        try:
            return contents(handle, path, limit)
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror}") from None
        finally:
            os.close(handle)


def write_inside(context: Context, path: str, data: bytes) -> None:
    """Write a file at once: readers see the old content or the new. One that stands there keeps its
    permissions; its folder has to be there. Raises Failure: ``policy`` for a path that leads out, through a link or to
    a link, or that plans do not write to."""
    with _folder(context, path) as (folder, name):
        mode = _mode(folder, name, path)
        staged = f".planrunner-{name[:100]}-{crc32(context.call.key.encode()):08x}.part"  # each call has its own
        with contextlib.suppress(FileNotFoundError):
            os.unlink(staged, dir_fd=folder)  # left behind when this very call was cut off
        write_new(folder, staged, mode, (data,))
        os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def remove_inside(context: Context, path: str) -> None:
    """Remove a file; nothing where it does not exist. Raises Failure like ``write_inside``."""
    with _folder(context, path) as (folder, name):
        if _mode(folder, name, path) is not None:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)


@contextlib.contextmanager
def _folder(context: Context, path: str) -> Iterator[tuple[int, str]]:
    """The folder of a path that may be written, open, and the name in it."""
    with open_tree(context) as tree:
        try:
            with tree.parent(tree.writable(path)) as place:
                yield place
        except OSError as error:
            raise Failure(f"{path} cannot be written: {error.strerror}") from None


def _mode(folder: int, name: str, path: str) -> int | None:
    """The permissions of the file that stands there, None where it does not exist. Raises Failure for anything else."""
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(info.st_mode):
        raise Failure(f"{path} is a link", rule="files.link")
    if not stat.S_ISREG(info.st_mode):
        raise Failure(f"{path} is not a regular file")
    return stat.S_IMODE(info.st_mode)
