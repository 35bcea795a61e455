"""A denial that can never fit is told wherever policies stand: nobody believes in a rule that is not kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from workbench import planrunner

PLAN = "plan: p\ntasks: [{id: a, run: 'true', timeout: 1m}]\n"
SETTINGS = """\
policy:
  capabilities:
    deny: [shel, {uses: shell, with: {run: git push *}}]
profiles:
  ci: {policy: {files: {deny: [../x]}}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "p.yaml").write_text(PLAN)
    return tmp_path


@pytest.mark.parametrize("words", [("config", "check"), ("lint", "p.yaml")])
def test_the_settings_of_a_project_have_no_denial_that_never_fits(project: Path, words: tuple[str, ...]) -> None:
    (project / "planrunner.yaml").write_text(SETTINGS)
    told = planrunner(project, *words)
    assert told.returncode == 1, told.stdout + told.stderr
    for place in ("3:12", "3:44", "5:32"):
        assert f"planrunner.yaml:{place}" in told.stdout, told.stdout
    assert "did you mean `shell`?" in told.stdout
    assert "write it beside `uses`: {uses: shell, run: …}" in told.stdout


def test_a_plugin_may_bring_what_is_denied(project: Path) -> None:
    (project / "planrunner.yaml").write_text("policy: {capabilities: {deny: [acme.deploy, git.push]}}\n")
    told = planrunner(project, "config", "check")
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.count("warning[PLAN803]") == 1, told.stdout
    assert "error" not in told.stdout.replace("0 errors", "")


def test_a_plan_with_a_denial_that_never_fits_does_not_start(project: Path) -> None:
    (project / "p.yaml").write_text("policy: {capabilities: {deny: [shel]}}\n" + PLAN.replace("'true'", "touch owned"))
    ran = planrunner(project, "exec", "p.yaml")
    assert ran.returncode != 0 and "PLAN802" in ran.stdout + ran.stderr
    assert not (project / "owned").exists()


def test_a_family_alone_is_told_as_the_pattern_of_its_capabilities(project: Path) -> None:
    (project / "planrunner.yaml").write_text("policy: {capabilities: {deny: [docker]}}\n")
    told = planrunner(project, "config", "check")
    assert told.returncode == 1 and "did you mean `docker.*`?" in told.stdout
