"""Other repositories: their addresses, the transports and hosts that are allowed, and the failures of git with them."""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from typing import Literal, NamedTuple
from urllib.parse import unquote

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.scope import require_let
from planrunner.capabilities.git.command import Git, Refused, checked_reference
from planrunner.capabilities.git.repository import Repository
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
        raise Failure(f"{_quoted(text)} is not the address of a repository", "policy", rule="git.address")
    if found := _URL.fullmatch(text):
        return _from_url(text, found)
    if "://" in text:
        raise Failure(f"{_quoted(text)} is not the address of a repository", "policy", rule="git.address")
    if not text.startswith(("/", ".")) and (found := _SCP.fullmatch(text)):
        return Address(text, "ssh", _host(found["host"]), PORTS["ssh"], found["user"] or "")
    return Address(text, "file")


def _from_url(text: str, found: re.Match[str]) -> Address:
    scheme, user = found["scheme"], found["user"] or ""
    if scheme == "file":
        if found["host"] or not found["path"]:
            raise Failure(f"{_quoted(text)} is not the address of a repository", "policy", rule="git.address")
        return Address(text, "file")
    if ":" in user or (user and scheme in ("http", "https")):
        raise Failure(
            "an address takes no user and no password: name them in `git: {credentials: …}`",
            "policy",
            rule="git.credentials",
        )
    if user.startswith("-") or not found["path"]:
        raise Failure(f"{_quoted(text)} is not the address of a repository", "policy", rule="git.address")
    if scheme not in PORTS:
        raise Failure(f"git does not go by `{scheme}:` here", "policy", rule="git.protocol")
    return Address(text, scheme, _host(found["host"]), int(found["port"] or PORTS[scheme]), user)


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise Failure(f"{_quoted(text)} is not the name of a host", "policy", rule="git.address")
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
            "policy",
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
                "`git:` takes an address in numbers: a name may change after it was checked",
                "policy",
                rule="git.protocol",
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
        raise Failure(f"{what} is not encrypted, so no secret is sent there: use https", "policy", rule="git.secret")


def _by_ssh(address: Address, reached: str) -> dict[str, str]:
    """Ssh that asks nothing, forwards nothing and goes to the address that was checked."""
    name = address.host.strip("[]")
    options: tuple[str, ...] = (
        "BatchMode=yes",
        "ProxyCommand=none",
        "PermitLocalCommand=no",
        "ClearAllForwardings=yes",
    )
    options += ("ForwardAgent=no", f"HostName={reached}", f"HostKeyAlias={name}")
    command = "ssh " + " ".join(f"-o {option}" for option in options)
    agent = {name: os.environ[name] for name in ("SSH_AUTH_SOCK",) if name in os.environ}
    return {"GIT_SSH_COMMAND": command, "GIT_SSH_VARIANT": "ssh", **agent}


def _by_http(context: Context, git: Git, address: Address, reached: list[str]) -> Git:
    """Http that goes to the checked addresses, follows no redirect, and has credentials for this host alone."""
    host = address.host.strip("[]")
    settings = []
    if host not in reached:
        if _version(git) < (2, 37):
            raise Failure("this git is too old to be held to an address that was checked: 2.37 or later is needed")
        shown = ",".join(f"[{each}]" if ":" in each else each for each in reached)
        settings.append(("http.curloptResolve", f"{host}:{address.port}:{shown}"))
    if authority := str(context.settings("network").get("ca") or ""):
        settings.append(("http.sslCAInfo", authority))
    variables = dict(git.variables)
    if given := _credentials(context, address):
        if address.scheme == "http":
            must_not_be_overheard(reached, address.origin)
        settings.append((f"credential.{address.origin}.helper", _HELPER))
        variables |= given
    return git._replace(settings=(*git.settings, *settings), variables=variables)


def _version(git: Git) -> tuple[int, int]:
    found = re.search(r"(\d+)\.(\d+)", git.text("version"))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _credentials(context: Context, address: Address) -> dict[str, str]:
    """User and secret for a host, out of the variables that the operator named for it."""
    known = context.settings("git").get("credentials", {})
    found = known.get(f"{address.host}:{address.port}") or known.get(address.host)
    if not found:
        return {}
    secret = secret_of(context, found["password"])
    return {
        "PLANRUNNER_GIT_USERNAME": str(found.get("username") or "git"),
        "PLANRUNNER_GIT_PASSWORD": secret,
    }


