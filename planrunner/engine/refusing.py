"""Attempts to which their sandbox refused something: one that failed says so, since it may have failed for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planrunner.machine.events import Outcome

Json = Any

_STOPPED = ("interrupted", "timeout")
_NAMED = 5


def named(outcome: Outcome, refused: tuple[dict[str, Json], ...], itself: bool = True) -> Outcome:
    """The outcome of an attempt with what was ``refused`` to it, which its failure names. One that failed by ``itself``
    failed for a policy then; one that was stopped, or passed a limit, keeps its class."""
    outcome = outcome._replace(refused=refused) if refused else outcome
    if not (outcome.failure and refused):
        return outcome
    if outcome.rule or not itself or outcome.failure in _STOPPED:
        return outcome._replace(message=f"{outcome.message}; refused meanwhile: {_names(refused)}")
    first = refused[0]
    message = first.get("message") or f"refused: {_names(refused[:1])}"
    if len(refused) > 1:
        message += f"; also refused: {_names(refused[1:])}"
    return outcome._replace(failure="policy", rule=first["rule"], message=message, outputs={})


def _names(refused: tuple[dict[str, Json], ...]) -> str:
    """What was refused, in a few words."""
    names = [each["what"] for each in refused if each["what"]][:_NAMED]
    return ", ".join(names) + (" and more" if len(refused) > len(names) else "")
