"""Rolling back from the real command line, with real processes."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import Ran


class Shell:
    """A project in which commands of planrunner are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".planrunner").mkdir()

    def plan(self, **changes: Any) -> None:
        log = 'echo "{}" >> log'
        tasks = [
            {"id": "file", "run": "echo new > file", "backup": ["file"]},
            {
                "id": "tag",
                "needs": ["file"],
                "run": "echo name=v2 >> $PLANRUNNER_OUTPUT; " + log.format("tagged"),
                "outputs": {"name": "string"},
                "rollback": {"run": log.format("untagged {{ outputs.name }}")},
            },
            {"id": "last", "needs": ["tag"], "run": "exit 0", "effect": "read"},
        ]
        by_id = {str(task["id"]): task for task in tasks}
        for name, keys in changes.items():
            by_id[name].update(keys)
        document = {"plan": "p", "defaults": {"timeout": "10m"}, "tasks": tasks}
        (self.folder / "plan.json").write_text(json.dumps(document))

    def start(self, *arguments: str) -> commands.Started:
        return commands.start(*arguments, folder=self.folder, env=os.environ)

    def run(self, *arguments: str) -> Ran:
        return commands.run(*arguments, folder=self.folder, env=os.environ)

    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def killed(self, marker: str) -> None:
        """Start the plan, and kill the runner once the marker exists."""
        process = self.start("exec", "plan.json")
        deadline = time.monotonic() + 240
        while not (self.folder / marker).exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path)
    found.plan()
    return found


def test_a_completed_run_is_undone_with_a_preview_and_a_report(shell: Shell) -> None:
    (shell.folder / "file").write_text("old\n")
    assert shell.run("exec", "plan.json").code == 0
    preview = json.loads(shell.run("rollback", "last", "--preview", "--json").out)
    assert [(step["task"], step["kind"]) for step in preview["steps"]] == [("tag", "action"), ("file", "files")]
    assert shell.log() == ["tagged"], "a preview undoes nothing"
    ran = shell.run("rollback", "last", "--json", "--reason", "wrong version")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert (found["status"], found["reason"], found["rollback"]["comment"]) == (
        "cancelled",
        "rolled_back",
        "wrong version",
    )
    assert shell.log() == ["tagged", "untagged v2"]
    assert (shell.folder / "file").read_text() == "old\n"
    shown = shell.run("show").out
    assert "rolled back: 2 steps undone" in shown
    assert "wrong version" in shown
    assert json.loads(shell.run("show", "--json").out)["rollback"]["status"] == "rolled_back"
    assert "⊘ rolled back" in shell.run("runs").out
    again = shell.run("rollback", "last")
    assert (again.code, "nothing to undo" in again.err) == (2, True)
    assert shell.run("replay", "last").code == 0
    assert shell.log() == ["tagged", "untagged v2"]


def test_the_report_tells_what_is_irreversible_from_what_says_nothing(shell: Shell) -> None:
    shell.plan(file={"backup": [], "irreversible": True}, last={"effect": "unsafe"})
    assert shell.run("exec", "plan.json").code == 0
    said = shell.run("rollback", "last").err
    assert "  not undone, irreversible: file\n" in said
    assert "  not undone, no rollback declared: last\n" in said


def test_to_keeps_the_task_and_what_came_before(shell: Shell) -> None:
    shell.run("exec", "plan.json")
    assert shell.run("rollback", "last", "--to", "file").code == 0
    assert (shell.folder / "file").exists()
    assert shell.log() == ["tagged", "untagged v2"]
    wrong = shell.run("rollback", "last", "--to", "fil")
    assert (wrong.code, "did you mean `file`?" in wrong.err) == (3, True)


def test_only_undoes_what_is_named(shell: Shell) -> None:
    shell.run("exec", "plan.json")
    assert shell.run("rollback", "last", "--only", "file").code == 0
    assert not (shell.folder / "file").exists()
    assert shell.log() == ["tagged"]


