"""The inputs of the family by their names, and what each has to be: YAML makes numbers, lists and maps where text was
meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planrunner.capabilities.contract import Failure

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
