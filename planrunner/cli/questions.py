"""What is asked line by line at a terminal: the questions of a gate, and how much is added to a limit."""

from __future__ import annotations

from typing import Any

from planrunner.app.asking import user
from planrunner.cli.amounts import parse_amount
from planrunner.errors import PlanInvalid, UsageError
from planrunner.machine.gate import GateState
from planrunner.machine.shortages import Wanted
from planrunner.machine.state import State
from planrunner.machine.votes import Vote, turned_away
from planrunner.plan.model import Param
from planrunner.plan.params import bind, takes
from planrunner.safety.people import read_project
from planrunner.safety.project import unsound
from planrunner.views.gates import suggestion, waiting_budgets
from planrunner.views.terminal import harmless

Json = Any


def turned_away_here(state: State, task: str, gate: GateState) -> str:
    """Why whoever sits at the terminal may not decide a gate; empty where they may."""
    by = user()
    try:
        people = read_project(str(state.environment.get("directory") or ".")).people or {}
    except UsageError as error:
        return error.message
    except PlanInvalid as error:
        return unsound(error)
    return turned_away(state, gate, Vote(task, "approve", by, by, people.get(by, ())))


class GateForm:
    """The questions of one gate in their order: the decision, each field, the reason. ``sent`` is the number of the
    request once it is made, ``kind`` what kind it is."""

    kind = "vote"

    def __init__(self, task: str, number: int, gate: GateState) -> None:
        request = gate.request
        self._task = task
        self._number = number
        self._shown = gate.shown
        self.sent: int | None = None
        self._options = [str(option["name"]) for option in request.get("options", ())]
        self._fields = list(request.get("form", ()))
        self._body: dict[str, Json] = {}
        self.wrong = ""
        """What could not be made of the last answer; empty where it was understood."""

    def stands(self, state: State) -> bool:
        """Whether the question is still the same, and nobody has answered it."""
        found = state.tasks[self._number]
        gate = found.gate
        return found.status == "blocked" and gate is not None and gate.waits and gate.shown == self._shown

    def prompt(self) -> str:
        if not self._body:
            choices = "/".join(self._options) if self._options else "yes"
            return f"{choices}/no, q to leave it > "
        field = self._next_field()
        if field is not None:
            return _field_prompt(field)
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
            self.wrong = _misfit(field, line)
            if not self.wrong:
                self._body["fields"][field["name"]] = line
            return None
        if self._body["verdict"] == "reject" and not line:
            self.wrong = "a rejection needs a reason"
            return None
        given = {name: value for name, value in self._body["fields"].items() if value != ""}
        return {**self._body, "fields": given, "reason": line, "shown": self._shown, "gate": self._task}

    def _decide(self, line: str) -> None:
        if line in self._options:
            self._body = {"verdict": "approve", "choice": line, "fields": {}}
        elif line.lower() in ("y", "yes", "approve") and not self._options:
            self._body = {"verdict": "approve", "fields": {}}
        elif line.lower() in ("n", "no", "reject"):
            self._body = {"verdict": "reject", "fields": {}}
        elif line:
            self.wrong = f"`{harmless(line)}` is no answer: say {' or '.join([*(self._options or ['yes']), 'no'])}"


def _field_prompt(field: dict[str, Json]) -> str:
    """``size (a size such as 50MB): how big it may get [5MB] > ``"""
    kind = takes(str(field.get("type", "any")))
    if field.get("choices"):
        kind = "one of " + ", ".join(map(str, field["choices"]))
    about = f": {field['description']}" if field.get("description") else ""
    default = f" [{field['default']}]" if "default" in field else "" if field.get("required") else " [nothing]"
    return harmless(f"{field['name']} ({kind}){about}{default} > ")


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
        self.sent: int | None = None
        self.wrong = ""

    def stands(self, state: State) -> bool:
        """As of a gate: whether tasks still wait for it."""
        return any(
            (each.scope, each.what) == (self._asked.scope, self._asked.what)
            for each in waiting_budgets(state, state.active_since or 0.0)
        )

    def prompt(self) -> str:
        if self._body:
            return "reason > "
        example = suggestion(self._asked).partition("=")[2].strip("'")
        return f"how much {self._asked.what} to add, such as {example}, or no, q to leave it > "

    def take(self, line: str) -> dict[str, Json] | None:
        """The next answer; the data of the request once everything is said."""
        self.wrong = ""
        if self._body:
            if "refuse" in self._body and not line:
                self.wrong = "a rejection needs a reason"
                return None
            return {**self._body, "scope": self._asked.scope, "reason": line}
        if line.lower() in ("n", "no", "reject"):
            self._body = {"refuse": [self._asked.what]}
        elif more := parse_amount(self._asked.what, line):
            self._body = {"add": {self._asked.what: more}}
        elif line:
            self.wrong = f"`{harmless(line)}` is no amount of {self._asked.what}"
        return None
