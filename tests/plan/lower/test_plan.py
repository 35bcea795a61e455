"""Lowering: what each key of the language becomes in the plan that the machine sees."""

from __future__ import annotations

import json
from typing import Any

import pytest
from plan_loading import errors, loaded, task_of
from rows import rows

from planrunner.plan import keys, schema
from planrunner.plan.canonical import PLAN_ALIASES, TASK_ALIASES
from planrunner.plan.model import Action, Artifact, Budgets, Edge, Join, Output, Param, Plan, Retry, Script, Task
from planrunner.source import Span


def plan_of(text: str) -> Plan:
    result = loaded(text)
    assert result.plan is not None, errors(result)
    return result.plan


def plan_with(head: str) -> Plan:
    return plan_of(f"plan: p\n{head}\ntasks:\n  - {{id: a, uses: noop}}\n")


def bare(value: Any) -> Any:
    """A record without its places."""
    return value._replace(span=(0, 0))


def test_no_key_of_the_schema_gets_lost_in_lowering() -> None:
    properties = schema.published()
    task = properties["definitions"]["task"]["properties"]
    known = {*(row.name for row in keys.TASK.keys), *TASK_ALIASES}
    assert task.keys() | properties["definitions"]["service"]["properties"].keys() == known
    assert properties["properties"].keys() == {*(row.name for row in keys.PLAN.keys), *PLAN_ALIASES}


def test_a_run_without_a_capability_is_a_shell_command() -> None:
    task = task_of("run: |\n  echo one\n  echo two")
    assert (task.uses, task.run) == ("shell", "echo one\necho two")


def test_an_instruction_may_name_the_capability_that_carries_it_out() -> None:
    task = task_of("uses: noop\ncommand: |\n  look around")
    assert (task.uses, task.command, task.run) == ("noop", "look around", None)


def test_a_list_is_a_command_without_a_shell() -> None:
    assert task_of("run: [git, log, -n, 5, true]").run == ("git", "log", "-n", "5", "true")


@rows(("word", "number"), [("low", -10), ("normal", 0), ("high", 10), ("critical", 20), ("7", 7), ("-3", -3)])
def test_priorities_are_numbers(word: str, number: int) -> None:
    assert task_of(f"uses: noop\npriority: {word}").priority == number


@rows(
    ("needs", "ids"),
    [("b", ("b",)), ("[b]", ("b",)), ("[b, b]", ("b",)), ("[]", ()), ("b c", ("b", "c")), ("b, c", ("b", "c"))],
)
def test_needs_are_ids_however_they_are_written(needs: str, ids: tuple[str, ...]) -> None:
    plan = plan_of(
        f"plan: p\ntasks:\n  - id: a\n    uses: noop\n    needs: {needs}\n  - {{id: b, uses: noop}}\n  - {{id: c, uses: noop}}\n"
    )
    assert plan.tasks[0].needs == ids and plan.tasks[0].join == Join()


def test_needs_as_an_expression_give_ids_and_a_join() -> None:
    plan = plan_of(
        "plan: p\ntasks:\n  - {id: test, uses: noop}\n  - {id: lint, uses: noop}\n  - {id: sign-off, uses: noop}\n"
        "  - id: ship\n    uses: noop\n    needs: test.ok and (lint.ok or lint.skipped) and tasks.sign-off.status == 'completed'\n"
    )
    ship = plan.tasks[-1]
    assert ship.needs == ("test", "lint", "sign-off")
    assert ship.join.kind == "expression" and ship.join.expression is not None
    assert ship.join.expression.text.startswith("test.ok and (lint.ok")


@rows("word", ["all", "any", "always", "all_done", "all_failed", "one_failed", "none_failed"])
def test_joins_by_word(word: str) -> None:
    assert bare(task_of(f"uses: noop\nneeds: [b]\njoin: {word}").join) == bare(Join(word))  # type: ignore[arg-type]


def test_a_join_by_count_and_a_join_by_expression() -> None:
    counted = task_of("uses: noop\nneeds: [b]\njoin: {at_least: 1}").join
    assert (counted.kind, counted.count) == ("at_least", 1)
    written = task_of("uses: noop\nneeds: [b]\njoin: b.ok or b.failed").join
    assert written.kind == "expression" and written.expression.paths == (("b", "ok"), ("b", "failed"))


