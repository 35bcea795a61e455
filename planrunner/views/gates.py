"""Gates that wait for people: as data, and as text with the commands that answer them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from planrunner.errors import NextStep
from planrunner.escapes import harmless
from planrunner.jsontext import as_text
from planrunner.machine.admission import Wanted, wanted
from planrunner.machine.answers import answered
from planrunner.machine.deciders import who_may
from planrunner.machine.names import label
from planrunner.machine.recovery import is_done, on_resume
from planrunner.machine.requests import tally
from planrunner.machine.state import GateState, State
from planrunner.machine.windows import Window, shown, window_of, windows
from planrunner.plan.expressions.quantities import format_duration, format_money
from planrunner.views.hypotheses import gate_table
from planrunner.views.status import (
    about,
    about_lines,
    command_text,
    doubt_answers,
    doubtful,
    is_resting,
    rfc3339,
    settling_commands,
)
from planrunner.views.terminal import Terminal, cut, duration_text, plural, word

Json = Any


LINES = 40
"""Lines of a piece of evidence that are shown."""

SHORT = 12
"""Characters of a digest that are shown; a vote takes any beginning of six or more."""
_SPELT = 6
"""Options of a gate that have a command each."""


def waiting_gates(state: State) -> list[int]:
    """The tasks whose gates wait for people, by number."""
    if not state.counts.get("blocked"):
        return []
    return [
        number
        for number, task_state in enumerate(state.tasks)
        if task_state.status == "blocked"
        and task_state.gate is not None
        and task_state.gate.waits
        and number not in state.held
    ]


def waiting_doubts(state: State) -> list[int]:
    """The tasks in doubt that only a person can settle, by number."""
    if state.ended_at is not None:
        return []
    return [n for n in doubtful(state) if not is_done(state.tasks[n]) and not on_resume(state, n)]


def waiting_budgets(state: State, now: float) -> list[Wanted]:
    """The limits that tasks of a run wait for people to extend."""
    if state.ledger is None or not state.counts.get("blocked"):
        return []
    return wanted(state, now)


def waiting_watchdogs(state: State) -> list[int]:
    """The tasks that run for so long that a watchdog asks people about them, by number."""
    return sorted(state.alarms.asked) if state.alarms is not None else []


def watchdog_command(program: str, state: State, task: str) -> str:
    """The command that ends what a watchdog asks about."""
    return f"{program} cancel {state.run_id} --task {_quoted(task)} --reason TEXT"


def _watchdog_ask(state: State, number: int) -> str:
    assert state.alarms is not None
    after = duration_text(state.alarms.asked[number][0])
    return f"`{label(state, number)}` still runs after {after}: let it continue, or end it?"


PROGRAM = "planrunner"
"""How commands in data call it."""

ANYONE = "anyone"
ADMINS = "a person at the command line, or a token with the scope `admin`"
"""Who lets a plan run."""


def _question(gate: str, kind: str, ask: str, commands: list[str], who: str = ANYONE) -> dict[str, Json]:
    """What waits for people without being a gate of the plan, in the shape of one."""
    return {
        "gate": gate,
        "stage": kind,
        "kind": kind,
        "ask": ask,
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
        "commands": commands,
    }


def question_of_project(
    kind: str, name: str, plan: str, ask: str, steps: Sequence[NextStep], since: float | None = None
) -> dict[str, Json]:
    """What a project asks without a run (``kind`` is ``trust`` or ``trigger``), in the shape of a gate."""
    commands = [step.worded(PROGRAM) for step in steps]
    return {**_question(name, kind, ask, commands, ADMINS), "plan": plan, "since": since}


def project_lines(terminal: Terminal, fact: dict[str, Json]) -> list[str]:
    """What a project asks, as text with the commands that go on."""
    sign = "failed" if fact["kind"] == "trigger" else "blocked"
    name = terminal.paint(harmless(f"{fact['kind']} {fact['gate']}"), "bold")
    return [
        f"{terminal.sign(sign)} {name}  {harmless(fact['ask'])}",
        *(f"    {terminal.program}{command.removeprefix(PROGRAM)}" for command in fact["commands"]),
    ]


def doubt_object(state: State, number: int) -> dict[str, Json]:
    """A task whose attempt was interrupted with an unknown result; ``answers`` are what may be said of it."""
    commands = settling_commands(PROGRAM, state, number, state.run_id)
    question = _question(state.specs[number].id, "doubt", _doubt_ask(state, number), commands)
    return {
        **question,
        "about": about(state, number),
        "command": command_text(state.specs[number]),
        "answers": doubt_answers(state, number),
        "since": state.tasks[number].started,
    }


def _doubt_ask(state: State, number: int) -> str:
    return f"`{label(state, number)}` was interrupted, result unknown: did it succeed?"


def doubt_lines(terminal: Terminal, state: State, number: int) -> list[str]:
    """A task in doubt as text with the commands that decide it."""
    name = label(state, number)
    return [
        f"{terminal.sign('in_doubt')} {terminal.paint(name, 'bold')}  {harmless(_doubt_ask(state, number))}",
        *(f"    {harmless(line)}" for line in command_text(state.specs[number]).splitlines()),
        *(f"    {line}" for line in about_lines(state, number)),
        *(f"    {command}" for command in settling_commands(terminal.program, state, number, state.run_id)),
    ]


def watchdog_object(state: State, number: int) -> dict[str, Json]:
    """A task that a watchdog asks people about; it continues meanwhile."""
    assert state.alarms is not None
    commands = [watchdog_command(PROGRAM, state, label(state, number))]
    question = _question(state.specs[number].id, "watchdog", _watchdog_ask(state, number), commands)
    return {**question, "about": about(state, number), "since": state.alarms.asked[number][1]}


def watchdog_lines(terminal: Terminal, state: State, number: int) -> list[str]:
    """A task that a watchdog asks people about, as text."""
    name = label(state, number)
    return [
        f"{terminal.sign('running')} {terminal.paint(name, 'bold')}  {harmless(_watchdog_ask(state, number))}",
        *(f"    {line}" for line in about_lines(state, number)),
        f"    {watchdog_command(terminal.program, state, name)}",
    ]


def gate_objects(state: State, now: float) -> list[dict[str, Json]]:
    """``gate_facts`` as JSON shows them: points in time by RFC 3339."""
    return [dated(fact) for fact in gate_facts(state, now)]


def dated(fact: dict[str, Json]) -> dict[str, Json]:
    """A fact with its points in time by RFC 3339."""
    return fact | {name: rfc3339(fact[name]) for name in ("since", "expires") if name in fact}


def may_ask(state: State) -> bool:
    """Whether anything of a run may wait for people: what most runs answer without a look at each task."""
    counts = state.counts
    doubts = counts.get("in_doubt") or (counts.get("running") and is_resting(state))
    return bool(counts.get("blocked") or doubts or (state.alarms is not None and state.alarms.asked))


def gate_facts(state: State, now: float) -> list[dict[str, Json]]:
    """Everything of a run that waits for people as data, the most urgent first: tasks in doubt, gates, what watchdogs
    ask, budgets; each with its ``kind``, ``who`` may act, and the ``commands`` that do."""
    gates = [doubt_object(state, number) for number in waiting_doubts(state)]
    gates += [
        {**gate_object(state, number), "commands": commands(PROGRAM, state, number, now)}
        for number in waiting_gates(state)
    ]
    gates += [watchdog_object(state, number) for number in waiting_watchdogs(state)]
    return gates + [budget_gate_object(state, asked) for asked in waiting_budgets(state, now)]


def budget_gate_object(state: State, asked: Wanted) -> dict[str, Json]:
    """A limit that may be extended; cost is in dollars, time in seconds."""
    names = ("scope", "what", "limit", "least", "more")
    return {
        **_question(asked.name, "budget", asked.ask, budget_commands(PROGRAM, state, asked)),
        **{name: getattr(asked, name) for name in names},
        "tasks": list(asked.tasks),
    }


def budget_gate_lines(terminal: Terminal, state: State, asked: Wanted) -> list[str]:
    """A limit that may be extended, as text."""
    names = ", ".join(asked.tasks[:3]) + (f" and {len(asked.tasks) - 3} more" if len(asked.tasks) > 3 else "")
    return [
        f"{terminal.sign('blocked')} {terminal.paint(asked.name, 'bold')}  {harmless(asked.ask)}",
        f"    needed by {names} · decided by anyone",
        *(f"    {command}" for command in budget_commands(terminal.program, state, asked)),
    ]


def budget_commands(program: str, state: State, asked: Wanted) -> list[str]:
    """The next commands that decide about a limit."""
    call = f"{state.run_id} {_quoted(asked.name)}"
    return [f"{program} approve {call} --add {suggestion(asked)}", f"{program} reject {call} --reason TEXT"]


def suggestion(asked: Wanted) -> str:
    """What lets all that wait go on, as `--add` takes it: ``cost='$0.50'``; for time once more what there was."""
    if asked.what == "cost":
        return f"cost='{format_money(asked.more)}'"
    return f"time={format_duration(asked.limit)}" if asked.what == "time" else f"{asked.what}={asked.more:.0f}"


def _quoted(name: str) -> str:
    return name if all(sign.isalnum() or sign in "-_./@" for sign in name) else harmless(word(name))


def gate_object(state: State, number: int) -> dict[str, Json]:
    """One gate: what it asks and shows, who may decide, and what they have said. Times are seconds since 1970."""
    gate = state.tasks[number].gate
    assert gate is not None
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


def window_objects(state: State, waiting: list[int]) -> list[dict[str, Json]]:
    """The review windows of the gates that wait: their gates, the tasks whose gates are still to come, and the digest
    of all that they show."""
    return [
        {
            "window": window.name,
            "gates": [state.specs[number].id for number in window.waiting],
            "coming": list(window.coming),
            "shown": shown(state, window),
        }
        for window in windows(state, waiting).values()
    ]


def waiting_lines(terminal: Terminal, state: State, waiting: list[int], now: float, whole: bool) -> list[str]:
    """The gates that wait as text: those of a review window as one list, with the command that approves of all."""
    opened = windows(state, waiting)
    lines: list[str] = []
    for number in waiting:
        if window_of(state, number) not in opened:
            lines += gate_lines(terminal, state, number, now, whole)
    for window in opened.values():
        lines += window_lines(terminal, state, window, now, whole)
    return lines


def window_lines(terminal: Terminal, state: State, window: Window, now: float, whole: bool) -> list[str]:
    """A review window: its gates one below the other, each with how it is rejected, and how all are approved."""
    coming = f", {plural(len(window.coming), 'more')} to come: {', '.join(window.coming[:8])}" if window.coming else ""
    head = f"window {terminal.paint(window.name, 'bold')}: {plural(len(window.waiting), 'gate')}{coming}"
    lines = [f"{terminal.sign('blocked')} {head}"]
    for number in window.waiting:
        lines += [f"  {line}" for line in _question_lines(terminal, state, number, now, whole)]
        lines.append(f"      {commands(terminal.program, state, number, now)[-1]}")
    if not window.coming:
        gate = state.tasks[window.waiting[0]].gate
        assert gate is not None
        call = f"{state.run_id} {_quoted(window.name)}{_who(gate)}"
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


def gate_lines(terminal: Terminal, state: State, number: int, now: float, whole: bool) -> list[str]:
    """A gate as text with the commands that decide it; ``whole`` shows the evidence too."""
    lines = _question_lines(terminal, state, number, now, whole)
    return [*lines, *(f"    {command}" for command in commands(terminal.program, state, number, now))]


def _question_lines(terminal: Terminal, state: State, number: int, now: float, whole: bool) -> list[str]:
    gate, task = state.tasks[number].gate, label(state, number)
    assert gate is not None
    request = gate.request
    lines = [f"{terminal.sign('blocked')} {terminal.paint(task, 'bold')}  {harmless(str(request.get('ask', '')))}"]
    lines.append(f"    {waiting_text(gate, now)}")
    lines += [f"    asks again: {harmless(gate.again)}"] if gate.again else []
    lines += [f"    {harmless(gate.unchosen)}"] if gate.unchosen else []
    lines += [f"    {line}" for line in about_lines(state, number)]
    lines += [f"    - {harmless(word)}" for word in request.get("words", ()) if word not in request.get("ask", "")]
    lines += [f"    {line}" for line in gate_table(request.get("hypotheses", ()))]
    for option in request.get("options", ()):
        lines += [f"    {line}" for line in _option_lines(option)]
    lines += [f"    -f {_field_text(field)}" for field in request.get("form", ())]
    lines += [f"    {harmless(line)}" for line in _answers(gate)]
    lines += [f"    {harmless(line)}" for item in gate.evidence for line in _evidence_lines(item, whole)]
    if whole:
        given = request.get("inputs", {}).items()
        lines += [f"    {name}: {harmless(cut(as_text(value, 300), 300))}" for name, value in given]
    return lines


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


def commands(program: str, state: State, number: int, now: float) -> list[str]:
    """The next commands that decide a gate; of one that has expired, the command that settles it."""
    gate, task = state.tasks[number].gate, label(state, number)
    assert gate is not None
    if gate.expires_at is not None and gate.expires_at <= now:
        return [f"{program} resume {state.run_id}"]
    call, shown = f"{state.run_id} {_quoted(task)}{_who(gate)}", f"--shown {gate.shown[:SHORT]}"
    wanted = [each for each in gate.request.get("form", ()) if each.get("required") or gate.stage == "instruction"]
    fields = "".join(f" -f {field['name']}=…" for field in wanted)
    options = [str(option["name"]) for option in gate.request.get("options", ())]
    if options or fields:  # a line for each option: what stands in one is pasted into a shell
        named = [f" {_quoted(option)}" for option in options] if len(options) <= _SPELT else [" OPTION"]
        yes = [f"{program} answer {call}{option}{fields} {shown}" for option in named or [""]]
    else:
        yes = [f"{program} approve {call} {shown}"]
    return [*yes, f"{program} reject {call} --reason TEXT"]


def _who(gate: GateState) -> str:
    """The options by which a voter claims to be one of those who may decide."""
    if not (gate.roles or gate.people or gate.not_starter):
        return ""
    name = _quoted(gate.people[0]) if len(gate.people) == 1 and not gate.roles else "NAME"
    role = _quoted(gate.roles[0]) if len(gate.roles) == 1 else "ROLE"
    return f" --as {name}" + (f" --role {role}" if gate.roles else "")


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
    numbers, budgets = waiting_gates(state), waiting_budgets(state, state.active_since or 0.0)
    several = len(numbers) + len(budgets) + len(waiting_doubts(state))
    if not numbers and not budgets:
        return []
    if several > 1:
        return [f"  {plural(several, 'question')}: {terminal.program} gates {state.run_id}"]
    if budgets:
        lines = budget_commands(terminal.program, state, budgets[0])
        return [f"  {budgets[0].ask}", *(f"  {command}" for command in lines)]
    question = cut(harmless(state.tasks[numbers[0]].detail), terminal.edge() - 10, terminal.unicode)
    return [
        f"  {label(state, numbers[0])} asks: {question}",
        *(f"  {line}" for line in about_lines(state, numbers[0])),
        *_restricted(state, numbers[0]),
        *(f"  {command}" for command in commands(terminal.program, state, numbers[0], time.time())),
    ]


def _restricted(state: State, number: int) -> list[str]:
    """Who decides a gate, where that is not anyone."""
    gate = state.tasks[number].gate
    assert gate is not None
    limited = gate.roles or gate.people or gate.not_starter
    return [f"  {harmless(needs_text(gate))}"] if limited else []
