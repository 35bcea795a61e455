"""Files are put back by one process at a time, never where a run acts, also without going on; and what is told of it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from workbench import ROOT

from planrunner import errors
from planrunner.app.runs.checkpoints import ForkRequest, files_at, restoring
from planrunner.app.runs.restore import carry_out

if TYPE_CHECKING:
    from conftest import Project

TWO = [
    {"id": "one", "run": "echo 1 > x", "checkpoint": True},
    {"id": "two", "needs": ["one"], "run": "echo 2 > x; echo y > y"},
]


@contextmanager
def acting(folder: Path, state: Path, project: Project) -> Iterator[subprocess.Popen[bytes]]:
    """A run that goes on in ``folder`` until this is left."""
    (folder / "planrunner.yaml").write_text("")
    plan = {"plan": "busy", "tasks": [{"id": "wait", "run": "touch began; sleep 300", "timeout": "10m"}]}
    (folder / "busy.json").write_text(json.dumps(plan))
    command = [sys.executable, "-m", "planrunner", "--state", str(state), "exec", "busy.json", "--progress", "quiet"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLANRUNNER")}
    environment["PYTHONPATH"] = str(ROOT)
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=folder, env=environment, **pipes) as process:  # type: ignore[call-overload]
        try:
            deadline = time.monotonic() + 240
            while not (folder / "began").exists():
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
            yield process
        finally:
            process.terminate()


@pytest.mark.parametrize("where", [".", "inner"])
def test_nothing_is_put_back_while_a_run_acts_in_the_directory_or_inside_it(project: Project, where: str) -> None:
    project.plan(*TWO)
    project.run("exec", "plan.json")
    first = project.first_run()
    folder = project.folder / where
    folder.mkdir(exist_ok=True)
    with acting(folder, project.state, project) as process:
        before = project.tree()
        for command in (["fork", first, "--from"], ["resume", first, "--from"], ["checkpoints", first]):
            done = project.run(*command, "one", "--restore-files", "--yes", code=errors.HELD)
            assert f"works in `{folder.resolve()}`, held by process {process.pid}" in done.err
        assert project.tree() == before
        assert len(project.data("runs")["runs"]) == 2


def test_files_are_put_back_while_a_run_acts_elsewhere(project: Project) -> None:
    project.plan(*TWO)
    (project.folder / "planrunner.yaml").write_text("")
    project.run("exec", "plan.json")
    first = project.first_run()
    elsewhere = project.folder.parent / "project-beside"
    elsewhere.mkdir()
    with acting(elsewhere, project.state, project):
        project.run("fork", first, "--from", "one", "--restore-files", "--yes")
    assert (project.folder / "x").read_text() == "1\n"


def test_only_one_process_puts_files_back_at_a_time(project: Project) -> None:
    project.plan(*TWO)
    project.run("exec", "plan.json")
    with restoring(ForkRequest("last", "one", state=str(project.state))):
        done = project.run("fork", "last", "--from", "one", "--restore-files", "--yes", code=errors.HELD)
        assert f"files are being put back by process {os.getpid()}" in done.err
        assert (project.folder / "x").read_text() == "2\n"
    project.run("fork", "last", "--from", "one", "--restore-files", "--yes")
    assert (project.folder / "x").read_text() == "1\n"
    assert sorted(os.listdir(project.state / "locks")) == ["journal.lock"]


def test_no_run_acts_where_files_are_being_put_back(project: Project) -> None:
    project.plan(*TWO)
    project.run("exec", "plan.json")
    before = project.tree()
    with restoring(ForkRequest("last", "one", state=str(project.state))):
        done = project.run("exec", "plan.json", code=errors.HELD)
        assert f"files are being put back in `{project.folder.resolve()}` by process {os.getpid()}" in done.err
        assert project.tree() == before
    project.run("resume", "last")


def test_a_lock_that_a_killed_process_left_behind_stops_nobody(project: Project) -> None:
    project.plan(*TWO)
    project.run("exec", "plan.json")
    (project.state / "locks" / "restore.files.lock").write_text("process 1 on nowhere since ever\n/\n")
    project.run("exec", "plan.json")
    project.run("fork", "last", "--from", "one", "--restore-files", "--yes")


def test_two_who_go_on_from_a_checkpoint_at_once_never_mix_files(project: Project) -> None:
    many = "for i in $(seq 150); do echo {0} > f$i; done"
    project.plan(
        {"id": "one", "run": many.format(1), "checkpoint": True},
        {
            "id": "two",
            "needs": ["one"],
            "run": f"echo began >> ../log; {many.format(2)}; sleep 1; echo ended >> ../log",
        },
    )
    project.run("exec", "plan.json")
    for file in project.folder.glob("f*"):
        file.write_text("3\n")
    command = [sys.executable, "-m", "planrunner", "resume", project.first_run(), "--from", "one"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    begun = [
        subprocess.Popen([*command, "--restore-files", "--yes"], cwd=project.folder, env=environment) for _ in range(2)
    ]
    codes = sorted(process.wait(timeout=240) for process in begun)
    assert codes in ([errors.OK, errors.HELD], [errors.OK, errors.OK])  # the latter: one came after the other
    log = (project.folder.parent / "log").read_text().split()
    assert log == ["began", "ended"] * (len(log) // 2)
    assert len({path.read_text() for path in project.folder.glob("f*")}) == 1


def test_files_that_vanish_meanwhile_are_no_failure(project: Project) -> None:
    project.plan(
        {"id": "one", "run": "echo 1 > x; echo a > art", "checkpoint": True, "artifacts": ["art"]},
        {"id": "two", "needs": ["one"], "run": "echo 2 > x; echo b > art; mkdir -p in/deep; echo y > in/deep/y"},
    )
    project.run("exec", "plan.json")
    plan = files_at(ForkRequest("last", "one", state=str(project.state)))
    for name in ("in/deep/y", "x", "art"):
        (project.folder / name).unlink()
    (project.folder / "in" / "deep").rmdir()
    (project.folder / "in").rmdir()
    found = carry_out(plan)
    assert [done for done in found.done if done.problem] == []
    assert ((project.folder / "x").read_text(), (project.folder / "art").read_text()) == ("1\n", "a\n")


def test_the_files_of_the_last_task_are_put_back_without_going_on(project: Project) -> None:
    project.plan({"id": "only", "run": "echo 1 > x", "checkpoint": True})
    project.run("exec", "plan.json")
    (project.folder / "x").write_text("mine\n")
    (project.folder / "came").write_text("since\n")
    refused = project.run("fork", "last", "--from", "only", "--restore-files", "--yes", code=errors.USAGE)
    assert f"`planrunner checkpoints {project.first_run()} cp-only-" in refused.err
    shown = project.run("checkpoints", "last", "only", "--restore-files", code=errors.USAGE)
    assert "write x: its content differs" in shown.err and "nothing was written\n" in shown.err
    assert (project.folder / "x").read_text() == "mine\n"
    project.run("checkpoints", "last", "only", "--restore-files", "--yes")
    assert (project.folder / "x").read_text() == "1\n" and not (project.folder / "came").exists()
    assert len(project.data("runs")["runs"]) == 1
    assert "no file has to be restored" in project.run("checkpoints", "last", "only", "--restore-files").err


def test_nothing_is_done_that_was_not_shown_when_files_change_during_the_question(project: Project) -> None:
    project.plan(*TWO)
    project.run("exec", "plan.json")
    terminal, inside = pty.openpty()
    command = [sys.executable, "-m", "planrunner", "checkpoints", "last", "one", "--restore-files"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=project.folder, env=environment, stdin=inside, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        told = b""
        while b"change these files?" not in told:
            told += os.read(process.stderr.fileno(), 1000) or pytest.fail(told.decode())
        (project.folder / "came").write_text("meanwhile\n")
        os.write(terminal, b"y\n")
        rest = process.communicate(timeout=240)[1]
    os.close(terminal)
    os.close(inside)
    assert process.returncode == errors.USAGE and b"files changed meanwhile: nothing was written" in rest
    assert ((project.folder / "x").read_text(), (project.folder / "came").exists()) == ("2\n", True)


def test_files_are_put_back_at_a_checkpoint_only(project: Project) -> None:
    project.plan(*TWO)
    project.run("exec", "plan.json")
    assert "goes with a CHECKPOINT" in project.run("checkpoints", "--restore-files", code=errors.USAGE).err


def test_what_was_there_is_found_again_by_the_list_that_is_named(project: Project) -> None:
    project.plan(*TWO)
    project.run("exec", "plan.json")
    (project.folder / "x").write_text("precious\n")
    done = project.run("fork", "last", "--from", "one", "--restore-files", "--yes")
    listed = next(line for line in done.err.splitlines() if "the replaced files are kept" in line).rpartition(": ")[2]
    kept = dict(reversed(line.split("  ", 1)) for line in (project.folder / listed).read_text().splitlines())
    assert sorted(kept) == ["x", "y"]
    assert Path(kept["x"]).read_text() == "precious\n"
    assert Path(kept["y"]).read_text() == "y\n"


def test_programs_are_told_every_path_and_how_many_changed(project: Project) -> None:
    project.plan(*TWO)
    project.run("exec", "plan.json")
    done = json.loads(project.run("fork", "last", "--from", "one", "--restore-files", "--yes", "--json").out)
    assert (done["written"], done["removed"], done["left_out"], done["files"]) == (1, 1, 0, 0)
    told = {one["path"]: (one["did"], one["why"]) for one in done["paths"]}
    assert told == {"x": ("wrote", "differs"), "y": ("removed", "removed")}
    assert all((project.state / "artifacts" / "sha256" / one["before"][:2]).is_dir() for one in done["paths"])
    again = project.data("checkpoints", project.first_run(), "one", "--restore-files", "--yes")
    assert (again["written"], again["removed"], again["paths"]) == (0, 0, [])


def test_plans_and_settings_that_people_wrote_since_stay(project: Project) -> None:
    project.plan(*TWO)
    project.run("exec", "plan.json")
    (project.folder / "plans").mkdir()
    fix = project.folder / "plans" / "fix.yaml"
    fix.write_text("plan: fix\ntasks: [{id: a, run: 'true', timeout: 1m}]\n")
    (project.folder / "plans" / "notes.txt").write_text("made by a task\n")
    done = project.run("fork", "last", "--from", "one", "--restore-files", "--yes")
    assert fix.exists() and not (project.folder / "plans" / "notes.txt").exists()
    assert "leave out plans/fix.yaml: a plan made since" in done.err.splitlines()


def test_many_paths_are_counted_rather_than_listed(project: Project) -> None:
    project.plan(
        {"id": "one", "run": "for i in $(seq 60); do echo 1 > f$i; done", "checkpoint": True},
        {"id": "two", "needs": ["one"], "run": "for i in $(seq 60); do echo 2 > f$i; done; touch g1 g2 g3"},
    )
    project.run("exec", "plan.json")
    shown = project.run("fork", "last", "--from", "one", "--restore-files", code=errors.USAGE).err.splitlines()
    assert len([line for line in shown if line.startswith("write f")]) == 20
    assert len([line for line in shown if line.startswith("remove g")]) == 3
    assert "write 40 more" in shown and "in all: write 60 paths, remove 3 paths" in shown
    whole = project.run("fork", "last", "--from", "one", "--restore-files", "--json", code=errors.USAGE).err
    assert whole.count("\nwrite f") + whole.startswith("write f") == 60
    done = project.run("fork", "last", "--from", "one", "--restore-files", "--yes").err.splitlines()
    assert len([line for line in done if line.startswith("wrote f")]) == 20
    assert "wrote 40 more" in done and "wrote 60 paths, removed 3 paths" in done


def test_a_fork_at_an_entry_says_why_it_goes_on_after_a_later_one(project: Project) -> None:
    project.plan(*TWO)
    project.run("exec", "plan.json")
    for seq in range(1, 8):
        told = project.run("fork", project.first_run(), "--at", str(seq)).err
        if f"entry {seq} of" not in told:
            assert f"the last entry of the decision that entry {seq} belongs to" in told
            return
    raise AssertionError("every entry stands alone")


def test_tasks_are_counted_as_they_were_when_the_task_had_completed(project: Project) -> None:
    project.plan(*TWO)
    project.run("exec", "plan.json")
    assert project.data("checkpoints", "last", "one")["tasks"] == {"completed": 1, "pending": 1}
