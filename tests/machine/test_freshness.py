"""Tasks that find that they are done already, and say so."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from planrunner.app.runs.execute import ExecRequest, RunResult, Silent, execute
from planrunner.app.runs.rerun import RerunRequest, rerun
from planrunner.app.runs.resume import Reopened, go_on
from planrunner.app.runs.rollback import RollbackRequest, roll_back
from planrunner.journal.sqlite import open_journal
from planrunner.machine.events import TasksReset
from planrunner.machine.explain import why


class Project:
    """A directory with a plan whose task ``build`` makes ``built`` out of ``src``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".planrunner").mkdir()
        (folder / "src").mkdir()
        (folder / "src" / "a.c").write_text("1")
        self.task: dict[str, Any] = {
            "id": "build",
            "run": 'cat src/* > built; echo "n=7" >> "$PLANRUNNER_OUTPUT"; echo did >> log',
            "outputs": {"n": "int"},
            "fresh": {"inputs": ["src/**"], "outputs": ["built"]},
            "rollback": {"run": "echo undid >> log"},
        }

    def run(self, **keys: Any) -> RunResult:
        name = keys.get("id", "build")
        use = {"id": "use", "needs": [name], "run": f"test {{{{ tasks.{name}.outputs.n }}}} = 7"}
        (self.folder / "plan.json").write_text(json.dumps({"plan": "p", "tasks": [{**self.task, **keys}, use]}))
        result = execute(
            ExecRequest(str(self.folder / "plan.json"), state=str(self.folder / ".planrunner"), vouched=True), Silent()
        )
        assert result.status == "completed", result.state.tasks[0].detail
        return result

    def did(self) -> int:
        return (self.folder / "log").read_text().split().count("did")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_task_whose_inputs_and_call_are_as_they_were_is_not_done_again(project: Project) -> None:
    first = project.run()
    second = project.run()
    assert project.did() == 1
    found = second.state.tasks[0]
    assert (found.status, found.reason, found.attempts, found.outputs) == ("completed", "fresh", 0, {"n": 7})
    assert why(second.state, "build")[0].endswith(f"done already: inputs unchanged since run {first.run_id}")


def test_a_changed_input_a_new_one_and_one_that_is_gone_are_seen(project: Project) -> None:
    project.run()
    (project.folder / "src" / "a.c").write_text("2")
    project.run()
    (project.folder / "src" / "b.c").write_text("3")
    project.run()
    os.unlink(project.folder / "src" / "b.c")
    project.run()
    assert project.did() == 4


def test_a_missing_output_is_made_again(project: Project) -> None:
    project.run()
    os.unlink(project.folder / "built")
    project.run()
    assert project.did() == 2


def test_another_call_is_another_thing(project: Project) -> None:
    project.run()
    project.run(run=project.task["run"] + "; true")
    assert project.did() == 2


def test_a_failed_task_is_not_remembered(project: Project) -> None:
    project.task["expect"] = ["exit_code == 0"]
    (project.folder / "plan.json").write_text(
        json.dumps({"plan": "p", "tasks": [{**project.task, "run": project.task["run"] + "; exit 1"}]})
    )
    request = ExecRequest(str(project.folder / "plan.json"), state=str(project.folder / ".planrunner"), vouched=True)
    for _ in range(2):
        assert execute(request, Silent()).status == "failed"
    assert project.did() == 2


def test_what_was_undone_is_not_done_already(project: Project) -> None:
    project.run()
    roll_back(RollbackRequest("last"), str(project.folder / ".planrunner"), Silent())
    project.run()
    assert project.did() == 2


def test_what_somebody_runs_again_is_done_again(project: Project) -> None:
    project.run()
    reset = TasksReset(("build",), "rerun", "ada")
    result = go_on(Reopened("last", lambda _: [reset], "rerun"), str(project.folder / ".planrunner"), Silent())
    assert (result.status, project.did()) == ("completed", 2)


