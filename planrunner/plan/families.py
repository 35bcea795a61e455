"""Families of tasks, ``dive-*``: the members that a fan-out makes are called ``dive-1``, ``dive-2`` and so on."""

from __future__ import annotations

from planrunner.plan.model import Task


def size(family: Task) -> int | None:
    """How many members a family has, where it multiplies a list that stands in the plan; None where only the run
    knows."""
    fanout = family.fanout
    return len(fanout.items) if fanout is not None and isinstance(fanout.items, list) else None


def makes(family: Task, name: str) -> bool:
    """Whether the family can make a task of this name, capitals aside; one that is no fan-out makes none."""
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
