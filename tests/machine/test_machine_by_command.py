"""What a command decides for another task: whether that is done already, whether it may start, which plan is linked."""

from __future__ import annotations

from typing import Any

import pytest
import workbench
from simulator.rehearsal import Rehearsal, rehearse

from planrunner.machine.events import Outcome

GOOD, BAD = Outcome(exit_code=0), Outcome("logic", "exit code 1", exit_code=1)
LOOK = {"id": "look", "run": "test -e out", "allow_failure": True}
AFTER = {"id": "after", "needs": ["task"], "run": "x"}


def run(
    *tasks: dict[str, Any], look: Outcome = GOOD, declared: Any = None, given: Any = None, **keys: Any
) -> Rehearsal:
    loaded = workbench.loaded(*tasks, **{"params": declared or {}, "defaults": {"timeout": "1h"}, **keys})
    assert loaded.plan is not None, [finding.message for finding in loaded.findings]
    assert not [each.message for each in loaded.findings if each.severity != "note"]
    return rehearse(loaded.plan, {"look": [look]}, params=given or {})


@pytest.mark.parametrize(("look", "attempts"), [(GOOD, 0), (BAD, 1)])
def test_a_task_is_done_already_where_a_command_before_it_says_so(look: Outcome, attempts: int) -> None:
    task = {"id": "task", "needs": ["look"], "run": "x", "fresh": {"when": "tasks.look.completed"}}
    ran = run(LOOK, task, AFTER, look=look)
    assert (ran.state.tasks[1].attempts, ran.state.tasks[1].status) == (attempts, "completed")
    assert ran.statuses()["after"] == "completed"


@pytest.mark.parametrize(("look", "status"), [(GOOD, "completed"), (BAD, "failed")])
def test_a_task_starts_only_where_a_command_before_it_allows_it(look: Outcome, status: str) -> None:
    task = {"id": "task", "needs": ["look"], "run": "x", "preconditions": ["tasks.look.exit_code == 0"]}
    found = run(LOOK, task, AFTER, look=look).state.tasks[1]
    assert (found.status, found.reason) == (status, "precondition" if status == "failed" else "")


@pytest.mark.parametrize("stage", ["small", "large"])
def test_a_parameter_chooses_among_linked_plans(stage: str) -> None:
    parts = {name: {"tasks": [{"id": name, "run": "x", "timeout": "1m"}]} for name in ("small", "large")}
    tasks = [{"id": f"as-{name}", "subplan": name, "when": f'params.stage == "{name}"'} for name in parts]
    stages = {"stage": {"type": "string", "choices": ["small", "large"], "default": "small"}}
    task = {"id": "task", "needs": [each["id"] for each in tasks], "join": "none_failed", "run": "x"}
    ran = run(*tasks, task, declared=stages, given={"stage": stage}, subplans=parts)
    assert [ran.statuses()[f"as-{name}"] for name in parts].count("completed") == 1
    assert (ran.statuses()[f"as-{stage}"], ran.statuses()["task"]) == ("completed", "completed")
