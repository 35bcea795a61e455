"""Prompts at the terminal: may a plan run, what became of an interrupted task, what the gates of a run ask."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

from planrunner.app.history.show import look
from planrunner.app.people.admission import AdmissionRequest, Answer, admit
from planrunner.app.people.gates import Ballots, barred
from planrunner.app.runs.doubts import Doubt, open_doubts
from planrunner.app.runs.execute import RunResult, Watch, warn
from planrunner.cli.options import Pairs, ResumeOptions
from planrunner.cli.settings import Settings, messages
from planrunner.errors import PlanInvalid, UsageError
from planrunner.escapes import harmless
from planrunner.journal.workspace import find_project
from planrunner.jsontext import as_text
from planrunner.machine.admission import Wanted
from planrunner.machine.events import Entry
from planrunner.machine.state import GateState, State
from planrunner.machine.windows import Window, shown, windows
from planrunner.plan.expressions.quantities import parse_amount
from planrunner.plan.model import Param, Plan
from planrunner.plan.params import bind, takes
from planrunner.plugins.registry import Registry
from planrunner.safety.project import unsound
from planrunner.views.gates import (
    budget_gate_lines,
    gate_lines,
    suggestion,
    waiting_budgets,
    waiting_gates,
    window_lines,
)
from planrunner.views.rights import powers_lines
from planrunner.views.terminal import foreign

Json = Any


def consent(given: Settings, alone: bool, document: dict[str, Json]) -> Answer:
    """Show a plan and ask about it; with ``alone`` it never asks."""
    show(given, document)
    if alone or given.no_input or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "unasked"
    screen = messages(given)
    while True:
        screen.write("Run it? yes, no, or always exactly this [y/N/a] ")
        answer = sys.stdin.readline().strip().lower()
        if answer in ("y", "yes"):
            return "once"
        if answer in ("a", "always"):
            return "always"
        if answer in ("", "n", "no"):
            return "no"


def vouch(given: Settings, path: str, params: tuple[tuple[str, Json], ...]) -> None:
    """Ask whether a plan may run, where its effects are real and no run keeps the answer. Raises Denied."""
    admit(AdmissionRequest(path, params, ask=partial(consent, given, False)), Registry(project=find_project(path)))


def show(given: Settings, document: dict[str, Json]) -> None:
    """Tell what a plan may do, on standard error."""
    screen = messages(given)
    screen.write("".join(f"{line}\n" for line in (_head(document), *powers_lines(screen, document))))


def _head(document: dict[str, Json]) -> str:
    """Why the question is asked."""
    changed = " It has changed since it was trusted." if document["trusted"] == "changed" else ""
    if document["origin"] == "outside":
        return f"A plan from outside the project wants to run.{changed}"
    if document["origin"] == "drafted":
        return f"A plan with text from outside wants to run.{changed}"
    if document["outside"]:
        return "A plan of the project wants to act outside of it."
    return "A plan of the project wants to run, and the policy asks first."


_ANSWERS = {"r": "retry", "c": "completed", "f": "failed", "b": "rollback"}


def decided(given: Settings, options: ResumeOptions) -> Pairs:
    """What the options say of tasks in doubt, or else the person at the terminal; nothing without a terminal."""
    alone = options.unattended or options.no_wait or given.no_input
    if options.settle or alone or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return options.settle
    settled: list[tuple[str, str]] = []
    looked = look(options.run, given.state)
    for doubt in () if looked.row.leased or looked.row.status else open_doubts(looked.state):
        answer = _asked(given, doubt)
        if not answer:
            break
        settled.append((doubt.task, answer))
    return tuple(settled)


def _asked(given: Settings, doubt: Doubt) -> str:
    """The answer about one task; empty to decide later."""
    screen = messages(given)
    command = doubt.command.splitlines()
    lines = [f"`{doubt.name}` was interrupted, result unknown", *(f"    {line}" for line in command)]
    screen.write("".join(f"{foreign(screen, line)}\n" for line in lines))
    back = ", roll[b]ack" if doubt.undoable else ""
    while True:
        screen.write(f"[r]etry, [c]ompleted, [f]ailed{back}, [q] decide later: ")
        line = sys.stdin.readline()
        word = line.strip().lower()
        answer = _ANSWERS.get(word, word)
        if not line or word in ("q", "quit"):
            return ""
        if answer in _ANSWERS.values() and (doubt.undoable or answer != "rollback"):
            return answer


def barred_here(state: State, number: int) -> str:
    """Why the person at the terminal may not decide a gate; empty where they may."""
    try:
        return barred(state, number)
    except UsageError as error:
        return error.message
    except PlanInvalid as error:
        return unsound(error)


class GateForm:
    """The questions of one gate in their order: the decision, each field, the reason. ``sent`` are the numbers of the
    requests once they are made, ``kind`` what kind they are."""

    kind = "vote"

    def __init__(self, task: str, number: int, gate: GateState) -> None:
        request = gate.request
        self._task = task
        self._number = number
        self._shown = gate.shown
        self.sent: list[int] = []
        self._options = [str(option["name"]) for option in request.get("options", ())]
        self._fields = list(request.get("form", ()))
        self._body: dict[str, Json] = {}
        self.wrong = ""
        """What could not be made of the last answer; empty where it was understood."""

    def stands(self, state: State) -> bool:
        """Whether the question is still the same, and open."""
        task = state.tasks[self._number]
        gate = task.gate
        return task.status == "blocked" and gate is not None and gate.waits and gate.shown == self._shown

    def prompt(self) -> str:
        if not self._body:
            choices = f"choose {' / '.join(self._options)}" if self._options else "approve? [y]es"
            return f"{choices} / [n]o / [q] decide later: "
        field = self._next_field()
        if field is not None:
            return _field_prompt(field)
        return "reason: "

    def _next_field(self) -> dict[str, Json] | None:
        if self._body.get("verdict") == "reject":
            return None
        return next((field for field in self._fields if field["name"] not in self._body["fields"]), None)

    def take(self, line: str) -> list[dict[str, Json]]:
        """The next answer; the data of the vote once everything is said."""
        self.wrong = ""
        if not self._body:
            self._decide(line)
            return []
        field = self._next_field()
        if field is not None:
            self.wrong = _misfit(field, line)
            if not self.wrong:
                self._body["fields"][field["name"]] = line
            return []
        if self._body["verdict"] == "reject" and not line:
            self.wrong = "a rejection needs a reason"
            return []
        given = {name: value for name, value in self._body["fields"].items() if value != ""}
        return [{**self._body, "fields": given, "reason": line, "shown": self._shown, "gate": self._task}]

    def _decide(self, line: str) -> None:
        if line in self._options:
            self._body = {"verdict": "approve", "choice": line, "fields": {}}
        elif line.lower() in ("y", "yes", "approve") and not self._options:
            self._body = {"verdict": "approve", "fields": {}}
        elif line.lower() in ("n", "no", "reject"):
            self._body = {"verdict": "reject", "fields": {}}
        elif line:
            self.wrong = f"`{harmless(line)}` is not an answer: type {' or '.join([*(self._options or ['yes']), 'no'])}"


def _field_prompt(field: dict[str, Json]) -> str:
    """``size (a size such as 50MB): how big it may get [5MB]: ``"""
    kind = takes(str(field.get("type", "any")))
    if field.get("choices"):
        kind = "one of " + ", ".join(map(str, field["choices"]))
    about = f": {field['description']}" if field.get("description") else ""
    default = f" [{as_text(field['default'])}]" if "default" in field else "" if field.get("required") else " [nothing]"
    return harmless(f"{field['name']} ({kind}){about}{default}: ")


def _misfit(field: dict[str, Json], line: str) -> str:
    """What is wrong with what was typed for a field; what is left empty takes its default."""
    if not line:
        needed = field.get("required") and "default" not in field
        return f"`{field['name']}` cannot be left empty" if needed else ""
    param = Param(**{**field, "choices": tuple(field.get("choices", ()))})
    return harmless("; ".join(bind([param], {param.name: line}, "field").problems))


class BudgetForm:
    """How much is added to a limit, or that nothing is and why."""

    kind = "budget"

    def __init__(self, asked: Wanted) -> None:
        self._asked = asked
        self._body: dict[str, Json] = {}
        self.sent: list[int] = []
        self.wrong = ""

    def stands(self, state: State) -> bool:
        """As of a gate: whether tasks still wait for it."""
        return any(
            (each.scope, each.what) == (self._asked.scope, self._asked.what)
            for each in waiting_budgets(state, state.active_since or 0.0)
        )

    def prompt(self) -> str:
        if self._body:
            return "reason: "
        example = suggestion(self._asked).partition("=")[2].strip("'")
        return f"how much {self._asked.what} to add, such as {example}, or [n]o / [q] decide later: "

    def take(self, line: str) -> list[dict[str, Json]]:
        """The next answer; the data of the request once everything is said."""
        self.wrong = ""
        if self._body:
            if "refuse" in self._body and not line:
                self.wrong = "a rejection needs a reason"
                return []
            return [{**self._body, "scope": self._asked.scope, "reason": line}]
        if line.lower() in ("n", "no", "reject"):
            self._body = {"refuse": [self._asked.what]}
        elif more := parse_amount(self._asked.what, line):
            self._body = {"add": {self._asked.what: more}}
        elif line:
            self.wrong = f"`{harmless(line)}` is not an amount of {self._asked.what}"
        return []


class WindowForm:
    """Whether all gates of a review window are approved, and why; or that they are decided one by one (``apart``)."""

    kind = "vote"

    def __init__(self, state: State, window: Window) -> None:
        self._window = window
        self.name = window.name
        self._shown = shown(state, window)
        gates = [(state.specs[number].id, state.tasks[number].gate) for number in window.waiting]
        self._gates = [(name, gate.shown) for name, gate in gates if gate is not None]
        self._approved = False
        self.apart = False
        self.sent: list[int] = []
        self.wrong = ""

    def stands(self, state: State) -> bool:
        """As of a gate: whether all of them still wait, and show the same."""
        opened = windows(state, waiting_gates(state)).get(self._window.name)
        return opened == self._window and shown(state, self._window) == self._shown

    def prompt(self) -> str:
        return "reason: " if self._approved else "approve all? [y]es / [o]ne by one / [q] decide later: "

    def take(self, line: str) -> list[dict[str, Json]]:
        """The next answer; the data of the votes once everything is said."""
        self.wrong = ""
        if self._approved:
            body = {"verdict": "approve", "fields": {}, "reason": line}
            return [{**body, "gate": name, "shown": sight} for name, sight in self._gates]
        self._approved = line.lower() in ("y", "yes", "approve")
        self.apart = line.lower() in ("o", "one", "one by one", "n", "no")
        if line and not (self._approved or self.apart):
            self.wrong = f"`{harmless(line)}` is not an answer: type yes or one"
        return []


Form: TypeAlias = "GateForm | BudgetForm | WindowForm"


class Desk:
    """A watch around another one. When nothing runs any more and a gate waits, its question is asked at the
    terminal; the answer goes the way of every vote."""

    attended = True

    def __init__(self, given: Settings, inner: Watch) -> None:
        self._given = given
        self._inner = inner
        self._screen = messages(given)
        self._state: State | None = None
        self._ballots: Ballots | None = None
        self._form: Form | None = None
        self._typed = b""
        self._left = False
        self._news = False
        self._apart: set[str] = set()
        """Review windows whose gates are decided one by one."""
        self._asked = False
        """Whether the line of the cursor is a question, with nothing typed and sent off yet."""

    def started(self, run_id: str, plan: Plan, state: State) -> None:
        self._state = state
        self._inner.started(run_id, plan, state)

    def warn(self, texts: Sequence[str]) -> None:
        warn(self._inner, texts)

    def event(self, entry: Entry) -> None:
        self._break_line()
        self._inner.event(entry)
        self._news = True

    def output(self, task: str, attempt: int, stream: str, data: bytes) -> None:
        self._inner.output(task, attempt, stream, data)

    def tick(self, now: float) -> None:
        state = self._state
        if self._form is not None and state is not None:
            if self._news:
                self._news = False
                self._inner.tick(now)
                self._let_go()
            self._at_the_prompt(state, self._form)
            return
        self._inner.tick(now)
        if state is not None and not self._left and not state.running and state.counts.get("blocked"):
            self._ask_next(state, now)

    def ended(self, result: RunResult) -> None:
        if self._ballots is not None:
            self._ballots.close()
        self._inner.ended(result)

    def _ask_next(self, state: State, now: float) -> None:
        """Put the first question that there is."""
        told: list[str] = []
        waiting = waiting_gates(state)
        for window in windows(state, waiting).values():
            if window.coming and window.name not in self._apart:
                waiting = [number for number in waiting if number not in window.waiting]
            elif self._is_asked_whole(state, window):
                lines = window_lines(self._screen, state, window, time.time(), True)
                self._ask(WindowForm(state, window), lines)
                return
        for number in waiting:
            gate = state.tasks[number].gate
            assert gate is not None
            lines = gate_lines(self._screen, state, number, time.time(), True)
            refusal = barred_here(state, number)
            if not refusal:
                self._ask(GateForm(state.specs[number].id, number, gate), lines)
                return
            told += [*lines, f"    {harmless(refusal)}"]
        if budgets := waiting_budgets(state, now):
            self._ask(BudgetForm(budgets[0]), budget_gate_lines(self._screen, state, budgets[0]))
        elif told:
            self._let_go()
            self._screen.write("\n".join(["", *told, ""]))
            self._leave()

    def _is_asked_whole(self, state: State, window: Window) -> bool:
        """Whether the person may decide all gates of a window, and did not want to decide them one by one."""
        if window.name in self._apart or len(window.waiting) < 2:
            return False
        return not any(barred_here(state, number) for number in window.waiting)

    def _ask(self, form: Form, lines: list[str]) -> None:
        self._let_go()
        self._form = form
        self._screen.write("\n".join(["", *lines, ""]))
        self._prompt(form)

    def _let_go(self) -> None:
        let_go = getattr(self._inner, "let_go", None)
        if let_go is not None:
            let_go()

    def _prompt(self, form: Form) -> None:
        self._screen.write(form.prompt())
        self._asked = True

    def _break_line(self) -> None:
        """What is told while a question stands begins on a line of its own."""
        if self._asked:
            self._screen.write("\n")
            self._asked = False

    def _at_the_prompt(self, state: State, form: Form) -> None:
        """Read what was typed; leave the question when it was answered elsewhere or has changed."""
        if form.sent:
            answers = [self._votes().answered(number) for number in form.sent]
            if None not in answers:
                self._screen.write("".join(f"{answer.message}\n" for answer in answers if answer is not None))
                self._form = None
            return
        if not form.stands(state):
            self._break_line()
            self._screen.write("answered elsewhere, or changed\n")
            self._form = None
            return
        line = self._line()
        if line is None:
            if not (self._asked or self._left):
                self._prompt(form)  # something was told meanwhile
            return
        self._asked = False
        bodies = form.take(line)
        if form.wrong:
            self._screen.write(f"{form.wrong}\n")
        if bodies:
            form.sent = [self._votes().post(state.run_id, body, form.kind) for body in bodies]
        elif isinstance(form, WindowForm) and form.apart:
            self._apart.add(form.name)
            self._form = None
        elif not self._left:
            self._prompt(form)

    def _line(self) -> str | None:
        """A line from the terminal; None while there is none. The end of the input leaves the run waiting."""
        readable, _, _ = select.select([sys.stdin.fileno()], [], [], 0)
        if not readable:
            return None
        data = os.read(sys.stdin.fileno(), 4096)
        self._typed += data
        if not data:
            self._leave()
            return None
        line, newline, rest = self._typed.partition(b"\n")
        if not newline:
            return None
        self._typed = rest
        text = line.decode("utf-8", "replace").strip()
        if text in ("q", "quit"):
            self._leave()
            return None
        return text

    def _leave(self) -> None:
        """Leave the prompt: the run pauses as it would without a terminal."""
        assert self._state is not None
        self._left = True
        self._asked = False
        self._form = None
        self._votes().leave(self._state.run_id)

    def _votes(self) -> Ballots:
        if self._ballots is None:
            self._ballots = Ballots(self._given.state)
        return self._ballots
