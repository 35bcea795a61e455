"""Documents for programs: what ``--json`` prints, and what any other door gives as well.

Each is an object with the version of its format first: fields are added, never changed or removed. A document is put
together beside what it tells of, in ``views`` or in the use case; a door only hands it over.
"""

from __future__ import annotations

import json
from typing import Any

Json = Any

FORMAT = 1
"""The version of every document but streams, which have one of their own."""


def document(**fields: Json) -> dict[str, Json]:
    """A document with these fields."""
    return {"format": FORMAT, **fields}


def document_text(found: Json, line: bool = False) -> str:
    """A document as text that ends with a line break: indented for readers, or as one ``line`` for streams."""
    return json.dumps(found, indent=None if line else 2, ensure_ascii=False, default=str) + "\n"
