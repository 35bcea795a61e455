"""Messages of commits, built from data: subject, body and trailers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from planrunner.capabilities.contract import Context, Failure

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")


def composed(context: Context, subject: str, body: str, trailers: Mapping[str, object], origin: bool) -> str:
    """The message: subject, an empty line, body, an empty line, trailers. ``origin`` adds run and task as trailers.
    Raises Failure for what is no subject or no trailer."""
    subject = subject.strip()
    if not subject or any(ord(char) < 32 or ord(char) == 127 for char in subject):
        raise Failure("`subject` takes one line of text")
    if "\0" in body:
        raise Failure("`body` holds a null character")
    lines = [_line(name, value) for name, given in trailers.items() for value in _each(given)]
    if origin:
        task = context.call.task.id
        lines += [_line("Planrunner-Run", context.call.run_id), _line("Planrunner-Task", task)]
    return "\n\n".join(part for part in (subject, body.strip("\n"), "\n".join(lines)) if part) + "\n"


def _each(given: object) -> list[object]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _line(name: str, value: object) -> str:
    text = str(value).strip()
    if not _TOKEN.fullmatch(name):
        raise Failure(f"{name!r} is no name of a trailer")
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise Failure(f"the trailer `{name}` takes one line of text")
    return f"{name}: {text}"
