"""Budgets: whether an attempt fits into every limit around it, and what follows where it does not.

An attempt sets aside what it may spend at most in the same transaction that says it begins, and settles what it used
when it ends. An attempt waits while what others have set aside may still come back to it; it can never start when even
all of that would not be enough, and then ``on_exhausted`` of the limit says what follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from planrunner.frozen import EMPTY
from planrunner.jsontext import shown as as_json
from planrunner.machine.commands import (
    Close,
    Command,
    Record,
)
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    BudgetExtended,
    BudgetWarned,
    FrameClosing,
    StopRequested,
    TaskSettled,
    UndoEnded,
    UndoStarted,
)
from planrunner.machine.graph import Rollback
from planrunner.machine.ledger import COUNTED, PLAN, ROLLBACK, SPENDABLE, Ledger, Scope, amount, units
from planrunner.machine.names import agent_of
from planrunner.machine.state import State, Trait
from planrunner.machine.statuses import SETTLED
from planrunner.plan.agents import REFLECTION
from planrunner.plan.model import ANY, Budgets, Task
from planrunner.plan.tasks import tells_usage
from planrunner.records import Struct

Json = Any

REST = "rest"
"""Among what a capability spends: it sends more requests than anybody knows before, so it sets aside all calls that are
left where nothing is said."""

REPAIRS = "repairs"
"""Among what a capability spends: it asks again where an answer does not fit, and sets a call aside for each time, as
far as there are some left; with ``:NAME`` where it is given that input alone."""
_REPAIRS = 2
"""How often it asks again where its input ``repairs`` says nothing."""


MAX_DEPTH = 32
"""Levels of tasks inside tasks where no budget sets another limit."""

_CUT_OFF = frozenset({"interrupted", "unstarted"})
_LEAST = {"cost": 10_000_000, "tokens": 1}
"""What people are told has to be left before something starts that sets nothing aside: a cent, a token."""
_TOLD = ("cost", "tokens")
"""What an attempt may tell that it used without having set any aside; of calls each is set aside before it goes out."""
_ASKS_AGAIN = 2
"""The calls of a reflection, which asks once more after an answer that cannot be read."""
_UNKNOWN = Trait()


class Shortage(Struct):
    """The limit that an attempt does not fit into: of which scope (``PLAN`` or a task) and what, how much it needs and
    how much is left. ``final`` is False while it may fit once others have given back what they do not use;
    ``unpriced`` is one whose spending is unknown."""

    scope: int
    what: str
    need: float
    left: float
    limit: float
    final: bool = True
    unpriced: bool = False


# Scopes


def chain(state: State, number: int) -> list[int]:
    """A task, the tasks around it and the plan: every scope that what it spends counts in."""
    scopes = []
    while number >= 0:
        scopes.append(number)
        number = state.tasks[number].frame.owner
    scopes.append(number)
    return scopes


def ledger_of(state: State) -> Ledger:
    """The ledger of a run, begun with what first belongs into one."""
    if state.ledger is None:
        return state.begin_ledger()
    return state.ledger


def read_ledger(state: State) -> Ledger:
    """The ledger of a run, to be looked at only: a decision begins none."""
    return state.ledger or _EMPTY


_EMPTY = Ledger()


def scope_of(state: State, number: int) -> Scope | None:
    """The limits of the plan or of a task with everything inside it; None without any."""
    return _scope(_budgets(state, number))


def _budgets(state: State, number: int) -> tuple[Budgets, ...]:
    if number == PLAN:
        return (state.plan.budgets,)
    if number <= ROLLBACK:
        policy = state.plan.rollback  # what a first rollback of the run would have
        if number < ROLLBACK and state.compensation_log is not None:
            policy = state.compensation_log.rollbacks[ROLLBACK - number - 1].policy
        return () if policy is None else (policy.budgets,)
    task = state.specs[number]
    return (task.budgets,) if task.sub is None else (task.budgets, task.sub.budgets)


@lru_cache
def _scope(budgets: tuple[Budgets, ...]) -> Scope | None:
    """The tightest of limits that hold for the same; what is said first decides what follows."""
    limits: dict[str, int] = {}
    time = warn = None
    on_exhausted = ""
    for each in budgets:
        for what in COUNTED:
            limit = units(what, getattr(each, what))
            if limit is not None:
                limits[what] = min(limit, limits.get(what, limit))
        if each.time is not None:
            time = each.time if time is None else min(time, each.time)
        warn = each.warn if warn is None else warn
        on_exhausted = on_exhausted or each.on_exhausted
    if not limits and time is None:
        return None
    return Scope(limits, time, warn, on_exhausted or "stop")


def limit_of(state: State, scope: int, what: str) -> int | None:
    """The limit of a scope for what is counted, with what people have added."""
    limits = scope_of(state, scope)
    limit = limits.limits.get(what) if limits is not None else None
    return None if limit is None else limit + int(read_ledger(state).extra.get((scope, what), 0))


def time_limit(state: State) -> float | None:
    """Seconds that runners may act on the run, with what people have added."""
    limit = state.plan.budgets.time
    if limit is None or state.ledger is None:
        return limit
    return limit + state.ledger.extra.get((PLAN, "time"), 0.0)


# What an attempt needs


def need(state: State, number: int) -> dict[str, int] | str:
    """What the next attempt of a task sets aside, in whole numbers; or what it may spend without a limit though one
    holds for it, which has no bound.

    The task's own budgets bound all its attempts together. An attempt of an item of a fan-out may use an equal share of
    that of the fan-out, one that tries it again what is left where that is less. A judge of the task comes after it and
    keeps its part, where there is more than that.
    """
    task, ledger = state.specs[number], read_ledger(state)
    spends = state.trait(task).spends
    amounts: dict[str, int] = {}
    for what in SPENDABLE:
        if not _may_spend(state, number, what):
            continue
        own, left = _own(state, number, what)
        if own is None and (agent := agent_of(state, number)) is not None:
            own, left = _own(state, agent, what)
        if own is None and what in _TOLD and is_reflection(state, number):
            own = left = _part(state, number, what)
        if own is not None and left is not None:
            kept = _judgement(state, task, what)
            amounts[what] = (left - kept if left > kept else left) if left > 0 else int(own > 0)
        elif what in spends:
            if what == "calls":  # all that are left around it and not reserved; one without a limit
                most = _ASKS_AGAIN if is_reflection(state, number) else _most_calls(task, spends)
                calls = {scope: limit_of(state, scope, what) for scope in chain(state, number) if most > 1}
                free = [limit - ledger.read(scope).taken(what) for scope, limit in calls.items() if limit is not None]
                amounts[what] = int(max(min(*free, most), 1)) if free else 1
            elif is_limited(state, number, what):
                return what
    return amounts


def _judgement(state: State, task: Task, what: str) -> int:
    """What of a limit of a task is left to the judge of its criteria in plain words."""
    if not state.environment.get("judge"):
        return 0
    in_words = any(each.expression is None for each in (*task.expect, *task.postconditions))
    return (units(what, (state.environment.get("judging") or {}).get(what)) or 0) if in_words else 0


def _most_calls(task: Task, spends: tuple[str, ...]) -> float:
    """The most calls that an attempt sets aside where its task says nothing."""
    if REST in spends:
        return math.inf
    inputs = task.inputs if isinstance(task.inputs, dict) else {}
    needed = next((word.partition(":")[2] for word in spends if word.partition(":")[0] == REPAIRS), None)
    if needed is None or (needed and needed not in inputs):
        return 1
    said = inputs.get("repairs", _REPAIRS)
    return 1 + (said if type(said) is int and said >= 0 else _REPAIRS)


def is_reflection(state: State, number: int) -> bool:
    """Whether a task looks back on another, or on the run: nothing else stops where a limit leaves nothing for it."""
    return REFLECTION in (state.specs[number].notes or {})


def _part(state: State, number: int, what: str) -> int | None:
    """What a reflection may use where nothing is said: a tenth of the tightest limit around it."""
    limits = [limit for scope in chain(state, number) if (limit := limit_of(state, scope, what)) is not None]
    return max(min(limits) // 10, min(*limits, 1)) if limits else None


def _own(state: State, number: int, what: str) -> tuple[int | None, int | None]:
    """The limit of a task itself, or its share of that of the fan-out that it is an item of, and what is left of it."""
    own = limit_of(state, number, what)
    if own is None:
        own = _share(state, number, what)
        if own is None or state.tasks[number].inner is None:
            return own, own
    account = read_ledger(state).accounts.get(number)
    return own, own - (account.spent.get(what, 0) if account is not None else 0)


def _may_spend(state: State, number: int, what: str) -> bool:
    """Whether an attempt sets any of what is counted aside: its capability declares it, an earlier attempt told of it,
    or it does whatever the plan says, as a script does, and the task itself has budgets or its text says that it tells.
    What all tasks have by default is not set aside for scripts that tell nothing."""
    task, account = state.specs[number], read_ledger(state).accounts.get(number)
    if what in state.trait(task).spends or (account is not None and account.spent.get(what)):
        return True
    if not _does_anything(state, task.uses):
        return False
    return any(name == "budgets" for name, _ in task.spans) or tells_usage(task)


def _does_anything(state: State, uses: str) -> bool:
    """Whether a capability does whatever the plan says, as a script does."""
    trait = state.traits.get(uses, _UNKNOWN)
    return trait.effect == "unsafe" and not trait.instant


def _may_tell(state: State, uses: str, what: str) -> bool:
    """Whether an attempt may tell that it used some of what is counted, whether or not it sets any aside."""
    spends = state.traits.get(uses, _UNKNOWN).spends
    return what in spends or ANY in spends or (not spends and _does_anything(state, uses))


def _share(state: State, number: int, what: str) -> int | None:
    frame = state.tasks[number].frame
    whole = limit_of(state, frame.owner, what) if frame.kind == "items" else None
    if not whole:
        return whole
    share = max(whole // frame.size, 1)
    if is_another(state, number):
        share = max(min(share, whole - read_ledger(state).read(frame.owner).spent.get(what, 0)), 1)
    return share


def is_another(state: State, number: int) -> bool:
    """Whether an attempt of an item would try it again after one that failed."""
    task_state = state.tasks[number]
    return task_state.frame.kind == "items" and task_state.attempts > task_state.past and not task_state.uncertain


def fits(
    state: State, number: int, wanted: Mapping[str, int], claims: Mapping[tuple[int, str], int] = EMPTY
) -> Shortage | None:
    """The first limit, from the task outwards, into which an attempt that sets ``wanted`` aside does not fit; None when
    it fits everywhere. ``claims`` are amounts that others come first for."""
    ledger = read_ledger(state)
    passing = None
    for scope in chain(state, number):
        limits = scope_of(state, scope)
        if limits is None:
            continue
        account = ledger.read(scope)
        for what in limits.limits:
            more = wanted.get(what, 0)
            if not more:
                continue
            limit = limit_of(state, scope, what)
            assert limit is not None
            left = limit - account.spent.get(what, 0)
            if more > left:
                return Shortage(scope, what, more, left, limit)
            if passing is None and more > left - account.reserved.get(what, 0) - claims.get((scope, what), 0):
                passing = Shortage(scope, what, more, left, limit, final=False)
    return passing


def room(
    state: State, number: int, wanted: Mapping[str, int], claims: Mapping[tuple[int, str], int] = EMPTY
) -> Shortage | None:
    """The limit that keeps the next attempt of a task, which sets ``wanted`` aside, from starting; None where there is
    none. A limit of cost or tokens that is used up keeps out whatever may spend, also what sets nothing aside."""
    short = fits(state, number, {**wanted, "attempts": 1}, claims)
    if short is not None and short.final:
        return short
    return used_up(state, number, wanted) or short


def used_up(state: State, number: int, wanted: Mapping[str, int] = EMPTY) -> Shortage | None:
    """The first limit, from the task outwards, of which nothing is left for an attempt that sets none of it aside
    (``wanted``) and may spend it all the same. Limits around what is under ``finally`` do not keep it from starting."""
    ledger, task = read_ledger(state), state.specs[number]
    account = ledger.read(number)
    open_ended = [
        what
        for what in _TOLD
        if not wanted.get(what)
        and (account.spent.get(what) or (_may_tell(state, task.uses, what) and limit_of(state, number, what) != 0))
    ]
    for scope in chain(state, number) if open_ended else ():
        for what in open_ended:
            limit, spent = limit_of(state, scope, what), ledger.read(scope).spent.get(what, 0)
            if limit is not None and spent and spent >= limit:
                return Shortage(scope, what, _LEAST[what], limit - spent, limit)
        if scope >= 0 and state.specs[scope].finally_:
            break
    return None


# Folds


def attempt_started(state: State, event: AttemptStarted, at: float) -> None:
    """An attempt that acts begins: it counts, and what it may spend is set aside."""
    number = state.index[event.task]
    if number in state.containers or (state.ledger is None and not event.reserved):
        return
    ledger = ledger_of(state)
    scopes = chain(state, number)
    if not event.reissue and not state.specs[number].concluding:
        ledger.count(scopes, "attempts")
    amounts = {what: units(what, given) or 0 for what, given in event.reserved.items() if what in SPENDABLE}
    ledger.reserve(scopes, number, amounts)
    _cross(state, scopes)


def attempt_ended(state: State, event: AttemptEnded, at: float) -> None:
    """What an attempt used is settled; one that was cut off keeps what it has set aside for when it goes on."""
    number = state.index[event.task]
    if number in state.containers or (state.ledger is None and not event.outcome.usage):
        return
    ledger = ledger_of(state)
    scopes = chain(state, number)
    ledger.account(number).seconds += max(0.0, event.outcome.duration)
    if event.outcome.failure in _CUT_OFF:
        ledger.draw(scopes, number, event.outcome.usage)
    else:
        ledger.settle(scopes, number, event.outcome.usage)
    ledger.over = [each for each in ledger.over if is_limited(state, each.number, each.what)]
    _cross(state, scopes)


def is_limited(state: State, number: int, what: str) -> bool:
    """Whether the task or anything around it, up to the plan, has a limit for what is counted."""
    return any(limit_of(state, scope, what) is not None for scope in chain(state, number))


def task_settled(state: State, event: TaskSettled, at: float) -> None:
    if state.ledger is not None and event.status in SETTLED:
        given_up(state, state.index[event.task])


def given_up(state: State, number: int) -> None:
    """What an attempt used stays unknown: all it had set aside counts as spent."""
    ledger = ledger_of(state)
    if number in ledger.holdings:
        scopes = chain(state, number)
        ledger.settle(scopes, number, {})
        _cross(state, scopes)


def went_round(state: State, number: int) -> None:
    """A loop goes into a round."""
    scopes = chain(state, number)
    ledger_of(state).count(scopes, "iterations")
    _cross(state, scopes)


def _cross(state: State, scopes: Iterable[int]) -> None:
    """Remember the limits of which so much is spent that people want to be warned."""
    ledger = ledger_of(state)
    for number in scopes:
        scope = scope_of(state, number)
        if scope is None or scope.warn is None:
            continue
        account = ledger.read(number)
        for what in scope.limits:
            limit = limit_of(state, number, what) or 0
            if what not in account.warned and account.spent.get(what, 0) >= scope.warn * limit:
                ledger.crossed[number, what] = None


def budget_warned(state: State, event: BudgetWarned, at: float) -> None:
    ledger = ledger_of(state)
    number = scope_number(state, event.scope)
    if event.reason == "overshoot":
        del ledger.over[0]
    else:
        ledger.crossed.pop((number, event.what), None)
        ledger.account(number).warned.add(event.what)


def budget_extended(state: State, event: BudgetExtended, at: float) -> None:
    ledger = ledger_of(state)
    number = scope_number(state, event.scope)
    added = event.amount if event.what == "time" else units(event.what, event.amount) or 0
    ledger.extra[number, event.what] = ledger.extra.get((number, event.what), 0) + added
    ledger.refused.pop((number, event.what), None)
    for other, task_state in enumerate(state.tasks):
        if task_state.status in ("queued", "pending") or (
            task_state.status == "blocked" and task_state.reason == "budget"
        ):
            state.candidates[other] = None


def scope_number(state: State, name: str) -> int:
    """The number of a scope by the name events give it: a task, or empty for the plan. Raises KeyError."""
    return state.index[name] if name else PLAN


def scope_name(state: State, number: int) -> str:
    return state.specs[number].id if number >= 0 else ""


def budget_state(state: State, number: int = PLAN) -> dict[str, dict[str, float | None]]:
    """What a scope has used, has set aside and may use, in dollars, seconds and counts, for whatever is limited or was
    spent. Time and attempts of the whole run are the caller's to add."""
    scope = scope_of(state, number)
    account = read_ledger(state).read(number)
    amounts: dict[str, dict[str, float | None]] = {}
    for what in COUNTED:
        limit = limit_of(state, number, what)
        if limit is not None or account.taken(what):
            amounts[what] = {
                "used": amount(what, account.spent.get(what, 0)),
                "reserved": amount(what, account.reserved.get(what, 0)),
                "limit": None if limit is None else amount(what, limit),
            }
    if scope is not None and scope.time is not None and number >= 0:
        amounts["time"] = {"used": round(account.seconds, 3), "limit": scope.time}
    return amounts


