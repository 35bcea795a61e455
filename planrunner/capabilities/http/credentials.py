"""Credentials out of the environment, named in the plan and never written down."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.headers import header_name, is_line

MASK = "***"
_WAYS = "`bearer_env`, `basic_env`, or `header` with `header_env`"


class Unset(Failure):
    """The variable of the credentials is not set."""


class Credentials(NamedTuple):
    """Headers to send, how they are shown, and the texts that must not come out anywhere."""

    headers: Mapping[str, str] = {}
    shown: Mapping[str, str] = {}
    secrets: tuple[str, ...] = ()

    def masked(self, text: str) -> str:
        """The text without the secrets, should the other side have repeated them."""
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        return text


def credentials_of(context: Context, auth: Any) -> Credentials:
    """Read the input `auth`. Raises Failure where it cannot be used or its variable is not set."""
    if auth is None or auth == {}:
        return Credentials()
    if not isinstance(auth, Mapping):
        raise Failure(f"`auth` must be {_WAYS}")
    ways = sorted(auth)
    if ways == ["bearer_env"]:
        token = _line(context, auth["bearer_env"])
        return _made("authorization", "Bearer ", token, (token,))
    if ways == ["basic_env"]:
        pair = _variable(context, auth["basic_env"])
        if ":" not in pair:
            raise Failure(f"the environment variable `{auth['basic_env']}` must hold `user:password`")
        packed = base64.b64encode(pair.encode()).decode()
        return _made("authorization", "Basic ", packed, (packed, pair, pair.partition(":")[2]))
    if ways == ["header", "header_env"]:
        value = _line(context, auth["header_env"])
        return _made(header_name(auth["header"]), "", value, (value,))
    raise Failure(f"`auth` must be {_WAYS}, found {', '.join(f'`{way}`' for way in ways)}")


def shown_of(context: Context, auth: Any) -> Credentials:
    """The credentials as they are shown; the variable need not be set, and if it is, its value is masked elsewhere."""
    try:
        return credentials_of(context, auth)
    except Unset:
        if "header" in auth:
            return _made(header_name(auth["header"]), "", "", ())
        return _made("authorization", "Bearer " if "bearer_env" in auth else "Basic ", "", ())


def _made(header: str, before: str, secret: str, secrets: tuple[str, ...]) -> Credentials:
    long = [each for each in secrets if len(each) >= 4]
    spelled = {form for each in long for form in (each, json.dumps(each)[1:-1], quote(each, safe=""))}
    longest_first = sorted(spelled, key=len, reverse=True)
    return Credentials({header: before + secret}, {header: before + MASK}, tuple(longest_first))


def _variable(context: Context, name: Any) -> str:
    value = context.call.env.get(str(name)) or os.environ.get(str(name), "")
    if not value.strip():
        raise Unset(f"the environment variable `{name}`, which `auth` names, is not set")
    return value.strip()


def _line(context: Context, name: Any) -> str:
    value = _variable(context, name)
    if not is_line(value):
        raise Failure(f"the environment variable `{name}`, which `auth` names, is not one line of ASCII text")
    return value
