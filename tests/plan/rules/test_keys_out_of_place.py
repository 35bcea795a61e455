"""Each key of a task on each kind of task: it has an effect there, or lint says that it has none."""

from __future__ import annotations

import json
from typing import Any

import pytest
import workbench
from rows import rows

from planrunner.fileio import read_data
from planrunner.plan.canonical import TASK_ALIASES
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

INNER = [{"id": "inner", "run": "x", "timeout": "1m"}]
KINDS: dict[str, dict[str, Any]] = {
    "script": {"run": "x", "timeout": "1m"},
    "capability": {"uses": "noop", "timeout": "1m"},
    "gate": {"gate": "approval", "ask": "ship?"},
    "instruction": {"command": "water the plants"},
    "nothing": {"description": "something"},
    "loop": {"loop": {"max": 2, "tasks": INNER}},
    "steps": {"subplan": INNER},
    "linked": {"subplan": "shared"},
}
PEOPLE = "gate instruction nothing"
CONTAINERS = "loop steps linked"
IDLE: dict[str, tuple[Any, str]] = {
    "with": ({"a": "b"}, "gate loop steps linked"),
    "env": ({"A": "b"}, f"{PEOPLE} linked"),
    "cwd": ("sub", f"{PEOPLE} linked"),
    "shell": ("bash", "capability gate nothing linked"),
    "stdin": ("text", f"capability {PEOPLE} {CONTAINERS}"),
    "stdout": ("json", f"{PEOPLE} {CONTAINERS}"),
    "timeout": ("5s", PEOPLE),
    "timebox": ("5s", PEOPLE),
    "heartbeat": ("5s", f"{PEOPLE} {CONTAINERS}"),
    "watchdog": ([{"after": "3s", "do": "warn"}], PEOPLE),
    "retry": (3, PEOPLE),
    "delay": ("5s", PEOPLE),
    "on_doubt": ("retry", f"{PEOPLE} {CONTAINERS}"),
    "fresh": ({"inputs": ["a"], "outputs": ["b"]}, PEOPLE),
    "rollback": ({"run": "x"}, PEOPLE),
    "backup": (["a"], f"{PEOPLE} {CONTAINERS}"),
    "artifacts": (["a"], f"{PEOPLE} {CONTAINERS}"),
    "params": ({"a": 1}, f"script capability {PEOPLE} loop steps"),
    "max_parallel": (2, "script capability gate instruction nothing loop steps linked"),
    "max_items": (2, "script capability gate instruction nothing loop steps linked"),
    "tolerate": (1, "script capability gate instruction nothing loop steps linked"),
    "as": ("it", "script capability gate instruction nothing loop steps linked"),
    **{
        key: (value, f"script capability {PEOPLE} {CONTAINERS}")
        for key, value in {
            "prompt": "Mend it.",
            "tools": ["shell"],
            "denied": ["shell"],
            "schema": {"ok": "bool"},
            "until": "outputs.ok",
            "rounds": 3,
            "tries": 2,
            "calls": [{"tool": "shell", "deny": "Not here."}],
            "model": "large",
            "effort": "high",
            "session": "work",
            "context": {"plan": True},
            "branches": 3,
            "score": "outputs.ok",
        }.items()
    },
}
"""A value for the key, and the kinds of tasks on which it has no effect."""

EVERYWHERE = frozenset(
    "id title description kind role priority owner labels needs join when expect ok_codes preconditions postconditions "
    "validation assumptions risks effects effect secrets irreversible allow_failure on_success on_failure "
    "next failure_modes outputs evidence budgets checkpoint ends_plan capabilities foreach matrix policy "
    "status deadline reflect".split()
)
"""Keys that say something about any task; other tests show what."""

KIND_KEYS = frozenset(
    "uses run command gate ask checks approvers expires on_expiry escalate on_reject options choose form window "
    "loop subplan steps agent".split()
)
"""Keys that make a task one of these kinds."""


def codes(kind: str, key: str) -> set[str]:
    task = {"id": "t", **KINDS[kind], key: IDLE[key][0]}
    shared = {"shared": {"params": {"a": {"type": "integer", "default": 1}}, "tasks": INNER}}
    found = workbench.loaded(task, subplans=shared).findings
    said = [each for each in found if f"`{key}`" in each.message or f"`{key}" in each.message]
    return {each.code for each in said} & {"PLAN003", "PLAN004", "PLAN008", "PLAN021"}


def test_every_key_of_a_task_has_its_row() -> None:
    keys = (
        json.loads(read_data("schemas", "plan.schema.json"))["definitions"]["task"]["properties"].keys()
        - TASK_ALIASES.keys()
        - {"name"}
    )
    assert keys == IDLE.keys() | EVERYWHERE | KIND_KEYS


@rows("kind", KINDS)
@rows("key", IDLE)
def test_a_key_has_an_effect_or_lint_says_that_it_has_none(kind: str, key: str) -> None:
    assert bool(codes(kind, key)) == (kind in IDLE[key][1].split())


def test_a_script_in_the_place_of_its_interpreter_is_an_error_that_says_where_it_goes() -> None:
    text = "plan: p\ntasks:\n  - id: a\n    shell: echo hi\n"
    found = next(each for each in load(Source(text, "p.yaml", "yaml"), Registry()).findings if each.code == "PLAN004")
    assert found.severity == "error"
    assert "`run: echo hi`" in found.help


@pytest.mark.parametrize(("uses", "key"), [("python.run", "code"), ("sql.query", "statement"), ("noop", "")])
def test_a_text_beside_a_capability_that_has_a_key_for_it_is_told_that_key(uses: str, key: str) -> None:
    text = json.dumps({"plan": "p", "tasks": [{"id": "a", "uses": uses, "run": "x", "timeout": "1m"}]})
    found = load(Source(text, "p.json", "json"), Registry()).findings
    (told,) = [each.help for each in found if each.code == "PLAN009"]
    assert (f"`with: {{{key}: …}}`" in told) if key else told.startswith("keep one")