def test_a_condition_over_facts_says_that_it_is_done(project: Project) -> None:
    project.task["outputs"] = {}
    project.task["fresh"] = {"when": "host.cpus > 0"}
    path = project.folder / "plan.json"
    path.write_text(json.dumps({"plan": "p", "tasks": [project.task]}))
    result = execute(ExecRequest(str(path), state=str(project.folder / ".planrunner"), vouched=True), Silent())
    assert (result.state.tasks[0].reason, result.state.tasks[0].detail) == ("fresh", "done already: `host.cpus > 0`")
    assert not (project.folder / "log").exists()


def test_a_damaged_record_costs_only_time(project: Project) -> None:
    project.run()
    (record,) = (project.folder / ".planrunner" / "cache" / "fresh").iterdir()
    record.write_text('{"run": ')
    project.run()
    assert project.did() == 2
    project.run()
    assert project.did() == 2


def test_the_run_is_replayed_with_what_was_seen(project: Project) -> None:
    from planrunner.engine.replay import replay

    project.run()
    result = project.run()
    journal = open_journal(str(project.folder / ".planrunner"), readonly=True)
    try:
        walked = replay(result.state.plan, result.run_id, journal.entries(result.run_id))
    finally:
        journal.close()
    assert walked.difference is None


def _rerun(project: Project, *tasks: str) -> RunResult:
    """``rerun`` of these tasks; ``build`` comes after ``first``."""
    return rerun(RerunRequest("last", tasks), str(project.folder / ".planrunner"), Silent())


def _with_first(project: Project) -> None:
    first = {"id": "first", "run": "test ! -e edit || cp edit src/a.c"}
    build = {**project.task, "needs": ["first"]}
    (project.folder / "plan.json").write_text(json.dumps({"plan": "p", "tasks": [first, build]}))
    path, state = str(project.folder / "plan.json"), str(project.folder / ".planrunner")
    assert execute(ExecRequest(path, state=state, vouched=True), Silent()).status == "completed"


def test_a_rerun_before_it_does_it_again_only_if_its_files_have_changed(project: Project) -> None:
    _with_first(project)
    result = _rerun(project, "first")
    assert (result.state.tasks[1].reason, project.did()) == ("fresh", 1)
    result = _rerun(project, "first")
    assert (result.state.tasks[1].reason, project.did()) == ("fresh", 1)
    (project.folder / "edit").write_text("2")
    result = _rerun(project, "first")
    assert (result.state.tasks[1].reason, project.did()) == ("", 2)


def test_what_was_found_done_is_done_again_when_somebody_names_it_or_what_holds_it(project: Project) -> None:
    hold = {"id": "hold", "subplan": [project.task]}
    (project.folder / "plan.json").write_text(json.dumps({"plan": "p", "tasks": [hold]}))
    path, state = str(project.folder / "plan.json"), str(project.folder / ".planrunner")
    assert execute(ExecRequest(path, state=state, vouched=True), Silent()).status == "completed"
    assert execute(ExecRequest(path, state=state, vouched=True), Silent()).status == "completed"
    assert project.did() == 1
    assert _rerun(project, "hold").status == "completed"
    assert project.did() == 2


@pytest.mark.parametrize("change", [{"outputs": {"n": 8}}, {"run": "r0"}, {"mac": ""}, {"mac": "00" * 16}])
def test_a_record_that_the_key_of_the_user_does_not_vouch_for_counts_for_nothing(
    project: Project, change: dict[str, Any]
) -> None:
    project.run()
    (path,) = (project.folder / ".planrunner" / "cache" / "fresh").iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    project.run()
    assert project.did() == 2
    project.run()
    assert project.did() == 2


def test_the_record_of_another_task_counts_for_nothing(project: Project) -> None:
    """It bears the key, and somebody gave it the name of this one."""
    project.run()
    project.run(id="build2", run=project.task["run"].replace("did", "other"))
    folder = project.folder / ".planrunner" / "cache" / "fresh"
    names = {json.loads(path.read_text())["task"]: path for path in folder.iterdir()}
    one, two = (names[name] for name in sorted(names))
    one.write_bytes(two.read_bytes())
    project.run()
    assert project.did() == 2


