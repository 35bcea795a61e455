from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows

from planrunner.plan.compiled import dump
from planrunner.plan.expressions.quantities import Quantity
from planrunner.plan.expressions.values import Names, TemplateError
from planrunner.plan.model import Plan, Task
from planrunner.plan.templated import is_template
from planrunner.plan.templates import problems, references, render

SCOPE = Names(
    {
        "params": {
            "ref": "v1",
            "n": 3,
            "flag": True,
            "none": None,
            "l": [1, {"a": "x"}],
            "items": [1, 2],
            "evil": "{{ params.ref }}",
        },
        "duration": Quantity(90, "time"),
        "cost": Quantity(0.5, "money"),
        "tasks": Names({"sign-off": {"outputs": {"n": 5, "values": [3, 4]}}}),
        "big": "a" * 900_000,
        "long": list(range(2_000)),
    }
)


@rows(
    ("text", "value"),
    [
        ("no template", "no template"),
        ("{{ params.ref }}", "v1"),
        ("{{params.n}}", 3),
        ("{{ params.flag }}", True),
        ("{{ params.none }}", None),
        ("{{ params.l }}", [1, {"a": "x"}]),
        ("{{ params.l[1].a }}", "x"),
        ("{{ params['ref'] }}", "v1"),
        ("{{ params.items }}", [1, 2]),
        ("{{ tasks.sign-off.outputs.n }}", 5),
        ("{{ tasks.sign-off.outputs.values }}", [3, 4]),
        ("{{ tasks['sign-off'].outputs.n }}", 5),
        ("{{ duration }}", "1m30s"),
        ("a {{ params.ref }} b {{ params.n }}", "a v1 b 3"),
        ("{{ params.flag }},{{ params.none }},{{ duration }},{{ cost }}", "true,null,1m30s,$0.50"),
        ("x{{ params.l }}", 'x[1, {"a": "x"}]'),
        ("{{ tasks.sign-off.outputs.n + 1 }}", 6),
        ("n = {{ tasks.sign-off.outputs.n + 1 }}", "n = 6"),
        ("{{ duration * 2 }}", "3m"),
        ("{{ params.ref | upper }}", "V1"),
        ("{{ params.items | join('-') }}", "1-2"),
        ("{{ nope | default('d') }}", "d"),
        ("{{ params.nope.deeper | default('d') }}", "d"),
        ("{{ params.ref if params.flag else 'z' }}", "v1"),
        ("{{ tasks.sign-off.outputs.values | tojson }}", "[3, 4]"),
        ("{{ '<a href=\"x\">' | tojson }}", '"<a href=\\"x\\">"'),
        ("{% for i in params.items %}{{ loop.index }}:{{ i }};{% endfor %}", "1:1;2:2;"),
        ("{% if params.flag %}yes{% else %}no{% endif %}\n", "yes\n"),
        ("{{ '{{' }}.State{{ '}}' }}", "{{.State}}"),
        ("{% raw %}{{ a }}{% endraw %}{{ params.n }}", "{{ a }}3"),
        ("{# kept #} {{ params.n + 0 }}", "{# kept #} 3"),
        ("{{ {'a': {'b': 1}} }}", {"a": {"b": 1}}),
        ("{{ params.evil }}", "{{ params.ref }}"),
        ("x {{ params.evil | trim }}", "x {{ params.ref }}"),
        ("{{ params.ref.upper() }}{{ '' }}", "V1"),
        ("{{ params.l | select('mapping') | map(attribute='a') | list }}", ["x"]),
        ("{{ [item.a for item in params.l if item is a map] }}", ["x"]),
        ("{{ range(2) }}", [0, 1]),
        ("{{ '{% name %}' }}", "{% name %}"),
        ("{% for key, value in params.items() if key == 'n' %}{{ key }}={{ value }}{% else %}none{% endfor %}", "n=3"),
        ("{% for i in params.items %}{{ i }}{{ ', ' if not loop.last else '' }}{% endfor %}", "1, 2"),
        ("{% if params.n == 1 %}a{% elif params.n == 3 %}b{% else %}c{% endif %}", "b"),
        ("x {{- params.ref -}} y\n{%- if true %}\nz{% endif %}", "xv1y\nz"),
        ("{{ params.items | default([]) | unique | length }}", 2),
    ],
)
def test_templates_render_once_and_whole_ones_keep_their_type(text: str, value: object) -> None:
    found = render(text, SCOPE)
    assert (found, type(found)) == (value, type(value))
    assert problems(text) == []


def test_lists_and_maps_are_rendered_inside_and_keys_are_not() -> None:
    value = {"{{ params.n }}": ["{{ params.n }}", {"a": "{{ params.ref }}!"}], "n": 1}
    assert render(value, SCOPE) == {"{{ params.n }}": [3, {"a": "v1!"}], "n": 1}


