"""How long an artifact is kept: for ever, until its run has ended, for a time, or so many versions of it."""

from __future__ import annotations

from typing import NamedTuple

from planrunner.plan.expressions.quantities import parse_duration
from planrunner.plan.lower_parts import versions_kept


class Kept(NamedTuple):
    """What decides about one version: when it was made (seconds since 1970), whether its run has ended for good, and
    how many newer versions there are."""

    made: float
    ended: bool
    newer: int


def is_over(retention: str, version: Kept, now: float) -> bool:
    """Whether nobody wants the content any more. While its run may still go on, everything is kept; a word that says
    nothing keeps it too."""
    if not version.ended:
        return False
    if retention == "run":
        return True
    if most := versions_kept(retention):
        return version.newer >= most
    lasting = parse_duration(retention)
    return lasting is not None and now - version.made >= lasting