def secret_of(context: Context, name: str) -> str:
    """The secret in a variable of the task or of this process. Raises Failure where it is not set or not one line."""
    secret = context.call.env.get(name) or os.environ.get(name, "")
    if not secret or any(ord(char) < 32 for char in secret):
        raise Failure(f"the environment variable `{name}` holds no secret", "policy", rule="git.secret")
    context.conceal(name, secret)
    return secret


_PASSING = (
    "Could not resolve", "Connection refused", "Connection timed out", "Connection reset", "early EOF", "hung up",
    "The requested URL returned error: 5", "The requested URL returned error: 429", "Operation timed out",
    "Failed to connect", "unexpected disconnect", "RPC failed", "Empty reply", "transfer closed",
)  # fmt: skip
_DENIED = ("Authentication failed", "could not read Username", "could not read Password", "returned error: 401",
           "returned error: 403", "Permission denied", "Host key verification failed")  # fmt: skip

PACKS = ("--upload-pack=git-upload-pack",)
"""The program at the other end, whatever the repository's settings say."""


class Remote(NamedTuple):
    """Another repository: ``name`` is that of its settings, ``git`` is allowed to reach it."""

    name: str
    address: Address
    git: Git

    def ask(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        """Run git against it. Raises Failure in the class of what went wrong: transient, denied, policy, logic."""
        try:
            return self.git.run(*arguments, ok=ok).text
        except Refused as refused:
            raise failure_of(str(refused), kind_of(refused.said)) from None

    def value(self, reference: str) -> str:
        """What a reference, by its full name, points to there; empty where it does not exist."""
        listed = self.ask("ls-remote", *PACKS, "--end-of-options", self.address.text, reference)
        found = [line.split("\t") for line in listed.splitlines()]
        return next((digest for digest, name in found if name == reference), "")

    def has_branches(self) -> bool:
        """Whether there is any branch there."""
        return bool(self.ask("ls-remote", "--heads", *PACKS, "--end-of-options", self.address.text))

    def head(self) -> str:
        """The full name of the default branch there; empty where the server does not say."""
        listed = self.ask("ls-remote", "--symref", *PACKS, "--end-of-options", self.address.text, "HEAD")
        found = [line.removeprefix("ref: ").split("\t") for line in listed.splitlines() if line.startswith("ref: ")]
        return next((branch for branch, name in found if name == "HEAD"), "")


def kind_of(said: str) -> str:
    """The failure class of what git said about a remote repository."""
    if any(sign in said for sign in _DENIED):
        return "denied"
    if any(sign in said for sign in _PASSING):
        return "transient"
    return "policy" if "not allowed" in said else "logic"


def failure_of(message: str, kind: str) -> Failure:
    """The failure of a command about a remote repository; what git itself does not go by is refused by a rule."""
    return Failure(message, kind, rule="git.protocol" if kind == "policy" else "")


def remote_of(context: Context, repository: Repository, name: str, url: str = "", push: bool = False) -> Remote:
    """The remote of a name, at ``url`` or where the repository's settings say. Raises Failure where nothing says."""
    checked_reference(name, "remote")
    configured = (push and repository.get(f"remote.{name}.pushurl")) or repository.get(f"remote.{name}.url")
    text = url or configured
    if not text:
        raise Failure(f"the repository has no remote `{name}`: give its `url`")
    address = parsed(text)
    if address.scheme == "file" and "://" not in text and not text.startswith("/"):
        address = address._replace(text=os.path.join(context.call.directory if url else repository.top, text))
    require_repository(context, address, "write" if push else "read")
    return Remote(name, address, connected(context, repository.git, address))


def require_repository(context: Context, address: Address, way: Literal["read", "write"]) -> None:
    """Raises Failure (policy) where a repository of this machine may not be read, or written."""
    if address.scheme == "file" and context.call.rights:
        text = address.text
        place = unquote(text.removeprefix("file://")) if text.startswith("file://") else text
        require_let(context, place, way, whole=False)
