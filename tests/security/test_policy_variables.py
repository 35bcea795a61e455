"""Which variables of the operator a task may see is the policy's to say, whether or not the task is shut in."""

from __future__ import annotations

from pathlib import Path

import pytest
from workbench import planrunner

HIDING = [
    ("policy: {env: {deny: ['A_*']}}", ""),
    ("policy: {env: {allow: [PATH, B_OPEN]}}", ""),
    ("", "policy: {env: {deny: [A_TOKEN]}}"),
    ("policy: {env: {allow: ['*']}}", "policy: {env: {allow: [PATH, B_OPEN]}}"),
]


GIVEN = {"A_TOKEN": "seven-seals", "B_OPEN": "an-open-door"}


def told(project: Path, operator: str, plan: str, *tasks: str) -> str:
    (project / ".git").mkdir(exist_ok=True)
    (project / "planrunner.yaml").write_text(operator + "\n")
    listed = "".join(f"  - id: t{at}\n    timeout: 1m\n    {task}\n" for at, task in enumerate(tasks))
    (project / "p.yaml").write_text(f"plan: p\n{plan}\non_failure: continue\ntasks:\n{listed}")
    ran = planrunner(project, "exec", "p.yaml", "--output", "none", **GIVEN)
    return ran.stdout + ran.stderr + planrunner(project, "logs", "last", **GIVEN).stdout


@pytest.mark.prints_environment
@pytest.mark.parametrize(("operator", "plan"), HIDING)
def test_a_process_sees_what_every_level_lets_it_see(tmp_path: Path, operator: str, plan: str) -> None:
    python = "uses: python.run\n    with: {code: 'import os; print(dict(os.environ))'}"
    seen = told(tmp_path, operator, plan, "run: env | sort", "run: [env]", python)
    assert seen.count("an-open-door") == 3, seen
    assert "seven-seals" not in seen


@pytest.mark.parametrize(("operator", "plan"), HIDING)
def test_a_template_has_what_the_operator_and_the_plan_let_it_see(tmp_path: Path, operator: str, plan: str) -> None:
    seen = told(tmp_path, operator, plan, "run: echo {{ env.B_OPEN }}", "run: echo {{ env.A_TOKEN }}")
    assert "an-open-door" in seen
    assert "seven-seals" not in seen
    assert "`env` has no `A_TOKEN`" in seen


def test_what_a_plan_sets_itself_is_not_what_an_allow_list_hides(tmp_path: Path) -> None:
    seen = told(tmp_path, "policy: {env: {allow: [PATH]}}", "env: {OWN: of-the-plan}", "run: env")
    assert "of-the-plan" in seen
    assert "seven-seals" not in seen