def has_room(state: State, number: int) -> bool:
    """Whether another attempt of a task fits into what is left of the limits around it."""
    if state.ledger is None:
        return True
    wanted = need(state, number)
    short = None if isinstance(wanted, str) else room(state, number, wanted)
    return short is None or not short.final


def waits_for(state: State, number: int) -> str:
    """Which budget a ready task waits for, with what it needs; empty for one that waits for something else."""
    wanted = need(state, number)
    short = None if isinstance(wanted, str) else room(state, number, wanted)
    if short is None:
        return ""
    reserved = read_ledger(state).read(short.scope).reserved.get(short.what, 0)
    return f"{sentence(state, short)}, of which {shown(short.what, reserved)} is set aside by what runs"


def extension(state: State, body: Mapping[str, Json], by: str) -> tuple[BudgetExtended, ...] | str:
    """The events that add to limits, or why it cannot be done. ``add`` maps what (time in seconds, cost in dollars …)
    to how much, ``scope`` is a task, empty for the plan."""
    scope, comment = str(body.get("scope", "")), str(body.get("reason", ""))
    if scope and scope not in state.index:
        return f"the run has no task `{scope}`"
    number = scope_number(state, scope)
    where = f"`{scope}`" if scope else "the plan"
    events = []
    for what, more in body["add"].items():
        if (what not in COUNTED and what != "time") or units(what, more) is None or not more:
            return f"`{what}` cannot be extended by {as_json(more)}"
        has_limit = state.plan.budgets.time if what == "time" and not scope else limit_of(state, number, what)
        if has_limit is None:
            return f"{where} has no limit for {what} that could be extended"
        events.append(BudgetExtended(scope, what, more, by, comment))
    return tuple(events) or "nothing is to be added"


