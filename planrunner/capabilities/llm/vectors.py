"""Vectors as they are kept: one file each, under a name made from model and text."""

from __future__ import annotations

import json
import os
from hashlib import sha256

from planrunner.capabilities.contract import Context, Json


class Remembered:
    """Vectors by model, length and content, one file each, under a folder that may be lost at any time. What was put
    there by anybody but planrunners of this user is not remembered."""

    __slots__ = ("_context", "_folder", "_space")

    def __init__(self, context: Context, space: str) -> None:
        self._context = context
        self._folder = context.cache("embeddings")
        self._space = space

    def get(self, text: str) -> list[float] | None:
        """The vector of a text; None where none is remembered, or what is does not read as one."""
        name = self._name(text)
        try:
            with open(self._path(name), encoding="utf-8") as file:
                stored = self._context.opened(f"vector {name}", file.read())
            found = None if stored is None else json.loads(stored)
        except (OSError, ValueError):
            return None
        return found if is_vector(found) else None

    def put(self, text: str, vector: list[float]) -> None:
        """Remember a vector; whoever reads at the same time sees all of it or nothing."""
        name = self._name(text)
        path = self._path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        partial = f"{path}.{os.getpid()}.{id(vector):x}"
        with open(partial, "w", encoding="utf-8") as file:
            file.write(self._context.vouched(f"vector {name}", json.dumps(vector)))
        os.replace(partial, path)

    def _name(self, text: str) -> str:
        return sha256(f"{self._space}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name[:2], f"{name}.json")


def is_vector(value: Json) -> bool:
    """Whether it is a list of finite numbers."""
    numbers = (int, float)
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(each, numbers) and not isinstance(each, bool) and each - each == 0 for each in value)
    )
