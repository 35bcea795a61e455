"""Credentials of the project or out of the environment, named in the plan and never written down."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.headers import header_name, is_line
from planrunner.redaction import Redactor

MASK = "***"
_WAYS = "`credential`, `bearer_env`, `basic_env`, or `header` with `credential` or `header_env`"
_SHORTEST = 4
"""Characters of the shortest text that is masked in an answer."""


class Unset(Failure):
    """The variable of the credentials is not set."""


class Credentials(NamedTuple):
    """Headers to send, how they are shown, and what keeps them out of an answer, should the other side repeat them."""

    headers: Mapping[str, str] = {}
    shown: Mapping[str, str] = {}
    redactor: Redactor | None = None

    def masked(self, text: str) -> str:
        """The text without the secrets."""
        return text if self.redactor is None else self.redactor.text(text)


def credentials_of(context: Context, auth: Any) -> Credentials:
    """Read the input `auth`. Raises Failure where it cannot be used, or what it names is not there."""
    if auth is None or auth == {}:
        return Credentials()
    if not isinstance(auth, Mapping):
        raise Failure(f"`auth` must be {_WAYS}")
    ways = sorted(auth)
    if ways == ["bearer_env"]:
        token = _line(context, auth["bearer_env"])
        return _made("authorization", "Bearer ", token)
    if ways == ["basic_env"]:
        pair = _variable(context, auth["basic_env"])
        context.conceal(str(auth["basic_env"]), pair.partition(":")[2])
        if ":" not in pair:
            raise Failure(f"the environment variable `{auth['basic_env']}` must hold `user:password`")
        return _made("authorization", "Basic ", base64.b64encode(pair.encode()).decode(), pair, pair.partition(":")[2])
    if ways == ["header", "header_env"]:
        return _made(header_name(auth["header"]), "", _line(context, auth["header_env"]))
    if ways in (["credential"], ["credential", "header"]):
        return _declared(context, str(auth["credential"]), auth.get("header"))
    raise Failure(f"`auth` must be {_WAYS}, found {', '.join(f'`{way}`' for way in ways)}")


def _declared(context: Context, name: str, header: Any) -> Credentials:
    """A credential of the project, as a token or in a header of its own."""
    value = context.secret(name)
    if not is_line(value):
        raise Failure(f"the credential `{name}` is not one line of ASCII text", "policy", rule="secret.line")
    made = _made("authorization", "Bearer ", value) if header is None else _made(header_name(header), "", value)
    return made._replace(redactor=None)  # whatever the attempt gives is held against all secrets of the run anyway


def shown_of(context: Context, auth: Any) -> Credentials:
    """The credentials as they are shown; the variable need not be set, and if it is, its value is masked elsewhere."""
    if isinstance(auth, Mapping) and "credential" in auth:
        return _made(header_name(auth["header"]), "", "") if "header" in auth else _made("authorization", "Bearer ", "")
    try:
        return credentials_of(context, auth)
    except Unset:
        if "header" in auth:
            return _made(header_name(auth["header"]), "", "")
        return _made("authorization", "Bearer " if "bearer_env" in auth else "Basic ", "")


def _made(header: str, before: str, secret: str, *more: str) -> Credentials:
    redactor = Redactor()
    for each in (secret, *more):
        if len(each) >= _SHORTEST:
            redactor.add("", each.encode())
    return Credentials({header: before + secret}, {header: before + MASK}, redactor)


def _variable(context: Context, name: Any) -> str:
    value = context.call.env.get(str(name)) or os.environ.get(str(name), "")
    if not value.strip():
        raise Unset(f"the environment variable `{name}`, which `auth` names, is not set")
    context.conceal(str(name), value.strip())
    return value.strip()


def _line(context: Context, name: Any) -> str:
    value = _variable(context, name)
    if not is_line(value):
        raise Failure(f"the environment variable `{name}`, which `auth` names, is not one line of ASCII text")
    return value
