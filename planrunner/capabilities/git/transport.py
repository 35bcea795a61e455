"""How other repositories are reached: their addresses, and the protocols, hosts and credentials that are allowed."""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from typing import Literal, NamedTuple
from urllib.parse import unquote

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.scope import require_let
from planrunner.capabilities.git.command import Git
from planrunner.capabilities.http.guard import Guard

USUAL = ("https", "http", "ssh")
PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}

_URL = re.compile(
    r"(?P<scheme>[a-z]+)://(?:(?P<user>[^/@]*)@)?(?P<host>\[[0-9a-fA-F:.]+\]|[^/:@\[\]]*)(?::(?P<port>\d+))?(?P<path>/.*)?"
)
_SCP = re.compile(r"(?:(?P<user>[A-Za-z0-9._-]+)@)?(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]):(?P<path>[^:].*)")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\]")

_HELPER = (
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" '
    '"$PLANRUNNER_GIT_USERNAME" "$PLANRUNNER_GIT_PASSWORD"; }; f'
)
"""Answers git's question for the one host it is set for; the secret itself is only in the environment."""


class Address(NamedTuple):
    """Where a repository is. ``text`` is the address as git gets it; host and port are empty for a local path."""

    text: str
    scheme: str
    host: str = ""
    port: int = 0
    user: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port, as git compares them."""
        standard = self.port == PORTS.get(self.scheme)
        return f"{self.scheme}://{self.host}" + ("" if standard else f":{self.port}")


def parsed(text: str) -> Address:
    """Read an address. Raises Failure (policy) for options, remote helpers, secrets and control characters in it."""
    if not text or text.startswith("-") or "::" in text.partition("[")[0] or any(ord(char) < 33 for char in text):
        raise Failure(f"{_quoted(text)} is not the address of a repository", rule="git.address")
    if match := _URL.fullmatch(text):
        return _from_url(text, match)
    if "://" in text:
        raise Failure(f"{_quoted(text)} is not the address of a repository", rule="git.address")
    if not text.startswith(("/", ".")) and (match := _SCP.fullmatch(text)):
        return Address(text, "ssh", _host(match["host"]), PORTS["ssh"], match["user"] or "")
    return Address(text, "file")


def _from_url(text: str, match: re.Match[str]) -> Address:
    scheme, user = match["scheme"], match["user"] or ""
    if scheme == "file":
        if match["host"] or not match["path"]:
            raise Failure(f"{_quoted(text)} is not the address of a repository", rule="git.address")
        return Address(text, "file")
    if ":" in user or (user and scheme in ("http", "https")):
        raise Failure(
            "an address takes no user and no password: name them in `git: {credentials: …}`", rule="git.credentials"
        )
    if user.startswith("-") or not match["path"]:
        raise Failure(f"{_quoted(text)} is not the address of a repository", rule="git.address")
    if scheme not in PORTS:
        raise Failure(f"git does not go by `{scheme}:` here", rule="git.protocol")
    return Address(text, scheme, _host(match["host"]), int(match["port"] or PORTS[scheme]), user)


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise Failure(f"{_quoted(text)} is not the name of a host", rule="git.address")
    return text


def _quoted(text: str) -> str:
    return repr(re.sub(r"//[^/@]*@", "//…@", text)[:200])


def connected(context: Context, git: Git, address: Address) -> Git:
    """Git that may reach this address and nothing else. Raises Failure (policy) where the operator does not let it."""
    project = context.settings("git")
    allowed = project.get("protocols", USUAL)
    if address.scheme not in allowed:
        raise Failure(
            f"git may not use `{address.scheme}:` addresses: if plans may, write in planrunner.yaml: "
            f"git: {{protocols: [{', '.join((*allowed, address.scheme))}]}}",
            rule="git.protocol",
        )
    variables = {**git.variables, "GIT_ALLOW_PROTOCOL": address.scheme}
    if address.scheme == "file":
        return git._replace(variables=variables)
    reached = admitted(context, address.host, address.port)
    if address.scheme == "ssh":
        return git._replace(variables={**variables, **_by_ssh(address, reached[0])})
    if address.scheme == "git":
        if address.host.strip("[]") not in reached:
            raise Failure(
                "`git:` takes an address in numbers: a name may change after it was checked", rule="git.protocol"
            )
        return git._replace(variables=variables)
    return _by_http(context, git._replace(variables=variables), address, reached)


def admitted(context: Context, host: str, port: int) -> list[str]:
    """The addresses of a host, all of which may be reached. Raises Failure: policy, or transient if it is not found."""
    try:
        found = Guard(context.settings("network")).admit(host.strip("[]"), port)
    except OSError as error:
        raise Failure(f"{host} is not found: {error.strerror or error}", "transient") from None
    return list(dict.fromkeys(str(endpoint.address[0]) for endpoint in found))


def must_not_be_overheard(addresses: list[str], what: str) -> None:
    """Raises Failure (policy) where a secret would go to a public address without encryption."""
    if any(ip_address(each.partition("%")[0]).is_global for each in addresses):
        raise Failure(f"{what} is not encrypted, so no secret is sent there: use https", rule="git.secret")


def _by_ssh(address: Address, reached: str) -> dict[str, str]:
    """Ssh that asks nothing, forwards nothing and goes to the address that was checked."""
    name = address.host.strip("[]")
    closed = ("BatchMode=yes", "ProxyCommand=none", "PermitLocalCommand=no", "ClearAllForwardings=yes")
    options = (*closed, "ForwardAgent=no", f"HostName={reached}", f"HostKeyAlias={name}")
    command = "ssh " + " ".join(f"-o {option}" for option in options)
    agent = {name: os.environ[name] for name in ("SSH_AUTH_SOCK",) if name in os.environ}
    return {"GIT_SSH_COMMAND": command, "GIT_SSH_VARIANT": "ssh", **agent}


def _by_http(context: Context, git: Git, address: Address, reached: list[str]) -> Git:
    """Http that goes to the checked addresses, follows no redirect, and has credentials for this host alone."""
    host = address.host.strip("[]")
    settings = []
    if host not in reached:
        version = re.search(r"(\d+)\.(\d+)", git.text("version"))
        if version is None or (int(version[1]), int(version[2])) < (2, 37):
            raise Failure("this git is too old to be held to an address that was checked: 2.37 or later is needed")
        shown = ",".join(f"[{each}]" if ":" in each else each for each in reached)
        settings.append(("http.curloptResolve", f"{host}:{address.port}:{shown}"))
    if authority := str(context.settings("network").get("ca") or ""):
        settings.append(("http.sslCAInfo", authority))
    variables = dict(git.variables)
    known = context.settings("git").get("credentials", {})
    if login := known.get(f"{address.host}:{address.port}") or known.get(address.host):
        secret = secret_of(context, login["password"])
        if address.scheme == "http":
            must_not_be_overheard(reached, address.origin)
        settings.append((f"credential.{address.origin}.helper", _HELPER))
        variables["PLANRUNNER_GIT_USERNAME"] = str(login.get("username") or "git")
        variables["PLANRUNNER_GIT_PASSWORD"] = secret
    return git._replace(settings=(*git.settings, *settings), variables=variables)


def secret_of(context: Context, name: str) -> str:
    """The secret in a variable of the task or of this process. Raises Failure where it is not set or not one line."""
    secret = context.call.env.get(name) or os.environ.get(name, "")
    if not secret or any(ord(char) < 32 for char in secret):
        raise Failure(f"the environment variable `{name}` holds no secret", rule="git.secret")
    context.conceal(name, secret)
    return secret


def require_repository(context: Context, address: Address, way: Literal["read", "write"]) -> None:
    """Raises Failure (policy) where a repository of this machine may not be read, or written."""
    if address.scheme == "file" and context.call.rights:
        text = address.text
        place = unquote(text.removeprefix("file://")) if text.startswith("file://") else text
        require_let(context, place, way, whole=False)
