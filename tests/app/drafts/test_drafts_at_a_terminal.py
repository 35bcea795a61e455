"""A draft at a terminal: it asks whether to run what it has shown, lets it be edited, and replaces nothing unasked."""

from __future__ import annotations

import sys
from pathlib import Path

from projects import Project

sys.path.append(str(Path(__file__).parents[1] / "trust"))

from trust_terminal import Terminal

GOAL = "run the tests and check the quality"
PROMPT = "run it? [y]es / [e]dit / [n]o: "


def _ready(project: Project) -> None:
    project.write(Makefile="test:\n\ttouch ran\n")


def test_yes_runs_what_was_shown(project: Project) -> None:
    _ready(project)
    at = Terminal(project, "draft", GOAL)
    assert "what it may do:" in at.until(PROMPT)
    assert not (project.work / "ran").exists()
    at.type("y")
    assert at.end() == 0
    assert (project.work / "ran").exists()


def test_no_leaves_the_file_and_names_the_command(project: Project) -> None:
    _ready(project)
    at = Terminal(project, "draft", GOAL)
    at.until(PROMPT)
    at.type("perhaps")
    at.until(PROMPT)
    at.type("n")
    at.until("Run it later: planrunner exec plans/check.yaml --trust sha256:")
    assert at.end() == 0
    assert (project.work / "plans" / "check.yaml").exists() and not (project.work / "ran").exists()


def test_an_edited_plan_is_shown_again_and_one_with_errors_does_not_run(project: Project) -> None:
    _ready(project)
    editor = project.folder / "editor"
    editor.write_text(
        "#!/bin/sh\n"
        'if grep -q runn "$1"; then sed -i "s/runn: make test/run: touch mine/" "$1"\n'
        'else sed -i "s/run: make test/runn: make test/" "$1"; fi\n'
    )
    editor.chmod(0o755)
    project.env["EDITOR"] = project.env["VISUAL"] = str(editor)
    at = Terminal(project, "draft", GOAL)
    at.until(PROMPT)
    at.type("e")
    assert "it is not a valid plan" in at.until("run it? [e]dit / [n]o: ")
    at.type("y")
    at.until("run it? [e]dit / [n]o: ")
    at.type("e")
    assert "+    run: touch mine" in at.until(PROMPT)
    at.type("y")
    assert at.end() == 0
    assert (project.work / "mine").exists() and not (project.work / "ran").exists()


def test_a_file_that_exists_is_replaced_on_a_word_alone(project: Project) -> None:
    _ready(project)
    plan = project.work / "plans" / "check.yaml"
    plan.parent.mkdir()
    plan.write_text("plan: mine\ntasks: [{id: a, run: ls, timeout: 1m}]\n")
    at = Terminal(project, "draft", GOAL)
    assert "-plan: mine" in at.until("replace plans/check.yaml? [y/N]: ")
    at.type("n")
    assert at.end() == 2
    assert "plan: mine" in plan.read_text()
