"""The credentials of a project as a run needs them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from planrunner.capabilities.llm.models import USUAL_KEYS
from planrunner.engine.secrets import Vault
from planrunner.errors import PlanInvalid, UsageError
from planrunner.journal.stores import VARIABLE as JOURNAL
from planrunner.machine.stops import FINAL_STOPS
from planrunner.plan.tasks import every_secret
from planrunner.redaction import SHORTEST
from planrunner.safety.credentials import read_credentials
from planrunner.safety.project import read_data

if TYPE_CHECKING:
    from planrunner.machine.state import State

Json = Any


def vault_of(state: State, directory: str) -> Vault | None:
    """The secrets of a run, those that its tasks declare and those that settings name looked up; None where the project
    has neither. Raises as ``read_credentials``, but for a run that only ends: that it does whatever the file says."""
    try:
        credentials, named = read_credentials(directory), dict(_named(read_data(directory)))
    except (PlanInvalid, UsageError):
        if state.stop_reason not in FINAL_STOPS:
            raise
        return None
    if not credentials and not named:
        return None
    vault = Vault(credentials, os.environ)
    vault.know(sorted(every_secret(state.plan.tasks)))
    for name, value in named.items():
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


def _named(settings: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys, tokens and passwords that sections other than the credentials name, by the variable they are in: whatever
    runs beside the capability that uses them finds them in its environment too."""
    variables = [_section(settings, "forge").get("token")]
    variables += [each.get("password") for each in _section(settings, "git", "credentials").values()]
    if models := [each for each in _section(settings, "models").values() if isinstance(each, dict)]:
        variables += [each.get("key_env") or USUAL_KEYS.get(each.get("provider", "")) for each in models]
    for name in filter(None, variables):
        yield from _worth_it(name, os.environ.get(name, "").strip())
    yield from _passwords(_section(settings, "sql", "databases"))
    yield from _passwords({JOURNAL: {"url_env": JOURNAL}})
    stores = _section(settings, "memory").items()
    yield from _passwords({name: store for name, store in stores if isinstance(store, dict) and "url_env" in store})


def _section(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        settings = settings.get(name) or {}
    return settings


def _worth_it(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Shorter ones stand in any text by chance."""
    if len(os.fsencode(value)) >= SHORTEST:
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


def without_hidden(names: tuple[str, ...], directory: str) -> tuple[str, ...]:
    """Names of environment variables that templates read, without those that credentials come from."""
    hidden = {each.env_var for each in read_credentials(directory).values()}
    return tuple(name for name in names if name not in hidden)
