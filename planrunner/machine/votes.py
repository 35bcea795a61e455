"""What follows from the word of a person at a gate: whether they may decide, whether what they give fits, and whether
it decides the gate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from planrunner.errors import DENIED, MISMATCH, USAGE
from planrunner.machine.events import Event, GateVoted
from planrunner.machine.gates import answered, rework_target, sentence, spec
from planrunner.machine.state import GateState, State
from planrunner.machine.statuses import said
from planrunner.plan.model import Param
from planrunner.plan.nearest import nearest
from planrunner.plan.params import bind

Json = Any

SHORTEST = 6
"""Characters of a digest that are enough to name what was shown."""


class Vote(NamedTuple):
    """What a person says at the gate of task ``gate``: ``verdict`` is approve or reject, ``user`` who the system says
    they are, ``by`` their name. ``roles`` are theirs by the project's list, ``claimed`` by their own word. ``shown`` is
    the digest, or its beginning, of what they looked at; empty where they trust that it is what is asked now. ``now``
    is seconds since 1970 on the run's time line."""

    gate: str
    verdict: str
    by: str
    user: str = ""
    roles: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    reason: str = ""
    choice: str = ""
    fields: dict[str, Json] = {}
    shown: str = ""
    rework: bool = False
    now: float = 0.0
    unread: bool = False
    """The evidence is about to be looked at again, so that what could not be read before does not count."""


class Counted(NamedTuple):
    """The events of a vote, the sentence for who voted, and the exit code of the contract where it was refused (0: it
    counts)."""

    events: tuple[Event, ...]
    message: str
    code: int = 0


class _Refused(Exception):
    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def count(state: State, vote: Vote) -> Counted:
    """The event of a vote; one that does not count has none."""
    try:
        number, gate = _waiting(state, vote.gate)
        if gate.expires_at is not None and gate.expires_at <= vote.now:
            raise _Refused(f"`{vote.gate}` has expired; resuming the run settles it")
        _check_shown(gate, vote)
        _check_person(state, gate, vote)
        if vote.verdict == "reject":
            return _rejected(state, number, gate, vote)
        return _approved(state, number, gate, vote)
    except _Refused as refused:
        return Counted((), refused.message, refused.code)


def _waiting(state: State, name: str) -> tuple[int, GateState]:
    number = state.index.get(name)
    if number is None:
        raise _Refused(f"`{name}` is not a task of this run")
    task_state = state.tasks[number]
    gate = task_state.gate
    if gate is not None and gate.waits and task_state.status == "blocked" and number not in state.held:
        return number, gate
    if gate is not None and (gate.decision or gate.verdict):
        raise _Refused(f"`{name}` is decided already: {sentence(gate)}")
    raise _Refused(f"`{name}` is not waiting for a decision: it {said(task_state.status)}")


def _check_shown(gate: GateState, vote: Vote) -> None:
    given = vote.shown.strip().lower()
    if given and (len(given) < SHORTEST or not gate.shown.startswith(given)):
        raise _Refused(f"what was shown has changed: look again (it is {gate.shown[:12]} now)", MISMATCH)


def turned_away(state: State, gate: GateState, vote: Vote) -> str:
    """Why a person may not decide the gate that they have not answered yet; empty where they may."""
    try:
        _check_person(state, gate, vote)
    except _Refused as refused:
        return refused.message
    return ""


def _check_person(state: State, gate: GateState, vote: Vote) -> None:
    if gate.roles or gate.people:
        has = {*vote.roles, *vote.claimed} & set(gate.roles)
        if not has and vote.by not in gate.people:
            raise _Refused(f"{vote.by} may not decide `{vote.gate}`: it takes {who_may(gate)}", DENIED)
    if gate.not_starter and vote.by == state.environment.get("user"):
        raise _Refused(f"{vote.by} started the run and may not decide `{vote.gate}`", DENIED)
    changes = bool(vote.choice or vote.fields)
    if not changes and any(earlier.by == vote.by and earlier.verdict == vote.verdict for earlier in gate.votes):
        raise _repeated(gate, vote)


def _repeated(gate: GateState, vote: Vote) -> _Refused:
    return _Refused(f"{vote.by} has voted already; {tally(gate.votes, gate.need)}")


def who_may(gate: GateState) -> str:
    """Those who may decide, in words."""
    roles = " or ".join(gate.roles)
    people = " or ".join(gate.people)
    words = [f"a person with the role {roles}" if roles else "", people]
    return ", or ".join(word for word in words if word) or "anybody"


