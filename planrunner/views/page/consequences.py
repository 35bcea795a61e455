"""What follows from each answer to a gate, as far as the plan and the state of the run tell."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.machine.compensation import takes_back
from planrunner.machine.gates import rework_target, spec
from planrunner.machine.names import label
from planrunner.machine.questions import tally
from planrunner.machine.rework import downstream
from planrunner.machine.state import GateState, State
from planrunner.machine.statuses import SETTLED
from planrunner.plan.model import Gate, Option, Task
from planrunner.plan.tasks import every
from planrunner.records import Struct
from planrunner.views.page.figures import count
from planrunner.views.status import listed

_NAMED = 6
"""Tasks that a consequence lists by name."""
_ACTS = ("unsafe", "checkable", "idempotent")
"""Effects that leave something behind."""


class Consequence(Struct):
    """What one answer leads to. ``answer`` is approve, rework, reject or the name of an option; ``state`` and ``icon``
    are how it is shown. ``tasks`` run next, ``more`` is how many follow after those; ``meta`` says what it changes."""

    answer: str
    state: str
    icon: str
    lead: str
    text: str
    tasks: tuple[str, ...] = ()
    more: int = 0
    meta: tuple[str, ...] = ()


def consequences(state: State, number: int, gate: GateState) -> tuple[Consequence, ...]:
    """What each answer to a gate leads to, in the order in which they are offered."""
    written = spec(state, number, gate.stage)
    if written.options:
        chosen = [_option(state, number, written, option) for option in written.options if option.each is None]
        return (*chosen, _rejected(state, written))
    found = [_approved(state, number, gate)]
    if back := _pushed_back(state, number, written):
        found.append(back)
    else:
        found.append(_rejected(state, written))
    return tuple(found)


def causes_rework(state: State, number: int, gate: GateState) -> bool:
    """Whether a rejection sends the run back to an earlier task."""
    return rework_target(state, number, spec(state, number, gate.stage).on_reject) is not None


def _approved(state: State, number: int, gate: GateState) -> Consequence:
    missing = gate.need - len(gate.agreeing("")) - 1
    if missing > 0:
        text = f"{count(missing, 'more approval')} {'is' if missing == 1 else 'are'} needed before the run continues."
        return Consequence(
            "approve", "ok", "ok", "If you approve", text, meta=(f"So far: {tally(gate.votes, gate.need)}.",)
        )
    if gate.stage == "instruction":
        return _ahead(state, "approve", "If you say that it is done", _after(state, number))
    if gate.stage not in ("gate", "criteria"):
        return _ahead(state, "approve", "If you approve", [number, *_after(state, number)])
    return _ahead(state, "approve", "If you approve", _after(state, number))


def _ahead(state: State, answer: str, lead: str, numbers: list[int]) -> Consequence:
    names = tuple(label(state, each) for each in numbers[:_NAMED])
    more = max(0, len(numbers) - _NAMED)
    text = "the run continues with" if numbers else "the task completes; nothing comes after it."
    return Consequence(answer, "ok", "ok", lead, text, names, more, _effects(state, numbers))


def _after(state: State, number: int) -> list[int]:
    return [each for each in downstream(state, number) if each != number and state.tasks[each].status not in SETTLED]


def _effects(state: State, numbers: Iterable[int]) -> tuple[str, ...]:
    """What a rollback would take back of these tasks, and what it would not."""
    undone: list[str] = []
    kept: list[str] = []
    for number in numbers:
        for task in every([state.specs[number]]):
            if task.uses and _acts(state, task):
                back = task.rollback is not None or bool(task.backup) or takes_back(state, task)
                (undone if back else kept).append(task.id)
    told = []
    if undone:
        told.append(f"Reverted by a rollback: {_listed(undone)}.")
    if kept:
        told.append(f"Not reverted by a rollback: {_listed(kept)}.")
    return tuple(told)


def _acts(state: State, task: Task) -> bool:
    return (task.effect or state.trait(task).effect) in _ACTS


def _listed(names: list[str]) -> str:
    return listed(list(dict.fromkeys(names)), _NAMED)


def _option(state: State, number: int, written: Gate, option: Option) -> Consequence:
    lead = option.title or option.name
    index = state.tasks[number].frame.index
    if option.rework:
        used = state.sent_back.get(number, 0)
        meta = (f"{used} of at most {count(option.max, 'time')} used.",)
        return Consequence(option.name, "gate", "back", lead, "the run goes back to", (option.target,), 0, meta)
    target = index.get(option.target)
    others = [each.target for each in written.options if each.target and each.target != option.target]
    numbers = _after(state, number)
    if target is not None:
        behind = set(downstream(state, target))
        numbers = [each for each in numbers if each in behind]
    else:
        alone = {each for other in others if other in index for each in downstream(state, index[other])}
        numbers = [each for each in numbers if each not in alone]
    skipped = (f"{_listed(others)} {'does' if len(others) == 1 else 'do'} not run.",) if others else ()
    found = _ahead(state, option.name, lead, numbers)
    return found._replace(icon="arrow", state="", meta=(*skipped, *found.meta))


def _pushed_back(state: State, number: int, written: Gate) -> Consequence | None:
    target = rework_target(state, number, written.on_reject)
    if target is None:
        return None
    used = state.sent_back.get(number, 0)
    between = [each for each in downstream(state, target) if each in _before(state, number)]
    names = tuple(label(state, each) for each in between[:_NAMED]) or (label(state, target),)
    meta = (f"{used} of at most {count(written.on_reject.max, 'time')} used. Earlier approvals no longer count.",)
    text = "these run again with your comment, and the gate asks again:"
    more = max(0, len(between) - _NAMED)
    return Consequence("rework", "gate", "back", "If you push back", text, names, more, meta)


def _before(state: State, number: int) -> set[int]:
    """The tasks that a task waits for, at once or through others."""
    reached: set[int] = set()
    todo = [number]
    while todo:
        for other in state.shape.needs[todo.pop()]:
            if other not in reached:
                reached.add(other)
                todo.append(other)
    return reached


def _rejected(state: State, written: Gate) -> Consequence:
    reject = written.on_reject
    if reject.action == "task":
        text, names = "the gate fails, and this runs instead:", (reject.target,)
        return Consequence("reject", "bad", "bad", "If you reject", text, names)
    spent = reject.action == "rework"
    why = ("It was pushed back as often as the plan allows.",) if spent else ()
    ends = (
        "and what the run did is rolled back"
        if state.plan.on_failure == "rollback"
        else "and what comes after it does not run"
    )
    return Consequence("reject", "bad", "bad", "If you reject", f"the gate fails, {ends}.", meta=why)
