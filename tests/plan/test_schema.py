"""The published schema, and the check by it: every fault is found, worded and placed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_loading import corpus, loaded, tree_of
from rows import rows

from planrunner.diagnostics import Diagnostic
from planrunner.fileio import read_data
from planrunner.plan import schema, validation
from planrunner.plan.canonical import BUDGET_ALIASES, PLAN_ALIASES, PLAN_ORDER, TASK_ALIASES, TASK_ORDER
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source, notation_of
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence, to_json

PUBLISHED = schema.published()
VALIDATOR = jsonschema.Draft7Validator(PUBLISHED)


@pytest.fixture(autouse=True)
def every_tree_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that both validators are asked, and agree."""
    monkeypatch.setattr(schema, "SMALL", 0)


def parsed(path: Path) -> Any:
    source = Source(path.read_text(encoding="utf-8"), path.name, notation_of(path.name))
    return parse(source)


def descriptions(part: Any, place: str) -> list[str]:
    """Places of properties that say nothing about themselves."""
    missing = []
    if isinstance(part, dict):
        for name, value in part.get("properties", {}).items() if isinstance(part.get("properties"), dict) else ():
            if isinstance(value, dict) and not {"description", "$ref", "const"} & value.keys():
                missing.append(f"{place}.{name}")
        for key, value in part.items():
            if key not in ("examples", "default", "defaultSnippets"):
                missing += descriptions(value, f"{place}.{key}")
    elif isinstance(part, list):
        for index, value in enumerate(part):
            missing += descriptions(value, f"{place}[{index}]")
    return missing


