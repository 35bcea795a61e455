"""What requests on their way may cost, noted before they leave: a runner that is killed cannot tell it any more, so the
attempt that is issued again tells it as well.

A note is a file of the attempt in the project's cache. Each line adds calls, dollars and tokens; what was told to the
engine is taken off again, and a file that comes to nothing is removed.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.lean import sha256


class Noted(NamedTuple):
    calls: int = 0
    cost: float = 0.0
    tokens: int = 0


class Notes:
    """The notes of one attempt; without an engine there are none."""

    __slots__ = ("_path", "earlier")

    def __init__(self, context: Context) -> None:
        self._path = ""
        if context.services is not None and context.call.key:
            name = sha256(context.call.key.encode("utf-8", "surrogatepass")).hexdigest()[:40]
            self._path = os.path.join(context.cache("llm-requests"), name)
        self.earlier = self._read()
        """What requests of an earlier issue of the attempt used at most, which nobody was told."""

    def add(self, more: Noted) -> None:
        """Note it durably. Raises Failure where it cannot be written."""
        if not self._path or not any(more):
            return
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, f"{more.calls} {more.cost!r} {more.tokens}\n".encode())
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            said = f"what the request may cost cannot be noted: {error.strerror}"
            raise Failure(said, "transient") from None

    def lower(self, less: Noted) -> None:
        """Take off what was not used. Where that cannot be written, the note stays too high, and never too low."""
        try:
            self.add(Noted(-less.calls, -less.cost, -less.tokens))
        except Failure:
            return

    def close(self, told: Noted) -> None:
        """The engine knows of this much from now on."""
        self.lower(told)
        if self._path and not any(self._read()):
            try:
                os.unlink(self._path)
            except FileNotFoundError:
                return

    def _read(self) -> Noted:
        if not self._path:
            return Noted()
        try:
            with open(self._path, encoding="ascii", errors="replace") as file:
                lines = [_noted(line) for line in file]
        except FileNotFoundError:
            return Noted()
        found = [each for each in lines if each is not None]
        cost = round(sum(each.cost for each in found), 9)
        return Noted(sum(each.calls for each in found), cost, sum(each.tokens for each in found))


def _noted(line: str) -> Noted | None:
    """What a line adds; one that a crash of the machine left in pieces adds nothing."""
    try:
        calls, cost, tokens = line.split()
        found = Noted(int(calls), float(cost), int(tokens))
    except ValueError:
        return None
    likely = abs(found.calls) < 1000 and abs(found.cost) < 1e6 and abs(found.tokens) < 1e12
    return found if likely and line.endswith("\n") else None
