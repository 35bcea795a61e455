"""Parameters from a file."""

from __future__ import annotations

from typing import Any

from planrunner.diagnostics import has_errors
from planrunner.errors import NotFound, PlanInvalid, UsageError
from planrunner.source import Source, notation_of
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Mapping, to_json

Json = Any


def read_params(path: str) -> tuple[tuple[str, Json], ...]:
    """The names and values of a YAML or JSON file that holds one mapping.

    Raises NotFound for a file that is not there, UsageError for one that holds something else, PlanInvalid with the
    places for one that does not parse.
    """
    try:
        with open(path, encoding="utf-8") as file:
            source = Source(file.read(), path, "json" if notation_of(path) == "json" else "yaml")
    except FileNotFoundError as error:
        raise NotFound(f"there is no file `{path}`") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"`{path}` is not UTF-8 text") from error
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}") from error
    parsed = parse(source)
    if parsed.tree is None or has_errors(parsed.findings):
        raise PlanInvalid(f"`{path}` does not parse", source, parsed.findings)
    if not isinstance(parsed.tree, Mapping):
        raise UsageError(f"`{path}` must hold a mapping of names to values")
    data = to_json(parsed.tree)
    assert isinstance(data, dict)
    return tuple(data.items())
