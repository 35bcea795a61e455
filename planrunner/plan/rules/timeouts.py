"""Nothing runs for ever: timeouts are there, carry a unit and have room for retries; watchdogs and heartbeats act
before them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.plan.expressions.quantities import format_duration as clock
from planrunner.plan.model import Retry, Task
from planrunner.plan.rules.view import PlanView, is_named_subplan, region_of, span_of
from planrunner.source import Span

_BARE = re.compile(
    r"(?:timeout|timebox|heartbeat|expires|delay|max_delay|time)[\"']?\s*:\s*(\d+(?:\.\d+)?)(?=\s*(?:[,}#\n]|\Z))"
)
_DIRECT = frozenset({"timeout", "timebox", "heartbeat", "expires"})
_TIMED = _DIRECT | {"retry", "budgets"}
_ONCE, _FREE = Task("").retry, Task("").budgets
_MANY_ATTEMPTS = 100_000


def check(view: PlanView) -> Iterable[Diagnostic]:
    plan = view.plan
    limit = plan.budgets.time
    lacking: list[Task] = []
    for task in plan.tasks:
        if any(each.name == "timeout" for each in task.computed):
            continue
        if task.timeout is None:
            if limit is None and task.budgets.time is None and task.gate is None and not view.around.bounded:
                capability = view.used.get(task.uses)
                if (capability is not None and not capability.instant) or (task.run is not None and not task.uses):
                    lacking.append(task)
        elif limit is not None and task.retry.attempts > 1:
            yield from _too_long(task, limit)
    if lacking and is_named_subplan(view):
        yield _none_here(view, lacking)
    else:
        yield from map(_no_timeout, lacking)
    yield from _units(view)


def _none_here(view: PlanView, tasks: list[Task]) -> Diagnostic:
    """Once for a subplan: its author has often set defaults for the plan around it."""
    name = view.plan.id
    which = ", ".join(f"`{task.id}`" for task in tasks[:3]) + (f" and {len(tasks) - 3} more" if tasks[3:] else "")
    have = "has no timeout" if len(tasks) == 1 else "have no timeout"
    message = f"{which} in the subplan `{name}` {have} and could run forever"
    help_ = f"`defaults` of the plan do not apply inside `subplans`: add `defaults: {{timeout: 10m}}` to `{name}`"
    return Diagnostic("PLAN501", message, tasks[0].span, help=help_)


def _no_timeout(task: Task) -> Diagnostic:
    return Diagnostic(
        "PLAN501",
        f"`{task.id}` has no timeout and could run forever",
        task.span,
        help="give it `timeout: 10m`, or all tasks at once with `defaults: {timeout: 10m}` or `budgets: {time: 1h}`",
    )


def _too_long(task: Task, limit: float) -> Iterable[Diagnostic]:
    assert task.timeout is not None
    longest = task.retry.attempts * task.timeout + _delays(task.retry)
    if longest > limit:
        message = (
            f"`{task.id}` may take {_clock(longest)} with {task.retry.attempts} attempts of {_clock(task.timeout)}, "
            f"the plan's time budget is {_clock(limit)}"
        )
        yield Diagnostic("PLAN504", message, span_of(task, "retry", "timeout"))


def _delays(retry: Retry) -> float:
    """All waiting between the attempts, without jitter."""
    total, delay = 0.0, retry.delay
    for attempt in range(1, min(retry.attempts, _MANY_ATTEMPTS)):
        if retry.backoff == "linear":
            delay = retry.delay * attempt
        total += min(delay, retry.max_delay)
        if retry.backoff == "exponential":
            delay = min(delay * 2, retry.max_delay)
    return total


def _clock(seconds: float) -> str:
    """A duration as plans write it, two units at most."""
    parts = []
    rest = seconds
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if rest >= size:
            parts.append(f"{int(rest // size)}{unit}")
            rest %= size
    return "".join(parts[:2]) or f"{seconds:g}s"


def _units(view: PlanView) -> Iterable[Diagnostic]:
    if view.source.notation == "json":
        return
    text, tasks = view.source.text, view.plan.tasks
    if view.whole:
        yield from _bare(text, 0, min((task.span.start for task in tasks), default=len(text)))
    for task in tasks:
        if (
            task.timeout is None
            and task.heartbeat is None
            and task.gate is None
            and task.retry is _ONCE
            and task.budgets is _FREE
        ):
            continue
        for key, span in task.spans:
            if key not in _TIMED:
                continue
            if key in _DIRECT:
                if _BARE.match(text, span.start):
                    yield from _bare(text, span.start, _line_end(text, span.end))
            else:
                end = _line_end(text, span.end)
                if "{" not in text[span.end : end]:
                    end = region_of(view, task, key).end
                if _BARE.search(text, span.start, end):
                    yield from _bare(text, span.start, region_of(view, task, key).end)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _bare(text: str, start: int, end: int) -> Iterable[Diagnostic]:
    for match in _BARE.finditer(text, start, end):
        number = match.group(1)
        span = Span(*match.span(1))
        yield Diagnostic(
            "PLAN507",
            f"`{number}` has no unit and counts as {number} seconds",
            span,
            help=f"write `{number}s`, or the intended unit: ms, s, m, h, d",
            fix=Fix(f"write `{number}s`", (Edit(span, f"{number}s"),)),
        )


def check_watchdogs(view: PlanView) -> Iterable[Diagnostic]:
    for task in view.plan.tasks:
        if task.heartbeat is not None and task.timeout is not None and task.heartbeat >= task.timeout:
            message = f"the heartbeat of `{task.id}` never fires: it is {clock(task.heartbeat)}, {_ends(task)}"
            help_ = "a heartbeat is the longest silence inside an attempt: make it shorter than the timeout"
            yield Diagnostic("PLAN502", message, span_of(task, "heartbeat"), help=help_)
        if task.watchdog:
            yield from _watchdog(task)


def _watchdog(task: Task) -> Iterable[Diagnostic]:
    last = 0.0
    span = span_of(task, "watchdog")
    for step in task.watchdog:
        if step.after <= last:
            message = (
                f"the watchdog of `{task.id}` is not in rising order: {clock(step.after)} comes after {clock(last)}"
            )
            yield Diagnostic("PLAN502", message, span, help="order its steps by time")
        elif task.timeout is not None and step.after >= task.timeout:
            message = f"the watchdog of `{task.id}` never reaches `{step.do}` after {clock(step.after)}: {_ends(task)}"
            yield Diagnostic("PLAN502", message, span, help="move it earlier or increase the timeout")
        last = max(last, step.after)


def _ends(task: Task) -> str:
    assert task.timeout is not None
    return f"an attempt ends after {clock(task.timeout)}"
