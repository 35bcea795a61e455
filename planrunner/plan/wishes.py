"""What ``secrets`` of a task says: which credentials it is given, and how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.plan.holding import every

if TYPE_CHECKING:
    from planrunner.plan.model import Task

Json = Any


class Wish(NamedTuple):
    """A credential that a task declares; ``variable`` is empty where it has the usual one, ``way`` is env, file or
    fd."""

    id: str
    variable: str = ""
    way: str = "env"


def wishes(secrets: Json) -> Iterator[Wish]:
    """A list of ids, or a mapping from variables to ids, one by one; nothing of what the schema refuses."""
    if isinstance(secrets, dict):
        for variable, given in secrets.items():
            more = given if isinstance(given, dict) else {"id": given}
            yield Wish(str(more.get("id", "")), variable, str(more.get("as", "env")))
    elif isinstance(secrets, (list, tuple)):
        yield from (Wish(str(name)) for name in secrets)


def every_secret(tasks: tuple[Task, ...]) -> set[str]:
    """The ids of the credentials that tasks declare, those inside them included."""
    found: set[str] = set()
    for task in every(tasks):
        if task.secrets:
            found |= {wish.id for wish in wishes(task.secrets)}
    return found


def named_credential(task: Task) -> str:
    """The credential that the inputs of a task name; empty where they name none that is known before the run."""
    auth = task.inputs.get("auth") if isinstance(task.inputs, dict) else None
    name = auth.get("credential") if isinstance(auth, dict) else None
    return name if isinstance(name, str) and "{{" not in name else ""