@rows(
    ("text", "words"),
    [
        ("{{ nope }}", "`nope`"),
        ("a {{ params.nope }}", "`params` has no `nope`"),
        ("{{ params.nope | upper }}", "no `nope`"),
        ("{{ nope + 1 }}", "`nope`"),
        ("{{ tasks.sign-of.outputs.n + 1 }}", "sign-of"),
        ("{{ tasks }}", "a group of names"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ params.l | map(attribute='a') | list }}", "is a number, it has no `a`"),
        ("{{ x", "never closed"),
    ],
)
def test_what_is_missing_is_named(text: str, words: str) -> None:
    with pytest.raises(TemplateError, match=words):
        render(text, SCOPE)


ESCAPES = [
    "{{ ''.__class__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ params['__class__'] + '' }}",
    "{{ params.ref['__class__'] | string }}",
    "{{ params.ref | attr('__class__') }}",
    "{{ params.l | map(attribute='__class__') | first + 1 }}",
    "{{ params.ref.format(params) + '' }}",
    "{{ '{0.__class__}'.format(1) }}",
    "{{ lipsum.__globals__ }}",
    "{{ cycler.__init__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ self.__init__ }}",
    "{{ namespace(a=1) }}",
    "{{ dict(a=1) }}",
    "{{ params.items.append(1) }}",
    "{{ params.l.pop() }}",
    "{{ params.update({}) }}",
    "{{ params.keys.__self__ }}",
    "{{ params.ref.join }}",
    "{{ joiner() }}",
    "{{ loop() }}",
    "{% set a = 1 %}",
    "{% macro a() %}{% endmacro %}",
    "{% include 'a' %}",
    "{% import 'a' as b %}",
    "{% extends 'a' %}",
    "{% block a %}{% endblock %}",
    "{% filter upper %}a{% endfilter %}",
    "{% with a = 1 %}{% endwith %}",
    "{% for a in params.l recursive %}{{ loop(a) }}{% endfor %}",
    "{% do 1 %}",
    "{{ __left__ }}",
    "{{ params | __counted__ }}",
    "{{ params.ref | xmlattr }}",
    "{{ params.l | random }}",
    "{{ (params.ref | upper).__class__ }}",
    "{{ params.get.__func__ + 1 }}",
    "{{ tasks.resolve('x') }}",
    "{{ tasks._values + 1 }}",
    "{% for x in [tasks] %}{{ x._values }}{% endfor %}",
]


@rows("text", ESCAPES)
def test_nothing_leads_out_of_the_sandbox(text: str) -> None:
    with pytest.raises(TemplateError):
        render(text, SCOPE)


BOMBS = [
    "{{ big * 50 }}",
    "{{ [1] * 100000000 }}",
    "{{ 10 ** 10 ** 10 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ big ~ big }}",
    "{{ [big, big] | join }}",
    "{{ long | join(big) }}",
    "{{ big | replace('a', big) }}",
    "{{ [" + "big," * 5000 + "] | tojson }}x",
    "{{ [" + "big," * 5000 + "] }}x",
    "{{ big + big }}",
    "{{ big | indent(10000000) }}",
    "{{ long | join('\n') | indent(80) | indent(80) | indent(80) | indent(80) | indent(80) | indent(80) | indent(80) }}",
    "{{ 'a' | center(1000000000) }}",
    "{{ 'a'.ljust(1000000000) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ [1] | batch(100000000, 0) | list }}",
    "{% for a in long %}{% for b in long %}{% for c in long %}{% endfor %}{% endfor %}{% endfor %}",
    "{% for a in long %}{{ big }}{% endfor %}",
    "{{ [" * 5000,
    "{{ " + "(" * 20_000 + ")" * 20_000 + " }}",
    "{{ " + "1 + " * 9_000 + "1 }}",
    "{{ x." * 20_000,
    "{{ 1+1+1 }}" * 20_000,
]


@pytest.mark.slow
@rows("text", BOMBS)
def test_no_template_takes_much_time_or_memory(text: str) -> None:
    began = time.process_time()
    with pytest.raises(TemplateError):
        render(text, SCOPE)
    assert time.process_time() - began < 5


def test_rendered_text_is_bounded_for_plain_references_too() -> None:
    with pytest.raises(TemplateError, match="1,048,576"):
        render("{{ big }}{{ big }}", SCOPE)


@rows(
    ("text", "message", "marked"),
    [
        ("a {{ x", "never closed", "{{"),
        ("docker {{.State}} {{ x }}", "does not parse", "."),
        ("{{ 2 ** 10 }}", "`**` is not an operator", "**"),
        ("{{ a.uper() }}", "unknown method `uper`", "uper"),
        ("{{ a | join(y=1) }}", "no argument `y`", "join"),
        ("a\n{% set x = 1 %}\nb", "no `set`", "{% set x = 1 %}"),
        ("{% if a %}", "never closed", "{%"),
        ("{% else %}", "not expected", "{% else %}"),
        ("{% for x on a %}{% endfor %}", "does not parse", "on"),
    ],
)
def test_lint_points_at_the_name_or_the_placeholder(text: str, message: str, marked: str) -> None:
    found = problems(text)[0]
    assert message in found.message
    assert text[found.start : found.end] == marked


