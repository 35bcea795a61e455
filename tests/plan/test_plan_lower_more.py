"""Lowering of what holds tasks, waits, saves and undoes: each key to its field, and both notations alike."""

from __future__ import annotations

import pytest
from plan_loading import CORPUS, errors, loaded, task_of

from planrunner.plan.identity import digest
from planrunner.plan.model import (
    Approvers,
    Axis,
    Breaker,
    Budgets,
    Gate,
    Plan,
    Reject,
    Retry,
    RollbackPolicy,
    Watch,
)
from planrunner.source import Span
from planrunner.syntax.notations import write

NOWHERE = Span(0, 0)


def plan_of(head: str) -> Plan:
    result = loaded(f"plan: p\n{head}tasks:\n  - {{id: a, uses: noop}}\n")
    assert result.plan is not None, errors(result)
    return result.plan


def test_the_whole_language_means_the_same_in_every_notation() -> None:
    path = CORPUS / "ok" / "whole-language.yaml"
    first = loaded(path.read_text())
    assert first.plan is not None and first.tree is not None
    for notation, name in (("text", "x.plan"), ("json", "x.json"), ("yaml", "x.yaml")):
        text = write(first.tree, notation)
        again = loaded(text, name)
        assert again.plan is not None, errors(again)
        assert digest(again.plan) == digest(first.plan), notation


def test_a_timebox_is_its_own_field_and_ends_no_later_than_the_attempts() -> None:
    task = task_of("run: ls\ntimebox: 10m\nheartbeat: 30s\nwatchdog: [{after: 1m, do: warn}, {after: 2m, do: cancel}]")
    assert (task.timebox, task.timeout, task.heartbeat) == (600.0, 600.0, 30.0)
    assert task.watchdog == (Watch(60.0, "warn"), Watch(120.0, "cancel"))


def test_heartbeat_and_watchdog_may_be_defaults() -> None:
    task = task_of("run: ls", "defaults: {heartbeat: 1m, watchdog: [{after: 5m, do: ask}]}\n")
    assert (task.heartbeat, task.watchdog) == (60.0, (Watch(300.0, "ask"),))


@pytest.mark.parametrize("kind", ["subplan: [INNER]", "loop: {max: 2, tasks: [INNER]}"])
def test_environment_directory_and_interpreter_hold_for_the_tasks_inside(kind: str) -> None:
    inner = "{id: own, run: ls, env: {B: inner}, cwd: deeper}, {id: plain, run: ls}"
    task = task_of(f"{kind.replace('INNER', inner)}\nenv: {{A: outer, B: outer}}\ncwd: sub\nshell: bash")
    own, plain = task.subplan or task.loop.tasks
    assert (dict(own.env), own.cwd, own.shell) == ({"A": "outer", "B": "inner"}, "deeper", "bash")
    assert (dict(plain.env), plain.cwd, plain.shell) == ({"A": "outer", "B": "outer"}, "sub", "bash")


def test_an_action_has_retries_a_timeout_and_a_script_of_its_own() -> None:
    task = task_of(
        'run: ls\nrollback: {run: "rm {{ params.x }}", retry: 3, timeout: 1m}', "params: {x: {default: f}}\n"
    )
    action = task.rollback
    assert (action.uses, action.retry, action.timeout) == ("shell", Retry(3), 60.0)
    assert action.script.values and action.script.values[0][1] == "{{ params.x }}"


def test_a_task_may_be_fresh_and_backed_up() -> None:
    task = task_of("run: ls\nbackup: conf.yaml\nfresh: {inputs: [src], outputs: build, when: host.cpus > 1}")
    assert task.backup == ("conf.yaml",)
    assert (task.fresh.inputs, task.fresh.outputs, task.fresh.condition.text) == (("src",), ("build",), "host.cpus > 1")


def test_a_budget_warns_and_says_what_happens_at_its_end() -> None:
    assert plan_of("budgets: {cost: $2, warn: 80%, on_exhausted: gate}\n").budgets == Budgets(
        cost=2.0, warn=0.8, on_exhausted="gate"
    )


def test_a_loop_has_a_breaker_and_checkpoints() -> None:
    loop = task_of("loop: {max: 9, breaker: 2, checkpoint: 3, tasks: [{id: x, uses: noop}]}").loop
    assert (loop.max, loop.breaker, loop.checkpoint) == (9, 2, 3)


def test_axes_of_a_matrix_are_lists_or_expressions() -> None:
    fanout = task_of("uses: noop\nmatrix: {os: [a, b], py: params.x, exclude: [{os: a}]}", "params: {x: [1]}\n").fanout
    assert fanout.axes[0] == Axis("os", ["a", "b"])
    assert (fanout.axes[1].name, fanout.axes[1].expression.text) == ("py", "params.x")
    assert fanout.matrix["exclude"] == [{"os": "a"}]


