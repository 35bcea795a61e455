"""Admission: which ready tasks may begin within policies, slots, budgets and breakers, and what a used-up budget leads
to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from planrunner.machine.budgets import (
    Shortage,
    chain,
    is_another,
    is_reflection,
    ledger_of,
    need,
    read_ledger,
    room,
    scope_name,
    scope_number,
    scope_of,
    sentence,
    shown,
    stop,
    time_limit,
)
from planrunner.machine.commands import Command, Record, Start
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    BudgetRefused,
    FrameClosing,
    PlanRefused,
    StopRequested,
    TaskDelayed,
    TaskSettled,
)
from planrunner.machine.ledger import PLAN, amount, units
from planrunner.machine.recovery import out_of_budget
from planrunner.machine.state import Circuit, State
from planrunner.machine.statuses import IllegalMove, move
from planrunner.plan.model import Breaker
from planrunner.records import Struct

Json = Any


class Admission:
    """One decision about which ready tasks begin: what it gives to one is not there for the next."""

    PATIENCE = 200
    """Waiting tasks that one decision looks at in vain before it leaves the others for later."""

    __slots__ = ("_chosen", "_claims", "_now", "_settled", "_state", "ended", "refused")

    def __init__(self, state: State, now: float) -> None:
        self._state = state
        self._now = now
        self._claims: dict[tuple[int, str], int] = {}
        self._chosen: dict[int, dict[str, int]] = {}
        self._settled: set[int] = set()
        """Tasks of which this decision has disposed already."""
        self.refused = 0
        self.ended: dict[str, Command] = {}
        """Limits that are used up with what follows, by the name of their scope."""

    def admissible(self, ready: Iterable[int], commands: list[Command]) -> list[int]:
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
            return out_of_budget(self._state, number)
        short = self._shortage(number)
        if short is None or not short.final:
            return None
        return exhausted(self._state, number, short)

    def _shortage(self, number: int) -> Shortage | None:
        state = self._state
        if state.specs[number].concluding:  # it does nothing, so nothing can run short for it
            self._chosen[number] = {}
            return None
        wanted = need(state, number)
        if isinstance(wanted, str):
            return Shortage(number, wanted, 0, 0, 0, unpriced=True)
        short = time_short(state, number, self._now) or room(state, number, wanted, self._claims)
        if short is None:
            self._chosen[number] = wanted
        return short

    def take(self, number: int) -> bool:
        """Whether a task begins now. Where it has to wait, what it needs is kept from those after it."""
        state = self._state
        if number in self._settled:
            return False
        if state.tasks[number].uncertain:
            self._chosen[number] = read_ledger(state).holdings.get(number, {})
            return True
        short = self._shortage(number)
        wanted = self._chosen[number] if short is None else need(state, number)
        if not isinstance(wanted, str):
            for what, more in {**wanted, "attempts": 1}.items():
                for scope in chain(state, number):
                    self._claims[scope, what] = self._claims.get((scope, what), 0) + more
        fits = short is None and not self.ended
        self.refused += not fits
        return fits

    def chosen(self, number: int) -> dict[str, Json]:
        """What a task that begins sets aside, as the journal keeps it; also a limit of nothing for what it spends."""
        state = self._state
        spends = state.trait(state.specs[number]).spends
        return {what: amount(what, more) for what, more in self._chosen[number].items() if more or what in spends}


def time_short(state: State, number: int, now: float) -> Shortage | None:
    """Time that is used up: of the task's own attempts, or of the plan where people are asked before it stops."""
    task = state.specs[number]
    account = read_ledger(state).accounts.get(number)
    if task.budgets.time is not None and account is not None and account.seconds >= task.budgets.time:
        return Shortage(number, "time", 0.0, 0.0, task.budgets.time)
    limit = time_limit(state)
    if limit is None or task.finally_ or state.plan.budgets.on_exhausted != "gate":
        return None
    left = limit - state.spent_time(now)
    return Shortage(PLAN, "time", 0.0, left, limit) if left <= 0 else None


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
    if is_reflection(state, number):
        return Record(TaskSettled(task.id, "failed", "budget", detail, "budget"))
    if kind == "gate" and (no := read_ledger(state).refused.get((short.scope, short.what))):
        kind, detail = "stop", f"{detail}; more was {no}"
    if kind == "gate":
        return Record(TaskSettled(task.id, "blocked", "budget", f"{detail}; extend it: see `planrunner gates`"))
    if short.scope == number or task.finally_:
        return Record(TaskSettled(task.id, "failed", "budget", detail, "budget"))
    if short.scope == state.tasks[number].frame.owner and is_another(state, number):
        task_state = state.tasks[number]
        if task_state.outcome is not None and (said := task_state.outcome.message):
            detail += f": no attempt {task_state.attempts - task_state.past + 1} after: {said}"
        return Record(TaskSettled(task.id, "failed", "budget", detail, "budget"))
    return stop(state, short, detail)


