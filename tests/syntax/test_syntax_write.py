"""Writers: what they write reads as equal data, in all three notations, and writing it again changes nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence as Items
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import rows

from planrunner.source import Source
from planrunner.syntax.notations import parse, read_comments, write
from planrunner.syntax.tree import Json, Mapping, Node, Scalar, Sequence, to_json

if TYPE_CHECKING:
    from planrunner.source import Notation

NASTY = [
    "", " ", "  lead", "trail  ", "#", "# c", "a # b", "a #b", "a#b", ": ", "a: b", "a:", ":a", "- ", "-", "- a", "-a", "--- a", "---",
    "...", "? a", "?", "&a", "*a", "!t", "!!str", "%a", "@a", "`a`", "|", ">", "|-", ">+2", "| a", "> 5", ">= 5 sources", "[a", "[a]", "{a}",
    "{{ x }}", "{{ x }}/y", "a {{ x }} b", "{{", "}}", "a, b", "a]", "yes", "No", "on", "OFF", "y", "n", "true", "True", "null", "~", "Null",
    "1", "-1", "+1", "1.0", "1.", ".5", "1e3", "1_000", "0x1f", "0o17", "017", "0b1", "1:30", "2025-10-30", "2025-10-30T00:00:00Z", ".inf",
    ".nan", "<<", "=", "'", "''", '"', '"a" b', "'a' b", "it's", 'say "hi"', "back\\slash", "a\\nb", "tab\tin", "\ttab", "a\nb", "a\nb\n",
    "a\n\n\n", "\na", "\n", "\n\n", "  a\nb", "a\n  b\n", "a\n \nb", "a \nb", "\ta\nb", "a\r\nb", "\r", "\x00", "\x07", "\x1b[0m", "\x7f", "\x85",
    "\xa0", "a\xa0", "\u2028", "\u2029x", "\ufeff", "é", "日本", "😀", "a😀b", "x" * 300, "word " * 60, "status lint", "a or b", "task x",
    "plan x", "finally", "on failure -> x", "when x", "a -> b", "http://x.y/z?a=b#c", "C:\\dir", "key: [a, b]", "a:b", "a::b", "$2", "80%",
    "...a", "a: ", "recovers", "- - a", "-\ta", "a:\tb", "a\t#b", "\u2003a", "=1", "0", "00", "0.1.2", "1-2", "e5", "nan", "inf", "-.5e-3",
]  # fmt: skip

words = st.sampled_from(NASTY) | st.text(max_size=20) | st.text("ab \n#:-'\"[]{},|>\t", max_size=12)
words = words.filter(lambda text: not re.search("[\ud800-\udfff]", text))
leaves: st.SearchStrategy[Json] = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
)
PLAN_KEYS = [
    "plan",
    "title",
    "id",
    "kind",
    "uses",
    "using",
    "needs",
    "on_success",
    "on_failure",
    "next",
    "tasks",
    "finally",
    "loop",
    "subplan",
    "on",
    "to",
    "when",
    "recovers",
]
keys = st.sampled_from(PLAN_KEYS) | words
data: st.SearchStrategy[Json] = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=25
)
mappings = st.dictionaries(keys, data, max_size=6)
relaxed = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def tree_of(value: Json, flow: Items[bool] = (False,)) -> Node:
    """A tree without a text behind it; ``flow`` says in turn which collections stand in brackets."""
    turns = iter([])

    def build(part: Json) -> Node:
        nonlocal turns
        brackets = next(turns, None)
        if brackets is None:
            turns = iter(list(flow))
            brackets = next(turns, False)
        if isinstance(part, dict):
            return Mapping([(Scalar(key, 0, 0), build(inner)) for key, inner in part.items()], 0, 0, bool(brackets))
        if isinstance(part, list):
            return Sequence([build(inner) for inner in part], 0, 0, bool(brackets))
        return Scalar(part, 0, 0)

    return build(value)


def reread(text: str, notation: Notation) -> Node:
    parsed = parse(Source(text, "x", notation))
    errors = [finding for finding in parsed.findings if finding.severity == "error"]
    assert parsed.tree is not None and not errors, (text, errors)
    assert not parsed.findings, (text, parsed.findings)
    return parsed.tree


def same(left: Json, right: Json) -> bool:
    """Equality that tells 1 from 1.0 and from true."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def check(tree: Node, notation: Notation) -> None:
    first = write(tree, notation)
    again = reread(first, notation)
    assert same(to_json(again), to_json(tree)), first
    assert write(again, notation) == first


@relaxed
@given(data, st.lists(st.booleans(), min_size=1, max_size=5))
@pytest.mark.parametrize("notation", ["yaml", "json"])
def test_any_data_survives_yaml_and_json(notation: Notation, value: Json, flow: list[bool]) -> None:
    check(tree_of(value, flow), notation)


