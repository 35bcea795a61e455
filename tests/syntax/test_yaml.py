"""The YAML reader: values, places, findings, anchors and merge keys; and JSON, which gives the same tree."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from rows import rows

from planrunner.diagnostics import Diagnostic
from planrunner.source import Source
from planrunner.syntax import yaml
from planrunner.syntax.notations import decode, parse
from planrunner.syntax.tree import Json, Mapping, Node, Scalar, Sequence, to_json

if TYPE_CHECKING:
    from planrunner.source import Notation


def read(text: str, notation: Notation = "yaml") -> Node:
    parsed = parse(Source(text, "x", notation))
    assert parsed.tree is not None, parsed.findings
    return parsed.tree


def value(text: str) -> Json:
    tree = read(f"key: {text}\n")
    assert isinstance(tree, Mapping)
    found = tree.get("key")
    assert found is not None
    return to_json(found)


def findings(text: str) -> tuple[Diagnostic, ...]:
    return parse(Source(text)).findings


@rows(
    ("text", "expected"),
    [
        ("", None), ("~", None), ("null", None), ("NULL", None), ("nUll", "nUll"), ("true", True), ("False", False), ("tRue", "tRue"),
        ("no", "no"), ("yes", "yes"), ("on", "on"), ("y", "y"), ("1", 1), ("-12", -12), ("+5", 5), ("017", 17), ("0o17", 15), ("0x1F", 31),
        ("0b1", "0b1"), ("1_000", "1_000"), ("1:30", "1:30"), ("2026-01-01", "2026-01-01"), ("1.5", 1.5), (".5", 0.5), ("1.", 1.0),
        ("1e3", 1000.0), ("-1.5E-2", -0.015), ("1.2.3", "1.2.3"), ("٣", "٣"), ('"1"', "1"), ("'true'", "true"), ("=", "="), ("10m", "10m"),
    ],
)  # fmt: skip
def test_a_word_has_the_type_of_the_yaml_1_2_core_rules(text: str, expected: Json) -> None:
    found = value(text)
    assert type(found) is type(expected)
    assert found == expected


def test_keys_are_strings_as_written() -> None:
    assert to_json(read("1: a\ntrue: b\non: c\n'x y': d\n0x1: e\n")) == {
        "1": "a",
        "true": "b",
        "on": "c",
        "x y": "d",
        "0x1": "e",
    }


def spans(text: str, node: Node) -> dict[str, str]:
    """What the spans of all nodes cover, by their path."""
    found: dict[str, str] = {}

    def visit(part: Node, path: str) -> None:
        found[path] = text[part.start : part.end]
        if isinstance(part, Mapping):
            for key, inner in part.entries:
                found[f"{path}/{key.value}~"] = text[key.start : key.end]
                visit(inner, f"{path}/{key.value}")
        elif isinstance(part, Sequence):
            for index, inner in enumerate(part.items):
                visit(inner, f"{path}/{index}")

    visit(node, "")
    return found


TEXT = """\
plan: "ünï 😀"   # comment
tasks:
  - id: a
    run: |
      one

      two

    needs: [b, {c: 'd'}]
  - &anchor
    id: b
    none:
last: >-
  folded
  text