@rows(
    ("body", "edges"),
    [
        ("on_success: b", [Edge("b", "success")]),
        ("on_failure: b", [Edge("b", "failure")]),
        ("on_failure: {to: b, recovers: true}", [Edge("b", "failure", recovers=True)]),
        (
            "on_failure: [b, {to: b, class: transient}]",
            [Edge("b", "failure"), Edge("b", "failure", failure_class="transient")],
        ),
        ("next: b", [Edge("b", "success")]),
        ("next: [{on: success, to: b}, {on: failure, to: b}]", [Edge("b", "success"), Edge("b", "failure")]),
        ("next: [{on: always, to: b}]", [Edge("b", "always")]),
        (
            "next: [{on: timeout, to: b, recovers: true}]",
            [Edge("b", "failure", failure_class="timeout", recovers=True)],
        ),
    ],
)
def test_edges_of_all_kinds(body: str, edges: list[Edge]) -> None:
    assert [bare(edge) for edge in task_of(f"uses: noop\n{body}").edges] == [bare(edge) for edge in edges]


def test_conditions_of_edges_are_expressions() -> None:
    success, nxt = task_of(
        "uses: noop\non_success: {to: b, when: outputs.value > 1}\nnext: [{to: b, when: outputs.value < 1}]"
    ).edges
    assert (success.on, success.condition.text) == ("success", "outputs.value > 1")
    assert (nxt.on, nxt.condition.text) == ("condition", "outputs.value < 1")


def test_the_order_of_edges_does_not_depend_on_the_order_of_keys() -> None:
    one = task_of("uses: noop\non_success: b\non_failure: b").edges
    two = task_of("uses: noop\non_failure: b\non_success: b").edges
    assert [edge.on for edge in one] == [edge.on for edge in two] == ["success", "failure"]


def test_a_failure_mode_that_names_a_task_gets_a_recovering_edge_of_its_class() -> None:
    task = task_of(
        "run: ls\nfailure_modes:\n  - {name: gone, detect: exit_code == 2, recover: b}\n  - {name: odd, recover: ask ann}"
    )
    (edge,) = task.edges
    assert (edge.target, edge.on, edge.failure_class, edge.recovers) == ("b", "failure", "gone", True)
    assert [mode.recover for mode in task.failure_modes] == ["b", "ask ann"]
    assert task.failure_modes[0].detect.expression is not None


def test_detectors_may_use_the_names_that_a_command_binds() -> None:
    task = task_of("command: search('http') -> top10\nfailure_modes: [{name: none, detect: top10 is empty}]")
    assert task.failure_modes[0].detect.expression.paths == (("top10",),)
    head = "plan: p\ntasks:\n  - id: a\n    command: search('http') -> hits\n"
    assert errors(loaded(head + "    failure_modes: [{name: none, detect: top10 is empty}]\n")) == [
        "PLAN201 `top10` is not defined here"
    ]


@rows(
    ("text", "is_expression"),
    [
        ("exit_code == 0", True),
        ("duration < 10m", True),
        ("outputs.count >= 3", True),
        ('">= 5 canonical sources (IETF, official repos)"', False),
        ("backwards compatible", False),
        ('">= 2 independent confirmations"', False),
        ("{judge: exit_code == 0}", False),
        ("{check: exit_code == 0}", True),
    ],
)
def test_criteria_are_told_apart_from_words(text: str, is_expression: bool) -> None:
    (criterion,) = task_of(f"run: ls\nexpect: [{text}]" if text[0] != "{" else f"run: ls\nexpect:\n  - {text}").expect
    assert (criterion.expression is not None) == is_expression


def test_a_broken_criterion_is_an_error_and_never_words() -> None:
    result = loaded("plan: p\ntasks:\n  - {id: a, run: ls, expect: [exit_code = 0]}\n")
    assert result.plan is None and any("PLAN207" in line for line in errors(result))


def test_preconditions_read_facts_of_the_world() -> None:
    criteria = task_of("uses: noop\npreconditions: [memory.has_space >= 50MB, network.online == true]").preconditions
    assert [criterion.expression.paths for criterion in criteria] == [
        (("memory", "has_space"),),
        (("network", "online"),),
    ]


