"""Plan files: what is read of them, and which file was probably meant where there is none of a name."""

from __future__ import annotations

import os
from typing import NamedTuple

from planrunner.diagnostics import Diagnostic
from planrunner.errors import NotFound
from planrunner.plan.nearest import nearest
from planrunner.regular import read_regular
from planrunner.source import Source, notation_of
from planrunner.syntax import decoding
from planrunner.syntax.limits import MAX_TEXT


class File(NamedTuple):
    """A plan file that was read; where ``findings`` says that its bytes are no text, there is nothing to load."""

    source: Source
    findings: tuple[Diagnostic, ...] = ()


def read_plan(path: str) -> File:
    """Read a plan file. Raises NotFound, naming a file of a similar name, where there is none; a folder is none.

    Where the bytes are no text, ``findings`` says so and the source is empty: it is not worth loading.
    """
    try:
        content = read_regular(path, MAX_TEXT + 1)
    except OSError as error:
        raise _not_found(path, error) from None
    return decode(content, path)


def decode(content: bytes, name: str) -> File:
    """The bytes of a plan, as ``read_plan`` gives them; ``name`` is what the plan is called."""
    source, findings = decoding.decode(content, name)
    return File(source or Source("", name, notation_of(name)), findings)


def _not_found(path: str, error: OSError) -> NotFound:
    if isinstance(error, IsADirectoryError):
        return NotFound(f"`{path}` is a folder, not a plan", "name a file in it")
    if not isinstance(error, FileNotFoundError):
        return NotFound(f"`{path}` cannot be read: {error.strerror}")
    near = near_files(path)
    return NotFound(f"there is no file `{path}`", f"did you mean `{near}`?" if near else "")


def near_files(path: str) -> str:
    """The file of the same folder, or of ``plans/``, whose name is closest or that only lacks its ending."""
    folder, name = os.path.split(path)
    candidates = []
    for place in dict.fromkeys((folder, os.path.join(folder, "plans"))):
        try:
            entries = sorted(os.listdir(place or "."))
        except OSError:
            continue
        candidates += [
            os.path.join(place, entry) for entry in entries if entry.endswith((".yaml", ".yml", ".json", ".plan"))
        ]
    names = {os.path.basename(entry): entry for entry in reversed(candidates)}
    stems = {os.path.basename(entry).split(".")[0]: entry for entry in reversed(candidates)}
    exact = names.get(name) or stems.get(name.split(".")[0])
    close, stem = nearest(name, names), nearest(name, stems)
    return exact or (names[close] if close else stems[stem] if stem else "")
