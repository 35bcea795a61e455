"""Events that few runs meet. Facts of the world, which the preconditions of a task read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    Json = Any


class FactsRequested(NamedTuple):
    """The preconditions of a task read facts of the world (``memory.has_space``, ``network.online`` …)."""

    task: str
    names: tuple[str, ...]


class FactsObserved(NamedTuple):
    task: str
    facts: dict[str, Json]
