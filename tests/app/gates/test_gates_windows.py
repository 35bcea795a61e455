"""Review windows from the command line and at a terminal."""

from __future__ import annotations

from typing import Any

from test_gates_cli import AtTerminal

PLAN = """
plan: release
defaults: {timeout: 2m}
tasks:
  - {id: docs, gate: approval, ask: "Are the documents right?", evidence: [docs.txt], window: release}
  - {id: code, gate: approval, ask: "Is the code right?", window: release}
  - {id: publish, needs: [docs, code], run: echo published}
"""


def waits(project: Any) -> str:
    """A run with both gates waiting; the digest of its window."""
    project.plan(PLAN)
    (project.path / "docs.txt").write_text("all is well\n")
    assert project("exec", "p.yaml").code == 8
    (window,) = project("gates", "--json").data["windows"]
    assert (window["window"], window["gates"], window["coming"]) == ("release", ["docs", "code"], [])
    shown: str = window["shown"]
    return shown


def test_one_approval_decides_every_gate_of_a_window(project: Any) -> None:
    shown = waits(project)
    listed = project("gates", "last").out
    assert "window release: 2 gates" in listed
    assert listed.count(" approve ") == 1
    assert f"approve {project('gates', '--json').data['windows'][0]['run_id']} release --shown {shown[:12]}" in listed
    done = project("approve", "last", "release", "--shown", shown[:12].upper(), "--reason", "read both", "--resume")
    assert done.code == 0
    votes = project.events("gate_voted")
    assert [(vote["task"], vote["verdict"], vote["reason"]) for vote in votes] == [
        ("docs", "approve", "read both"),
        ("code", "approve", "read both"),
    ]
    assert len({vote["shown"] for vote in votes}) == 2


def test_an_approval_of_a_window_is_for_what_it_shows(project: Any) -> None:
    shown = waits(project)
    (project.path / "docs.txt").write_text("all is lost\n")
    refused = project("approve", "last", "release", "--shown", shown[:12])
    assert (refused.code, "the window `release` shows has changed" in refused.err) == (10, True)


def test_a_window_is_rejected_gate_by_gate(project: Any) -> None:
    waits(project)
    refused = project("reject", "last", "release", "--reason", "no")
    assert refused.code == 2
    assert "name the gate to reject (docs, code)" in refused.err
    assert project("reject", "last", "docs", "--reason", "a typo").code == 0


def test_a_window_cannot_be_answered(project: Any) -> None:
    waits(project)
    refused = project("answer", "last", "release", "now")
    assert (refused.code, "it is approved, not answered" in refused.err) == (2, True)


def test_a_terminal_asks_about_a_window_once(project: Any) -> None:
    project.plan(PLAN)
    (project.path / "docs.txt").write_text("all is well\n")
    shell = AtTerminal(project, "exec", "p.yaml")
    shell.until("approve all? [y]es / [o]ne by one / [q] decide later: ")
    assert "Are the documents right?" in shell.seen
    assert "Is the code right?" in shell.seen
    shell.type("maybe\n")
    shell.until("is not an answer: type yes or one")
    shell.type("y\n")
    shell.until("reason: ")
    shell.type("fine\n")
    assert shell.code() == 0
    assert len(project.events("gate_voted")) == 2


def test_a_terminal_asks_gate_by_gate_where_a_person_wants_that(project: Any) -> None:
    project.plan(PLAN)
    (project.path / "docs.txt").write_text("all is well\n")
    shell = AtTerminal(project, "exec", "p.yaml")
    shell.until("approve all? ")
    shell.type("one\n")
    shell.until("approve? [y]es / [n]o / [q] decide later: ")
    shell.type("n\n")
    shell.until("reason: ")
    shell.type("a typo\n")
    shell.until("approve? [y]es / [n]o / [q] decide later: ")
    shell.type("y\n")
    shell.until("reason: ")
    shell.type("\n")
    assert shell.code() == 7