"""


def test_every_node_has_its_exact_span() -> None:
    found = spans(TEXT, read(TEXT))
    assert found["/plan"] == '"ünï 😀"'
    assert found["/plan~"] == "plan"
    assert found["/tasks/0/run"] == "|\n      one\n\n      two"
    assert found["/tasks/0/needs"] == "[b, {c: 'd'}]"
    assert found["/tasks/0/needs/1"] == "{c: 'd'}"
    assert found["/tasks/0/needs/1/c"] == "'d'"
    assert found["/tasks/0"].startswith("id: a") and found["/tasks/0"].endswith("[b, {c: 'd'}]")
    assert found["/tasks/1"] == "id: b\n    none:"
    assert found["/tasks/1/none"] == ""
    assert found["/last"] == ">-\n  folded\n  text"
    assert found[""] == TEXT.rstrip("\n")


def test_spans_hold_with_a_byte_order_mark_and_with_crlf() -> None:
    text = "\ufeff" + TEXT.replace("\n", "\r\n")
    found = spans(text, read(text))
    assert found["/plan"] == '"ünï 😀"'
    assert found["/tasks/0/needs"] == "[b, {c: 'd'}]"
    assert found["/last"] == ">-\r\n  folded\r\n  text"
    assert to_json(read(text)) == to_json(read(TEXT))


def test_scalars_know_how_they_were_written() -> None:
    tree = read("a: 0x10\nb: 'x'\nc: |\n  y\nd: one\n  two\n")
    assert isinstance(tree, Mapping)
    written = [(node.raw, node.style, node.value) for _, node in tree.entries if isinstance(node, Scalar)]
    assert written == [("0x10", "", 16), ("'x'", "'", "x"), ("|\n  y", "|", "y\n"), ("one\n  two", "", "one two")]


def test_aliases_put_the_same_node_into_the_tree_again() -> None:
    tree = read("a: &x {k: 1}\nb: *x\nc: &y word\nd: *y\n")
    assert isinstance(tree, Mapping)
    assert tree.get("a") is tree.get("b")
    assert tree.get("c") is tree.get("d")
    assert tree.get("a").anchor == "x"  # type: ignore[union-attr]


def test_merge_keys_bring_what_the_mapping_does_not_have() -> None:
    tree = read("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  w: 0\n  <<: [*a, *b]\n  x: 3\n")
    assert isinstance(tree, Mapping)
    merged = tree.get("c")
    assert isinstance(merged, Mapping)
    assert to_json(merged) == {"w": 0, "y": 1, "z": 2, "x": 3}
    assert merged.merged == (tree.get("a"), tree.get("b"))
    assert merged.key("z") is tree.get("b").key("z")  # type: ignore[union-attr]
    assert to_json(read('"<<": 1\n')) == {"<<": 1}


@rows("word", ["yes", "No", "ON", "off", "010", "1:30", "190:20:30.15", "1_000", "-0x_1f"])
def test_words_that_older_readers_misread_are_warned_about(word: str) -> None:
    (finding,) = findings(f"key: {word}\n")
    assert (finding.code, finding.severity) == ("PLAN010", "warning")
    assert finding.span == (5, 5 + len(word))
    assert finding.fix is not None
    fixed = f"key: {finding.fix.edits[0].text}\n"
    assert findings(fixed) == ()
    assert value(finding.fix.edits[0].text) == word
    assert finding.fix.safe == (value(word) == word)


def test_a_key_that_older_readers_misread_is_warned_about_but_on_is_a_word_of_the_language() -> None:
    assert [finding.span for finding in findings("yes: 1\nno: 2\n")] == [(0, 3), (7, 9)]
    assert findings("next: [{on: success, to: x}]\non: 1\n") == ()


@pytest.mark.parametrize("letter", ["y", "Y", "n", "N"])
def test_a_single_letter_is_text_without_a_finding_as_a_key_and_as_a_value(letter: str) -> None:
    assert findings(f"as: {letter}\nwith: {{{letter}: 3}}\n") == ()
    assert value(letter) == letter


def test_text_in_quotes_is_never_a_trap() -> None:
    assert findings("a: \"yes\"\nb: '010'\nc: |\n  no\nd: 1.5\ne: 10m\nf: 2026-01-01\n") == ()


def test_a_key_that_stands_twice_has_both_places() -> None:
    (finding,) = findings("tasks:\n  - id: a\n    run: x\n    run: z\n")
    assert finding.code == "PLAN002"
    assert finding.span == (32, 35)
    assert finding.labels[0].span == (21, 24)
    tree = read("a: 1\nb: 2\na: 3\n")
    assert to_json(tree) == {"a": 1, "b": 2}


def test_what_is_wrong_with_yaml_1_1_and_with_keys_is_found_beside_a_syntax_error() -> None:
    assert [finding.code for finding in findings("a: yes\nb: {c: 1, c: 2}\nd: [\n")] == [
        "PLAN010",
        "PLAN002",
        "PLAN001",
    ]


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("plan:a\nb: c\n", "plan: a\nb: c\n"),
        ("a: {{ x }}/y # c\n", 'a: "{{ x }}/y" # c\n'),
        ("a: [{{ x }}, 1]\n", 'a: ["{{ x }}", 1]\n'),
    ],
)
def test_the_fix_of_a_syntax_error_makes_the_text_parse(text: str, fixed: str) -> None:
    (finding,) = findings(text)
    assert finding.fix is not None
    ((span, replacement),) = finding.fix.edits
    assert text[: span.start] + replacement + text[span.end :] == fixed
    assert findings(fixed) == ()


def test_core_tags_are_read() -> None:
    text = (
        "a: !!str 1\nb: !!int '2'\nc: !!float 3\nd: !!seq [x]\ne: !!map {f: g}\nh: ! 5\ni: !!null ''\nj: !!bool true\n"
    )
    assert to_json(read(text)) == {
        "a": "1",
        "b": 2,
        "c": 3.0,
        "d": ["x"],
        "e": {"f": "g"},
        "h": "5",
        "i": None,
        "j": True,
    }


def test_a_marker_and_a_directive_of_yaml_1_2_may_begin_the_file() -> None:
    assert to_json(read("%YAML 1.2\n---\na: yes\n...\n")) == {"a": "yes"}


def big(tasks: int) -> str:
    lines = ["plan: big", "tasks:"]
    for number in range(tasks):
        lines += [
            f"  - id: task-{number}", f"    title: Task number {number}", "    kind: implement", f"    needs: [task-{max(number - 1, 0)}]",
            "    uses: shell", "    timeout: 5m", "    retry:", "      attempts: 3", "      backoff: exponential", "    env:",
            f"      INDEX: {number}", '      MODE: "fast"', f"    run: echo {number} > out", "    expect: [exit_code == 0]",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_reading_takes_a_small_multiple_of_the_time_that_the_parser_itself_needs() -> None:
    text = big(2000)

    def bare() -> None:
        for _ in iter(yaml.read_events(text).next, None):
            pass

    def seconds(action: Any) -> float:
        times = []
        for _ in range(5):
            start = time.process_time()
            action()
            times.append(time.process_time() - start)
        return min(times)

    assert seconds(lambda: parse(Source(text))) < 6 * seconds(bare)


def test_the_parser_in_python_gives_the_same_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXT.replace("none:\n", "some: x\n") + "m: &m {a: 1}\nn:\n  <<: *m\n  b: !!str 2\n"
    expected = spans(text, read(text))
    monkeypatch.setattr(yaml, "read_events", yaml.read_python_events)
    assert spans(text, read(text)) == expected
    for broken in ("a: b: c\n", "a: [1\n", "a: 'x\n", "a: \x07\n", "a: @x\n", "- a\nb: c\n"):
        (finding,) = findings(broken)
        assert finding.code == "PLAN001"


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240).stdout


def test_ruamel_stays_whole_for_whoever_else_uses_it() -> None:
    code = (
        "from planrunner.source import Source\nfrom planrunner.syntax.notations import parse\n"
        "parse(Source('a: [b]'))\n"
        "import io, ruamel.yaml\nfrom ruamel.yaml import YAML\n"
        "out = io.StringIO()\n"
        "YAML().dump(YAML().load('a: 1 # c\\n'), out)\n"
        "print(out.getvalue(), YAML(typ='safe').load('x: [1, {y: no}]'), end=' ')\n"
        "try:\n    YAML(typ='safe').load('a: [')\nexcept ruamel.yaml.YAMLError as error:\n    print('refused')\n"
        "parse(Source('a: [b]')).tree"
    )
    assert run_python(code) == "a: 1 # c\n {'x': [1, {'y': 'no'}]} refused\n"


def test_ruamel_loaded_before_is_used_as_it_is() -> None:
    code = (
        "import ruamel.yaml\nfrom ruamel.yaml import YAML\nYAML(typ='safe').load('a: b')\n"
        "from planrunner.source import Source\nfrom planrunner.syntax.notations import parse\nfrom planrunner.syntax.tree import to_json\n"
        "print(to_json(parse(Source('a: &x [b, 1]\\nc: *x')).tree), parse(Source('a: b: c')).findings[0].code)"
    )
    assert run_python(code) == "{'a': ['b', 1], 'c': ['b', 1]} PLAN001\n"


def test_json_gives_the_same_tree_as_yaml() -> None:
    text = (
        '{\n\t"plan": "a\\ud83d\\ude00",\r\n\t"tasks": [{"id": "x", "needs": []}, 1, -2.5e3, true, null], "e": {}\n}\n'
    )
    assert to_json(read(text, "json")) == {
        "plan": "a😀",
        "tasks": [{"id": "x", "needs": []}, 1, -2500.0, True, None],
        "e": {},
    }
    found = spans(text, read(text, "json"))
    assert found["/plan"] == '"a\\ud83d\\ude00"'
    assert found["/tasks/0"] == '{"id": "x", "needs": []}'
    assert found[""] == text.strip()


@rows("text", ["1", '"x"', "[]", " {} \n", "null", "\ufeff[1]"])
def test_any_json_value_is_read(text: str) -> None:
    assert parse(Source(text, "x.json", "json")).findings == ()


def test_decode_takes_the_notation_from_the_name_and_drops_a_byte_order_mark() -> None:
    source, found = decode("\ufeffplan: é\n".encode(), "x.yaml")
    assert source is not None and found == ()
    assert (source.text, source.notation, source.name) == ("plan: é\n", "yaml", "x.yaml")
    assert decode(b"", "x.plan")[0].notation == "text"  # type: ignore[union-attr]
    assert decode(b"", "x.json")[0].notation == "json"  # type: ignore[union-attr]


def test_the_messages_about_bytes_say_what_and_where() -> None:
    assert decode("é".encode("utf-16"), "x")[1][0].message == "the file is UTF-16; plans are UTF-8"
    assert decode(b"a\nb\xff", "x")[1][0].message == "the file is not UTF-8: byte 3, on line 2, is 0xff"


def test_a_faulty_yaml_plan_is_answered_without_the_parser_of_the_text_notation() -> None:
    code = (
        "import sys\n"
        "from planrunner.plan.load import load\n"
        "from planrunner.plugins.registry import Registry\n"
        "from planrunner.source import Source\n"
        "found = load(Source('name: one\\ntasks: []\\n', 'p.yaml', 'yaml'), Registry())\n"
        "print(found.plan is None, 'planrunner.syntax.lalr' in sys.modules, 'planrunner.syntax.text' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True False False\n"
