"""From an answer on the wire to outputs, and to a failure where it is not what was expected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.charsets import is_charset
from planrunner.capabilities.http.expected import PASSING, check_schema
from planrunner.capabilities.http.inputs import Answer
from planrunner.capabilities.http.received import Received, name_of
from planrunner.capabilities.soundness import not_json

if TYPE_CHECKING:
    from planrunner.capabilities.http.asking import Ask


_NO_DATA = object()


class Parsed(NamedTuple):
    """Data that a journal can hold, or ``_NO_DATA`` and why what was looked at gives none."""

    data: Any = _NO_DATA
    problem: str = ""


class Told(NamedTuple):
    """How far asking has come: the number of this try, and seconds since the first began."""

    attempts: int
    elapsed: float


def answer_of(context: Context, ask: Ask, response: httpx2.Response, received: Received, told: Told) -> Answer:
    """The outputs. Raises Failure, with them, for an answer that is not expected."""
    text = _text(response, received)
    parsed = _parsed(ask, response, received)
    artifact = None
    lasting = ask.expected.good(response.status_code) or response.status_code not in PASSING
    if received.size and lasting and (ask.save or text is None or not received.small):
        artifact = received.keep(ask.save or name_of(response.url.path), _type(response))
    hide = ask.credentials.masked
    inline = received.small and not ask.save
    answer = Answer(
        status=response.status_code,
        headers={name: hide(value) for name, value in public_headers(response).items()},
        json=masked(parsed.data, hide) if inline and parsed.data is not _NO_DATA else None,
        text=hide(text) if inline and text is not None else "",
        url=hide(_shown(ask, response)),
        elapsed=told.elapsed,
        attempts=told.attempts,
        size=received.size,
        sha256=received.sha256,
        artifact=artifact,
        json_problem=hide(parsed.problem) if inline and _is_json(response) else "",
    )
    _judge(ask, response, answer, parsed)
    return answer


def _judge(ask: Ask, response: httpx2.Response, answer: Answer, parsed: Parsed) -> None:
    if not ask.expected.good(answer.status):
        said = " ".join(answer.text.split())[:200]
        reason = f" {response.reason_phrase}" if response.reason_phrase else ""
        message = ask.credentials.masked(f"{ask.shown} answered {answer.status}{reason}{f': {said}' if said else ''}")
        raise Failure(message, "transient" if answer.status in PASSING else "logic", answer.brief())
    if ask.expected.schema is None or ask.method == "HEAD":
        return
    if parsed.data is _NO_DATA:
        why = ask.credentials.masked(f": {parsed.problem}") if answer.size else ", it is empty"
        raise Failure(f"{ask.shown}: the answer is no JSON{why}", "logic", answer.brief())
    if why := check_schema(ask.expected.schema, parsed.data):
        why = ask.credentials.masked(why)
        raise Failure(f"{ask.shown}: the answer does not fit `expect_schema`: {why}", "logic", answer.brief())


def public_headers(response: httpx2.Response) -> dict[str, str]:
    """The headers of an answer in lower case, without those that carry secrets."""
    return {name.lower(): value for name, value in response.headers.items() if not is_secret(name)}


def is_secret(name: str) -> bool:
    """Whether a header of this name is likely to carry a secret."""
    plain = name.lower()
    known = plain in ("authorization", "proxy-authorization", "cookie", "set-cookie", "set-cookie2")
    return known or any(sign in plain for sign in ("token", "secret", "api-key", "apikey", "password"))


def masked(data: Any, hide: Any) -> Any:
    """JSON data with every text passed through ``hide``."""
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, list):
        return [masked(each, hide) for each in data]
    if isinstance(data, dict):
        return {hide(key): masked(value, hide) for key, value in data.items()}
    return data


def _text(response: httpx2.Response, received: Received) -> str | None:
    """The answer as text; empty where it is too large for that, None where it is no text."""
    if not received.small:
        return ""
    charset = response.charset_encoding or "utf-8"
    if not is_charset(charset):
        return received.all().decode("utf-8", "replace")
    try:
        return received.all().decode(charset)
    except UnicodeDecodeError:
        return None


def _parsed(ask: Ask, response: httpx2.Response, received: Received) -> Parsed:
    """The data of an answer that is JSON, or that the plan expects to be; nothing is looked for in any other."""
    wanted = ask.expected.schema is not None or (_is_json(response) and received.small and not ask.save)
    if not wanted or not received.size:
        return Parsed()
    return _read(received.all())


def _is_json(response: httpx2.Response) -> bool:
    kind = _type(response)
    return kind == "application/json" or kind.endswith("+json")


def _read(content: bytes) -> Parsed:
    try:
        found = json.loads(content, parse_constant=_refuse)
    except UnicodeDecodeError:
        return Parsed(problem="it is not UTF-8")
    except RecursionError:
        return Parsed(problem="it is nested too deeply")
    except ValueError as error:
        return Parsed(problem=str(error))
    problem = not_json({"json": found}, "answer")
    return Parsed(problem=problem) if problem else Parsed(found)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _type(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _shown(ask: Ask, response: httpx2.Response) -> str:
    """The address that answered; where a redirect led elsewhere, the query may be a ticket of that place."""
    url = response.url.copy_with(username=None, password=None, fragment=None)
    first = httpx2.URL(ask.url)
    same = (first.scheme, first.host, first.port) == (url.scheme, url.host, url.port)
    return str(url if same else url.copy_with(query=None))
