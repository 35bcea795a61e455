"""Scratch copies: what differs in them is what an evaluation asks for, wherever the project says it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planrunner.app.proof.scratch import Adjustment, adjust, with_share
from planrunner.app.proof.test import runnable
from planrunner.caller import Principal, Workspace, acting
from planrunner.safety.project import policy_records, read_data

Json = Any

SMALL = {"provider": "ollama", "model": "small"}
LARGE = {"provider": "ollama", "model": "large"}


def project(folder: Path, **files: Json) -> str:
    for name, data in files.items():
        (folder / f"{name}.yaml").write_text(json.dumps(data))
    return str(folder)


def test_a_model_takes_the_place_of_the_default_one_where_that_is_named(tmp_path: Path) -> None:
    over = {"night": {"models": {"default": "small"}}}
    models = {"models": {"default": "small", "small": SMALL, "large": LARGE}}
    copy = project(tmp_path, planrunner={"include": "models.yaml", "profiles": over}, models=models)
    adjust(copy, Adjustment("large"))
    assert read_data(copy)["models"]["default"] == "large"
    with acting(Principal("ana"), Workspace(copy, profile="night")):
        assert read_data(copy)["models"]["default"] == "large"


def test_a_model_takes_the_place_of_one_that_tasks_name(tmp_path: Path) -> None:
    copy = project(tmp_path, planrunner={"models": {"small": SMALL, "large": LARGE}})
    adjust(copy, Adjustment("large", "small"))
    assert read_data(copy)["models"] == {"small": LARGE, "large": LARGE}


@pytest.mark.parametrize(("written", "most"), [("$5", 0.5), ("$0.10", 0.1)])
def test_a_run_may_use_its_share_and_never_more_than_the_policy_says(written: str, most: float, tmp_path: Path) -> None:
    copy = project(tmp_path, planrunner={"policy": {"budgets": {"cost": written, "time": "2h"}}})
    adjust(copy, Adjustment(share={"cost": 0.5, "calls": 3}))
    (record,) = policy_records(copy)
    assert record["policy"]["budgets"] == {"cost": f"${most:.9f}", "time": "2h", "calls": 3}


def test_a_project_without_settings_gets_those_that_are_needed(tmp_path: Path) -> None:
    adjust(str(tmp_path), Adjustment(share={"cost": 0.5}))
    assert read_data(str(tmp_path))["policy"] == {"budgets": {"cost": "$0.500000000"}}


def test_tasks_without_budgets_may_use_the_share_of_their_run_in_every_notation(tmp_path: Path) -> None:
    plan = tmp_path / "a.yaml"
    plan.write_text(
        "plan: a\ndefaults: {timeout: 1m, budgets: {tokens: 500}}\n"
        "tasks:\n  - {id: free, uses: noop}\n  - {id: own, uses: noop, budgets: {cost: $0.10}}\n"
    )
    free, own = runnable(with_share(str(plan), {"cost": 0.5, "tokens": 9000})).tasks
    assert (free.budgets.cost, free.budgets.tokens) == (0.5, 500)
    assert own.budgets.cost == 0.1
    text = tmp_path / "b.plan"
    text.write_text("plan b\n\ntask a\n  run: |\n    true\n  timeout: 10s\n")
    (task,) = runnable(with_share(str(text), {"cost": 0.5})).tasks
    assert task.budgets.cost == 0.5
