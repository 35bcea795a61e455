"""A list of steps: commands as text and tasks without ids are numbered and follow each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rows import rows
from workbench import planrunner

from planrunner.app.plans.lint import convert_text
from planrunner.plan.files import decode
from planrunner.plan.load import Loaded, load
from planrunner.plan.model import Task
from planrunner.plugins.registry import Registry
from planrunner.source import Source


def loaded(steps: list[Any], **keys: Any) -> Loaded:
    document = {"plan": "p", "defaults": {"timeout": "1m"}, "steps": steps, **keys}
    return load(Source(json.dumps(document), "p.json", "json"), Registry())


def tasks(steps: list[Any], **keys: Any) -> tuple[Task, ...]:
    done = loaded(steps, **keys)
    assert done.plan is not None, done.findings
    return done.plan.tasks


def order(found: tuple[Task, ...]) -> dict[str, tuple[str, ...]]:
    return {task.id: task.needs for task in found}


def test_commands_and_tasks_without_ids_follow_each_other() -> None:
    found = tasks(["echo a", {"id": "b", "run": "echo b"}, {"run": "echo c"}])
    assert order(found) == {"step-1": (), "b": ("step-1",), "step-3": ("b",)}
    assert [(task.uses, task.run) for task in found] == [("shell", f"echo {each}") for each in "abc"]


def test_one_that_says_what_it_waits_for_stays_aside_and_the_next_waits_for_both() -> None:
    found = tasks(["a", {"id": "aside", "needs": [], "run": "b"}, "c", {"depends_on": ["aside"], "run": "d"}, "e"])
    assert order(found) == {
        "step-1": (),
        "aside": (),
        "step-3": ("step-1", "aside"),
        "step-4": ("aside",),
        "step-5": ("step-3", "step-4"),
    }


@pytest.mark.parametrize(
    "leading",
    [
        {"on_failure": "alarm"},
        {"on_failure": {"to": "alarm", "recovers": True}},
        {"next": [{"to": "alarm", "when": "exit_code == 0"}]},
        {"failure_modes": [{"name": "full", "detect": "exit_code == 3", "recover": "alarm"}]},
    ],
)
def test_one_that_another_leads_to_is_not_in_the_order(leading: dict[str, Any]) -> None:
    found = order(tasks([{"run": "a", **leading}, {"id": "alarm", "run": "b"}, "c"]))
    assert found == {"step-1": (), "alarm": (), "step-3": ("step-1",)}


def test_one_to_which_the_run_goes_back_has_its_place() -> None:
    found = tasks(["a", {"id": "b", "run": "b"}, {"run": "c", "on_failure": {"rework": "b", "max": 2}}])
    assert order(found) == {"step-1": (), "b": ("step-1",), "step-3": ("b",)}


@pytest.mark.parametrize(
    "back",
    [
        {"run": "c", "on_failure": {"rework": "b", "max": 2}},
        {"gate": "approval", "ask": "x", "on_reject": {"rework": "b", "max": 2}},
        {"gate": "decision", "ask": "x", "options": [{"id": "again", "rework": "b", "max": 2}, {"id": "ok"}]},
    ],
)
def test_one_to_which_a_subplan_with_words_goes_back_has_its_place(back: dict[str, Any]) -> None:
    (holder,) = tasks([{"id": "in", "subplan": ["look around", {"id": "b", "run": "b"}, {"id": "c", **back}, "tidy"]}])
    assert holder.subplan is not None
    assert order(holder.subplan) == {"step-1": (), "b": ("step-1",), "c": ("b",), "step-4": ("c",)}


def test_a_step_that_a_condition_skips_does_not_end_the_list() -> None:
    one, two, three = tasks([{"run": "a", "if": "1 == 2"}, "b", "c"])
    assert (two.needs, two.join.kind, three.join.kind) == ((one.id,), "none_failed", "all")


def test_steps_with_an_id_each_are_tasks() -> None:
    text = "plan: p\ndefaults: {timeout: 1m}\nsteps: [{id: a, run: a}, {id: b, run: b}]\n"
    done = load(Source(text, "p.yaml", "yaml"), Registry())
    assert done.plan is not None
    assert order(done.plan.tasks) == {"a": (), "b": ()}
    assert [each.code for each in done.findings] == ["PLAN621"]


def test_they_stand_wherever_tasks_do_and_numbers_are_of_their_own_list() -> None:
    inner = ["a", {"run": "b"}]
    box, words, rounds, linked = tasks(
        [
            {"id": "box", "steps": inner},
            {"subplan": ["look at it", {"run": "b"}]},
            {"loop": {"max": 1, "steps": inner}},
            {"subplan": "part"},
        ],
        subplans={"part": {"defaults": {"timeout": "1m"}, "steps": inner}},
    )
    assert rounds.loop is not None and linked.sub is not None
    for held in (box.subplan, rounds.loop.tasks, linked.sub.tasks):
        assert order(held) == {"step-1": (), "step-2": ("step-1",)}
        assert [task.run for task in held] == ["a", "b"]
    assert order(words.subplan) == {"step-1": (), "step-2": ("step-1",)}
    assert [task.command for task in words.subplan] == ["look at it", ""]


@rows(
    ("steps", "code", "message"),
    [
        ([True], "PLAN005", "an item of `steps` must be text or a mapping, not `true`"),
        (["a", ["b", "c"]], "PLAN005", "an item of `steps` must be text or a mapping, not a list"),
        ([], "PLAN006", "`steps` needs at least 1 item"),
        ({"a": 1}, "PLAN005", "`steps` must be a list, not a mapping"),
        (["a", {"id": "step-1", "run": "b"}], "PLAN102", "two tasks are called `step-1`"),
        ([{"rum": "a"}], "PLAN003", "a step has no key `rum`, did you mean `run`?"),
        ([{"run": "a", "needs": ["nope"]}], "PLAN101", "needs `nope`, which is not a task of the plan"),
    ],
)
def test_what_is_no_step_is_told(steps: Any, code: str, message: str) -> None:
    assert (code, message) in [(each.code, each.message) for each in loaded(steps).findings]


def test_a_command_under_finally_is_told_where_commands_stand() -> None:
    found = loaded(["a"], **{"finally": ["rm scratch"]}).findings
    told = ("PLAN005", "an item of `finally` must be a mapping, not the text `rm scratch`")
    assert [(each.code, each.message) for each in found] == [told]
    assert found[0].help.endswith("`- {id: tidy, steps: [echo done, rm scratch]}`")
    tidy = tasks(["a"], **{"finally": [{"id": "tidy", "steps": ["echo done", "rm scratch"]}]})[-1]
    assert tidy.finally_ and order(tidy.subplan) == {"step-1": (), "step-2": ("step-1",)}


def test_steps_exclude_what_else_a_task_may_be() -> None:
    for other in ({"run": "x"}, {"subplan": ["x"]}, {"uses": "noop"}, {"gate": "approval"}):
        found = {each.code for each in loaded([{"steps": ["a"], **other}]).findings}
        assert "PLAN009" in found, other
    assert "PLAN009" in {each.code for each in loaded(["a"], tasks=[{"id": "b", "run": "x"}]).findings}


PLAN = """plan: p
defaults: {timeout: 1m}
steps:
  # before all others
  - echo a
  - {id: box, steps: [echo x, {run: echo y}]}
  - {foreach: [1, 2], run: "echo {{ item }}"}
  - |
    echo last
    echo really
