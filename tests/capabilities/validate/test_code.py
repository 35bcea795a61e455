"""Real ruff, mypy and Bandit, and data against schemas, in one shape of evidence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.capabilities.validate.code import bandit, mypy, ruff
from planrunner.capabilities.validate.data import json_schema
from planrunner.plan.model import Task

SHAPE = ("tool", "version", "ok", "counts", "findings", "truncated")


class Log:
    def write(self, data: bytes, stream: str = "stdout") -> None: ...
    def beat(self) -> None: ...
    def spend(self, amounts: Any) -> None: ...


def context(directory: Path, **env: str) -> Context:
    call = Call("r", Task("t"), 1, "k", {}, "", (), {}, env, str(directory), "", None)
    return Context(call, Log(), lambda: False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "ruff.toml").write_text("fix = true\n[lint]\nselect = ['E', 'F']\n")
    (tmp_path / "shop.py").write_text("import os\n\n\ndef price(cents: int) -> str:\n    return cents\n\n\neval('1')\n")
    return tmp_path


class TestRuff:
    def test_findings_have_rule_place_and_message_and_nothing_is_fixed(self, project: Path) -> None:
        before = (project / "shop.py").read_bytes()
        found = ruff(context(project), python=sys.executable, fail=False)
        assert found._fields == SHAPE
        assert (found.tool, found.ok, found.truncated) == ("ruff", False, False)
        assert found.findings == [
            {
                "rule": "F401",
                "severity": "warning",
                "message": "`os` imported but unused",
                "file": "shop.py",
                "line": 1,
                "column": 8,
            }
        ]
        assert found.counts == {"total": 1, "error": 0, "warning": 1, "note": 0}
        assert (project / "shop.py").read_bytes() == before
        assert {path.name for path in project.iterdir()} == {"ruff.toml", "shop.py"}

    def test_rules_are_chosen_and_the_layout_is_looked_at(self, project: Path) -> None:
        found = ruff(context(project), "shop.py", select=["S307"], layout=True, python=sys.executable, fail=False)
        assert [each["rule"] for each in found.findings] == ["S307", "format"]
        assert found.findings[1]["file"] == "shop.py"
        assert ruff(context(project), select=["S307"], ignore=["S307"], python=sys.executable).ok

    def test_a_finding_fails_the_task(self, project: Path) -> None:
        with pytest.raises(Failure, match=r"ruff: F401 `os` imported but unused \(shop.py:1\)") as failed:
            ruff(context(project), python=sys.executable)
        assert failed.value.failure == "findings"
        assert failed.value.outputs["counts"]["total"] == 1

    def test_a_path_where_nothing_stands_is_no_finding(self, project: Path) -> None:
        for check in (ruff, mypy, bandit):
            with pytest.raises(Failure, match=r"nowhere\.py does not exist") as failed:
                check(context(project), ["shop.py", "nowhere.py"], python=sys.executable)
            assert failed.value.failure == "logic"

    def test_settings_that_cannot_be_read_are_no_finding(self, project: Path) -> None:
        (project / "ruff.toml").write_text("[lint\n")
        with pytest.raises(Failure, match="ruff ended with 2") as failed:
            ruff(context(project), python=sys.executable)
        assert failed.value.failure == "logic"

    def test_findings_are_bounded(self, project: Path) -> None:
        (project / "many.py").write_text("".join(f"import m{n}\n" for n in range(50)))
        found = ruff(context(project), python=sys.executable, fail=False, max_findings=10)
        assert (len(found.findings), found.counts["total"], found.truncated) == (10, 51, True)

    def test_a_program_on_the_path_is_found_where_python_has_none(self, project: Path, tmp_path: Path) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        (folder / "ruff").symlink_to(Path(sys.executable).parent / "ruff")
        (folder / "python").chmod(0o755)
        found = ruff(context(project, PATH=f"{folder}:/usr/bin:/bin"), "shop.py", fail=False)
        assert found.version
        assert found.counts["total"] == 1


class TestMypy:
    def test_findings_have_rule_and_place(self, project: Path) -> None:
        found = mypy(context(project), "shop.py", strict=True, python=sys.executable, fail=False)
        assert found.findings == [
            {
                "rule": "return-value", "severity": "error", "file": "shop.py", "line": 5, "column": 12,
                "message": 'Incompatible return value type (got "int", expected "str")',
            }
        ]  # fmt: skip
        assert {path.name for path in project.iterdir()} == {"ruff.toml", "shop.py"}

    def test_a_file_that_does_not_parse_is_a_finding(self, project: Path) -> None:
        (project / "broken.py").write_text("def (\n")
        found = mypy(context(project), "broken.py", python=sys.executable, fail=False)
        assert found.findings[0]["rule"] == "syntax"


class TestBandit:
    def test_findings_are_weighed_and_chosen_by_severity(self, project: Path) -> None:
        (project / "run.py").write_text("import subprocess\nsubprocess.run('ls', shell=True)\nassert True\n")
        found = bandit(context(project), python=sys.executable, fail=False)
        assert found.counts["total"] >= 4
        assert found.counts["warning"] >= 1
        assert found.findings[0]["severity"] in ("error", "warning")
        weighty = bandit(context(project), "shop.py", severity="medium", python=sys.executable, fail=False)
        assert [(each["rule"], each["file"], each["line"], each["column"]) for each in weighty.findings] == [
            ("B307", "shop.py", 8, 1)
        ]
        assert bandit(context(project), "shop.py", severity="high", python=sys.executable).ok


SCHEMA = {
    "type": "object",
    "required": ["name"],
    "properties": {"ports": {"items": {"type": "integer"}}, "a/b": {"properties": {"c": {"const": 1}}}},
}


class TestSchema:
    def test_data_of_the_plan_is_held_against_a_schema(self, tmp_path: Path) -> None:
        assert json_schema(context(tmp_path), {"name": "x", "ports": [1]}, schema=SCHEMA).ok
        found = json_schema(context(tmp_path), {"ports": [1, "x"]}, schema=SCHEMA, fail=False)
        assert [each["message"] for each in found.findings] == [
            "/: `name` missing", "/ports/1: expected integer, found string",
        ]  # fmt: skip

    def test_null_is_data_and_nothing_is_none(self, tmp_path: Path) -> None:
        given = context(tmp_path)
        null = given._replace(call=given.call._replace(inputs={"data": None, "schema": SCHEMA}))
        assert not json_schema(null, None, schema=SCHEMA, fail=False).ok
        for inputs in ({}, {"files": []}, {"schema_file": "s.json", "schema": None}):
            with pytest.raises(Failure, match="nothing to validate: set `data` or `files`") as refused:
                json_schema(given, **{"schema": {}, **inputs})  # type: ignore[arg-type]
            assert refused.value.failure == "logic"
        with pytest.raises(Failure, match="give one of `data` and `files`"):
            json_schema(given, 1, files="a.json", schema={})

    @pytest.mark.parametrize(
        ("schema", "message"),
        [
            ("d.json", "`schema` is the schema itself; a file is named by `schema_file`"),
            ([], "`schema` is not a valid JSON Schema: /: expected object or boolean, found array"),
            ({"type": "strng"}, '/type: "strng" is not one of ."null", "boolean"'),
            ({"type": []}, "/type: 0 items are less than 1"),
            ({"type": ["string", 5]}, "/type/1: 5 is not one of"),
            ({"properties": {"a": {"items": {"type": "text"}}}}, '/properties/a/items/type: "text" is not one of'),
            ({"properties": ["a"]}, "/properties: expected object, found array"),
            ({"required": "a"}, "/required: expected array, found string"),
            ({"pattern": "("}, r'/pattern: "\(" is not a pattern: '),
            ({"pattern": 5}, "/pattern: expected string, found integer"),
            ({"patternProperties": {"[": {}}}, '/patternProperties/.: "." is not a pattern'),
            ({"minimum": "1"}, "/minimum: expected number, found string"),
            ({"multipleOf": 0}, "/multipleOf: 0 is not more than 0"),
            ({"maxItems": 1.5}, "/maxItems: expected integer, found number"),
            ({"anyOf": {"type": "string"}}, "/anyOf: expected array"),
            ({"anyOf": [True, "x"]}, "/anyOf/1: expected object or boolean, found string"),
            ({"$ref": "#/$defs/a"}, "it refers to `#/.defs/a`, which the schema does not have"),
            ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "x"}}}, '/.defs/a/type: "x" is not one of'),
            ({"$ref": 5}, "/.ref: expected string, found integer"),
            ({"requird": ["a"]}, "/requird: the keyword is not known"),
            ({"dependentRequired": {"a": "b"}}, "/dependentRequired/a: expected array"),
            ({"uniqueItems": "yes"}, "/uniqueItems: expected boolean"),
        ],
    )
    def test_a_schema_that_is_none_is_the_fault_whatever_the_data(
        self, tmp_path: Path, schema: Any, message: str
    ) -> None:
        for data in ({}, "x", None):
            given = context(tmp_path)
            given = given._replace(call=given.call._replace(inputs={"data": data}))
            with pytest.raises(Failure, match=message) as refused:
                json_schema(given, data, schema=schema, fail=False)
            assert refused.value.failure == "logic"

    def test_sound_schemas_pass_as_ever(self, tmp_path: Path) -> None:
        tree = {
            "$ref": "#/$defs/tree",
            "$defs": {"tree": {"type": "object", "additionalProperties": {"$ref": "#/$defs/tree"}}},
        }
        for schema in (
            True,
            {},
            tree,
            {"items": [{"type": ["null", "number"]}, False], "format": "x"},
            {"if": {}, "then": True},
        ):
            assert json_schema(context(tmp_path), {"a": {"b": {}}}, schema=schema).ok

    def test_files_of_json_and_yaml_are_checked_with_lines_and_columns(self, tmp_path: Path) -> None:
        (tmp_path / "schema.yaml").write_text(
            "required: [name]\nproperties:\n  ports: {items: {type: integer}}\n  a/b: {properties: {c: {const: 1}}}\n"
        )
        (tmp_path / "one.yaml").write_text("name: x\nports:\n  - 1\n  - x\n")
        (tmp_path / "two.json").write_text('{"name": "x",\n "a/b": {"c": 2}}')
        (tmp_path / "bad.json").write_text('{"name": ')
        found = json_schema(context(tmp_path), files=["one.yaml", "*.json"], schema_file="schema.yaml", fail=False)
        places = [(each["file"], each["line"], each["column"], each["rule"]) for each in found.findings]
        assert places == [("one.yaml", 4, 5, "schema"), ("bad.json", 0, 0, "syntax"), ("two.json", 2, 15, "schema")]

    def test_what_is_not_there_fails(self, tmp_path: Path) -> None:
        with pytest.raises(Failure, match="give one of `schema` and `schema_file`"):
            json_schema(context(tmp_path), {})
        with pytest.raises(Failure, match="no file matches no"):
            json_schema(context(tmp_path), files="no*.json", schema={})
        with pytest.raises(Failure, match=r"s\.json cannot be read"):
            json_schema(context(tmp_path), {}, schema_file="s.json")
