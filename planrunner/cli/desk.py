"""Asks at the terminal what the gates of a run ask, while the run goes on; another process may answer first."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import Any

from planrunner.app.gates import Ballots
from planrunner.cli.settings import Settings, messages
from planrunner.machine.state import State
from planrunner.record import TYPE_CHECKING
from planrunner.views.gates import gate_lines, waiting_gates
from planrunner.views.terminal import harmless

if TYPE_CHECKING:
    from planrunner.app.execute import RunResult, Watch
    from planrunner.machine.events import Entry
    from planrunner.plan.model import Plan

Json = Any


class Desk:
    """A watch around another one. When nothing runs any more and a gate waits, its question is put to whoever sits at
    the terminal; the answer goes the way of every vote."""

    attended = True

    def __init__(self, given: Settings, inner: Watch) -> None:
        self._given = given
        self._inner = inner
        self._screen = messages(given)
        self._state: State | None = None
        self._ballots: Ballots | None = None
        self._form: _Form | None = None
        self._typed = b""
        self._left = False

    def started(self, run_id: str, plan: Plan, state: State) -> None:
        self._state = state
        self._inner.started(run_id, plan, state)

    def event(self, entry: Entry) -> None:
        self._inner.event(entry)

    def output(self, task: str, attempt: int, stream: str, data: bytes) -> None:
        self._inner.output(task, attempt, stream, data)

    def tick(self, now: float) -> None:
        state = self._state
        if self._form is not None and state is not None:
            self._at_the_prompt(state, self._form)
            return
        self._inner.tick(now)
        if state is not None and not self._left and not state.running and (gates := waiting_gates(state)):
            self._ask(state, gates[0])

    def ended(self, result: RunResult) -> None:
        if self._ballots is not None:
            self._ballots.close()
        self._inner.ended(result)

    def _ask(self, state: State, number: int) -> None:
        let_go = getattr(self._inner, "let_go", None)
        if let_go is not None:
            let_go()
        lines = gate_lines(self._screen, state, number, time.time(), True)
        gate = state.tasks[number].gate
        assert gate is not None
        self._form = _Form(number, gate.shown, gate.request)
        self._screen.write("\n".join(["", *lines, self._form.prompt()]))

    def _at_the_prompt(self, state: State, form: _Form) -> None:
        """Read what was typed; leave the question when somebody else has answered or it is asked anew."""
        gate = state.tasks[form.number].gate
        if form.sent is not None:
            answer = self._votes().answered(form.sent)
            if answer is not None:
                self._screen.write(f"{answer.message}\n")
                self._form = None
            return
        if gate is None or not gate.waits or gate.shown != form.shown or state.tasks[form.number].status != "blocked":
            self._screen.write("\nanswered elsewhere, or changed\n")
            self._form = None
            return
        line = self._line()
        if line is None:
            return
        body = form.take(line)
        if form.wrong:
            self._screen.write(f"{form.wrong}\n")
        if body is not None:
            form.sent = self._votes().post(state.run_id, {**body, "gate": state.specs[form.number].id})
        elif not self._left:
            self._screen.write(form.prompt())

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
        """Nobody answers here: the run parks as it would without a terminal."""
        assert self._state is not None
        self._left = True
        self._form = None
        self._votes().leave(self._state.run_id)

    def _votes(self) -> Ballots:
        if self._ballots is None:
            self._ballots = Ballots(self._given.state)
        return self._ballots


class _Form:
    """The questions of one gate in their order: the decision, each field, the reason."""

    def __init__(self, number: int, shown: str, request: dict[str, Json]) -> None:
        self.number = number
        self.shown = shown
        self.sent: int | None = None
        self._options = [str(option["name"]) for option in request.get("options", ())]
        self._fields = list(request.get("form", ()))
        self._body: dict[str, Json] = {}
        self.wrong = ""
        """What could not be made of the last answer; empty where it was understood."""

    def prompt(self) -> str:
        if not self._body:
            choices = "/".join(self._options) if self._options else "yes"
            return f"{choices}/no, q to leave it > "
        field = self._next_field()
        if field is not None:
            default = f" [{field['default']}]" if "default" in field else ""
            return f"{field['name']}{default} > "
        return "reason > "

    def _next_field(self) -> dict[str, Json] | None:
        if self._body.get("verdict") == "reject":
            return None
        return next((field for field in self._fields if field["name"] not in self._body["fields"]), None)

    def take(self, line: str) -> dict[str, Json] | None:
        """The next answer; the data of the vote once everything is said."""
        self.wrong = ""
        if not self._body:
            self._decide(line)
            return None
        field = self._next_field()
        if field is not None:
            self._body["fields"][field["name"]] = line
            return None
        if self._body["verdict"] == "reject" and not line:
            self.wrong = "a rejection needs a reason"
            return None
        given = {name: value for name, value in self._body["fields"].items() if value != ""}
        return {**self._body, "fields": given, "reason": line, "shown": self.shown}

    def _decide(self, line: str) -> None:
        if line in self._options:
            self._body = {"verdict": "approve", "choice": line, "fields": {}}
        elif line.lower() in ("y", "yes", "approve") and not self._options:
            self._body = {"verdict": "approve", "fields": {}}
        elif line.lower() in ("n", "no", "reject"):
            self._body = {"verdict": "reject", "fields": {}}
        elif line:
            self.wrong = f"`{harmless(line)}` is no answer: say {' or '.join([*(self._options or ['yes']), 'no'])}"
