"""Every plan under ``plans/`` is sound, and ends as its comment says when it is run by the real command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rows import rows
from shown import check_output
from workbench import ROOT, planrunner

PLANS = ROOT / "plans"


class Ending(NamedTuple):
    """What a plan comes to: exit code, status of the run, and the status of the tasks that make its point."""

    exit_code: int
    status: str
    tasks: dict[str, str]


def completed(**tasks: str) -> Ending:
    return Ending(0, "completed", tasks)


ENDINGS: dict[str, Ending] = {
    "alternates.yaml": completed(
        fetch="failed", mirror="failed", cache="completed", nothing="omitted", use="completed"
    ),
    "anchors.yaml": completed(slow="completed", other="completed"),
    "artifacts.yaml": completed(write="completed", count="completed"),
    "budgets.yaml": completed(summarise="completed", publish="completed"),
    "breaker.yaml": completed(first="failed", second="failed", third="completed", fourth="completed"),
    "checkpoint.yaml": completed(polish="completed", publish="completed", announce="completed"),
    "carry.yaml": completed(shrink="completed", show="completed"),
    "commands.yaml": completed(**{"collect/facts": "completed", "report": "completed", "show": "completed"}),
    "conditions.yaml": completed(deploy="skipped", announce="omitted", summary="completed"),
    "criteria-in-words.yaml": Ending(8, "blocked", {"change": "blocked", "release": "pending"}),
    "edges.yaml": completed(small="completed", large="omitted", report="completed"),
    "failure-allowed.yaml": completed(spelling="failed", publish="completed"),
    "failure-handler.yaml": Ending(1, "failed", {"build": "failed", "explain": "completed", "deploy": "omitted"}),
    "failure-modes.yaml": completed(**{"fetch": "failed", "use-cache": "completed", "read": "completed"}),
    "failure-recovered.yaml": completed(fresh="failed", cached="completed", read="completed"),
    "families.yaml": completed(**{"gaps-deep-dive-*": "completed", "gaps-deep-dive-3": "completed"}),
    "files.yaml": completed(write="completed", show="completed"),
    "finally.yaml": Ending(1, "failed", {"work": "failed", "clean": "completed"}),
    "foreach.yaml": completed(**{"check": "completed", "check[2]": "failed", "report": "completed"}),
    "gate-checks.yaml": completed(small="completed", fits="completed", green="completed", publish="completed"),
    "gate-decision.yaml": Ending(8, "blocked", {"way": "blocked", "publish": "pending", "note": "pending"}),
    "gate-window.yaml": Ending(
        8, "blocked", {"docs": "completed", "review-docs": "blocked", "review-code": "blocked", "publish": "pending"}
    ),
    "hypotheses.yaml": Ending(
        0,
        "completed",
        {"check-pool": "failed", "fix-race": "completed", "fix-pool": "omitted", "fix-upstream": "omitted"},
    ),
    "gate-label.yaml": Ending(8, "blocked", {"test": "completed", "deploy": "blocked"}),
    "fresh.yaml": completed(build="completed", show="completed"),
    "gate-nested.yaml": Ending(
        8, "blocked", {"edit#1/book/each[0]/sign": "blocked", "edit#1/book/each[1]/sign": "blocked", "bind": "pending"}
    ),
    "gate-rework.yaml": Ending(8, "blocked", {"draft": "completed", "review": "blocked", "print": "pending"}),
    "gate.yaml": Ending(8, "blocked", {"sign-off": "blocked", "publish": "pending", "notes": "completed"}),
    "hello.yaml": completed(greet="completed", answer="completed"),
    "instruction.yaml": Ending(8, "blocked", {"collect": "completed", "compare": "blocked", "publish": "pending"}),
    "joins.yaml": completed(
        **{"mirror-b": "failed", "any-mirror": "completed", "two-mirrors": "completed", "publish": "completed"}
    ),
    "computed.yaml": completed(**{"greet": "completed", "greet[2]": "failed", "count": "completed"}),
    "loop.yaml": completed(**{"fix": "completed", "fix#1/test": "failed", "fix#3/test": "completed"}),
    "matrix.yaml": completed(**{"test[3]": "completed", "count": "completed"}),
    "nested.yaml": completed(**{"improve": "completed", "improve#2/measure/bench[1]": "completed"}),
    "notation.plan": completed(build="completed", check="completed", explain="omitted"),
    "notation.yaml": completed(build="completed", check="completed", explain="omitted"),
    "outputs.yaml": completed(show="completed"),
    "params.yaml": completed(greet="completed"),
    "preconditions.yaml": completed(unpack="completed", read="completed"),
    "retries.yaml": completed(flaky="completed", clean="completed"),
    "rework.yaml": completed(draft="completed", review="completed", publish="completed"),
    "roles.yaml": completed(long="omitted", join="completed", done="completed"),
    "rollback-doubt.yaml": completed(charge="completed", invoice="omitted"),
    "rollback-linked.yaml": completed(
        **{"regions[0]/up": "completed", "regions[1]": "failed", "regions[1]/up": "rolled_back", "report": "completed"}
    ),
    "rollback.yaml": Ending(
        1,
        "failed",
        {"settings": "rolled_back", "release": "rolled_back", "announce": "failed", "report": "completed"},
    ),
    "scheduling.yaml": completed(done="completed"),
    "subplan.yaml": completed(**{"build@2/pack": "completed", "announce/send[1]": "completed", "clean": "completed"}),
    "services.yaml": completed(clock="completed", look="completed"),
    "time-limits.yaml": completed(attempt="completed", whole="completed", talkative="completed", watched="completed"),
}
SEPARATELY = {"check-project.yaml"}


def _planrunner(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return planrunner(cwd, *arguments, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the plans and a state of its own."""
    shutil.copytree(PLANS, tmp_path / "plans")
    (tmp_path / ".planrunner").mkdir(mode=0o700)
    return tmp_path


