"""What the world tells the loop, without secrets: an event is clean before it is folded, so that what is remembered,
what is written and what a replay sees are one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planrunner.machine.events import AttemptEnded, BackupMade, Outcome, UndoEnded

if TYPE_CHECKING:
    from planrunner.redaction import Redactor


_PLAN_SAYS = frozenset(
    ("task", "attempt", "visit", "patterns", "failure", "resolution", "policy", "reason", "round", "since", "asked")
)
"""Fields of events that hold names of the plan or words of the language."""


def without_secrets(redactor: Redactor, found: Any) -> Any:
    """An event, or what a thread found out for one, without the secrets that the redactor knows. What was noted to undo
    a task is refused where it holds one: put back without it, it would not be what was there."""
    if isinstance(found, (AttemptEnded, UndoEnded)):
        return found._replace(outcome=_outcome(redactor, found.outcome))
    if isinstance(found, BackupMade):
        return _backup(redactor, found)
    if hasattr(found, "_fields"):
        told = {name: _clean(redactor, getattr(found, name)) for name in found._fields if name not in _PLAN_SAYS}
        return found._replace(**told)
    return _clean(redactor, found)


def _clean(redactor: Redactor, value: Any) -> Any:
    """Like ``Redactor.data``, and a tuple stays one."""
    if isinstance(value, tuple):
        return tuple(_clean(redactor, each) for each in value)
    return redactor.data(value)


def _outcome(redactor: Redactor, outcome: Outcome) -> Outcome:
    return outcome._replace(
        message=redactor.text(outcome.message),
        outputs=redactor.data(outcome.outputs),
        stdout=redactor.text(outcome.stdout),
        stderr=redactor.text(outcome.stderr),
        artifacts=_clean(redactor, outcome.artifacts),
        refused=_clean(redactor, outcome.refused),
    )


def _backup(redactor: Redactor, made: BackupMade) -> BackupMade:
    problem = redactor.text(made.problem)
    if _clean(redactor, made.files) == made.files:
        return made._replace(problem=problem)
    told = "what its capability noted to undo it holds a secret, which is kept nowhere: say `irreversible: true`"
    return made._replace(files=(), problem=problem or told)
