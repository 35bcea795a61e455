"""Who has which role, and the digest of what else the project's policy says."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from planrunner.jsontext import stable_json
from planrunner.safety.project import read_settings

Json = Any


class Project(NamedTuple):
    """``people`` gives the roles of each person, None where the project lists nobody; ``digest`` stands for everything
    else that its files and its profile say, empty where they say nothing. The user's own file is no part of it: two
    people who decide the same gate must see the same."""

    people: dict[str, tuple[str, ...]] | None = None
    digest: str = ""


def read_project(directory: str) -> Project:
    """What the project's file says. Raises UsageError for one that cannot be read, and PlanInvalid with every finding
    for one with errors: whoever may decide must not hang on a slip of the pen."""
    found = read_settings(directory)
    data = dict(found.own)
    people = data.pop("people", None)
    if found.profile:
        over = [level.data for level in found.levels if level.name == f"profile {found.profile}"]
        data["profile"] = [found.profile, *over]
    digest = sha256(stable_json(data).encode("utf-8", "surrogatepass")).hexdigest()[:32] if data else ""
    return Project(None if people is None else _people(people), digest)


def _people(value: dict[str, Json]) -> dict[str, tuple[str, ...]]:
    return {name: (roles,) if isinstance(roles, str) else tuple(roles or ()) for name, roles in value.items()}
