"""The prompt of the shell at a terminal: completion, history, answers, and the line below."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.output import DummyOutput
from workbench import planrunner

from planrunner.cli.settings import Settings, output
from planrunner.cli.shell import commands_of
from planrunner.shell import loop
from planrunner.shell.profiles import ShellProfile
from planrunner.shell.terminal import Prompt, Standing, Words

GATED = """\
plan: gated
tasks:
  - {id: build, title: Build it, run: echo built, timeout: 10s}
  - {id: sign, gate: approval, ask: Ship it, needs: [build]}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prompt") / "shop"
    (folder / "plans").mkdir(parents=True)
    (folder / "planrunner.yaml").write_text("{}\n")
    (folder / "plans" / "gated.yaml").write_text(GATED)
    assert planrunner(folder, "exec", "plans/gated.yaml").returncode == 8
    return folder


class Desk:
    """A shell whose terminal is a pipe. ``ran`` are the commands that it carried out."""

    def __init__(self, folder: Path, keys: PipeInput) -> None:
        state = str(folder / ".planrunner")
        self.ran: list[list[str]] = []
        self.place = loop.Place(str(folder), state, output(Settings(state)))
        real = commands_of(Settings(state), loop)
        commands = real._replace(run=lambda words: self.ran.append([*words]) or 0)
        profile = ShellProfile("p", aliases=(("ship", "approve last"),))
        self.shell = loop.Shell(self.place, commands, lambda question: self.prompt.ask(question), profile)
        self.prompt = Prompt(self.shell, self.place, keys, DummyOutput())

    def completed(self, text: str) -> list[str]:
        """What may stand for the last word."""
        return [each.text for each in Words(self.shell, self.place).get_completions(Document(text), CompleteEvent())]


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe:
        yield pipe


@pytest.fixture
def desk(project: Path, keys: PipeInput, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(project)
    return Desk(project, keys)


def test_lines_are_carried_out_until_the_end_of_input(desk: Desk, keys: PipeInput) -> None:
    keys.send_text("lint\nruns --limit 3\n\x04")
    assert desk.prompt.work() == 0
    assert desk.ran == [["lint"], ["runs", "--limit", "3"]]


def test_ctrl_c_drops_a_line(desk: Desk, keys: PipeInput) -> None:
    keys.send_text("half a li\x03doctor\nexit\n")
    desk.prompt.work()
    assert desk.ran == [["doctor"]]


def test_commands_plans_runs_tasks_and_gates_are_completed(desk: Desk) -> None:
    run = desk.shell.newest()
    assert desk.completed("app") == ["approve"]
    assert desk.completed("/atta") == ["/attach"]
    assert {"ship", "exec", "step"} <= {*desk.completed("")}
    assert desk.completed("exec ga") == ["gated"]
    assert "plans/gated.yaml" in desk.completed("exec ")
    assert "plans/gated.yaml" in desk.completed("queue ")
    assert {"add", "cancel"} <= {*desk.completed("queue ")}
    assert {run, "last"} <= {*desk.completed("attach ")}
    assert desk.completed(f"why {run} ") == ["build", "sign"]
    assert desk.completed("approve last ") == ["sign"]
    assert desk.completed("ship ") == ["sign"]  # an alias is completed as what it stands for
    assert "--session" not in desk.completed("show --")
    assert "--timeline" in desk.completed("show --t")


def test_stepping_completes_its_own_commands_tasks_and_events(desk: Desk) -> None:
    desk.shell.carry_out("step")
    assert desk.shell.prompt.startswith("step 0/")
    assert desk.completed("rev") == ["reverse"]
    assert desk.completed("break b") == ["build"]
    assert desk.completed("break event attempt_e") == ["attempt_ended"]
    assert desk.completed("why ") == ["build", "sign"]
    desk.shell.carry_out("quit")
    assert desk.shell.prompt == "shop> "


def test_the_line_below_says_how_the_run_at_hand_stands(desk: Desk) -> None:
    desk.shell.session.choose(desk.shell.newest())
    [(_, text)] = Standing(desk.shell, desk.place, lambda: 1.0)()
    assert f"gated {desk.shell.newest()}" in text
    assert "blocked" in text


def test_after_an_edit_the_run_continues_with_the_answer(desk: Desk, keys: PipeInput, project: Path) -> None:
    editor = project / "editor"
    editor.write_text("#!/bin/sh\necho '# edited' >> \"$1\"\n")
    editor.chmod(0o755)
    os.environ["EDITOR"] = str(editor)
    try:
        keys.send_text("c\n")
        desk.shell.carry_out("edit-last")
    finally:
        del os.environ["EDITOR"]
    run = desk.shell.newest()
    assert desk.ran == [["lint", "plans/gated.yaml"], ["resume", run, "--plan", "plans/gated.yaml"]]