class Wanted(Struct):
    """A limit that tasks wait for people to extend: of the task ``scope`` (empty: the plan), for ``what``. One of
    ``tasks`` (paths) continues with ``least`` more and all of them with ``more`` (time: with any more, which is 0
    here); seconds, dollars or counts. ``ask`` is the sentence for people."""

    scope: str
    what: str
    least: float
    more: float
    limit: float
    ask: str
    tasks: tuple[str, ...]

    @property
    def name(self) -> str:
        """What people call it: ``budget``, or ``TASK/budget``."""
        return f"{self.scope}/budget" if self.scope else "budget"


def wanted(state: State, now: float) -> list[Wanted]:
    """Every limit that people are asked about; one that was extended or refused since is not among them."""
    limits: dict[tuple[int, str], Wanted] = {}
    for number, task in enumerate(state.tasks):
        if task.status != "blocked" or task.reason != "budget":
            continue
        spends = need(state, number)
        if isinstance(spends, str):
            continue
        short = time_short(state, number, now) or room(state, number, spends)
        if short is None or not short.final or (short.scope, short.what) in read_ledger(state).refused:
            continue
        name, key = state.specs[number].id, (short.scope, short.what)
        timed = short.what == "time"
        least = 0.0 if timed else amount(short.what, int(short.need - short.left))
        limit = short.limit if timed else amount(short.what, int(short.limit))
        one = Wanted(scope_name(state, short.scope), short.what, least, least, limit, sentence(state, short), (name,))
        before = limits.get(key)
        if before is not None:
            whole = 0.0 if timed else amount(short.what, int(short.need))
            one = before._replace(least=min(before.least, least), more=before.more + whole, tasks=(*before.tasks, name))
        limits[key] = one
    return list(limits.values())


def refusal(state: State, body: Mapping[str, Json], by: str) -> tuple[BudgetRefused, ...] | str:
    """The events by which a person adds nothing to what tasks wait for, or why there is nothing to refuse. ``refuse``
    lists what (time, cost …), ``scope`` is a task, empty for the plan."""
    scope = str(body.get("scope", ""))
    waiting = {each.what for each in wanted(state, state.active_since or 0.0) if each.scope == scope}
    asked = [str(what) for what in body["refuse"]]
    missing = [what for what in asked if what not in waiting]
    if missing or not asked:
        where = f"`{scope}`" if scope else "the plan"
        return f"no task waits for more {' or '.join(missing) or 'of a budget'} of {where}"
    return tuple(BudgetRefused(scope, what, by, str(body.get("reason", ""))) for what in asked)


def still_short(state: State, scope: str, added: Mapping[str, float]) -> str:
    """What is missing after an extension that lets none of those who wait go on; empty where one of them can."""
    for each in wanted(state, state.active_since or 0.0):
        missing = each.least - added.get(each.what, 0.0)
        if each.scope == scope and each.what in added and each.what != "time" and missing > 0:
            return f"{shown(each.what, units(each.what, missing) or 0)} more {each.what} is needed"
    return ""


# Folds