def _exec(project: Path, plan: str, *arguments: str) -> tuple[int, dict[str, Any], str]:
    done = _planrunner(["exec", f"plans/{plan}", "--json", *arguments], project)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_every_plan_has_an_ending_in_the_table() -> None:
    assert {path.name for path in PLANS.iterdir() if path.is_file()} == ENDINGS.keys() | SEPARATELY


@rows("plan", sorted(ENDINGS.keys() | SEPARATELY))
def test_lint_finds_no_errors(plan: str) -> None:
    done = _planrunner(["lint", f"plans/{plan}", "--format", "json"], ROOT)
    errors = [finding for finding in json.loads(done.stdout)["findings"] if finding["severity"] == "error"]
    assert (done.returncode, errors) == (0, [])


@rows("plan", [path.name for path in sorted(PLANS.glob("*.yaml"))])
def test_editors_are_told_where_the_schema_is(plan: str) -> None:
    first = (PLANS / plan).read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=../schemas/plan.schema.json"


@pytest.mark.parametrize("plan", sorted(ENDINGS))
def test_it_ends_as_its_comment_says(plan: str, project: Path) -> None:
    code, run, messages = _exec(project, plan)
    expected = ENDINGS[plan]
    found = {task: run["tasks"][task]["status"] for task in expected.tasks}
    assert (code, run["status"], found) == expected, messages
    assert run["exit_code"] == code
    check_output(plan, messages, code, project)


def test_a_condition_follows_the_parameter(project: Path) -> None:
    code, run, messages = _exec(project, "conditions.yaml", "-p", "stage=prod")
    assert code == 0, messages
    assert {task["status"] for task in run["tasks"].values()} == {"completed"}


def test_a_value_outside_its_choices_is_refused_before_anything_starts(project: Path) -> None:
    done = _planrunner(["exec", "plans/conditions.yaml", "-p", "stage=moon"], project)
    assert done.returncode == 2
    assert "stage" in done.stderr


def test_the_third_attempt_is_the_one_that_works(project: Path) -> None:
    _, run, _ = _exec(project, "retries.yaml")
    assert run["tasks"]["flaky"]["attempts"] == 3


def test_the_two_notations_are_one_plan(project: Path) -> None:
    plans = [_planrunner(["convert", f"plans/{name}", "--to", "json"], project) for name in
             ("notation.yaml", "notation.plan")]  # fmt: skip
    assert [done.returncode for done in plans] == [0, 0]
    assert json.loads(plans[0].stdout) == json.loads(plans[1].stdout)
    digests = {_exec(project, name)[1]["revision"] for name in ("notation.yaml", "notation.plan")}
    assert len(digests) == 1


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository for the plan that works on it; build results stay out of the real one."""
    copy = tmp_path_factory.mktemp("checkout") / "project"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", ".planrunner", ".*_cache", ".cache", "__pycache__", "build", "dist"
    )
    shutil.copytree(ROOT, copy, ignore=ignored)
    (copy / ".planrunner").mkdir(mode=0o700)
    return copy


@pytest.mark.slow
@pytest.mark.limit(900)
def test_the_check_of_this_project_builds_installs_and_reports(checkout: Path) -> None:
    code, run, messages = _exec(checkout, "check-project.yaml")
    assert code == 0, messages
    assert run["tasks"]["report"]["status"] == run["tasks"]["smoke"]["status"] == "completed"
    report = (checkout / "build" / "check" / "report.md").read_text()
    assert "is fit to be shared" in report
    assert "| smoke | completed |" in report
    assert not list((checkout / "build" / "check").glob("scratch-*"))


@pytest.mark.slow
@pytest.mark.limit(900)
def test_the_check_of_this_project_reports_what_failed(checkout: Path) -> None:
    only = [word for name in ("tools", "tree", "style", "report") for word in ("--only", name)]
    stain = checkout / "planrunner" / "stain.py"
    stain.write_text("import os\n")
    try:
        code, run, messages = _exec(checkout, "check-project.yaml", *only)
    finally:
        stain.unlink()
    assert code == 1
    assert run["tasks"]["style"]["status"] == "failed"
    assert "F401" in messages  # the failure block shows what ruff said
    report = (checkout / "build" / "check" / "report.md").read_text()
    assert "is not fit to be shared" in report
    assert "| style | failed |" in report
