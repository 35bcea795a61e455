"""Addresses of pages: one spelling for each, and whose they are."""

from __future__ import annotations

from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from planrunner.capabilities.contract import Failure

_PORTS = {"http": 80, "https": 443}
_SAFE = "/%:@!$&'()*+,;=~-._"
_LONGEST = 4_096


def canonical(url: str) -> str:
    """The address as it is asked for: scheme and host in small letters, no fragment, no default port, no spaces. Raises
    Failure for what is no http address, and (policy) for one with a password in it."""
    text = url.strip()
    try:
        text.encode()
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise Failure(f"`{text[:200]}` is no address: {error}") from None
    if parts.scheme.lower() not in _PORTS or not host or len(text) > _LONGEST:
        raise Failure(f"`{text[:200]}` is no http or https address")
    if parts.username is not None or parts.password is not None:
        raise Failure(f"the address of a page on {host} carries a name or a password", "policy", rule="git.credentials")
    place = f"[{host}]" if ":" in host else _ascii(host)
    if port is not None and port != _PORTS[parts.scheme.lower()]:
        place = f"{place}:{port}"
    path, query = quote(parts.path or "/", safe=_SAFE), quote(parts.query, safe=_SAFE + "?")
    return urlunsplit((parts.scheme.lower(), place, path, query, ""))


def joined(url: str, reference: str) -> str:
    """The canonical address that a page at ``url`` refers to. Raises as ``canonical``."""
    try:
        return canonical(urljoin(url, reference))
    except ValueError as error:
        raise Failure(f"`{reference[:200]}` is no address: {error}") from None


def _ascii(host: str) -> str:
    if host.isascii():
        return host.lower()
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        raise Failure(f"`{host}` is no name of a host") from None


def origin(url: str) -> str:
    """Scheme, host and port of a canonical address: what one robots.txt speaks for."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def host(url: str) -> str:
    return urlsplit(url).hostname or ""
