"""Documents for programs: what ``--json`` prints, and what any other door gives as well.

Each is an object with the version of its format first: fields are added, never changed or removed. A document is put
together beside what it tells of, in ``views`` or in the use case; a door only hands it over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from planrunner.errors import NextStep

Json = Any

FORMAT = 1
"""The version of every document but streams, which have one of their own."""


def document(**fields: Json) -> dict[str, Json]:
    """A document with these fields."""
    return {"format": FORMAT, **fields}


def document_of(record: Json, *more: dict[str, Json]) -> dict[str, Json]:
    """A document with the fields of a record, which is a record or a mapping, and of ``more`` mappings."""
    fields = record if isinstance(record, dict) else record._asdict()
    return {"format": FORMAT, **fields, **{name: value for each in more for name, value in each.items()}}


def listing(name: str, records: Iterable[Json], **more: Json) -> dict[str, Json]:
    """A document that lists records under a name."""
    return {"format": FORMAT, name: [each if isinstance(each, dict) else each._asdict() for each in records], **more}


def error_document(
    message: str, hint: str, code: int, steps: Iterable[NextStep] = (), findings: list[dict[str, Json]] | None = None
) -> dict[str, Json]:
    """What a call prints that could not be carried out: its ``status`` is ``error``; ``next`` has the commands of the
    hint as data, ``findings`` are those of an invalid plan."""
    commands = [{"command": step.command, "arguments": [*step.arguments]} for step in steps]
    error = {"message": message, "hint": hint, "next": commands, "exit_code": code}
    error = error if findings is None else {**error, "findings": findings}
    return {"format": FORMAT, "status": "error", "error": error}


def document_schema(*fields: str) -> dict[str, Json]:
    """The JSON Schema of a document that has these fields at least."""
    return {"type": "object", "required": ["format", *fields], "properties": {"format": {"type": "integer"}}}


def document_text(data: Json, line: bool = False) -> str:
    """A document as text that ends with a line break: indented for readers, or as one ``line`` for streams."""
    return json.dumps(data, indent=None if line else 2, ensure_ascii=False, default=str) + "\n"
