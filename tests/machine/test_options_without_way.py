"""An option that leads nowhere, where others lead on, does not end the run well."""

from __future__ import annotations

from typing import Any

import pytest
from simulator.rehearsal import rehearse
from workbench import plan

CHOICE = {"id": "g", "gate": "decision", "ask": "which?", "choose": "params.way"}
X, AFTER = {"id": "x", "run": "x"}, {"id": "after", "needs": ["x"], "run": "after"}


def chosen(way: str, options: list[Any], *tasks: dict[str, Any], **started: Any) -> Any:
    made = plan({**CHOICE, "options": options}, *tasks, params={"way": "string"})
    return rehearse(made, params={"way": way}, started=started)


@pytest.mark.parametrize(("way", "status"), [("l", "completed"), ("r", "failed")])
def test_the_gate_fails_where_the_option_has_no_task_and_others_have(way: str, status: str) -> None:
    ran = chosen(way, [{"id": "l", "to": "x"}, {"id": "r"}], X, AFTER)
    assert (ran.state.status, ran.statuses()["g"]) == (status, status)
    detail = ran.state.tasks[ran.state.index["g"]].detail
    assert ("the option `r` leads nowhere" in detail) == (way == "r")


def test_an_option_is_fine_where_a_task_needs_the_gate_or_none_leads_on() -> None:
    needing = {"id": "y", "needs": ["g"], "run": "y"}
    assert chosen("r", [{"id": "l", "to": "x"}, {"id": "r"}], X, needing).state.status == "completed"
    assert chosen("r", ["l", "r"]).state.status == "completed"