# Decisions


def notices(state: State, now: float) -> list[Command]:
    """The warnings that are due."""
    ledger = state.ledger
    assert ledger is not None
    commands: list[Command] = []
    for over in ledger.over:
        task = state.specs[over.number].id
        given = amount(over.what, over.used), amount(over.what, over.reserved)
        commands.append(Record(BudgetWarned(task, over.what, *given, "overshoot")))
    for number, what in ledger.crossed:
        spent = amount(what, ledger.read(number).spent.get(what, 0))
        limit = amount(what, limit_of(state, number, what) or 0)
        commands.append(Record(BudgetWarned(scope_name(state, number), what, spent, limit)))
    at = warning_time(state)
    if at is not None and state.spent_time(now) >= at:
        commands.append(Record(BudgetWarned("", "time", round(state.spent_time(now), 3), time_limit(state) or 0.0)))
    return commands


def next_round(state: State, number: int) -> Command | None:
    """Why a loop does not go into another round; None when it may."""
    short = fits(state, number, {"iterations": 1})
    if short is None:
        return None
    around = (state.tasks[scope].inner for scope in chain(state, number)[:-1])
    if short.scope == number or state.stop_reason or any(frame is not None and frame.closing for frame in around):
        return Close(number, "budget", sentence(state, short))
    return stop(state, short, sentence(state, short))


