"""Ways by which text from outside comes to a command: each is found by lint before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from planrunner.app.authoring import Choice
from planrunner.app.linting import lint_paths

PAGE = {"id": "page", "uses": "http.get", "with": {"url": "https://example.org/"}}
TEXT = "{{ tasks.page.outputs.text }}"


def obey(value: str, *needs: str) -> dict[str, object]:
    return {"id": "obey", "needs": [*needs], "run": 'sh -c "$ORDER"', "env": {"ORDER": value}}


def stand_in(edge: dict[str, object], kind: str = "string") -> list[dict[str, object]]:
    return [
        {"id": "first", "needs": ["page"], "run": "false", "outputs": {"v": kind}, **edge},
        {"id": "second", "uses": "noop", "outputs": {"v": {"type": "string", "value": TEXT}}},
        obey("{{ tasks.first.outputs.v }}", "first"),
    ]


FOUND = {
    "a task that stands in": stand_in({"on_failure": {"to": "second", "recovers": True}}),
    "one for a foreseen failure": stand_in(
        {"failure_modes": [{"name": "gone", "detect": "exit_code == 1", "recover": "second"}]}
    ),
    "one for a closed choice": stand_in({"on_failure": {"to": "second", "recovers": True}}, "int"),
    "an output that is a file": [
        {"id": "keep", "needs": ["page"], "uses": "files.write", "with": {"path": "a/x.txt", "content": TEXT}},
        {"id": "take", "needs": ["keep"], "uses": "noop", "outputs": {"v": {"type": "string", "path": "./a/x.txt"}}},
        obey("{{ tasks.take.outputs.v }}", "take"),
    ],
}
FREE = {
    "what another route gives": stand_in({"on_failure": "second"}),
    "a file that nobody outside wrote": [
        {"id": "keep", "needs": ["page"], "uses": "files.write", "with": {"path": "a/y.txt", "content": TEXT}},
        {"id": "take", "needs": ["keep"], "uses": "noop", "outputs": {"v": {"type": "string", "path": "a/x.txt"}}},
        obey("{{ tasks.take.outputs.v }}", "take"),
    ],
    "a number in a file": [
        {"id": "keep", "needs": ["page"], "uses": "files.write", "with": {"path": "a/x.txt", "content": TEXT}},
        {"id": "take", "needs": ["keep"], "uses": "noop", "outputs": {"v": {"type": "int", "path": "a/x.txt"}}},
        obey("{{ tasks.take.outputs.v }}", "take"),
    ],
}


def codes(folder: Path, tasks: list[dict[str, object]]) -> set[str]:
    (folder / ".git").mkdir()
    plan = {"plan": "p", "defaults": {"timeout": "1m"}, "tasks": [PAGE, *tasks]}
    (folder / "p.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    (checked,) = lint_paths([str(folder / "p.yaml")], Choice())
    assert not {"PLAN003", "PLAN005", "PLAN006", "PLAN008"} & {finding.code for finding in checked.findings}
    return {finding.code for finding in checked.findings}


@pytest.mark.parametrize("tasks", FOUND.values(), ids=FOUND)
def test_text_from_outside_is_followed(tmp_path: Path, tasks: list[dict[str, object]]) -> None:
    assert "PLAN811" in codes(tmp_path, tasks)


@pytest.mark.parametrize("tasks", FREE.values(), ids=FREE)
def test_what_nobody_outside_wrote_is_left_in_peace(tmp_path: Path, tasks: list[dict[str, object]]) -> None:
    assert "PLAN811" not in codes(tmp_path, tasks)
