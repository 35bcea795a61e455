"""The queue of a project for the page: what runs, what waits for its turn, what is parked, and what is over."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from planrunner.escapes import harmless
from planrunner.jsontext import as_text
from planrunner.records import Struct
from planrunner.views.page.figures import ago, count, largest_unit, moment
from planrunner.views.page.signs import Sign, task_sign

Json = Any

STATUSES: dict[str, Sign] = {
    "waiting": Sign("wait", "wait", "Waiting"),
    "starting": Sign("run", "run", "Starting"),
    "running": Sign("run", "run", "Running"),
    "interrupted": Sign("doubt", "doubt", "Interrupted"),
    "parked": Sign("gate", "pause", "Parked"),
    **{status: task_sign(status) for status in ("completed", "failed", "cancelled")},
}
"""By the status of an item."""
_GOING = ("starting", "running", "interrupted")
_ACTS = {"resume": "continues", "retry": "retries what failed", "rerun": "runs tasks again", "rollback": "rolls back"}


class QueueLine(Struct):
    """An item of the queue. ``said`` is why it waits or how it ended; ``begun`` says that its run has a page."""

    run: str
    plan: str
    params: str
    sign: Sign
    said: str
    by: str
    source: str
    end: str
    priority: int
    begun: bool
    open: bool


class QueuePage(Struct):
    """The queue at one moment. ``paused`` says by whom and why nothing is taken; ``slots`` how many are in use."""

    going: tuple[QueueLine, ...]
    waiting: tuple[QueueLine, ...]
    parked: tuple[QueueLine, ...]
    over: tuple[QueueLine, ...]
    paused: str
    slots: str
    worker: str
    limits: tuple[tuple[str, str], ...]
    empty: str


class TriggerLine(Struct):
    """A trigger: what it waits for, when it fires next and what came of the last time."""

    name: str
    said: str
    last: str
    next: str
    away: str
    icon: str
    state: str
    paused: bool


def trigger_line(one: Mapping[str, Json], now: float, project: str) -> TriggerLine:
    """A trigger of a project as ``trigger_object`` gives it; ``now`` is seconds since 1970."""
    paused, last, problem, times = one["paused"], one["last"], str(one["problem"] or ""), one["next"]
    told = f"last {moment(last['at'], now)}: {last['run'] or last['problem']}" if last else ""
    state = "bad" if problem or (last and last["problem"]) else "wait" if paused else ""
    kind = {"cron": "wait", "webhook": "arrow"}.get(str(one["kind"]), "file")
    return TriggerLine(
        harmless(str(one["name"])),
        harmless(f"{one['plan']} · {one['what']}".replace("/hooks/PROJECT/", f"/hooks/{project}/")),
        harmless(problem or told),
        "paused" if paused else moment(times[0], now) if times else "",
        harmless(f"by {paused['by']}" + (f": {paused['reason']}" if paused["reason"] else ""))
        if paused
        else ago(times[0], now)
        if times
        else "",
        "bad" if problem else "pause" if paused else kind,
        state,
        bool(paused),
    )


def queue_line(item: Mapping[str, Json], root: str, now: float) -> QueueLine:
    """An item as ``item_object`` gives it; ``root`` is the directory of the project."""
    params = ", ".join(f"{name}={as_text(value, 40)}" for name, value in item["params"].items())
    plan = str(item["plan"])
    path = os.path.relpath(plan, root) if os.path.isabs(plan) else plan
    return QueueLine(
        str(item["run"]),
        harmless(path if not path.startswith("..") else plan),
        harmless(params[:120]),
        STATUSES.get(str(item["status"]), Sign("off", "off", str(item["status"]))),
        harmless(_said(item, now)),
        harmless(str(item["by"]["name"])),
        str(item["source"]),
        _end(item, now),
        int(item["priority"]),
        item["begun"] is not None or item["act"] != "start",
        item["ended"] is None,
    )


def _said(item: Mapping[str, Json], now: float) -> str:
    ahead, parts = item["ahead"], []
    if item["act"] in _ACTS:
        parts.append(_ACTS[str(item["act"])])
    if item["status"] == "waiting" and ahead is not None:
        parts.append(f"{count(int(ahead), 'run')} before it" if ahead else "next")
    if item["status"] == "parked" and item["wakes"] is not None:
        parts.append(f"continues {moment(item['wakes'], now)}")
    elif item["status"] == "parked" and not item["reason"]:
        parts.append("waits for people")
    if item["reason"] and item["reason"] != item["status"]:
        parts.append(str(item["reason"]))
    return "; ".join(parts)


def _end(item: Mapping[str, Json], now: float) -> str:
    if item["ended"] is not None:
        return f"{largest_unit(max(0.0, now - item['ended']))} ago"
    since = item["begun"] if item["status"] != "waiting" and item["begun"] is not None else item["enqueued"]
    return largest_unit(max(0.0, now - since))


def queue_page(items: Iterable[Mapping[str, Json]], overview: Mapping[str, Json], root: str, now: float) -> QueuePage:
    """The queue, from the data that ``planrunner queue --json`` prints. ``now`` is seconds since 1970."""
    lines: dict[str, list[QueueLine]] = {}
    for item in items:
        group = "going" if item["status"] in _GOING else str(item["status"])
        lines.setdefault(group if group in ("going", "waiting", "parked") else "over", []).append(
            queue_line(item, root, now)
        )
    limits, counts = overview["limits"], overview["counts"]
    used = sum(counts.get(status, 0) for status in ("starting", "running"))
    return QueuePage(
        tuple(lines.get("going", ())),
        tuple(lines.get("waiting", ())),
        tuple(lines.get("parked", ())),
        tuple(lines.get("over", ())),
        _paused(overview["paused"], now),
        f"{used} of {count(limits['concurrency'], 'slot')} in use"
        if limits["concurrency"]
        else f"{count(used, 'run')} going on",
        str(overview["worker"] or ""),
        tuple(_limits(limits)),
        _empty(limits["concurrency"], used),
    )


def _paused(paused: Mapping[str, Json] | None, now: float) -> str:
    if paused is None:
        return ""
    why = f": {paused['reason']}" if paused["reason"] else ""
    return harmless(f"by {paused['by']}, {largest_unit(max(0.0, now - paused['at']))} ago{why}")


def _limits(limits: Mapping[str, Json]) -> Iterable[tuple[str, str]]:
    if not limits["queued"]:
        yield "Order", "runs do not wait for each other"
        return
    yield "At once", "no limit" if limits["concurrency"] is None else count(limits["concurrency"], "run")
    yield "Waiting", "no limit" if limits["size"] is None else f"at most {limits['size']:,}"
    if limits["per_minute"] is not None:
        burst = f", {limits['burst']} without a break" if limits["burst"] else ""
        yield "Rate", f"{limits['per_minute']:,} a minute{burst}"


def _empty(concurrency: int | None, used: int) -> str:
    if concurrency is None:
        return "The queue is empty."
    free = max(0, concurrency - used)
    return f"The queue is empty; {count(free, 'slot')} {'is' if free == 1 else 'are'} free."
