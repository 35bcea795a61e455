"""The credentials of a project, ``provider_credentials`` of its file: names for secrets, and where each comes from.

The file never holds a secret. What a credential is comes out of its source when a run needs it (``sources.py``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from planrunner.errors import PlanrunnerError
from planrunner.plan.expressions.quantities import amount, parse_duration
from planrunner.plan.nearest import nearest
from planrunner.safety.layers import id_of
from planrunner.safety.project import FILE, read_data, read_located

Json = Any

SECTION = "provider_credentials"

TIMEOUT = 30.0
"""Seconds for a command that prints a secret, where its entry says nothing."""


class Credential(NamedTuple):
    """One entry: ``source`` is env, file, command or keyring, and what belongs to the others is empty. ``timeout`` is
    in seconds, ``directory`` that of the project, from which paths are meant."""

    id: str
    source: str
    env_var: str = ""
    file_path: str = ""
    file_key: str = ""
    command: tuple[str, ...] = ()
    timeout: float = TIMEOUT
    service: str = ""
    username: str = ""
    provider: str = ""
    config: Json = None
    directory: str = ""

    @property
    def variable(self) -> str:
        """The name of the variable in which a task finds it that names no other."""
        return self.env_var or "".join(sign if sign.isalnum() else "_" for sign in self.id).upper()

    @property
    def place(self) -> str:
        """Where it comes from, in words that tell nothing of the value."""
        if self.source == "env":
            return f"the environment variable {self.env_var}"
        if self.source == "file":
            return f"the file {self.file_path}" + (f", key `{self.file_key}`" if self.file_key else "")
        if self.source == "command":
            return f"the command {os.path.basename(self.command[0])}"
        return f"the keyring, service `{self.service}`, user `{self.username}`"

    @property
    def path(self) -> str:
        """The file, ``~`` and relative paths resolved."""
        return os.path.join(self.directory, os.path.expanduser(self.file_path))


def read_credentials(directory: str) -> dict[str, Credential]:
    """The credentials of a project by id; empty where it lists none. Raises UsageError for a project's file that cannot
    be read and PlanInvalid for one with errors."""
    given = read_data(directory).get(SECTION)
    return {each.id: each for each in map(_credential, given or (), [directory] * len(given or ()))}


def _credential(entry: dict[str, Json], directory: str) -> Credential:
    auth = entry["auth"]
    return Credential(
        id=entry["id"],
        source=auth["source"],
        env_var=auth.get("env_var", ""),
        file_path=auth.get("file_path", ""),
        file_key=auth.get("file_key", ""),
        command=tuple(auth.get("command", ())),
        timeout=_seconds(auth["timeout"]) if "timeout" in auth else TIMEOUT,
        service=auth.get("service", ""),
        username=auth.get("username", ""),
        provider=entry.get("provider", ""),
        config=entry.get("config"),
        directory=directory,
    )


def _seconds(given: Json) -> float:
    return amount(given, parse_duration) or TIMEOUT


def line_of(directory: str, name: str) -> str:
    """Where the entry of a credential stands, as ``planrunner.yaml:12``; the file alone where it cannot be told."""
    try:
        entries = read_located(directory).get(SECTION, ())
    except PlanrunnerError:  # somebody is at the file just now
        return FILE
    places: list[str] = [entry["id"].place for entry in entries if id_of(entry) == name]
    return places[0].rpartition(":")[0] if places else FILE


def unknown(name: str, known: Iterable[str]) -> str:
    """The help for a name that no credential has."""
    names = sorted(known)
    if close := nearest(name, names):
        return f"did you mean `{close}`?"
    example = f"{SECTION}: [{{id: {name}, auth: {{source: env, env_var: NAME}}}}]"
    return f"it has {', '.join(f'`{each}`' for each in names[:8])}" if names else f"add to {FILE}: `{example}`"
