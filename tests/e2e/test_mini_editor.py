"""The mini editor of ``examples``: a text is written, sent back and accepted, at the prompt and over HTTP."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import awaited, serving
from workbench import ROOT, environment, planrunner

from planrunner.testing.rehearsal import module_of
from planrunner.testing.scripted_model import ScriptedModel

EXAMPLE = ROOT / "examples" / "mini-editor"
WRITE = 'write "request=Write a page on Green Tea: growing, brewing"'


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Path]:
    """The example in a folder of its own, with its scripted replies on a free port."""
    folder = tmp_path / "mini-editor"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".planrunner", "__pycache__"))
    replies: Any = module_of(EXAMPLE / "replies.py")
    with ScriptedModel(replies.answer) as model:
        settings = folder / "planrunner.yaml"
        settings.write_text(settings.read_text().replace(str(replies.PORT), str(model.port)))
        yield folder


def at_the_prompt(folder: Path, *lines: str, **variables: str) -> str:
    """What the shell says when it is given these lines."""
    done = subprocess.run(
        [sys.executable, "-m", "planrunner", "--profile", "scripted", "shell"],
        cwd=folder,
        input="".join(f"{line}\n" for line in lines),
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "error" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def summary(folder: Path) -> dict[str, object]:
    run = json.loads(planrunner(folder, "--profile", "scripted", "show", "last", "--json").stdout)
    assert run["status"] == "completed", run
    outputs: dict[str, object] = run["outputs"]
    return outputs


def test_it_is_sound_and_its_own_tests_pass() -> None:
    assert "no findings" in planrunner(EXAMPLE, "lint", "plans").stdout
    assert planrunner(EXAMPLE, "test", "plans").returncode == 0


def test_a_text_is_written_changed_by_feedback_accepted_and_taken_back(editor: Path) -> None:
    (editor / "notes.txt").write_text("Leaves are steamed.\n")
    said = at_the_prompt(
        editor,
        f"{WRITE} -p attach=notes.txt",
        'change "add a section History"',
        'change "call it The green leaf"',
        "accept",
        "history",
    )
    assert "Green Tea, 20 words, plain: It is about Growing, Brewing, Source." in said
    assert "re-run (rework, sent back by review: add a section History)" in said
    text = (editor / "green-tea.md").read_text()
    assert text.startswith("# The green leaf\n\n## Growing\n")
    assert "## Source\n\nLeaves are steamed.\n" in text
    assert text.endswith("## History\n\nA word on history.\n")
    assert summary(editor) == {
        "file": "green-tea.md",
        "title": "The green leaf",
        "length": len(text.split()),
        "sections": ["Growing", "Brewing", "Source", "History"],
        "tone": "plain",
    }
    assert 'change "call it The green leaf"' in said
    at_the_prompt(editor, "rollback last")
    assert not (editor / "green-tea.md").exists()


def test_a_file_that_is_there_is_edited_and_the_rest_of_it_stays(editor: Path) -> None:
    (editor / "tea.md").write_text("# Tea\n\n## Growing\n\nA word on growing.\n\nMine stays.\n")
    at_the_prompt(editor, 'write "request=Please: add a section Oolong" -p file=tea.md', "accept")
    text = (editor / "tea.md").read_text()
    assert text == "# Tea\n\n## Growing\n\nA word on growing.\n\nMine stays.\n\n## Oolong\n\nA word on oolong.\n"
    assert {path.name for path in editor.glob("*.md")} == {"README.md", "tea.md"}


def test_its_plan_is_edited_and_goes_on(editor: Path) -> None:
    """`edit-last`: the question is worded otherwise by whoever runs it, and the run continues with that."""
    program = editor / "ed.py"
    program.write_text(
        "import pathlib, sys\npath = pathlib.Path(sys.argv[1])\n"
        "path.write_text(path.read_text().replace('Is it good, or what has to change?', 'Shall it stay?'))\n"
    )
    said = at_the_prompt(
        editor, WRITE, "edit-last", "resume --plan plans/write.yaml", "gates", EDITOR=f"{sys.executable} {program}"
    )
    assert "Shall it stay?" in said


def test_a_service_writes_asks_and_changes(editor: Path) -> None:
    with serving(editor, PLANRUNNER_PROFILE="scripted") as service:
        run = service.start("plans/write.yaml", params={"request": "A page on Green Tea: growing"})
        assert service.settled(run)["exit_code"] == 8
        page = service.get(f"/{service.project}/runs/{run}").text
        assert "Green Tea" in page and "It is about Growing." in page
        gates = f"{service.api}/runs/{run}/gates/review"
        (gate,) = service.get(f"{service.api}/gates").data["gates"]
        change = {"rationale": "add a section History", "shown": gate["shown"]}
        rejected = service.post(f"{gates}/reject", change)
        assert rejected.status in (200, 202), rejected
        awaited(lambda: "History" in (editor / "green-tea.md").read_text())
        awaited(lambda: "History" in service.get(f"{service.api}/gates").text)
        (gate,) = service.get(f"{service.api}/gates").data["gates"]
        accepted = service.post(f"{gates}/approve", {"shown": gate["shown"]})
        assert accepted.status in (200, 202), accepted
        ended = awaited(lambda: (said := service.run(run))["status"] == "completed" and said)
    assert ended["outputs"]["sections"] == ["Growing", "History"]
