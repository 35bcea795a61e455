"""``decide``: from the state to what should happen next. Pure; the order of policies and nothing else."""

from __future__ import annotations

from planrunner.machine.commands import AskFacts, AskPeople, End, Record, Start
from planrunner.machine.events import FailureResolved, RetryScheduled, RunParked, StopRequested, TaskQueued, TaskSettled
from planrunner.machine.evolve import CUT_OFF
from planrunner.machine.joins import needs_verdict
from planrunner.machine.judge import judge, unmet
from planrunner.machine.moves import main_part_done
from planrunner.machine.scope import TaskScope, facts_read
from planrunner.machine.state import State
from planrunner.machine.statuses import FINAL_STOPS, SETTLED, IllegalMove
from planrunner.plan.expressions.conditions import EvaluationError, truth
from planrunner.plan.model import Task
from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planrunner.machine.commands import Command
    from planrunner.machine.events import TaskStatus
    from planrunner.machine.fitting import Fitting
    from planrunner.machine.frame import Frame
    from planrunner.machine.undoing import Debts

INSTANT_BATCH = 2000
"""Instant tasks started by one decision at the most: bounds one transaction."""


_new = tuple.__new__
"""Makes a NamedTuple in half the time of its constructor: every task is started once and settled once."""


class Decision(NamedTuple):
    """What follows from a state. ``left`` are candidates that were not looked at, since the batch was full."""

    commands: list[Command]
    left: tuple[int, ...] = ()


_NOTHING = Decision([])


def decide(state: State, now: float) -> Decision:
    """The commands that follow from the state at ``now`` (seconds since 1970); the same state gives the same commands.

    No commands means: wait for something to happen, or for the first of ``state.timers``.
    """
    if state.ended_at is not None:
        return _NOTHING
    if _out_of_time(state, now):
        return Decision([Record(StopRequested("deadline"))], tuple(state.candidates))
    if (state.alarms is not None or state.ledger is not None) and (first := _first(state, now)):
        return Decision(first, tuple(state.candidates))
    commands: list[Command] = []
    ready: list[int] = []
    if state.resets:
        from planrunner.machine.rework import due  # late: few runs send anything back

        if records := due(state):
            return Decision(list(records), tuple(state.candidates))
    numbers = _due(state, now)
    for position, number in enumerate(numbers):
        if len(ready) >= INSTANT_BATCH:
            left = tuple(numbers[position:])
            break
        _look(state, number, now, commands, ready)
    else:
        left = ()
    if state.ledger is None:
        _admit(state, ready, commands)
    else:
        from planrunner.machine.fitting import Fitting  # late: few runs have limits

        fitting = Fitting(state, now)
        _admit(state, fitting.sift(ready, commands), commands, fitting)
    if state.saves:
        from planrunner.machine.rollback import saved_first  # late: few tasks name files to save

        commands = saved_first(state, commands)
    if state.plan.breakers:
        from planrunner.machine.breakers import held_back  # late: few plans have any

        commands = held_back(state, commands, now)
    if state.debts is not None or state.plan.on_failure == "rollback":
        from planrunner.machine import rollback  # late: few runs undo anything

        commands += rollback.step(state, now)
        if not commands and rollback.busy(state):
            return _NOTHING
    return Decision(commands or _finish(state), left)


def _first(state: State, now: float) -> list[Command]:
    """What comes before everything else: attempts that ran too long, and warnings about budgets."""
    found: list[Command] = []
    if state.alarms is not None and state.alarms.due:
        from planrunner.machine.watch import ring  # late: few tasks are looked after

        found += ring(state, now)
    if state.ledger is not None:
        from planrunner.machine.budgets import notices  # late: few runs have limits

        found += notices(state, now)
    return found


def _out_of_time(state: State, now: float) -> bool:
    due = _stop_time(state, now)
    return due is not None and due <= now


