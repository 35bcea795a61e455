"""The credentials of a project as a run needs them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from planrunner.errors import PlanInvalid, UsageError
from planrunner.journal.stores import VARIABLE as JOURNAL
from planrunner.later import Later, load
from planrunner.machine.stops import FINAL_STOPS
from planrunner.plan.tasks import every_secret
from planrunner.records import Struct, astuple
from planrunner.safety.project import CREDENTIALS, read_data, read_settings

if TYPE_CHECKING:
    from urllib.parse import unquote, urlsplit

    from planrunner.engine.secrets import Vault
    from planrunner.machine.state import State
    from planrunner.plan.rules.view import Project
    from planrunner.safety.credentials import read_credentials
    from planrunner.safety.obligations import obligations
    from planrunner.syntax.tree import to_json
else:
    unquote = Later("urllib.parse:unquote")
    urlsplit = Later("urllib.parse:urlsplit")
    Vault = Later("planrunner.engine.secrets:Vault")
    read_credentials = Later("planrunner.safety.credentials:read_credentials")
    obligations = Later("planrunner.safety.obligations:obligations")
    to_json = Later("planrunner.syntax.tree:to_json")

Json = Any

_USUAL_KEYS = "planrunner.capabilities.llm.models:USUAL_KEYS"
_SHORTEST = "planrunner.redaction:SHORTEST"
_OWN = ("PLANRUNNER_MCP_TOKEN",)
"""Variables with secrets of planrunner itself."""


class NamedVariable(Struct):
    """A variable of the environment that a section of the settings names for a secret. ``holds`` is ``key`` where its
    value is the secret, ``address`` where that is an address with a password in it."""

    variable: str
    holds: Literal["key", "address"] = "key"


def vault_of(state: State, directory: str) -> Vault | None:
    """The secrets of a run, those that its tasks declare and those that settings name looked up; None where the project
    has neither. Raises as ``read_credentials``, but for a run that only ends: that it does whatever the file says."""
    try:
        credentials, settings = read_credentials(directory), read_data(directory)
    except (PlanInvalid, UsageError):
        if state.stop_reason not in FINAL_STOPS:
            raise
        return None
    named = [*every_variable(directory)]
    own = {each.env_var for each in credentials.values()}  # which are known by the names of their credentials
    others = [each for each in named if each.variable not in own]
    values = {**dict(_passwords(_section(settings, "sql", "databases"))), **dict(_values(others))}
    hidden = {each.variable for each in named}
    if not credentials and not values and hidden.isdisjoint(os.environ):
        return None
    vault = Vault(credentials, os.environ, hidden)
    vault.know(sorted(every_secret(state.plan.tasks)))
    for name, value in values.items():
        vault.redactor.add(name, os.fsencode(value))
    return vault


def require_none_in(params: Mapping[str, Json], vault: Vault) -> None:
    """Raises UsageError for a parameter whose value holds a secret of the run: it would be kept with the run."""
    for name, value in params.items():
        if vault.redactor.data(value) != value:
            raise UsageError(
                f"the parameter `{name}` holds a secret, and parameters are kept with the run",
                "let the task that needs it declare it: `secrets: [ID]`, which gives it a variable",
            )


def every_variable(directory: str) -> Iterator[NamedVariable]:
    """The variables that the settings of a project name for a secret, also those that a profile names which does not
    hold now, or that the profile which holds sets aside. Raises as ``read_settings``."""
    settings = read_settings(directory)
    written = [to_json(part.tree) for part in settings.parts if part.tree is not None]
    said = [settings.data, *(each for each in written if isinstance(each, dict))]
    said += [over for each in said for over in _section(each, "profiles").values() if isinstance(over, dict)]
    for each in said:
        yield from named_variables(each)
        names = [entry["auth"].get("env_var") for entry in each.get(CREDENTIALS) or ()]
        yield from (NamedVariable(name) for name in names if name)


def named_variables(settings: dict[str, Any]) -> Iterator[NamedVariable]:
    """The variables that sections other than the credentials name for a secret, and those of planrunner's own. They are
    in the environment of no task: capabilities and services that use one read it from that of the runner."""
    names = [*_OWN, _section(settings, "forge").get("token")]
    names += [each.get("password") for each in _section(settings, "git", "credentials").values()]
    if models := [each for each in _section(settings, "models").values() if isinstance(each, dict)]:
        names += [each.get("key_env") or load(_USUAL_KEYS).get(each.get("provider", "")) for each in models]
    notices = [each for each in settings.get("notify") or () if isinstance(each, dict)]
    names += [_section(each, "webhook").get("secret_env") for each in notices]
    names += [each.get("apprise_env") for each in notices]
    if settings.get("telemetry") is not None:
        names += [name for name in os.environ if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("HEADERS")]
    yield from map(NamedVariable, filter(None, names))
    stores = (*_section(settings, "sql", "databases").values(), *_section(settings, "memory").values())
    addresses = [each.get("url_env") for each in stores if isinstance(each, dict)]
    yield from (NamedVariable(name, "address") for name in (JOURNAL, *filter(None, addresses)))


def _values(named: Iterable[NamedVariable]) -> Iterator[tuple[str, str]]:
    """What these variables hold, as far as it can be told from other text."""
    for name, holds in map(astuple, named):
        if holds == "key":
            yield from _worth_it(name, os.environ.get(name, "").strip())
        else:
            yield from _passwords({name: {"url_env": name}})


def _section(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        settings = settings.get(name) or {}
    return settings


def _worth_it(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Shorter ones stand in any text by chance."""
    if len(os.fsencode(value)) >= load(_SHORTEST):
        yield name, value


def _passwords(databases: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Passwords in addresses of databases."""
    for database, given in databases.items():
        entry = given if isinstance(given, dict) else {"url": given}
        name = entry.get("url_env", "")
        try:
            password = urlsplit(os.environ.get(name, "") if name else str(entry.get("url", ""))).password
        except ValueError:  # no address: told by the task that uses it
            continue
        yield from _worth_it(name or database, unquote(password or ""))


def hidden_variables(directory: str) -> tuple[str, ...]:
    """The variables that no task and no template sees, since the settings of a directory name them for a secret. Raises
    as ``read_settings``."""
    return tuple(sorted({each.variable for each in every_variable(directory)}))


def obligations_of(directory: str) -> Project:
    """What the project in a directory holds its plans to when they are checked, with those variables."""
    project = obligations(directory)
    try:
        known = {each.env_var for each in read_credentials(directory).values()}  # which have a finding of their own
        return project._replace(hidden=tuple(name for name in hidden_variables(directory) if name not in known))
    except (PlanInvalid, UsageError):
        return project


def without_hidden(names: tuple[str, ...], directory: str) -> tuple[str, ...]:
    """Names of environment variables that templates read, without those that credentials come from and that settings
    name for a secret."""
    hidden = hidden_variables(directory)
    return tuple(name for name in names if name not in hidden)
