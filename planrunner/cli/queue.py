"""``planrunner queue``, and ``planrunner exec --detach``."""

from __future__ import annotations

import time
from typing import Any

import click

from planrunner.app.queue import asking
from planrunner.app.queue.items import STATUSES, Item, Overview, item_document, items_document, waiting_reason
from planrunner.app.queue.lease import start_worker, worker_of
from planrunner.cli.completion import RUN
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.options import ExecOptions, PlanPath, json_option, params_option, unattended_option
from planrunner.cli.output import print_document
from planrunner.cli.runner import asked_for, name_program, say
from planrunner.cli.settings import Settings, output
from planrunner.errors import OK, UsageError
from planrunner.escapes import harmless
from planrunner.journal.workspace import find_project, find_state
from planrunner.plan.expressions.quantities import duration_text
from planrunner.views.terminal import Terminal, pad, plural, table, width

_SIGNS = {"waiting": "queued", "starting": "queued", "interrupted": "paused", "parked": "blocked"}


@click.group("queue", cls=CommandGroup, default="list")
def queue_command() -> None:
    """List the queue of runs, add to it, cancel, pause and resume.

    A worker runs what waits: `planrunner worker`, `planrunner serve`, or one that `planrunner exec --detach` starts.
    How much runs at once stands under `scheduler` of planrunner.yaml.

    \b
    Examples:
      planrunner queue
      planrunner queue add plans/release.yaml -p ref=v1.2 --priority 5
      planrunner queue cancel last --reason "wrong branch"
      planrunner queue pause --reason "the network is being repaired"
    """


@queue_command.command("list")
@click.option("--status", "statuses", multiple=True, type=click.Choice(STATUSES), help="Only these; may be repeated.")
@click.option("--limit", type=click.IntRange(1), default=20, metavar="N", help="At most N (20).")
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N", help="Skip the first N: the next page.")
@json_option
@click.pass_context
def list_items(ctx: click.Context, /, statuses: Any, limit: int, skip: int, as_json: bool) -> int:
    """List runs in the queue: running, waiting in their order, over."""
    given = given_settings(ctx)
    found = asking.items(statuses, limit, skip, given.state)
    overview = asking.overview(given.state)
    if as_json:
        print_document(items_document(found, overview))
        return OK
    screen = output(given)
    lines = _overview_lines(screen, overview)
    if found:
        header = ("RUN", "PLAN", "STATUS", "ASKED", "BY", "WHY")
        lines += table(screen, header, [_row(screen, each, time.time()) for each in found])
    elif not overview.counts:
        lines.append(f"nothing was queued yet; add the first run: {given.program} queue add PLAN")
    screen.write("\n".join(lines) + "\n")
    return OK


def _overview_lines(screen: Terminal, overview: Overview) -> list[str]:
    counts = [f"{count} {status}" for status in STATUSES if (count := overview.counts.get(status))]
    lines = [", ".join(counts)] if counts else []
    if overview.pause is not None:
        why = f": {harmless(overview.pause.reason)}" if overview.pause.reason else ""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(overview.pause.at))
        lines.append(f"{screen.sign('paused')} paused by {harmless(overview.pause.by)} at {when}{why}")
    waits = overview.counts.get("waiting") or overview.counts.get("interrupted")
    if waits and not overview.worker:
        lines.append(f"no worker works off this queue; start one: {screen.program} worker")
    elif waits and overview.pause is None and (why := waiting_reason(overview)):
        lines.append(why)
    return lines


def _row(screen: Terminal, item: Item, now: float) -> tuple[str, ...]:
    return (
        item.run,
        harmless(item.plan.rpartition("/")[2]),
        f"{screen.sign(_SIGNS.get(item.status, item.status))} {item.status}",
        f"{duration_text(max(0.0, now - item.enqueued))} ago",
        harmless(item.by.name),
        _why(item),
    )