def test_places_are_those_of_the_text() -> None:
    text = 'plan: p\ntasks:\n  - id: a\n    uses: noop\n    when: "params.x > 2"\n    next: [{on: success, to: b}]\n  - {id: b, uses: noop}\n'
    result = loaded(text.replace("plan: p\n", "plan: p\nparams: {x: 1}\n"))
    assert result.plan is not None
    whole = text.replace("plan: p\n", "plan: p\nparams: {x: 1}\n")
    task = result.plan.tasks[0]

    def at(span: Any) -> str:
        return whole[span.start : span.end]

    assert at(task.span) == "a"
    assert {key: at(span) for key, span in task.spans} == {"id": "id", "uses": "uses", "when": "when", "next": "next"}
    assert task.when is not None and at(task.when.span) == "params.x > 2"
    assert at(task.edges[0].span) == "b"
    assert at(result.plan.params[0].span) == "x"


def test_an_error_in_a_block_text_is_placed_on_its_line() -> None:
    text = "plan: p\ntasks:\n  - id: a\n    uses: noop\n    when: |\n      plan.id ==\n"
    (finding,) = [found for found in loaded(text).findings if found.code == "PLAN207"]
    assert text[finding.span.start : finding.span.end] == "=="


def test_retry_as_a_number_and_as_a_mapping() -> None:
    assert task_of("run: ls\nretry: 4").retry == Retry(attempts=4)
    task = task_of(
        "run: ls\nretry: {attempts: 5, backoff: fixed, delay: 500ms, max_delay: 1m, jitter: 20%, on: [transient]}"
    )
    assert task.retry == Retry(5, "fixed", 0.5, 60.0, 0.2, ("transient",))
    assert task_of("run: ls\nretry: {delay: 2s}").retry == Retry(attempts=3, delay=2.0)


def test_defaults_hold_for_every_task_that_does_not_say_otherwise() -> None:
    plan = plan_of(
        "plan: p\ndefaults: {timeout: 5m, retry: {attempts: 3, on: [transient]}, env: {A: '1', B: '2'}, labels: [x], cwd: src, shell: bash}\n"
        "tasks:\n  - {id: a, run: ls}\n  - {id: b, run: ls, timeout: 1m, retry: 2, env: {B: '3'}, labels: [z], cwd: doc}\n"
    )
    one, two = plan.tasks
    assert (one.timeout, one.retry.attempts, one.env, one.labels) == (300.0, 3, (("A", "1"), ("B", "2")), ("x",))
    assert (two.timeout, two.retry, two.env) == (60.0, Retry(2, on=("transient",)), (("A", "1"), ("B", "3")))
    assert (two.labels, two.cwd, two.shell) == (("x", "z"), "doc", "bash")


def test_defaults_for_attempts_are_not_for_gates() -> None:
    plan = plan_of("plan: p\ndefaults: {timeout: 5m, retry: 3}\ntasks:\n  - {id: g, gate: approval}\n")
    assert (plan.tasks[0].timeout, plan.tasks[0].retry) == (None, Retry())


def test_defaults_reach_tasks_inside_loops_and_subplans() -> None:
    plan = plan_of(
        "plan: p\ndefaults: {timeout: 5m}\ntasks:\n  - {id: a, loop: {max: 2, tasks: [{id: x, run: ls}]}}\n  - {id: b, subplan: [words, {id: y, run: ls}]}\n"
    )
    assert plan.tasks[0].loop is not None
    assert [task.timeout for task in (*plan.tasks[0].loop.tasks, *plan.tasks[1].subplan)] == [300.0, 300.0, 300.0]


@rows(
    "holder",
    [
        "loop: {max: 2, tasks: [{id: x, run: ls}]}",
        "subplan: [{id: x, run: ls}]",
        "foreach: [1, 2], subplan: [{id: x, run: ls}]",
        "subplan: s",
    ],
)
@rows("given", ["{attempts: 4}", "{attempts: '{{ params.n }}'}"])
def test_retries_by_default_are_for_what_acts_and_not_for_what_holds_it(holder: str, given: str) -> None:
    head = f"plan: p\nparams: {{n: 4}}\ndefaults: {{timeout: 5m, retry: {given}}}\nsubplans: {{s: {{tasks: [{{id: x, run: ls}}]}}}}\n"
    (task,) = plan_of(f"{head}tasks:\n  - {{id: a, {holder}}}\n").tasks
    assert (task.retry, task.computed) == (Retry(), ())
    (own,) = plan_of(f"{head}tasks:\n  - {{id: a, retry: 2, {holder}}}\n").tasks
    assert own.retry.attempts == 2
    for inner in (*task.subplan, *(task.loop.tasks if task.loop else ())):
        assert inner.retry.attempts == 4 or [each.name for each in inner.computed] == ["retry.attempts"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("gate: approval", "approval"),
        ("kind: gate", "approval"),
        ("kind: gate\nchecks: [fine]", "checks"),
        ("ask: Go on?", "approval"),
        ("gate: decision\noptions: [one, two]", "decision"),
    ],
)
def test_what_makes_a_task_a_gate(body: str, kind: str) -> None:
    assert task_of(body).gate.kind == kind


