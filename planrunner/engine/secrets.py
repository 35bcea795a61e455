"""The secrets of one run: looked up once, handed to the processes that declare them, and taken out of what is told.

A process gets a secret in a variable, in a file or by an open descriptor. None of them is an argument, and nothing of
them goes into the call, its digest or the journal.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.contract import Call, Failure, Spawn
from planrunner.fileio import path_for_children, unnamed
from planrunner.frozen import EMPTY
from planrunner.machine.events import AttemptEnded, BackupMade, UndoEnded
from planrunner.plan.tasks import DeclaredSecret, declared_secrets
from planrunner.records import Struct, fields
from planrunner.redaction import SHORTEST, Redactor
from planrunner.safety.credentials import Credential, Unresolved, unknown, value_of

if TYPE_CHECKING:
    from planrunner.engine.output import Secrecy


class Vault:
    """Values by the ids of their credentials. ``environment`` is that of the runner; processes get what is left of it
    without the variables that credentials come from, and without those ``named`` for other secrets. Any thread may use
    it."""

    def __init__(
        self, credentials: Mapping[str, Credential], environment: Mapping[str, str], named: Iterable[str] = ()
    ) -> None:
        self._credentials = credentials
        self._environment = environment
        self._lock = Lock()
        self._values: dict[str, bytes] = {}
        self.redactor = Redactor()
        self.missing: dict[str, str] = {}
        """Why those that were looked up before the run cannot be had."""
        hidden = {each.env_var for each in credentials.values()} | {*named}
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

    def value(self, name: str, again: bool = False) -> bytes:
        """The value of a credential; ``again`` looks it up again, since it may have changed. Raises
        Failure (policy) where there is no such credential, or its source does not give it."""
        credential = self._found(name)
        with self._lock:
            if again or name not in self._values:
                try:
                    value = value_of(credential, self._environment)
                except Unresolved as unresolved:
                    raise Failure(str(unresolved), "policy", rule="secret.missing") from None
                self.redactor.add(name, value)
                self._values[name] = value
            return self._values[name]

    def _found(self, name: str) -> Credential:
        credential = self._credentials.get(name)
        if credential is None:
            help_ = unknown(name, self._credentials)
            message = f"planrunner.yaml has no credential `{name}` under `provider_credentials`: {help_}"
            raise Failure(message, "policy", rule="secret.missing")
        return credential


OWN = ".own/scratch"
"""How the scratch folder of an attempt ends whose processes may be shut in."""
_FIRST = 3
"""The number that the first descriptor has in the process: the one after standard error."""
_HIGH = 200
"""Here they have numbers from this one on, so that none of them is in the way of another one's number there."""


class Grant(Struct):
    """What a process is given: variables, the files that some of them name, and descriptors that it gets as 3, 4, …"""

    env: dict[str, str] = EMPTY
    files: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    """Files without a name that some of the variables name, open as long as they may be read."""

    def laid_over(self, spawn: Spawn) -> Spawn:
        """A process to start, with what it is given."""
        return spawn._replace(env={**spawn.env, **self.env}, descriptors=self.descriptors)

    def withdraw(self) -> None:
        """Take back what outlives the attempt."""
        for path in self.files:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        for descriptor in (*self.descriptors, *self.held):
            os.close(descriptor)


def grant(vault: Vault | None, call: Call, again: bool) -> Grant:
    """Hand the secrets of a task over. Raises Failure (policy) where one of them cannot be had."""
    granted = Grant()
    try:
        for wish in declared_secrets(call.task.secrets):
            granted = _with(granted, wish, needed(vault, wish.id), call, again)
    except BaseException:
        granted.withdraw()
        raise
    return granted


def needed(vault: Vault | None, name: str) -> Vault:
    """The vault of the run; raises Failure (policy) where the project has none for the credential ``name``."""
    if vault is None:
        message = f"the credential `{name}` is asked for, and the project has no `provider_credentials`"
        raise Failure(f"{message}: {unknown(name, ())}", "policy", rule="secret.missing")
    return vault


_FIRST_OF_A_RUN = Lock()


