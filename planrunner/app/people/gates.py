"""What waits for people, and what they say: gates of all runs or of one, found by name, and votes on them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from re import escape, fullmatch
from typing import Any

from msgspec import to_builtins

from planrunner.app.history.show import Look, look
from planrunner.app.history.state import stored_state
from planrunner.app.people.persons import require_person
from planrunner.app.people.questions import in_order
from planrunner.app.runs.control import Steered, steer
from planrunner.app.runs.doubts import DECIDED, rest
from planrunner.app.runs.secrets import vault_of
from planrunner.caller import Principal, principal, workspace
from planrunner.engine.calls import NO_VALUE, Place
from planrunner.engine.evidence import examine
from planrunner.engine.gates import renewed
from planrunner.errors import Hint, NextStep, NotFound, PlanrunnerError, RecordMismatch, UsageError
from planrunner.journal.ports import Journal
from planrunner.journal.records import Answer, Request, RunRow
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_project, find_state
from planrunner.jsontext import stable_json
from planrunner.machine.admission import Wanted
from planrunner.machine.gates import gate_reopened, sentence
from planrunner.machine.names import label
from planrunner.machine.questions import Question, find, gate_at, limits_of, questions, waiting_gates, window_at
from planrunner.machine.requests import Vote, budget_body, has_changed
from planrunner.machine.state import State
from planrunner.machine.windows import shown
from planrunner.plan.nearest import nearest
from planrunner.plan.rights import Level
from planrunner.records import Struct
from planrunner.safety.project import roles_in
from planrunner.statuses import ended, status_verb
from planrunner.views.documents import document
from planrunner.views.gates import dated, project_object, question_object, suggestion, window_objects

Json = Any


_PAGE = 200


class Waiting(Struct):
    """A run that waits for people: what it asks, and whether a process acts on it. ``decided`` says of the tasks that
    are fully decided, and continue with the resumed run, how they were."""

    state: State
    questions: list[Question]
    held: bool
    decided: dict[int, str]

    @property
    def asks(self) -> bool:
        """Whether the run waits for a person, or for a resume after one has decided."""
        return bool(self.questions or self.decided)


def waiting_document(
    runs: list[Waiting], now: float, of_project: Iterable[Question] = (), **more: Json
) -> dict[str, Json]:
    """What waits for people, as ``planrunner gates --json`` prints it, and ``more`` fields; ``of_project`` is what the
    project asks."""

    def of_run(one: Waiting, more: dict[str, Json]) -> dict[str, Json]:
        return {"run_id": one.state.run_id, "plan": one.state.plan.id, "held": one.held, **more}

    asked = in_order([(one, question) for one in runs for question in one.questions], of_project)
    return document(
        gates=[
            {"run_id": None, "held": False, **dated(project_object(question))}
            if one is None
            else of_run(one, dated(question_object(one.state, question, now)))
            for one, question in asked
        ],
        windows=[of_run(one, window) for one in runs for window in window_objects(one.state, one.questions)],
        decided=[
            of_run(one, {"gate": one.state.specs[number].id, "decision": words})
            for one in runs
            for number, words in one.decided.items()
        ],
        **more,
    )


def _waiting(state: State, held: bool) -> Waiting:
    decided = {} if held else rest(state)
    return Waiting(state, questions(state, time.time()), held, decided)


def waiting(run: str | None, state: str | None) -> list[Waiting]:
    """Every run with gates that wait or were decided since it was parked, newest first; of one run only where it is
    named. Raises NotFound for a run there is none of; a place without runs gives an empty list."""
    if run is not None:
        found = look(run, state)
        look_again(found.state)
        return [_waiting(found.state, found.row.leased)]
    try:
        journal = open_journal(find_state(None, state), readonly=True)
    except NotFound:
        return []
    with closing(journal):
        return list(_those_waiting(journal, _all_rows(journal)))


def waiting_among(runs: Iterable[str], state: str | None) -> list[Waiting]:
    """Those of some runs, by their whole ids, with gates that wait or were decided since they were parked, in the same
    order. A run that was removed meanwhile is left out."""
    known = list(runs)
    if not known:
        return []
    with closing(open_journal(find_state(None, state), readonly=True)) as journal:
        return list(_those_waiting(journal, _rows(journal, known)))


def _all_rows(journal: Journal) -> Iterator[RunRow]:
    offset = 0
    while rows := journal.runs(_PAGE, offset):
        offset += len(rows)
        yield from rows


def _rows(journal: Journal, runs: Iterable[str]) -> Iterator[RunRow]:
    for run in runs:
        with suppress(NotFound):
            yield journal.run(run)


def _those_waiting(journal: Journal, rows: Iterable[RunRow]) -> Iterator[Waiting]:
    look = Examined()
    for row in rows:
        if not row.status:
            folded = stored_state(journal, row.run)
            look_again(folded, look)
            one = _waiting(folded, row.leased)
            if one.asks:
                yield one


class Examined:
    """What gates show, looked at once for all gates of one list that show the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[dict[str, Json], ...], str]] = {}

    def __call__(
        self, looks: Sequence[dict[str, Json]], directory: str, rights: Sequence[Level]
    ) -> tuple[tuple[dict[str, Json], ...], str]:
        key = stable_json([list(looks), directory, [list(level) for level in rights]])
        if key not in self._known:
            self._known[key] = examine(looks, directory, rights)
        return self._known[key]


