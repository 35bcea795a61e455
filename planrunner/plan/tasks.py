"""What a task is to the rest of a plan: a container of tasks, a family of members, a receiver of credentials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.plan.agents import CHECK, UNNAMED
from planrunner.plan.model import Agent, Plan, Task
from planrunner.records import Struct

Json = Any


def holds(task: Task) -> str:
    """What kind of frame a task opens: ``items``, ``round`` or ``subplan``; empty for a task that holds no others."""
    if task.fanout is not None:
        return "items"
    if task.loop is not None:
        return "round"
    return "subplan" if task.sub is not None or task.subplan else ""


def inside(task: Task) -> tuple[Task, ...]:
    """The tasks directly inside one."""
    looped = task.loop.tasks if task.loop is not None else ()
    linked = task.sub.tasks if task.sub is not None else ()
    return (*task.subplan, *looped, *linked)


def is_container(task: Task) -> bool:
    """Whether a task holds others instead of doing something itself; each item of a fan-out does something."""
    return bool(holds(task if task.fanout is None else task._replace(fanout=None)))


def inner(task: Task) -> tuple[Task, ...]:
    """The tasks that a container holds."""
    return inside(task) if is_container(task) else ()


def tells_usage(task: Task) -> bool:
    """Whether the script of a task says in its own text that it reports what it used."""
    texts = [task.run] if isinstance(task.run, str) else list(task.run or ())
    code = task.inputs.get("code") if isinstance(task.inputs, dict) else None
    return any("PLANRUNNER_USAGE" in text for text in (*texts, code) if isinstance(text, str))


def comes_last(task: Task) -> bool:
    """Whether a task follows all others of its plan without needing them: the one made from ``done``, and those
    under ``finally``."""
    return task.concluding or task.finally_


def tools_of(task: Task) -> tuple[Task, ...]:
    """The tasks that the items of a fan-out may be, where those are the calls that a model asks for."""
    return task.fanout.tools if task.fanout is not None else ()


def every(tasks: Iterable[Task]) -> Iterator[Task]:
    """The tasks with all tasks inside them, those that a model may ask for included."""
    waiting = list(tasks)
    for task in waiting:
        yield task
        waiting += (*inside(task), *tools_of(task))


def written_tasks(plan: Plan) -> dict[str, Task]:
    """Every task of a plan by its path in it: ``a/b`` is the task ``b`` inside ``a``."""
    found: dict[str, Task] = {}
    todo = [("", plan.tasks)]
    while todo:
        prefix, tasks = todo.pop()
        for task in tasks:
            found[prefix + task.id] = task
            todo.append((f"{prefix}{task.id}/", inside(task)))
    return found


def until_of(task: Task) -> str:
    """What ends the rounds of a task, as its author says it."""
    if task.agent is None:
        return f"until: {task.loop.until.text}" if task.loop is not None and task.loop.until is not None else ""
    if task.agent.until is not None:
        return f"until: {task.agent.until.text}"
    return "an answer that passes the check" if inside(task)[-1].id == CHECK else "an answer"


def agent_text(agent: Agent, task: str) -> str:
    """The agent of a task in a sentence: by its name, or by its task where that describes it."""
    return f"the agent of `{task}`" if agent.name == UNNAMED else f"the agent `{agent.name}`"


def size(family: Task) -> int | None:
    """How many members a family has, where it multiplies a list written in the plan; None where only the run
    knows."""
    fanout = family.fanout
    return len(fanout.items) if fanout is not None and isinstance(fanout.items, list) else None


def makes(family: Task, name: str) -> bool:
    """Whether the family can make a task of this name, capitals aside; one that is not a fan-out makes none."""
    stem, folded = family.id[:-1].casefold(), name.casefold()
    if family.fanout is None or not folded.startswith(stem):
        return False
    number = folded[len(stem) :]
    if not (number.isascii() and number.isdigit()) or number[0] == "0":
        return False
    most = size(family)
    return most is None or (len(number) < 10 and int(number) <= most)


def meant_by(family: Task, name: str) -> bool:
    """Whether who names ``name`` may mean the family: one of its members, or any name that begins as they do where the
    members are not known before the run."""
    return name.startswith(family.id[:-1]) and (size(family) is None or makes(family, name))


class DeclaredSecret(Struct):
    """A credential that a task declares; ``variable`` is empty where it has the usual one, ``way`` is env, file or
    fd."""

    id: str
    variable: str = ""
    way: str = "env"


def declared_secrets(secrets: Json) -> Iterator[DeclaredSecret]:
    """A list of ids, or a mapping from variables to ids, one by one; nothing of what the schema refuses."""
    if isinstance(secrets, dict):
        for variable, given in secrets.items():
            more = given if isinstance(given, dict) else {"id": given}
            yield DeclaredSecret(str(more.get("id", "")), variable, str(more.get("as", "env")))
    elif isinstance(secrets, (list, tuple)):
        yield from (DeclaredSecret(str(name)) for name in secrets)


def every_secret(tasks: tuple[Task, ...]) -> set[str]:
    """The ids of the credentials that tasks declare, those inside them included."""
    result: set[str] = set()
    for task in every(tasks):
        if task.secrets:
            result |= {wish.id for wish in declared_secrets(task.secrets)}
    return result


def named_credential(task: Task) -> str:
    """The credential that the inputs of a task name; empty where they name none that is known before the run."""
    auth = task.inputs.get("auth") if isinstance(task.inputs, dict) else None
    name = auth.get("credential") if isinstance(auth, dict) else None
    return name if isinstance(name, str) and "{{" not in name else ""


def reads_exit_code(task: Task) -> bool:
    """Whether the criteria of a task say what a non-zero exit code means."""
    return any(
        criterion.expression is not None and ("exit_code",) in criterion.expression.paths
        for criterion in (*task.expect, *task.postconditions)
    )
