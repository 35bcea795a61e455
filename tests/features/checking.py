"""Marriages checked in blocks: what the tests of this room share."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from features import shown
from features.accepted import KNOWN, unexpected
from features.marriages import Marriage, pairs
from features.played import document_of, faults
from planrunner.plugins.registry import Registry

BLOCK = 50
SHOWN = int(os.environ.get("PLANRUNNER_SHOWN", "10"))
"""Of every so many runs the surfaces are looked at."""
PAIRS = int(os.environ.get("PLANRUNNER_PAIRS", "2000"))
"""So many of all pairs, in an order of which any beginning is a sample."""


@cache
def _all() -> list[Marriage]:
    return pairs()


@cache
def _registry() -> Registry:
    return Registry()


def blocks(part: int, parts: int) -> list[int]:
    """The numbers of the blocks that a file of tests checks: each ``parts``-th one."""
    return list(range(part, -(-PAIRS // BLOCK), parts))


def of_block(block: int) -> list[Marriage]:
    return _all()[block * BLOCK : (block + 1) * BLOCK]


def problems(marriages: Iterable[Marriage], folder: Path) -> list[str]:
    """What is wrong with the runs of some marriages, each with its id, and known faults that are none any more."""
    found = []
    for number, marriage in enumerate(marriages):
        looks = [shown.faults] if number % SHOWN == 0 else []
        wrong, refused = faults(marriage.id, marriage.piece(), folder, _registry(), looks)
        wrong += unexpected(marriage, refused)
        known = KNOWN.get(marriage.id)
        if known is None:
            found += [f"{marriage.id}: {sentence}" for sentence in wrong]
        elif not any(known in sentence for sentence in wrong):
            found.append(f"{marriage.id}: mended; take it out of the known faults")
    return found


def written(marriage: Marriage) -> str:
    """The plan of a marriage, to run it by hand."""
    return json.dumps(document_of(marriage.id, marriage.piece()), indent=1)
