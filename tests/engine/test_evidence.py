"""What gates look at: files, reports of tests, data with its schema, changes of a tree."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrunner.capabilities.jsonschema import faults
from planrunner.engine.evidence import examine


def one(directory: Path, **look: Any) -> dict[str, Any]:
    found, _ = examine([look], str(directory))
    assert len(found) == 1
    return found[0]


def test_a_file_is_shown_with_a_digest_that_every_byte_changes(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"one\ntwo\n")
    before = one(tmp_path, kind="file", path="notes.txt")
    assert (before["text"], before["size"]) == ("one\ntwo\n", 8)
    path.write_bytes(b"one\ntwp\n")
    assert one(tmp_path, kind="file", path="notes.txt")["digest"] != before["digest"]


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    assert one(tmp_path, kind="file", path="nothing.txt")["problem"] == "nothing.txt: there is no such file"
    assert "no file fits" in one(tmp_path, kind="file", path="*.txt")["problem"]


def test_a_pattern_shows_every_file_in_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).write_text(name)
    found, _ = examine([{"kind": "file", "path": "*.txt"}], str(tmp_path))
    assert [item["name"] for item in found] == ["a.txt", "b.txt"]


GOOD = '<testsuite><testcase name="a"/><testcase name="b"><skipped/></testcase></testsuite>'
BAD = '<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure>x</failure></testcase></testsuite></testsuites>'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD, None),
        (BAD, "junit.xml: 1 of 2 tests failed: b"),
        ("<testsuite/>", "junit.xml: the report holds no tests"),
        ("<testsuite>", "is not a JUnit report"),
        ('<!DOCTYPE x [<!ENTITY a "aaaa">]>' + GOOD, "declares a document type"),
    ],
)
def test_a_report_of_tests_speaks_for_itself(tmp_path: Path, text: str, problem: str | None) -> None:
    (tmp_path / "junit.xml").write_text(text)
    found = one(tmp_path, kind="junit", path="junit.xml")
    assert found.get("problem") is None if problem is None else problem in found["problem"]


def test_a_report_is_counted(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(GOOD)
    counts = one(tmp_path, kind="junit", path="junit.xml")["counts"]
    assert counts == {"total": 2, "passed": 1, "failed": 0, "skipped": 1}


def test_data_is_held_to_its_schema(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(
        '{"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}'
    )
    (tmp_path / "d.json").write_text('{"name": 3}')
    look = {"kind": "schema", "path": "d.json", "schema": "s.json"}
    assert one(tmp_path, **look)["problem"] == "d.json does not fit s.json: /name: expected string, found integer"
    (tmp_path / "d.json").write_text('{"name": "x"}')
    assert "problem" not in one(tmp_path, **look)
    (tmp_path / "d.yaml").write_text("name: x\n")
    assert "problem" not in one(tmp_path, **{**look, "path": "d.yaml"})


@pytest.mark.parametrize("text", ['{"minimum": "x"}', '{"required": 3}', '{"foo": 1}', '{"$ref": "#"}', "[1]", "{"])
def test_a_schema_that_cannot_be_applied_keeps_the_gate_closed(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.json").write_text(text)
    (tmp_path / "d.json").write_text("3")
    if text == '{"required": 3}':
        (tmp_path / "d.json").write_text("{}")
    assert one(tmp_path, kind="schema", path="d.json", schema="s.json")["problem"]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text("abc", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
_TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
_LEAVES = st.one_of(
    st.booleans(),
    st.fixed_dictionaries({"type": _TYPES}),
    st.fixed_dictionaries({"enum": st.lists(_VALUES, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"const": _VALUES}),
    st.fixed_dictionaries({"minimum": st.integers(-2, 5), "maximum": st.integers(0, 9)}),
    st.fixed_dictionaries({"minLength": st.integers(0, 2), "pattern": st.sampled_from(["a", "^b", "c$"])}),
    st.fixed_dictionaries({"required": st.lists(st.sampled_from("abc"), unique=True, max_size=2)}),
    st.fixed_dictionaries({"uniqueItems": st.booleans(), "maxItems": st.integers(0, 3)}),
)
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {}, optional={"properties": st.dictionaries(st.sampled_from("ab"), inner), "additionalProperties": inner}
        ),
        st.fixed_dictionaries(
            {"patternProperties": st.dictionaries(st.sampled_from(["a", "[bc]"]), inner, max_size=2)},
            optional={"additionalProperties": inner},
        ),
        st.fixed_dictionaries({}, optional={"items": inner, "prefixItems": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner}, optional={"then": inner, "else": inner}),
        st.fixed_dictionaries({"contains": inner}),
        st.fixed_dictionaries({"propertyNames": inner}),
    ),
    max_leaves=6,
)


@given(_SCHEMAS, _VALUES)
def test_the_schema_check_agrees_with_the_reference(schema: Any, data: Any) -> None:
    expected = jsonschema.Draft202012Validator(schema).is_valid(data)
    assert (not faults(schema, data)) == expected


def test_references_inside_a_schema_are_followed() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    schema = {"$defs": {"node": tree}, "$ref": "#/$defs/node"}
    assert not faults(schema, {"next": {"next": {}}})
    assert faults(schema, {"next": {"next": 3}}) == ["/next/next: expected object, found integer"]
    assert "which the schema does not have" in faults({"$ref": "other.json"}, 1)[0]
    assert "which the schema does not have" in faults({"properties": {"default": {"$ref": "#/a"}}}, {})[0]
    assert faults({"$ref": "#"}, 1) == ["/: the schema, or the data that it describes, is nested too deep"]


def test_what_is_not_allowed_is_named_with_its_place() -> None:
    assert faults({"properties": {"a": False}, "items": False}, {"a": 1}) == ["/a: nothing is allowed here"]
    assert faults({"items": [True], "additionalItems": False}, [1, 2]) == ["/1: nothing is allowed here"]
    assert faults({"additionalProperties": False}, {"a": 1, "b": 2}) == [
        "/: `a` is not allowed",
        "/: `b` is not allowed",
    ]


def _git(directory: Path, *words: str) -> None:
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    subprocess.run(["git", *words], cwd=directory, check=True, capture_output=True, env={**os.environ, **names})


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    _git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_a_diff_shows_and_counts_what_changed_and_what_is_new(tree: Path) -> None:
    (tree / "a.txt").write_text("two\n")
    (tree / "b.txt").write_text("new\n")
    found = one(tree, kind="diff")
    assert found["counts"] == {"files": 2, "added": 2, "removed": 1}
    assert "+two" in found["text"]
    assert "new file b.txt\n+new\n" in found["text"]
    (tree / "b.txt").write_text("nev\n")
    assert one(tree, kind="diff")["digest"] != found["digest"]


def test_a_diff_of_a_range_cannot_smuggle_options(tree: Path) -> None:
    assert "dash" in one(tree, kind="diff", range="--output=stolen")["problem"]
    assert not (tree / "stolen").exists()
    assert one(tree, kind="diff", range="HEAD..HEAD")["counts"]["files"] == 0


def test_a_diff_of_a_path_shows_what_changed_there_alone(tree: Path) -> None:
    (tree / "a.txt").write_text("two\n")
    (tree / "src").mkdir()
    (tree / "src" / "new.py").write_text("x\n")
    found = one(tree, kind="diff", range="a.txt")
    assert (found["name"], found["counts"]) == ("git diff -- a.txt", {"files": 1, "added": 1, "removed": 1})
    assert "new file src/new.py" in one(tree, kind="diff", range="src")["text"]
    assert one(tree, kind="diff", range="*.py")["counts"]["files"] == 1


def test_a_diff_of_what_is_neither_a_path_nor_a_range_is_a_problem(tree: Path) -> None:
    problem = one(tree, kind="diff", range="nowhere")["problem"]
    assert problem == "nowhere: there is no such file, and git knows no such range of commits"


def test_a_diff_in_a_repository_without_commits_is_a_problem(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "a.txt").write_text("one\n")
    for range_ in ("a.txt", ""):
        assert one(tmp_path, kind="diff", range=range_)["problem"].endswith("no commit yet to compare with")


def test_a_diff_where_there_is_no_repository_is_a_problem(tmp_path: Path) -> None:
    assert one(tmp_path, kind="diff", range="a.txt")["problem"] == "a.txt: this is not a git work tree"
    assert one(tmp_path, kind="diff")["problem"] == "diff: this is not a git work tree"


def test_the_policy_of_the_project_has_a_digest_that_people_do_not_change(tmp_path: Path) -> None:
    def policy(text: str) -> str:
        (tmp_path / "planrunner.yaml").write_text(text)
        return examine([], str(tmp_path))[1]

    first = policy("policy: {capabilities: {deny: [sql.query]}}\npeople: {ana: [release]}\n")
    assert policy("policy: {capabilities: {deny: [sql.query]}}\npeople: {bo: release}\n") == first
    assert policy("policy: {capabilities: {deny: []}}\n") != first
    found, _ = examine([], str(tmp_path))
    assert not found
    (tmp_path / "planrunner.yaml").write_text("people: [ana]\n")
    assert "takes a mapping" in examine([], str(tmp_path))[0][0]["problem"]


def test_every_record_is_plain_data(tree: Path) -> None:
    looks = [{"kind": "file", "path": "a.txt"}, {"kind": "diff"}, {"kind": "text", "name": "n", "value": {"a": 1}}]
    assert json.loads(json.dumps(examine(looks, str(tree))[0]))[2]["text"] == '{"a":1}'


def test_much_evidence_is_shown_in_part_and_digested_whole(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_text("x" * 9_000)
    found, _ = examine([{"kind": "file", "path": "*.txt"}], str(tmp_path))
    assert sum(len(item["text"]) for item in found) == 100_000
    assert len({item["digest"] for item in found}) == 1
    assert found[29]["digest"].startswith("sha256:")