def _stop_time(state: State, now: float) -> float | None:
    """When the time of the plan is used up, at the pace of ``now``; None while nothing ends it."""
    plan = state.plan
    limit, deadline = plan.budgets.time, plan.deadline
    if (limit is None and deadline is None) or not state.open or state.stop_reason not in ("", "pause", "budget"):
        return None
    due = None if deadline is None else state.started_at + deadline
    if limit is None or plan.budgets.on_exhausted == "gate":
        return due
    if state.ledger is not None:
        from planrunner.machine.budgets import time_limit  # late, as above

        limit = time_limit(state) or limit
    spent = now + limit - state.spent_time(now)
    return spent if due is None else min(due, spent)


def next_time(state: State, now: float) -> float | None:
    """When something is to be decided though nothing happens; None: never."""
    found = [state.timers[0][0]] if state.timers else []
    if (due := _stop_time(state, now)) is not None:
        found.append(due)
    if state.alarms is not None and state.alarms.due:
        from planrunner.machine.watch import next_alarm  # late, as above

        if (due := next_alarm(state)) is not None:
            found.append(due)
    if state.ledger is not None:
        from planrunner.machine.budgets import warning_time  # late, as above

        if (due := warning_time(state)) is not None:
            found.append(now + due - state.spent_time(now))
    return min(found, default=None)


def _due(state: State, now: float) -> list[int]:
    numbers = set(state.candidates)
    for due, number in state.timers:
        if due > now:
            break
        numbers.add(number)
    return sorted(numbers)


def _look(state: State, number: int, now: float, commands: list[Command], ready: list[int]) -> None:
    """One candidate: what its status calls for."""
    found = state.tasks[number]
    command: Command | None = None
    if state.held and number in state.held and not (found.status == "running" and found.outcome is None):
        return
    if state.closing and found.status not in SETTLED and (why := _closed(state, number)):
        command = _in_closing(state, number, now, why)
    elif found.status == "running":
        command = _after_attempt(state, number, now)
    elif found.status in ("pending", "blocked"):
        command = _before_attempt(state, number, now, ready)
    elif found.status == "queued":
        command = _while_queued(state, number)
    elif found.status == "in_doubt" and not found.judged:
        command = _after_attempt(state, number, now)
    elif found.status == "in_doubt" and _is_given_up(state, number):
        command = _give_up(state, number)
    elif found.status == "in_doubt" and found.reason == "retry":
        ready.append(number)
    elif found.status == "in_doubt":
        command = _recover(state, number)
    elif number in state.recovering:
        command = _resolve(state, number)
    if command is not None:
        commands.append(command)


def _closed(state: State, number: int) -> str:
    """Why a frame around a task is being stopped; empty where none is."""
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        if frame.closing:
            return frame.closing
        frame = state.tasks[frame.owner].frame
    return ""


def _in_closing(state: State, number: int, now: float, why: str) -> Command | None:
    """What runs is stopped by the driver and ends as cancelled; whatever else is open is cancelled at once."""
    task, found = state.specs[number], state.tasks[number]
    under_way = number in state.holders or not found.uncertain
    well = found.outcome is None or not found.outcome.failure or why == "budget"
    if found.status == "running" and under_way and well:
        return _after_attempt(state, number, now)
    return _settle(task, "cancelled", "stopped", f"what it belongs to was stopped: {why}")


def _settle(task: Task, status: TaskStatus, reason: str, detail: str = "", failure: str = "") -> Record:
    return _new(Record, (_new(TaskSettled, (task.id, status, reason, detail, failure)),))


