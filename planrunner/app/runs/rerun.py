"""Re-run tasks of a run: those that failed, or those that are named."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from planrunner.app.history.state import stored_state
from planrunner.app.people.persons import require_person
from planrunner.app.plans.tasks import task_number
from planrunner.app.runs.doubts import left_alone
from planrunner.app.runs.execute import RunResult, Watch, directory_of
from planrunner.app.runs.resume import Reopened, accepted, go_on
from planrunner.app.runs.setup import check_project
from planrunner.caller import principal
from planrunner.engine.poller import StopSwitch
from planrunner.errors import Hint, NextStep, UsageError
from planrunner.frozen import EMPTY
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state
from planrunner.machine.events import Event
from planrunner.machine.names import by_its_own, named, owners, replaced_tasks
from planrunner.machine.reuse import inside
from planrunner.machine.rework import Reset, Unfit, is_current, reset_event, retried, run_again
from planrunner.machine.state import State
from planrunner.records import Struct


class RerunRequest(Struct):
    """``tasks`` are ids or paths. ``retry`` re-runs the failed ones among them (none named: all failed tasks);
    otherwise the tasks themselves re-run, and what comes after them: all of it with ``downstream``, with
    ``keep_unchanged`` only tasks whose call has changed, else those that may not keep their result.
    ``only_failed`` leaves completed tasks as they are."""

    run: str
    tasks: tuple[str, ...] = ()
    retry: bool = False
    downstream: bool = False
    keep_unchanged: bool = False
    only_failed: bool = False
    unattended: bool = False
    """Never ask about the end of an attempt in doubt."""
    accepts_policy: bool = False
    """A person accepts that only the current policy applies."""


class Stale(Struct):
    """The tasks that re-run in any case, those that re-run if their inputs have changed, and how many completed tasks,
    containers aside, keep their results.

    ``calls`` gives for tasks that ran the digest of what they were called with; one of ``perhaps`` runs again if it
    would be called otherwise. ``inside`` gives for those of them that hold others the tasks that are compared one by
    one. ``finals`` are those of ``again`` that stand under ``finally``.
    """

    run_id: str
    again: tuple[str, ...]
    perhaps: tuple[str, ...]
    kept: int
    calls: dict[str, str] = EMPTY
    inside: dict[str, tuple[str, ...]] = EMPTY
    finals: tuple[str, ...] = ()


def preview(request: RerunRequest, state_dir: str | None, *, acting: bool = False) -> Stale:
    """What ``rerun`` would do; with ``acting`` it is about to. Raises NotFound, UsageError, and RunHeld where
    another process is ``acting``."""
    with closing(open_journal(find_state(None, state_dir), readonly=True)) as journal:
        run_id = journal.find_run(request.run)
        if acting:
            journal.check_free(run_id)
        state = stored_state(journal, run_id)
    return foreseen(state, request)


def foreseen(state: State, request: RerunRequest) -> Stale:
    """What ``rerun`` would do with a run in this state. Raises NotFound, UsageError."""
    return _stale(state, _chosen(state, request))


def _stale(state: State, reset: Reset) -> Stale:
    touched, replaced, containers = {*reset.again, *reset.perhaps}, replaced_tasks(state), state.containers
    completed = [
        number
        for number, task in enumerate(state.tasks)
        if task.dependency_outcome in ("completed", "tolerated") and number not in replaced and task.inner is None
    ]

    def ids(numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple([state.specs[number].id for number in numbers])

    calls = {
        state.specs[number].id: state.tasks[number].inputs
        for number in (*reset.again, *reset.perhaps)
        if number not in containers and state.tasks[number].inputs
    }
    return Stale(
        state.run_id,
        ids(reset.again),
        ids(reset.perhaps),
        sum(touched.isdisjoint((*owners(state, number), number)) for number in completed),
        calls,
        {
            state.specs[number].id: ids(inside(state, number))
            for number in reset.perhaps
            if state.tasks[number].inner is not None
        },
        ids(number for number in reset.again if state.specs[number].finally_),
    )


def rerun(request: RerunRequest, state_dir: str | None, watch: Watch, switch: StopSwitch | None = None) -> RunResult:
    """Reset the tasks and drive the run until it ends or pauses, whatever its status; ``switch`` stops it from another
    thread.

    Raises NotFound, PlanInvalid for a fault in the project's file, RunHeld, Denied where people alone may ask,
    UsageError for tasks that cannot be re-run, StorageFailed, Fenced.
    """
    reason = "retry" if request.retry else "rerun"
    if request.accepts_policy:
        require_person("policy", find_state(None, state_dir))

    def following(state: State) -> list[Event]:
        check_project(directory_of(state))
        alone = left_alone() if request.unattended else ()
        held = accepted(state, directory_of(state)) if request.accepts_policy else ()
        chosen = _chosen(state, request)
        return [*held, *alone, *([reset_event(state, chosen, reason, principal().name)] if any(chosen[:2]) else [])]

    return go_on(Reopened(request.run, following, reason, switch), state_dir, watch)


def _chosen(state: State, request: RerunRequest) -> Reset:
    wanted = [_number(state, name) for name in request.tasks]
    if request.retry and not wanted and (state.status, state.reason) == ("paused", "revised"):
        return Reset(())  # what failed was reset with the revision
    try:
        if request.retry:
            return retried(state, wanted)
        how = {"all_after": request.downstream, "by_call": request.keep_unchanged, "only_failed": request.only_failed}
        return run_again(state, wanted, **how)
    except Unfit as error:
        allowed = _allowed(state) if request.retry and not wanted else ()
        if not allowed:
            raise UsageError(str(error), NextStep("show", state.run_id)) from None
        listed = ", ".join(f"`{name}`" for name in allowed[:5])
        listed += f" and {len(allowed) - 5} more" if allowed[5:] else ""
        raise UsageError(
            f"no failure to rerun: the failure of {listed} is allowed or was recovered",
            Hint("name it to rerun it: ", NextStep("rerun", state.run_id, *allowed[:5])),
        ) from None


def _allowed(state: State) -> tuple[str, ...]:
    """The tasks that failed and kept nothing from going on: tolerated ones, and those that others stand in for."""
    return tuple(
        state.specs[number].id
        for number, task in enumerate(state.tasks)
        if task.status == "failed" and is_current(state, number) and by_its_own(state, number)
    )


def _number(state: State, name: str) -> int:
    """The task of that name; of several, the one that belongs to the round and the attempt that stand now."""
    current = [number for number in named(state, name) if is_current(state, number)]
    return current[0] if len(current) == 1 and name not in state.index else task_number(state, name)
