"""Candidates of an agent side by side: each in a tree of its own, scored, and the best applied."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import Bench
from scripted import Heard

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
