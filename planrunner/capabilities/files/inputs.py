"""The inputs of the family, the paths that they write, and the names of artifacts made of paths."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from planrunner.capabilities.builtin import description_of
from planrunner.capabilities.contract import Failure
from planrunner.plan.access import touched

_TEXTS = frozenset("path to content encoding template text kind diff snapshot".split())
_FLAGS = frozenset("parents replace recursive hidden".split())
_TEXT_OR_LIST = frozenset(("patterns", "exclude"))
_SAID = {type(None): "null", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a map"}


def check(inputs: Mapping[str, Any]) -> None:
    """Raises Failure for the first input that is not what its name stands for."""
    for name, value in inputs.items():
        if name in _TEXTS:
            text(name, value)
        elif name in _FLAGS and not isinstance(value, bool):
            raise Failure(f"`{name}` must be true or false, found {_found(value)}")
        elif name in _TEXT_OR_LIST:
            for each in value if isinstance(value, list) else [value]:
                text(name, each)
        elif name == "values" and value is not None and not isinstance(value, dict):
            raise Failure(f"`values` must be a map, found {_found(value)}")
        elif name == "blocks" and not (
            isinstance(value, (list, tuple)) and all(isinstance(one, dict) for one in value)
        ):
            raise Failure("`blocks` must be a list of maps with `path`, `search` and `replace`")


def text(name: str, value: object) -> str:
    """The value if it is text. Raises Failure."""
    if isinstance(value, str):
        return value
    quoted = f'; text is written in quotes: {name}: "{value}"' if isinstance(value, (int, float)) else ""
    raise Failure(f"`{name}` must be text, found {_found(value)}{quoted}")


def permissions(mode: object) -> int | None:
    """Octal permissions, or None where nothing is said. Raises Failure.

    YAML reads 0644 without quotes as the number 644, and 0o644 as 420: a number is taken where it can mean one thing
    alone, its digits.
    """
    if mode == "":
        return None
    digits = str(mode)
    plain = isinstance(mode, str) or (isinstance(mode, int) and not isinstance(mode, bool) and mode > 0o777)
    try:
        found = int(digits, 8) if plain else -1
    except ValueError:
        found = -1
    if not 0 <= found <= 0o777:
        raise Failure(f'`mode` must be octal permissions in quotes, such as "0644", found {_shown(mode)}')
    return found


def _found(value: object) -> str:
    said = _SAID.get(type(value), type(value).__name__)
    return f"the number {value}" if said == "a number" else str(value).lower() if isinstance(value, bool) else said


def _shown(mode: object) -> str:
    return mode if isinstance(mode, str) else _found(mode)


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


def artifact_name(path: str, otherwise: str = "file") -> str:
    """A path as a name that the store takes; ``otherwise`` where nothing is left of it."""
    parts = ["".join(map(_fitting, part)).strip() for part in path.split("/")]
    return "/".join(part for part in parts if part not in ("", ".", "..")) or otherwise


def _fitting(sign: str) -> str:
    return sign if sign.isprintable() and sign != "\\" else "_"
