"""A run, a task or a gate that there is not gives code 3 in every command, with the nearest name and what lists them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import commands
import pytest

from planrunner.cli.group import load
from planrunner.cli.table import COMMANDS

PLAN = """
plan: p
defaults: {timeout: 1m}
tasks:
  - {id: build, run: "true", rollback: {run: "true"}, budgets: {cost: $1}}
  - {id: test, needs: [build], run: "exit 1"}
  - {id: sign-off, gate: approval}
on_failure: continue
"""

OF_RUNS: dict[str, tuple[str, ...]] = {
    "answer": ("{run}", "sign-off"),
    "approve": ("{run}", "sign-off"),
    "archive": ("{run}",),
    "audit": ("verify", "{run}"),
    "budget": ("{run}",),
    "cancel": ("{run}",),
    "checkpoints": ("{run}",),
    "hypotheses": ("{run}",),
    "events": ("{run}",),
    "fork": ("{run}",),
    "gates": ("{run}",),
    "logs": ("{run}",),
    "metrics": ("{run}",),
    "pause": ("{run}",),
    "reject": ("{run}", "sign-off", "--reason", "no"),
    "replay": ("{run}",),
    "report": ("{run}",),
    "rerun": ("{run}", "build"),
    "resume": ("{run}",),
    "retry": ("{run}",),
    "revise": ("{run}", "p.yaml"),
    "rollback": ("{run}",),
    "show": ("{run}",),
    "why": ("{run}", "build"),
}
"""How each command names a run."""

OF_TASKS: tuple[tuple[str, ...], ...] = (
    ("exec", "p.yaml", "--only", "{task}"),
    ("exec", "p.yaml", "--until", "{task}"),
    ("preview", "p.yaml", "--only", "{task}"),
    ("preview", "p.yaml", "--until", "{task}"),
    ("retry", "last", "{task}"),
    ("rerun", "last", "{task}"),
    ("rerun", "last", "{task}", "--preview"),
    ("rollback", "last", "--to", "{task}"),
    ("rollback", "last", "--to", "{task}", "--preview"),
    ("rollback", "last", "--only", "{task}"),
    ("logs", "last", "{task}"),
    ("why", "last", "{task}"),
    ("cancel", "last", "--task", "{task}"),
    ("resume", "last", "--settle", "{task}=retry"),
    ("resume", "last", "--from", "{task}"),
    ("budget", "last", "--task", "{task}", "--add", "cost=$1"),
    ("fork", "last", "--from", "{task}"),
)
"""Every way to name a task."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A folder with a run of which one task completed, one failed and one waits for people."""
    folder: Path = tmp_path_factory.mktemp("names")
    (folder / "p.yaml").write_text(PLAN)

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        found = {name: value for name, value in os.environ.items() if not name.startswith("PLANRUNNER")}
        found["PLANRUNNER_STATE"] = str(folder / "state")
        ran = commands.run(*words, folder=folder, env=found)
        return subprocess.CompletedProcess(words, ran.code, ran.out, ran.err)

    assert call("exec", "p.yaml", "--no-wait").returncode == 8
    return call


def test_every_command_that_takes_a_run_is_tried_here() -> None:
    assert taking("run") | {"audit"} == set(OF_RUNS)  # `audit` is a group, whose commands take a run


def taking(name: str) -> set[str]:
    """The commands that have an argument of a name; of ``why`` both are words."""
    found = {"why"}
    for command, *_ in COMMANDS:
        loaded = load(command)
        assert loaded is not None
        if any(param.name == name and param.param_type_name == "argument" for param in loaded.params):
            found.add(command)
    return found


@pytest.mark.parametrize("command", sorted(OF_RUNS))
def test_a_run_that_there_is_not_gives_3(project: Any, command: str) -> None:
    ran = project(command, *[word.format(run="nothing-like-it") for word in OF_RUNS[command]])
    assert ran.returncode == 3, ran.stderr
    assert "there is no run `nothing-like-it`" in ran.stderr
    assert "`planrunner runs` lists the runs" in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize("words", OF_TASKS, ids=" ".join)
def test_a_task_that_there_is_not_gives_3_with_the_nearest_one_and_the_next_command(
    project: Any, words: tuple[str, ...]
) -> None:
    ran = project(*[word.format(task="buidl") for word in words])
    assert ran.returncode == 3, ran.stderr
    assert "did you mean `build`?" in ran.stderr
    assert "planrunner " in ran.stderr
    assert ran.stdout == ""
    assert project(*[word.format(task="zzzz") for word in words]).returncode == 3


@pytest.mark.parametrize("command", ["approve", "reject", "answer"])
def test_a_gate_that_there_is_not_gives_3(project: Any, command: str) -> None:
    ran = project(command, "last", "sing-off", *(["--reason", "no"] if command == "reject" else []))
    assert ran.returncode == 3, ran.stderr
    assert "did you mean `sign-off`?" in ran.stderr
    assert "planrunner gates" in ran.stderr


def test_why_without_a_task_explains_the_first_one_that_failed(run, plan):
    run("exec", plan(PLAN))
    wanted = run("why", "last", "test").out
    assert "`test` failed: exit code 1" in wanted
    assert [run("why", *words).out for words in ((), ("last",), ("p",))] == [wanted] * 3
    run("exec", plan("plan: q\ntasks: [{id: a, run: 'true', timeout: 1m}]\n", "q.yaml"))
    refused = run("why")
    assert (refused.code, refused.out) == (2, "")
    assert "no task of the run `last` failed" in refused.err and "why last TASK\n" in refused.err


def test_help_and_version_are_commands_too(run):
    assert run("help").out == run("--help").out
    assert run("help", "exec").out == run("exec", "--help").out
    assert run("version").out == run("--version").out
    assert "no command `nothing`" in run("help", "nothing").err


@pytest.mark.parametrize(
    ("word", "meant"), [("history", "runs"), ("explain", "why"), ("import", "convert"), ("up", "exec")]
)
def test_what_other_tools_call_a_command_is_known(run, word, meant):
    assert f"no command `{word}`: did you mean `{meant}`?" in run(word).err


def test_a_parameter_without_its_option_is_told_with_it(run, plan):
    refused = run("exec", plan(PLAN), "name=you")
    assert refused.code == 2 and "a parameter is given by `-p name=you`" in refused.err
    assert "-p" not in run("exec", plan(PLAN), "name").err