def test_all_keys_of_a_gate() -> None:
    gate = task_of(
        "gate: approval\nneeds: [b]\nask: Release?\nchecks: ['tasks.b.status == \"completed\"', looks right]\napprovers: {roles: [ops], count: 2}\n"
        "expires: 4h\non_expiry: escalate\nescalate: [ann]\non_reject: fail\nevidence: [report.html]"
    ).gate
    assert (gate.ask, gate.expires, gate.on_expiry, gate.on_reject.action) == ("Release?", 14400.0, "escalate", "fail")
    assert [check.expression is None for check in gate.checks] == [False, True]
    assert (gate.roles, gate.people, gate.need, gate.not_starter) == (("ops",), (), 2, True)
    assert gate.evidence == ["report.html"]


def test_gates_of_the_plan_join_their_tasks() -> None:
    plan = plan_of(
        "plan: p\ntasks:\n  - {id: g, kind: gate}\ngates:\n  - {id: g, checks: [sound]}\n  - {id: g, expires: 1h}\n"
    )
    gate = plan.tasks[0].gate
    assert gate is not None and (gate.kind, gate.expires, [check.text for check in gate.checks]) == (
        "checks",
        3600.0,
        ["sound"],
    )


def test_budgets_of_plan_and_task() -> None:
    plan = plan_of(
        "plan: p\nbudget: {timeMin: 1.5, costUSD: 2, tokens: 200k, calls: 50, attempts: 9, iterations: 4, depth: 2}\n"
        "tasks:\n  - {id: a, run: ls, budgets: {cost: $0.50}}\n"
    )
    assert plan.budgets == Budgets(90.0, 2.0, 200_000, 50, 9, 4, 2)
    assert plan.tasks[0].budgets == Budgets(cost=0.5)


def test_a_timebox_bounds_the_task_and_each_attempt() -> None:
    assert (task_of("run: ls\ntimebox: 1h").timeout, task_of("run: ls\ntimebox: 1h").timebox) == (3600.0, 3600.0)
    assert task_of("run: ls\ntimebox: 1h").budgets == Budgets()
    assert task_of("run: ls\ntimebox: 1h\ntimeout: 5m").timeout == 300.0
    assert task_of("run: ls\ntimebox: 1m\ntimeout: 5m").timeout == 60.0


@rows(
    ("written", "output"),
    [
        ("int", Output("x", "int")),
        ("list[url]", Output("x", "list")),
        ("artifacts.sources", Output("x", "any", "{{ artifacts.sources }}")),
        ("'{{ stdout }}'", Output("x", "any", "{{ stdout }}")),
        ("5", Output("x", "any", 5)),
        ("{type: string, path: out.txt, description: d}", Output("x", "string", None, "out.txt", "d")),
        ("{value: outputs.y}", Output("x", "any", "{{ outputs.y }}")),
    ],
)
def test_outputs_in_every_form(written: str, output: Output) -> None:
    assert bare(task_of(f"uses: noop\noutputs:\n  x: {written}").outputs[0]) == bare(output)


def test_a_list_of_outputs_names_files() -> None:
    assert [(output.name, output.path) for output in task_of("uses: noop\noutputs: [a.md, kb/b.md]").outputs] == [
        ("a.md", "a.md"),
        ("kb/b.md", "kb/b.md"),
    ]


def test_artifacts_of_task_and_plan() -> None:
    plan = plan_of(
        "plan: p\nartifacts: [{name: s, from: a}]\ntasks:\n  - {id: a, uses: noop, artifacts: [{name: s, path: s.txt, type: report, retention: plan}, t.txt]}\n"
    )
    assert bare(plan.artifacts[0]) == bare(Artifact("s", source="a"))
    assert [bare(artifact) for artifact in plan.tasks[0].artifacts] == [
        bare(Artifact("s", "s.txt", "report", "plan")),
        bare(Artifact("t.txt", "t.txt")),
    ]