@rows(
    ("text", "paths"),
    [
        ("no", []),
        ("{{ params.ref }} {{ tasks.sign-off.outputs.n }}", [("params", "ref"), ("tasks", "sign-off", "outputs", "n")]),
        ("{{ tasks['sign-off'].outputs[0] }}", [("tasks", "sign-off", "outputs")]),
        ("{{ a | default(b.c) | join(separator=z) }}", [("a",), ("b", "c"), ("z",)]),
        ("{{ [x.n for x in a.b if x.ok] }}", [("a", "b")]),
        ("{{ '{% name %}' }}", []),
        ("{{ a.upper() + b.items()[0] }}", [("a",), ("b",)]),
        ("{{ a is defined and b is not none and not c }}", [("a",), ("b",), ("c",)]),
        ("{% for i, j in a.b %}{{ i.x }}{{ j }}{{ k }}{{ loop.index }}{% endfor %}", [("a", "b"), ("k",)]),
        ("{% if a.b == 'c.d' %}{{ 'e' }}{% endif %}", [("a", "b")]),
        ("{% raw %}{{ a }}{% endraw %}{{ b }}", [("b",)]),
        ("{{ {'k': v}['k'] }}", [("v",)]),
        ("{{ tasks.a.outputs.n - 1 }}", [("tasks", "a", "outputs", "n")]),
    ],
)
def test_references_are_the_names_a_text_reads(text: str, paths: list[tuple[str, ...]]) -> None:
    found = references(text, 100)
    assert [path for path, _, _ in found] == paths
    for path, start, end in found:
        assert text[start - 100 : end - 100].startswith(path[0])


def test_templates_of_a_compiled_plan_do_not_load_the_grammar() -> None:
    text = "a {{ tasks.a-b.outputs.n + 1 }}{% for x in [1, 2] %}{{ x | str }}{% endfor %}"
    compiled = dump(Plan("p", tasks=(Task("a-b", inputs={"deep": [text]}),)))
    code = (
        "import sys; from planrunner.plan.compiled import load; from planrunner.plan.templates import render\n"
        "from planrunner.plan.expressions.evaluate import Names\n"
        f"text = load({compiled!r}).tasks[0].inputs['deep'][0]\n"
        "assert render(text, Names({'tasks': {'a-b': {'outputs': {'n': 1}}}})) == 'a 212'\n"
        "sys.exit('planrunner.syntax.lalr' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=240).returncode == 0


def test_the_templates_of_a_text_are_bounded_together() -> None:
    text = "".join(f"{{{{ name_{number} }}}}" for number in range(8_000))
    (problem,) = problems(text)
    assert "at most 65,536 characters together" in problem.message


PIECES = [
    "{{ ",
    " }}",
    "{% ",
    " %}",
    "if ",
    "for x in ",
    "endif",
    "params",
    ".ref",
    "[0]",
    " | upper",
    "'",
    '"',
    "(",
    ")",
    "{",
    "}",
    "-",
    " + 1",
    "a",
    "\n",
]


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.recursive(st.text(max_size=4) | st.integers(), st.lists, max_leaves=3),
)
def test_any_text_renders_or_fails_with_our_error(text: str, value: Any) -> None:
    scope = Names({"params": {"ref": value}, "a": value})
    wrong = problems(text)
    for problem in wrong:
        assert 0 <= problem.start <= problem.end <= len(text)
    references(text)
    try:
        found = render(text, scope)
    except TemplateError as error:
        assert error.message
        return
    assert is_template(text) or found == text
    assert not wrong


@pytest.mark.parametrize("number", ["1e400\u0661", "1.\u0662", "1" * 5000, "1e999", "[-1e999]"])
def test_a_number_that_python_cannot_read_or_hold_does_not_parse(number: str) -> None:
    for text in (f"{{{{ [{number}] }}}}", f"a {{{{ {number} }}}}", f"{{% if {number} %}}x{{% endif %}}"):
        assert [problem.code for problem in problems(text)] == ["PLAN210"]
        with pytest.raises(TemplateError, match="does not parse"):
            render(text, SCOPE)


@pytest.mark.parametrize("name", ["items", "keys", "values", "get"])
def test_a_member_of_a_map_with_the_name_of_a_method_is_data_unless_it_is_called(name: str) -> None:
    scope = Names({"params": {"order": {}, "own": {name: 3}}})
    assert render("{{ params.order." + name + " | default(7) }}", scope) == 7
    assert render("{{ params.own['" + name + "'] + 0 }}", scope) == 3


def test_methods_that_are_called_are_found_beside_members_of_their_name() -> None:
    scope = Names({"params": {"own": {"keys": 3}}})
    assert render("{% for key in params.own.keys() %}{{ key }}{% endfor %}", scope) == "keys"
    assert render("{{ params.own.get('keys', 1) + 0 }}", scope) == 3


def test_default_stands_in_for_null_as_it_does_in_expressions() -> None:
    assert render("{{ params.none | default('y') }}", SCOPE) == "y"


def test_the_filter_string_writes_values_as_the_template_around_does() -> None:
    scope = Names({"one": {"ok": True}, "none": None})
    assert render("{{ one | string }} {{ none | string }}", scope) == '{"ok": true} null'
