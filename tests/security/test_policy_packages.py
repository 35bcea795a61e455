"""A policy about packages holds for what commands install, at lint and at the call."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrunner.plan.patterns import UNKNOWN
from planrunner.plan.shell.commands import commands
from planrunner.plan.shell.programs import installed
from tests.security.security_desk import Desk

INSTALLS = [
    ("pip install 'requests[socks]==2.0' PyYAML", ["requests", "PyYAML"]),
    ("python3 -m pip --no-input install -U --index-url https://x.org/simple numpy", ["numpy"]),
    ("/opt/venv/bin/pip3.11 install -r requirements.txt -e .", ["requirements.txt", "."]),
    ("sudo apt-get -y install -t stable curl git", ["curl", "git"]),
    ("env A=1 uv pip install --requirement=all.txt", ["all.txt"]),
    ("npm --prefix web install", ["package.json"]),
    ("npm ci && npm i @scope/pkg@1.2 left-pad@3", ["package.json", "@scope/pkg", "left-pad"]),
    ("npx cowsay hello", ["cowsay"]),
    ("uvx ruff check .", ["ruff"]),
    ("pipx run black src", ["black"]),
    ("go install golang.org/x/tools/cmd/stringer@latest", ["golang.org/x/tools/cmd/stringer"]),
    ("cargo add serde --features derive", ["serde"]),
    ("pip install git+https://x.org/a.git", ["git+https://x.org/a.git"]),
    ('pip install "$NAME"', [UNKNOWN]),
    ("for p in a b; do pip install $p; done", [UNKNOWN]),
    ('sh -c "pip install evil"', [UNKNOWN]),
    ("pip list && npm run build && echo pip install x", []),
    ("apt-get update; python setup.py install; for f in *; do echo $f; done", []),
]


@pytest.mark.parametrize(("script", "names"), INSTALLS)
def test_what_a_script_installs_is_told_by_its_commands(script: str, names: list[str]) -> None:
    assert list(installed(commands(script), script)) == names


def project(tmp_path: Path, section: str) -> Desk:
    """A project whose ``pip`` writes what it is given."""
    desk = Desk(tmp_path)
    desk.write("planrunner.yaml", f"policy: {{dependencies: {section}}}\n")
    desk.write("bin/pip", f'#!/bin/sh\necho "$*" >> {desk.canary}\n')
    (desk.folder / "bin" / "pip").chmod(0o755)
    return desk


def test_a_package_that_is_not_allowed_stops_the_plan_and_the_line_to_add_lets_it_run(tmp_path: Path) -> None:
    desk = project(tmp_path, "{allow: [requests]}")
    name = desk.plan({"id": "a", "run": "bin/pip install requests evil"})
    done = desk.do("lint", name, code=1)
    line = "policy: {dependencies: {allow: [requests, evil]}}"
    assert f"does not allow the package `evil`; to allow it, write there: {line}" in done.stdout
    desk.do("exec", name, code=12)
    assert not desk.canary.exists()
    desk.write("planrunner.yaml", line + "\n")
    desk.do("exec", name, code=0)
    assert desk.canary.read_text() == "install requests evil\n"


@pytest.mark.parametrize(
    ("section", "script", "code"),
    [
        ("{allow: [Py_YAML]}", "bin/pip install '{{ params.package }}'", 0),
        ("{allow: [requests]}", "bin/pip install '{{ params.package }}'", 12),
        ("{deny: [py.yaml]}", "bin/pip install '{{ params.package }}'", 12),
        ("{deny: [evil]}", "for p in a b; do bin/pip install $p; done", 12),
        ("{deny: [evil]}", "for p in a b; do echo $p; done", 0),
    ],
)
def test_packages_are_judged_by_their_values_at_the_call(tmp_path: Path, section: str, script: str, code: int) -> None:
    desk = project(tmp_path, section)
    told = desk.run({"id": "a", "run": script}, params={"package": {"type": "string", "default": "py-yaml"}})
    assert told.code == code, told
    assert desk.canary.exists() == (code == 0 and "pip" in script)
