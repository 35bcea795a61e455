"""An approval is for what its gate releases in its run: a revision that changes any of it asks again, and takes the
right to decide; so does a fork."""

from __future__ import annotations

from typing import Any

import pytest

PLAN = """
plan: p
defaults: {timeout: 30s}
params: {target: {type: string, default: staging}, other: {type: string, default: one}}
tasks:
  - {id: build, run: "echo build {{ params.other }} >> log"}
  - {id: aside, run: echo aside >> aside}
  - {id: ok, needs: [build], gate: approval, ask: "Deploy?"}
  - {id: deploy, needs: [ok], run: "echo deploy safe {{ params.target }} >> log"}
  - {id: tell, needs: [deploy], run: echo tell >> log}
"""


def log(project: Any) -> list[str]:
    return (project.path / "log").read_text().splitlines()


def gates(project: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = project("gates", "last", "--json").data["gates"]
    return found


def approved(project: Any, text: str = PLAN, gate: str = "ok") -> None:
    """A run whose gate is approved and that has not gone on since."""
    project.plan(text)
    assert project("exec", "p.yaml", "--unattended").code == 8
    assert project("approve", "last", gate, "--as", "ana").code == 0


CHANGES = {
    "the task behind it": ("deploy safe", "deploy EVIL"),
    "one further behind": ("echo tell", "echo TELL"),
    "a task more": ("  - {id: tell", "  - {id: more, needs: [ok], run: echo more >> log}\n  - {id: tell"),
    "a task less": ("  - {id: tell, needs: [deploy], run: echo tell >> log}\n", ""),
    "what it needs": ("id: tell, needs: [deploy]", "id: tell, needs: [deploy, aside]"),
    "how it fails": ("run: echo tell", "allow_failure: true, run: echo tell"),
    "its policy": ("run: echo tell", "policy: {network: deny}, run: echo tell"),
    "the environment of the plan": ("plan: p", "plan: p\nenv: {STAGE: prod}"),
    "the defaults of the plan": ("timeout: 30s", "timeout: 31s"),
    "a parameter that it reads": ("default: staging", "default: prod"),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES.keys())
def test_an_approval_is_void_where_anything_that_the_gate_releases_is_otherwise(
    project: Any, old: str, new: str
) -> None:
    approved(project)
    project.plan(PLAN.replace(old, new))
    assert project("resume", "last", "--plan", "p.yaml", "--unattended").code == 8
    assert not [line for line in log(project) if "build" not in line]
    assert "since ana approved" in gates(project)[0]["again"]
    assert project("approve", "last", "ok", "--as", "ana", "--resume").code == 0
    assert project("replay", "last").code == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("echo aside", "echo beside"),
        ("echo tell >> log}", "echo tell >> log}\n  - {id: more, run: echo more >> more}"),
        ("default: one", "default: one, description: which"),
        ("id: deploy,", "id: deploy, title: Bring it out,"),
        ("plan: p", "plan: p\nmax_parallel: 2"),
    ],
    ids=["a task beside", "a new task beside", "a description", "a title", "how many run at once"],
)
def test_an_approval_stands_where_nothing_that_the_gate_releases_is_otherwise(project: Any, old: str, new: str) -> None:
    approved(project)
    project.plan(PLAN.replace(old, new))
    assert project("resume", "last", "--plan", "p.yaml", "--unattended").code == 0
    assert log(project) == ["build one", "deploy safe staging", "tell"]
    assert project("replay", "last").code == 0


WAYS = (("revise", "last", "p.yaml"), ("resume", "last", "--plan", "p.yaml"), ("retry", "last", "--plan", "p.yaml"))


@pytest.mark.parametrize("way", [*WAYS, ("rerun", "last", "aside", "--plan", "p.yaml")], ids=lambda way: way[0])
def test_every_way_to_revise_a_run_voids_the_approval(project: Any, way: tuple[str, ...]) -> None:
    approved(project)
    project.plan(PLAN.replace("deploy safe", "deploy EVIL"))
    project(*way)
    assert project("resume", "last", "--unattended").code == 8
    assert log(project) == ["build one"]
    assert gates(project)[0]["again"] == "deploy changed since ana approved"