@relaxed
@given(mappings, st.lists(st.booleans(), min_size=1, max_size=5))
def test_any_mapping_survives_the_text_notation(value: dict[str, Json], flow: list[bool]) -> None:
    check(tree_of(value, flow), "text")


ids = st.sampled_from(["a", "b-1", "gaps-*", "Ünfit", "5"])
edges = ids | st.fixed_dictionaries(
    {"to": ids}, optional={"recovers": st.booleans(), "when": words, "on": ids, "x": words}
)
tasks = st.fixed_dictionaries(
    {},
    optional={
        "id": ids, "title": words, "kind": words, "uses": words, "needs": words | st.lists(ids, max_size=3),
        "on_failure": edges | st.lists(edges, max_size=3), "on_success": edges | st.lists(edges, max_size=3),
        "next": st.lists(edges, max_size=3), "run": words, "expect": st.lists(words, max_size=3),
    },
)  # fmt: skip
plans = st.fixed_dictionaries(
    {},
    optional={
        "plan": ids, "title": words, "params": mappings, "tasks": st.lists(tasks, max_size=3) | st.lists(tasks | words, max_size=3),
        "finally": st.lists(tasks | words, max_size=2) | words, "outputs": data,
        "loop": st.fixed_dictionaries({}, optional={"max": leaves, "tasks": st.lists(tasks, max_size=2)}),
        "subplan": st.lists(tasks | words, max_size=3),
    },
)  # fmt: skip


@relaxed
@given(plans, st.lists(st.booleans(), min_size=1, max_size=5))
@pytest.mark.parametrize("notation", ["yaml", "text"])
def test_anything_shaped_like_a_plan_survives(notation: Notation, value: Json, flow: list[bool]) -> None:
    check(tree_of(value, flow), notation)


@rows("notation", ["yaml", "json", "text"])
@rows("flow", [False, True])
def test_every_nasty_string_survives_everywhere(notation: Notation, flow: bool) -> None:
    for text in NASTY:
        value: Json = {
            "key": text,
            "list": [text, text],
            "map": {text: text},
            "deep": [[text], {"a": [text]}],
            "title": text,
        }
        check(tree_of(value, [False, flow]), notation)


@pytest.mark.parametrize("notation", ["yaml", "text"])
def test_words_stay_unquoted_where_no_reader_takes_them_for_something_else(notation: Notation) -> None:
    for text in [
        "exit_code == 0",
        "echo hi > out.txt",
        "Release {{ params.ref }}?",
        "it's",
        "$2",
        "200k",
        "a:b",
        "-x",
        "1h30m",
    ]:
        assert write(tree_of({"key": text}), notation) == f"key: {text}\n"


@rows("text", ["yes", "no", "on", "y", "010", "1:30", "1_000", "0o17", "0b1", "1e3", "2025-10-30", "null", "~", "1.0"])
def test_words_that_some_reader_takes_for_something_else_are_quoted(text: str) -> None:
    assert write(tree_of({"key": text}), "yaml") == f'key: "{text}"\n'


def test_numbers_keep_how_they_are_written_since_they_may_be_declared_as_text() -> None:
    text = "a: 1.10\nb: 0x1f\nc: 010\nd: 1e3\n"
    tree = parse(Source(text)).tree
    assert tree is not None
    assert write(tree, "yaml") == "a: 1.10\nb: 0x1f\nc: 010\nd: 1e3\n"


def test_lines_become_a_block_text() -> None:
    assert write(tree_of({"run": "a\nb\n"}), "yaml") == "run: |\n  a\n  b\n"
    assert write(tree_of({"run": "a\nb"}), "yaml") == "run: |-\n  a\n  b\n"
    assert write(tree_of({"run": "  a\nb\n"}), "yaml") == "run: |2\n    a\n  b\n"
    assert write(tree_of({"run": "a\nb\n\n"}), "yaml") == 'run: "a\\nb\\n\\n"\n'


def test_brackets_stay_on_one_line_only_while_it_is_short() -> None:
    short = tree_of({"a": [1, {"b": [2]}]}, [False, True, True, True, True, True])
    assert write(short, "yaml") == "a: [1, {b: [2]}]\n"
    long = tree_of({"a": ["x" * 60, "y" * 60]}, [False, True, True])
    assert write(long, "yaml") == f"a:\n  - {'x' * 60}\n  - {'y' * 60}\n"


