"""Who stands above whom, for many tasks at once: sets of ancestors as bit masks, passed down in one sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Before = Callable[[int], Sequence[int]]


def sweep(order: Sequence[int], before: Before, sources: Sequence[int]) -> list[int]:
    """For each task the set of ``sources`` above it, bit n for ``sources[n]``; ``order`` has earlier ones first."""
    own = _bits(len(order), sources)
    masks = [0] * len(order)
    for here in order:
        mask = 0
        for there in before(here):
            mask |= masks[there] | own[there]
        masks[here] = mask
    return masks


def sweep_components(components: Iterable[Sequence[int]], before: Before, sources: Sequence[int]) -> list[int]:
    """The same for a graph with circles, given as strongly connected components, earlier ones first."""
    parts = list(components)
    count = sum(map(len, parts))
    own = _bits(count, sources)
    masks = [0] * count
    for component in parts:
        mask = 0
        for here in component:
            for there in before(here):
                mask |= masks[there] | own[there]
        for here in component:
            masks[here] = mask
    return masks


def _bits(count: int, sources: Sequence[int]) -> list[int]:
    own = [0] * count
    for bit, source in enumerate(sources):
        own[source] = 1 << bit
    return own