def test_a_parameter_that_is_the_name_of_a_type_is_declared_by_it() -> None:
    plan = plan_with("params: {a: int, b: 'list[url]', c: {default: list}, d: listing}")
    assert [bare(param) for param in plan.params] == [
        bare(Param("a", "int", required=True)),
        bare(Param("b", "list", required=True)),
        bare(Param("c", default="list")),
        bare(Param("d", default="listing")),
    ]


def test_a_parameter_declared_by_the_type_of_another_language_is_told_ours() -> None:
    (found,) = errors(loaded("plan: p\nparams: {a: integer}\ntasks: [{id: t, run: 'echo {{ params.a }}'}]\n"))
    assert "`integer`, which is not a type" in found


def test_parameters_in_every_form() -> None:
    plan = plan_with(
        "params: {a: {type: int}, b: {default: x, description: d}, c: 5, d: [1], e: {type: string, required: false, choices: [u, v]}, f: null}"
    )
    assert [bare(param) for param in plan.params] == [
        bare(param)
        for param in (
            Param("a", "int", required=True),
            Param("b", default="x", description="d"),
            Param("c", "int", 5),
            Param("d", "list", [1]),
            Param("e", "string", choices=("u", "v")),
            Param("f", required=True),
        )
    ]


def test_environments_keep_the_digits_of_the_text() -> None:
    assert dict(task_of("run: ls\nenv: {A: 1.10, B: true, C: null, D: 007x, E: ' x '}").env) == {
        "A": "1.10",
        "B": "true",
        "C": "",
        "D": "007x",
        "E": " x ",
    }


def test_fan_out_over_an_expression_a_list_and_a_matrix() -> None:
    over = task_of(
        "run: ls\nforeach: params.items\nas: piece\nmax_parallel: 3\nmax_items: 9\ntolerate: 20%",
        "params: {items: [1]}\n",
    ).fanout
    assert (over.foreach.text, over.name, over.max_parallel, over.max_items, over.tolerate) == (
        "params.items",
        "piece",
        3,
        9,
        "20%",
    )
    assert task_of("run: ls\nforeach: [1, 2]").fanout.items == [1, 2]
    matrix = {"v": ["1", "2"], "exclude": [{"v": "1"}]}
    assert task_of(f"run: ls\nmatrix: {json.dumps(matrix)}").fanout.matrix == matrix


def test_a_list_with_steps_in_words_is_in_order_but_for_tasks_that_say_what_they_wait_for() -> None:
    task = task_of("subplan:\n  - look around\n  - {id: m, run: ls}\n  - write it down\n  - {run: ls}")
    assert [(step.id, step.command, step.needs) for step in task.subplan] == [
        ("step-1", "look around", ()),
        ("m", "", ("step-1",)),
        ("step-3", "write it down", ("m",)),
        ("step-4", "", ("step-3",)),
    ]
    said = task_of("subplan:\n  - one\n  - {id: m, run: ls}\n  - {id: beside, needs: [], run: ls}\n  - two")
    assert [step.needs for step in said.subplan] == [(), ("step-1",), (), ("m", "beside")]
    led = "{id: m, run: ls, on_failure: {to: mend, recovers: true}}"
    handled = task_of(f"subplan:\n  - one\n  - {led}\n  - {{id: mend, run: ls}}\n  - two")
    assert [step.needs for step in handled.subplan] == [(), ("step-1",), (), ("m",)]
    tasks = task_of("subplan:\n  - {id: a, run: ls}\n  - {id: b, run: ls}")
    assert [step.needs for step in tasks.subplan] == [(), ()]
    assert task.steps[0] == "look around"


def test_a_subplan_by_name_takes_parameters() -> None:
    named = "subplans: {checks: {params: {deep: false}, tasks: [{id: c, uses: noop}]}}\n"
    task = task_of("subplan: checks\nparams: {deep: true}", named)
    assert (task.subplan_file, task.params, task.inputs, task.subplan) == ("checks", {"deep": True}, None, ())
    assert (task.sub.id, [inner.id for inner in task.sub.tasks]) == ("checks", ["c"])


def test_rollbacks_as_actions_and_in_words() -> None:
    assert task_of("run: ls\nrollback: {run: rm x}").rollback == Action(
        "shell", {}, "rm x", Script("", (), ("rm", "x"))
    )
    assert task_of("run: ls\nrollback: {uses: noop, with: {value: 1}}").rollback == Action("noop", {"value": 1})
    words = task_of("run: ls\nrollback: restore the backup")
    assert (words.rollback, words.notes) == (None, {"rollback": "restore the backup"})


