"""The inputs of the family and of those that keep things as it does, the paths that they write, and the names of
artifacts made of paths."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from typing import Any

from planrunner.capabilities.builtin import description_of
from planrunner.capabilities.contract import Failure
from planrunner.plan.access import touched

_TEXTS = frozenset("path to content encoding template text kind diff snapshot".split())
_REMEMBERED = frozenset("key query problem prefix embedder title statement folder".split())
"""Texts of memory and the knowledge base."""
_LISTS = frozenset("tags tests contradicts".split())
_NUMBERS = frozenset("limit confidence threshold".split())
_FLAGS = frozenset("parents replace recursive hidden".split())
_TEXT_OR_LIST = frozenset(("patterns", "exclude"))
_SAID = {type(None): "null", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a map"}


def check(inputs: Mapping[str, Any]) -> None:
    """Raises Failure for the first input that is not what its name stands for."""
    for name, value in inputs.items():
        if name in _TEXTS or name in _REMEMBERED:
            text(name, value)
        elif name in _LISTS or name in _NUMBERS:
            _optional(name, value)
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


def _optional(name: str, value: object) -> None:
    """A list of texts or a number, where it is given. Raises Failure."""
    if value is None:
        return
    if name in _NUMBERS and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise Failure(f"`{name}` must be a number, found {_found(value)}")
    if name == "limit" and isinstance(value, float):
        raise Failure(f"`limit` must be a whole number, found {_found(value)}")
    if name in _LISTS and not isinstance(value, (list, tuple)):
        raise Failure(f"`{name}` must be a list of texts, found {_found(value)}")
    for each in value if isinstance(value, (list, tuple)) else ():
        text(name, each)


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
    plain = isinstance(mode, str) or (isinstance(mode, int) and not isinstance(mode, bool) and mode > 0o777)
    number = -1
    if plain:
        with contextlib.suppress(ValueError):
            number = int(str(mode), 8)
    if not 0 <= number <= 0o777:
        shown = mode if isinstance(mode, str) else _found(mode)
        raise Failure(f'`mode` must be octal permissions in quotes, such as "0644", found {shown}')
    return number


def _found(value: object) -> str:
    what = _SAID.get(type(value), type(value).__name__)
    return f"the number {value}" if what == "a number" else str(value).lower() if isinstance(value, bool) else what


def written(capability: str, inputs: Mapping[str, Any]) -> list[str]:
    """The paths in the inputs that ``capability`` changes, as they are written there: templates are not filled in."""
    paths: list[str] = []
    for touch in touched(description_of(capability), dict(inputs)):
        if touch.way == "write" and not touch.several:
            paths.append(touch.text)
        elif touch.way == "write":  # the header lines of a diff
            for old, new in itertools.pairwise(touch.text.splitlines()):
                if old.startswith("--- ") and new.startswith("+++ "):
                    names = [line[4:].split("\t", maxsplit=1)[0].rstrip() for line in (new, old)]
                    path = next((name for name in names if name != "/dev/null"), "")
                    paths.append(path[2:] if path[:2] in ("a/", "b/") else path)
    return list(dict.fromkeys(filter(None, paths)))


def artifact_name(path: str, otherwise: str = "file") -> str:
    """A path as a name that the store takes; ``otherwise`` where nothing is left of it."""
    shown = "".join(sign if sign.isprintable() and sign != "\\" else "_" for sign in path)
    parts = [part.strip() for part in shown.split("/")]
    return "/".join(part for part in parts if part not in ("", ".", "..")) or otherwise