def test_what_a_gate_shows_is_otherwise_before_the_first_vote(project: Any) -> None:
    project.plan(PLAN)
    assert project("exec", "p.yaml", "--unattended").code == 8
    shown = gates(project)[0]["shown"]
    project.plan(PLAN.replace("deploy safe", "deploy EVIL"))
    assert project("revise", "last", "p.yaml").code == 0
    assert gates(project)[0]["shown"] != shown
    assert project("approve", "last", "ok", "--as", "ana", "--shown", shown).code == 10


def test_a_vote_of_two_is_void_between_them(project: Any) -> None:
    text = PLAN.replace('"Deploy?"', '"Deploy?", approvers: {users: [ana, bo, cy], count: 2, starter: true}')
    approved(project, text)
    project.plan(text.replace("deploy safe", "deploy EVIL"))
    assert project("revise", "last", "p.yaml").code == 0
    assert "asks again: deploy changed since ana approved" in project("gates", "last").out
    assert project("approve", "last", "ok", "--as", "bo", "--resume").code == 8
    assert log(project) == ["build one"]
    assert project("replay", "last").code == 0


def test_a_gate_that_was_passed_asks_again_before_the_rest_and_what_is_done_stays_done(project: Any) -> None:
    text = PLAN.replace("echo tell >> log", "echo tell >> log; exit 1")
    approved(project, text)
    assert project("resume", "last", "--unattended").code == 1
    project.plan(text.replace("; exit 1", ""))
    told = project("retry", "last", "--plan", "p.yaml", "--unattended")
    assert (told.code, "ok asks again: tell changed since ana approved" in told.err) == (8, True)
    assert project("approve", "last", "ok", "--as", "ana", "--resume").code == 0
    assert log(project) == ["build one", "deploy safe staging", "tell", "tell"]
    assert project("replay", "last").code == 0


def test_what_ran_under_an_approval_runs_again_under_another_policy_with_its_gate_alone(project: Any) -> None:
    approved(project)
    assert project("resume", "last", "--unattended").code == 0
    project.plan(PLAN.replace("run: echo tell", "policy: {network: deny}, run: echo tell"))
    refused = project("rerun", "last", "tell", "--plan", "p.yaml", "--unattended")
    assert (refused.code, "`tell` comes after the gate `ok`" in refused.err) == (2, True)
    assert project("rerun", "last", "ok", "tell", "--unattended").code == 8
    assert log(project) == ["build one", "deploy safe staging", "tell"]


INNER = """
      - {id: build, run: echo build >> log}
      - {id: ok, needs: [build], gate: approval, ask: "Deploy?"}
      - {id: deploy, needs: [ok], run: echo deploy safe >> log}
"""
NESTED = {
    "subplan": ("  - id: s\n    subplan:" + INNER, "s/ok"),
    "loop": ("  - id: s\n    loop:\n      max: 1\n      tasks:" + INNER.replace("      -", "        -"), "s#1/ok"),
    "items": ("  - id: s\n    foreach: [1]\n    subplan:" + INNER, "s[0]/ok"),
}


@pytest.mark.parametrize(("inner", "gate"), NESTED.values(), ids=NESTED.keys())
@pytest.mark.parametrize("where", ["beside it", "after what holds it"])
def test_a_gate_in_a_container_releases_what_is_after_it_there_and_after_the_container(
    project: Any, inner: str, gate: str, where: str
) -> None:
    text = f"plan: p\ndefaults: {{timeout: 30s}}\ntasks:\n{inner}  - {{id: last, needs: [s], run: echo last >> log}}\n"
    approved(project, text, gate)
    changed = ("deploy safe", "deploy EVIL") if where == "beside it" else ("echo last", "echo LAST")
    project.plan(text.replace(*changed))
    assert project("resume", "last", "--plan", "p.yaml", "--unattended").code == 8
    assert "approved" in gates(project)[0]["again"]
    assert not {"deploy safe", "deploy EVIL"} & set(log(project))
    assert project("approve", "last", gates(project)[0]["gate"], "--as", "ana", "--resume").code == 0
    assert project("replay", "last").code == 0


