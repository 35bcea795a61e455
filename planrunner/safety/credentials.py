"""The credentials of a project, ``provider_credentials`` of its file: names for secrets, and where each comes from.

The file never holds a secret. What a credential is comes out of its source when a run needs it (``sources.py``).
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from planrunner.errors import PlanrunnerError
from planrunner.extras import needed
from planrunner.plan.expressions.quantities import amount, parse_duration
from planrunner.plan.nearest import nearest
from planrunner.records import Struct
from planrunner.redaction import SHORTEST
from planrunner.safety.assignments import assignments
from planrunner.safety.project import CREDENTIALS as SECTION
from planrunner.safety.project import FILE, read_data, read_located
from planrunner.safety.settings import Part, id_of
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node, Scalar, to_json

Json = Any

TIMEOUT = 30.0
"""Seconds for a command that prints a secret, where its entry says nothing."""


class Credential(Struct):
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
    except PlanrunnerError:  # another program is writing the file
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


LARGEST = 64 << 10
"""Bytes of the largest secret."""

_LARGEST_FILE = 1 << 20


class Unresolved(Exception):
    """A credential cannot be had; the text says which, where its entry stands and ``why``, with what to do about it."""

    def __init__(self, credential: Credential, why: str) -> None:
        place = line_of(credential.directory, credential.id)
        super().__init__(f"the credential `{credential.id}` ({place}): {why}")
        self.why = why


def value_of(credential: Credential, environment: Mapping[str, str]) -> bytes:
    """The secret as bytes, without the end of its line. Raises Unresolved."""
    try:
        value = _SOURCES[credential.source](credential, environment).rstrip(b"\r\n")
        why = _unfit(value)
    except _Absent as absent:
        value, why = b"", str(absent)
    if why:
        raise Unresolved(credential, why)
    return value


def lacking(credential: Credential, environment: Mapping[str, str]) -> str:
    """Why a credential cannot be had, as far as that is sure without starting anything; empty where nothing is known
    against it."""
    if credential.source in ("env", "file"):
        try:
            value_of(credential, environment)
        except Unresolved as unresolved:
            return str(unresolved)
    if credential.source == "command":
        name = credential.command[0]
        path = name if name == os.path.basename(name) else os.path.join(credential.directory, os.path.expanduser(name))
        if shutil.which(path, path=environment.get("PATH")) is None:
            return str(Unresolved(credential, f"{name} is not installed"))
    return ""


def _unfit(value: bytes) -> str:
    """Why a value cannot serve as a secret; empty where it can."""
    if len(value) < SHORTEST:
        return f"its value has {len(value)} bytes; fewer than {SHORTEST} cannot be told from other text in logs"
    if len(value) > LARGEST:
        return f"its value has more than {LARGEST} bytes"
    return "its value holds a NUL byte" if b"\0" in value else ""


def readable_by_others(credential: Credential) -> str:
    """A warning where others may read the file of a credential, else nothing."""
    if credential.source != "file":
        return ""
    try:
        mode = stat.S_IMODE(os.stat(credential.path).st_mode)
    except OSError:
        return ""
    if not mode & 0o077:
        return ""
    whose = f"the file of the credential `{credential.id}` (mode {mode:04o})"
    return f"others may read {whose}: `chmod 600 {credential.file_path}`"


class _Absent(Exception):
    """Why a credential has no value."""


def _from_variable(credential: Credential, environment: Mapping[str, str]) -> bytes:
    value = environment.get(credential.env_var, "")
    if not value:
        state = "is empty" if credential.env_var in environment else "is not set"
        raise _Absent(f"{credential.place} {state}: set it, such as `export {credential.env_var}=…`")
    return os.fsencode(value)


def _from_file(credential: Credential, environment: Mapping[str, str]) -> bytes:
    try:
        with open(credential.path, "rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise _Absent(f"{credential.path} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST_FILE:
        raise _Absent(f"{credential.path} is larger than {_LARGEST_FILE} bytes")
    return _under_key(credential, data) if credential.file_key else data


def _under_key(credential: Credential, data: bytes) -> bytes:
    """What stands under ``file_key``: the key itself, or one that is reached over dots."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _Absent(f"{credential.path} is not a text, so it has no key `{credential.file_key}`") from None
    value: Json = _parsed(credential, text)
    if not (isinstance(value, dict) and credential.file_key in value):
        for part in credential.file_key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    else:
        value = value[credential.file_key]
    if not isinstance(value, str):
        state = "has no key" if value is None else "has no text under the key"
        raise _Absent(f"{credential.path} {state} `{credential.file_key}`")
    return value.encode()


