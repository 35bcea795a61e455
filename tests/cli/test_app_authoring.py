"""Mending, formatting and finding plans, below the command line."""

from __future__ import annotations

import os

import pytest

from planrunner.app.plans import lint as checks
from planrunner.app.plans.files import find_plans
from planrunner.app.plans.lint import Choice, decode, diff_text, mend_file, registry, write_text
from planrunner.app.plans.reference import input_schema, part
from planrunner.capabilities.builtin import description_of
from planrunner.capabilities.jsonschema import faults
from planrunner.errors import NotFound, UsageError
from planrunner.plan.fixes import Applied

TWICE = "plan: p\ntasks:\n  - id: a\n    runn: echo\n    timeot: 1m\n"


def test_all_mends_of_one_text_are_made_and_counted():
    mended = mend_file(decode(TWICE.encode(), "p.yaml"), Choice(), registry(), unsafe=False)
    assert mended.source.text == TWICE.replace("runn", "run").replace("timeot", "timeout")
    assert (mended.fixed, mended.findings, mended.before) == (2, (), TWICE)


def test_a_mend_after_which_the_text_does_not_parse_is_taken_back(monkeypatch):
    monkeypatch.setattr(checks, "apply", lambda source, findings, unsafe: Applied("plan: [", tuple(findings)))
    mended = mend_file(decode(TWICE.encode(), "p.yaml"), Choice(), registry(), unsafe=True)
    assert (mended.source.text, mended.fixed) == (TWICE, 0)


def test_rules_left_out_are_not_mended():
    mended = mend_file(decode(TWICE.encode(), "p.yaml"), Choice(ignore=("PLAN003",)), registry(), unsafe=True)
    assert mended.source.text == TWICE


def test_mending_ends_even_if_every_text_brings_a_new_mend(monkeypatch):
    rounds = []

    def grow(source, findings, unsafe):
        rounds.append(1)
        return Applied(source.text + "# again\n", tuple(findings))

    monkeypatch.setattr(checks, "apply", grow)
    mend_file(decode(TWICE.encode(), "p.yaml"), Choice(), registry(), unsafe=False)
    assert len(rounds) == checks.ROUNDS


STAFFED = "plan: p\ntasks:\n  - {id: sign, gate: approval, ask: Go on, approvers: {roles: [relase]}}\n"


@pytest.mark.parametrize(
    ("project", "codes"),
    [
        ("people: {ana: [release]}\n", ["PLAN607"]),
        ("people: {ana: [relase]}\n", []),
        ("policy: {sandbox: true}\n", []),
        ("people: [ana]\n", []),
        (None, []),
    ],
)
def test_roles_are_held_to_the_people_of_the_project_that_the_plan_belongs_to(tmp_path, project, codes):
    (tmp_path / "plans").mkdir()
    if project is not None:
        (tmp_path / "planrunner.yaml").write_text(project)
    file = decode(STAFFED.encode(), str(tmp_path / "plans" / "p.yaml"))
    (tmp_path / ".planrunner").mkdir()
    checked = checks.check_file(file, Choice(), registry())
    assert [finding.code for finding in checked.findings] == codes


def test_a_diff_says_where_the_last_newline_is_missing():
    assert diff_text("p", "a\n", "a\n") == ""
    assert diff_text("p", "a", "b\n").splitlines()[-3:] == ["-a", "\\ No newline at end of file", "+b"]


def test_a_written_file_keeps_its_mode_follows_links_and_leaves_no_scratch(tmp_path):
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    real.write_text("old")
    real.chmod(0o604)
    link.symlink_to(real)
    write_text(str(link), "new\r\n")
    assert real.read_bytes() == b"new\r\n"
    assert real.stat().st_mode & 0o777 == 0o604
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link.yaml", "real.yaml"]
    with pytest.raises(UsageError):
        write_text(str(tmp_path / "none" / "p.yaml"), "x")


def test_a_file_that_is_named_is_a_plan_whatever_it_is_called(tmp_path):
    odd = tmp_path / "odd.txt"
    odd.write_text("x")
    assert find_plans([str(odd), str(odd)]) == [str(odd)]
    with pytest.raises(NotFound):
        find_plans([str(tmp_path / "none.yaml")])
    with pytest.raises(NotFound):
        find_plans([str(tmp_path)])


def test_a_part_of_a_schema_carries_the_definitions_it_refers_to():
    schema = {
        "properties": {"a": {"items": {"$ref": "#/definitions/x"}}},
        "definitions": {"x": {"properties": {"b": {"$ref": "#/definitions/y"}}}, "y": {"type": "string"}, "z": {}},
    }
    assert part(schema, "a")["definitions"].keys() == {"x", "y"}
    assert part(schema, "a.b") == {"$ref": "#/definitions/y", "definitions": {"y": {"type": "string"}}}
    with pytest.raises(NotFound, match="`a` has no key `c`"):
        part(schema, "a.c")


def test_a_template_fits_everywhere_in_the_schema_of_inputs() -> None:
    schema = input_schema(description_of("http.get"))
    inputs = {
        "url": "{{ a }}",
        "retries": {"times": "{{ a }}"},
        "timeout": {"total": "{{ a }}"},
        "expect_status": "{{ a }}",
    }
    assert faults(schema, inputs) == []
    assert faults(schema, {**inputs, "retries": {"tries": 2}}) != []
