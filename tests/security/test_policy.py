"""Policies of operator, plan and task hold at lint, at the start of a run, at each effect and over a resumption."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.security.security_desk import Desk

DENIED = 12
WAITS = 8


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def policy(desk: Desk, text: str) -> None:
    desk.write("planrunner.yaml", f"policy: {text}\n")


def test_a_plan_that_can_never_pass_does_not_start_and_the_line_to_add_makes_it_run(desk: Desk) -> None:
    policy(desk, "{capabilities: {allow: [files.read]}}")
    name = desk.plan({"id": "a", "run": f"touch {desk.canary}"})
    for command in ("exec", "lint"):
        done = desk.do(command, name)
        assert done.returncode == (DENIED if command == "exec" else 1)
        said = done.stdout + done.stderr
        assert "policy: {capabilities: {allow: [files.read, shell]}}" in said
    assert not desk.canary.exists()
    policy(desk, "{capabilities: {allow: [files.read, shell]}}")
    desk.do("exec", name, code=0)
    assert desk.canary.exists()


@pytest.mark.parametrize(
    ("said", "task", "rule"),
    [
        ("{capabilities: {deny: [{uses: shell, run: 'touch *'}]}}", {"run": "t=touch; $t CANARY"}, "capabilities.deny"),
        (
            "{capabilities: {deny: [{uses: files.write, with: {path: 'a*'}}]}}",
            {"uses": "files.write", "with": {"path": "{{ params.path }}", "content": "x"}},
            "capabilities.deny",
        ),
        (
            "{files: {write: ['out/**']}}",
            {"uses": "files.write", "with": {"path": "{{ params.path }}", "content": "x"}},
            "files.write",
        ),
        ("{files: {deny: ['secret/**']}}", {"uses": "files.read", "with": {"path": "link"}}, "files.deny"),
        (
            "{files: {deny: ['secret/**']}}",
            {"uses": "http.post", "with": {"url": "http://127.0.0.1:9/", "body_file": "link"}},
            "files.deny",
        ),
        (
            "{network: {allow: [example.org]}}",
            {"uses": "http.get", "with": {"url": "{{ params.url }}"}},
            "network.allow",
        ),
        (
            "{network: {deny: ['127.0.0.0/8']}}",
            {"uses": "http.get", "with": {"url": "{{ params.url }}"}},
            "network.deny",
        ),
    ],
)
def test_what_a_value_decides_is_refused_at_the_effect(desk: Desk, said: str, task: dict, rule: str) -> None:
    policy(desk, said)
    desk.write("secret/a", "x")
    (desk.folder / "link").symlink_to("secret/a")
    told = desk.run(
        {"id": "a", **task},
        params={
            "path": {"type": "string", "default": "abc"},
            "url": {"type": "string", "default": "http://127.0.0.1:9/"},
        },
    )
    if task.get("run"):  # nobody can tell what it runs, so it does not start at all
        assert told.code == DENIED and not told.entries
        return
    assert told.rule("a") == f"policy.{rule}", told.message("a")
    assert told.code == DENIED
    assert not (desk.folder / "abc").exists()


def test_the_task_and_the_plan_only_narrow(desk: Desk) -> None:
    policy(desk, "{network: {allow: [a.example]}}")
    task = {"id": "a", "uses": "http.get", "with": {"url": "https://b.example/"}}
    wide = {"network": {"allow": ["b.example"]}}
    for plan in (desk.plan(task, policy=wide), desk.plan({**task, "policy": wide}, policy=wide)):
        assert "planrunner.yaml does not allow the host b.example" in desk.do("exec", plan, code=DENIED).stderr
    inner = desk.plan({**task, "with": {"url": "https://a.example/"}, "policy": {"network": {"allow": []}}})
    assert "task a does not allow" in desk.do("lint", inner, code=1).stdout


def test_steps_inside_and_linked_plans_are_held_to_what_is_around_them(desk: Desk) -> None:
    desk.write("inner.yaml", "plan: inner\ntasks: [{id: x, run: 'git push', timeout: 1m}]\n")
    rule = {"capabilities": {"deny": [{"uses": "shell", "run": "git push *"}]}}
    name = desk.plan(
        {"id": "linked", "subplan": "inner.yaml", "policy": rule},
        {"id": "loop", "policy": rule, "loop": {"max": 2, "tasks": [{"id": "deep", "run": "git push"}]}},
    )
    said = desk.do("lint", name, code=1).stdout
    assert "`linked/x`: task linked denies" in said and "`loop/deep`: task loop denies" in said


def test_what_is_asked_for_waits_for_a_person_who_sees_the_call(desk: Desk) -> None:
    policy(desk, "{capabilities: {ask: [{uses: shell, run: 'touch *'}]}}")
    name = desk.plan({"id": "a", "run": f"touch {desk.canary}"}, {"id": "b", "run": "true"})
    desk.do("exec", name, code=WAITS)
    gates = json.loads(desk.do("gates", "--json", code=0).stdout)
    assert "touch" in json.dumps(gates) and not desk.canary.exists()
    shown = _shown(gates)
    desk.do("approve", "last", "a", "--shown", shown, code=0)
    desk.do("resume", "last", code=0)
    assert desk.canary.exists()
    desk.do("replay", "last", code=0)


def _shown(value: object) -> str:
    found: list[str] = []

    def look(item: object) -> None:
        if isinstance(item, dict):
            found.extend(str(each) for key, each in item.items() if key == "shown" and each)
            [look(each) for each in item.values()]
        elif isinstance(item, list):
            [look(each) for each in item]

    look(value)
    return found[0]


def test_budgets_and_labels_of_the_operator_bind_every_plan(desk: Desk) -> None:
    policy(desk, "{budgets: {attempts: 1}, gates: {prod: {ask: 'Ship it?'}}}")
    name = desk.plan({"id": "a", "run": "true"}, {"id": "b", "needs": ["a"], "run": "true"}, budgets={"attempts": 9})
    assert desk.do("exec", name).returncode == 6
    name = desk.plan({"id": "c", "run": f"touch {desk.canary}", "labels": ["prod"]})
    done = desk.do("exec", name, code=WAITS)
    assert "Ship it?" in done.stderr + done.stdout and not desk.canary.exists()


def test_a_change_of_policy_holds_over_a_resumption_and_voids_votes(desk: Desk) -> None:
    policy(desk, "{capabilities: {allow: [shell]}}")
    name = desk.plan(
        {"id": "go", "gate": "approval", "ask": "go on?"},
        {"id": "a", "needs": ["go"], "run": f"touch {desk.canary}"},
    )
    desk.do("exec", name, code=WAITS)
    desk.do("approve", "last", "go", "--shown", _shown(json.loads(desk.do("gates", "--json").stdout)), code=0)
    policy(desk, "{capabilities: {allow: [files.read]}}")
    assert "no longer count" not in desk.do("show", "last").stderr
    done = desk.do("resume", "last", code=WAITS)  # the vote was for another policy
    told = next(line for line in done.stderr.splitlines() if "no longer count" in line)
    assert told.startswith("note: the policy has changed: the votes of ")
    assert "at `go` no longer count; vote again: planrunner " in told
    assert "no longer count" not in desk.do("resume", "last", code=WAITS).stderr
    assert any(entry["type"] == "policy_changed" for entry in desk.entries())
    _approve(desk)
    assert desk.do("resume", "last").returncode == DENIED
    assert not desk.canary.exists()
    desk.do("replay", "last", code=0)


def test_a_wider_policy_counts_for_a_run_when_a_person_says_so(desk: Desk) -> None:
    task = {"id": "a", "needs": ["go"], "uses": "files.read", "with": {"path": "{{ params.path }}"}}
    policy(desk, "{files: {deny: [notes]}}")
    desk.write("notes", "x")
    name = desk.plan(
        {"id": "go", "gate": "approval", "ask": "go on?"}, task, params={"path": {"type": "string", "default": "notes"}}
    )
    desk.do("exec", name, code=WAITS)
    policy(desk, "{}")
    desk.do("resume", "last", code=WAITS)
    _approve(desk)
    done = desk.do("resume", "last", code=DENIED)
    assert "planrunner.yaml as it was earlier in the run denies reading notes" in done.stderr
    assert "`--accept-policy`, for `planrunner retry` or `resume`, applies only" in done.stderr

    desk.do("exec", name, code=WAITS)
    policy(desk, "{files: {deny: [notes]}}")
    desk.do("resume", "last", code=WAITS)
    policy(desk, "{}")
    desk.do("resume", "last", "--accept-policy", code=WAITS)
    _approve(desk)
    desk.do("resume", "last", code=0)


@pytest.mark.parametrize("words", [("retry", "last"), ("rerun", "last", "a")], ids=["retry", "rerun"])
def test_a_run_that_failed_for_a_policy_begins_anew_under_a_wider_one(desk: Desk, words: tuple[str, ...]) -> None:
    policy(desk, "{files: {read: []}}")
    desk.write("notes", "x")
    name = desk.plan({"id": "a", "uses": "files.read", "with": {"path": "{{ params.path }}"}}, params={"path": "notes"})
    desk.do("exec", name, code=DENIED)
    policy(desk, "{}")
    refused = desk.do(*words, code=DENIED)
    assert "`--accept-policy`, for `planrunner retry` or `resume`" in refused.stderr
    desk.do(*words, "--accept-policy", code=0)
    assert "policy_changed" in [entry["type"] for entry in desk.entries()]
    desk.do("replay", "last", code=0)


def _approve(desk: Desk) -> None:
    first = desk.do("approve", "last", "go", "--shown", _shown(json.loads(desk.do("gates", "--json").stdout)))
    if first.returncode:  # what was shown was shown under another policy
        assert "look again" in first.stderr
        desk.do("approve", "last", "go", "--shown", _shown(json.loads(desk.do("gates", "--json").stdout)), code=0)


def test_explain_names_the_line_of_every_level(desk: Desk) -> None:
    desk.write("planrunner.yaml", "policy:\n  capabilities:\n    allow: [shell]\n  network: {allow: []}\n")
    desk.write(
        "p.yaml",
        "plan: p\npolicy: {env: {deny: [LD_*]}}\ntasks:\n  - id: a\n    run: make\n    timeout: 1m\n"
        "    policy:\n      capabilities: {deny: [{uses: shell, run: make *}]}\n  - {id: b, run: ls, timeout: 1m}\n",
    )
    done = desk.do("policy", "explain", "p.yaml", code=DENIED)
    assert "(policy.capabilities.deny: {uses: shell, run: make *}, p.yaml:8:29)" in done.stdout
    assert "(policy.capabilities.allow: shell, planrunner.yaml:3:13)" in done.stdout
    assert "env deny: LD_*  (policy.env.deny, p.yaml:2:22)" in done.stdout
    told = json.loads(desk.do("policy", "explain", "p.yaml", "--json", code=DENIED).stdout)
    assert [task["task"] for task in told["tasks"]] == ["a", "b"]
    assert {each["verdict"] for each in told["tasks"][0]["said"]} >= {"deny", "scope"}


def test_explain_says_where_a_call_may_still_be_denied_for_its_values(desk: Desk) -> None:
    deny = "[{uses: shell, run: 'git push *'}, {uses: files.write, with: {path: 'a*'}}]"
    policy(desk, f"{{capabilities: {{deny: {deny}}}, dependencies: [requests]}}")
    name = desk.plan(
        {"id": "braces", "run": "git pu{sh,ll} origin"},
        {"id": "template", "run": "git {{ params.verb }} origin"},
        {"id": "input", "uses": "files.write", "with": {"path": "{{ params.verb }}", "content": "x"}},
        {"id": "package", "run": "pip install {{ params.verb }}"},
        {"id": "plain", "run": "git status {a,b}"},
        params={"verb": "push"},
    )
    done = desk.do("policy", "explain", name, "--json", code=0)
    verdicts = {task["task"]: [each["verdict"] for each in task["said"]] for task in json.loads(done.stdout)["tasks"]}
    open_ = ["braces", "template", "input", "package"]
    assert [task for task, said in verdicts.items() if "open" in said] == open_, verdicts
    text = desk.do("policy", "explain", name, code=0).stdout
    assert "depends on   the values of `shell` `git {{ … }} origin`  (policy.capabilities.deny: " in text


def test_a_rollback_undoes_nothing_of_a_task_that_was_refused_before_it_acted(desk: Desk) -> None:
    policy(desk, "{capabilities: {deny: [{uses: shell, run: 'git push *'}]}}")
    undo = {"run": "echo undone >> undone.txt", "timeout": "1m"}
    told = desk.run(
        {"id": "a", "run": "true", "rollback": undo},
        {"id": "gone", "run": ["no-such-program"], "allow_failure": True, "needs": ["a"], "rollback": undo},
        {"id": "refused", "run": ["git", "{{ params.verb }}"], "needs": ["gone"], "rollback": undo},
        params={"verb": "push"},
        on_failure="rollback",
    )
    assert told.code == DENIED
    assert (desk.folder / "undone.txt").read_text() == "undone\n"
    said = desk.do("show", "last").stdout
    assert "rolled back: 1 step undone" in said
    assert "refused  failed" in said


@pytest.mark.parametrize("entry", ["files.write", "{uses: files.write, with: {path: 'out*'}}"])
def test_what_may_be_called_may_be_undone(desk: Desk, entry: str) -> None:
    policy(desk, f"{{capabilities: {{allow: [{entry}]}}}}")
    desk.run({"id": "a", "uses": "files.write", "with": {"path": "out.txt", "content": "x"}})
    assert (desk.folder / "out.txt").exists()
    desk.do("rollback", "last", code=0)
    assert not (desk.folder / "out.txt").exists()
