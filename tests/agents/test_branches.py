"""Candidates of an agent side by side: each in a tree of its own, scored, and the best applied."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import Bench

from planrunner.testing.scripted_model import Heard

Json = Any
Make = Callable[..., Bench]

PLAN = """
plan: mend
tasks:
  - id: fix
    agent: coder
    prompt: Mend it.
    branches: [Way 1., Way 2., Way 3.]
"""
CHECK = "    score: {run: 'grep -q right note.txt'}\n"


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def repository(bench: Bench) -> Path:
    """A repository with a committed file, one that was changed since, and one that is new."""
    folder = bench.folder
    git(folder, "init")
    (folder / "note.txt").write_text("wrong\n")
    (folder / "old.txt").write_text("old\n")
    (folder / ".gitignore").write_text(".planrunner/\n")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    (folder / "note.txt").write_text("still wrong\n")
    (folder / "new.txt").write_text("new\n")
    return folder


def way(heard: Heard) -> int:
    return next((number for number in range(1, 9) if f"Way {number}." in heard.said()), 0)


def writes(content: Callable[[int], str]) -> Callable[[Heard], Json]:
    """Each candidate writes what its way says, and is done."""

    def script(heard: Heard) -> Json:
        if any(role == "tool" for role, _ in heard.turns):
            return f"Done in way {way(heard)}."
        return [("files_write", {"path": "note.txt", "content": content(way(heard))})]

    return script


def test_the_candidate_that_passes_the_check_is_applied(make: Make) -> None:
    bench = make(writes(lambda number: "right\n" if number == 2 else f"wrong {number}\n"))
    folder = repository(bench)
    told = bench.run(PLAN + CHECK)
    assert told["status"] == "completed", told
    outputs = bench.outputs(told, "fix")
    assert (outputs["best"], outputs["text"]) == ("candidate-2", "Done in way 2.")
    assert [row["kept"] for row in outputs["candidates"]] == [False, True, False]
    assert "its check failed" in outputs["candidates"][0]["reason"]
    assert (folder / "note.txt").read_text() == "right\n"
    assert not (folder / ".branches").exists()
    assert git(folder, "worktree", "list").count("\n") == 1


def test_candidates_begin_with_everything_as_it_is_and_leave_the_working_directory_alone(make: Make) -> None:
    def script(heard: Heard) -> Json:
        if any(role == "tool" for role, _ in heard.turns):
            return heard.last()
        return [("shell", {"command": "cat note.txt new.txt; git status --short; rm old.txt; echo more > more.txt"})]

    bench = make(script)
    folder = repository(bench)
    told = bench.run(PLAN.replace("[Way 1., Way 2., Way 3.]", "2") + "    score: '1'\n")
    assert told["status"] == "completed", told
    said = bench.outputs(told, "fix")["text"]
    assert "still wrong" in said and "new" in said and "??" not in said and " M " not in said
    assert not (folder / "old.txt").exists() and (folder / "more.txt").read_text() == "more\n"
    changed = ["M", "note.txt", "D", "old.txt", "??", "more.txt", "??", "new.txt"]
    assert git(folder, "status", "--short").split() == [*changed, "??", "plan.yaml", "??", "planrunner.yaml"]


def test_a_rollback_takes_the_change_back(make: Make) -> None:
    bench = make(writes(lambda number: f"right {number}\n"))
    folder = repository(bench)
    told = bench.run(PLAN + CHECK + "  - {id: then, needs: [fix], run: exit 1}\n")
    assert told["status"] == "failed" and (folder / "note.txt").read_text() == "right 1\n"
    undone = bench.call("rollback", "last")
    assert undone.returncode == 0, undone.stderr
    assert "could not be undone" not in undone.stdout + undone.stderr
    assert (folder / "note.txt").read_text() == "still wrong\n"


def test_without_a_repository_candidates_work_in_copies(make: Make) -> None:
    bench = make(writes(lambda number: "right\n" if number == 3 else "no\n"))
    (bench.folder / "note.txt").write_text("wrong\n")
    told = bench.run(PLAN + CHECK)
    assert told["status"] == "completed", told
    assert told["tasks"]["fix/candidate-1/tree"]["outputs"]["kind"] == "copy"
    assert (bench.folder / "note.txt").read_text() == "right\n"
    assert not (bench.folder / ".branches").exists()


def test_an_expression_over_the_answer_scores_and_of_equal_ones_the_first_is_kept(make: Make) -> None:
    scores = {1: 0.2, 2: 0.9, 3: 0.9}
    bench = make(lambda heard: [("answer", {"sure": scores[way(heard)]})])
    told = bench.run(PLAN + "    schema: {sure: number}\n    score: outputs.sure\n")
    outputs = bench.outputs(told, "fix")
    assert (outputs["best"], outputs["score"], outputs["sure"]) == ("candidate-2", 0.9, 0.9)


def test_candidates_vote(make: Make) -> None:
    cities = {1: "Rome", 2: "paris", 3: "Paris. "}
    bench = make(lambda heard: [("answer", {"city": cities[way(heard)]})])
    told = bench.run(PLAN + "    schema: {city: string}\n    score: vote\n")
    outputs = bench.outputs(told, "fix")
    assert (outputs["best"], outputs["score"], outputs["city"]) == ("candidate-2", 0.666667, "paris")


def test_a_judge_scores_what_candidates_changed(make: Make) -> None:
    work = writes(lambda number: f"way {number}\n")

    def script(heard: Heard) -> Json:
        if "You review work" not in heard.turns[0][1]:
            return work(heard)
        assert "Is it elegant" in heard.last()
        good = "+way 3" in heard.last()
        return json.dumps({"findings": [], "score": 0.9 if good else 0.4, "approved": True})

    bench = make(script)
    folder = repository(bench)
    told = bench.run(PLAN + "    score: {judge: Is it elegant}\n")
    assert bench.outputs(told, "fix")["best"] == "candidate-3", told
    assert (folder / "note.txt").read_text() == "way 3\n"


def test_where_no_candidate_is_left_the_task_fails_with_all_reasons(make: Make) -> None:
    def script(heard: Heard) -> Json:
        return {"status": 400} if way(heard) == 2 else "Done."

    bench = make(script)
    folder = repository(bench)
    told = bench.run(PLAN + "    score: {run: 'echo no luck; exit 4'}\n")
    reason = told["tasks"]["fix"]["reason"] + json.dumps(told["tasks"]["fix/pick"])
    assert told["tasks"]["fix"]["status"] == "failed"
    assert "none of 3 candidates succeeded" in reason and "no luck" in reason and "candidate-2: " in reason
    assert not (folder / ".branches").exists()


def test_what_spoke_against_all_candidates_is_heard_by_those_of_the_next_attempt(make: Make) -> None:
    bench = make(lambda heard: "Better." if "not accepted" in heard.said() else "Done.")
    plan = PLAN + "    retry: {attempts: 2, delay: 0s}\n    score: \"outputs.text == 'Better.'\"\n"
    told = bench.run(plan + "    expect: ['outputs.score == 1']\n")
    assert told["status"] == "completed", told
    assert bench.outputs(told, "fix")["text"] == "Better."


def test_all_candidates_share_the_budget_of_their_task(make: Make) -> None:
    bench = make(["Done."])
    told = bench.run(PLAN + "    budgets: {calls: 2}\n    score: '1'\n")
    assert told["tasks"]["fix"]["status"] == "failed"
    assert len(bench.model.heard) <= 2


def test_the_losers_are_kept_as_data(make: Make) -> None:
    bench = make(writes(lambda number: f"right {number}\n"))
    repository(bench)
    row = bench.outputs(bench.run(PLAN + CHECK), "fix")["candidates"][2]
    assert (row["name"], row["kept"], row["number"]) == ("candidate-3", False, 1)
    assert row["answer"]["text"] == "Done in way 3."
    kept = bench.folder / ".planrunner" / "artifacts"
    assert len(row["diff"]) == 64
    assert any(row["diff"][2:] in str(path) for path in kept.rglob("*"))


def test_a_file_that_was_changed_meanwhile_is_not_overwritten(make: Make) -> None:
    work = writes(lambda number: f"right {number}\n")
    folders: list[Path] = []

    def script(heard: Heard) -> Json:
        (folders[0] / "note.txt").write_text("mine\n")
        return work(heard)

    bench = make(script)
    folders.append(repository(bench))
    told = bench.run(PLAN + CHECK)
    assert told["status"] == "failed"
    assert told["tasks"]["fix/apply"]["failure"] == "moved"
    assert (bench.folder / "note.txt").read_text() == "mine\n"


def test_the_scopes_of_a_policy_hold_in_the_tree_of_a_candidate(make: Make) -> None:
    def script(heard: Heard) -> Json:
        if any(role == "tool" for role, _ in heard.turns):
            return "Done."
        return [("files_write", {"path": name, "content": "x"}) for name in ("note.txt", "other.txt")]

    bench = make(script)
    folder = repository(bench)
    told = bench.run(PLAN + "    score: '1'\n", policy={"files": {"write": ["note.txt"]}})
    assert told["status"] == "completed", told
    assert (folder / "note.txt").read_text() == "x" and not (folder / "other.txt").exists()


@pytest.mark.parametrize("files", [{"read": ["*.txt"], "deny": ["own/*"]}, {"deny": ["own/*"]}])
def test_the_scopes_of_a_policy_hold_for_the_context_of_a_candidate(make: Make, files: Json) -> None:
    bench = make(["Done."])
    repository(bench)
    _own(bench)
    context = {"include": ["files"], "files": ["note.txt", "own/key.txt"]}
    plan = PLAN + "    score: '1'\n"
    told = bench.run(plan, agents={"coder": {"context": context}}, policy={"files": files})
    assert told["status"] == "completed", told
    assert all("still wrong" in heard.said() for heard in bench.model.heard)
    assert not any("hidden words" in heard.said() for heard in bench.model.heard)


def test_the_scopes_of_a_policy_hold_for_what_the_check_of_a_candidate_gives(make: Make) -> None:
    bench = make(["Done."])
    repository(bench)
    _own(bench)
    score = "    score: {run: 'true', outputs: {key: {path: own/key.txt}}}\n"
    told = bench.run(PLAN + score, policy={"files": {"deny": ["own/*"]}})
    assert told["status"] == "failed"
    assert "own/key.txt" in told["tasks"]["fix/candidate-1/score"]["detail"], told
    assert "hidden words" not in json.dumps(told)


def test_a_candidate_that_is_shut_in_sees_no_tree_but_its_own(make: Make) -> None:
    """The tree of another one may be taken away at any moment, also while a sandbox is made."""
    bench = make(["Done."])
    repository(bench)
    score = "    score: {run: 'set -- ../*; test -f note.txt && touch made && test $# = 1'}\n"
    told = bench.run(PLAN + score, policy={"files": {"deny": ["own/*"]}})
    assert told["status"] == "completed", told


@pytest.mark.parametrize("below", [".", "inner"])
def test_what_a_policy_denies_is_not_seen_in_the_tree_of_any_candidate(make: Make, below: str) -> None:
    words = "cat own/key.txt $(find ../.. ../../.. -maxdepth 5 -name key.txt)"

    def script(heard: Heard) -> Json:
        if any(role == "tool" for role, _ in heard.turns):
            return "Done."
        return [("shell", {"command": words}), ("files_read", {"path": "own/key.txt"})]

    bench = make(script)
    repository(bench)
    bench.folder = bench.folder / below
    bench.folder.mkdir(exist_ok=True)
    _own(bench)
    told = bench.run(PLAN + "    score: '1'\n", policy={"files": {"deny": ["own/*"]}})
    assert told["status"] == "completed", told
    said = [heard.said() for heard in bench.model.heard]
    assert not any("hidden words" in each for each in said)
    assert sum("denies reading own/key.txt" in each for each in said) == 3


def _own(bench: Bench) -> None:
    """A file that a policy may keep from plans."""
    (bench.folder / "own").mkdir()
    (bench.folder / "own" / "key.txt").write_text("hidden words\n")


def test_a_run_that_was_killed_goes_on_with_its_candidates(make: Make) -> None:
    work = writes(lambda number: "right\n" if number == 2 else "no\n")
    killed: list[subprocess.Popen[bytes]] = []

    def script(heard: Heard) -> Json:
        if len(killed) == 1 and any(role == "tool" for role, _ in heard.turns):
            killed[0].kill()
            killed.append(killed[0])
            return {"cut": True}
        return work(heard)

    bench = make(script)
    folder = repository(bench)
    bench.write(PLAN + CHECK)
    words = [sys.executable, "-m", "planrunner", "exec", "plan.yaml", "--progress", "quiet"]
    killed.append(subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    assert killed[0].wait(240) == -9
    resumed = bench.call("resume", "last")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert (folder / "note.txt").read_text() == "right\n"
    assert git(folder, "worktree", "list").count("\n") == 1
    assert bench.call("replay", "last").returncode == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("    branches: 9\n    score: vote\n", "`branches` must be at most 8, not `9`"),
        ("    branches: 1\n    score: vote\n", "`branches` must be at least 2, not `1`"),
        ("    branches: {prompts: [a]}\n    score: vote\n", "`1` is not a number of candidates"),
        ("    branches: 3\n", "`branches` of a task needs `score`"),
        ("    score: vote\n", "`score` of a task needs `branches`"),
        ("    branches: 2\n    score: vote\n    session: talk\n", "`session` has no effect"),
        ("    branches: 2\n    score: outputs.sure +\n", "PLAN207"),
        ("    branches: {candidates: 2, prompts: [a, b, c]}\n    score: vote\n", "3 prompts for 2 candidates"),
    ],
)
def test_branches_that_cannot_be_are_findings(make: Make, more: str, message: str) -> None:
    bench = make(["Done."])
    bench.write("plan: p\ntasks:\n  - id: fix\n    agent: coder\n    prompt: Mend it.\n" + more)
    found = bench.call("lint", "plan.yaml")
    assert found.returncode == 1
    assert message in found.stdout + found.stderr
