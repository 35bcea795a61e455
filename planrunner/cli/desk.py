"""Asks at the terminal what the gates of a run ask, while the run goes on; another process may answer first."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Sequence

from planrunner.app.execute import RunResult, Watch, warn
from planrunner.app.gates import Ballots
from planrunner.cli.questions import BudgetForm, GateForm, turned_away_here
from planrunner.cli.settings import Settings, messages
from planrunner.machine.events import Entry
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.views.gates import budget_gate_lines, gate_lines, waiting_budgets, waiting_gates
from planrunner.views.terminal import harmless


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
        self._form: GateForm | BudgetForm | None = None
        self._typed = b""
        self._left = False
        self._news = False
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
        for number in waiting_gates(state):
            gate = state.tasks[number].gate
            assert gate is not None
            lines = gate_lines(self._screen, state, number, time.time(), True)
            refusal = turned_away_here(state, state.specs[number].id, gate)
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

    def _ask(self, form: GateForm | BudgetForm, lines: list[str]) -> None:
        self._let_go()
        self._form = form
        self._screen.write("\n".join(["", *lines, ""]))
        self._prompt(form)

    def _let_go(self) -> None:
        let_go = getattr(self._inner, "let_go", None)
        if let_go is not None:
            let_go()

    def _prompt(self, form: GateForm | BudgetForm) -> None:
        self._screen.write(form.prompt())
        self._asked = True

    def _break_line(self) -> None:
        """What is told while a question stands begins on a line of its own."""
        if self._asked:
            self._screen.write("\n")
            self._asked = False

    def _at_the_prompt(self, state: State, form: GateForm | BudgetForm) -> None:
        """Read what was typed; leave the question when somebody else has answered or it is asked anew."""
        if form.sent is not None:
            answer = self._votes().answered(form.sent)
            if answer is not None:
                self._screen.write(f"{answer.message}\n")
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
        body = form.take(line)
        if form.wrong:
            self._screen.write(f"{form.wrong}\n")
        if body is not None:
            form.sent = self._votes().post(state.run_id, body, form.kind)
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
        """Nobody answers here: the run parks as it would without a terminal."""
        assert self._state is not None
        self._left = True
        self._asked = False
        self._form = None
        self._votes().leave(self._state.run_id)

    def _votes(self) -> Ballots:
        if self._ballots is None:
            self._ballots = Ballots(self._given.state)
        return self._ballots
