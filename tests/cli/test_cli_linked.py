"""Plans that link to files, as commands meet them: a changed file is noticed, a missing one is told."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import workbench

MAIN = "plan: main\ntasks:\n  - {id: one, subplan: inner.yaml, timeout: 1m}\noutputs: {said: '{{ tasks.one.outputs.said }}'}\n"
INNER = "plan: inner\noutputs: {said: '{{ tasks.say.stdout }}'}\ntasks:\n  - {id: say, run: printf WORD, timeout: 1m}\n"


def planrunner(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return workbench.planrunner(folder, *words, PLANRUNNER_STATE=str(folder / "state"))


def said(folder: Path, plan: str = "main.yaml") -> str:
    done = planrunner(folder, "exec", plan, "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["outputs"]["said"])


def write(folder: Path, word: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "main.yaml").write_text(MAIN, encoding="utf-8")
    (folder / "inner.yaml").write_text(INNER.replace("WORD", word), encoding="utf-8")


def test_a_plan_seen_before_runs_with_the_linked_file_as_it_is_now(tmp_path: Path) -> None:
    write(tmp_path, "first")
    assert [said(tmp_path), said(tmp_path)] == ["first", "first"]
    write(tmp_path, "second")
    assert said(tmp_path) == "second"


def test_equal_plans_in_two_folders_link_to_their_own_files(tmp_path: Path) -> None:
    write(tmp_path / "a", "ann")
    write(tmp_path / "b", "bob")
    assert [said(tmp_path, f"{folder}/main.yaml") for folder in "abab"] == ["ann", "bob", "ann", "bob"]


def test_a_linked_file_that_went_away_starts_nothing(tmp_path: Path) -> None:
    write(tmp_path, "first")
    said(tmp_path)
    (tmp_path / "inner.yaml").unlink()
    done = planrunner(tmp_path, "exec", "main.yaml")
    assert done.returncode == 5 and "there is no file `inner.yaml`" in done.stderr


def test_lint_tells_the_faults_of_a_linked_file_and_how_to_see_them_all(tmp_path: Path) -> None:
    write(tmp_path, "first")
    (tmp_path / "inner.yaml").write_text("plan: inner\ntasks:\n  - {id: a, uses: nop}\n", encoding="utf-8")
    done = planrunner(tmp_path, "lint", "main.yaml")
    assert done.returncode == 1
    assert "error[PLAN112] `inner.yaml` has an error: line 3 PLAN007" in done.stdout
    assert "`planrunner lint inner.yaml` shows all of it" in done.stdout


def test_a_credential_that_only_a_linked_plan_needs_keeps_the_linking_plan_from_starting(tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").write_text("provider_credentials: []\n", encoding="utf-8")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "p.yaml").write_text(
        "plan: p\ntasks: [{id: t, run: 'test -n \"$TOKEN\"', secrets: [TOKEN], timeout: 1m}]\n", encoding="utf-8"
    )
    steps = "tasks: [{id: first, run: touch begun}, {id: deploy, needs: [first], subplan: ./parts/p.yaml}]"
    (tmp_path / "main.yaml").write_text(f"plan: main\ndefaults: {{timeout: 1m}}\n{steps}\n", encoding="utf-8")
    linted, ran = (planrunner(tmp_path, command, "main.yaml") for command in ("lint", "exec"))
    told = "error[PLAN112] `parts/p.yaml` has an error: line 2 PLAN821 the project has no credential `TOKEN`"
    assert (linted.returncode, told in linted.stdout) == (1, True)
    assert (ran.returncode, told in ran.stderr, (tmp_path / "begun").exists()) == (5, True, False)