def test_a_gate_releases_what_a_linked_plan_holds(project: Any) -> None:
    inner = "plan: inner\ndefaults: {timeout: 30s}\ntasks: [{id: work, run: echo safe >> log}]\n"
    (project.path / "inner.yaml").write_text(inner)
    text = (
        "plan: p\ntasks:\n  - {id: ok, gate: approval, ask: 'Deploy?'}\n  - {id: s, needs: [ok], subplan: inner.yaml}\n"
    )
    approved(project, text)
    (project.path / "inner.yaml").write_text(inner.replace("safe", "EVIL"))
    assert project("resume", "last", "--plan", "p.yaml", "--unattended").code == 8
    assert gates(project)[0]["again"] == "s changed since ana approved"


def test_a_choice_an_instruction_and_a_window_are_for_what_they_release_too(project: Any) -> None:
    text = """
plan: p
defaults: {timeout: 30s}
tasks:
  - {id: way, gate: decision, ask: "Which?", options: [{id: a}, {id: b}]}
  - {id: hands, command: unplug the old one by hand}
  - {id: one, gate: approval, ask: "One?", window: w}
  - {id: after, needs: [way, hands, one], run: echo safe >> log}
"""
    project.plan(text)
    assert project("exec", "p.yaml", "--unattended").code == 8
    assert project("answer", "last", "way", "a", "--as", "ana").code == 0
    assert project("approve", "last", "hands", "--as", "ana").code == 0
    assert project("approve", "last", "w", "--as", "ana").code == 0
    project.plan(text.replace("safe", "EVIL"))
    assert project("resume", "last", "--plan", "p.yaml", "--unattended").code == 8
    assert {each["gate"] for each in gates(project)} == {"way", "hands", "one"}
    assert not (project.path / "log").exists()


GONE = {
    "the gate is gone": (
        '  - {id: ok, needs: [build], gate: approval, ask: "Deploy?", WHO}\n  - {id: deploy, needs: [ok]',
        "  - {id: deploy, needs: [build]",
    ),
    "a need is gone": ("id: deploy, needs: [ok]", "id: deploy, needs: [build]"),
    "others decide": ("WHO", "approvers: {users: [eve], starter: true}"),
    "a check decides": ('gate: approval, ask: "Deploy?", WHO', "gate: checks, checks: ['1 == 1']"),
    "it is left out": ("WHO", "when: 'false', WHO"),
}


@pytest.mark.parametrize(("old", "new"), GONE.values(), ids=GONE.keys())
def test_a_gate_is_overruled_by_those_who_may_decide_it(project: Any, old: str, new: str) -> None:
    text, who = PLAN.replace('"Deploy?"', '"Deploy?", WHO'), "approvers: {users: [bo]}"
    project.plan(text.replace("WHO", who))
    assert project("exec", "p.yaml", "--unattended").code == 8
    project.plan(text.replace(old, new).replace("WHO", who))
    refused = project("resume", "last", "--plan", "p.yaml", "--unattended")
    assert (refused.code, "the revision overrules the gate `ok`" in refused.err) == (12, True)
    assert log(project) == ["build one"]
    assert project("revise", "last", "p.yaml", USER="bo").code == 0


LABELLED = """
plan: p
policy: {gates: {prod: {ask: "To production?", approvers: {users: [bo]}}}}
tasks: [{id: deploy, labels: [prod], timeout: 30s, run: echo safe >> log}]
"""
UNLABELLED = {
    "the label of the task": ("labels: [prod], ", ""),
    "what the label demands": ('policy: {gates: {prod: {ask: "To production?", approvers: {users: [bo]}}}}\n', ""),
    "the task": ("id: deploy, labels: [prod]", "id: other"),
}


