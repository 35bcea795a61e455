"""A program whose exit code the criteria accept gives its outputs and artifacts as any other does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from workbench import planrunner

PLAN = """
plan: p
defaults: {timeout: 1m}
tasks:
  - id: count
    run: 'echo a; echo b; echo "n=%s" >> "$PLANRUNNER_OUTPUT"; echo found > found.txt; exit %s'
    outputs: {n: int}
    artifacts: [{name: found, path: found.txt}]
    expect: [exit_code <= 1, outputs.n > 0]
  - id: tell
    needs: [count]
    run: |
      echo {{ tasks.count.outputs.n + 1 }}
"""


def run(folder: Path, n: str, code: int) -> dict[str, dict[str, object]]:
    (folder / "p.yaml").write_text(PLAN % (n, code))
    tasks: dict[str, dict[str, object]] = json.loads(planrunner(folder, "exec", "p.yaml", "--json").stdout)["tasks"]
    return tasks


@pytest.mark.parametrize("code", [0, 1])
def test_outputs_and_artifacts_are_there_whatever_the_accepted_code(tmp_path: Path, code: int) -> None:
    tasks = run(tmp_path, "4", code)
    assert (tasks["count"]["status"], tasks["count"]["outputs"]) == ("completed", {"n": 4})
    assert tasks["tell"]["status"] == "completed"
    assert "5" in planrunner(tmp_path, "logs", "last", "tell").stdout
    assert "found" in planrunner(tmp_path, "artifacts", "list").stdout
    assert "replays exactly" in planrunner(tmp_path, "replay", "last").stdout


@pytest.mark.parametrize(
    ("n", "code", "why"),
    [
        ("4", 2, "`exit_code <= 1` is false"),
        ("0", 1, "`outputs.n > 0` is false"),
        ("many", 1, "the declared output `n` was not given"),
    ],
)
def test_what_is_not_accepted_or_missing_fails(tmp_path: Path, n: str, code: int, why: str) -> None:
    tasks = run(tmp_path, n, code)
    assert tasks["count"]["status"] == "failed"
    assert why in str(tasks["count"]["detail"]) or "has no" in str(tasks["count"]["detail"]), tasks["count"]


CODES = """
plan: codes
defaults: {timeout: 1m}
tasks:
  - id: look
    run: 'echo "n=4" >> "$PLANRUNNER_OUTPUT"; exit CODE'
    ok_codes: [0, 3, 75]
    outputs: {n: int}
  - {id: three, needs: [look], when: tasks.look.exit_code == 3, run: "echo {{ tasks.look.outputs.n }}"}
"""


def both(folder: Path, text: str) -> list[str]:
    """Files of a plan in YAML and in the text notation."""
    (folder / "p.yaml").write_text(text)
    planrunner(folder, "convert", "p.yaml", "--to", "plan", "-o", "q.plan")
    return ["p.yaml", "q.plan"]


@pytest.mark.parametrize(("code", "three"), [(0, "skipped"), (3, "completed"), (75, "skipped")])
def test_a_code_that_is_listed_completes_the_task(tmp_path: Path, code: int, three: str) -> None:
    for file in both(tmp_path, CODES.replace("CODE", str(code))):
        document = json.loads(planrunner(tmp_path, "exec", file, "--json").stdout)
        assert {name: task["status"] for name, task in document["tasks"].items()} == {
            "look": "completed",
            "three": three,
        }
        assert document["status"] == "completed"
        assert "failed" not in planrunner(tmp_path, "show", "last").stdout
        assert "replays exactly" in planrunner(tmp_path, "replay", "last").stdout


def test_another_code_fails_the_task_0_included(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(CODES.replace("CODE", "4"))
    assert planrunner(tmp_path, "exec", "p.yaml").returncode == 1
    told = planrunner(tmp_path, "why", "last", "look").stdout
    assert "`exit_code in [0, 3, 75]` is false: exit_code is 4" in told
    (tmp_path / "p.yaml").write_text(CODES.replace("CODE", "0").replace("[0, 3, 75]", "3"))
    assert planrunner(tmp_path, "exec", "p.yaml").returncode == 1


WHEREVER = """
plan: wherever
defaults: {timeout: 1m}
tasks:
  - {id: items, foreach: [3, 4], tolerate: 1, run: 'exit {{ item }}', ok_codes: [0, 3]}
  - id: rounds
    loop: {max: 2, until: tasks.x.exit_code == 3, tasks: [{id: x, run: exit 3, ok_codes: 3}]}
  - {id: inside, subplan: [{id: x, run: exit 3, ok_codes: [3]}]}
  - {id: linked, subplan: ./part.yaml}
  - id: again
    run: 'if test -e seen; then exit 3; fi; touch seen; exit 4'
    ok_codes: [3]
    retry: {attempts: 2, delay: 0s}
  - {id: mode, run: exit 3, ok_codes: [0, 3], failure_modes: [{name: quota, detect: exit_code == 3}], allow_failure: true}
  - {id: more, run: echo hi; exit 3, ok_codes: [0, 3], expect: ['stdout contains "ho"'], allow_failure: true}
"""
PART = "plan: part\ndefaults: {timeout: 1m}\ntasks: [{id: x, run: exit 3, ok_codes: [3]}]\n"


def test_codes_are_good_wherever_the_program_stands(tmp_path: Path) -> None:
    (tmp_path / "part.yaml").write_text(PART)
    for file in both(tmp_path, WHEREVER):
        (tmp_path / "seen").unlink(missing_ok=True)
        document = json.loads(planrunner(tmp_path, "exec", file, "--json").stdout)
        tasks = document["tasks"]
        ended = {name: tasks[name]["status"] for name in ("rounds", "inside", "linked", "again", "items")}
        assert set(ended.values()) == {"completed"}, ended
        assert tasks["again"]["attempts"] == 2
        assert (tasks["mode"]["status"], tasks["mode"]["failure"]) == ("failed", "quota")
        assert (tasks["more"]["status"], tasks["more"]["failure"]) == ("failed", "logic")
        assert "replays exactly" in planrunner(tmp_path, "replay", "last").stdout


def test_what_ended_with_a_good_code_is_undone_like_any_other(tmp_path: Path) -> None:
    text = """
plan: back
defaults: {timeout: 1m}
on_failure: rollback
steps:
  - {run: exit 3, ok_codes: 3, rollback: {run: echo undone >> log}}
  - exit 1
"""
    for file in both(tmp_path, text):
        assert planrunner(tmp_path, "exec", file).returncode == 1
        assert "exited 3, as its criteria allow" in planrunner(tmp_path, "why", "last", "step-1").stdout
    assert (tmp_path / "log").read_text() == "undone\nundone\n"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("[]", "`ok_codes` needs at least 1 item"),
        ("300", "`ok_codes` must be at most 255"),
        ("[-1]", "an item of `ok_codes` must be at least 0"),
        ('"0, 3"', "`ok_codes` must be a whole number or a list"),
        ("[3, 3]", "`ok_codes` has an item twice"),
        ("[true]", "an item of `ok_codes` must be a whole number"),
    ],
)
def test_what_is_no_code_is_told(tmp_path: Path, wrong: str, told: str) -> None:
    (tmp_path / "p.yaml").write_text(CODES.replace("[0, 3, 75]", wrong))
    ran = planrunner(tmp_path, "lint", "p.yaml")
    assert told in ran.stdout + ran.stderr