"""


def test_they_stay_as_written_in_every_notation() -> None:
    same = load(Source(PLAN, "p.yaml", "yaml"), Registry()).plan
    assert same is not None
    text = convert_text(decode(PLAN.encode(), "p.yaml"), "text")
    again = convert_text(decode(text.encode(), "p.plan"), "yaml")
    for name, notation, written in (("p.plan", "text", text), ("p.yaml", "yaml", again)):
        assert "step-1" not in written and "- echo a" in written and "# before all others" in written
        found = load(Source(written, name, notation), Registry()).plan  # type: ignore[arg-type]
        assert found is not None and [(task.id, task.needs, task.run) for task in found.tasks] == [
            (task.id, task.needs, task.run) for task in same.tasks
        ]


@pytest.mark.parametrize("where", ["steps", "subplan", "loop"])
def test_a_step_may_say_that_it_cannot_be_undone(where: str) -> None:
    steps = [{"run": "curl -X POST https://example.org", "irreversible": True}]
    inside = {"steps": steps, "subplan": [{"id": "a", "subplan": steps}]}
    inside["loop"] = [{"id": "a", "loop": {"max": 1, "steps": steps}}]
    done = loaded(inside[where])
    assert done.plan is not None, done.findings
    (task,) = done.plan.tasks
    (step,) = (task,) if where == "steps" else task.subplan if where == "subplan" else task.loop.tasks  # type: ignore[union-attr]
    assert step.irreversible


def test_a_list_of_steps_runs_in_its_order_and_ends_at_a_failure(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "plan: p\ndefaults: {timeout: 1m}\nsteps: [echo a > log, {if: 1 == 2, run: x}, echo b >> log, exit 3, echo c >> log]\n"
    )
    document = json.loads(planrunner(tmp_path, "exec", "p.yaml", "--json").stdout)
    assert [document["tasks"][f"step-{number}"]["status"] for number in range(1, 6)] == [
        *("completed", "skipped", "completed", "failed", "omitted"),
    ]
    assert (tmp_path / "log").read_text() == "a\nb\n"
    assert "needs `step-4`, which failed" in planrunner(tmp_path, "why", "last", "step-5").stdout
    assert "replays exactly" in planrunner(tmp_path, "replay", "last").stdout
