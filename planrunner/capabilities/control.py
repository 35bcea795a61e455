"""Capabilities that exist for tests and examples: they do nothing, fail on request, or let time pass."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Failure, Pause
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.durations import seconds
from planrunner.machine.events import Outcome


class Value(NamedTuple):
    value: Annotated[Any, Doc("the input, as it was given")]


@capability("noop", effect="pure", instant=True)
def noop(value: Annotated[Any, Doc("what the output `value` shall be")] = None) -> Value:
    """Do nothing and give back the input."""
    return Value(value)


@capability("fail", effect="pure", instant=True)
def fail(
    class_: Annotated[str, Doc("failure class: transient, logic, policy, timeout or one of your own")] = "logic",
    message: Annotated[str, Doc("what the failure says")] = "failed on request",
) -> None:
    """Fail with a class and a message, to try out what a plan does about it."""
    raise Failure(message, class_)


@capability("sleep", effect="pure", process=True)
def sleep(duration: Annotated[Any, Doc("how long, such as 500ms, 10s or 1h30m", quantity="duration")]) -> Pause:
    """Let time pass. Takes a concurrency slot, and stops at once when the run is stopped."""
    try:
        wait = seconds(duration)
    except ValueError as error:
        raise Failure(str(error)) from None
    return Pause(wait, Outcome())
