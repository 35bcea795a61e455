"""Names of tasks: labels of items, paths, the end of one or the beginning of many, and members of families."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planrunner.plan.tasks import tools_of
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.machine.graph import Frame
    from planrunner.machine.state import State
    from planrunner.plan.model import Task

Json = Any

LONGEST = 28
"""Characters of one value at most; an item with a longer one, or with signs that paths are made of, keeps its index."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+:")


def label(state: State, number: int) -> str:
    """The path of a task in which items of matrices stand by their values. ``named`` finds the task by it."""
    path = state.specs[number].id
    at = number
    while (frame := state.tasks[at].frame).owner >= 0:
        if values := item_label(state, at):
            own = state.specs[at].id
            path = own[: own.rindex("[")] + values + path[len(own) :]
        at = frame.owner
    return path


def labelled(state: State, text: str) -> str:
    """A sentence in which the paths between backticks stand as ``label`` gives them."""
    if "[" not in text:
        return text
    parts = text.split("`")
    for place, part in enumerate(parts):
        number = state.index.get(part)
        if number is not None:
            parts[place] = label(state, number)
    return "`".join(parts)


def item_label(state: State, number: int) -> str:
    """``[seed=1,os=linux]`` for an item of a matrix; empty for any other task."""
    frame = state.tasks[number].frame
    if frame.kind != "items":
        return ""
    fanout = state.specs[frame.owner].fanout
    if fanout is None or fanout.matrix is None:
        return ""
    parts = [f"{axis}={_word(value)}" for axis, value in frame.values[number - frame.first].items()]
    return "" if any(part.endswith("=") for part in parts) else f"[{','.join(parts)}]"


