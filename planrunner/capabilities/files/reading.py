"""``files.read``: the text of one file."""

from __future__ import annotations

import os
from typing import Annotated, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, capability, size
from planrunner.capabilities.files.beneath import Beneath, scope_in
from planrunner.capabilities.files.inputs import check
from planrunner.capabilities.files.standing import contents, sha256


class Content(NamedTuple):
    content: Annotated[str, Doc("the text")]
    size: Annotated[int, Doc("bytes of the file")]
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
        raise Failure(f"`{encoding}` is no known encoding") from None
    except UnicodeDecodeError as error:
        raise Failure(f"{path} is not {encoding} text: byte {error.start} does not fit") from None


def bytes_of(name: str, value: int | str) -> int:
    """A size as bytes. Raises Failure with the name of the input."""
    try:
        return size(value)
    except ValueError as error:
        raise Failure(f"`{name}`: {error}") from None