def _before_attempt(state: State, number: int, now: float, ready: list[int]) -> Command | None:
    task = state.specs[number]
    found = state.tasks[number]
    if state.stop_reason and not _outlives(state, number):
        return _stopped(state, task)
    frame = found.frame
    if found.gate is not None and not found.gate.is_behind:
        return _at_gate(state, number, now)
    if task.finally_ and (not main_part_done(state, frame) or _undoes_first(state, frame)):
        return None
    if found.due is not None:
        if found.due <= now:
            return _begin(state, number, ready)
        cut = _cut(state, number)
        return None if cut is None else _settle(task, "cancelled", "stopped", _stop_detail(state, cut))
    verdict, why = needs_verdict(state, number)
    if verdict != "unmet" and number in state.shape.routes_in:
        from planrunner.machine.routes import routes_verdict  # late: few plans have edges

        route, why_route = routes_verdict(state, number)
        if route != "met":
            verdict, why = route, why_route
    if verdict == "unmet":
        return _settle(task, "omitted", "join", why)
    if verdict == "waiting":
        return None
    if state.failing and (cut := _cut(state, number)) is not None:
        return _settle(task, "cancelled", "stopped", _stop_detail(state, cut))
    if frame.limit and number >= frame.limit:
        return None
    return _conditions(state, number, ready)


def _undoes_first(state: State, frame: Frame) -> bool:
    if frame is not state.top or (state.debts is None and state.plan.on_failure != "rollback"):
        return False
    from planrunner.machine.rollback import comes_first  # late, as above

    return comes_first(state)


def _at_gate(state: State, number: int, now: float) -> Command | None:
    """A task that asks people, or has their answer. Where its level fails, only work that is done still asks."""
    from planrunner.machine.gates import step  # late: few tasks ask anybody

    gate = state.tasks[number].gate
    assert gate is not None
    if state.failing and gate.stage != "criteria" and not gate.decision and (cut := _cut(state, number)) is not None:
        return _settle(state.specs[number], "cancelled", "stopped", _stop_detail(state, cut))
    return step(state, number, now)


def _cut(state: State, number: int) -> Frame | None:
    """The frame that is failing around a task that is neither a handler nor under ``finally`` there."""
    while number >= 0:
        if state.specs[number].finally_:
            return None
        frame = state.tasks[number].frame
        if frame.failing and number not in state.shape.tolerant:
            return frame
        number = frame.owner
    return None


def _stop_detail(state: State, frame: Frame) -> str:
    failed = ", ".join(f"`{state.specs[number].id}`" for number in frame.failures[:3])
    return f"not started: {failed} failed and the plan's `on_failure` is {frame.on_failure}"


def _outlives(state: State, number: int) -> bool:
    """What stands under ``finally`` comes after every stop that ends the run in order."""
    if state.stop_reason not in ("budget", "deadline", "rollback", "cancelled"):
        return False
    while number >= 0:
        if state.specs[number].finally_:
            return True
        number = state.tasks[number].frame.owner
    return False


def _stopped(state: State, task: Task, before: str = "") -> Command | None:
    """Nothing starts any more: a used-up budget and a cancelled run cancel for good, after a pause and an interruption
    the task is left for the resume."""
    if state.stop_reason == "deadline":
        return _settle(task, "cancelled", "budget", f"{before}{_late(state)}")
    if state.stop_reason == "budget":
        return _settle(task, "cancelled", "budget", before + state.stop_comment)
    if state.stop_reason in FINAL_STOPS:
        return _settle(task, "cancelled", state.stop_reason, before + stop_text(state))
    return None


def _late(state: State) -> str:
    limit = state.plan.budgets.time
    if limit is None or (state.active < limit and state.plan.deadline is not None and state.active_since is None):
        return "the deadline of the plan has passed"
    return "the time budget of the plan is used up"


def stop_text(state: State) -> str:
    """Who stopped the run and why, as a sentence."""
    words = {"pause": "paused", "rollback": "rolled back", "storage": "parked, its storage failed"}
    text = f"the run was {words.get(state.stop_reason, state.stop_reason)}"
    if state.stop_by:
        text += f" by {state.stop_by}"
    return f"{text}: {state.stop_comment}" if state.stop_comment else text