def stop(state: State, short: Shortage, why: str) -> Command:
    """Nothing new starts inside the scope of a limit; what runs may end."""
    if short.scope == PLAN:
        return Record(StopRequested("budget", "", why))
    return Record(FrameClosing(state.specs[short.scope].id, "budget", why))


def warning_time(state: State) -> float | None:
    """Seconds of the run at which people want to be warned about its time; None when they need not be any more."""
    limit, warn = time_limit(state), state.plan.budgets.warn
    if limit is None or warn is None or state.ledger is None or "time" in state.ledger.read(PLAN).warned:
        return None
    return warn * limit


def too_deep(state: State, number: int) -> str:
    """Why a task may not open another level; empty when it may."""
    scopes = chain(state, number)
    for level, scope in enumerate(scopes, 1):
        limits = [each.depth for each in _budgets(state, scope) if each.depth is not None]
        limit = min(limits) if limits else MAX_DEPTH if scope == PLAN else level
        level -= scope == PLAN
        if level > limit:
            where = f"`{state.specs[scope].id}`" if scope >= 0 else "the plan"
            return f"it would open level {level} inside {where}, which may have {limit}"
    return ""


def sentence(state: State, short: Shortage) -> str:
    """A limit that is used up, for people."""
    where = f"`{state.specs[short.scope].id}`" if short.scope >= 0 else "the plan"
    what = short.what
    if what == "time":
        return f"the time budget of {where} ({short.limit:g} s) is used up"
    if short.left <= 0:
        return f"the {what} budget of {where} ({shown(what, short.limit)}) is used up"
    needed, left, limit = (shown(what, value) for value in (short.need, short.left, short.limit))
    return f"the {what} budget of {where} is too small: {needed} needed, {left} left of {limit}"


