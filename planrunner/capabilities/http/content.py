"""What a request carries: data as JSON, forms, files out of the working directory, read as they are sent."""

from __future__ import annotations

import json
import mimetypes
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.beneath import scope_in
from planrunner.capabilities.files.opening import open_inside
from planrunner.capabilities.files.scope import Scope
from planrunner.jsontext import shown

_CHUNK = 1 << 16


class Upload(NamedTuple):
    """A file to send; opened each time the request is."""

    path: str
    name: str
    type: str
    size: int


class Content(NamedTuple):
    """At most one of its kinds is set; ``form`` and ``files`` go together."""

    directory: str = ""
    data: bytes | None = None
    type: str = ""
    form: Mapping[str, Any] | None = None
    files: Mapping[str, Upload] = {}
    file: Upload | None = None
    scope: Scope | None = None

    def arguments(self, opened: ExitStack) -> dict[str, Any]:
        """What ``httpx2.Client.build_request`` takes for it; ``opened`` closes the files afterwards."""
        if self.file is not None:
            content = Streamed(self.directory, self.file, self.scope)
            return {"content": content, "headers": {"content-length": str(self.file.size), "content-type": self.type}}
        if self.data is not None:
            return {"content": self.data, "headers": {"content-type": self.type}}
        if self.files:
            files = {
                field: (
                    upload.name,
                    opened.enter_context(open_inside(self.directory, upload.path, self.scope)),
                    upload.type,
                )
                for field, upload in self.files.items()
            }
            return {"data": dict(self.form or {}), "files": files}
        return {"data": dict(self.form)} if self.form is not None else {}


class Streamed:
    """The bytes of a file, from the start each time they are asked for."""

    def __init__(self, directory: str, upload: Upload, scope: Scope | None) -> None:
        self._directory = directory
        self._scope = scope
        self._upload = upload

    def __iter__(self) -> Iterator[bytes]:
        left = self._upload.size
        with open_inside(self._directory, self._upload.path, self._scope) as opened:
            while left and (part := opened.read(min(_CHUNK, left))):
                left -= len(part)
                yield part
        if left:
            raise Failure(f"{self._upload.path} became shorter while it was sent")


def content_of(context: Context, given: Mapping[str, Any]) -> Content:
    """Read the inputs of which a request may have one. Raises Failure for more, and for files it cannot have."""
    kinds = [kind for kind in ("json", "form", "files", "body", "body_file") if kind in given]
    if len(kinds) > 1 and kinds != ["form", "files"]:
        found = " and ".join(f"`{kind}`" for kind in kinds)
        raise Failure(f"expected one of `json`, `form` (with `files`), `body` and `body_file`, found {found}")
    directory, scope = context.call.directory, scope_in(context)
    if "json" in given:
        return Content(data=_packed(given["json"]), type="application/json")
    if "body" in given:
        return Content(data=str(given["body"]).encode(), type="text/plain; charset=utf-8")
    if "body_file" in given:
        file = _upload(directory, given["body_file"], scope)
        return Content(directory, type="application/octet-stream", file=file, scope=scope)
    form = given.get("form")
    if form is not None:
        form = plain_values(form, "form")
    files = given.get("files", {})
    if not isinstance(files, Mapping):
        raise Failure(f"`files` must be a mapping of fields to paths, found {shown(files)}")
    uploads = {str(field): _upload(directory, each, scope) for field, each in files.items()}
    return Content(directory, form=form, files=uploads, scope=scope)


def plain_values(values: Any, name: str) -> dict[str, Any]:
    """Texts, numbers, booleans, and lists of these: what a query or a form can say. Raises Failure for others."""
    if not isinstance(values, Mapping):
        raise Failure(f"`{name}` must be a mapping, found {shown(values)}")
    for key, value in values.items():
        each = value if isinstance(value, (list, tuple)) else [value]
        if any(one is not None and not isinstance(one, (str, int, float)) for one in each):
            raise Failure(f"`{name}.{key}` must be text, a number, a boolean or a list of these")
    return {str(key): value for key, value in values.items()}


def _packed(data: Any) -> bytes:
    try:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise Failure(f"`json` cannot be sent: {error}") from None


def _upload(directory: str, given: Any, scope: Scope | None) -> Upload:
    wanted = {"path": given} if isinstance(given, str) else given
    if not isinstance(wanted, Mapping) or "path" not in wanted or wanted.keys() - {"path", "name", "type"}:
        raise Failure(f"a file to send is a path or a mapping of `path`, `name` and `type`, found {shown(given)}")
    path = str(wanted["path"])
    with open_inside(directory, path, scope) as opened:
        size = os.fstat(opened.fileno()).st_size
    name = str(wanted.get("name", os.path.basename(path)))
    return Upload(
        path, name, str(wanted.get("type") or mimetypes.guess_type(name)[0] or "application/octet-stream"), size
    )