def _parsed(credential: Credential, text: str) -> Json:
    """A file of JSON, YAML or ``NAME=value`` lines as data, by its ending or, without a known one, by its look."""
    ending = os.path.splitext(credential.file_path)[1]
    if ending in (".yaml", ".yml", ".json"):
        return _tree(credential, text)
    if os.path.basename(credential.file_path).startswith(".env") or ending in (".env", ".conf", ".ini", ".properties"):
        return _assignments(credential, text)
    first = next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    name = first.partition("=")[0].removeprefix("export ").strip()
    return _assignments(credential, text) if "=" in first and name.isidentifier() else _tree(credential, text)


def _tree(credential: Credential, text: str) -> Json:
    ending = "json" if text.lstrip().startswith("{") else "yaml"
    parsed = Part(text.encode(), credential.path, f"{credential.path}.{ending}")
    if parsed.tree is None or any(finding.severity == "error" for finding in parsed.findings):
        raise _Absent(f"{credential.path} is neither JSON nor YAML, nor lines such as NAME=value")
    return _as_written(parsed.tree)


def _as_written(node: Node) -> Json:
    """The data of a file in which a number is the text that was written: ``0012345`` is a password."""
    if isinstance(node, MappingNode):
        return {str(key.value): _as_written(value) for key, value in node.entries}
    if isinstance(node, Scalar) and type(node.value) in (int, float):
        return node.raw
    return to_json(node)


def _assignments(credential: Credential, text: str) -> dict[str, str]:
    """The values of ``NAME=value`` lines. Other lines, such as ``[section]``, say nothing; an assignment with an open
    quote is refused, since it would shift the lines behind it."""
    assigned: dict[str, str] = {}
    for name, value, line, written in assignments(text):
        if not name and "=" in written:
            raise _Absent(f"{credential.path}, line {line}: a quote is not closed, or text follows it")
        if value is not None:
            assigned[name] = value
    return assigned


def _from_command(credential: Credential, environment: Mapping[str, str]) -> bytes:
    """What a program prints. What it says on standard error may hold anything, and is not told."""
    name, *rest = credential.command
    words = [name if name == os.path.basename(name) else os.path.expanduser(name), *rest]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=credential.directory or None,
            env=dict(environment),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _Absent(f"{name} cannot be started: {getattr(error, 'strerror', None) or error}") from None
    try:
        printed, _ = process.communicate(timeout=credential.timeout)
    except subprocess.TimeoutExpired:
        raise _Absent(f"{name} took longer than {credential.timeout:g} s") from None
    finally:
        _end(process)
    if process.returncode:
        raise _Absent(f"{name} ended with {process.returncode}; try it by hand: `{' '.join(credential.command)}`")
    return printed


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command with whatever it started."""
    if process.returncode is not None:
        return
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _from_keyring(credential: Credential, environment: Mapping[str, str]) -> bytes:
    try:
        import keyring.errors  # late: an extra
    except ImportError as error:
        raise _Absent(needed("the keyring needs", "secrets", error)) from None
    try:
        value = keyring.get_password(credential.service, credential.username)
    except keyring.errors.KeyringError as error:
        raise _Absent(f"{credential.place} cannot be read: {error}") from None
    if value is None:
        raise _Absent(
            f"{credential.place} holds nothing: `keyring set {credential.service} {credential.username}` puts it there"
        )
    return str(value).encode()


_SOURCES: dict[str, Callable[[Credential, Mapping[str, str]], bytes]] = {
    "env": _from_variable,
    "file": _from_file,
    "command": _from_command,
    "keyring": _from_keyring,
}
