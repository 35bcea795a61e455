"""``planrunner worker``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import click

from planrunner.ancestry import RunnerMark, adopt_orphans, mark_for_good
from planrunner.app.follow.reporting import reported
from planrunner.app.queue import asking
from planrunner.app.queue.items import OPEN
from planrunner.app.queue.lease import worker_of
from planrunner.app.queue.worker import Change, Worker
from planrunner.cli.group import given_settings
from planrunner.cli.runner import lay_environment, say
from planrunner.errors import OK, PlanrunnerError
from planrunner.escapes import harmless
from planrunner.journal.chain import data_folder
from planrunner.journal.workspace import find_project, find_state
from planrunner.process import share_process, stopped_by_signals

_LOOK = 0.2


@click.command("worker")
@click.option("--until-empty", is_flag=True, help="End when every run in the queue is over.")
@click.option("--until-waiting", is_flag=True, help="End when every run in the queue is over or waits for people.")
@click.pass_context
def worker_command(ctx: click.Context, /, until_empty: bool, until_waiting: bool) -> int:
    """Run what waits in the queue of this project, until it is stopped.

    Runs that wait for people take no slot and go on once they are decided. A second worker stands by and takes over
    when the first one ends. Ctrl-C or SIGTERM pauses the runs; the next worker continues them.

    \b
    Examples:
      planrunner worker
      planrunner worker --until-empty
    """
    given = given_settings(ctx)
    share_process()
    lay_environment(given)
    root, state = find_project(None), find_state(None, given.state)
    mark = RunnerMark(state, data_folder())
    mark_for_good()
    adopt_orphans()
    stopped = stopped_by_signals()
    has_work = partial(_has_work, state, until_waiting)
    while _work(root, state, stopped, has_work if until_empty or until_waiting else None):
        continue  # something was queued by a process that still saw this worker
    mark.close()
    return OK


@contextmanager
def _reporting(state: str) -> Iterator[None]:
    """Let measures, telemetry and notices be told meanwhile; where the settings have faults it is said that they are
    not."""
    with ExitStack() as stack:
        try:
            reporting = stack.enter_context(reported(state, say))
        except PlanrunnerError as error:
            say(f"traces, metrics and notices are off until the next start: {error}")
        else:
            reporting.start()
            stack.callback(reporting.close)
        yield


def _begun(worker: Worker, state: str) -> Worker:
    """A worker that is about to start, once it is said of it: what it tells of runs comes after that."""
    holder = "" if worker.claim() else f" as soon as {worker_of(state)} lets go of it"
    say(f"this worker runs what is in the queue{holder}; stop it with Ctrl-C")
    return worker


def _has_work(state: str, until_waiting: bool) -> bool:
    """Whether a run of the queue is not over, nor waits for people where that is enough."""
    if not until_waiting:
        return bool(asking.items(OPEN, 1, 0, state))
    return any(item.status != "parked" or item.wakes is not None for item in asking.items(OPEN, state=state))


def _work(root: str, state: str, stopped: threading.Event, has_work: Callable[[], bool] | None) -> bool:
    """Work until it is stopped, or ``has_work`` says no; whether there is more to do by the time this has let go."""
    with _reporting(state), _begun(Worker(root, state, told=_say), state) as worker:
        problem = ""
        while not stopped.wait(_LOOK):
            if worker.problem != problem:
                problem = worker.problem
                say(f"the queue stands still: {problem}" if problem else "the queue goes on")
            if has_work is not None and (worker.is_idle or not worker.is_acting) and not has_work():
                break
    return has_work is not None and not stopped.is_set() and has_work()


def _say(change: Change) -> None:
    why = f": {harmless(change.reason)}" if change.reason else ""
    say(f"{time.strftime('%H:%M:%S')} run {change.run} is {change.status}{why}")