def _why(item: Item) -> str:
    """What keeps a run waiting, or what became of it."""
    if item.status == "waiting" and item.ahead is not None:
        before = f"{plural(item.ahead, 'run')} before it" if item.ahead else "it is next"
        return before + (f", priority {item.priority}" if item.priority else "")
    return "" if item.reason == item.status else harmless(item.reason)


@queue_command.command("add")
@click.argument("plan", type=PlanPath())
@params_option()
@click.option("--params-file", metavar="FILE", help="Read parameters from a YAML or JSON file; -p takes precedence.")
@click.option("--priority", type=int, default=0, metavar="N", help="Runs of a higher priority come first (0).")
@click.option("--trust", metavar="DIGEST", help="Run a plan from outside the project if this is its digest.")
@unattended_option
@json_option
@click.pass_context
def add_item(ctx: click.Context, /, priority: int, as_json: bool, **options: Any) -> int:
    """Put a run of PLAN into the queue. The plan is checked at once, and the text that it has now is what will run."""
    given = given_settings(ctx)
    item = _added(given, ExecOptions(**options), priority)
    worker = worker_of(find_state(item.plan, given.state))
    return _report(given, item, as_json, "" if worker else f"no worker runs; start one: {given.program} worker")


@queue_command.command("cancel")
@click.argument("run", shell_complete=RUN)
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the run.")
@click.option("--now", is_flag=True, help="Kill running tasks immediately and skip `finally`.")
@json_option
@click.pass_context
def cancel_item(ctx: click.Context, /, run: str, reason: str, now: bool, as_json: bool) -> int:
    """Take a run out of the queue, or end it where it has begun. RUN is an id, the start of one, the name of a plan, or
    `last`."""
    given = given_settings(ctx)
    item = asking.cancel(run, reason, given.state, now)
    if as_json:
        print_document(item_document(item), line=True)
    else:
        say(f"run {item.run}: {'cancelled' if item.status == 'cancelled' else 'asked to end'}")
    return OK


@queue_command.command("pause")
@click.option("--reason", default="", metavar="TEXT", help="Why; shown with the queue.")
@click.pass_context
def pause_queue(ctx: click.Context, /, reason: str) -> int:
    """Start nothing more from the queue; runs that have begun go on."""
    given = given_settings(ctx)
    asking.pause(reason, given.state)
    say(f"the queue is paused; let it go on: {given.program} queue resume")
    return OK


@queue_command.command("resume")
@click.pass_context
def resume_queue(ctx: click.Context, /) -> int:
    """Resume a paused queue."""
    before = asking.resume_queue(given_settings(ctx).state)
    say("the queue goes on" if before is not None else "the queue was not paused")
    return OK


def detach(given: Settings, asked: ExecOptions) -> int:
    """Put a run into the queue for ``exec --detach``, and start a worker in the background where none runs."""
    for name, plain in (("progress", "auto"), ("output", None), ("no_wait", False)):
        if getattr(asked, name) != plain:
            raise UsageError(f"--{name.replace('_', '-')} has no effect with --detach", "look with `planrunner logs`")
    item = _added(given, asked, 0)
    state = find_state(item.plan, given.state)
    started = start_worker(find_project(item.plan), state)
    told = f"process {started} was started to run it" if started else f"{worker_of(state)} runs it"
    return _report(given, item, asked.json, told)


def _added(given: Settings, options: ExecOptions, priority: int) -> Item:
    request = asked_for(given, options)
    name_program(given, request.plan)
    return asking.enqueue(request, "cli", priority)


def _report(given: Settings, item: Item, as_json: bool, told: str) -> int:
    """The id on standard output, for scripts; what can be typed next on standard error."""
    if as_json:
        print_document(item_document(item), line=True)
        return OK
    output(given).write(f"{item.run}\n")
    say(f"queued; {told}" if told else "queued")
    show, queue = f"{given.program} show {item.run}", f"{given.program} queue"
    say(f"  {show}   how it stands\n  {pad(queue, width(show))}   what runs and waits")
    return OK
