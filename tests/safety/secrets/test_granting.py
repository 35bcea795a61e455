"""How tasks are given what they declare, when it is looked up, and what comes of a secret that is not there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import workbench

PROJECT = """
provider_credentials:
  - {id: token, auth: {source: env, env_var: TOKEN}}
  - {id: counted, auth: {source: command, command: [sh, -c, "echo x >> count; echo counted-$(wc -l < count)-value"]}}
  - {id: gone, auth: {source: file, file_path: gone.txt}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "planrunner.yaml").write_text(PROJECT)
    return tmp_path


def planrunner(project: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return workbench.planrunner(project, *words, **{"TOKEN": "tok-under-test-1", **more})


def refused(project: Path, tasks: str) -> str:
    """What is said of a plan that lint refuses as well: nothing of it runs."""
    (project / "p.yaml").write_text(f"plan: p\ndefaults: {{timeout: 4m}}\ntasks:\n{tasks}\n")
    done = planrunner(project, "exec", "p.yaml")
    assert done.returncode == 5, done.stderr
    return done.stderr


def execute(project: Path, tasks: str, head: str = "", **env: str) -> dict[str, Any]:
    (project / "p.yaml").write_text(f"plan: p\ndefaults: {{timeout: 4m}}\n{head}tasks:\n{tasks}\n")
    done = planrunner(project, "exec", "p.yaml", "--json", **env)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["tasks"]
    return found


def log(project: Path, task: str) -> str:
    return planrunner(project, "logs", "last", task).stdout


def state(project: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (project / ".planrunner").rglob("*") if path.is_file())


def test_three_ways_to_hand_it_over(project: Path) -> None:
    tasks = """
  - id: a
    secrets: {VALUE: token, FILE: {id: token, as: file}, FD: {id: token, as: fd}, FD_2: {id: counted, as: fd}}
    run: |
      test "$VALUE" = "$(cat "$FILE")"
      test "$(stat -L -c %a "$FILE")" = 600
      test "$FD" = /dev/fd/3
      test "$VALUE" = "$(cat $FD)"
      test "$VALUE" = "$(cat <&3)"
      test "$(cat $FD_2)" = counted-1-value
      echo "$FILE" > where
"""
    assert execute(project, tasks)["a"]["status"] == "completed", log(project, "a")
    assert not Path((project / "where").read_text().strip()).exists()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_they_reach_a_process_that_is_shut_in(project: Path) -> None:
    (project / "planrunner.yaml").write_text(PROJECT + "policy: {sandbox: {profile: bubblewrap}}\n")
    if planrunner(project, "doctor", "--sandbox").returncode:
        pytest.skip("bubblewrap does not work here")
    tasks = """
  - id: a
    secrets: {VALUE: token, FILE: {id: token, as: file}, FD: {id: token, as: fd}}
    run: |
      test "$VALUE" = "$(cat "$FILE")"
      test "$VALUE" = "$(cat "$FD")"
      echo "$VALUE"
"""
    assert execute(project, tasks)["a"]["status"] == "completed", log(project, "a")
    assert log(project, "a") == "[secret:token]\n"
    assert b"tok-under-test" not in state(project)


def test_a_list_gives_the_usual_variables(project: Path) -> None:
    tasks = (
        "  - {id: a, secrets: [token, counted], run: 'test $TOKEN = tok-under-test-1; test $COUNTED = counted-1-value'}"
    )
    assert execute(project, tasks)["a"]["status"] == "completed"


def test_it_is_looked_up_once_a_run_and_anew_for_another_attempt(project: Path) -> None:
    tasks = """
  - {id: a, secrets: [counted], run: 'echo "$COUNTED" > a.txt'}
  - {id: b, needs: [a], secrets: [counted], run: 'echo "$COUNTED" | tee b$PLANRUNNER_ATTEMPT.txt; test -e b2.txt || exit 75', retry: {attempts: 2, delay: 10ms}}
  - {id: c, needs: [b], run: cat a.txt b1.txt b2.txt}
"""
    found = execute(project, tasks)
    assert {task["status"] for task in found.values()} == {"completed"}
    assert [(project / name).read_text() for name in ("a.txt", "b1.txt", "b2.txt")] == [
        "counted-1-value\n",
        "counted-1-value\n",
        "counted-2-value\n",
    ]
    assert log(project, "c") == "[secret:counted]\n" * 3
    assert b"-value" not in state(project)


def test_a_run_that_goes_on_knows_the_secrets_of_tasks_that_are_done(project: Path) -> None:
    tasks = """
  - {id: a, secrets: [token], run: 'echo "$TOKEN" > a.txt'}
  - {id: go, needs: [a], gate: approval, ask: Go on}
  - {id: b, needs: [go], run: cat a.txt}
"""
    assert execute(project, tasks)["go"]["status"] == "blocked"
    assert planrunner(project, "approve", "last", "go").returncode == 0
    planrunner(project, "resume", "last")
    assert log(project, "b") == "[secret:token]\n"
    assert b"tok-under-test" not in state(project)


def test_what_undoes_a_task_is_given_its_secrets(project: Path) -> None:
    tasks = """
  - {id: a, secrets: [counted], run: 'echo "$COUNTED" > a.txt', rollback: {run: 'echo "$COUNTED" > undone.txt'}}
  - {id: b, needs: [a], run: exit 1}
"""
    execute(project, tasks, "on_failure: rollback\n")
    assert (project / "undone.txt").read_text() != (project / "a.txt").read_text()
    assert (project / "undone.txt").read_text().startswith("counted-")
    assert b"-value" not in state(project)


def test_a_secret_that_no_task_made_fails_its_task_alone(project: Path) -> None:
    tasks = """
  - {id: make, run: 'true'}
  - {id: a, needs: [make], secrets: [gone], run: touch ran}
  - {id: b, run: echo fine}
"""
    found = execute(project, tasks, "on_failure: continue\n")
    assert (found["a"]["status"], found["b"]["status"]) == ("failed", "completed")
    assert not (project / "ran").exists()
    said = planrunner(project, "show", "last").stdout
    assert "the credential `gone` (planrunner.yaml:5)" in said
    assert "cannot be read: No such file or directory" in said


def test_a_command_that_gives_no_secret_keeps_the_run_from_starting(project: Path) -> None:
    file = project / "planrunner.yaml"
    file.write_text(PROJECT + "  - {id: shut, auth: {source: command, command: [sh, -c, exit 3]}}\n")
    said = refused(project, "  - {id: a, secrets: [shut], run: touch ran}")
    assert "`a`: the credential `shut` (planrunner.yaml:6): sh ended with 3; try it by hand" in said


def test_an_unknown_credential_fails_with_the_nearest_name(project: Path) -> None:
    said = refused(project, "  - {id: a, secrets: [tokn], run: touch ran}")
    assert "the project has no credential `tokn`, did you mean `token`?" in said
    assert not (project / "ran").exists()


def test_a_project_without_credentials_says_how_to_list_one(tmp_path: Path) -> None:
    said = refused(tmp_path, "  - {id: a, secrets: [token], run: touch ran}")
    assert "list it in planrunner.yaml: `provider_credentials: [{id: token, auth:" in said
    assert not (tmp_path / "ran").exists()


def test_a_template_is_given_no_secret_and_the_record_of_the_run_neither(project: Path) -> None:
    said = refused(project, "  - {id: a, run: 'echo {{ env.TOKEN }} {{ env.HOME }}'}")
    assert "`env.TOKEN` is the secret `token`" in said
    assert b"tok-under-test" not in state(project)


def test_what_is_noted_to_undo_a_task_is_not_kept_where_it_holds_a_secret(project: Path) -> None:
    (project / "kept.txt").write_text("before: tok-under-test-1\n")
    tasks = """
  - {id: first, secrets: [token], run: "true"}
  - {id: a, needs: [first], uses: files.write, with: {path: kept.txt, content: after}}
"""
    found = execute(project, tasks, "on_failure: rollback\n")
    assert found["a"]["status"] == "failed", found
    assert (project / "kept.txt").read_text() == "before: tok-under-test-1\n"
    assert b"tok-under-test" not in state(project)


def test_a_checkpoint_leaves_out_what_holds_a_secret(project: Path) -> None:
    (project / ".env").write_text("TOKEN=tok-under-test-1\n")
    (project / "other.txt").write_text("seen\n")
    tasks = "  - {id: a, secrets: [token], run: 'true', checkpoint: {paths: ['.env', other.txt]}}"
    found = execute(project, tasks)
    assert found["a"]["status"] == "completed"
    kept = state(project)
    assert b"tok-under-test" not in kept
    assert b"seen\n" in kept
    assert ".env cannot be read: it holds [secret:token]" in planrunner(project, "events", "last", "--json").stdout
