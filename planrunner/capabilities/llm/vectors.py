"""Vectors as they are kept: one file each, under a name made from model and text."""

from __future__ import annotations

import json
import os
from typing import Any

from planrunner.lean import sha256

Json = Any


class Remembered:
    """Vectors by model, length and content, one file each, under a folder that may be lost at any time."""

    __slots__ = ("_folder", "_space")

    def __init__(self, folder: str, space: str) -> None:
        self._folder = folder
        self._space = space

    def get(self, text: str) -> list[float] | None:
        """The vector of a text; None where none is remembered, or what is does not read as one."""
        try:
            with open(self._path(text), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return None
        return found if is_vector(found) else None

    def put(self, text: str, vector: list[float]) -> None:
        """Remember a vector; whoever reads at the same time sees all of it or nothing."""
        path = self._path(text)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        partial = f"{path}.{os.getpid()}.{id(vector):x}"
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(vector, file)
        os.replace(partial, path)

    def _path(self, text: str) -> str:
        name = sha256(f"{self._space}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
        return os.path.join(self._folder, name[:2], f"{name}.json")


def is_vector(value: Json) -> bool:
    """Whether it is a list of finite numbers."""
    numbers = (int, float)
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(each, numbers) and not isinstance(each, bool) and each - each == 0 for each in value)
    )
