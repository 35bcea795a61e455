"""What follows from the requests by which people and programs steer a run from outside.

A request is a kind and JSON data. Its rule looks at the state and says which events follow, or why none do. The process
that holds the run applies it: the events and the reply become durable together, so a request is applied exactly once.
A vote is a request too, with a record of its own: whether the person may decide the gate, whether what they give fits,
and whether it decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from planrunner.errors import DENIED, MISMATCH, USAGE
from planrunner.machine.admission import Wanted, refusal, still_short
from planrunner.machine.answers import answered
from planrunner.machine.budgets import extension
from planrunner.machine.events import AttemptStopping, Event, GateVoted, RunReopened, StopRequested, TaskSettled
from planrunner.machine.gates import rework_target, sentence, spec
from planrunner.machine.names import named
from planrunner.machine.questions import reason_not_allowed, tally
from planrunner.machine.state import GateState, State
from planrunner.machine.stops import FINAL_STOPS, OUT_OF_BUDGET, STOPS, deadline_text, is_under_way
from planrunner.plan.expressions.quantities import format_duration
from planrunner.plan.model import Param
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.params import bind
from planrunner.records import Struct
from planrunner.statuses import ended, status_verb

Json = Any
Rule = Callable[[State, dict[str, Json], str], "Reply"]
"""From the state, the data of the request and who asks."""


class Reply(Struct):
    """The events of a request in their order, whether it is ``applied``, and the sentence for the one who asked;
    ``code`` is the exit code of the contract for a refusal that is not a usage error."""

    events: tuple[Event, ...]
    applied: bool
    message: str
    code: int = 0


def reply(state: State, kind: str, body: dict[str, Json], by: str) -> Reply:
    """What a request comes to; a request that cannot be applied, whatever it holds, is refused with the reason."""
    rule = RULES.get(kind)
    if rule is None:
        return refused(f"this version of planrunner knows no request `{kind}`")
    if state.ended_at is not None and (kind != "budget" or state.status == "completed"):
        return refused(ended("the run", state.status))
    try:
        return rule(state, body, by)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return refused(f"the data of this `{kind}` is not as it should be: {type(error).__name__} {error}")


def refused(message: str) -> Reply:
    """A reply without events."""
    return Reply((), False, message)


def _pause(state: State, body: dict[str, Json], by: str) -> Reply:
    if state.status in ("paused", "blocked"):
        words = f"{state.status} ({state.reason})" if state.reason else state.status
        return Reply((), True, f"the run is already {words}; `planrunner resume {state.run_id}` continues it")
    if state.stop_reason:
        return refused(f"the run is stopping already: {state.stop_reason}")
    left = len(state.running)
    words = f"; {left} running task{'s' * (left > 1)} may finish" if left else ""
    return Reply((StopRequested("pause", by, str(body.get("reason", ""))),), True, f"no more tasks start{words}")


def _resume(state: State, body: dict[str, Json], by: str) -> Reply:
    """A pause is withdrawn while running tasks still finish."""
    if state.status in ("paused", "blocked"):
        return refused(f"the run is {state.status} already; `planrunner resume {state.run_id}` continues it")
    if state.stop_reason != "pause":
        return refused(f"the run is stopping: {state.stop_reason}" if state.stop_reason else "the run is not paused")
    return Reply((StopRequested("", by),), True, "the pause is withdrawn: the run continues in its process")


REQUEST = "request"
"""Why an attempt ends that a person cancelled."""

UNKNOWN = 3
"""The code of a refusal for a task that the run does not have."""


def task_of(state: State, wanted: str) -> str | Reply:
    """The path of the task that people name by it or by the end of it; the refusal where none or several match."""
    paths = [state.specs[number].id for number in named(state, wanted)]
    if len(paths) == 1:
        return paths[0]
    if paths:
        return Reply((), False, f"`{wanted}` names {len(paths)} tasks: {', '.join(paths[:8])}", UNKNOWN)
    near = nearest(wanted, state.index)
    return Reply((), False, f"it has no task `{wanted}`" + meant(near), UNKNOWN)


def _cancel(state: State, body: dict[str, Json], by: str) -> Reply:
    if body.get("task"):
        task = task_of(state, str(body["task"]))
        if isinstance(task, Reply):
            return task
        event = _call_off(state, task, by, str(body.get("reason", "")), str(body.get("barred", "")))
        if isinstance(event, str):
            return refused(event)
        became = "stopped" if isinstance(event, AttemptStopping) else "abandoned"
        return Reply((event,), True, f"`{event.task}` is {became}")
    reason = "killed" if body.get("now") else "cancelled"
    if STOPS[state.stop_reason] >= STOPS[reason]:
        return refused(f"the run is ending already: {state.stop_reason}")
    if reason == "cancelled" and not state.open:
        undoing = state.compensation_log is not None and state.compensation_log.active
        left = "it is being rolled back" if undoing else "only tasks under `finally` are left"
        return refused(f"{left}, which cancelling does not stop; `--now` does")
    rest = "" if reason == "killed" or not state.finals_open else "; what stands under `finally` still runs"
    return Reply((StopRequested(reason, by, str(body.get("reason", ""))),), True, f"what is open is cancelled{rest}")


def _call_off(state: State, name: str, by: str, why: str, barred: str = "") -> AttemptStopping | TaskSettled | str:
    """The event that stops one attempt, or abandons a task that waits for people, on request; or why neither is
    possible. ``barred`` says why the one who asks may not decide for people."""
    number = state.index.get(name)
    if number is None:
        return f"the run has no task `{name}`"
    if number in state.containers:
        return f"`{name}` holds others: name one of those that run inside it"
    detail = f"by {by}" + (f": {why}" if why else "")
    if state.tasks[number].status == "blocked" and state.stop_reason not in FINAL_STOPS:
        if barred:
            return f"`{name}` waits for people, and is abandoned as they decide: {barred}"
        return TaskSettled(name, "abandoned", REQUEST, detail)
    if state.status != "running" or not is_under_way(state, number):
        return f"`{name}` does not run: it {status_verb(state.tasks[number].status)}"
    return AttemptStopping(name, state.tasks[number].attempts, "cancelled", REQUEST, detail)


def _budget(state: State, body: dict[str, Json], by: str) -> Reply:
    by = str(body.get("by") or by)
    if body.get("scope"):
        task = task_of(state, str(body["scope"]))
        if isinstance(task, Reply):
            return task
        body = {**body, "scope": task}
    if "refuse" in body:
        no_more = refusal(state, body, by)
        if isinstance(no_more, str):
            return refused(no_more)
        return Reply(no_more, True, f"nothing is added by {by}: what waited for it stops as the plan says")
    if state.stop_reason == "deadline":
        late = "and no budget prolongs it: `planrunner exec` begins a new run"
        return refused(f"{deadline_text(state.plan)}, {late}")
    if state.stop_reason in OUT_OF_BUDGET and state.ended_at is None:
        return refused(f"the run is ending already: {state.stop_reason}")
    events = extension(state, body, by)
    if isinstance(events, str):
        return refused(events)
    if state.ended_at is not None:
        words = f"the budget is extended; `planrunner retry {state.run_id}` continues with it"
        if state.plan.deadline is not None:
            words += f", up to the deadline {format_duration(state.plan.deadline)} from the start of the run"
        return Reply((*events, RunReopened("budget", by)), True, words)
    waits = sum(task.status == "blocked" and task.reason == "budget" for task in state.tasks)
    words = f"; {waits} tasks waited for it" if waits > 1 else "; a task waited for it" if waits else ""
    if waits and (missing := still_short(state, str(body.get("scope", "")), body["add"])):
        words += f", and still wait{'' if waits > 1 else 's'}: {missing}"
    return Reply(events, True, f"the budget is extended{words}")


RULES: dict[str, Rule] = {"pause": _pause, "resume": _resume, "cancel": _cancel, "budget": _budget}
"""By the kind of the request."""


# Votes


SHORTEST = 6
"""Characters of a digest that are enough to name what was shown."""


def has_changed(shown: str, seen: str) -> bool:
    """Whether people saw another thing than what is ``shown`` now, by the digest or its beginning that they say; empty
    where they say none."""
    given = seen.strip().lower()
    return bool(given) and (len(given) < SHORTEST or not shown.startswith(given))


class Vote(Struct):
    """What a person says at ``gate``, from the door where they say it to the event that keeps it. ``by`` is their name,
    ``user`` who the system says they are; ``roles`` are theirs by the project's list, ``claimed`` by their own word (a
    door knows only the word: those are ``roles`` there). ``shown`` is the digest, or its beginning, of what they looked
    at; empty where they trust that it is what is asked now. ``add`` extends a budget, by what to how much (dollars,
    seconds, counts)."""

    gate: str
    verdict: Literal["approve", "reject"]
    by: str = ""
    user: str = ""
    roles: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    reason: str = ""
    choice: str = ""
    fields: dict[str, Json] = {}
    shown: str = ""
    rework: bool = False
    add: dict[str, float] = {}


def budget_body(limits: Sequence[Wanted], vote: Vote) -> dict[str, Json]:
    """The request that a vote about limits of one scope comes to."""
    said = {name: word for name, word in (("by", vote.by), ("reason", vote.reason)) if word}
    decided = {"refuse": [each.what for each in limits]} if vote.verdict == "reject" else {"add": vote.add}
    return {"scope": limits[0].scope, **said, **decided}


class _Refused(Exception):
    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def count(state: State, vote: Vote, now: float = 0.0, unread: bool = False) -> Reply:
    """The event of a vote at ``now``, in seconds since 1970 on the run's time line; one that does not count is refused.
    ``unread`` says that the evidence is about to be looked at again: what could not be read before does not count."""
    try:
        if state.ended_at is not None:
            raise _Refused(ended("the run", state.status))
        number, gate = _waiting(state, vote.gate)
        if gate.expires_at is not None and gate.expires_at <= now:
            raise _Refused(f"`{vote.gate}` has expired; resuming the run settles it")
        if has_changed(gate.shown, vote.shown):
            raise _Refused(f"what was shown has changed: look again (it is {gate.shown[:12]} now)", MISMATCH)
        _check_person(state, gate, vote)
        if vote.verdict == "reject":
            return _rejected(state, number, gate, vote)
        return _approved(state, number, gate, vote, unread)
    except _Refused as problem:
        return Reply((), False, problem.message, problem.code)


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
    raise _Refused(f"`{name}` is not waiting for a decision: it {status_verb(task_state.status)}")


def _check_person(state: State, gate: GateState, vote: Vote) -> None:
    roles, starter = {*vote.roles, *vote.claimed}, state.environment.get("user")
    if refusal := reason_not_allowed(gate, vote.gate, vote.by, roles, starter):
        raise _Refused(refusal, DENIED)
    changes = bool(vote.choice or vote.fields)
    if not changes and any(earlier.by == vote.by and earlier.verdict == vote.verdict for earlier in gate.votes):
        raise _repeated(gate, vote)


def _repeated(gate: GateState, vote: Vote) -> _Refused:
    return _Refused(f"{vote.by} has voted already; {tally(gate.votes, gate.need)}")


def _rejected(state: State, number: int, gate: GateState, vote: Vote) -> Reply:
    reject = spec(state, number, gate.stage).on_reject
    back = rework_target(state, number, reject)
    if vote.rework and back is None:
        none = "has no rounds of rework left" if reject.action == "rework" else "sends nothing back when it is rejected"
        raise _Refused(f"`{vote.gate}` {none}")
    follows = f"; the run goes back to `{state.specs[back].id}`" if back is not None else ""
    return Reply((_voted(gate, vote, "", {}),), True, f"`{vote.gate}` is rejected by {vote.by}{follows}")


def _approved(state: State, number: int, gate: GateState, vote: Vote, unread: bool) -> Reply:
    problem = next((str(item["problem"]) for item in gate.evidence if item.get("problem")), "")
    if problem and not unread:
        raise _Refused(f"`{vote.gate}` cannot be approved: {problem}")
    choice = _choice(gate, vote)
    for option in spec(state, number, gate.stage).options:
        if option.name == choice and option.rework and state.sent_back.get(number, 0) >= option.max:
            raise _Refused(f"`{choice}` sends back to `{option.target}` at most {option.max} times: none is left")
    form = [Param(**{**field, "choices": tuple(field.get("choices", ()))}) for field in gate.request.get("form", ())]
    bound = bind(form, vote.fields, "field")
    if bound.problems:
        raise _Refused(f"`{vote.gate}`: " + "; ".join(bound.problems))
    fields = bound.values
    earlier = next((each for each in gate.votes if each.by == vote.by and each.verdict == "approve"), None)
    if earlier is not None and (earlier.choice, earlier.fields) == (choice, fields):
        raise _repeated(gate, vote)
    _same_values(gate, vote, choice, fields)
    voted = _voted(gate, vote, choice, fields)
    others = [each for each in gate.votes if each.by != vote.by]
    names = [*(each.by for each in others if (each.verdict, each.choice) == ("approve", choice)), vote.by]
    if len(names) < gate.need:
        word = "changes their vote on" if earlier is not None else "approves"
        return Reply((voted,), True, f"{vote.by} {word} `{vote.gate}`: {tally([*others, voted], gate.need)}")
    chosen = f" ({choice})" if choice else ""
    return Reply((voted,), True, f"`{vote.gate}` is approved by {', '.join(names)}{chosen}")


def _voted(gate: GateState, vote: Vote, choice: str, fields: dict[str, Json]) -> GateVoted:
    return GateVoted(
        vote.gate,
        gate.visit,
        vote.verdict,
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