def test_the_published_schema_is_valid_draft_7() -> None:
    jsonschema.Draft7Validator.check_schema(PUBLISHED)
    assert PUBLISHED["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_every_property_of_the_schema_is_described() -> None:
    assert descriptions(PUBLISHED, "") == []


def examples(part: Any) -> Iterator[tuple[Any, Any]]:
    """Each part of the schema that gives examples or a default, with each of them."""
    if isinstance(part, dict):
        if not isinstance(part.get("examples"), dict):
            yield from ((part, example) for example in part.get("examples", ()))
        if "default" in part and not isinstance(part["default"], dict):
            yield part, part["default"]
        part = list(part.values())
    if isinstance(part, list):
        for value in part:
            yield from examples(value)


def test_examples_and_defaults_of_the_schema_fit_their_own_property() -> None:
    shown = list(examples(PUBLISHED))
    assert len(shown) > 50
    assert [example for part, example in shown if not VALIDATOR.evolve(schema=part).is_valid(example)] == []


def test_the_schema_has_every_key_of_the_canonical_order_and_every_alias() -> None:
    task = PUBLISHED["definitions"]["task"]["properties"]
    assert task.keys() == {*TASK_ORDER, *TASK_ALIASES, "steps"}
    assert PUBLISHED["properties"].keys() == {*PLAN_ORDER, *PLAN_ALIASES, "steps"}
    assert PUBLISHED["definitions"]["budgets"]["properties"].keys() > BUDGET_ALIASES.keys()


@pytest.mark.parametrize("path", [*corpus("ok"), *corpus("err"), *corpus("pairs")], ids=lambda path: path.name)
def test_the_check_agrees_with_the_jsonschema_library_about_every_plan_of_the_corpus(path: Path) -> None:
    result = parsed(path)
    if result.tree is None or any(finding.code == "PLAN002" for finding in result.findings):
        pytest.skip("not a tree that both can judge")
    sound = VALIDATOR.is_valid(to_json(result.tree))
    assert (not schema.check(result.tree)) == sound
    assert (not validation.faults("plan.schema.json", "the plan", result.tree)) == sound


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside plain data."""
    found = [path]
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        found += places(value, (*path, key))
    return found


WHOLE = to_json(parsed(next(path for path in corpus("ok") if path.name == "whole-language.yaml")).tree)
PLACES = [path for path in places(WHOLE) if path]
VALUES = st.sampled_from(
    [
        "",
        "x",
        "a b",
        "5m",
        "$2",
        "200k",
        "80%",
        "all",
        "all_done",
        "*",
        "test*",
        0,
        -1,
        1,
        3,
        1.0,
        2.5,
        1e300,
        True,
        False,
        None,
        [],
        {},
        [None],
        ["x"],
        [3],
        [{}],
        {"to": "x"},
        {"x": 1},
        {"max": 0},
        {"id": "q"},
        {"at_least": 1.0},
    ]
)
KEYS = st.sampled_from(
    [*TASK_ORDER, *PLAN_ORDER, *TASK_ALIASES, *PLAN_ALIASES, *BUDGET_ALIASES, "nonsense", "to", "judge"]
)
CHANGES = st.lists(
    st.tuples(st.sampled_from(PLACES), st.sampled_from(["delete", "rename", "retype", "add"]), KEYS, VALUES), max_size=4
)


def changed(data: Any, path: tuple[Any, ...], verb: str, key: str, value: Any) -> None:
    """Apply one change in place; a path that an earlier change has removed is left alone."""
    try:
        parent = data
        for step in path[:-1]:
            parent = parent[step]
        last = path[-1]
        if verb == "delete":
            del parent[last]
        elif verb == "retype":
            parent[last] = copy.deepcopy(value)
        elif verb == "add" and isinstance(parent[last], dict):
            parent[last][key] = copy.deepcopy(value)
        elif verb == "rename" and isinstance(parent, dict):
            parent[key] = parent.pop(last)
    except (KeyError, IndexError, TypeError):
        return


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHANGES)
def test_the_check_agrees_with_the_jsonschema_library_about_plans_that_were_tampered_with(changes: Any) -> None:
    data = copy.deepcopy(WHOLE)
    for change in changes:
        changed(data, *change)
    sound = VALIDATOR.is_valid(data)
    assert (not schema.check(tree_of(data))) == sound
    assert (not validation.faults("plan.schema.json", "the plan", tree_of(data))) == sound


@pytest.mark.parametrize("file", ["plan", "plan-test", "project"])
def test_every_keyword_of_a_published_schema_has_a_wording(file: str) -> None:
    words = {
        "$schema", "$id", "$ref", "title", "description", "markdownDescription", "default", "examples", "definitions",
        "defaultSnippets", "patternErrorMessage", "errorMessage", "markdownEnumDescriptions",
        "properties", "items", "allOf", "if", "then",
    }  # fmt: skip
    assert keywords(json.loads(read_data("schemas", f"{file}.schema.json"))) <= words | validation.WORDINGS.keys()


def keywords(part: dict[str, Any]) -> set[str]:
    """The keywords of a schema and of the schemas in it."""
    inner = [each for key in ("properties", "definitions") for each in part.get(key, {}).values()]
    inner += [
        part[key] for key in ("items", "additionalProperties", "not", "if", "then") if isinstance(part.get(key), dict)
    ]
    inner += [each for key in ("allOf", "anyOf") for each in part.get(key, [])]
    return set(part).union(*map(keywords, inner))


def found(text: str) -> list[Diagnostic]:
    tree = parse(Source(text)).tree
    assert tree is not None
    return sorted(schema.check(tree), key=lambda finding: finding.span)


def test_all_faults_are_reported_and_each_at_its_exact_place() -> None:
    text = "plan: p\ntasks:\n  - {id: a, timeuot: 5m, retry: {attempts: 0}}\n  - {id: b c, title: [x]}\n"
    assert [(finding.code, text[finding.span.start : finding.span.end]) for finding in found(text)] == [
        ("PLAN003", "timeuot"),
        ("PLAN006", "0"),
        ("PLAN006", "b c"),
        ("PLAN005", "[x]"),
    ]


@rows(
    ("wrong", "right"),
    [
        ("timeuot: 5m", "timeout: 5m"),
        ("'timeuot': 5m", "'timeout': 5m"),
        ("title: 2026", 'title: "2026"'),
        ("script: ls", "run: ls"),
        ("gate: aproval", "gate: approval"),
        ("on_doubt: 'prob'", "on_doubt: 'probe'"),
    ],
)
def test_the_fix_of_a_finding_mends_the_plan(wrong: str, right: str) -> None:
    text = f"plan: p\ntasks:\n  - id: a\n    {wrong}\n"
    (finding,) = found(text)
    assert finding.fix is not None
    (edit,) = finding.fix.edits
    mended = text[: edit.span.start] + edit.text + text[edit.span.end :]
    assert mended == f"plan: p\ntasks:\n  - id: a\n    {right}\n"
    assert found(mended) == []


@pytest.mark.parametrize(("key", "inside"), [("roles", "roles"), ("users", "users"), ("people", "users")])
def test_who_decides_at_a_gate_belongs_under_its_approvers(key: str, inside: str) -> None:
    (finding,) = found(f"plan: p\ntasks:\n  - {{id: a, gate: approval, ask: Go on, {key}: [release]}}\n")
    assert finding.message == f"a task has no key `{key}`" and finding.fix is None
    assert finding.help == f"it belongs under `approvers`: `approvers: {{{inside}: …}}`"


@rows(
    ("text", "help_"),
    [
        ("env_file: .env\ntasks: [{id: a, run: x}]", "it is a key of planrunner.yaml, for the whole project"),
        ("tasks: [{id: a, run: x, env_file: .env}]", "it is a key of planrunner.yaml, for the whole project"),
        ("run: x\ntasks: [{id: a, run: x}]", "it is a key of a task"),
        ("tasks: [{id: a, run: x, services: {}}]", "it is a key of the plan"),
        ("defaults: {on_failure: continue}\ntasks: [{id: a, run: x}]", "it is a key of the plan and of a task"),
        ("tasks: [{id: a, run: x, zzz: {}}]", ""),
        ("subplans: {s: {tasks: [{id: a, run: x, notify: {}}]}}\ntasks: [{id: b, subplan: s}]", "it is a key of planrunner.yaml, for the whole project"),
    ],
)  # fmt: skip
def test_a_key_in_the_wrong_place_is_told_where_it_stands(text: str, help_: str) -> None:
    (finding,) = found(f"plan: p\n{text}\n")
    assert (finding.code, finding.help) == ("PLAN003", help_)


@pytest.mark.parametrize("task", ["titel: [x]", "roles: [release]", "timeuot: []", "needz: 4"])
def test_no_rename_is_offered_to_a_key_that_cannot_have_the_value(task: str) -> None:
    (finding,) = found(f"plan: p\ntasks:\n  - {{id: a, uses: noop, {task}}}\n")
    assert "did you mean" in finding.message or "belongs under" in finding.help
    assert finding.fix is None


@pytest.mark.parametrize(("value", "mended"), [("one", True), ("My plan", False)])
def test_the_name_of_a_plan_is_its_plan_key(value: str, mended: bool) -> None:
    (finding,) = found(f"name: {value}\ntasks: [{{id: a, uses: noop}}]\n")
    assert finding.message == "the plan has no key `name`, did you mean `plan`?"
    assert (finding.fix is not None) is mended


def test_a_name_beside_the_plan_key_is_a_title() -> None:
    (finding,) = found("plan: p\nname: One\ntasks: [{id: a, uses: noop}]\n")
    assert finding.message == "the plan has no key `name`, did you mean `title`?"


@pytest.mark.parametrize(
    ("tasks", "wrong"),
    [
        ("  - {name: build, run: make}\n", "a task needs the key `id`"),
        ("  - {id: g, gate: decision, ask: q, options: [{name: ok}, {id: bad}]}\n", "an option has no key `name`, did"),
    ],
)
def test_what_other_tools_call_a_name_is_an_id(tasks: str, wrong: str) -> None:
    source = Source(f"plan: p\ndefaults: {{timeout: 1m}}\ntasks:\n{tasks}", "p.yaml", "yaml")
    finding = load(source, Registry()).findings[0]
    assert finding.message.startswith(wrong)
    assert finding.fix is not None and finding.fix.title == "rename `name` to `id`"


def test_no_fix_is_offered_that_would_make_a_key_stand_twice() -> None:
    (finding,) = found("plan: p\ntasks:\n  - {id: a, uses: noop, timeuot: 5m, timeout: 1m}\n")
    assert "did you mean `timeout`?" in finding.message and finding.fix is None


def test_a_node_that_aliases_share_is_checked_once() -> None:
    shared = Mapping([(Scalar("atempts", 5, 12, "atempts"), Scalar(1, 14, 15, "1"))], 4, 16)
    shared.anchor = "r"
    names = [Scalar("id", 0, 0), Scalar("retry", 0, 0)]
    tasks = [Mapping([(names[0], Scalar(f"t{number}", 0, 0)), (names[1], shared)], 0, 0) for number in range(50)]
    entries = [(Scalar("plan", 0, 0), Scalar("p", 0, 0)), (Scalar("tasks", 0, 0), Sequence(list(tasks), 0, 0))]
    assert [finding.code for finding in schema.check(Mapping(entries, 0, 0))] == ["PLAN003"]


@rows("uses", ["uses", "using"])
@rows("inputs", ["with", "input", "inputs"])
def test_inputs_of_built_in_capabilities_are_checked_by_the_capability_that_is_used(uses: str, inputs: str) -> None:
    def codes(capability: str) -> list[str]:
        task = f"{{id: a, {uses}: {capability}, {inputs}: {{path: [x]}}}}"
        return [finding.code for finding in found(f"plan: p\ntasks:\n  - {task}\n")]

    assert codes("files.read") == ["PLAN005"]
    assert codes("other.read") == []


def test_schema_findings_and_graph_findings_stand_side_by_side() -> None:
    codes = {
        finding.code
        for finding in loaded("plan: p\ntasks:\n  - {id: a, uses: noop, needs: [zz], colour: 1}\n").findings
    }
    assert {"PLAN003", "PLAN101"} <= codes


def task_of(**keys: Any) -> Node:
    return tree_of({"plan": "p", "tasks": [{"id": "a", **keys}]})


STEPS = [{"id": "s", "uses": "noop"}]
EXCLUSIVE: list[dict[str, Any]] = [
    {"run": "x", "command": "y"},
    {"using": "noop", "gate": "approval"},
    {"kind": "gate", "run": "x"},
    {"kind": "gate", "gate": "approval", "using": "noop"},
    {"kind": "gate", "approvers": ["ana"], "expires": "1h", "uses": "noop", "ask": "ok?"},
    {"using": "noop", "subplan": STEPS},
    {"using": "noop", "loop": {"max": 2, "tasks": STEPS}},
    {"env": {"A": "1"}, "environment": {"B": "2"}, "run": "x"},
    *(
        {key: value, action: "noop"}
        for key, value in {"ask": "ok?", "approvers": ["ana"], "expires": "1h", "options": ["a", "b"]}.items()
        for action in ("run", "uses", "using", "command")
    ),
]


@pytest.mark.parametrize("keys", EXCLUSIVE, ids=lambda keys: "-".join(keys))
def test_keys_that_exclude_each_other_are_refused_by_the_published_schema_and_found_once(keys: dict[str, Any]) -> None:
    tree = task_of(**keys)
    assert not VALIDATOR.is_valid(to_json(tree))
    (finding,) = schema.check(tree)
    assert finding.code == "PLAN009"
    text = json.dumps({"plan": "p", "tasks": [{"id": "a", "timeout": "1m", **keys}]})
    found = load(Source(text, "p.json", "json"), Registry(plugins=False)).findings
    assert [each.message for each in found if each.code == "PLAN009"] == [finding.message]


def test_an_environment_in_words_may_stand_beside_variables() -> None:
    assert schema.check(task_of(env={"A": "1"}, environment="a clean room", run="x")) == []


def test_a_long_list_is_narrowed_to_its_faulty_items_without_moving_a_finding() -> None:
    tasks = "".join(f"  - {{id: t{number}, uses: noop}}\n" for number in range(50))
    text = f"plan: p\ntasks:\n{tasks}  - {{id: last, titel: x, retry: {{attempts: 0}}}}\n"
    tree = parse(Source(text)).tree
    assert tree is not None
    quick = schema.check(tree)
    assert [text[finding.span.start : finding.span.end] for finding in quick] == ["titel", "0"]
    assert quick == validation.faults("plan.schema.json", "the plan", tree)


def test_a_list_that_is_long_enough_is_not_told_to_be_short_because_of_a_fault_elsewhere() -> None:
    branches = [
        {"id": "one", "tasks": [{"id": "x", "uses": "noop"}]},
        {"id": "two", "tasks": [{"id": "y", "uses": "noop"}]},
    ]
    tree = task_of(gate=[], branches=branches)
    assert "items" not in " ".join(each.message for each in schema.check(tree))