def budget_refused(state: State, event: BudgetRefused, at: float) -> None:
    why = f"refused by {event.by}" if event.by else "refused"
    key = scope_number(state, event.scope), event.what
    ledger_of(state).refused[key] = f"{why}: {event.comment}" if event.comment else why
    for number, task_state in enumerate(state.tasks):
        if task_state.status == "blocked" and task_state.reason == "budget":
            state.candidates[number] = None


_NO_VERDICT = ("interrupted", "unstarted", "cancelled")


def watches(pattern: str, name: str) -> bool:
    """Whether the name of a capability fits a pattern in which ``*`` stands for anything."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    if not name.startswith(first) or not name.endswith(rest[-1]) or len(name) < len(first) + len(rest[-1]):
        return False
    at, end = len(first), len(name) - len(rest[-1])
    for part in rest[:-1]:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _watching(state: State, number: int) -> Iterator[tuple[Breaker, Circuit]]:
    uses = state.specs[number].uses
    for at, breaker in enumerate(state.plan.breakers):
        if uses and watches(breaker.uses, uses):
            yield breaker, state.circuits.setdefault(at, Circuit())


def attempt_started(state: State, event: AttemptStarted, at: float) -> None:
    """An attempt begins: behind an open breaker it is the one that tries."""
    number = state.index[event.task]
    for _, circuit in _watching(state, number):
        circuit.waiting.pop(number, None)
        if circuit.since is not None:
            circuit.trial = number


def attempt_ended(state: State, event: AttemptEnded, at: float) -> None:
    """Count failures in a row; a success closes the circuit."""
    number, outcome = state.index[event.task], event.outcome
    if outcome.failure in _NO_VERDICT:
        return
    for breaker, circuit in _watching(state, number):
        if not outcome.failure:
            circuit.failures, circuit.since = 0, None
            for waiting in circuit.waiting:
                if state.tasks[waiting].status == "pending" and state.tasks[waiting].reason == "breaker":
                    state.wheel.set(at, waiting)
            circuit.waiting.clear()
        else:
            circuit.failures += 1
            if circuit.failures >= breaker.failures and (circuit.since is None or circuit.trial == number):
                circuit.since = at
        if circuit.trial == number:
            circuit.trial = -1


def held_back(state: State, commands: Sequence[Command], now: float) -> list[Command]:
    """The commands, with a delay in place of each start that an open breaker does not let through."""
    trying: set[int] = set()
    return [
        (_delayed(state, command, now, trying) or command) if isinstance(command, Start) else command
        for command in commands
    ]


def _delayed(state: State, start: Start, now: float, trying: set[int]) -> Record | None:
    if start.reissue:
        return None
    for breaker, circuit in _watching(state, start.number):
        if circuit.since is None:
            continue
        until = circuit.since + breaker.cooldown
        others = id(circuit) in trying or _is_tried(state, circuit)
        if now >= until and not others:
            trying.add(id(circuit))
            continue
        detail = f"`{breaker.uses}` failed {circuit.failures} times in a row"
        detail += ": another task tries first" if now >= until else f": nothing of it starts for {breaker.cooldown:g} s"
        due = until if now < until else now + breaker.cooldown
        return Record(TaskDelayed(state.specs[start.number].id, due, breaker.uses, detail))
    return None


def _is_tried(state: State, circuit: Circuit) -> bool:
    if circuit.trial < 0:
        return False
    task_state = state.tasks[circuit.trial]
    return task_state.status == "running" and task_state.outcome is None


def task_delayed(state: State, event: TaskDelayed, at: float) -> None:
    number = state.index[event.task]
    task_state, task = state.tasks[number], state.specs[number]
    if task_state.status == "queued":
        state.queue.remove(state.limited_labels(task), task.priority, number)
        move(state, number, task_state, "pending")
    task_state.reason, task_state.detail = "breaker" if event.breaker else "delay", event.detail
    state.candidates.pop(number, None)
    state.wheel.set(event.due, number)
    for breaker, circuit in _watching(state, number):
        if breaker.uses == event.breaker:
            circuit.waiting[number] = None


def plan_refused(state: State, event: PlanRefused, at: float) -> None:
    raise IllegalMove(f"`{event.plan}` was not let start: no run has an event that says so")
