"""What a gate tells people to type does what it says when it is copied."""

from __future__ import annotations

import time
from typing import Any

import pytest

SIGN = """
plan: p
tasks:
  - {id: sign, gate: approval, ask: Fine, KEYS}
  - {id: other, gate: approval, ask: Good}
"""


def parked(project: Any, keys: str) -> str:
    """The lines about the gate ``sign``."""
    project.plan(SIGN.replace("KEYS", keys))
    assert project("exec", "p.yaml").code == 8
    listed: str = project("gates").out
    return listed[listed.index(" sign ") : listed.index(" other ")]


@pytest.mark.parametrize(
    ("keys", "who"),
    [
        ("approvers: {roles: [release]}", " --as NAME --role release"),
        ("approvers: {roles: [release, qa]}", " --as NAME --role ROLE"),
        ("approvers: [bo]", " --as bo"),
        ("approvers: [bo, cy]", " --as NAME"),
        ("approvers: {users: [bo], roles: [release]}", " --as NAME --role release"),
        ("expires: 1d", ""),
    ],
)
def test_the_commands_of_a_gate_name_all_that_it_takes_to_decide_it(project: Any, keys: str, who: str) -> None:
    lines = [line.strip() for line in parked(project, keys).splitlines() if "planrunner " in line]
    approve, reject = (line.split(" sign", 1)[1] for line in lines)
    assert approve.startswith(f"{who} --shown ")
    assert reject == f"{who} --reason TEXT"


@pytest.mark.slow
def test_of_a_gate_that_has_expired_only_the_command_is_told_that_settles_it(project: Any) -> None:
    project.plan(SIGN.replace("KEYS", "expires: 4s").replace("  - {id: other, gate: approval, ask: Good}\n", ""))
    assert project("exec", "p.yaml").code == 8
    time.sleep(4.1)
    for words in (["gates"], ["gates", "last"], ["show"]):
        listed = project(*words).out
        assert "planrunner resume" in listed
        assert "approve" not in listed and "reject" not in listed


@pytest.mark.parametrize(
    ("name", "meant"), [("sgin", "sign"), ("each[0]/sgin", "each[0]/sign"), ("asj", "ask"), ("Sign/gate", "sign")]
)
def test_a_gate_that_there_is_not_is_answered_with_the_nearest_one(project: Any, name: str, meant: str) -> None:
    project.plan(
        "plan: p\ntasks:\n  - {id: ask, gate: approval, ask: First}\n"
        "  - id: each\n    foreach: [a, b]\n    subplan:\n      - {id: sign, gate: approval, ask: Fine}\n"
    )
    assert project("exec", "p.yaml").code == 8
    assert project("approve", "last", "ask", "--as", "bo").code == 0
    missing = project("approve", "last", name)
    assert (missing.code, f"did you mean `{meant}`?" in missing.err) == (3, True)


def test_each_option_of_a_gate_has_a_command_that_a_shell_takes_as_it_stands(project: Any) -> None:
    options = "plan: p\ntasks:\n  - {{id: ask, gate: decision, ask: Which, options: [{}]}}\n"
    project.plan(options.format("now, 'next week'"))
    told = project("exec", "p.yaml").err
    assert " ask now --shown " in told and " ask 'next week' --shown " in told and "|" not in told
    project.plan(options.format(", ".join(f"way{number}" for number in range(9))))
    assert " ask OPTION --shown " in project("exec", "p.yaml").err


def test_a_decision_that_continues_shows_the_run_as_it_is_asked_to(project: Any) -> None:
    project.plan(
        "plan: p\ntasks:\n  - {id: ask, gate: approval, ask: Good}\n  - {id: a, needs: [ask], run: echo said}\n"
    )
    assert project("exec", "p.yaml").code == 8
    alone = project("approve", "last", "ask", "--output", "none")
    assert (alone.code, "--progress and --output go with --resume" in alone.err) == (2, True)
    done = project("approve", "last", "ask", "--resume", "--progress", "plain", "--output", "none")
    assert done.code == 0 and "a completed" in done.err and "said" not in done.err
