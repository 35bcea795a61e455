"""Who has which role, and what else the project's policy says: ``planrunner.yaml`` beside the plans."""

from __future__ import annotations

import os

from planrunner.errors import UsageError
from planrunner.jsontext import stable_json
from planrunner.lean import sha256
from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    Json = Any

FILE = "planrunner.yaml"


class Project(NamedTuple):
    """``people`` gives the roles of each person, None where the project lists nobody; ``digest`` stands for everything
    else in the file, empty where there is none."""

    people: dict[str, tuple[str, ...]] | None = None
    digest: str = ""


def read_project(directory: str) -> Project:
    """What the project's file says; raises UsageError for one that cannot be read or lists people in another shape."""
    path = os.path.join(directory, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return Project()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"`{path}` cannot be read: {error}") from None
    data = _data(text, path)
    people = data.pop("people", None)
    digest = sha256(stable_json(data).encode("utf-8", "surrogatepass")).hexdigest()[:32] if data else ""
    return Project(None if people is None else _people(people, path), digest)


def _data(text: str, path: str) -> dict[str, Json]:
    from planrunner import syntax  # late: few projects have such a file
    from planrunner.source import Source
    from planrunner.syntax.tree import to_json

    parsed = syntax.parse(Source(text, path, "yaml"))
    found = None if parsed.tree is None else to_json(parsed.tree)
    if parsed.tree is None and text.strip() and parsed.findings:
        raise UsageError(f"`{path}` is not sound: {parsed.findings[0].message}")
    return found if isinstance(found, dict) else {}


def _people(value: Json, path: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, roles in value.items() if isinstance(value, dict) else ():
        listed = [roles] if isinstance(roles, str) else roles
        if not isinstance(listed, list) or not all(isinstance(role, str) for role in listed):
            raise UsageError(f"`people` in `{path}`: `{name}` takes a list of roles, such as [release]")
        found[str(name)] = tuple(listed)
    if not isinstance(value, dict):
        raise UsageError(f"`people` in `{path}` takes a mapping from names to roles, such as ana: [release]")
    return found