@pytest.mark.parametrize(("old", "new"), UNLABELLED.values(), ids=UNLABELLED)
def test_a_gate_of_a_label_is_taken_away_by_those_who_may_decide_it_and_waits_no_more(
    project: Any, old: str, new: str
) -> None:
    project.plan(LABELLED)
    assert project("exec", "p.yaml", "--unattended").code == 8
    project.plan(LABELLED.replace(old, new))
    if "other" not in new:
        assert project("resume", "last", "--plan", "p.yaml", "--unattended").code == 12
    assert project("revise", "last", "p.yaml", USER="bo").code == 0
    assert gates(project) == []
    assert project("resume", "last", "--unattended").code == 0
    assert log(project) == ["safe"]
    assert project("replay", "last").code == 0


INSIDE = {
    "a fan-out": "{id: all, foreach: [a, b], labels: [prod], timeout: 30s, run: echo safe >> log}",
    "a loop": "{id: all, loop: {max: 1, tasks: [BODY]}}",
    "a subplan": "{id: all, subplan: [BODY]}",
}
BODY = "{id: deploy, labels: [prod], timeout: 30s, run: echo safe >> log}"


@pytest.mark.parametrize("task", INSIDE.values(), ids=INSIDE)
def test_a_gate_of_a_label_inside_another_task_waits_no_more(project: Any, task: str) -> None:
    text = LABELLED.partition("tasks:")[0] + f"tasks: [{task.replace('BODY', BODY)}]\n"
    project.plan(text)
    assert project("exec", "p.yaml", "--unattended").code == 8, project("lint", "p.yaml").out
    project.plan(text.replace("labels: [prod], ", ""))
    assert project("revise", "last", "p.yaml", USER="bo").code == 0
    assert project("resume", "last", "--unattended").code == 0
    assert set(log(project)) == {"safe"}
    assert project("replay", "last").code == 0


def test_an_approval_is_void_where_the_runner_was_killed_before_the_revision(project: Any) -> None:
    kills = "test -e once || { touch once; kill -9 $PPID; sleep 60; }"
    text = PLAN.replace("id: deploy, needs: [ok]", "id: deploy, needs: [ok, dies]").replace(
        "  - {id: deploy", f'  - {{id: dies, needs: [ok], effect: idempotent, run: "{kills}"}}\n  - {{id: deploy'
    )
    approved(project, text)
    assert project("resume", "last", "--unattended").code == -9
    project.plan(text.replace("deploy safe", "deploy EVIL"))
    assert project("revise", "last", "p.yaml").code == 0
    assert project("resume", "last", "--unattended").code == 8
    assert log(project) == ["build one"]
    assert gates(project)[0]["again"] == "deploy changed since ana approved"
    assert project("approve", "last", "ok", "--as", "ana", "--resume").code == 0
    assert log(project) == ["build one", "deploy EVIL staging", "tell"]
    assert project("replay", "last").code == 0


def test_settings_that_bind_no_run_do_not_void_what_was_shown(project: Any) -> None:
    settings = project.path / "planrunner.yaml"
    settings.write_text("scheduler: {max_concurrency: 2}\n")
    project.plan(PLAN)
    assert project("exec", "p.yaml", "--unattended").code == 8
    shown = gates(project)[0]["shown"]
    settings.write_text("scheduler: {max_concurrency: 3}\ntelemetry: {traces: false}\n")
    assert project("approve", "last", "ok", "--as", "ana", "--shown", shown).code == 0