def tally(votes: Iterable[GateVoted], need: int) -> str:
    """How many votes agree and how many have to: of a decision, how many each option has."""
    chosen: dict[str, int] = {}
    for vote in votes:
        if vote.verdict == "approve":
            chosen[vote.choice] = chosen.get(vote.choice, 0) + 1
    split = ", ".join(f"{choice} {number}" for choice, number in chosen.items() if choice)
    return f"{max(chosen.values(), default=0)} of {need} vote{'s' * (need != 1)}" + (f" ({split})" if split else "")


def _rejected(state: State, number: int, gate: GateState, vote: Vote) -> Counted:
    reject = spec(state, number, gate.stage).on_reject
    back = rework_target(state, number, reject)
    if vote.rework and back is None:
        none = "has no rounds of rework left" if reject.action == "rework" else "sends nothing back when it is rejected"
        raise _Refused(f"`{vote.gate}` {none}")
    follows = f"; the run goes back to `{state.specs[back].id}`" if back is not None else ""
    return Counted((_voted(gate, vote, "", {}),), f"`{vote.gate}` is rejected by {vote.by}{follows}")


def _approved(state: State, number: int, gate: GateState, vote: Vote) -> Counted:
    problem = next((str(item["problem"]) for item in gate.evidence if item.get("problem")), "")
    if problem and not vote.unread:
        raise _Refused(f"`{vote.gate}` cannot be approved: {problem}")
    choice = _choice(gate, vote)
    _has_rounds(state, number, gate, choice)
    fields = _fields(gate, vote)
    earlier = next((each for each in gate.votes if each.by == vote.by and each.verdict == "approve"), None)
    if earlier is not None and (earlier.choice, earlier.fields) == (choice, fields):
        raise _repeated(gate, vote)
    _same_values(gate, vote, choice, fields)
    voted = _voted(gate, vote, choice, fields)
    others = [each for each in gate.votes if each.by != vote.by]
    names = [*(each.by for each in others if (each.verdict, each.choice) == ("approve", choice)), vote.by]
    if len(names) < gate.need:
        word = "changes their vote on" if earlier is not None else "approves"
        return Counted((voted,), f"{vote.by} {word} `{vote.gate}`: {tally([*others, voted], gate.need)}")
    chosen = f" ({choice})" if choice else ""
    return Counted((voted,), f"`{vote.gate}` is approved by {', '.join(names)}{chosen}")


def _voted(gate: GateState, vote: Vote, choice: str, fields: dict[str, Json]) -> GateVoted:
    return GateVoted(
        vote.gate,
        gate.visit,
        "reject" if vote.verdict == "reject" else "approve",
        vote.by,
        gate.shown,
        vote.user,
        vote.roles,
        vote.claimed,
        vote.reason,
        choice,
        fields,
    )


def _choice(gate: GateState, vote: Vote) -> str:
    names = [str(option["name"]) for option in gate.request.get("options", ())]
    if not names:
        if vote.choice:
            raise _Refused(f"`{vote.gate}` has no options to choose from")
        return ""
    if vote.choice in names:
        return vote.choice
    listed = ", ".join(names)
    if not vote.choice:
        raise _Refused(f"`{vote.gate}` wants a choice: one of {listed}")
    near = nearest(vote.choice, names)
    hint = f"did you mean `{near}`?" if near else f"it has {listed}"
    raise _Refused(f"`{vote.gate}` has no option `{vote.choice}`; {hint}")


def _has_rounds(state: State, number: int, gate: GateState, choice: str) -> None:
    for option in spec(state, number, gate.stage).options:
        if option.name == choice and option.rework and state.sent_back.get(number, 0) >= option.max:
            raise _Refused(f"`{choice}` sends back to `{option.target}` at most {option.max} times: none is left")


def _fields(gate: GateState, vote: Vote) -> dict[str, Json]:
    form = [Param(**{**field, "choices": tuple(field.get("choices", ()))}) for field in gate.request.get("form", ())]
    bound = bind(form, vote.fields, "field")
    if bound.problems:
        raise _Refused(f"`{vote.gate}`: " + "; ".join(bound.problems))
    return bound.values


def _same_values(gate: GateState, vote: Vote, choice: str, fields: dict[str, Json]) -> None:
    """Several who agree agree on one thing: an approval never stands for values that its voter did not give."""
    others = [earlier for earlier in gate.votes if earlier.verdict == "approve" and earlier.by != vote.by]
    agreed = [earlier for earlier in others if earlier.choice == choice]
    if not fields or not agreed or agreed[-1].fields == fields:
        return
    given = agreed[-1].fields
    differs = {field: given.get(field) for field in fields if given.get(field) != fields[field]}
    who = ", ".join(earlier.by for earlier in agreed)
    raise _Refused(f"`{vote.gate}`: {who} {answered(gate, differs)}: answer the same, or reject")
