"""What a task kept, put into the working directory: of this run and of another one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from workbench import planrunner

BUILD = """
plan: ci
params: {word: one}
defaults: {timeout: 1m}
tasks:
  - id: build
    run: |
      mkdir -p site/sub; echo {{ params.word }} > site/page; ln -sf ../page site/sub/link
      printf '#!/bin/sh\\necho works\\n' > tool; chmod 755 tool
    artifacts: [{name: site, path: site, retention: run}, {name: tool, path: to*}]
"""


def take(plan: str, artifact: str, path: str = "got", more: str = "") -> str:
    return f"""
plan: {plan}
params: {{version: last}}
defaults: {{timeout: 1m}}
tasks:
  - {{id: take, uses: files.artifact, with: {{artifact: "{artifact}", path: {path}}}{more}}}
"""


def ran(folder: Path, text: str, *words: str) -> dict[str, Any]:
    (folder / "p.yaml").write_text(text)
    done = planrunner(folder, "exec", "p.yaml", "--json", "--progress", "quiet", *words)
    data: dict[str, Any] = json.loads(done.stdout)
    return data


@pytest.fixture
def built(tmp_path: Path) -> Path:
    assert ran(tmp_path, BUILD)["status"] == "completed"
    return tmp_path


def test_a_later_task_takes_what_one_before_it_kept(tmp_path: Path) -> None:
    later = """
  - {id: change, needs: [build], run: 'echo other > site/page; rm tool'}
  - {id: take, needs: [change], uses: files.artifact, with: {artifact: "{{ tasks.build.artifacts.site }}", path: in/site}}
  - {id: back, needs: [change], uses: files.artifact, with: {artifact: "{{ tasks.build.artifacts.tool }}"}}
  - {id: all, needs: [take, back], uses: files.artifact, with: {artifact: "{{ tasks.build.artifacts }}", path: in/all}}
"""
    told = ran(tmp_path, BUILD + later)
    assert told["status"] == "completed", told
    assert (tmp_path / "in/site/page").read_text() == "one\n" != (tmp_path / "site/page").read_text()
    assert os.readlink(tmp_path / "in/all/site/sub/link") == "../page"
    assert subprocess.run([tmp_path / "tool"], capture_output=True, check=True).stdout == b"works\n"
    kept = {each["name"]: each["sha256"] for each in told["tasks"]["build"]["artifacts"]}
    outputs = told["tasks"]["take"]["outputs"]
    assert (outputs["sha256"], outputs["files"], outputs["artifact"]) == (kept["site"], 1, "")
    assert kept["site"] in planrunner(tmp_path, "show", "last", "take", "--inputs").stdout
    assert "replays exactly" in planrunner(tmp_path, "replay", "last").stdout
    assert planrunner(tmp_path, "rollback", "last").returncode == 0
    assert not (tmp_path / "in").exists()


def test_another_run_takes_a_version_that_it_names(built: Path) -> None:
    second = ran(built, BUILD, "-p", "word=two")["run_id"]
    for version, ref, text in (
        ("last", "ci/build/site@2", "two\n"),
        ("1", "ci/build/site@1", "one\n"),
        (second, "ci/build/site@2", "two\n"),
    ):
        told = ran(built, take("use", "ci/build/site@{{ params.version }}"), "-p", f"version={version}")
        assert told["tasks"]["take"]["outputs"]["artifact"] == ref, told
        assert (built / "got/page").read_text() == text
        assert "replays exactly" in planrunner(built, "replay", "last").stdout


def test_what_a_failed_attempt_left_is_taken_by_its_version_only(built: Path) -> None:
    assert ran(built, BUILD.replace("chmod 755 tool", "chmod 755 tool; exit 1"), "-p", "word=bad")["status"] == "failed"
    told = ran(built, take("use", "ci/build/site"))
    assert told["tasks"]["take"]["outputs"]["artifact"] == "ci/build/site@1"
    assert ran(built, take("use", "ci/build/site@2"))["status"] == "completed"
    assert (built / "got/page").read_text() == "bad\n"


@pytest.mark.parametrize(
    ("artifact", "path", "said"),
    [
        ("ci/build/sit", "got", "did you mean `ci/build/site`?"),
        ("ci/build/site@7", "got", "has no version 7: it has 1 version"),
        ("ci/build/site", "../got", "outside"),
        ("ci/build/site", ".git/x", ".git"),
        ("{{ 3 }}", "got", "`artifact` is the address of one"),
    ],
)
def test_what_cannot_be_taken_is_told(built: Path, artifact: str, path: str, said: str) -> None:
    told = ran(built, take("use", artifact, path))
    assert said in json.dumps(told), told


def test_what_is_not_kept_any_more_is_told(built: Path) -> None:
    for path in (built / ".planrunner/artifacts/sha256").rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
    assert planrunner(built, "artifacts", "gc", "--older-than", "0s").returncode == 0
    told = ran(built, take("use", "ci/build/site"))
    detail = told["tasks"]["take"]["detail"]
    assert "`ci/build/site@1` is not kept any more" in detail and "`run`" in detail


def test_items_of_a_fan_out_are_taken_together_and_in_a_loop(tmp_path: Path) -> None:
    told = ran(
        tmp_path,
        """
plan: fan
defaults: {timeout: 1m}
tasks:
  - {id: each, foreach: [a, b], run: "echo {{ item }} > {{ item }}.txt", artifacts: ["{{ item }}.txt"]}
  - id: twice
    needs: [each]
    loop:
      max: 2
      tasks:
        - id: take
          uses: files.artifact
          with: {artifact: "{{ [one.artifacts for one in tasks.each.items] }}", path: "round{{ loop.round }}"}
""",
    )
    assert told["status"] == "completed", told
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("round*/*"))
    assert found == ["round1/a.txt", "round1/b.txt", "round2/a.txt", "round2/b.txt"]


def test_a_policy_keeps_it_out_of_where_the_task_may_not_write(built: Path) -> None:
    told = ran(built, take("use", "ci/build/site", "shut/x", ", policy: {files: {write: ['open/**']}}"))
    assert told.get("error") or told["tasks"]["take"]["failure"] == "policy"
    assert not (built / "shut").exists()


def test_lint_finds_what_need_not_have_run(tmp_path: Path) -> None:
    text = BUILD + "  - {id: take, uses: files.artifact, with: {artifact: %s, path: got}}\n"
    for ref, found in (("build/site", True), ("ci/build/site", True), ("build/site@last", False), ("x/site", False)):
        (tmp_path / "p.yaml").write_text(text % ref)
        assert ("PLAN237" in planrunner(tmp_path, "lint", "p.yaml").stdout) is found, ref
    (tmp_path / "p.yaml").write_text(text.replace("take,", "take, needs: [build],") % "build/site")
    assert "PLAN237" not in planrunner(tmp_path, "lint", "p.yaml").stdout
    (tmp_path / "p.yaml").write_text(BUILD + "  - {id: take, needs: [build], run: 'cat {{ artifacts.site.path }}'}\n")
    assert "tasks.TASK.artifacts.NAME" in planrunner(tmp_path, "lint", "p.yaml").stdout
