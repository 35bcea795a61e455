"""The long explanation of each code: what it says, why it matters, a bad plan, a good one, when to ignore it."""

from __future__ import annotations

import os

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def read(code: str) -> str:
    """The explanation of a code such as ``PLAN101`` as Markdown; raises KeyError for a code that does not exist."""
    name = code.strip().upper()
    path = os.path.join(_FOLDER, f"{name}.md")
    if not name.isalnum() or not os.path.isfile(path):
        raise KeyError(code)
    with open(path, encoding="utf-8") as file:
        return file.read()