def look_again(state: State, look: Examined | None = None) -> None:
    """Let the gates that wait show what there is now, as a vote finds it; the record stays as it is."""
    place, look = Place(str(state.environment.get("directory") or workspace().root), ""), look or Examined()
    for number in waiting_gates(state):
        try:
            event = renewed(state, state.specs[number].id, place, look=look)
        except NO_VALUE:
            continue  # which the vote says
        gate = state.tasks[number].gate
        if event is not None and gate is not None:
            known = {item.get("digest"): item for item in gate.evidence}
            seen = tuple(known.get(item.get("digest")) or _redacted(item, state, place) for item in event.evidence)
            gate_reopened(state, event._replace(evidence=seen), state.now)


def _redacted(item: dict[str, Json], state: State, place: Place) -> dict[str, Json]:
    """A piece of evidence that the run has not kept, without its secrets; without its text where they are not known."""
    try:
        vault = vault_of(state, place.directory)
    except PlanrunnerError:
        return {**item, "text": ""}
    return item if vault is None else dict(vault.redactor.data(item))


def find_gates(state: State, name: str) -> list[str]:
    """The waiting gates that a name means: the path of a task, the end of one path alone, ``TASK/gate`` for what a task
    asks, or a pattern with ``*`` for any number of them. Raises NotFound, also for a name that several have,
    and UsageError for a gate that is decided."""
    names = [state.specs[number].id for number in waiting_gates(state)]
    labels = {each: label(state, state.index[each]) for each in names}
    name = next((each for each in names if labels[each] == name), name)
    if name in names:
        return [name]
    if "*" in name:
        pattern = ".*".join(map(escape, name.split("*")))  # a pattern may be the end of a path
        if fitting := [other for other in names if fullmatch(f"(?:.*/)?(?:{pattern})", other)]:
            return fitting
    for wanted in (name, name.removesuffix("/gate")):
        if wanted in names:
            return [wanted]
        ends = [other for other in names if other.endswith((f"/{wanted}", f"]{wanted}"))]
        if len(ends) == 1:
            return ends
        if ends:
            raise NotFound(
                f"`{name}` is more than one gate", f"say which: {', '.join(labels[each] for each in ends[:10])}"
            )
    raise _missing(state, name, names)


