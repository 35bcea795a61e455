from __future__ import annotations

import pytest
from rows import rows

from planrunner.plan.expressions.check import (
    ANY,
    BOOL,
    NUMBER,
    SIZE,
    STRING,
    TIME,
    Type,
    check,
    check_condition,
    declared,
    list_of,
    map_of,
    object_of,
    optional,
)
from planrunner.plan.expressions.evaluate import constant
from planrunner.plan.expressions.parse import parse

OUTPUTS = object_of({"count": NUMBER, "names": list_of(STRING)}, "task `test`", "PLAN202")
NAMES: dict[str, Type] = {
    "exit_code": NUMBER,
    "duration": TIME,
    "stdout": STRING,
    "anything": ANY,
    "env": map_of(STRING),
    "params": object_of({"base-branch": STRING, "n": NUMBER, "deploy": BOOL}),
    "memory": object_of({"has_space": SIZE}),
    "tasks": object_of(
        {
            "test": object_of({"outputs": OUTPUTS, "ok": BOOL}, "task `test`"),
            "sometimes": optional(object_of({"outputs": object_of({"n": NUMBER})})),
        }
    ),
}


@rows(
    "text",
    [
        "exit_code == 0 and duration < 10m",
        "memory.has_space >= 50MB",
        "params.deploy",
        'params["base-branch"] == "main"',
        "tasks.test.outputs.names[0] == 'a'",
        "len(tasks.test.outputs.names) > exit_code",
        "default(tasks.sometimes.outputs.n, 0) > 1",
        "exists(tasks.sometimes)",
        "anything.whatever[0] > 5",
        "env.CI == 'true'",
        "duration * 2 > 1h",
        "50% * 10m < duration",
        "exit_code in [0, 1]",
        "'a' in tasks.test.outputs.names",
        "stdout matches '^v[0-9]+'",
        "first(tasks.test.outputs.names) == stdout",
        "max(1, exit_code) > 0",
        "stdout is not empty",
        "anything",
        "exit_code != null",
        "(duration if params.deploy else 5m) > 1m",
    ],
)
def test_sound_conditions_have_no_findings(text: str) -> None:
    assert check_condition(parse(text), NAMES) == []


@rows(
    ("text", "code", "marked", "words", "way_out"),
    [
        ("exit_cod == 0", "PLAN201", "exit_cod", "`exit_cod` is not defined", "`exit_code`"),
        ("params.m > 1", "PLAN201", "m", "`params` has no `m`", "`n`"),
        ("tasks.tset.ok", "PLAN201", "tset", "has no `tset`", "`test`"),
        ("tasks.test.outputs.cuont > 1", "PLAN202", "cuont", "task `test` has no output `cuont`", "`count`"),
        ("params['bse-branch'] == ''", "PLAN201", "'bse-branch']", "has no `bse-branch`", "`base-branch`"),
        ("params.base-branch == ''", "PLAN201", "base", "", 'params["base-branch"]'),
        ("tasks.sometimes.outputs.n > 1", "PLAN204", "tasks.sometimes.outputs.n", "may be missing", "default("),
        ("duration < 10", "PLAN205", "duration < 10", "a duration is compared with a number", "`10s`"),
        ("memory.has_space == 50", "PLAN205", "memory.has_space == 50", "a size", "`10MB`"),
        ("stdout > 5", "PLAN205", "stdout > 5", "text is compared with a number", "int("),
        ("duration < 5MB", "PLAN205", "duration < 5MB", "a duration is compared with a size", ""),
        ("stdout", "PLAN205", "stdout", "is text, not true or false", "is not empty"),
        ("exit_code", "PLAN205", "exit_code", "is a number, not true or false", "compare"),
        ("not stdout", "PLAN205", "stdout", "not true or false", ""),
        ("params.deploy and exit_code", "PLAN205", "exit_code", "not true or false", ""),
        ("exit_code + stdout == ''", "PLAN205", "exit_code + stdout", "`+` does not take", ""),
        ("exit_code in stdout", "PLAN205", "exit_code in stdout", "text contains text", ""),
        ("stdout.size == 1", "PLAN205", "stdout.size", "is text, it has no `size`", ""),
        ("-stdout == 1", "PLAN205", "-stdout", "does not take text", ""),
        ("len(exit_code) > 1", "PLAN205", "exit_code", "`len` takes text", ""),
        ("range(2)[0] + stdout == ''", "PLAN205", "range(2)[0] + stdout", "`+` does not take", ""),
        ("merge({a: 1}, {b: 2}).c == 1", "PLAN201", "c", "has no", ""),
        ("sha256(stdout) > 5", "PLAN205", "sha256(stdout) > 5", "text is compared with a number", ""),
        ("stdout matches '(a'", "PLAN207", "'(a'", "never closed", ""),
        ("matches(stdout, '(a')", "PLAN207", "'(a'", "never closed", ""),
        ("lenn(stdout) == 1", "PLAN208", "lenn", "unknown function `lenn`", "`len`"),
        ("len() == 1", "PLAN208", "len()", "`len` takes 1 argument, not 0", ""),
        ("split(stdout, ',', 'x') is empty", "PLAN208", "split(stdout, ',', 'x')", "1 to 2 arguments, not 3", ""),
        ("exists() ", "PLAN208", "exists()", "`exists` takes 1 argument, not 0", ""),
        ("1 < 2", "PLAN206", "1 < 2", "always true", ""),
        ("params.deploy and false", "PLAN206", "params.deploy and false", "always false", ""),
    ],
)
def test_findings_name_the_thing_the_place_and_the_way_out(
    text: str, code: str, marked: str, words: str, way_out: str
) -> None:
    found = check_condition(parse(text), NAMES)
    assert [problem.code for problem in found[:1]] == [code]
    problem = found[0]
    assert text[problem.start : problem.end] == marked
    assert words in problem.message
    assert way_out in problem.help


@rows(
    ("text", "verdict"),
    [
        *(
            ("true", True),
            ("1 == 2", False),
            ("true or a", True),
            ("a and false", False),
            ("a == a", True),
            ("a < a", False),
        ),
        *(
            ("not (1 == 2)", True),
            ("a", None),
            ("a or false", None),
            ("a == b", None),
            ("1 / 0 == 1", None),
            ("a.b != a['b']", None),
        ),
    ],
)
def test_conditions_that_never_change_are_known(text: str, verdict: bool | None) -> None:
    assert constant(parse(text).tree) is verdict


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1 + 2", "number"),
        ("duration / 1s", "number"),
        ("50% * 10m", "time"),
        ("split(stdout)", "list"),
        ("{a: 1}", "object"),
    ],
)
def test_expressions_have_types(text: str, kind: str) -> None:
    assert check(parse(text), NAMES)[0].kind == kind


def test_declared_words_are_types() -> None:
    assert declared("list[url]") == list_of(STRING)
    assert declared("duration") == TIME
    assert declared("whatever") == ANY