def _is_given_up(state: State, number: int) -> bool:
    """A cancelled run asks nobody what became of an attempt; a probe that is under way may still tell."""
    cancelled = state.stop_reason in ("rollback", "cancelled", "killed") and not _outlives(state, number)
    return cancelled and number not in state.asked


def _give_up(state: State, number: int) -> Command:
    found = state.tasks[number]
    detail = f"whether attempt {found.attempts} took effect is not known, and {stop_text(state)}"
    return _settle(state.specs[number], "cancelled", state.stop_reason, detail)


def _while_queued(state: State, number: int) -> Command | None:
    task = state.specs[number]
    if state.stop_reason and not _outlives(state, number):
        return _stopped(state, task)
    if state.failing and (cut := _cut(state, number)) is not None:
        return _settle(task, "cancelled", "stopped", _stop_detail(state, cut))
    return None


def _conditions(state: State, number: int, ready: list[int]) -> Command | None:
    """Needs and edges allow the task: ``when``, preconditions and what kind of work it is decide."""
    task = state.specs[number]
    found = state.tasks[number]
    if task.when is not None:
        try:
            if not truth(task.when.tree, TaskScope(state, number)):
                return _settle(task, "skipped", "when", f"`{task.when.text}` is false")
        except EvaluationError as error:
            return _settle(task, "failed", "when", f"`{task.when.text}` has no value: {error}", "logic")
    if task.preconditions:
        command = _preconditions(state, number)
        if command is not None or (found.facts is None and facts_read(task)):
            return command
    if task.labels and (state.plan.gated or found.frame.owner >= 0):
        from planrunner.machine.gates import demanded  # late, as above

        if stage := demanded(state, number):
            return AskPeople(number, stage)
    if task.gate is not None and number not in state.holders:
        return AskPeople(number, "gate")
    waits_for = None if number in state.holders else _by_hand(task)
    if waits_for:
        return None if found.status == "blocked" else _settle(task, "blocked", waits_for[0], waits_for[1])
    blocked = found.status == "blocked" and found.reason != "budget"
    return None if blocked else _begin(state, number, ready)


def _begin(state: State, number: int, ready: list[int]) -> Command | None:
    """A task that holds others begins at once; any other waits for a slot."""
    if state.specs[number].fresh is not None:
        from planrunner.machine.freshness import before  # late: few tasks tell when they are done already

        if number in state.asked:
            return None
        if command := before(state, number):
            return command
    if number in state.holders:
        from planrunner.machine.containers import begin  # late: many plans are flat

        return begin(state, number)
    ready.append(number)
    return None


def _preconditions(state: State, number: int) -> Command | None:
    task = state.specs[number]
    found = state.tasks[number]
    names = facts_read(task)
    if names and found.facts is None:
        return AskFacts(number, names)
    scope = TaskScope(state, number)
    words = []
    for criterion in task.preconditions:
        if criterion.expression is None:
            words.append(criterion.text)
            continue
        why = unmet(criterion, scope)
        if why:
            return _settle(task, "failed", "precondition", "precondition not met: " + why, "precondition")
    return AskPeople(number, "preconditions") if words and "preconditions" not in found.cleared else None


def _by_hand(task: Task) -> tuple[str, str] | None:
    """Why a task waits for somebody instead of starting."""
    if task.uses:
        return None
    if task.command:
        return "instruction", "nobody here carries out an instruction in plain words: " + task.command.strip()
    if task.steps or task.subplan:
        return "instruction", "its steps are in plain words and nobody here carries them out"
    return "instruction", "nothing says how to do it: no `uses`, `run` or `command`"


