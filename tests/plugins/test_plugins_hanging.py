"""What a plugin adds to a run may never come back: it has its time, is named, and holds nothing up for longer."""

from __future__ import annotations

import json
import os
import signal
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands import Started, start

from planrunner.diagnostics import Diagnostic, Rule
from planrunner.plan.load import load
from planrunner.plugins import rules
from planrunner.plugins.registry import Registry
from planrunner.source import Source

PLUGIN = """
    import os, threading, time
    from planrunner.api import Context, Preview, capability


    def hang(how, here):
        open(here, "w").close()
        if how == "sleep":
            time.sleep(10**6)
        lock = threading.Lock()
        lock.acquire()
        while how == "loop":
            time.sleep(0.01)
        lock.acquire()


    def polite(context, here):
        open(here, "w").close()
        while not context.cancelled():
            time.sleep(0.01)


    def _probe(context: Context, how: str) -> bool:
        if os.path.exists("well"):
            return True
        if how == "polite":
            polite(context, "asked")
            return False
        hang(how, "asked")


    def _preview(context: Context, how: str) -> Preview:
        if how == "polite":
            polite(context, "looked")
        elif how != "well":
            hang(how, "looked")
        return Preview("it would act")


    def _capture(context: Context, how: str) -> dict:
        return {"how": how}


    def _undo(context: Context, before: dict, outputs) -> None:
        if not os.path.exists("well"):
            hang(before["how"], "undoing")
        open("undone", "w").close()


    @capability("stuck.act", effect="checkable", probe=_probe, preview=_preview, irreversible=True)
    def act(context: Context, how: str) -> None:
        '''Act.'''
        open("acting", "w").close()
        time.sleep(600)


    @capability("stuck.do", effect="unsafe", preview=_preview, capture=_capture, undo=_undo)
    def do(context: Context, how: str) -> None:
        '''Do.'''
"""


