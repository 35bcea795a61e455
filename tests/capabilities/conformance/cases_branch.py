"""The steps of candidates, in git repositories and in plain folders."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from planrunner.files.walk import file_of
from planrunner.testing.conformance import Case, Ready

sys.path.append(str(Path(__file__).parent))

from cases_git import KEPT, _repository

Json = Any


def repository(inputs: dict[str, Json]) -> Callable[[Path], Ready]:
    def setup(directory: Path) -> Ready:
        _repository(directory)
        return Ready(inputs)

    return setup


def plain(inputs: dict[str, Json]) -> Callable[[Path], dict[str, Json]]:
    def setup(directory: Path) -> dict[str, Json]:
        (directory / "a.txt").write_text("one\n")
        (directory / "docs").mkdir()
        (directory / "docs/b.txt").write_text("two\n")
        return inputs

    return setup


def made(text: str) -> dict[str, Json]:
    return file_of(text.encode(), 0o644).as_json()


def record(text: str = "", **work: Json) -> dict[str, Json]:
    answer = {"ok": True, "outputs": {"text": text, "scored": 1}, **work}
    return {"status": "completed", "outputs": {"work": answer, "change": {"files": [], "number": 0}, "check": ""}}


REMOVED = [{"path": "docs/b.txt", "before": made("two\n"), "after": None}]

CASES = [
    Case("branch.base", repository({}), ignore=KEPT, requires=["git"]),
    Case("branch.base", plain({}), "without a repository"),
    Case("branch.base", lambda directory: (directory / ".git").mkdir() or {}, "in a broken repository", fails="logic"),
    Case("branch.fork", plain({}), "as a copy"),
    Case("branch.fork", repository({"commit": "v0"}), ignore=[*KEPT, ".git/worktrees/**"], requires=["git"]),
    Case("branch.fork", plain({"commit": "v0"}), "without a repository", fails="logic", requires=["git"]),
    Case("branch.drop", plain({})),
    Case("branch.change", plain({"path": "docs", "manifest": "0" * 64}), "of nothing", fails="logic"),
    Case("branch.apply", plain({"files": REMOVED})),
    Case("branch.apply", plain({"files": [{**REMOVED[0], "before": made("else\n")}]}), "too late", fails="moved"),
    Case("branch.pick", lambda _: {"candidates": {"one": record("a"), "two": record("b")}}),
    Case("branch.pick", lambda _: {"candidates": {"one": record("a", ok=False)}}, "of none", fails="logic"),
]
