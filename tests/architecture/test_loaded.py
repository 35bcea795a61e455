"""What a start loads: how many modules of planrunner, which libraries it does without, and that what is named exists."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys

import pytest
from workbench import ROOT

LIMITS = {
    "exec, plan seen before": 103,
    "exec, first sight": 196,
    "show": 103,
    "why": 102,
    "runs": 48,
    "lint": 169,
    "--help": 16,
    "--version": 16,
    "completion": 16,
}
"""How many modules of planrunner a command may load. A number that a change lowers is lowered here."""

RESUMED = 137
"""The same for ``resume`` of a run that was cut off."""

PARSERS = {"jinja2", "jsonschema", "jsonschema_rs", "lark", "pluggy", "ruamel"}
HEAVY = {*PARSERS, "asyncio", "httpx2", "importlib.metadata", "pydantic_ai", "sqlalchemy", "sqlite3"}
SLOW = {*HEAVY, "email", "http", "html", "logging", "shutil", "socket", "ssl", "subprocess", "tempfile", "traceback"}
"""What the task of a shell does without as well."""

PLAN = "plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 1m}\n"
_PROBE = """
import sys
from planrunner.cli import main
code = main({arguments!r})
sys.stderr.write("\\nMODULES " + " ".join(sorted(sys.modules)))
sys.exit(code)
"""


def _python(code: str, folder: os.PathLike[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PLANRUNNER_STATE": str(folder / "state"), "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=environment, timeout=240
    )


@pytest.fixture
def loaded(tmp_path):
    """The modules that a call leaves loaded, without those a bare interpreter has in this environment."""

    def call(*arguments, **variables):
        bare = _python("import sys; print(*sys.modules)", tmp_path)
        done = _python(_PROBE.format(arguments=list(arguments)), tmp_path, **variables)
        assert done.returncode == 0, done.stderr
        return set(done.stderr.rpartition("MODULES ")[2].split()) - set(bare.stdout.split())

    return call


def _own(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "planrunner"}


def test_no_command_loads_more_modules_than_it_did(loaded, tmp_path):
    (tmp_path / "p.yaml").write_text(PLAN)
    asked = {"_PLANRUNNER_COMPLETE": "bash_complete", "COMP_WORDS": "planrunner sh", "COMP_CWORD": "1"}
    exec_ = ("exec", "p.yaml")
    loaded(*exec_)  # here the plugins are looked up, for this way of starting
    (tmp_path / "p.yaml").write_text(PLAN.replace("1m", "2m"))
    counts = {
        "exec, first sight": _own(loaded(*exec_)),
        "exec, plan seen before": _own(loaded(*exec_)),
        "show": _own(loaded("show", "last")),
        "why": _own(loaded("why", "last", "a")),
        "runs": _own(loaded("runs")),
        "lint": _own(loaded("lint", "p.yaml")),
        "--help": _own(loaded("--help")),
        "--version": _own(loaded("--version")),
        "completion": _own(loaded(**asked)),
    }
    assert counts.keys() == LIMITS.keys()
    over = {what: (len(counts[what]), most) for what, most in LIMITS.items() if len(counts[what]) > most}
    assert not over, f"{over}: " + " ".join(sorted(set().union(*(counts[what] for what in over))))


def test_going_on_after_a_kill_loads_no_more_than_it_did(loaded, tmp_path):
    script = "mkdir once 2>/dev/null && kill -9 $PPID || true"
    (tmp_path / "cut.yaml").write_text(
        f"plan: cut\ntasks:\n  - {{id: a, run: '{script}', timeout: 1m, effect: idempotent}}\n"
    )
    assert _python(_PROBE.format(arguments=["exec", "cut.yaml"]), tmp_path).returncode == -signal.SIGKILL
    modules = _own(loaded("resume", "last"))
    assert len(modules) <= RESUMED, (len(modules), sorted(modules))


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"]])
def test_help_and_version_import_no_command_and_no_heavy_library(loaded, arguments):
    modules = loaded(*arguments)
    assert not {*HEAVY, "msgspec"} & modules
    assert not {name for name in modules if name.startswith(("planrunner.app", "planrunner.engine"))}


def test_a_plan_seen_before_runs_without_parsers_and_schema(loaded, tmp_path):
    (tmp_path / "p.yaml").write_text(PLAN)
    loaded("exec", "p.yaml")
    loaded("exec", "p.yaml")
    modules = loaded("exec", "p.yaml")
    assert not (SLOW - {"sqlite3"}) & modules
    assert not {"planrunner.plan.load", "planrunner.plan.rules.table"} & modules


@pytest.mark.parametrize("command", ["approve", "resume", "retry", "revise"])
def test_a_command_that_continues_a_run_imports_no_client_of_models(loaded, command):
    assert not {"asyncio", "httpx2", "pydantic_ai", "sqlalchemy"} & loaded(command, "--help")


def test_a_command_imports_no_other_command(loaded):
    modules = {name for name in loaded("rule", "PLAN101") if name.startswith("planrunner.cli.")}
    commands = {"exec", "resume", "lint", "fmt", "graph", "runs", "show", "logs", "events", "why", "doctor", "init"}
    assert not {f"planrunner.cli.{name}" for name in commands} & modules


_PLACE = re.compile(r'"(planrunner(?:\.\w+)+):(\w+)"')


def test_what_a_table_names_by_its_place_exists():
    places = {
        place for path in (ROOT / "planrunner").rglob("*.py") for place in _PLACE.findall(path.read_text("utf-8"))
    }
    assert places
    defined = {module: _names(module) for module, _ in places}
    assert not [f"{module}:{name}" for module, name in sorted(places) if name not in defined[module]]


def _names(module: str) -> set[str]:
    """What a module defines at its top."""
    path = ROOT.joinpath(*module.split("."))
    file = path.with_suffix(".py")
    tree = ast.parse((file if file.is_file() else path / "__init__.py").read_text("utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names