def shown(what: str, number: float) -> str:
    """An amount for people: ``$0.25``, ``1200``."""
    if what != "cost":
        return f"{number:g}" if number != int(number) else str(int(number))
    dollars = amount(what, int(number))
    text = f"{dollars:.9f}".rstrip("0")
    whole, _, part = text.partition(".")
    return f"${whole}" if not part else f"${whole}.{part.ljust(2, '0')}"


_NOTHING_RESERVED = Budgets()
_UNDO_CUT_OFF = ("interrupted", "unstarted", "cancelled")


def rollback_budgets(rollback: Rollback) -> Budgets:
    """What is reserved for a rollback."""
    return _NOTHING_RESERVED if rollback.policy is None else rollback.policy.budgets


def _left_for_rollback(state: State, rollback: Rollback, what: str) -> int | None:
    """What of its reserve a rollback has neither spent nor set aside, in whole numbers; None where it has no limit."""
    limit = units(what, getattr(rollback_budgets(rollback), what))
    if limit is None or state.ledger is None:
        return limit
    return limit - state.ledger.read(rollback.account).taken(what)


def _undo_spends(state: State, position: int) -> tuple[str, ...]:
    """What the capability spends that undoes a position."""
    assert state.compensation_log is not None
    step = state.compensation_log.steps[position]
    action = (step.task or state.specs[step.number]).rollback
    trait = state.traits.get(action.uses) if action is not None and step.kind == "action" else None
    return tuple(what for what in trait.spends if what in SPENDABLE) if trait is not None else ()


