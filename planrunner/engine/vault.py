"""The secrets of one run: looked up once, given to tasks that declare them, known to the redactor ever after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock

from planrunner.capabilities.contract import Failure
from planrunner.redaction import Redactor
from planrunner.safety.credentials import Credential, unknown
from planrunner.safety.sources import Unresolved, value_of


class Vault:
    """Values by the ids of their credentials. ``environment`` is that of the runner; processes get what is left of it
    without the variables that credentials come from. Any thread may use it."""

    __slots__ = ("_credentials", "_environment", "_lock", "_values", "environment", "missing", "redactor")

    def __init__(self, credentials: Mapping[str, Credential], environment: Mapping[str, str]) -> None:
        self._credentials = credentials
        self._environment = environment
        self._lock = Lock()
        self._values: dict[str, bytes] = {}
        self.redactor = Redactor()
        self.missing: dict[str, str] = {}
        """Why those that were looked up before the run cannot be had."""
        hidden = {each.env_var for each in credentials.values()}
        self.environment = {name: value for name, value in environment.items() if name not in hidden}

    def know(self, names: Iterable[str]) -> None:
        """Look up what a run will need before its first task starts, so that no task prints it by another way."""
        for name in names:
            try:
                self.value(name)
            except Failure as failure:
                self.missing[name] = str(failure)

    def variable(self, name: str) -> str:
        """The variable in which a task finds a credential where it names no other. Raises Failure."""
        return self._found(name).variable

    def value(self, name: str, anew: bool = False) -> bytes:
        """The value of a credential; ``anew`` looks it up again, since it may have been changed for another one. Raises
        Failure (policy) where there is no such credential, or its source does not give it."""
        credential = self._found(name)
        with self._lock:
            if anew or name not in self._values:
                try:
                    value = value_of(credential, self._environment)
                except Unresolved as unresolved:
                    raise Failure(str(unresolved), "policy", rule="secret.missing") from None
                self.redactor.add(name, value)
                self._values[name] = value
            return self._values[name]

    def _found(self, name: str) -> Credential:
        found = self._credentials.get(name)
        if found is None:
            help_ = unknown(name, self._credentials)
            message = f"planrunner.yaml has no credential `{name}` under `provider_credentials`: {help_}"
            raise Failure(message, "policy", rule="secret.missing")
        return found
