"""A graph as an indented list: a chain stays on one level, a branch goes one level in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planrunner.plan.graph import Graph


class Line(NamedTuple):
    """One task: its number in the plan, its level from 0, and the numbers of the tasks it comes after, without the one
    it is listed under."""

    task: int
    level: int
    also: tuple[int, ...]


def outline(graph: Graph) -> list[Line]:
    """``outlined`` for the tasks of a plan."""
    return outlined(graph.needs, graph.routed_from)


def outlined(needs: Sequence[Sequence[int]], routed_from: Sequence[Sequence[int]]) -> list[Line]:
    """Every task once, below the deepest of the tasks it comes after, given by what each needs and the tasks whose
    edges lead to it. Walks without recursion; tasks in a circle, which lint refuses, stand at the end."""
    parents = _parents([need or routed for need, routed in zip(needs, routed_from, strict=True)])
    children: dict[int, list[int]] = {}
    for number, parent in enumerate(parents):
        children.setdefault(parent, []).append(number)
    lines: list[Line] = []
    seen: set[int] = set()
    todo = [(number, 0) for number in reversed(children.get(-1, []))]
    while todo:
        number, level = todo.pop()
        seen.add(number)
        lines.append(_line(needs, number, parents[number], level))
        below = children.get(number, [])
        todo += [(child, level + (len(below) > 1)) for child in reversed(below)]
    return lines + [_line(needs, number, -1, 0) for number in range(len(needs)) if number not in seen]


def _parents(before: Sequence[Sequence[int]]) -> list[int]:
    """The task each one is listed under, -1 for none: the deepest of those it comes after."""
    depth = _depths(before)
    return [
        max(found, key=lambda other: (depth[other], other)) if found and depth[number] else -1
        for number, found in enumerate(before)
    ]


def _depths(before: Sequence[Sequence[int]]) -> list[int]:
    """The length of the longest way to each task; tasks in a circle, and behind one, have 0."""
    waiting = [len(found) for found in before]
    after: list[list[int]] = [[] for _ in before]
    for number, found in enumerate(before):
        for other in found:
            after[other].append(number)
    depth = [0] * len(before)
    longest = [0] * len(before)
    ready = [number for number, count in enumerate(waiting) if not count]
    for number in ready:
        depth[number] = longest[number]
        for other in after[number]:
            longest[other] = max(longest[other], longest[number] + 1)
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return depth


def _line(needs: Sequence[Sequence[int]], number: int, parent: int, level: int) -> Line:
    return Line(number, level, tuple(dict.fromkeys(other for other in needs[number] if other != parent)))