@pytest.mark.parametrize(
    ("written", "reject"),
    [
        ("fail", Reject()),
        ("b", Reject("task", "b")),
        ("{to: b}", Reject("task", "b")),
        ("{rework: b, max: 2}", Reject("rework", "b", 2)),
    ],
)
def test_what_a_rejection_leads_to(written: str, reject: Reject) -> None:
    needs = "needs: [b]\n" if "rework" in written else ""
    task = task_of(f"gate: approval\n{needs}on_reject: {written}")
    assert task.gate.on_reject._replace(span=NOWHERE) == reject
    edges = [(edge.target, edge.on, edge.failure_class) for edge in task.edges]
    assert edges == ([("b", "failure", "rejected")] if reject.action == "task" else [])


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("{roles: [ops], count: 2}", Approvers(("ops",), (), 2, True)),
        ("{users: [ann], starter: true}", Approvers((), ("ann",), 1, False)),
        ("[ann, bob]", Approvers((), ("ann", "bob"), 1, True)),
        ("ann", Approvers((), ("ann",), 1, True)),
    ],
)
def test_who_decides(written: str, found: Approvers) -> None:
    gate = task_of(f"gate: approval\napprovers: {written}\non_expiry: escalate\nescalate: {written}").gate
    assert Approvers(gate.roles, gate.people, gate.need, gate.not_starter) == found
    assert gate.escalate == found


def test_without_approvers_anybody_decides_the_starter_too() -> None:
    gate = task_of("gate: approval").gate
    assert (gate.roles, gate.people, gate.need, gate.not_starter) == ((), (), 1, False)


def test_options_are_typed_and_lead_to_tasks() -> None:
    task = task_of("gate: decision\noptions: [{id: go, title: Go, pros: [fast], cons: dear, cost: $5, to: b}, wait]")
    first, second = task.gate.options
    assert (first.name, first.title, first.pros, first.cons, first.cost) == ("go", "Go", ("fast",), ("dear",), "$5")
    assert (first.target, second.name, second.target) == ("b", "wait", "")
    [edge] = task.edges
    assert (edge.target, edge.on, edge.condition.text) == ("b", "condition", 'outputs.choice == "go"')


def test_a_form_declares_its_fields_as_parameters() -> None:
    [field] = task_of("gate: approval\nform: {percent: {type: int, default: 10, choices: [10, 50]}}").gate.form
    assert (field.name, field.type, field.default, field.choices) == ("percent", "int", 10, (10, 50))


@pytest.mark.parametrize(
    ("written", "on", "failure"),
    [
        ("on_failure: {rework: b, max: 2}", "failure", ""),
        ("next: [{on: transient, rework: b, max: 2}]", "failure", "transient"),
        ("next: [{on: always, rework: b, max: 2}]", "always", ""),
    ],
)
def test_an_edge_may_send_the_run_back(written: str, on: str, failure: str) -> None:
    [edge] = task_of(f"uses: noop\nneeds: [b]\n{written}").edges
    assert (edge.target, edge.on, edge.failure_class, edge.rework, edge.max) == ("b", on, failure, True, 2)


def test_an_edge_leads_on_or_back_not_both() -> None:
    result = loaded(
        "plan: p\ntasks:\n  - {id: a, uses: noop}\n  - {id: b, uses: noop, needs: [a], on_failure: {to: a, rework: a, max: 1}}\n"
    )
    assert "PLAN009 `rework` and `to` exclude each other, keep one" in errors(result)


def test_how_a_plan_is_undone() -> None:
    plan = plan_of("on_failure: rollback\nrollback: {mode: strict, only: a, budgets: {time: 1m}}\n")
    assert plan.rollback == RollbackPolicy("strict", ("a",), Budgets(time=60.0))
    assert plan_of("rollback: {}\n").rollback == RollbackPolicy()


def test_breakers_have_defaults() -> None:
    plan = plan_of('breakers: [{uses: "http.*", failures: 2, cooldown: 10s}, {uses: sleep}]\n')
    assert [breaker._replace(span=NOWHERE) for breaker in plan.breakers] == [
        Breaker("http.*", 2, 10.0),
        Breaker("sleep"),
    ]


@pytest.mark.parametrize(("written", "seconds"), [("2h", 7200.0), ("2026-12-31", None), ("before lunch", None)])
def test_a_deadline_is_a_duration_or_a_note(written: str, seconds: float | None) -> None:
    plan = plan_of(f"deadline: {written}\n")
    assert plan.deadline == seconds
    assert (plan.notes is None) == (seconds is not None)


def test_labels_with_gates_come_from_three_keys_of_the_policy() -> None:
    plan = plan_of(
        "policy: {labels: {spend: decision}, requireGateForProd: true, gates: {wipe: {ask: Sure, approvers: {roles: [dba]}}}}\n"
    )
    assert plan.gated == (
        ("spend", Gate("decision")),
        ("prod", Gate()),
        ("wipe", Gate(ask="Sure", roles=("dba",), not_starter=True)),
    )
    assert plan_of("policy: {labels: [prod]}\n").gated == (("prod", Gate()),)


