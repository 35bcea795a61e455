"""Begin tasks of a run anew: those that failed, or those that somebody names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.app.asking import user
from planrunner.app.execute import go_on
from planrunner.app.reading import stored_state
from planrunner.app.settling import left_alone
from planrunner.app.tasknames import task_number
from planrunner.errors import UsageError
from planrunner.journal.sqlite import open_journal
from planrunner.journal.workspace import find_state
from planrunner.machine.rerun import Anew, Unfit, reset_event, retried, run_again
from planrunner.record import NamedTuple

if TYPE_CHECKING:
    from planrunner.app.execute import RunResult, Watch
    from planrunner.machine.state import State


class RerunRequest(NamedTuple):
    """``tasks`` are ids or paths. ``retry`` begins what failed among them anew (none named: everything that failed);
    otherwise the tasks themselves begin anew, and what comes after them: in any case with ``downstream``, else only
    where its inputs have changed by then. ``only_failed`` leaves what went well as it is."""

    run: str
    tasks: tuple[str, ...] = ()
    retry: bool = False
    downstream: bool = False
    only_failed: bool = False
    unattended: bool = False
    """Nobody is there to ask what became of an attempt."""


class Stale(NamedTuple):
    """What would begin anew, in any case and perhaps, and how many tasks that went well stay as they are."""

    run_id: str
    again: tuple[str, ...]
    perhaps: tuple[str, ...]
    kept: int


def preview(request: RerunRequest, state_dir: str | None) -> Stale:
    """What ``begin_anew`` would do. Raises NotFound and UsageError."""
    journal = open_journal(find_state(None, state_dir), readonly=True)
    try:
        state = stored_state(journal, journal.find_run(request.run))
    finally:
        journal.close()
    anew = _chosen(state, request)
    again, perhaps = (tuple([state.specs[number].id for number in numbers]) for numbers in anew)
    good = sum(found.standing in ("completed", "tolerated") for found in state.tasks)
    touched = sum(state.tasks[number].standing in ("completed", "tolerated") for number in anew.again + anew.perhaps)
    return Stale(state.run_id, again, perhaps, good - touched)


def begin_anew(request: RerunRequest, state_dir: str | None, watch: Watch) -> RunResult:
    """Begin the tasks anew and drive the run until it ends or parks, whatever state it is in now.

    Raises NotFound, RunHeld, UsageError for tasks that cannot begin anew, StorageFailed, Fenced.
    """
    reason = "retry" if request.retry else "rerun"
    return go_on(
        request.run,
        state_dir,
        watch,
        lambda state: [
            *(left_alone() if request.unattended else ()),
            reset_event(state, _chosen(state, request), reason, user()),
        ],
        reason,
    )


def _chosen(state: State, request: RerunRequest) -> Anew:
    wanted = [task_number(state, name) for name in request.tasks]
    try:
        if request.retry:
            return retried(state, wanted)
        return run_again(state, wanted, all_after=request.downstream, only_failed=request.only_failed)
    except Unfit as error:
        raise UsageError(str(error), f"planrunner show {state.run_id}") from None
