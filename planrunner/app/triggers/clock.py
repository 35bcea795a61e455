"""What the worker of a queue does about triggers: it fires those whose time has come and those whose files changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256

from planrunner.app.queue.store import Store
from planrunner.app.triggers.firing import fire
from planrunner.app.triggers.records import Last, Record, change, record
from planrunner.app.triggers.times import due_times, next_times
from planrunner.app.triggers.watching import Watcher, mark_of
from planrunner.caller import Workspace, workspace
from planrunner.errors import PlanrunnerError, StorageFailed
from planrunner.safety.triggers import Trigger, read_triggers

_POLL = 30.0
"""Seconds after which files are looked at though the system said nothing."""
_SETTINGS = 1.0
"""Seconds between two looks at the settings."""


class Clock:
    """The triggers of one project. ``problem`` says what is wrong with them as a whole."""

    def __init__(self, root: str, state: str, changed: Callable[[], None]) -> None:
        self._place = Workspace(root, state, workspace().profile)
        self._changed = changed
        self._triggers: dict[str, Trigger] = {}
        self._due: dict[str, float] = {}
        self._watchers: dict[str, Watcher] = {}
        self._unsettled: dict[str, tuple[str, float]] = {}
        self._moved: set[str] = set()
        self._next_look = 0.0
        self.problem = ""

    def turn(self, store: Store, now: float) -> float:
        """Fire what is due at ``now`` (seconds since 1970); gives the seconds until the next turn. Raises
        StorageFailed."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _SETTINGS
            self._read(now)
        for name, at in list(self._due.items()):
            if at <= now:
                self._due[name] = self._look(store, self._triggers[name], now)
        return max(0.0, min(self._due.values(), default=now + 60.0) - now)

    def close(self) -> None:
        for watcher in self._watchers.values():
            watcher.close()
        self._watchers.clear()

    def _read(self, now: float) -> None:
        try:
            found, self.problem = read_triggers(self._place.root), ""
        except PlanrunnerError as error:  # those from before hold until the file is mended
            self.problem = error.message
            return
        moved, self._moved = self._moved, set()
        for name in moved & found.keys():
            self._due[name] = min(self._due.get(name, now), now)
        if found == self._triggers:
            return
        for name in self._triggers.keys() - found.keys():
            self._forget(name)
        for name, trigger in found.items():
            if self._triggers.get(name) != trigger:
                self._forget(name)
                self._due[name] = now
        self._triggers = found

    def _forget(self, name: str) -> None:
        self._due.pop(name, None)
        self._unsettled.pop(name, None)
        if (watcher := self._watchers.pop(name, None)) is not None:
            watcher.close()

    def _look(self, store: Store, trigger: Trigger, now: float) -> float:
        """Deal with one trigger; gives when it is looked at again."""
        kept = record(store, trigger.name)
        definition = _definition_of(trigger)
        if kept is None or kept.definition != definition:
            mark = mark_of(self._place.root, trigger.watch) if trigger.kind == "watch" else ""
            kept = change(store, trigger.name, definition=definition, since=now, mark=mark)
        if trigger.kind == "cron":
            return self._look_at_clock(store, trigger, kept, now)
        if trigger.kind == "watch":
            return self._look_at_files(store, trigger, kept, now)
        return now + 3600.0

    def _look_at_clock(self, store: Store, trigger: Trigger, kept: Record, now: float) -> float:
        try:
            times = [] if kept.paused is not None else due_times(trigger, kept.since, now)
            following = next_times(trigger, now, 1)
        except PlanrunnerError as error:  # of this trigger alone: the others and the queue go on
            if kept.last is None or kept.last.problem != error.message:
                change(store, trigger.name, last=Last(now, problem=error.message))
            return now + 60.0
        for at in times:
            self._fire(trigger, f"{at:.0f}")
        if times or kept.paused is not None:
            change(store, trigger.name, since=now)
        return following[0] if following else now + 3600.0

    def _look_at_files(self, store: Store, trigger: Trigger, kept: Record, now: float) -> float:
        name, root = trigger.name, self._place.root
        if name not in self._watchers:
            self._watchers[name] = Watcher(root, trigger.watch, lambda: self._touch(name))
        mark = mark_of(root, trigger.watch)
        if mark == kept.mark:
            self._unsettled.pop(name, None)
            return now + _POLL
        before = self._unsettled.get(name)
        if before is None or before[0] != mark:
            self._unsettled[name] = (mark, now)
            return now + trigger.settle
        if now - before[1] < trigger.settle:
            return before[1] + trigger.settle
        del self._unsettled[name]
        if kept.paused is None:
            self._fire(trigger, f"{kept.mark}:{mark}")
        change(store, name, mark=mark)
        return now + _POLL

    def _touch(self, name: str) -> None:
        self._moved.add(name)
        self._next_look = 0.0
        self._changed()

    def _fire(self, trigger: Trigger, reason: str) -> None:
        try:
            fire(trigger, reason, self._place)
        except StorageFailed:
            raise
        except PlanrunnerError:
            return  # it is on record, and `planrunner trigger` shows it


def _definition_of(trigger: Trigger) -> str:
    """What tells that a trigger looks at the same times or files as before."""
    looked = repr((trigger.kind, trigger.cron, trigger.timezone, trigger.watch))
    return sha256(looked.encode()).hexdigest()[:16]