def conceal(secrecy: Secrecy, name: str, value: str) -> None:
    """Look for a value that no credential of the project is, from now on; a run without credentials begins with its
    first one. From any thread."""
    data = value.encode("utf-8", "surrogateescape")
    if len(data) < SHORTEST:
        return
    with _FIRST_OF_A_RUN:
        redactor = secrecy.redactor = secrecy.redactor or Redactor()
    redactor.add(name, data)


def _with(granted: Grant, wish: DeclaredSecret, vault: Vault, call: Call, again: bool) -> Grant:
    value = vault.value(wish.id, again)
    variable = wish.variable or vault.variable(wish.id)
    if wish.way == "file" and call.scratch and not is_apart(call):
        memory = _memory(value)
        granted = granted._replace(held=(*granted.held, memory))
        return granted._replace(env={**granted.env, variable: path_for_children(memory)})
    if wish.way == "file":
        path = f"{call.scratch}.{os.urandom(6).hex()}.secret"
        granted = granted._replace(files=(*granted.files, path))
        if not call.scratch:
            raise Failure(
                "a call without a folder for scratch files is given no secret in a file",
                "policy",
                rule="secret.missing",
            )
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(value)
        return granted._replace(env={**granted.env, variable: path})
    if wish.way == "fd":
        given = f"/dev/fd/{_FIRST + len(granted.descriptors)}"
        descriptors = (*granted.descriptors, _memory(value))
        return granted._replace(env={**granted.env, variable: given}, descriptors=descriptors)
    return granted._replace(env={**granted.env, variable: os.fsdecode(value)})


def is_apart(call: Call) -> bool:
    """Whether the processes of a call may be shut in: they see no file but by its name."""
    return call.scratch.endswith(OWN)


def told_unnamed(call: Call) -> tuple[int, str]:
    """A file without a name for the outputs of a process, and the path by which that finds it; -1 and no path where
    none can be made."""
    folder = os.path.dirname(call.scratch)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = unnamed(folder)
    except OSError:  # what is wrong with the folder is told when the process is started
        return -1, ""
    return descriptor, path_for_children(descriptor)


def _memory(value: bytes) -> int:
    """A descriptor that reads the value, and reads it again each time it is opened by its path."""
    handle = os.memfd_create("secret", os.MFD_CLOEXEC)
    try:
        os.fchmod(handle, 0o600)
        os.write(handle, value)
        os.lseek(handle, 0, os.SEEK_SET)
        return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    finally:
        os.close(handle)


_PLAN_SAYS = frozenset(
    ("task", "attempt", "visit", "patterns", "failure", "resolution", "policy", "reason", "round", "since", "asked")
)
"""Fields of events that hold names of the plan or words of the language."""


def without_secrets(redactor: Redactor, value: Any) -> Any:
    """An event, or what a thread found out for one, without the secrets that the redactor knows. What was noted to undo
    a task is refused where it holds one: put back without it, it would not be what was there."""
    if isinstance(value, (AttemptEnded, UndoEnded)):
        return value._replace(
            outcome=value.outcome._replace(
                message=redactor.text(value.outcome.message),
                outputs=redactor.data(value.outcome.outputs),
                stdout=redactor.text(value.outcome.stdout),
                stderr=redactor.text(value.outcome.stderr),
                artifacts=_clean(redactor, value.outcome.artifacts),
                refused=_clean(redactor, value.outcome.refused),
            )
        )
    if isinstance(value, BackupMade):
        return _backup(redactor, value)
    if fields(value):
        told = {name: _clean(redactor, getattr(value, name)) for name in fields(value) if name not in _PLAN_SAYS}
        return value._replace(**told)
    return _clean(redactor, value)


def _clean(redactor: Redactor, value: Any) -> Any:
    """Like ``Redactor.data``, and a tuple stays one."""
    if isinstance(value, tuple):
        return tuple(_clean(redactor, each) for each in value)
    return redactor.data(value)


def _backup(redactor: Redactor, made: BackupMade) -> BackupMade:
    problem = redactor.text(made.problem)
    if _clean(redactor, made.files) == made.files:
        return made._replace(problem=problem)
    told = "what its capability noted to undo it holds a secret, which is kept nowhere: say `irreversible: true`"
    return made._replace(files=(), problem=problem or told)
