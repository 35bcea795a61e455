"""What requests on their way may cost, noted before they leave: a runner that is killed cannot tell it any more, so the
attempt that is issued again tells it as well.

A note holds the calls, dollars and tokens of an attempt that the engine has not been told of; one that comes to nothing
is removed.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from planrunner.capabilities.contract import Context
from planrunner.errors import StorageFailed
from planrunner.jsontext import read_json, write_json


class Noted(NamedTuple):
    calls: int = 0
    cost: float = 0.0
    tokens: int = 0


class Notes:
    """The notes of one attempt; without an engine there are none. Belongs to one thread."""

    __slots__ = ("_context", "_name", "_now", "earlier")

    def __init__(self, context: Context) -> None:
        self._context = context
        key = context.call.key.encode("utf-8", "surrogatepass")
        self._name = f"llm {sha256(key).hexdigest()[:40]}" if context.services is not None and key else ""
        text = context.noted(self._name) if self._name else ""
        self.earlier = Noted(*read_json(text)) if text else Noted()
        """What requests of an earlier issue of the attempt used at most, which nobody was told."""
        self._now = self.earlier

    def add(self, more: Noted) -> None:
        """Note it durably. Raises StorageFailed where it cannot be written."""
        if not self._name or not any(more):
            return
        now = self._now
        total = Noted(now.calls + more.calls, round(now.cost + more.cost, 9), now.tokens + more.tokens)
        self._context.note(self._name, write_json(list(total)) if any(total) else "")
        self._now = total

    def lower(self, less: Noted) -> None:
        """Take off what was not used. Where that cannot be written, the note stays too high, and never too low."""
        try:
            self.add(Noted(-less.calls, -less.cost, -less.tokens))
        except StorageFailed:
            return

    def close(self, told: Noted) -> None:
        """The engine knows of this much from now on."""
        self.lower(told)
