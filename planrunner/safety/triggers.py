"""What starts runs by itself: ``triggers`` of a project's settings."""

from __future__ import annotations

from typing import Any, Literal

from planrunner.plan.expressions.quantities import parse_duration
from planrunner.records import Struct
from planrunner.safety.project import read_data

Json = Any

Kind = Literal["cron", "webhook", "watch"]
Missed = Literal["skip", "last", "all"]
Overlap = Literal["queue", "skip", "cancel"]

SECTION = "triggers"


class Webhook(Struct):
    """``secret`` names a credential of the project; ``scheme`` says how requests are signed; ``window`` are the seconds
    that a signature is good for; ``params`` gives parameters of the plan their place in the JSON body."""

    secret: str
    scheme: Literal["standard", "github"] = "standard"
    window: float = 300.0
    params: tuple[tuple[str, str], ...] = ()


class Trigger(Struct):
    """One entry. ``plan`` is its name, or its path below the project. ``cron`` is a time table of five fields in
    ``timezone``; ``missed`` says what happens to times at which nothing could start; ``overlap``, what happens while an
    earlier run of the trigger is not over. ``watch`` are patterns of files that have to stand still for ``settle``
    seconds."""

    name: str
    kind: Kind
    plan: str
    params: tuple[tuple[str, Json], ...] = ()
    priority: int = 0
    overlap: Overlap = "skip"
    cron: str = ""
    timezone: str = "UTC"
    missed: Missed = "last"
    webhook: Webhook | None = None
    watch: tuple[str, ...] = ()
    settle: float = 1.0
    description: str = ""


def read_triggers(directory: str) -> dict[str, Trigger]:
    """The triggers of a project by name. Raises as ``read_data``."""
    given: dict[str, Json] = read_data(directory).get(SECTION) or {}
    return {name: _trigger(name, said) for name, said in given.items()}


def _trigger(name: str, said: dict[str, Json]) -> Trigger:
    kind: Kind = "cron" if "cron" in said else "webhook" if "webhook" in said else "watch"
    watch = said.get("watch", ())
    return Trigger(
        name=name,
        kind=kind,
        plan=said["plan"],
        params=tuple((said.get("params") or {}).items()),
        priority=said.get("priority", 0),
        overlap=said.get("overlap", "queue" if kind == "webhook" else "skip"),
        cron=" ".join(str(said.get("cron", "")).split()),
        timezone=said.get("timezone", "UTC"),
        missed=said.get("missed", "last"),
        webhook=_webhook(said["webhook"]) if kind == "webhook" else None,
        watch=(watch,) if isinstance(watch, str) else tuple(watch),
        settle=_seconds(said.get("settle", 1.0)),
        description=said.get("description", ""),
    )


def _webhook(said: dict[str, Json]) -> Webhook:
    params = tuple((said.get("params") or {}).items())
    return Webhook(said["secret"], said.get("scheme", "standard"), _seconds(said.get("window", 300.0)), params)


def _seconds(said: Json) -> float:
    return float(parse_duration(said) or 0.0) if isinstance(said, str) else float(said)
