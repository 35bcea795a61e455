"""Which paths a call of the family says it writes: for a look at a plan before it runs."""

from __future__ import annotations

import itertools

from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def written(capability: str, inputs: Mapping[str, Any]) -> list[str]:
    """The paths in the inputs that ``capability`` changes, as they are written there: templates are not filled in."""
    if capability == "files.edit":
        found = [block.get("path") for block in _list(inputs.get("blocks")) if isinstance(block, dict)]
        found += _headed(inputs.get("diff"))
    else:
        keys = {"files.copy": ("to",), "files.move": ("path", "to")}.get(capability, ("path",))
        found = [inputs.get(key) for key in keys]
    return list(dict.fromkeys(path for path in found if isinstance(path, str) and path))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _headed(diff: object) -> list[str]:
    """The files that the header lines of a diff name."""
    lines = diff.splitlines() if isinstance(diff, str) else []
    found = []
    for line, after in itertools.pairwise(lines):
        if line.startswith("--- ") and after.startswith("+++ "):
            names = [each[4:].split("\t", maxsplit=1)[0].rstrip() for each in (after, line)]
            path = next((name for name in names if name != "/dev/null"), "")
            found.append(path[2:] if path[:2] in ("a/", "b/") else path)
    return found
