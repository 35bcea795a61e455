"""Which hosts and addresses plans may reach: the public ones, and what the operator's planrunner.yaml lists.

A host is looked up once, every address it stands for is judged, and the connection goes to a judged address: a name
that answers differently the next time, or a redirect, comes through here like the first request.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from planrunner.capabilities.contract import Failure
from planrunner.jsontext import shown
from planrunner.plan.policy_checks import refusal
from planrunner.plan.rights import Access, Decision, Level, entries, host, restricts

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Endpoint(NamedTuple):
    """A checked address to connect to, as the socket functions take it."""

    family: int
    address: tuple[Any, ...]


class Rule(NamedTuple):
    """One entry of `network.private` or `network.allow`; port 0 stands for every port."""

    host: str
    network: Network | None
    port: int

    def names(self, host: str, port: int) -> bool:
        """Whether it is for this host by its name."""
        if self.network is not None or self.port not in (0, port):
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return host == self.host

    def covers(self, address: Address, port: int) -> bool:
        """Whether it is for this address."""
        return self.network is not None and self.port in (0, port) and address in self.network


class Guard:
    """The rules of one run. Raises Failure (policy) when made from entries that cannot be read."""

    __slots__ = ("_allow", "_levels", "_private", "_settings")

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._private = _rules(settings.get("private"), "private")
        self._allow = _rules(settings.get("allow"), "allow") if settings.get("allow") is not None else None
        self._levels = [_Limits.of(level) for level in settings.get("levels", ()) if restricts(level.data, "network")]

    def admit(self, host: str, port: int) -> list[Endpoint]:
        """Look the host up and give the addresses to connect to.

        Raises Failure (policy) if the host or any of its addresses is not allowed, and OSError if it is not found.
        """
        name = self._named(host, port)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError:
            raise Failure(f"`{host[:100]}` is not the name of a host") from None
        addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
        for address in addresses:
            self._refuse(name, port, address)
        return [Endpoint(entry[0], entry[4]) for entry in found]

    def foresee(self, url: str) -> None:
        """Raises Failure (policy) where it is sure before any look-up that the host of an address is refused: one that
        no rule lets through by its name, an address itself, and this machine by its name."""
        try:
            parts = urlsplit(url)
            port = parts.port or (80 if parts.scheme == "http" else 443)
        except ValueError:
            return
        if not parts.hostname or not parts.hostname.isascii():
            return
        name = self._named(parts.hostname, port)
        if name == "localhost" and self._lets(name, port, _THIS_MACHINE[1]):
            return
        for address in _THIS_MACHINE[:1] if name == "localhost" else _written(name):
            self._refuse(name, port, address)

    def _lets(self, name: str, port: int, address: Address) -> bool:
        try:
            self._refuse(name, port, address)
        except Failure:
            return False
        return True

    def _named(self, host: str, port: int) -> str:
        """The host as rules compare it. Raises Failure (policy) where its name alone is refused."""
        name = plain_name(host)
        if not name:
            raise Failure("the address has no host", rule="network.address")
        self._refuse_unlisted(name, port)
        self._refuse_by_policy(name, port)
        return name

    def _refuse_unlisted(self, name: str, port: int) -> None:
        """Refuse before the name is looked up what no rule can let through: a lookup tells others the name."""
        allow = self._allow
        if allow is None or any(rule.network is not None or rule.names(name, port) for rule in allow):
            return
        raise Failure(
            f"refused to connect to {name}: {self._missing('allow', _entry(name, port))}", rule="network.allow"
        )

    def _refuse(self, name: str, port: int, address: Address) -> None:
        self._refuse_address(name, port, address)
        real = unwrapped(address)
        shown = str(address) if name == str(address) else f"{name} ({address})"
        allow = self._allow
        if allow is not None and not _listed(allow, name, port, real, address):
            raise Failure(
                f"refused to connect to {shown}: {self._missing('allow', _entry(name, port))}", rule="network.allow"
            )
        why = next((why for one in real if (why := not_public(one))), "")
        if why and not _listed(self._private, name, port, real, address):
            entry = _entry(str(real[0] if len(real) == 1 else address), port)
            raise Failure(
                f"refused to connect to {shown}, {why}: {self._missing('private', entry)}", rule="network.private"
            )

    def _refuse_by_policy(self, name: str, port: int) -> None:
        """What the levels of policy say to the name; networks in them wait for its addresses."""
        right = host([limits.level for limits in self._levels], name, port)
        if right.verdict == "deny":
            raise Failure(refusal(_wanted(name, port), right), rule=right.rule)

    def _refuse_address(self, name: str, port: int, address: Address) -> None:
        real = unwrapped(address)
        for limits in self._levels:
            found = next((rule for rule in limits.deny if _listed((rule,), name, port, real, address)), None)
            if found is not None:
                right = Decision("deny", "policy.network.deny", str(found.network or found.host), limits.level)
            elif limits.allow is not None and not _listed(limits.allow, name, port, real, address):
                right = Decision("deny", "policy.network.allow", "", limits.level)
            else:
                continue
            raise Failure(refusal(_wanted(name, port), right), rule=right.rule)

    def _missing(self, key: str, entry: str) -> str:
        """The line that would allow it, with what stands there now."""
        sections = {name: list(value) for name in ("private", "allow") if (value := self._settings.get(name))}
        sections[key] = [*sections.get(key, ()), entry]
        parts = ", ".join(f"{name}: {json.dumps(entries)}" for name, entries in sections.items())
        return f"if plans may reach it, write in planrunner.yaml: network: {{{parts}}}"


_THIS_MACHINE: tuple[Address, ...] = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))
"""What `localhost` may stand for."""


def _written(name: str) -> tuple[Address, ...]:
    """The address that a host is written as; none of a name."""
    try:
        return (ipaddress.ip_address(name),)
    except ValueError:
        return ()


class _Limits(NamedTuple):
    """What one level of policy says about the network; what it asks for was asked, so it is allowed."""

    level: Level
    allow: tuple[Rule, ...] | None
    deny: tuple[Rule, ...]

    @classmethod
    def of(cls, level: Level) -> _Limits:
        section = level.data["network"]
        allow, ask, deny = (entries(section, verdict) for verdict in ("allow", "ask", "deny"))
        allowed = None if allow is None or "*" in allow else (*allow, *(ask or ()))
        rules = [
            tuple(_rule(entry, "policy.network") for entry in listed if entry != "*")  # that one is for names
            for listed in (allowed or (), deny or ())
        ]
        return cls(level, None if allowed is None else rules[0], rules[1])


def _wanted(name: str, port: int) -> Access:
    entry = _entry(name, port)
    return Access(f"the host {entry}", "network", entry)


def _listed(rules: Sequence[Rule], name: str, port: int, real: Sequence[Address], address: Address) -> bool:
    """Whether the rules name the host, the address as it is written, or every address it leads to."""
    if any(rule.names(name, port) or rule.covers(address, port) for rule in rules):
        return True
    return all(any(rule.covers(one, port) for rule in rules) for one in real)


def plain_name(host: str) -> str:
    """A host as rules compare it: lower case, without the dot at the end and the brackets of an IPv6 address."""
    return host.strip("[]").rstrip(".").lower()


def unwrapped(address: Address) -> tuple[Address, ...]:
    """The addresses that one leads to: what IPv6 forms carry inside (mapped, translated, tunnelled), else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    bits = int(address)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if address in _NAT64:
        return (ipaddress.IPv4Address(bits & 0xFFFFFFFF),)
    if (bits >> 32) & 0xFDFFFFFF == 0x5EFE:  # ISATAP: the last half is 0000:5efe or 0200:5efe and an IPv4 address
        return (address, ipaddress.IPv4Address(bits & 0xFFFFFFFF))
    return (address,)


