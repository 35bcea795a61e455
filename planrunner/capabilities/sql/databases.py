"""The databases of a project, as `sql: databases:` of planrunner.yaml names them, without what connects to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from planrunner.capabilities.contract import Failure


def entry(section: Mapping[str, Any], database: str) -> dict[str, Any]:
    """What the section `sql` says of a database. Raises Failure (policy) where it names none of that name."""
    known = section.get("databases") or {}
    given = known.get(database) if isinstance(known, dict) else None
    if given is None:
        raise Failure(
            f"planrunner.yaml names no database `{database}` under `sql: databases:`{_names(known)}",
            rule="sql.database",
        )
    return {"url": given} if isinstance(given, str) else dict(given)


def address(database: str, settings: Mapping[str, Any]) -> str:
    """The address of a database. Raises Failure where its variable is not set."""
    name = settings.get("url_env")
    if not name:
        return str(settings.get("url") or "")
    if why := missing_address(database, settings, os.environ):
        raise Failure(why)
    return os.environ[str(name)]


def missing_address(database: str, settings: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """Why the address of a database cannot be had; empty where nothing is known against it."""
    name = settings.get("url_env")
    if not name or environment.get(str(name)):
        return ""
    return f"the variable {name}, which holds the address of the database `{database}`, is not set"


def _names(known: Any) -> str:
    return f"; it names {', '.join(f'`{name}`' for name in sorted(known))}" if known else ""
