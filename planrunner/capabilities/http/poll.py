"""Asking again and again until an answer says that something is done."""

from __future__ import annotations

import time
from typing import Annotated, Any, NamedTuple, Unpack

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.http.exchange import opened, rest, retry_after, send_with
from planrunner.capabilities.http.inputs import FOREIGN, INLINE, OWN, SHAPED, Answer, Polling, Url
from planrunner.capabilities.http.request import PASSING, Ask, Expected, asked, seconds_of
from planrunner.plan.expressions.evaluate import explain, truth
from planrunner.plan.expressions.values import EvaluationError, ExpressionError, Names
from planrunner.plan.http_forms import parse_condition
from planrunner.plan.model import Expression

_CONDITION = "a condition on `status`, `headers`, `json` and `body`, such as `status == 200 and json.state == 'done'`"


class Watching(NamedTuple):
    """What is waited for and how long, in seconds; ``failing`` is a condition that ends it early."""

    until: Expression
    failing: Expression | None
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
    until: Annotated[str, Doc(f"what to wait for: {_CONDITION}", form="http-condition")],
    fail: Annotated[str | None, Doc("what ends it as a failure: a condition as well", form="http-condition")] = None,
    interval: Annotated[int | float | str, Doc("time between two requests", "duration")] = "5s",
    within: Annotated[int | float | str, Doc("how long to go on", "duration")] = "5m",
    **options: Unpack[Polling],
) -> Answer:
    """Ask until the answer fits a condition.

    The condition is an expression of the plan language. It does not hold where a name in it has no value. A refused
    connection, a timeout or a status that means "not now" counts as not yet, and so does any other error status where
    the condition reads `status`; `Retry-After` makes the pause longer. The output `attempts` is the number of requests.
    Not done within the time fails as `timeout`.
    """
    ask = asked(context, "GET", url, options, Polling)
    any_status = Expected(((100, 599),), ask.expected.schema)
    ask = ask._replace(expected=any_status, inline=ask.limit, retry={})
    failing = None if fail is None else _condition(fail, "fail")
    every, within_seconds = seconds_of(interval, "interval"), seconds_of(within, "within")
    watching = Watching(_condition(until, "until"), failing, every, within_seconds)
    started, requests = time.monotonic(), 0
    with opened(context, ask) as connected:
        while True:
            requests += 1
            answer, seen, wanted = _look(context, ask, connected, watching)
            elapsed = round(time.monotonic() - started, 3)
            if answer is not None and _holds(watching.until, answer):
                return _kept(context, answer._replace(attempts=requests, elapsed=elapsed))
            pause = max(watching.interval, wanted)
            if elapsed + pause > watching.within:
                outputs = {} if answer is None else answer._replace(attempts=requests, elapsed=elapsed).brief()
                message = f"{ask.shown}: not there after {requests} requests in {elapsed} s; the last one saw {seen}"
                raise Failure(message, "timeout", outputs)
            context.beat()
            rest(context, pause)


def _condition(given: Any, name: str) -> Expression:
    try:
        return parse_condition(given)
    except ExpressionError as error:
        raise Failure(f"`{name}` must be {_CONDITION}: {error.message}") from None


def _holds(condition: Expression, answer: Answer) -> bool:
    try:
        return truth(condition.tree, _names(answer))
    except EvaluationError:  # what it reads is not there yet
        return False


def _names(answer: Answer) -> Names:
    return Names({"status": answer.status, "headers": answer.headers, "json": answer.json, "body": answer.text})


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
    if watching.failing is not None and _holds(watching.failing, answer):
        message = f"{ask.shown} answered {answer.status}, and `fail` holds: `{watching.failing.text}`"
        raise Failure(message, "logic", answer.brief())
    holds = _holds(watching.until, answer)
    reads_status = any(path[:1] == ("status",) for path in watching.until.paths)
    if not (holds or reads_status or answer.status in PASSING or answer.status < 400):
        raise Failure(f"{ask.shown} answered {answer.status}", "logic", answer.brief())
    wanted = retry_after(answer.headers.get("retry-after", "")) if answer.status in PASSING else None
    return answer, f"status {answer.status}; {explain(watching.until.tree, _names(answer))[:300]}", wanted or 0.0
