"""A decision leads somewhere: by one of its conditions, by ``else``, or it fails."""

from __future__ import annotations

from typing import Any

import workbench
from rows import rows
from simulator.rehearsal import Rehearsal, rehearse

from planrunner.machine.events import Outcome
from planrunner.machine.explain import why

BIG, SMALL = {"to": "big", "when": "outputs.n > 9"}, {"to": "small", "when": "outputs.n < 3"}
ELSE = {"to": "other", "else": True}
TARGETS = ("big", "small", "other")


def run(edges: list[dict[str, Any]], *found: int, bad: bool = False, **keys: Any) -> Rehearsal:
    """A run of a decision, whose attempts give the numbers ``found``."""
    tasks: list[dict[str, Any]] = [{"id": "before", "run": "work"}]
    tasks += [{"id": "a", "needs": ["before"], "run": "work", "outputs": {"n": "int"}, "next": edges, **keys}]
    tasks += [{"id": each, "run": "work"} for each in TARGETS if any(edge.get("to") == each for edge in edges)]
    plan = workbench.plan(*tasks, defaults={"timeout": "1h"})
    failure = ("logic", "exit code 1") if bad else ("", "")
    outcomes = [Outcome(*failure, exit_code=int(bad), outputs={"n": n}) for n in found]
    others = {each: [Outcome(exit_code=0)] for each in (*TARGETS, "before")}
    return rehearse(plan, {"a": outcomes, **others})


def reached(ran: Rehearsal) -> list[str]:
    return [each for each in TARGETS if ran.statuses().get(each) == "completed"]


@rows("order", [1, -1])
@rows(("found", "target"), [(10, "big"), (1, "small"), (5, "other")])
def test_else_leads_on_where_no_other_edge_does_wherever_it_stands(found: int, target: str, order: int) -> None:
    ran = run([BIG, SMALL, ELSE][::order], found)
    assert (ran.state.status, reached(ran)) == ("completed", [target])


def test_else_is_about_the_outcome_that_it_names() -> None:
    edges = [{"on": "failure", "to": "big", "when": "outputs.n > 9"}, {"on": "failure", "to": "small", "else": True}]
    ran = run([*edges, ELSE], 5, bad=True)
    assert reached(ran) == ["small"]
    assert reached(run([*edges, ELSE], 5)) == ["other"]


def test_else_leads_back_as_often_as_its_bound_allows() -> None:
    ran = run([BIG, {"rework": "before", "max": 3, "else": True}], 1, 5, 10)
    assert (ran.state.status, reached(ran), ran.state.tasks[1].attempts) == ("completed", ["big"], 3)


def test_else_is_followed_when_an_edge_back_has_used_up_its_rounds() -> None:
    ran = run([BIG, {"rework": "before", "max": 1, "when": "outputs.n < 3"}, ELSE], 1, 1)
    assert (ran.state.status, reached(ran)) == ("completed", ["other"])


def test_why_names_else() -> None:
    ran = run([BIG, SMALL, ELSE], 5)
    assert "on success of `a` else: fired" in "\n".join(why(ran.state, "other"))


def test_a_decision_that_leads_nowhere_fails_and_names_its_conditions() -> None:
    ran = run([BIG, SMALL], 5)
    task = ran.state.tasks[1]
    assert (ran.state.status, task.status, task.reason, reached(ran)) == ("failed", "failed", "route", [])
    assert all(words in task.detail for words in ("`outputs.n > 9` (to `big`)", "`outputs.n < 3`", "`else: true`"))


def test_a_decision_that_leads_nowhere_starts_its_failure_handler() -> None:
    ran = run([BIG, SMALL, {"on": "failure", "to": "other"}], 5, allow_failure=True)
    assert (ran.state.status, reached(ran)) == ("failed", ["other"])


def test_one_edge_with_a_condition_may_not_be_followed() -> None:
    ran = run([BIG], 5)
    assert (ran.state.status, ran.statuses()["a"], ran.statuses()["big"]) == ("completed", "completed", "omitted")