def test_names_of_items_and_rounds_make_criteria_expressions() -> None:
    task = task_of(
        "uses: noop\nforeach: [1]\nas: host\nexpect: [host != 2, index < 3]\n",
    )
    assert [criterion.expression is not None for criterion in task.expect] == [True, True]
    inner = task_of(
        "loop: {max: 2, tasks: [{id: x, uses: noop, expect: [loop.round < 3, index is fresh]}]}"
    ).loop.tasks[0]
    assert [criterion.expression is not None for criterion in inner.expect] == [True, False]


def test_subplans_by_name_have_what_plans_have() -> None:
    result = loaded(
        "plan: p\ntasks: [{id: a, subplan: s, params: {x: 2}, timeout: 1m}]\n"
        "subplans: {s: {title: S, params: {x: 1}, on_failure: continue, defaults: {timeout: 9s}, budgets: {time: 1m}, "
        'tasks: [{id: t, run: "echo {{ params.x }}"}], finally: [{id: f, uses: noop}], outputs: {o: "{{ tasks.t.stdout }}"}}}\n'
    )
    assert result.plan is not None, errors(result)
    sub = result.plan.tasks[0].sub
    assert sub is not None
    assert (sub.id, sub.title, sub.on_failure, sub.file) == ("s", "S", "continue", "")
    assert [(task.id, task.timeout, task.finally_) for task in sub.tasks] == [("t", 9.0, False), ("f", 9.0, True)]
    assert (sub.budgets.time, sub.outputs[0].name, sub.params[0].default) == (60.0, "o", 1)


def test_who_needs_a_member_has_the_family_as_its_need_and_the_member_in_its_join() -> None:
    result = loaded(
        "plan: p\ntasks:\n  - {id: dive-*, foreach: '[1, 2]', uses: noop}\n  - {id: dive-in, uses: noop}\n"
        "  - {id: a, uses: noop, needs: [dive-1, dive-2, dive-in]}\n  - {id: b, uses: noop, needs: [dive-*]}\n"
    )
    assert result.plan is not None, errors(result)
    assert [task.needs for task in result.plan.tasks[2:]] == [("dive-*", "dive-in"), ("dive-*",)]
    assert [task.join.named for task in result.plan.tasks[2:]] == [("dive-1", "dive-2", "dive-in"), ()]


def test_an_entry_that_excludes_by_an_axis_the_matrix_lacks_is_an_error() -> None:
    text = "plan: p\ntasks:\n  - {id: a, matrix: {os: [linux], exclude: [{oss: linux}]}, uses: noop}\n"
    found = [one for one in loaded(text).findings if one.code == "PLAN006"]
    assert [text[one.span.start : one.span.end] for one in found] == ["oss"]
    assert "no axis `oss`" in found[0].message


@pytest.mark.parametrize(
    ("matrix", "place", "message"),
    [
        (
            'python: [3.11, 3.12], exclude: [{python: "3.11"}]',
            '"3.11"',
            'excludes nothing: the axis `python` has the number 3.11, not the text "3.11"',
        ),
        ("os: [linux, mac], exclude: [{os: linx}]", "linx", 'no value "linx", did you mean `linux`?'),
        ("os: [linux, mac], exclude: [{os: windows}]", "windows", 'the axis `os` has no value "windows"'),
        (
            'python: ["3.11"], include: [{python: 3.11, old: true}]',
            "3.11",
            'adds to no combination: the axis `python` has the text "3.11", not the number 3.11',
        ),
    ],
)
def test_an_entry_with_a_value_that_its_axis_does_not_have_is_an_error(matrix: str, place: str, message: str) -> None:
    text = f"plan: p\ntasks:\n  - {{id: a, matrix: {{{matrix}}}, uses: noop}}\n"
    [found] = loaded(text).findings
    assert (found.code, text[found.span.start : found.span.end]) == ("PLAN006", place)
    assert message in found.message


@pytest.mark.parametrize(
    "matrix",
    [
        "os: [a, b], exclude: [{os: a}], include: [{os: c}]",
        "os: params.x, exclude: [{os: a}]",
        "os: [a, '{{ params.x }}'], exclude: [{os: c}]",
        "os: [a], exclude: [{os: '{{ params.x }}'}]",
        "n: [1, 2.5], exclude: [{n: 1.0}]",
    ],
)
def test_an_entry_that_fits_or_may_fit_has_no_finding(matrix: str) -> None:
    text = f"plan: p\nparams: {{x: [1]}}\ntasks:\n  - {{id: a, matrix: {{{matrix}}}, uses: noop}}\n"
    assert [one for one in loaded(text).findings if one.code == "PLAN006"] == []


@pytest.mark.parametrize("items", ["matrix: {v: [3.9, 3.10, 1.0]}", "foreach: [3.9, 3.10]"])
def test_a_number_that_loses_its_last_zero_is_a_warning_that_quotes_mend(items: str) -> None:
    text = f"plan: p\ntasks:\n  - {{id: a, {items}, uses: noop}}\n"
    [found] = loaded(text).findings
    assert (found.code, text[found.span.start : found.span.end]) == ("PLAN010", "3.10")
    assert "reads as the number 3.1" in found.message
    assert found.fix is not None and found.fix.edits[0].text == '"3.10"'
