"""Artifacts by path and by pattern, through the real command line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from workbench import planrunner

from planrunner.capabilities.contract import Failure
from planrunner.engine.services import AttemptServices


def run(folder: Path, task: dict[str, object]) -> tuple[int, str, list[dict[str, object]]]:
    (folder / "plan.json").write_text(json.dumps({"plan": "p", "tasks": [{"id": "t", "timeout": "1m", **task}]}))
    done = planrunner(folder, "--state", "state", "exec", "plan.json")
    events = planrunner(folder, "--state", "state", "events", "last", "--json")
    ends = [json.loads(line) for line in events.stdout.splitlines() if '"attempt_ended"' in line]
    return done.returncode, done.stderr, ends[-1]["outcome"].get("artifacts", [])


def test_a_pattern_keeps_every_file_it_fits_by_its_path(tmp_path: Path) -> None:
    task = {
        "run": "mkdir -p build/sub && echo 1 > build/a.txt && echo 2 > build/sub/b.txt && mkdir build/dir.txt",
        "artifacts": [{"name": "pkg", "path": "build/**/*.txt", "type": "text"}],
    }
    code, _, kept = run(tmp_path, task)
    assert code == 0
    assert [each["name"] for each in kept] == ["pkg/build/a.txt", "pkg/build/sub/b.txt"]
    for each in kept:
        digest = str(each["sha256"])
        stored = tmp_path / "state/artifacts/sha256" / digest[:2] / digest[2:]
        assert stored.read_text() == (tmp_path / str(each["path"])).read_text()


def test_a_pattern_that_one_file_fits_is_that_file(tmp_path: Path) -> None:
    task = {"run": "mkdir dist && echo 1 > dist/a.whl", "artifacts": [{"name": "wheel", "path": "dist/*.whl"}]}
    code, err, kept = run(tmp_path, {**task, "expect": ["artifacts.wheel.path == 'dist/a.whl'"]})
    assert code == 0, err
    assert [(each["name"], each["path"]) for each in kept] == [("wheel", "dist/a.whl")]
    code, _, kept = run(tmp_path, {**task, "run": "echo 2 > dist/b.whl", "artifacts": ["dist/*.whl"]})
    assert [each["name"] for each in kept] == ["dist/a.whl", "dist/b.whl"], "what has no name goes by its path"


def test_a_pattern_that_fits_nothing_fails_the_task_and_says_so(tmp_path: Path) -> None:
    code, err, _ = run(tmp_path, {"run": "true", "artifacts": [{"name": "pkg", "path": "build/*.txt"}]})
    assert code == 1
    assert "no file fits build/*.txt" in err


def test_a_path_with_a_template_is_filled_in(tmp_path: Path) -> None:
    task = {"run": "echo hi > p.out", "artifacts": [{"name": "out", "path": "{{ plan.id }}.out"}]}
    code, _, kept = run(tmp_path, task)
    assert (code, [each["path"] for each in kept]) == (0, ["p.out"])


def test_a_path_that_is_filled_in_is_the_name_of_an_artifact_without_one(tmp_path: Path) -> None:
    code, _, kept = run(tmp_path, {"run": "echo hi > p.out", "artifacts": ["{{ plan.id }}.out"]})
    assert (code, [each["name"] for each in kept]) == (0, ["p.out"])


def test_what_a_capability_kept_takes_type_and_retention_from_a_declaration_of_its_name(tmp_path: Path) -> None:
    fact = {"statement": "it is so", "quote": "it is so", "url": "http://example.org/", "title": "So"}
    declared = [{"name": "bibliography.md", "type": "sources", "retention": "7d"}]
    code, err, kept = run(tmp_path, {"uses": "research.cite", "with": {"facts": [fact]}, "artifacts": declared})
    assert code == 0, err
    told = {str(each["name"]): (each["type"], each.get("retention", "")) for each in kept}
    assert told["bibliography.md"] == ("sources", "7d")
    assert told["bibliography.json"] == ("application/json", "")


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/x", "a/../b", "", ".", "a//b", "a/", " a", "a ", "a\nb", "a\x1b[0m", "a\\b", "a\u202eb", "a\0"],
)
def test_what_is_no_name_keeps_nothing(tmp_path: Path, name: str) -> None:
    services = AttemptServices(str(tmp_path / "state"), str(tmp_path), None, {})
    with pytest.raises(Failure, match="is not a valid artifact name") as refused:
        services.keep(b"x", name, "")
    assert (refused.value.failure, services.kept) == ("logic", [])


@pytest.mark.parametrize("name", ["x", "report/page one.html", "a-b_c.d", ".hidden", "übersicht.txt", "a..b"])
def test_relative_paths_are_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "state").mkdir()
    assert AttemptServices(str(tmp_path / "state"), str(tmp_path), None, {}).keep(b"x", name, "")["name"] == name


@pytest.mark.parametrize("path", ["/etc/hostname", "../../../etc/hostname", "/etc/apt", "sub/../../x", ".."])
def test_a_constant_path_outside_the_working_directory_is_found_by_lint(tmp_path: Path, path: str) -> None:
    code, err = code_and_findings(tmp_path, path)
    assert code == 5
    assert f"an artifact cannot be `{path}`: it lies outside the working directory" in err


def code_and_findings(folder: Path, path: str) -> tuple[int, str]:
    (folder / "plan.json").write_text(
        json.dumps(
            {
                "plan": "p",
                "tasks": [{"id": "t", "timeout": "1m", "run": "true", "artifacts": [{"name": "a", "path": path}]}],
            }
        )
    )
    done = planrunner(folder, "--state", "state", "exec", "plan.json")
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("path", ["{{ '/etc/hostname' }}", "{{ '..' }}/out.txt", "{{ '..' }}/*.txt", "{{ '/etc' }}"])
def test_a_path_that_leads_out_when_it_is_filled_in_fails_as_policy(tmp_path: Path, path: str) -> None:
    (tmp_path / "out.txt").write_text("not of the project")
    folder = tmp_path / "project"
    folder.mkdir()
    code, err, kept = run(folder, {"run": "true", "artifacts": [{"name": "a", "path": path}]})
    assert (code, kept) == (12, [])
    assert "is outside the working directory" in err
    assert "policy" in failure_of(folder)


def failure_of(folder: Path) -> str:
    told = planrunner(folder, "--state", "state", "events", "last", "--json").stdout
    ends = [json.loads(line) for line in told.splitlines() if '"attempt_ended"' in line]
    return str(ends[-1]["outcome"].get("failure", ""))


@pytest.mark.parametrize(
    ("links", "path"),
    [
        ("ln -s .. up", "up/out.txt"),
        ("ln -s /etc etc", "etc/hostname"),
        ("ln -s .. up", "up/*.txt"),
        ("mkdir sub && ln -s ../.. sub/up", "sub/up"),
    ],
)
def test_a_path_that_leads_out_through_a_link_fails_as_policy(tmp_path: Path, links: str, path: str) -> None:
    (tmp_path / "out.txt").write_text("not of the project")
    folder = tmp_path / "project"
    folder.mkdir()
    code, err, kept = run(folder, {"run": links, "artifacts": [{"name": "a", "path": path}]})
    assert (code, kept) == (12, []), err
    assert failure_of(folder) == "policy", err


def test_a_link_that_stays_inside_is_a_way_to_an_artifact(tmp_path: Path) -> None:
    task = {"run": "mkdir v2 && echo hi > v2/a && ln -s v2 now", "artifacts": [{"name": "a", "path": "now/a"}]}
    code, err, kept = run(tmp_path, task)
    assert (code, [each["size"] for each in kept]) == (0, [3]), err


def test_a_folder_is_kept_whole_unless_it_holds_the_state_of_planrunner(tmp_path: Path) -> None:
    task = {"run": "mkdir -p a/b && echo hi > a/b/c", "artifacts": [{"name": "a", "path": "a"}]}
    code, err, kept = run(tmp_path, task)
    assert (code, [each["type"] for each in kept]) == (0, ["directory"]), err
    code, err, kept = run(tmp_path, {"run": "true", "artifacts": [{"name": "all", "path": "."}]})
    assert (code, kept) == (12, [])
    assert "holds the state folder" in err
    code, err, kept = run(tmp_path, {"run": "true", "artifacts": [{"name": "all", "path": "state/journal.db"}]})
    assert (code, kept) == (12, [])
    assert "lies in the state folder" in err


def test_a_failing_task_keeps_what_it_left(tmp_path: Path) -> None:
    task = {
        "run": "echo '<testsuite/>' > junit.xml; exit 1",
        "artifacts": [{"name": "junit", "path": "junit.xml"}, {"name": "wheel", "path": "dist/*.whl"}],
    }
    code, err, kept = run(tmp_path, task)
    assert code == 1 and "exit code 1" in err
    assert [(each["name"], each["failed"]) for each in kept] == [("junit", True)]
    assert "missing" not in err, "the command failed, not its artifact"
    listed = planrunner(tmp_path, "--state", "state", "artifacts").stdout
    assert "p/t/junit@1" in listed and "(failed)" in listed
    assert planrunner(tmp_path, "--state", "state", "artifacts", "get", "junit", "-o", "-").stdout == "<testsuite/>\n"
    assert ", which failed" in planrunner(tmp_path, "--state", "state", "artifacts", "show", "junit").stdout


def test_what_lay_there_before_the_run_is_not_of_its_failure(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text("of yesterday")
    code, _, kept = run(tmp_path, {"run": "exit 1", "artifacts": ["junit.xml"]})
    assert (code, kept) == (1, [])


def test_each_attempt_that_fails_keeps_its_own(tmp_path: Path) -> None:
    task = {
        "run": 'echo "$PLANRUNNER_ATTEMPT" > report; test "$PLANRUNNER_ATTEMPT" = 3',
        "retry": {"attempts": 3, "delay": 0, "on": ["logic"]},
        "artifacts": [{"name": "report", "path": "report"}],
    }
    code, err, kept = run(tmp_path, task)
    assert (code, [each.get("failed") for each in kept]) == (0, [None]), err
    found = json.loads(planrunner(tmp_path, "--state", "state", "artifacts", "--json").stdout)["artifacts"]
    assert [(one["version"], one["failed"]) for one in found] == [(3, False), (2, True), (1, True)]


def test_an_attempt_that_fails_for_a_missing_artifact_keeps_the_others(tmp_path: Path) -> None:
    code, err, kept = run(tmp_path, {"run": "echo a > a", "artifacts": ["a", "b"]})
    assert (code, [each["name"] for each in kept]) == (1, ["a"])
    assert "the artifact `b` is missing" in err


def test_a_failing_task_does_not_keep_a_file_through_a_link_and_says_so(tmp_path: Path) -> None:
    code, err, kept = run(tmp_path, {"run": "ln -s /etc/hostname a; exit 3", "artifacts": ["a"]})
    assert (code, kept) == (1, [])
    assert "exit code 3; the artifact `a` cannot be kept" in err and failure_of(tmp_path) == "logic"


def test_a_task_that_fails_and_removes_its_directory_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    code, err, kept = run(tmp_path, {"run": 'rmdir "$PWD"; exit 1', "cwd": "gone", "artifacts": ["a", "*.txt"]})
    assert (code, kept) == (1, []) and "exit code 1" in err, err


def test_what_timed_out_keeps_what_it_left(tmp_path: Path) -> None:
    task = {"run": "echo half > report; sleep 60", "timeout": "500ms", "artifacts": ["report"]}
    code, _, kept = run(tmp_path, task)
    assert (code, [each["name"] for each in kept]) == (1, ["report"])


def test_a_file_that_may_be_executed_comes_back_so(tmp_path: Path) -> None:
    make = "mkdir -p bin && printf '#!/bin/sh\\necho works\\n' > bin/tool && chmod 755 bin/tool && echo > plain"
    code, err, _ = run(tmp_path, {"run": make, "artifacts": ["bin/*", "plain"]})
    assert code == 0, err
    assert planrunner(tmp_path, "--state", "state", "artifacts", "get", "bin/tool", "-o", "got").returncode == 0
    assert subprocess.run([tmp_path / "got"], capture_output=True, check=True).stdout == b"works\n"
    assert planrunner(tmp_path, "--state", "state", "artifacts", "get", "plain", "-o", "other").returncode == 0
    assert not os.access(tmp_path / "other", os.X_OK)
