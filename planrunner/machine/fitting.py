"""Who may begin within the budgets, and what follows where a budget is used up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from planrunner.machine.budgets import (
    Shortage,
    chain,
    fits,
    is_another,
    ledger_of,
    limit_of,
    need,
    scope_of,
    sentence,
    time_limit,
)
from planrunner.machine.commands import Close, Command, Record
from planrunner.machine.events import FrameClosing, StopRequested, TaskSettled
from planrunner.machine.ledger import PLAN, amount
from planrunner.machine.state import State
from planrunner.plan.model import Task

Json = Any


class Fitting:
    """One decision about which ready tasks begin: what it gives to one is not there for the next."""

    PATIENCE = 200
    """Waiting tasks that one decision looks at in vain before it leaves the others for later."""

    __slots__ = ("_chosen", "_claims", "_now", "_settled", "_state", "ended", "misfits")

    def __init__(self, state: State, now: float) -> None:
        self._state = state
        self._now = now
        self._claims: dict[tuple[int, str], int] = {}
        self._chosen: dict[int, tuple[dict[str, int], bool]] = {}
        self._settled: set[int] = set()
        """Tasks of which this decision has disposed already."""
        self.misfits = 0
        self.ended: dict[str, Command] = {}
        """Limits that are used up with what follows, by the name of their scope."""

    def sift(self, ready: Iterable[int], commands: list[Command]) -> list[int]:
        """Those of the ready tasks that may begin now or later; what follows for the others joins ``commands``. Tasks
        that wait in line are looked at as well."""
        index = self._state.index
        for command in commands:
            if isinstance(command, Record) and isinstance(command.event, TaskSettled):
                self._settled.add(index[command.event.task])
        left: list[int] = []
        for number in ready:
            what = self._never(number)
            if what is None:
                left.append(number)
            else:
                self._add(what, commands)
        for line in self._state.queue.lines.values():
            for _, minus in line[-self.PATIENCE :]:
                what = None if -minus in self._settled else self._never(-minus)
                if what is not None:
                    self._add(what, commands)
        return left

    def _add(self, command: Command, commands: list[Command]) -> None:
        index = self._state.index.__getitem__
        event = command.event if isinstance(command, Record) else None
        if isinstance(event, TaskSettled) and event.status == self._state.tasks[index(event.task)].status == "blocked":
            return  # it waits already
        name = event.task if isinstance(event, FrameClosing) else "" if isinstance(event, StopRequested) else None
        if isinstance(event, TaskSettled):
            self._settled.add(index(event.task))
        if name is None:
            commands.append(command)
        elif name not in self.ended:
            self.ended[name] = command
            commands.append(command)

    def _never(self, number: int) -> Command | None:
        """What follows for a task that can never begin; None for one that can."""
        if self._state.tasks[number].uncertain:
            return None
        short = self._shortage(number)
        if short is None or not short.final:
            return None
        return exhausted(self._state, number, short)

    def _shortage(self, number: int) -> Shortage | None:
        state = self._state
        if state.specs[number].concluding:  # it does nothing, so nothing can run short for it
            self._chosen[number] = ({}, False)
            return None
        wanted = need(state, number)
        if isinstance(wanted, str):
            return Shortage(number, wanted, 0, 0, 0, unpriced=True)
        short = time_short(state, number, self._now) or fits(state, number, {**wanted, "attempts": 1}, self._claims)
        degraded = short is not None and short.final and degrades(state, number, short)
        if degraded:
            wanted = self._rest(number)
            short = fits(state, number, {**wanted, "attempts": 1}, self._claims)
        if short is None:
            self._chosen[number] = (wanted, degraded)
        return short

    def _rest(self, number: int) -> dict[str, int]:
        """What is done instead takes whatever is left of what it spends, or one more than there is of nothing."""
        state = self._state
        degraded = state.specs[number].degraded
        trait = state.traits.get(degraded.uses) if degraded is not None else None
        found = {}
        for what in trait.spends if trait is not None else ():
            left = [
                limit - ledger_of(state).account(scope).taken(what) - self._claims.get((scope, what), 0)
                for scope in chain(state, number)
                if (limit := limit_of(state, scope, what)) is not None
            ]
            if left:
                found[what] = max(min(left), 1)
        return found

    def take(self, number: int) -> bool:
        """Whether a task begins now. Where it has to wait, what it needs is kept from those after it."""
        state = self._state
        if number in self._settled:
            return False
        if state.tasks[number].uncertain:
            self._chosen[number] = (ledger_of(state).holdings.get(number, {}), number in state.degraded)
            return True
        short = self._shortage(number)
        wanted = self._chosen[number][0] if short is None else need(state, number)
        if not isinstance(wanted, str):
            for what, more in {**wanted, "attempts": 1}.items():
                for scope in chain(state, number):
                    self._claims[scope, what] = self._claims.get((scope, what), 0) + more
        fitting = short is None and not self.ended
        self.misfits += not fitting
        return fitting

    def chosen(self, number: int) -> tuple[dict[str, Json], bool]:
        """What a task that begins sets aside, as the journal keeps it, and whether it does what is done instead."""
        amounts, degraded = self._chosen[number]
        return {what: amount(what, more) for what, more in amounts.items() if more}, degraded


def time_short(state: State, number: int, now: float) -> Shortage | None:
    """Time that is used up: of the task's own attempts, or of the plan where people are asked before it stops."""
    task = state.specs[number]
    account = ledger_of(state).accounts.get(number)
    if task.budgets.time is not None and account is not None and account.seconds >= task.budgets.time:
        return Shortage(number, "time", 0.0, 0.0, task.budgets.time)
    limit, kind = time_limit(state), state.plan.budgets.on_exhausted
    if limit is None or task.finally_:
        return None
    spent = state.spent_time(now)
    if kind == "gate" and spent >= limit:
        return Shortage(PLAN, "time", 0.0, limit - spent, limit)
    early = (kind == "skip_optional" and task.optional) or (kind == "degrade" and task.degraded is not None)
    if early and spent >= limit * (0.8 if state.plan.budgets.warn is None else state.plan.budgets.warn):
        return Shortage(PLAN, "time", 0.0, limit - spent, limit)
    return None


