"""Prompts at the terminal: may a plan run, what became of an interrupted task, what the gates of a run ask."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from planrunner.app.history.show import look
from planrunner.app.people.admission import AdmissionRequest, Answer, admit
from planrunner.app.people.gates import VoteSender, reason_not_allowed
from planrunner.app.runs.execute import RunResult, Watch, warn
from planrunner.cli.options import Pairs
from planrunner.cli.settings import Settings, may_ask, messages
from planrunner.errors import PlanInvalid, UsageError
from planrunner.escapes import harmless
from planrunner.journal.workspace import find_project
from planrunner.jsontext import as_text
from planrunner.machine.events import Entry
from planrunner.machine.questions import Question, gate_at, questions, together, window_at
from planrunner.machine.requests import Vote
from planrunner.machine.state import State
from planrunner.plan.expressions.quantities import parse_amount
from planrunner.plan.model import Param, Plan
from planrunner.plan.params import bind, takes
from planrunner.plugins.registry import Registry
from planrunner.safety.project import unsound
from planrunner.views.gates import question_lines, suggestion
from planrunner.views.rights import powers_lines
from planrunner.views.status import command_text, doubt_answers
from planrunner.views.terminal import Terminal, foreign

Json = Any
Chosen = TypeVar("Chosen")


def consent(given: Settings, alone: bool, document: dict[str, Json]) -> Answer:
    """Show a plan and ask about it; with ``alone`` it never asks."""
    show(given, document)
    if alone or not may_ask(given):
        return "unasked"
    answers: dict[str, Answer] = {"y": "once", "yes": "once", "a": "always", "always": "always"}
    answers |= dict.fromkeys(("", "n", "no"), "no")
    return _choose(messages(given), "Run it? yes, no, or always exactly this [y/N/a] ", answers, "no")


def _choose(screen: Terminal, prompt: str, answers: Mapping[str, Chosen], later: Chosen) -> Chosen:
    """One of some answers by what is typed for it; ``later`` at the end of the input."""
    while True:
        screen.write(prompt)
        line = sys.stdin.readline()
        word = line.strip().lower()
        if word in answers or not line:
            return answers.get(word, later)


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


def decided(given: Settings, run: str) -> Pairs:
    """What the person at the terminal says of the tasks of a run that are in doubt."""
    settled: list[tuple[str, str]] = []
    looked = look(run, given.state)
    asked = () if looked.row.leased or looked.row.status else questions(looked.state, looked.state.now)
    for question in asked:
        if question.kind == "doubt":
            answer = _settled(given, looked.state, question)
            if not answer:
                break
            settled.append((question.name, answer))
    return tuple(settled)


def _settled(given: Settings, state: State, question: Question) -> str:
    """The answer about one task in doubt; empty to decide later."""
    screen, possible = messages(given), doubt_answers(state, question.task)
    command = command_text(state.specs[question.task]).splitlines()
    lines = [question.ask, *(f"    {line}" for line in command)]
    screen.write("".join(f"{foreign(screen, line)}\n" for line in lines))
    answers = {word: answer for key, answer in _ANSWERS.items() if answer in possible for word in (key, answer)}
    back = ", roll[b]ack" if "rollback" in possible else ""
    prompt = f"[r]etry, [c]ompleted, [f]ailed{back}, [q] decide later: "
    return _choose(screen, prompt, {**answers, "q": "", "quit": ""}, "")


def barred_here(state: State, question: Question) -> str:
    """Why the person at the terminal may not decide a question; empty where they may."""
    try:
        return reason_not_allowed(question, state)
    except UsageError as error:
        return error.message
    except PlanInvalid as error:
        return unsound(error)


class Form:
    """What is asked at the terminal about a question, in its order: the decision, each field, the reason. ``sent`` are
    the numbers of the requests once they are made, ``apart`` says that the gates of a window are decided one by one,
    ``wrong`` what could not be made of the last answer (empty where it was understood)."""

    def __init__(self, state: State, question: Question) -> None:
        request = gate_at(state, question.task).request if question.kind == "gate" else {}
        self.question = question
        self._sight = _sight(state, question)
        self._options = [str(option["name"]) for option in request.get("options", ())]
        self._fields = list(request.get("form", ()))
        self._vote: Vote | None = None
        self.sent: list[int] = []
        self.apart = False
        self.wrong = ""

    def stands(self, state: State) -> bool:
        """Whether the question is still the same, and open."""
        asked = questions(state, state.active_since or 0.0)
        return any(_sight(state, each) == self._sight for each in (*asked, *together(asked)))

    def prompt(self) -> str:
        if self._vote is not None:
            field = self._next_field(self._vote)
            return "reason: " if field is None else _field_prompt(field)
        if (limit := self.question.limit) is not None:
            example = suggestion(limit).partition("=")[2].strip("'")
            return f"how much {limit.what} to add, such as {example}, or [n]o / [q] decide later: "
        if self.question.kind == "window":
            return "approve all? [y]es / [o]ne by one / [q] decide later: "
        choices = f"choose {' / '.join(self._options)}" if self._options else "approve? [y]es"
        return f"{choices} / [n]o / [q] decide later: "

    def _next_field(self, vote: Vote) -> dict[str, Json] | None:
        rejects = vote.verdict == "reject"
        return None if rejects else next((each for each in self._fields if each["name"] not in vote.fields), None)

    def take(self, line: str) -> Vote | None:
        """The next answer; the vote once everything is said."""
        self.wrong = ""
        if self._vote is None:
            self._vote = self._decision(line)
            return None
        field = self._next_field(self._vote)
        if field is not None:
            self.wrong = _misfit(field, line)
            if not self.wrong:
                self._vote = self._vote._replace(fields={**self._vote.fields, field["name"]: line})
            return None
        if self._vote.verdict == "reject" and not line:
            self.wrong = "a rejection needs a reason"
            return None
        return self._vote._replace(
            fields={name: value for name, value in self._vote.fields.items() if value != ""}, reason=line
        )

    def _decision(self, line: str) -> Vote | None:
        """What is decided by the first answer; None where it decides nothing yet."""
        name, limit, word = self.question.name, self.question.limit, line.lower()
        is_no = word in ("n", "no", "reject")
        problem = f"is not an answer: type {' or '.join([*(self._options or ['yes']), 'no'])}"
        if line in self._options:
            return Vote(name, "approve", choice=line)
        if self.question.kind == "window":
            self.apart = is_no or word in ("o", "one", "one by one")
            problem = "is not an answer: type yes or one"
        elif is_no:
            return Vote(name, "reject")
        if limit is not None:
            if more := parse_amount(limit.what, line):
                return Vote(name, "approve", add={limit.what: more})
            problem = f"is not an amount of {limit.what}"
        elif word in ("y", "yes", "approve") and not self._options:
            return Vote(name, "approve")
        if line and not self.apart:
            self.wrong = f"`{harmless(line)}` {problem}"
        return None


def _sight(state: State, question: Question) -> tuple[Json, ...]:
    """What a question is about, as the person at the terminal saw it."""
    if question.limit is not None:
        return question.name, question.limit.what
    gates = (question,) if question.kind == "gate" else question.gates
    return question.kind, tuple((gate.name, gate_at(state, gate.task).shown) for gate in gates)


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


class Desk:
    """A watch around another one. When nothing runs any more and a gate waits, its question is asked at the
    terminal; the answer goes the way of every vote."""

    attended = True

    def __init__(self, given: Settings, inner: Watch) -> None:
        self._given = given
        self._inner = inner
        self._screen = messages(given)
        self._state: State | None = None
        self._sender: VoteSender | None = None
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
        if self._sender is not None:
            self._sender.close()
        self._inner.ended(result)

    def _ask_next(self, state: State, now: float) -> None:
        """Put the first question that the person at the terminal may decide."""
        told: list[str] = []
        for question in self._waiting(state, now):
            lines = question_lines(self._screen, state, question, time.time(), True)
            refusal = barred_here(state, question)
            if not refusal:
                self._let_go()
                self._form = Form(state, question)
                self._screen.write("\n".join(["", *lines, ""]))
                self._prompt(self._form)
                return
            told += [*lines, f"    {harmless(refusal)}"]
        if told:
            self._let_go()
            self._screen.write("\n".join(["", *told, ""]))
            self._leave()

    def _waiting(self, state: State, now: float) -> Iterator[Question]:
        """What may be asked: a window as a whole where the person may decide all of it and did not want to decide its
        gates one by one, once all of them wait."""
        for question in together([each for each in questions(state, now) if each.kind in ("gate", "budget")], 1):
            if question.kind != "window" or question.name in self._apart:
                yield from question.gates or (question,)
                continue
            if not window_at(state, question).coming:
                is_whole = len(question.gates) > 1 and not barred_here(state, question)
                yield from (question,) if is_whole else question.gates

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
        vote = form.take(line)
        if form.wrong:
            self._screen.write(f"{form.wrong}\n")
        if vote is not None:
            form.sent = self._votes().send(state, form.question, vote)
        elif form.apart:
            self._apart.add(form.question.name)
            self._form = None
        elif not self._left:
            self._prompt(form)

    def _line(self) -> str | None:
        """A line from the terminal; None while there is none. The end of the input leaves the run waiting."""
        typed = select.poll()
        typed.register(sys.stdin.fileno(), select.POLLIN)
        if not typed.poll(0):
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

    def _votes(self) -> VoteSender:
        if self._sender is None:
            self._sender = VoteSender(self._given.state)
        return self._sender