def _after_attempt(state: State, number: int, now: float) -> Command | None:
    task = state.specs[number]
    found = state.tasks[number]
    if found.outcome is None:
        if number in state.holders:
            from planrunner.machine.containers import step  # late: many plans are flat

            return step(state, number, now)
        if not found.uncertain:
            return None
        if _is_given_up(state, number):
            return _give_up(state, number)
        rests = state.stop_reason not in ("", "budget") and not _outlives(state, number)
        return None if rests else _recover(state, number)
    if found.outcome.failure in CUT_OFF:
        return _stopped(state, task, "stopped: ")
    if found.outcome.failure == "cancelled":
        return _settle(task, "cancelled", "stopped", found.outcome.message)
    verdict = judge(state, number)
    if not verdict.failure:
        if verdict.words and "criteria" not in found.cleared:
            asked = found.gate is not None and (found.gate.stage, found.gate.attempt) == ("criteria", found.attempts)
            return _at_gate(state, number, now) if asked else AskPeople(number, "criteria")
        return _settle(task, "completed", "")
    from planrunner.machine.retry import again, delay  # late: most attempts do what they should

    ends = state.stop_reason in FINAL_STOPS and not _outlives(state, number)
    ends = ends or (bool(state.closing) and _closed(state, number) == "budget")
    if not ends and again(task.retry, found.attempts - found.past, verdict.failure):
        key = f"{state.seed}:{task.id}:{found.attempts}"
        due = now + delay(task.retry, found.attempts - found.past, key)
        if task.timebox is None or _in_timebox(state, task, due):
            return Record(RetryScheduled(task.id, found.attempts, due, verdict.failure))
    if number in state.shape.reworks and not ends:
        from planrunner.machine.rework import by_edge  # late, as above

        if back := by_edge(state, number, verdict.detail):
            return back
    return _settle(task, "failed", verdict.reason, verdict.detail, verdict.failure)


def _in_timebox(state: State, task: Task, due: float) -> bool:
    from planrunner.machine.watch import time_left  # late: few tasks have a timebox

    return time_left(state, task, due)


def _recover(state: State, number: int) -> Command | None:
    from planrunner.machine.recovery import recover  # late: only a resumed run has attempts whose end nobody saw

    return recover(state, number)


def _resolve(state: State, number: int) -> Command | None:
    """A failed task waits for its handlers: the first that completed stands in for it."""
    from planrunner.machine.routes import handlers  # late, as above

    task = state.specs[number]
    targets = handlers(state, number)
    for target in targets:
        if state.tasks[target].status == "completed" or state.tasks[target].recovered_by:
            return Record(FailureResolved(task.id, state.specs[target].id))
    if all(state.tasks[target].standing for target in targets):
        return Record(FailureResolved(task.id))
    return None


def _admit(state: State, ready: list[int], commands: list[Command], fitting: Fitting | None = None) -> None:
    """Give slots to the best of those that became ready and those that wait; the rest of the former queue up."""
    tasks = state.specs
    slow: list[tuple[int, int]] = []
    waiting: list[tuple[int, int]] = []
    for number in ready:
        if not state.trait(tasks[number]).instant:
            slow.append((-tasks[number].priority, number))
        elif fitting is None or fitting.take(number):
            commands.append(_start(state, number, fitting))
        else:
            waiting.append((-tasks[number].priority, number))
    free = state.max_parallel - state.slots
    chosen = _choose(state, slow, free, fitting) if free > 0 and (slow or state.queue.lines) else []
    commands.extend(_start(state, number, fitting) for number in chosen)
    if slow or waiting:
        started = set(chosen)
        commands.extend(
            Record(TaskQueued(tasks[number].id)) for _, number in sorted(slow + waiting) if number not in started
        )


def _start(state: State, number: int, fitting: Fitting | None) -> Start:
    """The next attempt, or the same one again where a doubt was settled that way."""
    found = state.tasks[number]
    if found.uncertain:
        from planrunner.machine.recovery import reissue  # late: only resumed runs have such attempts

        return reissue(state, number)
    if fitting is None:
        return _new(Start, (number, found.attempts + 1, 0, {}, False))
    return Start(number, found.attempts + 1, 0, *fitting.chosen(number))