def test_what_people_read_is_kept_in_the_notes() -> None:
    notes = {
        "assumptions": ["calm"],
        "risks": "none",
        "effects": "few",
        "capabilities": ["x"],
        "validation": {"by": "qa"},
    }
    rest = {"status": "pending", "deadline": "tomorrow", "evidence": ["a"], "environment": "staging"}
    body = "\n".join(f"{key}: {json.dumps(value)}" for key, value in {**notes, **rest}.items())
    assert task_of(f"run: ls\n{body}").notes == {**notes, **rest}


def test_notes_of_the_defaults_and_of_the_task_are_joined() -> None:
    task = task_of("uses: noop\nrisks: few", "defaults: {capabilities: [shell]}\n")
    assert task.notes == {"capabilities": ["shell"], "risks": "few"}


def test_what_people_read_of_a_plan_is_kept_in_its_notes() -> None:
    notes = {"created_at": "2026-01-01", "state": "pending", "stakeholders": ["a"], "labels": ["x"], "deadline": "soon"}
    notes |= {"done": ["all green"], "memory": {"keys": ["k"]}}
    plan = plan_with("\n".join(f"{key}: {json.dumps(value)}" for key, value in notes.items()))
    assert plan.notes == notes


def test_the_settings_of_a_plan() -> None:
    plan = plan_with(
        "version: 3\nowner: ann\nmax_parallel: 2\nlimits: {db: 1}\nseed: 7\non_failure: continue\nenv: {A: 1}\npolicy: {requireGateForProd: true}"
    )
    assert (plan.version, plan.owner, plan.max_parallel, plan.limits, plan.seed) == ("3", "ann", 2, (("db", 1),), 7)
    assert (plan.on_failure, plan.env, plan.policy) == ("continue", (("A", "1"),), {"requireGateForProd": True})


def test_finally_tasks_come_last_and_are_marked() -> None:
    plan = plan_of("plan: p\nfinally: [{id: z, uses: noop}]\ntasks: [{id: a, uses: noop}]\n")
    assert [(task.id, task.finally_) for task in plan.tasks] == [("a", False), ("z", True)]


def test_a_family_of_tasks_keeps_its_pattern() -> None:
    plan = plan_of("plan: p\ntasks:\n  - {id: 'deep-dive-*', kind: research}\n")
    assert plan.tasks[1].id == "deep-dive-*"


def test_a_person_is_asked_for_the_items_of_a_family_that_names_none() -> None:
    plan = plan_of(
        "plan: p\ntasks:\n  - {id: scope, uses: noop, on_success: 'dive-*'}\n  - {id: 'dive-*', needs: [scope], uses: noop}\n"
        "  - {id: dive, uses: noop}\n  - {id: end, needs: [dive-1], uses: noop}\n"
    )
    scope, asked, family, _, end = plan.tasks
    assert asked.id == "dive-items" and asked.needs == ("scope",) and scope.edges[0].target == "dive-items"
    assert asked.gate is not None and [(field.name, field.type) for field in asked.gate.form] == [("items", "list")]
    assert family.needs == ("dive-items",) and end.needs == ("dive-*",)
    assert family.fanout is not None and family.fanout.foreach is not None
    assert family.fanout.foreach.text == "tasks['dive-items'].outputs.items"


def test_a_task_that_only_has_an_id_is_a_task() -> None:
    assert plan_of("plan: p\ntasks: [{id: a}]\n").tasks == (
        Task("a", span=Span(21, 22), spans=(("id", Span(17, 19)),)),
    )


def test_what_is_sound_is_lowered_beside_what_is_not() -> None:
    codes = [
        line[:7]
        for line in errors(
            loaded("plan: p\ntasks:\n  - {id: a, uses: 3, needs: [x], when: '1 +'}\n  - {title: no id, needs: [y]}\n")
        )
    ]
    assert sorted(codes) == ["PLAN004", "PLAN005", "PLAN101", "PLAN207"]


def test_validation_is_checked_as_postconditions_are() -> None:
    task = plan_of(
        "plan: p\ntasks:\n  - {id: a, uses: noop, postconditions: [duration < 5s], validation: [exit_code == 0]}\n"
    ).tasks[0]
    assert [criterion.text for criterion in task.postconditions] == ["duration < 5s", "exit_code == 0"]
    said = plan_of("plan: p\ntasks:\n  - {id: a, uses: noop, validation: {by: qa}}\n").tasks[0]
    assert said.postconditions == () and said.notes == {"validation": {"by": "qa"}}
