"""Circles in a graph of integers: strongly connected components and the shortest way round, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Sequence

SEARCH_LIMIT = 500_000
"""How many arrows the search for the shortest cycle of one component looks at before it is content with what it has."""


def components(count: int, after: Callable[[int], list[int]]) -> list[list[int]]:
    """Tarjan's strongly connected components without recursion; later components first."""
    number = [0] * count
    low = [0] * count
    on_stack = bytearray(count)
    stack: list[int] = []
    found: list[list[int]] = []
    counter = 0
    for root in range(count):
        if number[root]:
            continue
        counter += 1
        number[root] = low[root] = counter
        stack.append(root)
        on_stack[root] = 1
        work = [(root, iter(after(root)))]
        while work:
            here, rest = work[-1]
            for there in rest:
                if not number[there]:
                    counter += 1
                    number[there] = low[there] = counter
                    stack.append(there)
                    on_stack[there] = 1
                    work.append((there, iter(after(there))))
                    break
                if on_stack[there] and number[there] < low[here]:
                    low[here] = number[there]
            else:
                work.pop()
                if work and low[here] < low[work[-1][0]]:
                    low[work[-1][0]] = low[here]
                if low[here] == number[here]:
                    found.append(_take(stack, here, on_stack))
    return found


def _take(stack: list[int], root: int, on_stack: bytearray) -> list[int]:
    at = len(stack) - 1
    while stack[at] != root:
        at -= 1
    component = stack[at:]
    del stack[at:]
    for here in component:
        on_stack[here] = 0
    return component


def shortest_cycle(knot: Sequence[int], after: Sequence[Sequence[int]]) -> list[int]:
    """A shortest cycle inside a strongly connected set, rotated so that the smallest number comes first.

    A breadth-first search from each member finds it; in huge knots the search ends early with the best so far.
    """
    inside = set(knot)
    best: list[int] = []
    looked = 0
    for start in knot:
        found, cost = _cycle_through(start, inside, after)
        looked += cost
        if found and (not best or len(found) < len(best)):
            best = found
        if len(best) == 2 or looked > SEARCH_LIMIT:
            break
    at = best.index(min(best))
    return best[at:] + best[:at]


def path(start: int, end: int, after: Callable[[int], list[int]], inside: set[int]) -> list[int]:
    """A shortest way from ``start`` to ``end`` that stays ``inside``, both ends included; there must be one."""
    came: dict[int, int] = {start: -1}
    queue = [start]
    for here in queue:
        if here == end:
            break
        for there in after(here):
            if there in inside and there not in came:
                came[there] = here
                queue.append(there)
    return _walk_back(came, end)


def _cycle_through(start: int, inside: set[int], after: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    came: dict[int, int] = {start: -1}
    queue = [start]
    looked = 0
    for here in queue:
        for there in after[here]:
            looked += 1
            if there == start:
                return _walk_back(came, here), looked
            if there in inside and there not in came:
                came[there] = here
                queue.append(there)
    return [], looked


def _walk_back(came: dict[int, int], end: int) -> list[int]:
    path = [end]
    while came[path[-1]] >= 0:
        path.append(came[path[-1]])
    path.reverse()
    return path
