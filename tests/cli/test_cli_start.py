"""What a start may import: help, version and completion nothing that costs, a run only what it uses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

HEAVY = {
    "argparse", "asyncio", "click", "concurrent.futures", "dataclasses", "importlib.metadata", "inspect", "jinja2",
    "jsonschema", "lark", "logging", "pathlib", "pluggy", "ruamel.yaml", "subprocess", "tempfile",
}  # fmt: skip

SEEN = 110
"""Modules of ours that a run of one task loads whose plan was seen before. To load one costs it some 0.1 ms, a class
half of that: what few runs need is imported where it is needed. Whoever adds one here says what it is worth."""
SEEN_CLASSES = 160

_PROBE = """
import builtins, sys
build, classes = builtins.__build_class__, []
def counted(function, name, *bases, **options):
    if function.__globals__["__name__"].startswith("planrunner"):
        classes.append(name)
    return build(function, name, *bases, **options)
builtins.__build_class__ = counted
from planrunner.cli import main
code = main({arguments!r})
builtins.__build_class__ = build
sys.stderr.write("\\nCLASSES " + " ".join(classes))
sys.stderr.write("\\nMODULES " + " ".join(sorted(sys.modules)))
sys.exit(code)
"""


@pytest.fixture
def loaded(tmp_path):
    """The modules that a call leaves loaded, without those a bare interpreter has in this environment."""
    environment = {**os.environ, "PLANRUNNER_STATE": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}

    def python(code):
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=240
        )

    def call(*arguments):
        bare = python("import sys; print(*sys.modules)")
        done = python(_PROBE.format(arguments=list(arguments)))
        assert done.returncode == 0, done.stderr
        call.classes = done.stderr.rpartition("\nCLASSES ")[2].partition("\n")[0].split()
        return set(done.stderr.rpartition("MODULES ")[2].split()) - set(bare.stdout.split())

    return call


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"]])
def test_help_and_version_import_nothing_but_the_table(loaded, arguments):
    ours = {name for name in loaded(*arguments) if name.startswith("planrunner")}
    assert ours <= {"planrunner", "planrunner.cli", "planrunner.cli.table"}
    assert not {"typing", "json", "re", "sqlite3", *HEAVY} & loaded(*arguments)


@pytest.mark.parametrize("words", [["e"], ["exec", "--p"], ["rule", "PLAN1"], ["exec", ""], ["completion", ""]])
def test_completion_is_answered_without_click(loaded, words):
    assert not (HEAVY | {"sqlite3"}) & loaded("__complete", *words)


@pytest.mark.parametrize("words", [["e"], ["exec", "--p"], ["exec", ""]])
def test_completion_of_commands_options_and_files_imports_only_tables(loaded, words):
    ours = {name for name in loaded("__complete", *words) if name.startswith("planrunner.")}
    assert ours <= {"planrunner.cli", "planrunner.cli.table", "planrunner.cli.complete", "planrunner.cli.option_table"}
    assert "typing" not in loaded("__complete", *words)


def test_completion_of_runs_opens_the_journal_and_nothing_else(loaded, plan, run):
    assert run("exec", plan("plan: p\ntasks:\n  - {id: a, uses: noop, timeout: 1m}\n")).code == 0
    assert not HEAVY & loaded("__complete", "show", "")


def test_a_plan_seen_before_runs_without_click_parsers_and_schema(loaded, plan, run):
    name = plan("plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 1m}\n")
    assert run("exec", name).code == 0
    modules = loaded("exec", name)
    assert not (HEAVY | {"threading"}) & modules
    assert "planrunner.views.progress_plain" in modules
    assert not {name for name in modules if name.startswith("planrunner.views.progress_")} - {
        "planrunner.views.progress_plain"
    }


def test_a_run_of_a_plan_seen_before_loads_no_more_than_it_uses(loaded, plan, run):
    name = plan("plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 1m}\n")
    assert run("exec", name).code == 0
    loaded("exec", name)  # here the plugins are looked up, for this way of starting
    modules = loaded("exec", name)
    ours = sorted(module for module in modules if module.startswith("planrunner"))
    assert len(ours) <= SEEN, ours
    assert len(loaded.classes) <= SEEN_CLASSES, loaded.classes


def test_a_plan_seen_for_the_first_time_is_read_without_heavy_libraries(loaded, plan, run):
    loaded("exec", plan("plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 1m}\n", "first.yaml"))
    modules = loaded("exec", plan("plan: q\ntasks:\n  - {id: b, run: 'true', timeout: 1m}\n", "second.yaml"))
    assert "planrunner.plan.load" in modules
    assert not (HEAVY - {"ruamel.yaml"}) & modules


def test_a_command_imports_no_other_command(loaded):
    modules = {name for name in loaded("rule", "PLAN101") if name.startswith("planrunner.cli.")}
    commands = {"exec", "resume", "lint", "fmt", "graph", "runs", "show", "logs", "events", "why", "doctor", "init"}
    assert not {f"planrunner.cli.{name}" for name in commands} & modules