@pytest.mark.parametrize("words", [(), ("last",)], ids=["of all runs", "of one run"])
def test_the_digest_that_is_read_is_the_one_that_is_taken(project: Any, words: tuple[str, ...]) -> None:
    def listed() -> dict[str, Any]:
        found: dict[str, Any] = project("gates", *words, "--json").data["gates"][0]
        return found

    (project.path / "notes").write_text("one\n")
    project.plan(PLAN.replace('"Deploy?"', '"Deploy?", evidence: [notes]'))
    assert project("exec", "p.yaml", "--unattended").code == 8
    shown = listed()["shown"]
    (project.path / "notes").write_text("two\n")
    now = listed()
    assert (now["shown"] != shown, now["evidence"][0]["text"]) == (True, "two\n")
    assert project("approve", "last", "ok", "--as", "ana", "--shown", shown).code == 10
    (project.path / "notes").write_text("three\n")
    shown = listed()["shown"]
    assert project("approve", "last", "ok", "--as", "ana", "--shown", shown, "--resume").code == 0
    assert project("replay", "last").code == 0


def test_gates_of_several_runs_show_what_each_of_them_is_about(project: Any) -> None:
    for name in ("one", "two"):
        (project.path / name).write_text(f"{name}\n")
        project.plan(PLAN.replace('"Deploy?"', f'"Deploy?", evidence: [{name}]'))
        assert project("exec", "p.yaml", "--unattended").code == 8
    (project.path / "one").write_text("other\n")
    found = project("gates", "--json").data["gates"]
    assert {each["evidence"][0]["text"] for each in found} == {"other\n", "two\n"}


FORKED = """
plan: p
defaults: {timeout: 30s}
params: {target: {type: string, default: staging}}
tasks:
  - {id: build, run: echo build >> log}
  - {id: ok, needs: [build], gate: approval, ask: "Deploy?"}
  - {id: first, needs: [ok], run: echo first >> log}
  - {id: deploy, needs: [first], run: "echo deploy {{ params.target }} >> log"}
"""


@pytest.mark.parametrize("way", [(), ("-p", "target=EVIL")], ids=["as it is", "with another parameter"])
@pytest.mark.parametrize("place", ["ok", "first"])
def test_after_a_fork_a_gate_that_releases_what_is_still_to_run_asks_again(
    project: Any, place: str, way: tuple[str, ...]
) -> None:
    approved(project, FORKED)
    assert project("resume", "last", "--unattended").code == 0
    assert project("fork", "last", "--from", place, *way).code == 0
    assert project("resume", "last", "--unattended").code == 8
    assert log(project) == ["build", "first", "deploy staging"]
    assert gates(project)[0]["again"] == "the run changed since ana approved"
    assert project("approve", "last", "ok", "--as", "bo", "--resume").code == 0
    target = "EVIL" if way else "staging"
    again = ["first", f"deploy {target}"] if place == "ok" else [f"deploy {target}"]
    assert log(project) == ["build", "first", "deploy staging", *again]
    assert project("replay", "last").code == 0


def test_after_a_fork_at_an_entry_the_gate_asks_again(project: Any) -> None:
    approved(project, FORKED)
    assert project("resume", "last", "--unattended").code == 0
    entries = project("events", "last", "--json").out.splitlines()
    decided = next(number for number, line in enumerate(entries) if '"gate_decided"' in line)
    assert project("fork", "last", "--at", str(decided)).code == 0
    assert project("resume", "last", "--unattended").code == 8
    assert gates(project)[0]["gate"] == "ok"


def test_after_a_fork_a_gate_stands_whose_work_is_done(project: Any) -> None:
    approved(
        project, FORKED + '  - {id: other, gate: approval, ask: "Tell?"}\n  - {id: tell, needs: [other], run: "true"}\n'
    )
    assert project("resume", "last", "--unattended").code == 8
    assert project("fork", "last", "--from", "deploy").code == 0
    assert project("resume", "last", "--unattended").code == 8
    assert [each["gate"] for each in gates(project)] == ["other"]