class Project:
    """A folder with a plan, and the plugin installed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.begun: list[Started] = []
        about = path / "site-packages" / "stuck-1.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stuck\nVersion: 1\n")
        (about / "entry_points.txt").write_text("[planrunner.capabilities]\nstuck = stuck_plugin\n")
        (about.parent / "stuck_plugin.py").write_text(textwrap.dedent(PLUGIN))

    def plan(self, *tasks: dict[str, Any], **plan: Any) -> None:
        (self.path / "plan.json").write_text(json.dumps({"plan": "p", **plan, "tasks": tasks}))

    def start(self, *words: str) -> Started:
        env = {"PYTHONPATH": str(self.path / "site-packages"), "XDG_CACHE_HOME": str(self.path / "cache")}
        process = start(*words, folder=self.path, env={**os.environ, **env})
        self.begun.append(process)
        return process

    def __call__(self, *words: str) -> tuple[int, str]:
        return self.ended(self.start(*words))

    def ended(self, process: Started, within: float = 240.0) -> tuple[int, str]:
        out, err = process.communicate(timeout=within)
        return process.returncode, out + err

    def events(self, kind: str) -> list[dict[str, Any]]:
        _, out = self("events", "last", "--json")
        found = [json.loads(line) for line in out.splitlines()]
        return [entry for entry in found if entry["type"] == kind]

    def waits_for(self, name: str) -> None:
        self.wait(lambda: (self.path / name).exists())

    def wait(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + 240
        while not holds():
            assert time.monotonic() < until and self.begun[-1].poll() is None, "it did not happen"
            time.sleep(0.02)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    found = Project(tmp_path)
    yield found
    for process in found.begun:
        process.kill()


def in_doubt(project: Project, how: str, timeout: str) -> None:
    """A run whose runner is killed in the middle of a task that has a probe."""
    project.plan({"id": "act", "uses": "stuck.act", "with": {"how": how}, "timeout": timeout})
    process = project.start("exec", "plan.json", "--progress", "quiet")
    project.waits_for("acting")
    process.kill()
    process.wait()


class TestProbe:
    @pytest.mark.parametrize("how", ["sleep", "loop", "lock"])
    def test_one_that_never_returns_leaves_the_doubt_to_a_person(self, project: Project, how: str) -> None:
        in_doubt(project, how, "2s")
        code, said = project("resume", "last", "--progress", "quiet")
        assert code == 8, said
        (settled,) = project.events("doubt_settled")
        assert (settled["resolution"], settled["failure"]) == ("unknown", "timeout")
        words = "`probe` of `stuck.act` ran longer than 2s; it did not stop and was abandoned"
        assert settled["by"] == words
        assert f"whether it took effect is not known; {words}" in project("why", "last", "act")[1]
        assert project("replay", "last")[0] == 0

    def test_what_it_says_once_its_time_is_over_counts_for_nothing(self, project: Project) -> None:
        in_doubt(project, "polite", "1s")
        assert project("resume", "last", "--progress", "quiet")[0] == 8
        (settled,) = project.events("doubt_settled")
        assert (settled["resolution"], settled["by"]) == ("unknown", "`probe` of `stuck.act` ran longer than 1s")

    @pytest.mark.parametrize("how", ["sleep", "polite"])
    def test_a_run_that_is_interrupted_meanwhile_asks_it_again(self, project: Project, how: str) -> None:
        in_doubt(project, how, "1h")
        process = project.start("resume", "last", "--progress", "quiet")
        project.waits_for("asked")
        process.send_signal(signal.SIGINT)
        assert project.ended(process)[0] == 130
        asked = [settled for settled in project.events("task_settled") if settled["reason"] == "probe"]
        assert len(asked) == 1, "a stop asks nobody anything"
        (project.path / "well").touch()
        assert project("resume", "last", "--progress", "quiet")[0] == 0
        assert [settled["by"] for settled in project.events("doubt_settled")][-1] == "probe"
        assert project("replay", "last")[0] == 0

    @pytest.mark.parametrize("how", ["sleep", "polite"])
    def test_a_run_that_is_cancelled_meanwhile_does_not_wait_for_it(self, project: Project, how: str) -> None:
        in_doubt(project, how, "1h")
        process = project.start("resume", "last", "--progress", "quiet")
        project.waits_for("asked")
        assert project("cancel", "last")[0] == 0
        code, said = project.ended(process)
        assert code == 1, said
        assert "whether attempt 1 took effect is not known" in project("why", "last", "act")[1]
        assert project("replay", "last")[0] == 0


class TestPreview:
    @pytest.mark.parametrize("how", ["sleep", "loop", "lock", "polite"])
    def test_words_stand_where_the_change_would_stand(self, project: Project, how: str) -> None:
        project.plan(
            {"id": "bad", "uses": "stuck.do", "with": {"how": how}, "timeout": "300ms"},
            {"id": "good", "uses": "stuck.do", "with": {"how": "well"}, "timeout": "2m"},
        )
        code, said = project("preview", "plan.json", "--changes", "--json")
        assert code == 0
        bad, good = json.loads(said)["changes"]
        left = "" if how == "polite" else "; it did not stop and was abandoned"
        assert bad["problem"] == f"`preview` of `stuck.do` ran longer than 300ms{left}"
        assert (bad["diff"], good["summary"], good["problem"]) == ("", "it would act", "")

    def test_a_signal_ends_the_command(self, project: Project) -> None:
        project.plan({"id": "bad", "uses": "stuck.do", "with": {"how": "lock"}, "timeout": "1h"})
        process = project.start("preview", "plan.json", "--changes")
        project.waits_for("looked")
        process.send_signal(signal.SIGINT)
        assert project.ended(process)[0] == 130


class TestUndo:
    def begin(self, project: Project, how: str, timeout: str) -> Started:
        do = {"id": "do", "uses": "stuck.do", "with": {"how": how}, "timeout": timeout}
        bad = {"id": "bad", "run": "exit 1", "needs": ["do"]}
        project.plan(do, bad, on_failure="rollback")
        return project.start("exec", "plan.json", "--progress", "quiet")

    @pytest.mark.parametrize("how", ["sleep", "loop", "lock"])
    def test_one_that_never_returns_has_failed(self, project: Project, how: str) -> None:
        code, said = project.ended(self.begin(project, how, "2s"))
        assert code == 1, said
        (ended,) = project.events("undo_ended")
        words = "`undo` of `stuck.do` ran longer than 2s; it did not stop and was abandoned"
        assert (ended["outcome"]["failure"], ended["outcome"]["message"]) == ("timeout", words)
        assert [settled["status"] for settled in project.events("undo_settled")] == ["failed"]
        assert words in project("why", "last", "do")[1]
        assert project("replay", "last")[0] == 0

    @pytest.mark.parametrize("by", ["signal", "cancel"])
    def test_a_run_that_is_stopped_meanwhile_does_not_wait_for_it(self, project: Project, by: str) -> None:
        process = self.begin(project, "sleep", "1h")
        project.waits_for("undoing")
        if by == "signal":
            process.send_signal(signal.SIGINT)
        else:
            code, said = project("cancel", "last")
            assert (code, "it is being rolled back, which cancelling does not stop; `--now` does" in said) == (2, True)
            assert project("cancel", "last", "--now")[0] == 0
        code, said = project.ended(process)
        assert code == (130 if by == "signal" else 1), said
        if by == "signal":
            (project.path / "well").touch()
            assert project("resume", "last", "--progress", "quiet")[0] == 1
            assert (project.path / "undone").exists()
        assert project("replay", "last")[0] == 0


class TestRule:
    def test_one_that_never_ends_is_named_and_lint_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rules, "LIMIT", 0.2)

        def found(view: Any) -> list[Diagnostic]:
            return [Diagnostic("OWN2", "seen", view.plan.span)]

        def never(view: Any) -> list[Diagnostic]:
            while True:
                time.sleep(0.01)

        def planrunner_register_rules(register: Callable[..., None]) -> None:
            register(Rule("OWN1", "never-ends", "warning", "of a plugin"), never)
            register(Rule("OWN2", "finds", "warning", "of a plugin"), found)

        registry = Registry(plugins=False)
        registry.add(SimpleNamespace(planrunner_register_rules=planrunner_register_rules), "own")
        given = load(Source("plan: p\ntasks:\n  - {id: a, run: x, timeout: 1m}\n"), registry)
        assert [finding.code for finding in given.findings] == ["OWN2"]
        words = "the rule OWN1 (never-ends) of the plugin own ran longer than 200ms; it did not stop and was abandoned"
        assert words in registry.problems()
