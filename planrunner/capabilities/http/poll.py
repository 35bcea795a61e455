"""Asking again and again until an answer says that something is done."""

from __future__ import annotations

import time
from typing import Annotated, Any, NamedTuple, Unpack

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.http.asking import Ask, Patience, asked, seconds_of
from planrunner.capabilities.http.condition import Condition, Said, condition_of
from planrunner.capabilities.http.expected import PASSING, Expected
from planrunner.capabilities.http.inputs import FOREIGN, INLINE, OWN, SHAPED, Answer, Polling, Url
from planrunner.capabilities.http.sending import opened, send_with
from planrunner.capabilities.http.trying import rest, retry_after

_CONDITION = "`status: 200` (also `2xx` or a list), `pointer: /state` with `equals:`, `in: [...]` or `exists: true`"


class Watching(NamedTuple):
    """What is waited for and how long; ``failing`` is a condition that ends it early."""

    until: Condition
    failing: Condition | None
    interval: float
    within: float


@capability(
    "http.poll",
    effect="read",
    risks=("reaches the network",),
    spends=("calls", "rest"),
    foreign=FOREIGN,
    own=OWN,
    shaped=SHAPED,
)
def poll(
    context: Context,
    url: Url,
    until: Annotated[Said, Doc(f"what to wait for: {_CONDITION}; all that is said has to hold")],
    fail: Annotated[Said | None, Doc("what ends it as a failure, said in the same way")] = None,
    interval: Annotated[int | float | str, Doc("time between two requests", "duration")] = "5s",
    within: Annotated[int | float | str, Doc("how long to go on", "duration")] = "5m",
    **options: Unpack[Polling],
) -> Answer:
    """Ask until the answer fits a condition.

    Meanwhile a refused connection, a timeout or a status that means "not now" counts as not yet; `Retry-After` makes
    the pause longer. The output `attempts` is the number of requests. Not done within the time fails as `timeout`.
    """
    ask = asked(context, "GET", url, options, Polling)
    any_status = Expected(((100, 599),), ask.expected.schema)
    ask = ask._replace(expected=any_status, inline=ask.limit, patience=Patience(0))
    failing = None if fail is None else condition_of(fail, "fail")
    every, within_seconds = seconds_of(interval, "interval"), seconds_of(within, "within")
    return _poll(context, ask, Watching(condition_of(until, "until"), failing, every, within_seconds))


def _poll(context: Context, ask: Ask, watching: Watching) -> Answer:
    started, requests = time.monotonic(), 0
    with opened(context, ask) as connected:
        while True:
            requests += 1
            answer, seen, wanted = _look(context, ask, connected, watching)
            elapsed = round(time.monotonic() - started, 3)
            if answer is not None and watching.until.holds(answer):
                return _kept(context, answer._replace(attempts=requests, elapsed=elapsed))
            pause = max(watching.interval, wanted)
            if elapsed + pause > watching.within:
                outputs = {} if answer is None else answer._replace(attempts=requests, elapsed=elapsed).brief()
                message = f"{ask.shown}: not there after {requests} requests in {elapsed} s; the last one saw {seen}"
                raise Failure(message, "timeout", outputs)
            context.beat()
            rest(context, pause)


def _kept(context: Context, answer: Answer) -> Answer:
    if answer.size <= INLINE or answer.artifact is not None:
        return answer
    return answer._replace(json=None, text="", artifact=context.keep(answer.text.encode(), "answer"))


def _look(context: Context, ask: Ask, connected: Any, watching: Watching) -> tuple[Answer | None, str, float]:
    """One request: its answer if one came, what was seen, and how long the other side wants to be left alone."""
    try:
        answer = send_with(context, ask, connected)
    except Failure as failure:
        if failure.failure != "transient":
            raise
        return None, str(failure), 0.0
    if watching.failing is not None and watching.failing.holds(answer):
        message = f"{ask.shown}: {watching.failing.seen(answer)}, which `fail` names"
        raise Failure(message, "logic", answer.brief())
    done = watching.until.holds(answer)
    if not (done or answer.status in PASSING or answer.status < 400 or watching.until.statuses):
        raise Failure(f"{ask.shown} answered {answer.status}", "logic", answer.brief())
    wanted = retry_after(answer.headers.get("retry-after", "")) if answer.status in PASSING else None
    return answer, watching.until.seen(answer), wanted or 0.0
