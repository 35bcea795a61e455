"""What runs and projects ask people: as data, and as text with the commands that decide it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from planrunner.escapes import harmless
from planrunner.jsontext import as_text
from planrunner.machine.admission import Wanted
from planrunner.machine.answers import answered
from planrunner.machine.names import label
from planrunner.machine.questions import (
    Asks,
    Question,
    gate_at,
    is_limited,
    questions,
    tally,
    together,
    who_may,
    window_at,
)
from planrunner.machine.state import GateState, State
from planrunner.machine.windows import shown, window_of, windows
from planrunner.plan.expressions.quantities import duration_text, format_duration, format_money
from planrunner.views.hypotheses import gate_table
from planrunner.views.runs import rfc3339
from planrunner.views.status import (
    about,
    about_lines,
    command_text,
    doubt_answers,
    listed,
    settling_commands,
)
from planrunner.views.terminal import Terminal, cut, plural, word

Json = Any


LINES = 40
"""Lines of a piece of evidence that are shown."""

SHORT = 12
"""Characters of a digest that are shown; a vote takes any beginning of six or more."""
_SPELT = 6
"""Options of a gate that have a command each."""


PROGRAM = "planrunner"
"""How commands in data call it."""

ANYONE = "anyone"
ADMINS = "a person at the command line, or a token with the scope `admin`"
"""Who lets a plan run."""

_SIGNS = {"doubt": "in_doubt", "watchdog": "running", "trigger": "failed"}
"""The status whose sign a question of a kind has; ``blocked`` for all others."""


def question_object(state: State, question: Question, now: float) -> dict[str, Json]:
    """A question as data: what it asks and shows, ``who`` may act, and the ``commands`` that do. Times are in seconds
    since 1970, costs in dollars."""
    calls = commands(PROGRAM, state, question, now)
    if question.kind == "gate":
        return {**gate_object(state, question.task), "commands": calls}
    fact = _fact(question, calls)
    if (limit := question.limit) is not None:
        return {**fact, **{name: getattr(limit, name) for name in _OF_LIMIT}, "tasks": list(limit.tasks)}
    more: dict[str, Json] = {"about": about(state, question.task)}
    if question.kind == "doubt":
        more["command"] = command_text(state.specs[question.task])
        more["answers"] = doubt_answers(state, question.task)
    return {**fact, **more, "since": question.since}


_OF_LIMIT = ("scope", "what", "limit", "least", "more")


def project_object(question: Question) -> dict[str, Json]:
    """What a project asks without a run, in the shape of a gate."""
    fact = _fact(question, [step.worded(PROGRAM) for step in question.steps], ADMINS)
    return {**fact, "plan": question.plan, "since": question.since}


def _fact(question: Question, calls: list[str], who: str = ANYONE) -> dict[str, Json]:
    """What waits for people without being a gate of the plan, in the shape of one."""
    return {
        "gate": question.name,
        "stage": question.kind,
        "kind": question.kind,
        "ask": question.ask,
        "words": [],
        "options": [],
        "form": [],
        "inputs": {},
        "evidence": [],
        "roles": [],
        "people": [],
        "need": 1,
        "not_starter": False,
        "expires": None,
        "votes": [],
        "who": who,
        "commands": calls,
    }


def question_objects(state: State, now: float) -> list[dict[str, Json]]:
    """Everything that a run asks, as JSON shows it: points in time by RFC 3339."""
    return [dated(question_object(state, question, now)) for question in questions(state, now)]


def dated(fact: dict[str, Json]) -> dict[str, Json]:
    """A fact with its points in time by RFC 3339."""
    return fact | {name: rfc3339(fact[name]) for name in ("since", "expires") if name in fact}


def question_lines(terminal: Terminal, state: State, question: Question, now: float, whole: bool) -> list[str]:
    """A question as text with the commands that decide it; ``whole`` shows the evidence of a gate too."""
    if question.kind == "window":
        return _window_lines(terminal, state, question, now, whole)
    lines = _question_lines(terminal, state, question, now, whole)
    return [*lines, *(f"    {command}" for command in commands(terminal.program, state, question, now))]


def _head(terminal: Terminal, question: Question, name: str) -> str:
    sign = terminal.sign(_SIGNS.get(question.kind, "blocked"))
    return f"{sign} {terminal.paint(harmless(name), 'bold')}  {harmless(question.ask)}"


def project_lines(terminal: Terminal, question: Question) -> list[str]:
    """What a project asks, as text with the commands that go on."""
    calls = (step.worded(terminal.program) for step in question.steps)
    return [_head(terminal, question, f"{question.kind} {question.name}"), *(f"    {call}" for call in calls)]


def _question_lines(terminal: Terminal, state: State, question: Question, now: float, whole: bool) -> list[str]:
    number = question.task
    if question.limit is not None:
        needed = f"needed by {listed(question.limit.tasks, 3)} · decided by anyone"
        return [_head(terminal, question, question.name), f"    {needed}"]
    head = _head(terminal, question, label(state, number))
    if question.kind == "gate":
        return [head, *(f"    {line}" for line in _gate_lines(state, number, now, whole))]
    command = command_text(state.specs[number]).splitlines() if question.kind == "doubt" else ()
    return [head, *(f"    {line}" for line in (*map(harmless, command), *about_lines(state, number)))]


def _gate_lines(state: State, number: int, now: float, whole: bool) -> Iterator[str]:
    gate = gate_at(state, number)
    request = gate.request
    yield waiting_text(gate, now)
    if gate.again:
        yield f"asks again: {harmless(gate.again)}"
    if gate.unchosen:
        yield harmless(gate.unchosen)
    yield from about_lines(state, number)
    yield from (f"- {harmless(word)}" for word in request.get("words", ()) if word not in request.get("ask", ""))
    yield from gate_table(request.get("hypotheses", ()))
    for option in request.get("options", ()):
        yield from _option_lines(option)
    yield from (f"-f {_field_text(field)}" for field in request.get("form", ()))
    yield from map(harmless, _answers(gate))
    yield from (harmless(line) for item in gate.evidence for line in _evidence_lines(item, whole))
    if whole:
        given = request.get("inputs", {}).items()
        yield from (f"{name}: {harmless(cut(as_text(value, 300), 300))}" for name, value in given)


def commands(program: str, state: State, question: Question, now: float) -> list[str]:
    """The next commands that decide a question; of a gate that has expired, the command that settles it."""
    run, number = state.run_id, question.task
    if question.kind == "doubt":
        return settling_commands(program, state, number, run)
    if question.kind == "watchdog":
        return [watchdog_command(program, state, label(state, number))]
    if question.limit is not None:
        yes, no = (f"{program} {verdict} {run} {_quoted(question.name)}" for verdict in ("approve", "reject"))
        return [f"{yes} --add {suggestion(question.limit)}", f"{no} --reason TEXT"]
    return _gate_commands(program, state, number, now)


def watchdog_command(program: str, state: State, task: str) -> str:
    """The command that ends what a watchdog asks about."""
    return f"{program} cancel {state.run_id} --task {_quoted(task)} --reason TEXT"


def suggestion(limit: Wanted) -> str:
    """What lets all that wait go on, as `--add` takes it: ``cost='$0.50'``; for time once more what there was."""
    if limit.what == "cost":
        return f"cost='{format_money(limit.more)}'"
    return f"time={format_duration(limit.limit)}" if limit.what == "time" else f"{limit.what}={limit.more:.0f}"


def _quoted(name: str) -> str:
    return name if all(sign.isalnum() or sign in "-_./@" for sign in name) else harmless(word(name))


def gate_object(state: State, number: int) -> dict[str, Json]:
    """One gate: what it asks and shows, who may decide, and what they have said. Times are seconds since 1970."""
    gate = gate_at(state, number)
    request = gate.request
    return {
        "gate": state.specs[number].id,
        "visit": gate.visit,
        "stage": gate.stage,
        "kind": request.get("kind", ""),
        "ask": request.get("ask", ""),
        "words": request.get("words", []),
        "unchosen": gate.unchosen,
        "about": about(state, number),
        "hypotheses": list(request.get("hypotheses", ())),
        "options": list(request.get("options", ())),
        "form": list(request.get("form", ())),
        "inputs": request.get("inputs", {}),
        "evidence": list(gate.evidence),
        "roles": list(gate.roles),
        "people": list(gate.people),
        "need": gate.need,
        "not_starter": gate.not_starter,
        "who": who_may(gate),
        "since": gate.opened_at,
        "expires": gate.expires_at,
        "escalated": gate.escalated,
        "votes": [
            {
                "by": vote.by,
                "verdict": vote.verdict,
                "roles": list(vote.roles or vote.claimed),
                "claimed": bool(vote.claimed),
                "choice": vote.choice,
                "fields": vote.fields,
                "reason": vote.reason,
            }
            for vote in gate.votes
        ],
        "again": gate.again,
        "shown": gate.shown,
        "window": window_of(state, number),
    }


def window_objects(state: State, asked: Iterable[Question]) -> list[dict[str, Json]]:
    """The review windows of the gates that wait: their gates, the tasks whose gates are still to come, and the digest
    of all that they show."""
    return [
        {
            "window": window.name,
            "gates": [state.specs[number].id for number in window.waiting],
            "coming": list(window.coming),
            "shown": shown(state, window),
        }
        for window in windows(state, [question.task for question in asked if question.kind == "gate"]).values()
    ]


def waiting_lines(terminal: Terminal, state: State, asked: Sequence[Question], now: float, whole: bool) -> list[str]:
    """Questions as text: the gates of a review window as one list, with the command that approves of all."""
    lines: list[str] = []
    for question in sorted(together(asked, 1), key=lambda each: _ORDER.index(each.kind)):
        lines += question_lines(terminal, state, question, now, whole)
    return lines


_ORDER = ("doubt", "gate", "window", "watchdog", "budget")


def _window_lines(terminal: Terminal, state: State, question: Question, now: float, whole: bool) -> list[str]:
    """A review window: its gates one below the other, each with how it is rejected, and how all are approved."""
    window = window_at(state, question)
    coming = f", {plural(len(window.coming), 'more')} to come: {', '.join(window.coming[:8])}" if window.coming else ""
    head = f"window {terminal.paint(window.name, 'bold')}: {plural(len(window.waiting), 'gate')}{coming}"
    lines = [f"{terminal.sign('blocked')} {head}"]
    for gate in question.gates:
        lines += [f"  {line}" for line in _question_lines(terminal, state, gate, now, whole)]
        lines.append(f"      {commands(terminal.program, state, gate, now)[-1]}")
    if not window.coming:
        call = f"{state.run_id} {_quoted(window.name)}{_who(question.gates[0])}"
        lines.append(f"    {terminal.program} approve {call} --shown {shown(state, window)[:SHORT]}")
    return lines


def waiting_text(gate: GateState, now: float) -> str:
    """``waiting 12m05s · expires in 3h48m · 1 of 2 approvals (ana) · needs role `release```."""
    parts = [f"waiting {duration_text(max(0.0, now - gate.opened_at))}"]
    if gate.expires_at is not None:
        left = gate.expires_at - now
        parts.append(f"expires in {duration_text(left)}" if left > 0 else "expired; resume the run to settle it")
    votes, by = tally(gate.votes, gate.need), ", ".join(vote.by for vote in gate.votes if vote.verdict == "approve")
    parts.append(f"{votes} ({by})" if by else votes)
    return harmless(" · ".join([*parts, needs_text(gate)]))


def needs_text(gate: GateState) -> str:
    """``needs role `release```, or ``decided by anyone``."""
    return f"{'needs' if gate.roles or gate.people else 'decided by'} {who_may(gate)}"


def _option_lines(option: dict[str, Json]) -> Iterator[str]:
    title = f"  {harmless(str(option['title']))}" if option.get("title") else ""
    cost = f"  (cost {harmless(str(option['cost']))})" if option.get("cost") else ""
    yield f"* {option['name']}{title}{cost}"
    if option.get("description"):
        yield f"    {harmless(str(option['description']))}"
    yield from (f"    + {harmless(str(pro))}" for pro in option.get("pros", ()))
    yield from (f"    - {harmless(str(con))}" for con in option.get("cons", ()))


def _field_text(field: dict[str, Json]) -> str:
    kind = field.get("type", "any")
    choices = f" ({', '.join(map(as_text, field['choices']))})" if field.get("choices") else ""
    default = f", default {as_text(field['default'])}" if "default" in field else ""
    need = ", required" if field.get("required") else ""
    about = f": {harmless(str(field['description']))}" if field.get("description") else ""
    return f"{field['name']}={kind}{choices}{default}{need}{about}"


def _answers(gate: GateState) -> Iterator[str]:
    """Whose values the next vote is for."""
    for vote in gate.votes:
        if vote.fields:
            chosen = f" ({vote.choice})" if vote.choice else ""
            yield f"{vote.by} {answered(gate, vote.fields)}{chosen}"


def _evidence_lines(item: dict[str, Json], whole: bool) -> Iterator[str]:
    digest = str(item.get("digest", "")).removeprefix("sha256:")[:SHORT]
    counts = ", ".join(f"{count} {name}" for name, count in (item.get("counts") or {}).items())
    yield f"{item['kind']} {item['name']}  {digest}" + (f"  {counts}" if counts else "")
    if item.get("problem"):
        yield f"  problem: {item['problem']}"
    if whole or item["kind"] == "text":
        lines = str(item.get("text", "")).splitlines()
        yield from (f"  | {line}" for line in lines[:LINES])
        if len(lines) > LINES:
            yield f"  | … {len(lines) - LINES} more lines"


def _gate_commands(program: str, state: State, number: int, now: float) -> list[str]:
    gate, task = gate_at(state, number), label(state, number)
    if gate.expires_at is not None and gate.expires_at <= now:
        return [f"{program} resume {state.run_id}"]
    call, seen = f"{state.run_id} {_quoted(task)}{_who(gate)}", f"--shown {gate.shown[:SHORT]}"
    required = [field for field in gate.request.get("form", ()) if field.get("required") or gate.stage == "instruction"]
    fields = "".join(f" -f {field['name']}=…" for field in required)
    options = [str(option["name"]) for option in gate.request.get("options", ())]
    if options or fields:  # a line for each option: what stands in one is pasted into a shell
        named = [f" {_quoted(option)}" for option in options] if len(options) <= _SPELT else [" OPTION"]
        yes = [f"{program} answer {call}{option}{fields} {seen}" for option in named or [""]]
    else:
        yes = [f"{program} approve {call} {seen}"]
    return [*yes, f"{program} reject {call} --reason TEXT"]


def _who(asks: Asks) -> str:
    """The options by which a voter claims to be one of those who may decide."""
    if not is_limited(asks):
        return ""
    name = _quoted(asks.people[0]) if len(asks.people) == 1 and not asks.roles else "NAME"
    role = _quoted(asks.roles[0]) if len(asks.roles) == 1 else "ROLE"
    return f" --as {name}" + (f" --role {role}" if asks.roles else "")


def decided_lines(terminal: Terminal, state: State, decided: dict[int, str]) -> list[str]:
    """What was decided since the run was parked, and the command that continues with it."""
    if not decided:
        return []
    lines = [
        f"{terminal.sign('paused')} {harmless(f'`{label(state, number)}` is {words}')}"
        for number, words in decided.items()
    ]
    return [*lines, f"    {terminal.program} resume {state.run_id}"]


def next_commands(terminal: Terminal, state: State) -> list[str]:
    """What to do about the gates of a run that waits: the commands of one, or where several are listed."""
    asked = [each for each in questions(state, state.active_since or 0.0) if each.kind != "watchdog"]
    decided = [question for question in asked if question.kind != "doubt"]
    if not decided:
        return []
    if len(asked) > 1:
        return [f"  {plural(len(asked), 'question')}: {terminal.program} gates {state.run_id}"]
    question = decided[0]
    calls = commands(terminal.program, state, question, time.time())
    if question.limit is not None:
        return [f"  {question.ask}", *(f"  {command}" for command in calls)]
    gate, number = gate_at(state, question.task), question.task
    ask = cut(harmless(state.tasks[number].detail), terminal.edge() - 10, terminal.unicode)
    return [
        f"  {label(state, number)} asks: {ask}",
        *(f"  {line}" for line in about_lines(state, number)),
        *([f"  {harmless(needs_text(gate))}"] if is_limited(gate) else []),
        *(f"  {command}" for command in calls),
    ]
