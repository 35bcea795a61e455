"""A slip in the project's file opens no gate: it is found before anything starts, and nobody's vote counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planrunner.errors import PlanInvalid
from planrunner.safety.project import read_project

PLAN = """
plan: p
defaults: {timeout: 2m}
tasks:
  - {id: sign, gate: approval, ask: Fine, approvers: {roles: [release]}}
"""
FAULTS = [
    ("peoples: {ana: [release]}\n", "PLAN003", ":1:1", "did you mean `people`?"),
    ("people: {ana: [release\n", "PLAN001", ":", ""),
    ("# who\npeople: [ana]\n", "PLAN005", ":2:9", "takes a mapping from names to roles"),
    ("people:\n  ana: [release, 3]\n", "PLAN005", ":2:18", "`ana` takes a list of roles"),
    ("people: {ana: {release: true}}\n", "PLAN005", ":1:15", "`ana` takes a list of roles"),
    ("people: {ana: [qa], ana: [release]}\n", "PLAN002", ":1:21", "ana"),
    ("- ana\n", "PLAN005", ":1:1", "holds sections"),
    ("people:\n", "PLAN005", ":1:", "takes a mapping"),
    ("policy: {labels: {prod: {approvers: {roles: [a]}}}}\n", "PLAN005", ":1:25", "of `labels` must be text"),
    ("policy: {labels: {prod: aproval}}\n", "PLAN006", ":1:25", "did you mean `approval`?"),
]
SOUND = [
    "",
    "# nobody yet\n",
    "people: {}\n",
    "people: {ana: [release], bo: qa, cy: []}\n",
    "policy: {labels: {prod: approval, shown: diff}}\n",
    "policy: {labels: [prod]}\n",
    "policy: {}\nagents: {}\ntools: []\nmemory: {}\nscheduler: {}\nprovider_credentials: []\nprofiles: {}\n",
]


@pytest.mark.parametrize(("text", "code", "place", "words"), FAULTS)
def test_a_fault_in_the_file_of_the_project_is_an_error_with_its_place(
    tmp_path: Path, text: str, code: str, place: str, words: str
) -> None:
    (tmp_path / "planrunner.yaml").write_text(text)
    with pytest.raises(PlanInvalid) as raised:
        read_project(str(tmp_path))
    (finding,) = raised.value.findings
    assert finding.code == code
    assert words in finding.message
    at = raised.value.source.place(finding.span.start)
    assert f":{at.line}:{at.column}".startswith(place)


@pytest.mark.parametrize("text", SOUND)
def test_a_sound_file_has_no_findings(tmp_path: Path, text: str) -> None:
    (tmp_path / "planrunner.yaml").write_text(text)
    read_project(str(tmp_path))


@pytest.mark.parametrize(("text", "code", "place", "words"), FAULTS[:3])
def test_nothing_starts_in_a_project_whose_file_has_a_fault(
    project: Any, text: str, code: str, place: str, words: str
) -> None:
    project.plan(PLAN)
    (project.path / "planrunner.yaml").write_text(text)
    checked = project("lint", "p.yaml", "--format", "concise")
    assert checked.code == 1
    assert code in checked.out and f"planrunner.yaml{place}" in checked.out and words in checked.out
    refused = project("exec", "p.yaml")
    assert refused.code == 5
    assert code in refused.err and f"planrunner.yaml{place}" in refused.err and words in refused.err
    assert project("runs", "--json").data["runs"] == []


def test_a_fault_that_comes_later_refuses_votes_and_the_resumption(project: Any) -> None:
    project.plan(PLAN)
    path = project.path / "planrunner.yaml"
    path.write_text("people: {ana: [release]}\n")
    assert project("exec", "p.yaml").code == 8
    path.write_text("peoples: {ana: [release]}\n")
    vote = project("approve", "last", "sign", "--as", "bo", "--role", "release")
    assert vote.code == 2
    assert "line 1, column 1" in vote.err and "did you mean `people`?" in vote.err
    for words in (["resume", "last"], ["rerun", "last", "sign"]):
        assert project(*words).code == 5
    assert project("gates", "--json").data["gates"][0]["votes"] == []
    assert project("cancel", "last").code == 0
    path.write_text("people: {ana: [release]}\n")
    assert project("runs", "--json").data["runs"][0]["status"] == "cancelled"


def test_a_project_without_a_file_reads_no_yaml_for_a_plan_seen_before(project: Any) -> None:
    project.plan("plan: p\ntasks:\n  - {id: one, uses: noop}\n")
    assert project("exec", "p.yaml").code == 0
    script = "import sys; from planrunner.cli import main\ntry:\n    main()\nexcept SystemExit: pass\n"
    seen = script + "print(sorted(n for n in sys.modules if 'yaml' in n and n != 'msgspec.yaml'))"
    words = [sys.executable, "-c", seen, "exec", "p.yaml"]
    environment = {**os.environ, **project.environment}
    done = subprocess.run(words, cwd=project.path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.stdout.strip() == "[]", done.stderr
