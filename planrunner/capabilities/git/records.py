"""What an attempt notes before it acts: issued again after a crash, it goes on from there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from planrunner.capabilities.contract import Context, Failure


class Record:
    """A note under a name, durable once ``write`` has returned. It holds nothing but JSON data."""

    __slots__ = ("_context", "_name")

    def __init__(self, context: Context, slot: str) -> None:
        self._context = context
        self._name = f"git {slot}"

    def read(self) -> dict[str, Any]:
        """What was noted; empty where nothing was."""
        text = self._context.noted(self._name)
        found = json.loads(text) if text else {}
        return found if isinstance(found, dict) else {}

    def write(self, data: dict[str, Any]) -> None:
        """Note it in place of what was there. Raises StorageFailed."""
        self._context.note(self._name, json.dumps(data))

    @contextlib.contextmanager
    def holding(self, data: dict[str, Any], unsure: tuple[str, ...] = ()) -> Iterator[None]:
        """Note it for an act that happens as a whole or not at all. Where that fails the note is what it was, but for
        the classes of failure that leave open whether it happened."""
        earlier = self.read()
        self.write(data)
        try:
            yield
        except Failure as failure:
            if failure.failure not in ("cancelled", "timeout", *unsure):
                self.write(earlier) if earlier else self.drop()
            raise

    def drop(self) -> None:
        """Forget it."""
        self._context.note(self._name, "")
