"""Events that few runs meet. Limits: budgets, attempts that run too long, plans that may not start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    Json = Any


class BudgetWarned(NamedTuple):
    """So much of a limit is spent that people want to know (``reason`` threshold), or an attempt of the task ``scope``
    used more (``spent``) than it had set aside (``limit``; ``reason`` overshoot). ``scope`` is a task with everything
    inside it, empty for the plan; cost is in dollars, time in seconds."""

    scope: str
    what: str
    spent: float
    limit: float
    reason: str = "threshold"


class BudgetExtended(NamedTuple):
    """A person added ``amount`` to the limit of a task (empty: the plan) for ``what``: time (seconds), cost (dollars),
    tokens, calls, attempts or iterations."""

    scope: str
    what: str
    amount: float
    by: str = ""
    comment: str = ""


class BudgetRefused(NamedTuple):
    """A person adds nothing to a limit of a task (empty: the plan) that tasks wait for: what follows is what would have
    without asking, until the limit is extended after all."""

    scope: str
    what: str
    by: str = ""
    comment: str = ""


class PeopleAwaited(NamedTuple):
    """Nothing moves any more inside the task (empty: in the whole run, whose runner stays) before a person has decided:
    its time budget stands still until somebody has, or an attempt starts."""

    task: str = ""


class PolicyChanged(NamedTuple):
    """From now on the run is held to these levels of the operator's policy, as its start recorded others. ``reason`` is
    changed (they are those of before and those of now) or accepted (a person holds it to those of now alone)."""

    levels: tuple[dict[str, Json], ...]
    reason: str = "changed"
    by: str = ""


class Warned(NamedTuple):
    """A step of the watchdog of a task: its attempt still runs after ``after`` seconds. ``do`` is warn, or ask:
    somebody should look and decide."""

    task: str
    attempt: int
    after: float
    do: str


class AttemptStopping(NamedTuple):
    """An attempt has to end now and is stopped: ``failure`` is the class it ends with, unless it was done before the
    stop reached it; ``reason`` is timebox, watchdog, request, failure (of another task) or ended (the plan),
    ``detail`` the sentence people read."""

    task: str
    attempt: int
    failure: str
    reason: str
    detail: str = ""


class SettingsComputed(NamedTuple):
    """A task is about to start, and the settings that its plan computes have these ``values`` on this ``visit``:
    timeout and delay in seconds, retry.attempts, max_parallel, and tolerate (a number, or text with a percentage)."""

    task: str
    visit: int
    values: dict[str, Json] = {}


class PlanRefused(NamedTuple):
    """A plan was not let start, or its run not let go on: no run has this event, it stands in the record ``refused`` of
    the state directory. ``rule`` refused it; ``digest`` is that of the plan, or of the bytes of its file
    (``bytes:sha256:``) where it was not read. ``environment`` says who asked, on which machine. ``quiet`` tells that
    the record says nothing more for an hour: of the same refusal (``same``), or of any (``all``)."""

    plan: str
    rule: str
    message: str
    digest: str = ""
    environment: dict[str, Any] = {}
    quiet: str = ""
