"""What a start may import: help and version hardly anything, a run of a plan seen before no parser."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from workbench import ROOT

PARSERS = {"jinja2", "jsonschema", "jsonschema_rs", "lark", "pluggy", "ruamel"}
HEAVY = {*PARSERS, "asyncio", "httpx2", "importlib.metadata", "pydantic_ai", "sqlalchemy", "sqlite3"}

_PROBE = """
import sys
from planrunner.cli import main
code = main({arguments!r})
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
        return set(done.stderr.rpartition("MODULES ")[2].split()) - set(bare.stdout.split())

    return call


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"]])
def test_help_and_version_import_no_command_and_no_heavy_library(loaded, arguments):
    modules = loaded(*arguments)
    assert not HEAVY & modules
    assert not {name for name in modules if name.startswith(("planrunner.app", "planrunner.engine"))}


def test_a_plan_seen_before_runs_without_parsers_and_schema(loaded, plan, run):
    name = plan("plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 1m}\n")
    assert run("exec", name).code == 0
    loaded("exec", name)  # here the plugins are looked up, for this way of starting
    modules = loaded("exec", name)
    assert not (HEAVY - {"sqlite3"}) & modules
    assert not {"planrunner.plan.load", "planrunner.plan.rules.table"} & modules


@pytest.mark.parametrize("command", ["approve", "resume", "retry", "revise"])
def test_a_command_that_continues_a_run_imports_no_client_of_models(loaded, command):
    assert not {"asyncio", "httpx2", "pydantic_ai", "sqlalchemy"} & loaded(command, "--help")


def test_a_command_imports_no_other_command(loaded):
    modules = {name for name in loaded("rule", "PLAN101") if name.startswith("planrunner.cli.")}
    commands = {"exec", "resume", "lint", "fmt", "graph", "runs", "show", "logs", "events", "why", "doctor", "init"}
    assert not {f"planrunner.cli.{name}" for name in commands} & modules