def _choose(state: State, fresh: list[tuple[int, int]], free: int, fitting: Fitting | None) -> list[int]:
    """The tasks that start now, best first, as slots, label limits and budgets allow."""
    if state.stop_reason and state.stop_reason not in FINAL_STOPS:
        return []
    if fitting is None and not (state.queue.lines or state.limits) and len(fresh) <= free:
        return [number for _, number in sorted(fresh)]
    room = {label: limit - state.labels_running.get(label, 0) for label, limit in state.limits.items()}
    most = free if fitting is None else free + fitting.PATIENCE
    lines: dict[tuple[str, ...], list[tuple[int, int]]] = {
        labels: [(-priority, -minus) for priority, minus in line[-most:]] for labels, line in state.queue.lines.items()
    }
    for entry in fresh:
        lines.setdefault(state.limited_labels(state.specs[entry[1]]), []).append(entry)
    for line in lines.values():
        line.sort(reverse=True)
    chosen: list[int] = []
    while len(chosen) < free:
        allowed = [labels for labels, line in lines.items() if line and all(room[label] > 0 for label in labels)]
        if not allowed or (fitting is not None and fitting.misfits > fitting.PATIENCE):
            break
        labels = min(allowed, key=lambda key: lines[key][-1])
        number = lines[labels].pop()[1]
        if fitting is not None and not fitting.take(number):
            continue
        chosen.append(number)
        for label in labels:
            room[label] -= 1
    return chosen


def _finish(state: State) -> list[Command]:
    """Nothing to start and nothing to record: wait, park or end."""
    if state.asked or any(state.tasks[number].outcome is None for number in state.running):
        return []
    undoing = state.debts is not None and state.debts.active
    if state.open or state.finals_open or state.recovering or undoing:
        if state.stop_reason and state.stop_reason not in FINAL_STOPS:
            return [Record(RunParked(state.stop_reason))]
        return [] if _time_will_tell(state) or (state.attended and _asks_people(state)) else [_stuck(state)]
    if state.stop_reason in ("budget", "deadline"):
        return [End("failed", "budget")]
    if state.debts is not None and state.debts.status:
        return [_after_rollback(state, state.debts)]
    if state.stop_reason in FINAL_STOPS:
        return [End("cancelled", state.stop_reason)]
    return [End("failed", "failed") if state.failures else End("completed")]


def _after_rollback(state: State, debts: Debts) -> End:
    """A run that was undone did not complete, whatever it was before."""
    if debts.reason == "doubt":
        return End("failed", "failed") if state.failures else End("completed")
    return End("failed" if state.failures else "cancelled", debts.status)


def _time_will_tell(state: State) -> bool:
    """Something starts again by itself. The time limits of what waits for people keep no process."""
    if not state.timers:
        return False
    people = state.counts.get("blocked") or state.counts.get("in_doubt")
    return not people or any(state.tasks[number].status == "pending" for _, number in state.timers)


def _asks_people(state: State) -> bool:
    """A gate waits for people, one of whom is there."""
    return any(found.status == "blocked" and found.gate is not None and found.gate.waits for found in state.tasks)


def _stuck(state: State) -> Record:
    """Open tasks, and none that moves: they wait for a person, or for a handler that itself waits for the task it
    should recover. The latter recovers nothing, so the failure stands."""
    waiting = [task.id for task, found in zip(state.specs, state.tasks) if found.status in ("blocked", "in_doubt")]
    if waiting:
        return Record(RunParked("waiting", tuple(waiting)))
    if state.recovering:
        return Record(FailureResolved(state.specs[min(state.recovering)].id))
    open_tasks = [task.id for task, found in zip(state.specs, state.tasks) if not found.standing]
    raise IllegalMove(f"the run can neither go on nor end; undecided: {', '.join(open_tasks[:10])}")
