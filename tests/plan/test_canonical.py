"""Canonical keys: aliases are renamed in place, order is a choice, shared nodes stay shared."""

from __future__ import annotations

from typing import Any

from rows import rows

from planrunner.plan.canonical import PLAN_ALIASES, PLAN_ORDER, TASK_ALIASES, TASK_ORDER, canonical, ordered
from planrunner.source import Source
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Mapping, Node, Sequence, to_json


def tree(text: str) -> Mapping:
    found = parse(Source(text)).tree
    assert isinstance(found, Mapping)
    return found


def first_task(plan: Mapping) -> Mapping:
    tasks = plan.get("tasks")
    assert isinstance(tasks, Sequence) and isinstance(tasks.items[0], Mapping)
    return tasks.items[0]


def keys(node: Node) -> list[Any]:
    assert isinstance(node, Mapping)
    return [key.value for key, _ in node.entries]


@rows(("alias", "key"), sorted(TASK_ALIASES.items()))
def test_every_alias_of_a_task_becomes_its_key(alias: str, key: str) -> None:
    plan = canonical(tree(f"plan: p\ntasks:\n  - id: a\n    {alias}: {{x: 1}}\n"))
    assert keys(first_task(plan)) == ["id", key]


@rows(("alias", "key"), sorted(PLAN_ALIASES.items()))
def test_every_alias_of_a_plan_becomes_its_key(alias: str, key: str) -> None:
    assert keys(canonical(tree(f"{alias}: x\n"))) == [key]


def test_a_plan_without_aliases_is_returned_as_it_is() -> None:
    plan = tree("plan: p\ntasks:\n  - {id: a, uses: noop, budgets: {time: 5m}}\n")
    assert canonical(plan) is plan


def test_renamed_keys_keep_their_place_and_values_stay_the_same_objects() -> None:
    plan = tree("id: p\nnodes:\n  - id: a\n    dependsOn: [b]  # why\n")
    task = first_task(plan_canonical := canonical(plan))
    original = plan.entries[1][1]
    assert isinstance(original, Sequence) and isinstance(original.items[0], Mapping)
    old_key, old_value = original.items[0].entries[1]
    new_key, new_value = task.entries[1]
    assert (new_key.value, new_key.span) == ("needs", old_key.span)
    assert new_value is old_value
    assert plan_canonical.get("plan") is plan.get("id")


def test_an_alias_beside_its_key_stays_so_that_nothing_is_lost() -> None:
    plan = canonical(tree("plan: p\ntasks:\n  - {id: a, needs: [b], depends_on: [c], dependsOn: [d]}\n"))
    assert keys(first_task(plan)) == ["id", "needs", "depends_on", "dependsOn"]


def test_of_two_aliases_only_the_first_is_renamed() -> None:
    plan = canonical(tree("plan: p\ntasks:\n  - {id: a, depends_on: [b], dependsOn: [c]}\n"))
    assert keys(first_task(plan)) == ["id", "needs", "dependsOn"]


def test_a_word_for_the_environment_is_a_note_and_a_mapping_is_the_environment() -> None:
    assert keys(first_task(canonical(tree("plan: p\ntasks:\n  - {id: a, environment: staging}\n")))) == [
        "id",
        "environment",
    ]
    assert keys(first_task(canonical(tree("plan: p\ntasks:\n  - {id: a, environment: {A: b}}\n")))) == ["id", "env"]


@rows(
    ("written", "meant"),
    [
        ("timeMin: 30", {"time": "30m"}),
        ("timeMin: 1.5, costUSD: 0.25", {"time": "1.5m", "cost": "$0.25"}),
        ("costUSD: 5", {"cost": "$5"}),
        ("costUSD: 0.00001", {"cost": "$0.00001"}),
        ("timeMin: many", {"timeMin": "many"}),
        ("time: 1h, timeMin: 5", {"time": "1h", "timeMin": 5}),
    ],
)
def test_budgets_in_minutes_and_dollars_become_quantities(written: str, meant: dict[str, Any]) -> None:
    plan = canonical(tree(f"plan: p\nbudget: {{{written}}}\ntasks:\n  - {{id: a, budget: {{{written}}}}}\n"))
    assert to_json(plan)["budgets"] == meant  # type: ignore[call-overload, index]
    assert to_json(first_task(plan))["budgets"] == meant  # type: ignore[call-overload, index]


def test_tasks_in_loops_subplans_finally_and_named_subplans_are_rewritten_too() -> None:
    plan = canonical(
        tree(
            "plan: p\ntasks:\n  - id: a\n    loop: {max: 1, tasks: [{id: x, using: noop}]}\n"
            "  - id: b\n    subplan: [words, {id: y, using: noop}]\n"
            "finally: [{id: c, using: noop}]\nsubplans: {s: {tasks: [{id: z, using: noop}]}}\n"
        )
    )
    assert "using" not in str(to_json(plan)) and str(to_json(plan)).count("uses") == 4


def test_the_canonical_order_puts_every_key_where_it_belongs_and_unknown_ones_last() -> None:
    text = "tasks:\n  - {colour: red, run: ls, timeout: 5m, needs: [b], title: A, id: a}\nzzz: 1\ntitle: T\nid: p\n"
    plan = ordered(tree(text))
    assert keys(plan) == ["plan", "title", "tasks", "zzz"]
    assert keys(first_task(plan)) == ["id", "title", "needs", "run", "timeout", "colour"]


def test_edges_have_an_order_of_keys_too_but_only_where_order_is_asked_for() -> None:
    text = "plan: p\ntasks:\n  - {id: a, on_failure: [{recovers: true, to: b}], next: {to: b, on: success}}\n"
    task = first_task(ordered(tree(text)))
    edges = task.get("on_failure")
    assert isinstance(edges, Sequence)
    assert keys(edges.items[0]) == ["to", "recovers"]
    assert keys(task.get("next")) == ["on", "to"]
    as_written = first_task(canonical(tree(text))).get("on_failure")
    assert isinstance(as_written, Sequence) and keys(as_written.items[0]) == ["recovers", "to"]


def test_no_key_stands_twice_in_the_canonical_order() -> None:
    assert len(set(TASK_ORDER)) == len(TASK_ORDER)
    assert len(set(PLAN_ORDER)) == len(PLAN_ORDER)


def test_a_shared_task_part_is_rewritten_once_and_stays_shared() -> None:
    plan = canonical(tree("plan: p\ntasks:\n  - {id: a, budget: &b {timeMin: 5}}\n  - {id: c, budget: *b}\n"))
    tasks = plan.get("tasks")
    assert isinstance(tasks, Sequence)
    first, second = tasks.items
    assert isinstance(first, Mapping) and isinstance(second, Mapping)
    assert first.get("budgets") is second.get("budgets") is not None
    assert first.get("budgets").anchor == "b"  # type: ignore[union-attr]


def test_numbers_that_are_used_as_text_keep_their_spelling() -> None:
    text = "plan: p\nversion: 1.10\nenv: {A: 3.10, B: 2, C: true}\ntasks:\n  - {id: a, run: [seq, 0x10, 1e3, 5]}\n"
    data: Any = to_json(canonical(tree(text)))
    assert (data["version"], data["env"]) == ("1.10", {"A": "3.10", "B": 2, "C": True})
    assert data["tasks"][0]["run"] == ["seq", "0x10", "1e3", 5]


def test_canonical_keys_are_canonical_already() -> None:
    plan = tree("id: p\nsteps:\n  - {id: a, name: A, inputs: {x: 1}, budget: {timeMin: 3}}\n")
    once = canonical(plan)
    assert canonical(once) is once
