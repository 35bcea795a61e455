"""Rights are those of operator, plan and task together: whoever allows more than another level changes nothing, before
the start, at the very call and when a run goes on. What is refused has no effect and is an event with its rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from workbench import planrunner

ALL = "policy: {capabilities: {allow: ['*']}, files: {write: ['**']}, network: {allow: ['*', '127.0.0.1', localhost]}}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def rules(project: Path) -> list[str]:
    """The rules that refused attempts of the latest run."""
    told = planrunner(project, "events", "last", "--type", "attempt_ended", "--json").stdout.splitlines()
    outcomes = [json.loads(line).get("data", json.loads(line)).get("outcome", {}) for line in told]
    return [outcome["rule"] for outcome in outcomes if outcome.get("rule")]


@pytest.mark.parametrize(
    ("operator", "plan", "task"),
    [
        ("policy: {capabilities: {deny: [shell]}}", ALL, ALL),
        ("policy: {capabilities: {allow: [noop]}}", ALL, ALL),
        ("", "policy: {capabilities: {deny: [shell]}}", ALL),
        ("", "policy: {capabilities: {allow: [noop]}}", ALL),
        ("", ALL, "policy: {capabilities: {deny: [shell]}}"),
        (ALL, ALL, "policy: {capabilities: {allow: [noop]}}"),
        (ALL, "policy: {capabilities: {deny: ['*']}}", ""),
    ],
)
def test_what_one_level_takes_no_other_gives_back(project: Path, operator: str, plan: str, task: str) -> None:
    (project / "planrunner.yaml").write_text(operator + "\n")
    body = f"  - id: a\n    run: touch owned\n    timeout: 1m\n    {task}\n"
    (project / "p.yaml").write_text(f"plan: p\n{plan}\ntasks:\n{body}")
    linted, ran = planrunner(project, "lint", "p.yaml"), planrunner(project, "exec", "p.yaml")
    assert (linted.returncode, "PLAN801" in linted.stdout) == (1, True)
    assert ran.returncode in (5, 12), ran.stderr
    assert not (project / "owned").exists()


@pytest.mark.parametrize("level", ["operator", "plan", "task"])
@pytest.mark.parametrize(
    ("act", "section"),
    [
        ("uses: files.write\n    with: {path: '{{ params.x }}', content: x}", "files: {write: ['out/**']}"),
        ("uses: http.get\n    with: {url: 'http://{{ params.x }}/'}", "network: {allow: [example.org]}"),
    ],
    ids=["path", "host"],
)
def test_what_is_known_only_at_the_call_is_judged_there(project: Path, act: str, section: str, level: str) -> None:
    said = {name: f"policy: {{{section}}}" if name == level else ALL for name in ("operator", "plan", "task")}
    (project / "planrunner.yaml").write_text(said["operator"] + "\n")
    body = f"  - id: a\n    {act}\n    timeout: 1m\n    {said['task']}\n"
    (project / "p.yaml").write_text(f"plan: p\nparams: {{x: out/fine}}\n{said['plan']}\ntasks:\n{body}")
    ran = planrunner(project, "exec", "p.yaml", "-p", "x=owned")
    assert ran.returncode in (1, 12), ran.stdout + ran.stderr
    assert not (project / "owned").exists()
    (rule,) = rules(project)
    assert rule.startswith(("policy.files.write", "policy.network.allow", "network.allow")), rule


WAITS = """\
plan: waits
defaults: {timeout: 1m}
tasks:
  - {id: look, gate: approval, ask: Well}
  - {id: act, needs: [look], run: touch owned}
"""


def test_a_run_that_goes_on_is_held_to_what_is_denied_meanwhile(project: Path) -> None:
    (project / "p.yaml").write_text(WAITS)
    assert planrunner(project, "exec", "p.yaml", "--no-wait").returncode == 8
    (project / "planrunner.yaml").write_text("policy: {capabilities: {deny: [shell]}}\n")
    planrunner(project, "approve", "last", "look", "--resume")
    planrunner(project, "resume", "last", "--no-wait")
    assert not (project / "owned").exists()
    (project / "planrunner.yaml").unlink()
    assert planrunner(project, "exec", "p.yaml", "--no-wait").returncode == 8
    planrunner(project, "approve", "last", "look", "--resume")
    assert (project / "owned").exists(), "without the policy the same plan does it"


def test_a_run_that_goes_on_is_not_given_what_was_denied_at_its_start(project: Path) -> None:
    (project / "planrunner.yaml").write_text("policy: {files: {write: ['out/**']}}\n")
    act = "  - {id: act, needs: [look], uses: files.write, with: {path: '{{ params.x }}', content: x}}\n"
    (project / "p.yaml").write_text(
        WAITS[: WAITS.index("  - {id: act")].replace("tasks:", "params: {x: a}\ntasks:") + act
    )
    assert planrunner(project, "exec", "p.yaml", "--no-wait", "-p", "x=owned").returncode == 8
    (project / "planrunner.yaml").unlink()
    planrunner(project, "approve", "last", "look")
    planrunner(project, "resume", "last", "--no-wait")
    assert not (project / "owned").exists()
