"""A draft of tests: what is to be tested, who wrote the text, and where it lies until it is good enough."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context

Json = Any


class Draft(NamedTuple):
    """A text of tests, who wrote it, and what asking a model for it used."""

    text: str
    author: str
    usage: dict[str, Json]
    attempts: list[dict[str, Json]]
    repairs: int = 0


class Order(NamedTuple):
    """What is to be tested, and where its tests go."""

    file: str
    functions: tuple[str, ...]
    path: str
    python: str

    @property
    def module(self) -> str:
        """The name under which the code is imported."""
        parts = os.path.normpath(self.file).removesuffix(".py").split("/")
        parts = parts[1:] if parts[0] == "src" else parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@contextmanager
def scratch(context: Context) -> Iterator[str]:
    """A folder of the attempt that is gone afterwards."""
    folder = context.call.scratch or tempfile.mkdtemp(prefix="planrunner-")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def quiet(folder: str) -> dict[str, str | None]:
    """Variables with which Python and hypothesis leave nothing in the project."""
    return {"PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_STORAGE_DIRECTORY": os.path.join(folder, "hypothesis")}
