"""The tools that act on runs: what they start or continue goes through the queue of the project."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from planrunner.app.history.show import look
from planrunner.app.queue.asking import enqueue, take_up, withdraw
from planrunner.app.queue.items import Item
from planrunner.app.runs.control import steer, steered_document
from planrunner.app.runs.execute import ExecRequest
from planrunner.app.runs.revise import ReviseRequest, preview, revise
from planrunner.errors import Denied, NextStep, NotFound
from planrunner.mcpserver.inspection import plan_path
from planrunner.mcpserver.tool import (
    OPTIONAL,
    PARAMS,
    PART,
    PLAN,
    RUN,
    Site,
    Tool,
    arguments_of,
    declare,
    flag,
    number,
    text,
    texts,
)
from planrunner.plan.tasks import every
from planrunner.views.documents import document_of
from planrunner.views.revision import revision_object

Json = Any
Arguments = dict[str, Json]

SOURCE = "mcp"
"""What the record of the queue says of where a run was asked for."""


_REASON = text("why; kept with the run", minLength=1)

TOOLS: list[Tool] = []
"""A tool for each of ``ACTIONS``."""

_tool = partial(declare, TOOLS)


def _asked(site: Site, item: Item) -> dict[str, Json]:
    site.work()
    return document_of(
        {"run_id": item.run, "act": item.act, "queue": item.status, "ahead": item.ahead, "reason": item.reason}
    )


def _run_id(site: Site, given: Arguments) -> str:
    return look(given["run"], site.state).row.run


def _told(site: Site, given: Arguments, kind: str) -> dict[str, Json]:
    return steered_document(steer(_run_id(site, given), kind, {"reason": given["reason"]}, site.state))


@_tool(
    "Start a run",
    "Start a run of a plan. The answer has the id of the run at once: ask `status` how it goes on. A run that "
    "reaches a gate waits for a person.",
    arguments_of(
        "plan",
        **PART,
        max_parallel=number("tasks at once; the plan says it otherwise", 1, 10_000, 1) | OPTIONAL,
    ),
    reads=False,
    destroys=True,
)
def _start(site: Site, given: Arguments) -> dict[str, Json]:
    request = ExecRequest(
        plan_path(site, given["plan"]),
        tuple(given.get("params", {}).items()),
        tuple(given.get("only", ())),
        tuple(given.get("until", ())),
        given.get("max_parallel"),
        site.state,
        unattended=True,
        decides=False,
    )
    return _asked(site, enqueue(request, SOURCE))


@_tool(
    "Pause a run",
    "Let running tasks finish, start no more, and pause the run.",
    arguments_of("run reason", run=RUN, reason=_REASON),
    reads=False,
)
def _pause(site: Site, given: Arguments) -> dict[str, Json]:
    return _told(site, given, "pause")


@_tool(
    "Continue a run",
    "Continue a run that was paused or interrupted. It does not pass a gate that waits.",
    arguments_of("run", run=RUN),
    reads=False,
    destroys=True,
)
def _resume(site: Site, given: Arguments) -> dict[str, Json]:
    return _asked(site, take_up(_run_id(site, given), source=SOURCE, state=site.state))


@_tool(
    "Cancel a run",
    "Stop a run and end it; tasks under `finally` still run.",
    arguments_of("run reason", run=RUN, reason=_REASON),
    reads=False,
    destroys=True,
)
def _cancel(site: Site, given: Arguments) -> dict[str, Json]:
    with suppress(NotFound):  # the queue does not know it: it was started elsewhere
        if (gone := withdraw(given["run"], given["reason"], site.state)) is not None:
            return _asked(site, gone)
    told = _told(site, given, "cancel")
    if told["applied"] and not told["held"] and not told["ended"]:
        _asked(site, take_up(told["run_id"], source=SOURCE, state=site.state))  # drives the run to its end
    return told


@_tool(
    "Retry failed tasks",
    "Retry tasks that failed, with the tasks that did not run because of them, and continue.",
    arguments_of("run", run=RUN, tasks=texts("only these failed tasks")),
    reads=False,
    destroys=True,
)
def _retry(site: Site, given: Arguments) -> dict[str, Json]:
    return _asked(site, take_up(_run_id(site, given), "retry", {"tasks": given.get("tasks", [])}, SOURCE, site.state))


@_tool(
    "Re-run tasks",
    "Re-run tasks of a run and the tasks that depend on them.",
    arguments_of(
        "run tasks",
        run=RUN,
        tasks=texts("these tasks") | {"minItems": 1},
        downstream=flag("re-run every dependent task, whatever it declares"),
        keep_unchanged=flag("reuse results of dependent tasks whose call is unchanged"),
    ),
    reads=False,
    destroys=True,
)
def _rerun(site: Site, given: Arguments) -> dict[str, Json]:
    how = {name: given[name] for name in ("tasks", "downstream", "keep_unchanged")}
    return _asked(site, take_up(_run_id(site, given), "rerun", how, SOURCE, site.state))


@_tool(
    "Revise a run",
    "Give a paused or ended run a changed plan and continue; finished work is reused. Refused for a run whose "
    "plan has gates.",
    arguments_of(
        "run plan reason",
        run=RUN,
        plan=PLAN,
        params=PARAMS,
        reason=_REASON,
        keep_unchanged=flag("reuse every result whose call is unchanged"),
        preview=flag("only show what would change and what would re-run"),
    ),
    reads=False,
    destroys=True,
)
def _revise(site: Site, given: Arguments) -> dict[str, Json]:
    looked = look(given["run"], site.state)
    if gates := [task.id for task in every(looked.state.plan.tasks) if task.gate is not None]:
        listed = ", ".join(f"`{name}`" for name in gates[:5])
        raise Denied(
            f"run {looked.row.run} has gates ({listed}): a changed plan could go around them, so a person revises it",
            NextStep("revise", looked.row.run, given["plan"]),
        )
    request = ReviseRequest(
        looked.row.run,
        plan_path(site, given["plan"]),
        tuple(given.get("params", {}).items()),
        given["reason"],
        given["keep_unchanged"],
        decides=False,
    )
    made = preview(request, site.state) if given["preview"] else revise(request, site.state)
    if made.changed and not given["preview"]:
        _asked(site, take_up(looked.row.run, source=SOURCE, state=site.state))
    return document_of(revision_object(made, not given["preview"]))
