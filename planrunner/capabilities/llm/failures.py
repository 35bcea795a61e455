"""What went wrong with a request to a model, for people and for the plan: worth another attempt or not."""

from __future__ import annotations

import json
from typing import Any

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.client import refusal
from planrunner.capabilities.llm.wire import Exchange

Json = Any

_PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 that may be gone the next time."""

_SHOWN = 400


def failure_of(error: BaseException, exchange: Exchange) -> Failure:
    """The failure that an error of the library stands for; it never holds the key."""
    found = exchange.refused or refusal(error)
    if found is None:
        found = _failure(error, exchange)
    return Failure(exchange.redactor.text(str(found)), found.failure, found.outputs, rule=found.rule)


def _failure(error: BaseException, exchange: Exchange) -> Failure:
    model = exchange.model
    name = f"`{model.name}` ({model.provider} {model.model})"
    if not exchange.request:
        return Failure(f"{name} cannot be asked this: {_short(error)}")
    if isinstance(error, TimeoutError):
        return Failure(f"{name} gave no answer within {model.timeout:g} s", "transient")
    status = exchange.status
    if status >= 300:
        passing = status in _PASSING or status >= 500
        said = f"{name} answered {status}{_said(exchange)}{_later(error)}"
        return Failure(said, "transient" if passing else "logic")
    if not status:
        reached = "broke the connection" if exchange.was_sent else "cannot be reached"
        return Failure(f"{name} {reached}: {_cause(error)}", "transient")
    if not exchange.is_whole:
        return Failure(f"{name} broke off its reply: {_cause(error)}", "transient")
    return Failure(f"{name} sent a reply that cannot be read: {_short(error)}", "transient")


def _said(exchange: Exchange) -> str:
    try:
        text = _message(json.loads(bytes(exchange.reply)))
    except (ValueError, RecursionError):
        text = ""
    return f": {text[:_SHOWN]}" if text else ""


def _message(body: Json) -> str:
    if isinstance(body, dict):
        for name in ("error", "message", "detail"):
            if name in body:
                return _message(body[name])
    return body if isinstance(body, str) else ""


def _later(error: BaseException) -> str:
    after = (getattr(error, "headers", None) or {}).get("retry-after")
    return f"; it asks to wait {after} s" if isinstance(after, str) and after.strip().isdigit() else ""


def _cause(error: BaseException) -> str:
    """The innermost of the errors that libraries wrap around each other: it says most."""
    while error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        inner = error.__cause__ or error.__context__
        assert inner is not None
        if not str(inner):
            break
        error = inner
    return _short(error)


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