def rollback_short_of(state: State, rollback: Rollback, position: int) -> str:
    """What of the reserve is used up that another attempt to undo ``position`` needs; empty where it has it all."""
    if rollback_budgets(rollback) == _NOTHING_RESERVED:
        return ""
    for what in ("attempts", *_undo_spends(state, position)):
        rest = _left_for_rollback(state, rollback, what)
        if rest is not None and rest <= 0:
            return what
    for what in _TOLD:
        rest = _left_for_rollback(state, rollback, what)
        if rest is not None and rest <= 0 and _undo_may_tell(state, position, what):
            return what
    return ""


def _undo_may_tell(state: State, position: int, what: str) -> bool:
    assert state.compensation_log is not None
    step = state.compensation_log.steps[position]
    action = (step.task or state.specs[step.number]).rollback
    return action is not None and step.kind == "action" and _may_tell(state, action.uses, what)


def undo_share(state: State, rollback: Rollback, position: int) -> dict[str, Json]:
    """What the next attempt to undo ``position`` sets aside."""
    amounts: dict[str, Json] = {}
    for what in _undo_spends(state, position) if rollback_budgets(rollback) != _NOTHING_RESERVED else ():
        rest = _left_for_rollback(state, rollback, what)
        if rest:
            others = sum(what in _undo_spends(state, at) for at in rollback.todo)
            amounts[what] = amount(what, 1 if what == "calls" else max(rest // max(others, 1), 1))
    return amounts


def undo_reserved(state: State, position: int) -> dict[str, Json]:
    """What an attempt has set aside that was cut off and goes on."""
    holding = state.ledger.holdings.get(~position, {}) if state.ledger is not None else {}
    return {what: amount(what, more) for what, more in holding.items() if more}


def undo_started(state: State, event: UndoStarted) -> None:
    """An undo begins: it counts, and what it may spend is set aside."""
    assert state.compensation_log is not None
    rollback = state.compensation_log.under[event.owed]
    if state.ledger is None and rollback_budgets(rollback) == _NOTHING_RESERVED:
        return
    ledger = ledger_of(state)
    if not event.reissue:
        ledger.count([rollback.account], "attempts")
    amounts = {what: units(what, given) or 0 for what, given in event.reserved.items()}
    ledger.reserve([rollback.account], ~event.owed, amounts)


def undo_ended(state: State, position: int, event: UndoEnded) -> None:
    """What an undo used is settled; one that was cut off keeps what it has set aside for when it goes on."""
    assert state.compensation_log is not None
    ledger, rollback = ledger_of(state), state.compensation_log.under[position]
    if event.outcome.failure in _UNDO_CUT_OFF:
        ledger.draw([rollback.account], ~position, event.outcome.usage)
    else:
        ledger.settle([rollback.account], ~position, event.outcome.usage)
    number = state.compensation_log.steps[position].number
    known = [
        each
        for each in ledger.over
        if each.number != ~position or _left_for_rollback(state, rollback, each.what) is not None
    ]
    ledger.over = [each._replace(number=number) if each.number == ~position else each for each in known]


def undo_given_up(state: State, position: int) -> None:
    """What an undo used stays unknown: all it had set aside counts as spent."""
    if state.ledger is not None and state.compensation_log is not None:
        state.ledger.settle([state.compensation_log.under[position].account], ~position, {})


def rollback_amounts(state: State) -> list[tuple[str, dict[str, dict[str, float | None]]]]:
    """What each rollback used, has set aside and may use, by the task that links the plan which is undone (empty: the
    run); for a run that was not rolled back what is reserved for that."""
    rollbacks = [] if state.compensation_log is None else list(state.compensation_log.rollbacks)
    if state.plan.rollback is not None and all(each.owner >= 0 for each in rollbacks):
        rollbacks.append(Rollback())
        rollbacks[-1].policy, rollbacks[-1].account = state.plan.rollback, ROLLBACK
    return [
        (state.specs[each.owner].id if each.owner >= 0 else "", amounts)
        for each in rollbacks
        if (amounts := _amounts_of_rollback(state, each))
    ]


def _amounts_of_rollback(state: State, rollback: Rollback) -> dict[str, dict[str, float | None]]:
    reserved = rollback_budgets(rollback)
    amounts: dict[str, dict[str, float | None]] = {}
    if reserved.time is not None:
        used = 0.0 if rollback.ended is None else rollback.ended - rollback.began
        amounts["time"] = {"used": round(used, 3), "limit": reserved.time}
    if state.ledger is not None:
        return amounts | budget_state(state, rollback.account)
    limits = {what: getattr(reserved, what) for what in COUNTED if getattr(reserved, what) is not None}
    return amounts | {what: {"used": 0, "reserved": 0, "limit": limit} for what, limit in limits.items()}
