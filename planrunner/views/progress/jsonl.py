"""Progress as JSON lines: the journal's entries as they are written. The first line carries the format's number."""

from __future__ import annotations

from json import JSONEncoder
from typing import Any

from planrunner.escapes import harmless
from planrunner.machine.events import Entry
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.records import defaults
from planrunner.views.status import is_dry
from planrunner.views.terminal import Terminal

FORMAT = 1
LONGEST = 160
"""Characters of a field that are shown to people at most."""

_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


class JsonLinesProgress:
    """A watch of a run for programs."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._lines: list[str] = []

    def started(self, run_id: str, plan: Plan, state: State) -> None:
        self._lines.append(header_line(run_id, plan.id, is_dry(state)))
        self._flush()

    def event(self, entry: Entry) -> None:
        self._lines.append(entry_line(entry))
        if len(self._lines) >= 500:
            self._flush()

    def output(self, _task: str, _attempt: int, _stream: str, _data: bytes) -> None:
        """Output is kept with the attempt and stands in its ``attempt_ended`` line."""

    def tick(self, _now: float) -> None:
        self._flush()

    def ended(self, _result: Any) -> None:
        self._flush()

    def _flush(self) -> None:
        if self._lines:
            self._terminal.write("\n".join(self._lines) + "\n")
            self._lines.clear()


def header_line(run_id: str, plan_id: str, dry: bool = False) -> str:
    """The first line of a stream of events; ``dry`` is a run that only happens on paper."""
    about = {"dry_run": True} if dry else {}
    return _encode({"format": FORMAT, "type": "stream", "run_id": run_id, "plan": plan_id, **about})


def entry_line(entry: Entry) -> str:
    """One entry: ``seq``, ``at`` (seconds since 1970), ``type`` like ``attempt_started``, then the event's fields; one
    that is called like one of these, as of a fork the last entry of its parent, is ``event_seq``."""
    return _encode(entry_object(entry))


def entry_text(entry: Entry) -> str:
    """One entry for people: its type, then the fields that are not empty, long ones cut."""
    fields = []
    for name, value in _filled(entry.event).items():
        value = _filled(value) if hasattr(value, "_asdict") else value
        text = value if isinstance(value, str) else _encode(value)
        text = harmless(text[: 4 * LONGEST])  # before it is cut: half an address would show its password
        fields.append(f"{name}={text if len(text) <= LONGEST else text[: LONGEST - 1] + '~'}")
    return " ".join([event_type(type(entry.event)), *fields])


def _filled(record: Any) -> dict[str, Any]:
    """The fields of a record that say something: neither empty nor what they are by default."""
    usual = defaults(record)
    return {
        name: value
        for name, value in record._asdict().items()
        if value not in ("", None, (), {}, False) and (name not in usual or value != usual[name])
    }


def entry_object(entry: Entry) -> dict[str, Any]:
    """The data of ``entry_line``."""
    told: dict[str, Any] = {"seq": entry.seq, "at": entry.at, "type": event_type(type(entry.event))}
    for name, value in entry.event._asdict().items():
        told[f"event_{name}" if name in _HEAD else name] = _plain(value)
    return told


_HEAD = frozenset({"seq", "at", "type"})
"""What every entry tells of itself."""


def event_type(kind: type) -> str:
    """``AttemptStarted`` is written ``attempt_started``, as in the journal."""
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in kind.__name__).lstrip("_")


def _plain(value: Any) -> Any:
    return dict(value._asdict()) if hasattr(value, "_asdict") else value