def _missing(state: State, name: str, names: list[str]) -> NotFound | UsageError:
    """The error for a name that no waiting gate has; it may mean what waits, by its path or the end of it, or what was
    asked before."""
    number, asked = state.index.get(name), questions(state, time.time())
    if number is not None:
        task_state = state.tasks[number]
        if any(each.kind == "doubt" for each in find(asked, name)):
            step = NextStep("resume", state.run_id, "--settle", f"{name}=completed")
            return UsageError(f"`{name}` is in doubt: say what became of it (completed, failed, retry)", step)
        why = NextStep("why", state.run_id, name)
        if task_state.gate is not None and (task_state.gate.decision or task_state.gate.verdict):
            then = NextStep("resume", state.run_id) if task_state.reason == DECIDED else why
            return UsageError(f"`{name}` is decided already: {sentence(task_state.gate)}", then)
        return UsageError(f"`{name}` is not waiting for a decision: it {status_verb(task_state.status)}", why)
    ends = [waiting.rpartition("/")[2] for waiting in names if "/" in waiting]
    limits = [limit.name for limit in limits_of(asked)]
    windows = dict.fromkeys(question.window for question in asked if question.window)
    before = [task.id for task, run in zip(state.specs, state.tasks, strict=True) if run.gate is not None]
    near = nearest(name.removesuffix("/gate"), [*names, *ends, *limits, *windows, *before])
    listed = f"waiting: {', '.join(names[:10])}" if names else "nothing waits in this run"
    hint = f"did you mean `{near}`?" if near else f"{listed};"
    way = Hint(f"{hint} ", NextStep("gates", state.run_id), " lists them")
    return NotFound(f"run {state.run_id} has no gate `{name}`", way)


def roles_of(who: Principal, directory: str) -> tuple[str, ...]:
    """The roles of a person in the project of a directory: those that the project lists, or where it lists no people
    those that the person comes with. Raises PlanInvalid and UsageError for a project file that cannot be read."""
    roles = roles_in(directory, who.name, who.roles)
    return roles.listed + roles.claimed


def reason_not_allowed(question: Question, state: State) -> str:
    """Why the caller may not decide a question of a run; empty where they may. Raises what ``roles_of`` raises."""
    who = principal()
    roles = roles_of(who, str(state.environment.get("directory") or find_project(None)))
    return question.reason_not_allowed(who.name, roles)


class Voted(Struct):
    """What became of the vote on one gate."""

    gate: str
    steered: Steered


def vote_document(voted: Voted) -> dict[str, Json]:
    """What became of one vote."""
    steered = voted.steered
    answer = steered.answer
    return document(
        run_id=steered.run_id, gate=voted.gate, applied=answer.applied, message=answer.message, held=steered.held
    )


def decide(run: str, vote: Vote, state: str | None) -> list[Voted]:
    """Say something at the gates that ``vote.gate`` means.

    A limit that tasks wait for is called ``budget`` or ``TASK/budget``, or as one of those tasks; to approve of it is
    to say how much is added. Raises NotFound, UsageError and what ``steer`` raises.
    """
    found = look(run, state)
    run = found.row.run
    if found.row.status:
        raise UsageError(ended(f"run {run}", found.row.status), _ended_hint(found, vote))
    asked = find(questions(found.state, time.time()), vote.gate)
    if asked and asked[0].kind == "budget":
        return _decide_limits(run, limits_of(asked), vote, state)
    if asked and asked[0].kind == "window":
        return _approve_window(found, asked[0], vote, state)
    names = find_gates(found.state, vote.gate)
    if vote.add:
        raise UsageError(f"`{names[0]}` is not a budget: nothing can be added to it", NextStep("gates", run))
    return [_cast(run, vote._replace(gate=name), state) for name in names]


def _cast(run: str, vote: Vote, state: str | None) -> Voted:
    return Voted(vote.gate, steer(run, "vote", to_builtins(vote), state))