def test_a_change_behind_a_link_to_a_file_or_a_folder_is_seen(project: Project) -> None:
    shared = project.folder / "shared"
    shared.mkdir()
    (shared / "b.h").write_text("1")
    (shared / "back").symlink_to(shared)
    (project.folder / "one.h").write_text("1")
    (project.folder / "src" / "one.h").symlink_to("../one.h")
    (project.folder / "src" / "lib").symlink_to(shared)
    project.task["run"] = project.task["run"].replace("cat src/*", "cat src/*.?")
    project.run()
    project.run()
    assert project.did() == 1
    (project.folder / "one.h").write_text("2")
    project.run()
    assert project.did() == 2
    (shared / "b.h").write_text("2")
    project.run()
    assert project.did() == 3


def test_a_path_may_lead_through_a_link(project: Project) -> None:
    (project.folder / "alias").symlink_to("src")
    project.task["fresh"] = {"inputs": ["alias/a.c"], "outputs": ["built"]}
    project.run()
    project.run()
    assert project.did() == 1
    (project.folder / "src" / "a.c").write_text("2")
    project.run()
    assert project.did() == 2


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        (["no-such-file"], "no file fits the input `no-such-file` in {dir}"),
        (["src/**", "*.nope"], "no file fits the input `*.nope` in {dir}"),
        (["src/**", "!src/**"], "no file fits the input `src/**` in {dir}"),
        (["../x"], "../x is outside the directory of the run"),
        (["around"], "the input around is a link to {dir}, which holds this directory; leave out `!around`"),
    ],
)
def test_inputs_that_cannot_be_looked_at_fail_the_task(project: Project, inputs: list[str], why: str) -> None:
    (project.folder / "around").symlink_to(project.folder)
    path = project.folder / "plan.json"
    path.write_text(json.dumps({"plan": "p", "tasks": [{**project.task, "fresh": {"inputs": inputs}}]}))
    result = execute(ExecRequest(str(path), state=str(project.folder / ".planrunner"), vouched=True), Silent())
    found = result.state.tasks[0]
    assert (found.status, found.reason) == ("failed", "fresh_files")
    assert found.detail == f"`fresh`: {why.format(dir=project.folder)}"
    assert not (project.folder / "log").exists()


def test_what_is_left_out_of_the_inputs_may_change(project: Project) -> None:
    (project.folder / "src" / "made").mkdir()
    project.task["fresh"] = {"inputs": ["**", "!src/made/**", "!log", "!built", "!plan.json"], "outputs": ["built"]}
    project.task["run"] = project.task["run"].replace("cat src/*", "cat src/*.c")
    project.run()
    (project.folder / "src" / "made" / "x.o").write_text("1")
    project.run()
    assert project.did() == 1
    (project.folder / "src" / "a.c").write_text("2")
    project.run()
    assert project.did() == 2


def test_what_git_ignores_is_left_out_where_that_is_asked_for(project: Project) -> None:
    project.task["fresh"] = {"inputs": ["**"], "gitignore": True}
    project.task["run"] = project.task["run"].replace("cat src/*", "cat src/*.c")
    path = project.folder / "plan.json"
    path.write_text(json.dumps({"plan": "p", "tasks": [project.task]}))
    request = ExecRequest(str(path), state=str(project.folder / ".planrunner"), vouched=True)
    detail = execute(request, Silent()).state.tasks[0].detail
    assert detail == f"`fresh`: `gitignore: true` needs a git repository, and {project.folder} is not in one"
    subprocess.run(["git", "init", "-q", str(project.folder)], check=True)
    (project.folder / ".gitignore").write_text("*.o\nlog\nbuilt\nplan.json\n")
    project.run()
    (project.folder / "src" / "x.o").write_text("1")
    project.run()
    assert project.did() == 1
    (project.folder / "src" / "b.c").write_text("1")
    project.run()
    assert project.did() == 2


def test_a_run_by_force_does_again_what_is_done_already(project: Project) -> None:
    project.run()
    request = ExecRequest(str(project.folder / "plan.json"), state=str(project.folder / ".planrunner"), vouched=True)
    forced = execute(request._replace(forced=True), Silent())
    assert (forced.state.tasks[0].reason, project.did()) == ("", 2)
    later = execute(request, Silent())
    assert later.state.tasks[0].detail == f"done already: inputs unchanged since run {forced.run_id}"
