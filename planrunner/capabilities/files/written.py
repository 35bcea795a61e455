"""Which paths a call of the family says it writes: for a look at a plan before it runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from planrunner.capabilities.builtin import description_of
from planrunner.plan.access import touched


def written(capability: str, inputs: Mapping[str, Any]) -> list[str]:
    """The paths in the inputs that ``capability`` changes, as they are written there: templates are not filled in."""
    found: list[str] = []
    for touch in touched(description_of(capability), dict(inputs)):
        if touch.way == "write":
            found += _headed(touch.text) if touch.several else [touch.text]
    return list(dict.fromkeys(filter(None, found)))


def _headed(diff: str) -> list[str]:
    """The files that the header lines of a diff name."""
    lines = diff.splitlines()
    found = []
    for line, after in itertools.pairwise(lines):
        if line.startswith("--- ") and after.startswith("+++ "):
            names = [each[4:].split("\t", maxsplit=1)[0].rstrip() for each in (after, line)]
            path = next((name for name in names if name != "/dev/null"), "")
            found.append(path[2:] if path[:2] in ("a/", "b/") else path)
    return found
