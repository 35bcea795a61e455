"""Standard output carries results: whatever plugins print, and wherever, stands elsewhere; nothing waits for input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from workbench import ROOT

PLUGIN = '''
import os, subprocess, sys
from planrunner.api import Context, Diagnostic, Exit, Outcome, Preview, Rule, Spawn, capability


def shout(where):
    print(f"PRINT-{where}")
    sys.stdout.write(f"WRITE-{where}\\n")
    sys.__stdout__.write(f"DUNDER-{where}\\n")
    sys.stdout.buffer.write(f"BUFFER-{where}\\n".encode())
    sys.stdout.flush()
    os.write(1, f"DESCRIPTOR-{where}\\n".encode())
    subprocess.run(["echo", f"CHILD-{where}"], check=True)
    subprocess.run(["cat"], check=True)
    assert sys.stdin.read() == "" and os.read(0, 10) == b"", "somebody else's input"


shout("import")


def _preview(context: Context) -> Preview:
    shout("preview")
    return Preview("it would shout")


@capability("loud.thread", effect="read")
def thread(context: Context) -> str:
    """Shout."""
    shout("thread")
    return "x"


@capability("loud.instant", effect="read", instant=True)
def instant() -> str:
    """Shout."""
    shout("instant")
    return "x"


@capability("loud.process", effect="unsafe", process=True, preview=_preview, irreversible=True)
def process() -> Spawn:
    """Shout."""
    shout("process")

    def finish(ended: Exit) -> Outcome:
        shout("finish")
        return Outcome(outputs={"value": 1})

    return Spawn(("true",), {}, "", finish=finish)


def planrunner_register_rules(register):
    shout("hook")

    def check(view):
        shout("rule")
        return []

    register(Rule("LOUD1", "loud", "note", "loud"), check)


def planrunner_observe_event(run_id, entry):
    shout("observer")
    sys.stdout.close()
'''

PLAN = """plan: p
tasks:
  - {id: a, uses: loud.thread, timeout: 2m}
  - {id: b, needs: [a], uses: loud.instant}
  - {id: c, needs: [b], uses: loud.process, timeout: 2m}
"""
PLACES = ("import", "thread", "instant", "process", "finish", "hook", "rule", "observer")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "planrunner.yaml").write_text("plugins: {files: [loud.py]}\n")
    (tmp_path / "loud.py").write_text(PLUGIN)
    (tmp_path / "plan.yaml").write_text(PLAN)
    assert command(tmp_path, "plugins", "trust", "loud.py", "--yes").returncode == 0
    return tmp_path


def command(project: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "planrunner", *words], cwd=project, input="what somebody typed\n",
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(project / "data"),
             "XDG_CACHE_HOME": str(project / "cache"), **env},
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_results_stand_alone_on_standard_output_whatever_plugins_print(project: Path, unbuffered: str) -> None:
    done = command(project, "exec", "plan.yaml", "--json", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "completed"
    for place in PLACES:
        for way in ("PRINT", "WRITE", "DUNDER", "BUFFER", "DESCRIPTOR", "CHILD"):
            assert f"{way}-{place}" in done.stderr, f"{way} {place}"
    assert "somebody else's input" not in done.stderr


def test_a_module_that_is_imported_when_its_capability_is_called_prints_elsewhere_too(project: Path) -> None:
    (project / "planrunner.yaml").write_text("plugins: {files: [placed.py]}\n")
    (project / "placed.py").write_text(
        "from planrunner.api import Capability, capability\n"
        "@capability('placed.here', effect='read')\n"
        "def here(): ...\n"
        "def planrunner_register_capabilities(register):\n"
        "    register('placed.go', 'placed_code:go', Capability('placed.go', 'Goes.', '', 'read', (), ()))\n"
    )
    (project / "placed_code.py").write_text("print('PRINT-late')\ndef go():\n    return 'x'\n")
    (project / "plan.yaml").write_text("plan: p\ntasks:\n  - {id: a, uses: placed.go, timeout: 2m}\n")
    assert command(project, "plugins", "trust", "placed.py", "--yes").returncode == 0
    done = command(project, "exec", "plan.yaml", "--json")
    assert json.loads(done.stdout)["status"] == "completed", done.stderr
    assert "PRINT-late" in done.stderr


def test_progress_as_json_lines_is_nothing_but_that(project: Path) -> None:
    done = command(project, "exec", "plan.yaml", "--progress", "jsonl")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()][-1]


@pytest.mark.parametrize(
    "words",
    [("lint", "--format", "json"), ("preview", "plan.yaml", "--changes", "--json"), ("plugins", "--json"),
     ("capabilities", "--json"), ("plugins", "check", "--json")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_other_commands_give_their_data_alone_as_well(project: Path, words: tuple[str, ...]) -> None:
    done = command(project, *words)
    assert json.loads(done.stdout), done.stderr
    assert "PRINT-import" in done.stderr


def test_what_the_suite_finds_is_on_standard_output_still(project: Path) -> None:
    (project / "cases.py").write_text("CASES = []\n")
    done = command(project, "plugins", "check", "--cases", "cases.py")
    assert "all hold" in done.stdout


def test_a_plan_on_standard_input_is_read_beside_plugins(project: Path) -> None:
    done = command(project, "lint", "-", "--format", "json")
    assert json.loads(done.stdout)["findings"], done.stderr