def _word(value: Json) -> str:
    """A value of an axis as part of a name; empty where it cannot be one."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if isinstance(value, (str, int, float)) and len(text) <= LONGEST and _PLAIN.issuperset(text) else ""


def named(state: State, wanted: str) -> list[int]:
    """The tasks that a path names, by number: the one of that path, else those whose paths end with it (``draft`` for
    ``polish#1/draft``), else the items of a matrix by their values (``test[seed=1]``), else those that the plan writes
    in that place (``polish/draft``)."""
    number = state.index.get(wanted)
    if number is not None:
        return [number]
    ending = "/" + wanted
    numbers = [number for number, task in enumerate(state.specs) if task.id.endswith(ending)]
    if not numbers and "=" in wanted:
        labels = [label(state, number) for number in range(len(state.specs))]
        numbers = [number for number, each in enumerate(labels) if each == wanted or each.endswith(ending)]
    if numbers or "/" not in wanted:
        return numbers
    return [number for number, task in enumerate(state.specs) if written_of(task.id) == wanted and "/" in task.id]


def picked(state: State, wanted: str) -> list[int]:
    """The tasks that a path picks, with all they hold: as ``named``, or a round or visit of one (``polish#2``,
    ``polish@2``), which is not a task of its own."""
    numbers = named(state, wanted)
    if numbers:
        return below(state, numbers)
    beginnings = tuple(wanted + mark for mark in "/#[@")
    return [number for number, task in enumerate(state.specs) if task.id.startswith(beginnings)]


def below(state: State, numbers: list[int]) -> list[int]:
    """Tasks and whatever they hold, at whatever depth and of every visit. What is inside came later."""
    if not numbers:
        return []
    inner = dict.fromkeys(sorted(numbers))
    for number in range(min(numbers), len(state.tasks)):
        if state.tasks[number].frame.owner in inner:
            inner[number] = None
    return sorted(inner)


def waits_for_turn(state: State, number: int) -> bool:
    """Whether a task is inside an item that is open again and waits for its turn."""
    return not state.turns.keys().isdisjoint(owners(state, number))


def owners(state: State, number: int) -> list[int]:
    """The tasks that hold a task, the outermost first."""
    around: list[int] = []
    owner = state.tasks[number].frame.owner
    while owner >= 0:
        around.append(owner)
        owner = state.tasks[owner].frame.owner
    around.reverse()
    return around


def is_within(state: State, number: int, owner: int) -> bool:
    """Whether a task stands, at whatever depth, in the frame that ``owner`` opened last."""
    wanted, frame = state.tasks[owner].inner, state.tasks[number].frame
    while frame is not wanted and frame.owner >= 0:
        frame = state.tasks[frame.owner].frame
    return frame is wanted


def agent_of(state: State, number: int) -> int | None:
    """The task of the agent for which a request to its model, a call of a tool or the check of an answer is made."""
    owner = state.tasks[number].frame.owner
    if owner >= 0 and tools_of(state.specs[owner]):
        owner = state.tasks[owner].frame.owner
    return owner if owner >= 0 and state.specs[owner].agent is not None else None


def local_name(state: State, number: int) -> str:
    """How a task is called inside what holds it: ``draft``, ``[3]``, ``gaps-4``."""
    path = state.specs[number].id
    if state.tasks[number].frame.kind == "items" and path.endswith("]"):
        return path[path.rindex("[") :]
    return path[path.rfind("/") + 1 :]


def written_path(state: State, number: int) -> str:
    """The place of a task in its plan: its path without rounds, items and visits, ``polish/draft``."""
    chain = [*owners(state, number), number]
    return "/".join(written_name(local_name(state, at)) for at in chain if state.tasks[at].frame.kind != "items")


def written_of(path: str) -> str:
    """A path without rounds, items and visits."""
    return "/".join(map(written_name, path.split("/")))


def held_tasks(state: State, number: int) -> tuple[Task, ...]:
    """The tasks that one which holds others makes when it begins, as the plan writes them."""
    task = state.specs[number]
    if task.fanout is not None:
        item = state.containers[number]
        assert item is not None, "a fan-out has the task it multiplies"
        task = item
    if task.loop is not None:
        return task.loop.tasks
    return task.subplan if task.sub is None else task.sub.tasks


def written_name(local: str) -> str:
    """A name inside what holds it without item and visit."""
    for mark in ("[", "@", "#"):
        local = local.partition(mark)[0]
    return local


def frames(state: State) -> dict[int, list[Frame]]:
    """The frames that each task opened, in their order: rounds, attempts, visits; those without tasks are left out."""
    by_owner: dict[int, list[Frame]] = {}
    number = state.top.size
    while number < len(state.tasks):
        frame = state.tasks[number].frame
        by_owner.setdefault(frame.owner, []).append(frame)
        number = frame.first + frame.size
    return by_owner


def is_gone(state: State, number: int) -> bool:
    """Whether the plan has a task no more, or what holds it, since a revision."""
    if state.gone is None:
        return False
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        frame = state.tasks[frame.owner].frame
    return frame is not state.top


def replaced_tasks(state: State) -> set[int]:
    """The tasks of attempts and visits that later ones have replaced, at whatever depth. The rounds of an attempt all
    belong to it."""
    replaced: set[int] = set()
    for owner, opened in frames(state).items():
        if owner < 0:
            continue
        current, frame = set(), state.tasks[owner].inner
        while frame is not None:
            current.add(frame.first)
            frame = frame.earlier
        for each in opened:
            if owner in replaced or each.first not in current:
                replaced.update(range(each.first, each.first + each.size))
    if state.gone is not None:
        replaced.update(number for number in range(len(state.tasks)) if is_gone(state, number))
    return replaced


def counts(state: State, frame: Frame) -> dict[str, int]:
    """How many tasks of a frame there are of each status."""
    by_status: dict[str, int] = {}
    for number in range(frame.first, frame.first + frame.size):
        status = state.tasks[number].status
        by_status[status] = by_status.get(status, 0) + 1
    return by_status


def stands(state: State, number: int) -> bool:
    """Whether what became of a task still matters: the plan has it, and nothing around it was reset since, went
    into another round or went well in spite of it."""
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        owner = state.tasks[frame.owner]
        if owner.inner is not frame or owner.dependency_outcome in ("completed", "tolerated"):
            return False
        frame = owner.frame
    return frame is state.top


def by_its_own(state: State, number: int) -> bool:
    """Whether a task failed, or has to be settled, for itself and not because of what it holds."""
    inner = state.tasks[number].inner
    return inner is None or len(inner.failures) <= inner.tolerate


# Members of families: ``dive-2``, the second item of ``dive-*``, which a task may need and read by that name

_DIGITS = "0123456789"
_MOST = 9
"""Digits of the number of a member at most."""


class Need(Struct):
    """One need of a task: the task ``number`` that it asks for, or the family where its member does not exist yet or at
    all; ``outcome`` is the dependency outcome, ``name`` that of a member which does not exist, ``lacks`` says why."""

    number: int
    outcome: str
    name: str = ""
    lacks: str = ""


def needed(state: State, number: int) -> list[Need]:
    """What a task needs, in its order: single members where it names those."""
    join, tasks = state.specs[number].join, state.tasks
    if not join.named:
        return [Need(need, tasks[need].dependency_outcome) for need in state.shape.needs[number]]
    frame = tasks[number].frame
    found = [_need(state, frame, name) for name in join.named]
    return [need for need in found if need is not None]


def named_task(state: State, frame: Frame, name: str) -> int | None:
    """The task of a frame that a name means: its id, or a member of a family. A family without items so far stands for
    its members; None for a name that nothing has."""
    if name[-1:] not in _DIGITS or (place := _place(frame, name)) is None:
        return frame.index.get(name)
    family, at = place
    inner = state.tasks[family].inner
    if inner is None:
        return family
    return inner.first + at if at < inner.size else None


def lacking(state: State, frame: Frame, name: str) -> str:
    """Why a family does not have a member of that name; empty for any other name."""
    place = _place(frame, name)
    if place is None:
        return ""
    inner = state.tasks[place[0]].inner
    if inner is None or place[1] < inner.size:
        return ""
    return f"does not exist: `{state.specs[place[0]].id}` has {inner.size} item{'' if inner.size == 1 else 's'}"


def _need(state: State, frame: Frame, name: str) -> Need | None:
    tasks = state.tasks
    place = _place(frame, name)
    if place is None:
        number = frame.index.get(name)
        return None if number is None else Need(number, tasks[number].dependency_outcome)
    family, at = place
    inner = tasks[family].inner
    if inner is None:
        return Need(family, tasks[family].dependency_outcome)
    if at >= inner.size:
        return Need(family, "omitted", name, lacking(state, frame, name))
    return Need(inner.first + at, _outcome(state, family, tasks[inner.first + at].dependency_outcome))


def _outcome(state: State, family: int, own: str) -> str:
    """What an item counts as for those that need it alone. Whether it may fail, and what stands in for it then, the
    family says."""
    if own != "failed":
        return own
    if state.specs[family].allow_failure:
        return "tolerated"
    if any(route.edge.recovers for route in state.shape.routes_out.get(family, ())):
        found = state.tasks[family].dependency_outcome
        return found if found in ("", "completed") and state.tasks[family].status != "completed" else own
    return own


def _place(frame: Frame, name: str) -> tuple[int, int] | None:
    """The family of a frame that a name is a member of, and the position of that member. The index of the plan has
    every path of the run as well, so what counts is whether the task of that name stands in the frame itself."""
    if frame.first <= frame.index.get(name, -1) < frame.first + frame.size:
        return None
    for cut in range(max(len(name.rstrip(_DIGITS)), len(name) - _MOST), len(name)):
        family = frame.index.get(f"{name[:cut]}*")
        if family is not None and name[cut] != "0":
            return family, int(name[cut:]) - 1
    return None
