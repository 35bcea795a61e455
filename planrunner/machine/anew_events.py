"""Events that few runs meet: forks, runs that act again, tasks that begin anew, are done already or held back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    Json = Any


class RunForked(NamedTuple):
    """What came before is a copy of the first ``seq`` entries of the run ``parent``; from here on it is the run
    ``run``, in which attempts that were under way never began. ``params`` are those that are set anew, ``idle`` the
    seconds since the entry before."""

    run: str
    parent: str
    seq: int
    params: dict[str, Json] = {}
    idle: float = 0.0
    by: str = ""


class RunRevised(NamedTuple):
    """From here on the run has another plan: revision ``number`` (the first plan is 1), by ``by`` for a ``reason``.
    Each task keeps what it came to; what begins anew because of the revision is named by the ``TasksReset`` that
    follows. ``params``, ``traits``, ``environment``, ``max_parallel`` and ``selected`` are as in ``RunStarted`` and
    hold from here on. ``stopped`` are containers under way whose definition changed: what they hold is cancelled. With
    ``asks_again`` what people approved of counts for nothing that has not begun. ``idle`` are the seconds since the
    entry before, in which nothing ran; the run waits to be resumed."""

    number: int
    plan_digest: str
    by: str = ""
    reason: str = ""
    params: dict[str, Json] = {}
    traits: dict[str, Json] = {}
    environment: dict[str, Json] = {}
    max_parallel: int | None = None
    selected: tuple[str, ...] | None = None
    stopped: tuple[str, ...] = ()
    asks_again: bool = False
    idle: float = 0.0


class RunReopened(NamedTuple):
    """A run that has ended acts again, for a ``reason``: retry, rerun, rollback, revise or budget (it has
    another plan or more to spend, and waits to be resumed)."""

    reason: str
    by: str = ""


class TasksReset(NamedTuple):
    """Tasks begin anew as if they had never run: ``reason`` is rework, retry, rerun or revised, ``cause`` the task that
    sent back, ``comment`` what was said. Those of ``unless_same`` keep their result if they would be called as before
    and, unless ``by_call``, are of a kind whose call tells everything, or (where the plan was revised) come after
    nothing that runs again; one that holds others opens again, and each task inside it keeps its result by the same
    rule, but for those that are named here as well. With ``services_first`` what comes after the services among them by
    needs, at once or through others, waits until these are ready. Those of ``named`` were asked for by name: they begin
    though their level fails already, as do those that went well before; what fails later stops them too. Without
    ``named`` (older journals) all of them begin though their level fails."""

    tasks: tuple[str, ...]
    reason: str
    by: str = ""
    cause: str = ""
    comment: str = ""
    unless_same: tuple[str, ...] = ()
    by_call: bool = True
    services_first: bool = False
    named: tuple[str, ...] | None = None


class ResetPlanned(NamedTuple):
    """Tasks are to begin anew once those among them that run have ended; until then none of them starts."""

    tasks: tuple[str, ...]
    reason: str
    by: str = ""
    cause: str = ""
    comment: str = ""


class FreshnessAsked(NamedTuple):
    """Is the task done already? ``call`` is the digest of what it would be called with."""

    task: str
    call: str = ""


class FreshnessSeen(NamedTuple):
    """What was seen of a task that may be done already. ``inputs`` is the digest of its input files and its call as
    they are now; with ``same`` they are those of the time when run ``since`` did it, and its outputs exist; ``why``
    tells what is not. ``outputs`` and ``artifacts`` are what it gave then. ``fault`` says why its files could not be
    looked at, which fails the task."""

    task: str
    same: bool = False
    inputs: str = ""
    since: str = ""
    outputs: dict[str, Json] = {}
    artifacts: tuple[dict[str, Json], ...] = ()
    why: str = ""
    fault: str = ""


class TaskDelayed(NamedTuple):
    """Ready, but held back by an open circuit breaker, or by its own ``delay``; looked at again at ``due`` (seconds
    since 1970). ``breaker`` is the pattern of what the breaker watches, empty for a delay."""

    task: str
    due: float
    breaker: str = ""
    detail: str = ""


class LeftAlone(NamedTuple):
    """Nobody is there to ask until the run is taken up again: what is in doubt and can be undone is undone."""
