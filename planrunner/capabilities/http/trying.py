"""Trying again: after faults that may pass, where a repetition does no harm, and not before the other side wants it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.http.asking import Ask
from planrunner.capabilities.http.watch import SLICE
from planrunner.capabilities.outputs import may_call

Result = TypeVar("Result")


class Passing(Exception):
    """A try that went wrong in a way that may pass. ``sent`` is False where nothing can have reached the other side;
    ``wait`` is how many seconds it asked to be left alone."""

    def __init__(self, failure: Failure, sent: bool = True, wait: float | None = None) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.sent = sent
        self.wait = wait


def persist(context: Context, ask: Ask, act: Callable[[int], Result]) -> Result:
    """Call ``act`` with the number of the try until it succeeds or there is no more to try. Raises its Failure."""
    started = time.monotonic()
    tries = 0
    while True:
        tries += 1
        try:
            return act(tries)
        except Passing as trouble:
            if tries > ask.patience.times or not (ask.repeatable or not trouble.sent) or not may_call(context):
                raise trouble.failure from None
            wait = _pause(ask, tries, trouble.wait)
            if too_long := _too_long(context, ask, wait, time.monotonic() - started):
                raise _told(trouble.failure, f"; it asks for a pause of {wait:.0f} s, {too_long}") from None
            _log(context, f"{trouble.failure}; trying again in {wait:.1f} s ({tries} of {ask.patience.times})")
        rest(context, wait)


def rest(context: Context, seconds: float) -> None:
    """Let time pass. Raises Failure when the attempt is stopped."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if context.cancelled():
            raise Failure("the request was stopped", "interrupted")
        time.sleep(min(SLICE, left))


def retry_after(value: str) -> float | None:
    """Seconds out of a `Retry-After` header, which holds seconds or a date; None where it holds neither."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, when.timestamp() - time.time())


def _pause(ask: Ask, tries: int, wanted: float | None) -> float:
    if wanted is not None:
        return wanted
    longest = min(ask.patience.delay * float(2 ** (tries - 1)), ask.patience.max_delay)
    return longest * (0.5 + random.random() / 2)


def _too_long(context: Context, ask: Ask, wait: float, spent: float) -> str:
    """Why there is no point in waiting that long."""
    total = (ask.timeout or {}).get("total")
    limits = [each for each in (context.call.timeout, total) if each is not None]
    if limits and spent + wait >= min(limits):
        return "longer than the time that is left"
    return "longer than `max_delay`" if wait > ask.patience.max_delay else ""


def _told(failure: Failure, more: str) -> Failure:
    return Failure(f"{failure}{more}", failure.failure, failure.outputs, rule=failure.rule)


def _log(context: Context, text: Any) -> None:
    context.log.write(f"{text}\n".encode(), "stderr")