def test_a_blank_line_parts_tasks_of_several_lines() -> None:
    text = write(tree_of({"tasks": [{"id": "a", "run": "x"}, {"id": "b", "run": "z"}]}), "yaml")
    assert text == "tasks:\n  - id: a\n    run: x\n\n  - id: b\n    run: z\n"


def test_anchors_aliases_and_merge_keys_stay_in_yaml() -> None:
    text = "base: &base\n  timeout: 5m\n  retry: 2\nlist: &l [1, 2]\ntasks:\n  - id: a\n    <<: *base\n    retry: 3\n    use: *l\n"
    tree = parse(Source(text)).tree
    assert tree is not None
    assert write(tree, "yaml") == text


@pytest.mark.parametrize("notation", ["text", "json"])
def test_aliases_are_written_out_where_a_notation_has_none(notation: Notation) -> None:
    tree = parse(Source("a: &x {k: 1}\nb: *x\nc: {<<: *x, d: 2}\n")).tree
    assert tree is not None
    again = reread(write(tree, notation), notation)
    assert to_json(again) == {"a": {"k": 1}, "b": {"k": 1}, "c": {"k": 1, "d": 2}}


def test_a_merge_key_is_written_out_when_the_mapping_lost_what_it_brings() -> None:
    tree = parse(Source("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  m: 3\n")).tree
    assert isinstance(tree, Mapping)
    rewritten = tree.get("b")
    assert isinstance(rewritten, Mapping)
    rewritten.entries = [entry for entry in rewritten.entries if entry[0].value != "k"]
    assert write(tree, "yaml") == "a: {k: 1, l: 2}\nb:\n  l: 2\n  m: 3\n" or "<<" not in write(tree, "yaml")
    assert to_json(reread(write(tree, "yaml"), "yaml")) == {"a": {"k": 1, "l": 2}, "b": {"l": 2, "m": 3}}


def test_an_alias_may_come_before_its_anchor_in_a_rewritten_tree() -> None:
    tree = parse(Source("a: &x {k: 1}\nb: *x\n")).tree
    assert isinstance(tree, Mapping)
    tree.entries.reverse()
    assert write(tree, "yaml") == "b: &x {k: 1}\na: *x\n"


def test_the_text_notation_uses_its_own_forms() -> None:
    value: Json = {
        "plan": "p",
        "title": "A plan",
        "budgets": {"time": "20m"},
        "tasks": [
            {"id": "a", "uses": "git.status"},
            {
                "id": "b", "title": "Run", "kind": "validate", "needs": ["a", "c"], "run": "x\ny\n", "expect": ["exit_code == 0"],
                "on_failure": ["explain", {"to": "mend", "recovers": True}], "on_success": {"to": "d", "when": "outputs.n > 3"},
                "next": [{"on": "transient", "to": "later"}],
            },
        ],
        "finally": [{"id": "z", "run": "echo"}],
    }  # fmt: skip
    assert write(tree_of(value), "text") == (
        'plan p "A plan"\n  budgets:\n    time: 20m\n\n'
        "task a using:git.status\n\n"
        'task b "Run" kind:validate\n  needs: a c\n  run: |\n    x\n    y\n  expect:\n    - exit_code == 0\n'
        "  on failure -> explain\n  on failure -> mend recovers\n  on success -> d when outputs.n > 3\n  on transient -> later\n\n"
        "finally\n  task z\n    run: echo\n"
    )


def test_the_text_notation_writes_mappings_only() -> None:
    with pytest.raises(ValueError, match="mappings only"):
        write(Scalar("x", 0, 0), "text")


PLAN = """\
# yaml-language-server: $schema=plan.schema.json
plan: p
tasks:
  - id: a
    uses: shell
    needs: [b, c]
    run: |
      echo
"""


@pytest.mark.parametrize(("there", "back"), [("text", "yaml"), ("yaml", "text")])
def test_converting_there_and_back_gives_the_same_text(there: Notation, back: Notation) -> None:
    source = Source(PLAN)
    tree = parse(source).tree
    assert tree is not None
    start = Source(write(tree, back, read_comments(source, tree)), "x", back)
    first = reread(start.text, back)
    middle = Source(write(first, there, read_comments(start, first)), "x", there)
    second = reread(middle.text, there)
    assert write(second, back, read_comments(middle, second)) == start.text


def test_empty_lines_at_the_end_of_a_text_are_not_taken_for_those_between_tasks() -> None:
    text = 'plan: a\nloop:\n  tasks:\n    - id: a\n      needs: "a\\n\\n\\n"\n    - id: b\n'
    tree = parse(Source(text, "x", "yaml")).tree
    assert tree is not None
    for notation in ("text", "yaml"):
        again = parse(Source(write(tree, notation), "x", notation)).tree
        assert again is not None
        assert to_json(again) == to_json(tree)