@pytest.mark.parametrize(("inner", "gate"), NESTED.values(), ids=NESTED.keys())
def test_after_a_fork_a_gate_in_a_container_asks_again(project: Any, inner: str, gate: str) -> None:
    text = f"plan: p\ndefaults: {{timeout: 30s}}\ntasks:\n{inner}  - {{id: last, needs: [s], run: echo last >> log}}\n"
    approved(project, text, gate)
    assert project("resume", "last", "--unattended").code == 0
    done = log(project)
    for place in (gate, "s"):
        assert project("fork", "last", "--from", place).code == 0
        assert project("resume", "last", "--unattended").code == 8
        assert log(project) == done
        waiting = gates(project)
        assert [each["again"] for each in waiting] == ["the run changed since ana approved"]
        assert project("approve", "last", waiting[0]["gate"], "--as", "ana", "--resume").code == 0
        done = log(project)
        assert project("replay", "last").code == 0


def test_after_a_fork_a_label_gate_of_a_container_asks_again(project: Any) -> None:
    text = """
plan: p
policy: {gates: {prod: {ask: "To production?"}}}
defaults: {timeout: 30s}
tasks:
  - id: s
    labels: [prod]
    subplan:
      - {id: one, run: echo one >> log}
      - {id: two, needs: [one], run: echo two >> log}
"""
    approved(project, text, "s")
    assert project("resume", "last", "--unattended").code == 0
    assert project("fork", "last", "--from", "s/one").code == 0
    assert project("resume", "last", "--unattended").code == 8
    assert log(project) == ["one", "two"]
    assert project("approve", "last", "s", "--as", "ana", "--resume").code == 0
    assert log(project) == ["one", "two", "two"]
    assert project("replay", "last").code == 0


def test_after_a_fork_the_checks_of_a_gate_are_made_again(project: Any) -> None:
    text = FORKED.replace('gate: approval, ask: "Deploy?"', "gate: checks, checks: [params.target == 'staging']")
    project.plan(text)
    assert project("exec", "p.yaml", "--unattended").code == 0
    assert project("fork", "last", "--from", "ok", "-p", "target=EVIL").code == 0
    assert project("resume", "last", "--unattended").code != 0
    assert log(project) == ["build", "first", "deploy staging"]


def test_a_run_is_not_forked_where_work_behind_a_gate_is_in_doubt(project: Any) -> None:
    approved(project, FORKED.replace("echo first >> log", "echo first >> log; kill -9 $PPID; sleep 1"))
    project("resume", "last", "--unattended")
    assert project("resume", "last", "--unattended").code == 8
    entries = project("events", "last", "--json").out.splitlines()
    refused = project("fork", "last", "--at", str(len(entries) - 1))
    assert (refused.code, "`first` is in doubt, and comes after a gate that asks again" in refused.err) == (2, True)


IN_ENV = {
    "env": "env: {T: '{{ params.target }}'}",
    "a label gate": "policy: {gates: {prod: {ask: 'For {{ params.target }}?'}}}",
}


@pytest.mark.parametrize("line", IN_ENV.values(), ids=IN_ENV.keys())
def test_an_approval_is_for_the_values_that_the_plan_itself_reads(project: Any, line: str) -> None:
    text = PLAN.replace("plan: p", f"plan: p\n{line}").replace("safe {{ params.target }}", "$T")
    approved(project, text)
    assert project("resume", "last", "--plan", "p.yaml", "-p", "target=EVIL", "--unattended").code == 8
    assert log(project) == ["build one"] * (2 if "env:" in line else 1)
    assert "since ana approved" in gates(project)[0]["again"]
    assert project("approve", "last", "ok", "--as", "ana", "--resume").code == 0
    assert project("replay", "last").code == 0


def test_an_approval_is_for_the_version_of_the_plan_that_tasks_read(project: Any) -> None:
    text = PLAN.replace("plan: p", "plan: p\nversion: one").replace("params.target", "plan.version")
    approved(project, text)
    project.plan(text.replace("version: one", "version: two"))
    assert project("resume", "last", "--plan", "p.yaml", "--unattended").code == 8


