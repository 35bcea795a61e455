"""What an allowed command turns into by variables and folders around it does not run, at lint nor at the call."""

from __future__ import annotations

from pathlib import Path

import pytest
from workbench import planrunner

LS = "policy: {capabilities: {allow: [{uses: shell, run: 'ls *'}]}}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    for name in ("ls", "build.sh", "sub/build.sh"):
        (tmp_path / name).write_text("#!/bin/sh\ntouch ../owned owned\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def write(project: Path, policy: str, plan: str, task: str) -> None:
    (project / "planrunner.yaml").write_text(policy + "\n")
    (project / "p.yaml").write_text(f"plan: p\n{plan}\ntasks:\n  - id: a\n    timeout: 1m\n    {task}\n")


PLACES = [
    ("", "env: {PATH: '.:/usr/bin:/bin'}\n    run: ls"),
    ("", "env: {PATH: '.:/usr/bin:/bin'}\n    run: [ls]"),
    ("env: {PATH: '.:/usr/bin:/bin'}", "run: ls"),
    ("defaults: {env: {PATH: '.:/usr/bin:/bin'}}", "run: ls"),
    ("env: {PATH: '.:/usr/bin:/bin'}", "loop:\n      max: 1\n      tasks: [{id: b, run: ls, timeout: 1m}]"),
]


@pytest.mark.parametrize(("plan", "task"), PLACES)
def test_a_path_of_the_plans_own_makes_no_allowed_command_another(project: Path, plan: str, task: str) -> None:
    write(project, LS, plan, task)
    linted, ran = planrunner(project, "lint", "p.yaml"), planrunner(project, "exec", "p.yaml")
    assert "`PATH` set, which makes commands others" in linted.stdout, linted.stdout
    assert ran.returncode == 12, ran.stdout + ran.stderr
    assert not (project / "owned").exists()
    (project / "planrunner.yaml").unlink()
    planrunner(project, "exec", "p.yaml")
    assert (project / "owned").exists(), "without the policy it is another program"


BUILD = "policy: {capabilities: {allow: [{uses: shell, run: './build.sh *'}]}}"


@pytest.mark.parametrize(("cwd", "lints"), [("sub", 1), ("'{{ params.in }}'", 0)])
def test_a_program_that_is_allowed_by_its_path_is_no_other_of_another_folder(
    project: Path, cwd: str, lints: int
) -> None:
    write(project, BUILD, "params: {in: sub}", f"cwd: {cwd}\n    run: ./build.sh all")
    assert planrunner(project, "lint", "p.yaml").returncode == lints
    ran = planrunner(project, "exec", "p.yaml")
    assert ran.returncode == 12, ran.stdout + ran.stderr
    assert "where a relative path is another program" in ran.stdout + ran.stderr
    assert not (project / "owned").exists()
    write(project, BUILD, "", "cwd: sub/..\n    run: ./build.sh all")
    assert planrunner(project, "exec", "p.yaml").returncode == 0
    assert (project / "owned").exists()


@pytest.mark.parametrize(
    "act", ["run: LD_PRELOAD=x env", "run: export LD_PRELOAD=x; ls", "run: [env, LD_PRELOAD=x, ls]"]
)
def test_a_script_sets_no_variable_that_is_denied(project: Path, act: str) -> None:
    write(project, "policy: {env: {deny: ['LD_*']}}", "", act)
    linted, ran = planrunner(project, "lint", "p.yaml"), planrunner(project, "exec", "p.yaml")
    assert "denies the variable `LD_PRELOAD`" in linted.stdout, linted.stdout
    assert ran.returncode == 12, ran.stdout + ran.stderr
