"""What is done with the run of an item when its turn comes, so that a crash at any moment does it once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from typing import Any

from planrunner.app.queue.asking import rerun_request, rollback_request
from planrunner.app.queue.store import Store, Task
from planrunner.app.runs.execute import ExecRequest, RunResult, Watch, execute
from planrunner.app.runs.host import Act
from planrunner.app.runs.rerun import rerun
from planrunner.app.runs.resume import Manner, resume
from planrunner.app.runs.rollback import roll_back
from planrunner.engine.poller import StopSwitch
from planrunner.errors import NotFound, UsageError
from planrunner.journal.stores import open_journal
from planrunner.machine.events import Event, RunReopened, RunResumed

Json = Any


def act_for(task: Task, store: Store) -> Act:
    """The use case for an item: its run starts where there is none, and goes on where what was asked for has happened
    already."""
    item, state = task.item, store.state
    if item.act == "start":
        if task.had_turn and last_entry(item.run, state):
            return _resume(task, state)
        return _start(task, store)
    if task.is_carried or (task.had_turn and _was_taken_up(item.run, state, task.seen)):
        return _resume(task, state)
    match item.act:
        case "retry" | "rerun":
            again = rerun_request(item.run, item.act, task.arguments)
            return lambda watch, switch: rerun(again, state, watch, switch)
        case "rollback":
            undo = rollback_request(item.run, task.arguments)
            return lambda watch, switch: roll_back(undo, state, watch, switch)
        case _:
            return _resume(task, state, task.arguments)


def _start(task: Task, store: Store) -> Act:
    request = request_of(task, store)

    def start(watch: Watch, switch: StopSwitch) -> RunResult:
        try:
            return execute(request, watch, switch=switch)
        except UsageError:
            if not last_entry(task.item.run, store.state):
                raise
        return _resume(task, store.state)(watch, switch)  # a loss of power took the note that it had begun

    return start


def _resume(task: Task, state: str, arguments: dict[str, Json] | None = None) -> Act:
    said = arguments or {}
    settle = [(str(name), str(how)) for name, how in said.get("settle", ())]
    alone = bool(said.get("unattended", task.request.get("unattended", False)))
    manner = Manner(alone, bool(said.get("accepts_policy", False)), bool(task.request.get("unconfined", False)))

    def go_on(watch: Watch, switch: StopSwitch) -> RunResult:
        return resume(task.item.run, settle, state, watch, manner, switch)

    return go_on


def request_of(task: Task, store: Store) -> ExecRequest:
    """The request as it was made. The text that was asked for is run, also where the file has changed since or is
    gone. Raises NotFound where that text is lost."""
    item, said = task.item, task.request
    fields = {name: _tupled(value) for name, value in said.items()}
    fields["params"] = tuple((str(name), value) for name, value in said.get("params", ()))
    text = None if _digest_of(item.plan) == item.digest else store.text(item.digest)
    return ExecRequest(item.plan, state=store.state, text=text, run_id=item.run, **fields)


def _tupled(value: Json) -> Json:
    return tuple(value) if isinstance(value, list) else value


def _digest_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return sha256(file.read().removeprefix(b"\xef\xbb\xbf")).hexdigest()
    except OSError:
        return ""


def last_entry(run: str, state: str) -> int:
    """The number of the last entry of a run in the journal, 0 where it has yet to begin."""
    try:
        with closing(open_journal(state, readonly=True)) as journal:
            return journal.run(run).last_seq
    except NotFound:
        return 0


def _was_taken_up(run: str, state: str, after: int) -> bool:
    return any(isinstance(event, (RunReopened, RunResumed)) for event in _events(run, state, after))


def _events(run: str, state: str, after: int) -> Iterator[Event]:
    with closing(open_journal(state, readonly=True)) as journal:
        for entry in journal.entries(run, after):
            yield entry.event