def test_an_approval_is_for_the_values_that_the_environment_around_a_linked_plan_reads(project: Any) -> None:
    inner = """
plan: inner
params: {target: {type: string}}
env: {T: "{{ params.target }}"}
defaults: {timeout: 30s}
tasks:
  - {id: ok, gate: approval, ask: "Deploy?"}
  - {id: work, needs: [ok], run: "echo deploy $T >> log"}
"""
    (project.path / "inner.yaml").write_text(inner)
    text = """
plan: p
params: {target: {type: string, default: staging}}
tasks:
  - {id: s, subplan: inner.yaml, params: {target: "{{ params.target }}"}}
"""
    approved(project, text, "s/ok")
    assert project("resume", "last", "--plan", "p.yaml", "-p", "target=EVIL", "--unattended").code == 8
    assert not (project.path / "log").exists()
    assert len(gates(project)) == 1


def test_a_completed_task_runs_again_where_the_environment_of_the_plan_has_another_value(project: Any) -> None:
    project.plan("""
plan: p
env: {T: "{{ params.target }}"}
params: {target: {type: string, default: staging}}
defaults: {timeout: 30s}
tasks:
  - {id: one, run: "echo $T >> log"}
  - {id: s, subplan: [{id: two, run: "echo $T >> log", needs: []}], needs: [one]}
  - {id: ok, needs: [s], gate: approval, ask: "Go on?"}
""")
    assert project("exec", "p.yaml", "--unattended").code == 8
    assert project("resume", "last", "--plan", "p.yaml", "-p", "target=prod", "--unattended").code == 8
    assert log(project) == ["staging", "staging", "prod", "prod"]


SAFE, READ = "run: echo deploy safe >> log", 'run: "echo deploy {{ params.target }} >> log"'
READS = {name: (inner.replace(SAFE, READ), gate) for name, (inner, gate) in NESTED.items()}


@pytest.mark.parametrize(("inner", "gate"), READS.values(), ids=READS.keys())
@pytest.mark.parametrize("voted", [True, False], ids=["approved", "waiting"])
def test_a_container_that_opens_again_leaves_one_gate_that_asks(
    project: Any, inner: str, gate: str, voted: bool
) -> None:
    text = (
        "plan: p\nparams: {target: {type: string, default: staging}}\ndefaults: {timeout: 30s}\n"
        f"tasks:\n{inner}  - {{id: last, needs: [s], run: echo last >> log}}\n"
    )
    project.plan(text)
    assert project("exec", "p.yaml", "--unattended").code == 8
    if voted:
        assert project("approve", "last", gate, "--as", "ana").code == 0
    assert project("resume", "last", "--plan", "p.yaml", "-p", "target=X", "--unattended").code == 8
    (waiting,) = gates(project)
    assert ("since ana approved" in waiting["again"]) == voted
    assert project("approve", "last", waiting["gate"], "--as", "ana", "--resume").code == 0
    assert [line for line in log(project) if line != "build"] == ["deploy X", "last"]
    assert project("replay", "last").code == 0


def test_another_time_to_decide_leaves_an_approval_as_it_is(project: Any) -> None:
    text = PLAN.replace('"Deploy?"', '"Deploy?", expires: 1h')
    approved(project, text)
    project.plan(text.replace("1h", "2h"))
    assert project("resume", "last", "--plan", "p.yaml", "--unattended").code == 0
    assert log(project) == ["build one", "deploy safe staging", "tell"]


def test_another_time_to_decide_holds_for_a_gate_that_waits(project: Any) -> None:
    text = PLAN.replace('"Deploy?"', '"Deploy?", expires: 1h')
    project.plan(text)
    assert project("exec", "p.yaml", "--unattended").code == 8
    before = gates(project)[0]["expires"]
    project.plan(text.replace("1h", "2h"))
    assert project("resume", "last", "--plan", "p.yaml", "--unattended").code == 8
    assert gates(project)[0]["expires"] > before
