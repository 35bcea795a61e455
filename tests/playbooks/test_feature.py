"""The playbook `feature`: what is merged, what is taken back, and who decides."""

from __future__ import annotations

import runpy
import threading
from collections.abc import Callable
from typing import Any

from stage import Ran, Stage
from workbench import ROOT

Open = Callable[[str], Stage]

REASON = "the number of tries has to be configurable"


def world(stage: Stage) -> dict[str, Any]:
    """Every reference, the index, and the content of every file."""
    inside = [path for path in sorted(stage.folder.rglob("*")) if path.is_file()]
    kept = [path for path in inside if not {".git", ".planrunner", "__pycache__"} & set(path.parts)]
    return {
        "references": stage.scene.git("for-each-ref"),
        "head": stage.scene.git("symbolic-ref", "HEAD"),
        "index": stage.scene.git("ls-files", "--stage"),
        "worktrees": stage.scene.git("worktree", "list"),
        "files": {str(path.relative_to(stage.folder)): path.read_bytes() for path in kept},
    }


def subjects(stage: Stage) -> list[str]:
    return stage.scene.git("log", "--format=%s", "main").splitlines()


def chosen(stage: Stage, option: str) -> Ran:
    """The run from the choice on."""
    stage.planrunner("answer", "last", "choose", option, "--as", "bo")
    return stage.resume()


def test_an_option_is_implemented_criticised_improved_and_merged_and_all_of_it_is_taken_back(staged: Open) -> None:
    stage = staged("feature")
    before = world(stage)
    run = stage.exec()
    assert (run.code, run.status("choose")) == (8, "blocked"), run.err
    assert "a failing shop gets more requests" in stage.planrunner("gates", "last").out
    run = chosen(stage, "retry")
    assert (run.code, run.status("sign-off")) == (8, "blocked"), run.err
    assert (run.outputs("compare")["old"], run.outputs("compare")["new"]) == (0.2, 0)
    assert [each["met"] for each in run.outputs("judge")["verdicts"]] == ["yes", "no"]
    stage.planrunner("reject", "last", "sign-off", "--as", "bo", "--reason", REASON)
    run = stage.resume()
    assert (run.code, run.status("sign-off")) == (8, "blocked"), run.err
    assert run.outputs("judge")["met"] is True
    stage.planrunner("approve", "last", "sign-off", "--as", "bo")
    stage.killed("merge", "resume", "last", "--unattended")
    run = stage.resume()
    assert run.code == 0, run.err
    assert subjects(stage) == ["Merge feature/retries", *["Add partial retries to the HTTP client"] * 2, "Begin"]
    assert "tries=3" in (stage.folder / "src/shop.py").read_text()
    assert stage.scene.git("status", "--porcelain") == ""
    assert stage.planrunner("rollback", "last").code == 0
    assert world(stage) == before


def test_a_rejection_that_the_agent_answers_without_a_change_goes_back_to_the_person(staged: Open) -> None:
    stage = staged("feature")
    stage.exec()
    chosen(stage, "retry")
    stage.planrunner("reject", "last", "sign-off", "--as", "bo", "--reason", "count missing")
    run = stage.resume()
    assert (run.code, run.status("sign-off")) == (8, "blocked"), run.err
    assert "The agent changed nothing since it was asked." in stage.planrunner("gates", "last").out
    stage.planrunner("reject", "last", "sign-off", "--as", "bo", "--reason", REASON)
    run = stage.resume()
    assert (run.code, run.status("sign-off")) == (8, "blocked"), run.err
    assert "changed nothing" not in stage.planrunner("gates", "last").out


def test_options_are_thought_over_and_one_that_fails_more_often_is_taken_back(staged: Open) -> None:
    stage = staged("feature")
    before = world(stage)
    stage.exec()
    assert "two weeks" in stage.planrunner("gates", "last").out
    stage.planrunner("reject", "last", "choose", "--as", "bo", "--reason", "no queue, please")
    run = stage.resume()
    assert (run.code, run.status("choose")) == (8, "blocked"), run.err
    assert "two weeks" not in stage.planrunner("gates", "last").out
    run = chosen(stage, "breaker")
    assert (run.code, run.status("compare")) == (1, "failed"), run.err
    assert run.outputs("compare")["new"] > run.outputs("compare")["old"]
    assert world(stage) == before


def test_killed_three_times_it_comes_to_the_same_end_and_asks_for_one_merge(staged: Open) -> None:
    stage = staged("feature")
    forge = served(stage)
    before = world(stage)
    stage.exec("-p", "finish=pull-request")
    stage.planrunner("answer", "last", "choose", "retry", "--as", "bo")
    stage.killed("implement#3/calls*", "resume", "last", "--unattended")
    stage.killed("canary*", "resume", "last", "--unattended")
    run = stage.resume()
    assert (run.code, run.status("sign-off")) == (8, "blocked"), run.err
    assert (run.outputs("compare")["old"], run.outputs("compare")["new"]) == (0.2, 0)
    stage.planrunner("approve", "last", "sign-off", "--as", "bo")
    stage.killed("request", "resume", "last", "--unattended")
    run = stage.resume()
    assert run.code == 0, run.err
    assert subjects(stage) == ["Begin"]
    assert stage.scene.git("log", "--format=%s", "main..feature/retries") == "Add partial retries to the HTTP client"
    assert [(each["head"], each["open"]) for each in forge.requests] == [("feature/retries", True)]
    assert stage.planrunner("rollback", "last").code == 0
    assert [each["open"] for each in forge.requests] == [False]
    assert world(stage) == before


def served(stage: Stage) -> Any:
    """The repository `origin` of the project, with a forge."""
    peer = ROOT / "plans" / "capabilities" / "peers" / "repositories.py"
    repositories = runpy.run_path(str(peer))
    bare = stage.folder.parent / "served" / "ana" / "shop.git"
    stage.scene.git("clone", "-q", "--bare", str(stage.folder), str(bare))
    stage.scene.git("config", "http.receivepack", "true", cwd=bare)
    forge = repositories["Server"](bare.parent.parent)
    threading.Thread(target=forge.serve_forever, daemon=True).start()
    stage.scene.at_end(forge.server_close)
    stage.scene.at_end(forge.shutdown)
    stage.scene.git("remote", "add", "origin", f"{forge.url}/ana/shop.git")
    stage.scene.git("fetch", "-q", "origin")
    stage.scene.settings["network"]["private"].append(forge.url.removeprefix("http://"))
    stage.scene.settings["git"] = {"protocols": ["http"]}
    stage.scene.settings["forge"] = {"kind": "github", "url": f"{forge.url}/github", "token": "FORGE_TOKEN"}
    stage.scene.environment["FORGE_TOKEN"] = repositories["LOGIN"]
    stage.scene.save()
    return forge
