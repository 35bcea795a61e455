"""From the inputs of a task to what is asked: checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx2

from planrunner.capabilities.contract import Context, Failure, seconds
from planrunner.capabilities.contract import size as bytes_of
from planrunner.capabilities.http.content import Content, content_of, plain_values
from planrunner.capabilities.http.credentials import Credentials, credentials_of
from planrunner.capabilities.http.expected import Expected, expected_of
from planrunner.capabilities.http.headers import header_name, is_line
from planrunner.capabilities.http.inputs import INLINE, Creating
from planrunner.jsontext import shown

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})


class Patience(NamedTuple):
    """How often and after how many seconds to try again."""

    times: int = 2
    delay: float = 0.5
    max_delay: float = 60.0


class Ask(NamedTuple):
    """One request, ready to be sent as often as it takes."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: Content
    credentials: Credentials
    expected: Expected
    patience: Patience
    repeatable: bool
    timeout: Mapping[str, float | None] | None
    follow: bool
    limit: int
    save: str
    inline: int = INLINE
    """Bytes of the answer that are given as data and text rather than kept as an artifact."""

    @property
    def shown(self) -> str:
        """Method and address for messages and the log; a query may hold secrets."""
        return f"{self.method} {self.url.partition('?')[0]}"


def asked(context: Context, method: str, url: str, options: Mapping[str, Any], known: Any = Creating) -> Ask:
    """Read the inputs. Raises Failure for what does not make a request."""
    if unknown := sorted(options.keys() - known.__annotations__.keys()):
        raise Failure(f"unknown input `{unknown[0]}`")
    given = {name: value for name, value in options.items() if value is not None}
    spelled = _method(method)
    credentials = credentials_of(context, given.get("auth"))
    headers = _headers(given.get("headers"))
    key = _key(context, given)
    if key:
        headers[key[0]] = key[1]
    return Ask(
        method=spelled,
        url=_url(url, given.get("query")),
        headers=headers,
        content=content_of(context, given),
        credentials=credentials,
        expected=expected_of(given.get("expect_status"), given.get("expect_schema")),
        patience=patience_of(given.get("retries")),
        repeatable=spelled in IDEMPOTENT or bool(key),
        timeout=timeout_of(given.get("timeout")),
        follow=_flag(given, "follow_redirects", True),
        limit=size_of(given.get("max_bytes", "16MiB"), "max_bytes"),
        save=_name(given.get("save", ""), "save"),
    )


def size_of(value: Any, name: str) -> int:
    """Bytes out of an input."""
    try:
        return bytes_of(value)
    except ValueError as error:
        raise Failure(f"`{name}`: {error}") from None


def seconds_of(value: Any, name: str) -> float:
    """Seconds out of an input."""
    try:
        return seconds(value)
    except ValueError as error:
        raise Failure(f"`{name}`: {error}") from None


def timeout_of(value: Any) -> dict[str, float | None] | None:
    """Seconds of each part, or None where nothing is said."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        each = seconds_of(value, "timeout")
        return {"connect": each, "read": each, "write": each}
    if strange := sorted(value.keys() - {"connect", "read", "write", "total"}):
        raise Failure(f"`timeout` has the part `{strange[0]}`, expected connect, read, write or total")
    return {part: seconds_of(each, f"timeout.{part}") for part, each in value.items()}


def patience_of(value: Any) -> Patience:
    """How to try again, out of the input `retries`."""
    if value is None:
        return Patience()
    given = dict(value) if isinstance(value, Mapping) else {"times": value}
    if strange := sorted(given.keys() - {"times", "delay", "max_delay"}):
        raise Failure(f"`retries` has the part `{strange[0]}`, expected times, delay or max_delay")
    times = given.get("times", 2)
    if isinstance(times, bool) or not isinstance(times, int) or not 0 <= times <= 100:
        raise Failure(f"`retries` must be a number from 0 to 100, found {shown(times)}")
    delay = seconds_of(given.get("delay", 0.5), "retries.delay")
    return Patience(times, delay, seconds_of(given.get("max_delay", 60), "retries.max_delay"))


def _name(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise Failure(f"`{name}` must be text, the name of an artifact, found {shown(value)}")
    return value


def _flag(given: Mapping[str, Any], name: str, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise Failure(f"`{name}` must be true or false, found {shown(value)}")
    return value


def _method(method: Any) -> str:
    if not isinstance(method, str):
        raise Failure(f"`method` must be text, found {shown(method)}")
    if not (method.isascii() and method.isalpha() and len(method) <= 20) or method.upper() == "CONNECT":
        raise Failure(f"`{method[:30]}` is no method that can be asked for")
    return method.upper()


def _url(url: Any, query: Any) -> str:
    if not isinstance(url, str):
        raise Failure(f"`url` must be text, found {str(url)[:200]}")
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError, ValueError) as error:
        raise Failure(f"`{_without_password(url)}` is no address: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise Failure(f"`{_without_password(url)}` is no address that starts with http:// or https:// and a host")
    if parsed.userinfo:
        raise Failure("the address holds credentials, which would stand in the journal: give them by `auth`")
    if query is not None:
        parsed = parsed.copy_merge_params(plain_values(query, "query"))
    return str(parsed.copy_with(fragment=None))


def _without_password(url: str) -> str:
    """An address for a message; what stands before an @ may be a password."""
    before, at, after = url.rpartition("@")
    return (f"{before.partition('://')[0]}://***@{after}" if at else url)[:200]


def _headers(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Failure(f"`headers` must be a mapping, found {shown(given)}")
    for name, value in given.items():
        if isinstance(value, (dict, list)) or not is_line(f"{name}{value}"):
            raise Failure(f"`headers.{name}` must be one line of ASCII text")
    return {header_name(name): str(value) for name, value in given.items()}


def _key(context: Context, given: Mapping[str, Any]) -> tuple[str, str] | None:
    """Header and value of the idempotency key, where one is wanted."""
    key = str(given.get("idempotency_key", ""))
    if not key and not _flag(given, "idempotent", False):
        return None
    key = key or context.call.once or context.call.key
    if not is_line(key):
        raise Failure("`idempotency_key` must be one line of ASCII text")
    return header_name(given.get("idempotency_header", "Idempotency-Key")), key