def not_public(address: Address) -> str:
    """What kind of address it is if it is not one of the public internet, else an empty string."""
    if isinstance(address, ipaddress.IPv4Address):
        return next((what for network, what in _SPECIAL_4 if address in network), "")
    if address not in _GLOBAL_UNICAST:
        return next((what for network, what in _SPECIAL_6 if address in network), "an address out of a reserved range")
    return next((what for network, what in _RESERVED_6 if address in network), "")


def _rules(entries: Any, key: str) -> tuple[Rule, ...]:
    if entries is None:
        return ()
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise Failure(
            f"planrunner.yaml: `network.{key}` must be a list of hosts and addresses", rule="settings.network"
        )
    return tuple(_rule(entry, f"network.{key}") for entry in entries)


def _rule(entry: Any, where: str) -> Rule:
    """Read `host`, `*.domain`, an address or a network in CIDR form, each with or without a port."""
    text = entry.strip().lower() if isinstance(entry, str) else ""
    body, port = _port_of(text)
    try:
        if port >= 0:
            return Rule("", ipaddress.ip_network(body), port)
    except ValueError:
        pass
    name = body.rstrip(".")
    try:
        name = name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        name = ""
    if port < 0 or not _NAME.fullmatch(name.removeprefix("*.")):
        said = "a host, an address or a network such as 10.0.0.0/8, with or without a port"
        raise Failure(
            f"planrunner.yaml: `{where}` has the entry {shown(entry)}, expected {said}", rule="settings.network"
        )
    return Rule(name, None, port)


def _port_of(text: str) -> tuple[str, int]:
    """The entry without its port, and the port: 0 where none is given, -1 where it is not a port."""
    if text.startswith("["):
        body, bracket, rest = text[1:].partition("]")
        return body, _port(rest[1:]) if rest.startswith(":") else (-1 if rest or not bracket else 0)
    body, colon, rest = text.rpartition(":")
    if not colon or ":" in body:
        return text, 0
    return body, _port(rest)


def _port(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 65536 else -1


def _entry(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _table(text: str) -> tuple[tuple[Network, str], ...]:
    lines = (line.split(" ", 1) for line in text.strip().splitlines())
    return tuple((ipaddress.ip_network(network), what) for network, what in lines)


_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")

_SPECIAL_4 = _table("""
0.0.0.0/8 an address of this machine
127.0.0.0/8 an address of this machine
10.0.0.0/8 a private address
172.16.0.0/12 a private address
192.168.0.0/16 a private address
100.64.0.0/10 a private address (shared by a provider)
169.254.0.0/16 a link-local address (cloud metadata is served there)
168.63.129.16/32 an address of the cloud's platform
192.0.0.0/24 an address reserved for protocols
192.0.2.0/24 an address for documentation
198.51.100.0/24 an address for documentation
203.0.113.0/24 an address for documentation
192.88.99.0/24 an address reserved for relays
198.18.0.0/15 an address for benchmarks
224.0.0.0/4 a multicast address
240.0.0.0/4 an address out of a reserved range
""")
"""Kept here rather than asked of ``ipaddress``, whose answers differ between versions of Python."""

_SPECIAL_6 = _table("""
::/128 an address of this machine
::1/128 an address of this machine
fc00::/7 a private address
fe80::/10 a link-local address
fec0::/10 a private address
ff00::/8 a multicast address
""")

_RESERVED_6 = _table("""
2001::/23 an address reserved for protocols
2001:db8::/32 an address for documentation
3fff::/20 an address for documentation
2002::/16 an address of a tunnel
""")
