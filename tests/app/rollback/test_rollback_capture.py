"""A capability that notes the state before in whatever bad way: the task fails with words, and nothing is waited for."""

from __future__ import annotations

import json
import os
import signal
import textwrap
import time
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import Started

PLUGIN = """
    import sys, time, threading
    from planrunner.capabilities.contract import Context, Failure
    from planrunner.capabilities.contract import capability


    def _capture(context: Context, how: str) -> dict:
        with open("asked", "a") as asked:
            asked.write("x")
        if how in ("logic", "transient"):
            raise Failure("not now", how)
        if how == "exit":
            sys.exit(3)
        if how == "interrupt":
            raise KeyboardInterrupt
        if how == "circle":
            found = {}
            found["a"] = found
            return found
        if how in ("hang", "polite"):
            open("began", "w").close()
            while how == "hang" or not context.cancelled():
                time.sleep(0.01)
        return {"name": "\\udcff"}


    def _undo(context: Context, before: dict, outputs) -> None:
        if before["name"] != "\\udcff":
            raise RuntimeError("another name")
        sys.exit(4)


    @capability("dark.act", effect="unsafe", capture=_capture, undo=_undo)
    def act(context: Context, how: str) -> dict:
        '''Act.'''
        return {}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    about = tmp_path / "site-packages" / "dark-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: dark\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[planrunner.capabilities]\ndark = dark_plugin\n")
    (about.parent / "dark_plugin.py").write_text(textwrap.dedent(PLUGIN))
    return tmp_path


def planrunner(project: Path, *words: str) -> Started:
    env = {"PYTHONPATH": str(project / "site-packages"), "XDG_CACHE_HOME": str(project / "cache")}
    return commands.start(*words, folder=project, env={**os.environ, **env})


def start(project: Path, how: str, *more: dict[str, Any], timeout: str = "10m", **plan: Any) -> Started:
    task = {"id": "act", "uses": "dark.act", "with": {"how": how}, "timeout": timeout, **plan.pop("task", {})}
    document = {"plan": "p", "defaults": {"timeout": "1m"}, **plan, "tasks": [task, *more]}
    (project / "plan.json").write_text(json.dumps(document))
    return planrunner(project, "exec", "plan.json", "--progress", "quiet")


def ended(process: Started, within: float = 240.0) -> tuple[int, str]:
    try:
        out, err = process.communicate(timeout=within)
    finally:
        process.kill()
    return process.returncode, out + err


def entries(project: Path, kind: str) -> list[dict[str, Any]]:
    out, err = planrunner(project, "events", "last", "--json").communicate(timeout=240)
    assert err == ""
    found = [json.loads(line) for line in out.splitlines()]
    return [entry for entry in found if kind in json.dumps(entry)]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("exit", "SystemExit: 3"),
        ("interrupt", "KeyboardInterrupt"),
        ("circle", "what its capability noted.a refers to itself"),
    ],
)
def test_what_noting_raises_or_gives_fails_the_task_at_once(project: Path, how: str, told: str) -> None:
    code, said = ended(start(project, how))
    assert code == 1
    assert told in said


@pytest.mark.parametrize(("how", "looks"), [("logic", 1), ("transient", 3)])
def test_noting_is_tried_again_only_where_its_failure_may_pass(project: Path, how: str, looks: int) -> None:
    retry = {"attempts": 3, "delay": "1ms"}
    code, said = ended(start(project, how, task={"retry": retry}))
    assert code == 1
    assert "not now" in said
    assert (project / "asked").read_text() == "x" * looks


def test_noting_has_as_long_as_the_task_and_is_then_abandoned(project: Path) -> None:
    code, said = ended(start(project, "hang", timeout="500ms"))
    assert code == 1
    assert "`capture` of `dark.act` ran longer than 500ms; it did not stop and was abandoned" in said
    (made,) = entries(project, "backup_made")
    assert '"timeout"' in json.dumps(made)


def test_noting_that_stops_when_it_is_asked_has_run_out_of_time_as_well(project: Path) -> None:
    for _ in range(5):  # two seconds of grace may pass a busy machine by
        code, said = ended(start(project, "polite", timeout="500ms"))
        if "abandoned" not in said:
            break
    assert code == 1
    assert "`capture` of `dark.act` ran longer than 500ms" in said
    assert "abandoned" not in said


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("how", ["hang", "polite"])
@pytest.mark.parametrize("by", ["signal", "cancel", "time"])
def test_noting_does_not_hold_a_run_that_is_stopped(project: Path, how: str, by: str, checkpoints: bool) -> None:
    plan: dict[str, Any] = {}
    if checkpoints:
        plan["finally"] = [{"id": "kept", "run": "true", "checkpoint": True}]
    for budget in ("1s", "5s", "25s"):  # the least one that lasts until noting has begun
        process = start(project, how, timeout="1h", **plan, **({"budgets": {"time": budget}} if by == "time" else {}))
        while not (project / "began").exists() and process.poll() is None:
            time.sleep(0.02)
        if (project / "began").exists():
            break
        process.communicate()
    if by == "signal":
        process.send_signal(signal.SIGINT)
    elif by == "cancel":
        assert ended(planrunner(project, "cancel", "last"))[0] == 0
    code, said = ended(process)
    assert (project / "began").exists(), said
    assert code == {"signal": 130, "cancel": 1, "time": 6}[by], said


def test_names_that_are_not_utf8_may_be_noted_and_the_record_can_be_printed(project: Path) -> None:
    bad = {"id": "bad", "run": "exit 1", "needs": ["act"]}
    code, said = ended(start(project, "fine", bad, on_failure="rollback"))
    assert code == 1
    assert "SystemExit: 4" in said + json.dumps(entries(project, "undo_ended"))
    (made,) = entries(project, "backup_made")
    assert "\\udcff" in json.dumps(made)
