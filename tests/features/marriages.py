"""Every way in which two features meet."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from features import flows, holders, keys, people, plans
from features.pieces import FEATURES, Clash, Feature, Ids, Piece, beside, dressed

ROOMS = (flows, holders, keys, people, plans)
"""The modules that register features."""


APART = {
    ("budget-cost", "watchdog", "on"): "an attempt that is cut off counts with all that is set aside for it",
    ("budget-cost", "timeout", "on"): "the same",
    ("budget-cost", "timebox", "on"): "the same",
    ("breaker", "breaker", "beside"): "both are watched by one breaker",
    ("outputs", "failure-modes", "on"): "a script that stands in may give any output, or none",
    ("outputs", "when-false", "on"): "what is skipped gives no output",
    ("gate-rework", "rollback", "beside"): "people answer before the run is rolled back, or not",
    ("rollback", "gate-rework", "beside"): "the same",
}
"""Pairs whose claims exclude each other, with the reason."""


def ids(prefix: str) -> Ids:
    return lambda name: f"{prefix}-{name}"


class Marriage(NamedTuple):
    """Features that meet in a way: ``inside`` (the first holds the others), ``on`` (its keys are written on the main task
    of the other), ``beside`` and ``after``."""

    names: tuple[str, ...]
    ways: tuple[str, ...]

    @property
    def id(self) -> str:
        return "+".join(self.names) + "/" + "-".join(self.ways)

    def piece(self) -> Piece:
        """The tasks of all of them. Raises Clash where they cannot meet."""
        *outer, innermost = [FEATURES[name] for name in self.names]
        letters = "abcdefgh"
        piece = innermost.make(ids(letters[len(outer)]))
        for at in range(len(outer) - 1, -1, -1):
            piece = _met(self.ways[at], outer[at], piece, ids(letters[at]))
        return piece


def _met(way: str, one: Feature, other: Piece, x: Ids) -> Piece:
    if way == "inside" and one.hold is not None:
        return one.hold(x, other)
    if way == "on" and one.dress is not None:
        return dressed(other, one.dress(x, other.main, other.leaf))
    if way in ("beside", "after"):
        return beside(one.make(x), other, way == "after")
    raise Clash(f"`{one.name}` has no way `{way}`")


def ways_of(one: Feature) -> tuple[str, ...]:
    """How a feature can meet another one that comes second."""
    return (*(("inside",) if one.hold else ()), *(("on",) if one.dress else ()), "beside", "after")


def singles() -> Iterator[Marriage]:
    """Each feature alone."""
    for name in FEATURES:
        yield Marriage((name,), ())


def pairs() -> list[Marriage]:
    """All pairs that can meet, in an order that any beginning of is a sample of; side by side comes once."""
    found = []
    names = sorted(FEATURES)
    for one in names:
        for other in names:
            for way in ways_of(FEATURES[one]):
                if way == "beside" and other < one:
                    continue
                marriage = Marriage((one, other), (way,))
                if (one, other, way) in APART:
                    continue
                try:
                    marriage.piece()
                except Clash:
                    continue
                found.append(marriage)
    random.Random("order").shuffle(found)
    return found


CLOSE = 0.8
"""The share of triples whose features meet inside or on one another, where they can."""


def _way(rng: random.Random, name: str) -> str:
    first, *_ = ways = ways_of(FEATURES[name])
    return first if rng.random() < CLOSE else rng.choice(ways)


def triples(count: int, seed: str) -> Iterator[Marriage]:
    """Random triples that can meet."""
    rng = random.Random(f"triples {seed}")
    names = sorted(FEATURES)
    within = [name for name in names if FEATURES[name].hold or FEATURES[name].dress]
    while count:
        one, two = (rng.choice(within if rng.random() < CLOSE else names) for _ in range(2))
        three = rng.choice(names)
        ways = (_way(rng, one), _way(rng, two))
        marriage = Marriage((one, two, three), ways)
        met = {(one, two, ways[0]), (two, three, ways[1]), (one, three, ways[0] if ways[1] == "on" else ways[1])}
        if met & APART.keys():
            continue
        try:
            marriage.piece()
        except Clash:
            continue
        count -= 1
        yield marriage
