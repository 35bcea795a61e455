"""The MCP servers of a project, as `tools:` of planrunner.yaml names them: plans choose among them and add none."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.headers import header_name, is_line
from planrunner.escapes import harmless
from planrunner.frozen import EMPTY
from planrunner.jsontext import stable_json
from planrunner.plan.nearest import nearest
from planrunner.plan.rights import CapabilityUse, Decision, Level, capability

Json = Any

LARGEST = 32 << 20
"""Bytes of one message of a server."""

_EXAMPLE = "tools: {docs: {mcp: [npx, -y, some-server]}}"
_PASSED = frozenset("PATH HOME USER LOGNAME LANG LC_ALL LC_CTYPE TMPDIR TZ PLANRUNNER_RUN_ID PLANRUNNER_EPOCH".split())
"""The variables of planrunner that the program of a server gets. Those of a task it does not: others use it too."""


class Server(NamedTuple):
    """A server: the ``command`` that starts it, with variables, or its ``url``, with headers. ``secrets`` are the
    credentials that go into variables or headers, by their names; ``only`` are patterns of its tools."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = EMPTY
    url: str = ""
    headers: Mapping[str, str] = EMPTY
    secrets: Mapping[str, str] = EMPTY
    only: tuple[str, ...] = ("*",)

    def has(self, tool: str) -> bool:
        """Whether the project lets plans use the tool of this name."""
        return any(fnmatchcase(tool, pattern) for pattern in self.only)


def chosen(context: Context, name: str) -> Server:
    """The server of that name. Raises Failure where the project has none, or describes it wrongly."""
    return entry(context.settings("tools"), name)


def entry(section: Mapping[str, Json], name: str) -> Server:
    """The server that the section ``tools`` has under a name. Raises Failure that says what to write instead."""
    given = section.get(name)
    if not isinstance(given, dict) or "mcp" not in given:
        raise Failure(unknown(name, servers(section)))
    only = given.get("tools") or ("*",)
    read = _read(name, given["mcp"])
    return read._replace(only=(only,) if isinstance(only, str) else tuple(map(str, only)))


def servers(section: Mapping[str, Json]) -> list[str]:
    """The names of the entries of ``tools`` that are MCP servers."""
    return sorted(name for name, given in section.items() if isinstance(given, dict) and "mcp" in given)


def listing(rights: Iterable[Level], server: str) -> Decision:
    """Whether policies let the tools of a server be listed, and so be offered to a model."""
    return capability(rights, CapabilityUse("mcp.tools", {"server": server}, final=True))


def unknown(name: str, known: list[str]) -> str:
    """What is said of a name that no server has."""
    if not known:
        return f"no MCP server `{name}`: planrunner.yaml has none; add, for example, `{_EXAMPLE}`"
    close = nearest(name, known)
    hint = f"did you mean `{close}`?" if close else f"it has {', '.join(known[:8])}"
    return f"planrunner.yaml has no MCP server `{name}` under `tools`: {hint}"


def _read(name: str, said: Json) -> Server:
    where = f"planrunner.yaml: `tools: {name}: mcp:`"
    said = said if isinstance(said, dict) else {"url" if is_address(said) else "command": said}
    secrets = {variable: str(credential) for variable, credential in (said.get("secrets") or {}).items()}
    if said.get("url"):
        headers = {header_name(key): str(value) for key, value in (said.get("headers") or {}).items()}
        if said.get("credential"):
            secrets[header_name(said.get("header") or "authorization")] = str(said["credential"])
        return Server(name, url=str(said["url"]), headers=headers, secrets=secrets)
    try:
        command = words(said.get("command"))
    except ValueError as error:
        raise Failure(f"{where} {error}") from None
    env = {variable: str(value) for variable, value in (said.get("env") or {}).items()}
    return Server(name, command, env, secrets=secrets)


def is_address(said: Json) -> bool:
    """Whether what is written under ``mcp`` is the address of a server and not a command."""
    return isinstance(said, str) and said.lower().startswith(("http://", "https://"))


def words(command: Json) -> tuple[str, ...]:
    """The words of a command, which is written as a list or in one text. Raises ValueError."""
    try:
        found = shlex.split(command) if isinstance(command, str) else [str(word) for word in command or ()]
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {str(error).lower()}") from None
    if not found or not found[0]:
        raise ValueError("has no command")
    return tuple(found)


class Start(NamedTuple):
    """All that a connection is made from. ``digest`` tells apart what may not be shared: another command, another
    secret, other rights."""

    server: Server
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    headers: Mapping[str, str]
    directory: str
    digest: str


def start_of(context: Context, server: Server) -> Start:
    """What a connection to the server is made from here. Raises Failure (policy) where a credential cannot be had."""
    secrets = {name: context.credential(credential) for name, credential in server.secrets.items()}
    if server.url:
        headers = {**server.headers, **{name: _header(server, name, value) for name, value in secrets.items()}}
        env: dict[str, str] = {}
    else:
        headers = {}
        passed = {name: value for name, value in context.environment().items() if name in _PASSED}
        env = {**passed, **server.env, **secrets}
    rights = [level.data for level in context.call.rights]
    directory = (context.services.directory() if context.services is not None else "") or context.call.directory
    told = [server.command, server.url, env, headers, rights, directory]
    digest = sha256(stable_json(told).encode("utf-8", "surrogatepass")).hexdigest()
    return Start(server, server.command, env, headers, directory, digest)


def _header(server: Server, name: str, value: str) -> str:
    if not is_line(value):
        raise Failure(f"the credential `{server.secrets[name]}` is not one line of ASCII text", rule="secret.line")
    return f"Bearer {value}" if name == "authorization" else value


def line(text: str) -> str:
    """Words of a server in one line of a message."""
    return harmless(" ".join(text.split()))[:300]