def degrades(state: State, number: int, short: Shortage) -> bool:
    """Whether a task does its cheaper action because of a limit."""
    scope = scope_of(state, short.scope)
    return scope is not None and scope.on_exhausted == "degrade" and state.specs[number].degraded is not None


def done_instead(task: Task) -> Task:
    """A task that does what it declares for when a budget runs short; how that is judged stays the same."""
    action = task.degraded
    assert action is not None, "only a task that declares it is degraded"
    timeout = task.timeout if action.timeout is None else action.timeout
    inputs, run, script = action.inputs, action.run, action.script
    return task._replace(uses=action.uses, inputs=inputs, run=run, script=script, timeout=timeout, stdin="")


def degrade(state: State, number: int, degraded: bool) -> None:
    """The task does what it declares for when a budget runs short, or what it should again."""
    if degraded and number not in state.degraded:
        task = state.degraded[number] = state.specs[number]
        state.specs[number] = done_instead(task)
    elif not degraded and number in state.degraded:
        state.specs[number] = state.degraded.pop(number)


def exhausted(state: State, number: int, short: Shortage) -> Command:
    """What follows for a task that does not fit into a limit and never will."""
    task = state.specs[number]
    if short.unpriced:
        why = f"its `{task.uses}` spends {short.what}, and nothing says how much"
        detail = f"{why}: give it `budgets: {{{short.what}: …}}`"
        return Record(TaskSettled(task.id, "failed", "budget", detail, "budget"))
    scope = scope_of(state, short.scope)
    kind = scope.on_exhausted if scope is not None else "stop"
    detail = sentence(state, short)
    if kind == "gate" and (no := ledger_of(state).refused.get((short.scope, short.what))):
        kind, detail = "stop", f"{detail}; more was {no}"
    if kind == "skip_optional" and task.optional:
        return Record(TaskSettled(task.id, "skipped", "budget", detail))
    if kind == "gate":
        return Record(TaskSettled(task.id, "blocked", "budget", f"{detail}; `planrunner gates` tells how to extend it"))
    if short.scope == number or task.finally_:
        return Record(TaskSettled(task.id, "failed", "budget", detail, "budget"))
    if short.scope == state.tasks[number].frame.owner and is_another(state, number):
        return Record(TaskSettled(task.id, "failed", "budget", f"{detail}{_after(state, number)}", "budget"))
    return stop(state, short, detail)


def _after(state: State, number: int) -> str:
    """What the attempt came to that another one should have followed."""
    found = state.tasks[number]
    said = found.outcome.message if found.outcome is not None else ""
    return f": no attempt {found.attempts - found.past + 1} after: {said}" if said else ""


def stop(state: State, short: Shortage, why: str) -> Command:
    """Nothing new starts inside the scope of a limit; what runs may end."""
    if short.scope == PLAN:
        return Record(StopRequested("budget", "", why))
    return Record(FrameClosing(state.specs[short.scope].id, "budget", why))


def next_round(state: State, number: int) -> Command | None:
    """Why a loop does not go into another round; None when it may."""
    short = fits(state, number, {"iterations": 1})
    if short is None:
        return None
    around = (state.tasks[scope].inner for scope in chain(state, number)[:-1])
    if short.scope == number or state.stop_reason or any(frame is not None and frame.closing for frame in around):
        return Close(number, "budget", sentence(state, short))
    return stop(state, short, sentence(state, short))