def test_what_cannot_be_undone_gives_code_1_and_can_be_tried_again(shell: Shell) -> None:
    shell.plan(tag={"rollback": {"run": "test -e allowed"}})
    shell.run("exec", "plan.json")
    strict = shell.run("rollback", "last", "--strict")
    assert strict.code == 1
    assert (shell.folder / "file").exists()
    assert "file left" in strict.err
    assert shell.run("rollback", "last").code == 1
    assert not (shell.folder / "file").exists()
    (shell.folder / "allowed").touch()
    assert shell.run("rollback", "last").code == 0


def test_what_failed_and_was_undone_says_why_it_had_failed(shell: Shell) -> None:
    task = {
        "id": "note",
        "uses": "files.write",
        "with": {"path": "note", "content": "x"},
        "expect": ["outputs.size > 3"],
    }
    (shell.folder / "plan.json").write_text(json.dumps({"plan": "p", "on_failure": "rollback", "tasks": [task]}))
    assert shell.run("exec", "plan.json").code == 1
    assert not (shell.folder / "note").exists()
    for said in (shell.run("why", "last", "note").out, shell.run("show").out):
        assert "it had failed, and was undone: `outputs.size > 3` is false: outputs.size is 1" in " ".join(said.split())


def test_a_run_that_somebody_holds_is_not_rolled_back(shell: Shell) -> None:
    shell.plan(last={"run": "touch up; sleep 3000"})
    process = shell.start("exec", "plan.json")
    while not (shell.folder / "up").exists():
        time.sleep(0.02)
    try:
        assert shell.run("rollback", "last").code == 9
        assert shell.log() == ["tagged"]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=240)
    assert shell.run("rollback", "last").code == 0
    assert shell.log() == ["tagged", "untagged v2"]


@pytest.mark.parametrize("words", [("--settle", "tag=rollback"), ("--unattended",)])
def test_a_doubt_is_settled_by_undoing(shell: Shell, words: tuple[str, ...]) -> None:
    shell.plan(tag={"run": "touch up; sleep 300", "outputs": {}, "rollback": {"run": "echo undone >> log"}})
    shell.killed("up")
    if words[0] == "--settle":
        waiting = shell.run("resume", "last")
        assert waiting.code == 8
    ran = shell.run("resume", "last", *words, "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["tasks"]["tag"]["reason"] == "doubt"
    assert shell.log() == ["undone"]


def test_after_a_rollback_the_undone_tasks_can_be_done_again(shell: Shell) -> None:
    shell.run("exec", "plan.json")
    shell.run("rollback", "last")
    ran = shell.run("retry", "last", "--json")
    assert (ran.code, json.loads(ran.out)["status"]) == (0, "completed")
    assert shell.log() == ["tagged", "untagged v2", "tagged"]
    assert shell.run("rollback", "last").code == 0
    assert shell.log() == ["tagged", "untagged v2", "tagged", "untagged v2"]


def test_an_earlier_visit_of_a_container_that_was_undone_is_shown_as_that(shell: Shell) -> None:
    begin = {"id": "begin", "run": "true", "rollback": {"run": "true"}}
    items = {"id": "parts", "needs": ["begin"], "foreach": [1, 2], "run": "true", "rollback": {"run": "true"}}
    last = {"id": "last", "needs": ["parts"], "run": "exit 1", "effect": "read"}
    plan = {"plan": "p", "on_failure": "rollback", "defaults": {"timeout": "10m"}, "tasks": [begin, items, last]}
    (shell.folder / "plan.json").write_text(json.dumps(plan))
    assert shell.run("exec", "plan.json", "--progress", "quiet").code == 1
    last["run"] = "true"
    (shell.folder / "plan.json").write_text(json.dumps(plan))
    assert shell.run("revise", "last", "plan.json").code == 0
    assert "↩   earlier visit  2 rolled back" in shell.run("show", "last").out