def _approve_window(found: Look, question: Question, vote: Vote, state: str | None) -> list[Voted]:
    """Approve of every gate of a review window, each for what it shows now."""
    run, name, gates = found.row.run, question.name, [gate.name for gate in question.gates]
    window = window_at(found.state, question)
    if vote.verdict == "reject":
        step = NextStep("reject", run, gates[0], "--reason", "TEXT")
        hint = Hint(f"name the gate to reject ({', '.join(gates[:10])}): ", step)
        raise UsageError(f"`{name}` is a review window, which is approved as a whole", hint)
    if vote.choice or vote.fields or vote.add:
        raise UsageError(f"`{name}` is a review window: it is approved, not answered", NextStep("approve", run, name))
    if window.coming:
        more = f"{', '.join(window.coming[:10])} {'has' if len(window.coming) == 1 else 'have'} not reached their gates"
        hint = Hint("wait for them, or decide gates one by one: ", NextStep("approve", run, gates[0]))
        raise UsageError(f"the window `{name}` is not complete: {more}", hint)
    if vote.shown:
        look_again(found.state)
    if has_changed(shown(found.state, window), vote.shown):
        message = f"run {run}: what the window `{name}` shows has changed: look again"
        raise RecordMismatch(message, NextStep("gates", run))
    return [_cast(run, each, state) for each in votes_of(found.state, question, vote)]


def votes_of(state: State, question: Question, vote: Vote) -> list[Vote]:
    """What is said at a gate or a window, as a vote at each of its gates, for what that shows."""
    gates = question.gates or (question,)
    return [vote._replace(gate=gate.name, shown=gate_at(state, gate.task).shown) for gate in gates]


def _ended_hint(found: Look, vote: Vote) -> NextStep | Hint:
    """What is done about a run that has ended: one that ran out of a budget continues with more of it."""
    run = found.row.run
    task, _, last = vote.gate.rpartition("/")
    if found.row.status == "completed" or not (vote.add or last == "budget"):
        return NextStep("show", run)
    scope = ("--task", task) if task else ()
    return Hint(NextStep("budget", run, *scope, "--add", "WHAT=AMOUNT"), ", then ", NextStep("retry", run))


def _decide_limits(run: str, limits: list[Wanted], vote: Vote, state: str | None) -> list[Voted]:
    """Extend limits, or refuse to."""
    name = limits[0].name
    if vote.shown:
        raise UsageError(
            f"`{name}` is a budget: it shows nothing that --shown could be held to", NextStep("gates", run)
        )
    rejects = vote.verdict == "reject"
    if vote.rework or vote.choice or vote.fields or not (rejects or vote.add):
        example = [word for each in limits for word in ("--add", suggestion(each))]
        raise UsageError(f"`{name}` is a budget: say how much is added", NextStep("approve", run, name, *example))
    return [Voted(name, steer(run, "budget", budget_body(limits, vote), state))]


class VoteSender:
    """Votes from inside the process that holds the run: left in the journal like all others, by a connection of its
    own, and answered in the course of the run."""

    def __init__(self, state: str | None) -> None:
        self._state = find_state(None, state)
        self._journal = open_journal(self._state)

    def send(self, state: State, question: Question, vote: Vote) -> list[int]:
        """Leave what is said about a question; the numbers of the requests. Raises Denied where a run asks."""
        limits = limits_of([question])
        kind = "budget" if limits else "vote"
        require_person(kind, self._state)
        bodies = [budget_body(limits, vote)] if limits else list(map(to_builtins, votes_of(state, question, vote)))
        by, now = principal().name, time.time()
        return [self._journal.post(state.run_id, Request(kind, body, by, at=now)) for body in bodies]

    def answered(self, number: int) -> Answer | None:
        """What became of a vote; None while it waits."""
        return self._journal.answered(number)

    def leave(self, run_id: str) -> None:
        """Pause the run: the person has left the prompt."""
        self._journal.post(run_id, Request("pause", {"reason": "left at the prompt"}, principal().name, at=time.time()))

    def close(self) -> None:
        self._journal.close()
