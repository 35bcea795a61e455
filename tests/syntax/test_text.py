"""The text notation: it gives the tree that YAML gives, with exact places, and every faulty line is reported."""

from __future__ import annotations

from threading import Thread

import pytest
from rows import rows

from planrunner.diagnostics import Diagnostic
from planrunner.source import Source
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Json, Mapping, Node, Scalar, Sequence, to_json


def read(text: str) -> Mapping:
    parsed = parse(Source(text, "x.plan", "text"))
    assert parsed.tree is not None and not parsed.findings, parsed.findings
    assert isinstance(parsed.tree, Mapping)
    return parsed.tree


def same_as_yaml(text: str, yaml: str) -> None:
    expected = parse(Source(yaml))
    assert expected.tree is not None, expected.findings
    assert to_json(read(text)) == to_json(expected.tree)


def findings(text: str) -> tuple[Diagnostic, ...]:
    parsed = parse(Source(text, "x.plan", "text"))
    assert parsed.tree is None or all(finding.code == "PLAN002" for finding in parsed.findings)
    return parsed.findings


def places(text: str) -> list[tuple[int, int]]:
    source = Source(text, "x.plan", "text")
    return [tuple(source.place(finding.span.start)) for finding in findings(text)]  # type: ignore[misc]


def test_a_plan_with_its_head_its_tasks_and_a_last_part() -> None:
    same_as_yaml(
        """\
plan release-check "Is this tree ready?"
  params:
    ref: {type: string, default: HEAD}
  budgets: {time: 20m}

task status using:git.status
task test "Run the tests" kind:validate using:shell priority:3
  needs: status lint          # words
  input:
    key: value
  run: |
    python -m pytest
  expect:
    - exit_code == 0
    - duration < 10m
  on failure -> explain
  on failure -> mend recovers
  on success -> deploy when outputs.count > 3
  on transient -> later
finally
  task report using:shell
    run: echo done
""",
        """\
plan: release-check
title: Is this tree ready?
params:
  ref: {type: string, default: HEAD}
budgets: {time: 20m}
tasks:
  - {id: status, uses: git.status}
  - id: test
    title: Run the tests
    kind: validate
    uses: shell
    priority: 3
    needs: [status, lint]
    input: {key: value}
    run: |
      python -m pytest
    expect: [exit_code == 0, duration < 10m]
    on_failure: [explain, {to: mend, recovers: true}]
    on_success: {to: deploy, when: outputs.count > 3}
    next: [{on: transient, to: later}]
finally:
  - {id: report, uses: shell, run: echo done}
""",
    )


def test_the_small_language_of_the_seed_reads_as_it_is_printed() -> None:
    same_as_yaml(
        'task x "Title" kind:debug using:shell\n  needs: a b\n  input:\n    key: value\n  run: |\n    echo\n  expect:\n'
        "    - it works\n  on failure -> y\n  on success -> z\n",
        'tasks:\n  - {id: x, title: Title, kind: debug, uses: shell, needs: [a, b], input: {key: value}, run: "echo\\n",'
        " expect: [it works], on_failure: y, on_success: z}\n",
    )  # fmt: skip


@rows(
    ("needs", "expected"),
    [
        ("a", "a"), ("a b-1 gaps-*", ["a", "b-1", "gaps-*"]), ("[a, b]", ["a", "b"]), ("a or b", "a or b"), ("a.ok and not b.ok", "a.ok and not b.ok"),
        ("test.ok and (lint.ok or lint.skipped)", "test.ok and (lint.ok or lint.skipped)"), ('"a b"', "a b"), ("not a", "not a"),
    ],
)  # fmt: skip
def test_needs_are_words_a_list_or_an_expression(needs: str, expected: Json) -> None:
    assert to_json(read(f"task x\n  needs: {needs}\n")) == {"tasks": [{"id": "x", "needs": expected}]}


@rows(
    ("text", "expected"),
    [
        ("", None), ("~", None), ("true", True), ("no", "no"), ("1", 1), ("017", 17), ("0x1f", 31), ("1.5", 1.5), ("1:30", "1:30"), ("'1'", "1"),
        ("a: b", "a: b"), ("a # c", "a"), ("a#b", "a#b"), ("{{ x }}", "{{ x }}"), ("{{ x }}/y", "{{ x }}/y"), (">= 5 sources", ">= 5 sources"),
        ("- a", "- a"), ("@x", "@x"), ("*a", "*a"), ("&a", "&a"), ("%x", "%x"), ("`x`", "`x`"), ("|x", "|x"), ('"a\\n\\u00e9\\x41\\\\"', "a\né" + "A\\"),
        ("'it''s'", "it's"), ('"\\ud83d\\ude00"', "😀"), ("[]", []), ("{}", {}), ("[a, [b, {c: d, e}], 'f, g', {{ h }}]", ["a", ["b", {"c": "d", "e": None}], "f, g", "{{ h }}"]),
        ("[a b, c:d, http://x, 1]", ["a b", "c:d", "http://x", 1]), ("[a, b,]", ["a", "b"]), ('{"a b": 1, c: {{ x }}}', {"a b": 1, "c": "{{ x }}"}),
        ("[ # why\n    a,\n    b\n  ]", ["a", "b"]), ("https://x.y/#z", "https://x.y/#z"), ("echo 'a' # b", "echo 'a'"),
    ],
)  # fmt: skip
def test_a_value(text: str, expected: Json) -> None:
    found = to_json(read(f"task x\n  key: {text}\n"))
    assert found == {"tasks": [{"id": "x", "key": expected}]}


BLOCKS = ["a\nb\n", "a\n\nb\n\n\n", "a\n  b\n c\n", "a\nb\n\n  c\n\nd\n", "\na\n", "a", "a b\nc\n\n\n\nd\n   e\nf\n"]


@rows("body", BLOCKS)
@rows("header", ["|", "|-", "|+", ">", ">-", ">+"])
@rows("after", ["", "next: 1\n"])
def test_a_block_text_says_what_it_says_in_yaml(body: str, header: str, after: str) -> None:
    lines = "".join(f"  {line}\n" if line else "\n" for line in body.rstrip("\n").split("\n")) + "\n" * (
        len(body) - len(body.rstrip("\n")) - 1
    )
    text = f"key: {header}  # c\n{lines}{after}"
    same_as_yaml(text, text)


def test_a_block_text_may_begin_with_spaces_and_end_without_a_line_break() -> None:
    for text in (
        "key: |2\n    a\n  b\n",
        "key: |\n  a",
        "key: |+\n  a",
        "key: >\n  a\n  b",
        "key: |1\n  a\n",
        "key: |-2\n    a\n",
        "key: |\n",
    ):
        same_as_yaml(text, text)
    same_as_yaml(
        "a:\n  - |\n    x\n  - k: >\n      y\n      z\n    l: 1\n",
        "a:\n  - |\n    x\n  - k: >\n      y\n      z\n    l: 1\n",
    )


def test_lists_and_mappings_nest_as_in_yaml() -> None:
    text = (
        "a:\n  - b: 1\n    c:\n      - - 1\n        - 2\n      - d\n  -\n    e: f\n  - g: {h: i}\n'b c':\n  \"d\": e\n"
    )
    same_as_yaml(text, text)


def test_tasks_may_stand_inside_loops_subplans_and_the_last_part() -> None:
    assert to_json(read("task a\n  loop:\n    max: 3\n    until: x.ok\n    task b\n      run: y\n    task c\n")) == {
        "tasks": [{"id": "a", "loop": {"max": 3, "until": "x.ok", "tasks": [{"id": "b", "run": "y"}, {"id": "c"}]}}]
    }
    assert to_json(
        read(
            "task a\n  subplan:\n    - inspect pool; then: look\n    task b\n    - words\nfinally:\n  - words\n  task z\n"
        )
    ) == {
        "tasks": [{"id": "a", "subplan": ["inspect pool; then: look", {"id": "b"}, "words"]}],
        "finally": ["words", {"id": "z"}],
    }


def test_words_of_the_notation_are_ordinary_keys_before_a_colon() -> None:
    text = "plan: p\ntask: t\non: x\nfinally: []\nwhen: y\n"
    same_as_yaml(text, text)


def test_every_edge_has_its_entry() -> None:
    text = "task a\n  on always -> b\n  on timeout -> c recovers when x == 1\n  on success -> d\n  on success -> e when true\n  on failure -> f recovers\n"
    (task,) = to_json(read(text))["tasks"]  # type: ignore[index, call-overload, misc]
    assert task["next"] == [
        {"on": "always", "to": "b"},
        {"on": "timeout", "to": "c", "recovers": True, "when": "x == 1"},
    ]  # type: ignore[index, call-overload]
    assert task["on_success"] == ["d", {"to": "e", "when": True}]  # type: ignore[index, call-overload]
    assert task["on_failure"] == {"to": "f", "recovers": True}  # type: ignore[index, call-overload]


TEXT = """\
plan p "Ünï 😀"
  params:
    x: [a, {b: 'c'}]
task t kind:debug using:shell
  run: |
    one

    two
  needs: a b
  on failure -> u when x
"""


def covered(text: str, node: Node, path: str = "") -> dict[str, str]:
    found = {path: text[node.start : node.end]}
    if isinstance(node, Mapping):
        for key, value in node.entries:
            found[f"{path}/{key.value}~"] = text[key.start : key.end]
            found |= covered(text, value, f"{path}/{key.value}")
    elif isinstance(node, Sequence):
        for index, value in enumerate(node.items):
            found |= covered(text, value, f"{path}/{index}")
    return found


@pytest.mark.parametrize("text", [TEXT, "\ufeff" + TEXT.replace("\n", "\r\n")])
def test_every_node_has_its_exact_span(text: str) -> None:
    found = covered(text, read(text))
    break_ = "\r\n" if "\r" in text else "\n"
    assert found["/plan"] == "p"
    assert found["/plan~"] == "plan"
    assert found["/title"] == '"Ünï 😀"'
    assert found["/params/x"] == "[a, {b: 'c'}]"
    assert found["/params/x/1/b"] == "'c'"
    assert found["/tasks/0/kind~"] == "kind"
    assert found["/tasks/0/uses~"] == "using"
    assert found["/tasks/0/uses"] == "shell"
    assert found["/tasks/0/run"] == f"|{break_}    one{break_}{break_}    two"
    assert found["/tasks/0/needs/1"] == "b"
    assert found["/tasks/0/on_failure~"] == "on failure"
    assert found["/tasks/0/on_failure/to"] == "u"
    assert found["/tasks/0/on_failure/when"] == "x"
    assert found["/tasks/0"] == text[text.index("task t") :].rstrip()


def test_scalars_know_how_they_were_written() -> None:
    node = read("a: 0x10\nb: 'x'\nc: |\n  y\n").entries
    assert [(value.raw, value.style, value.value) for _, value in node if isinstance(value, Scalar)] == [
        ("0x10", "", 16),
        ("'x'", "'", "x"),
        ("|\n  y", "|", "y\n"),
    ]


def test_each_faulty_line_is_reported_once_and_the_lines_around_it_are_read() -> None:
    text = """\
plan a b
task x
  foo
  bar: "x
    deeper: 1
  ok: 1
  ok: 2
   bad: 1
task y:
  run: [a, b
task z
  x: [a, {c: d]
\tq: 1
  on failure
  a:1
task last
  run: x
    y: z
  two words: 3
"""
    assert places(text) == [
        (1, 8),
        (3, 3),
        (4, 8),
        (8, 4),
        (7, 3),
        (9, 6),
        (12, 15),
        (13, 1),
        (14, 3),
        (15, 4),
        (18, 5),
        (19, 3),
    ]


def test_a_fault_inside_an_item_does_not_hide_its_neighbours() -> None:
    assert places("a:\n  - x: \"1\n    y: 2\n  - z: [\n  - 'ok'\n  - k: {a, {\nb: 'c\n") == [
        (2, 8),
        (4, 8),
        (6, 12),
        (7, 4),
    ]


def test_the_block_below_a_faulty_line_gives_no_findings_of_its_own() -> None:
    assert places("task a b c\n  run: 'x\n  nothing here\ntask d\n  run: y\n") == [(1, 8)]


@rows(
    ("text", "message", "help"),
    [
        ("task a b\n", "`b` is one word too many", "an id is one word"),
        ("task a\n  run: x\n    y: z\n", "indented deeper", "indent it"),
        ("task a\n  x: [b, c\n  d: e\n", "this `[` is never closed", "close it with `]`"),
        ("task a\n  two words: 3\n", "a key with spaces in it must be quoted", '"two words"'),
        ("task a\n  x:1\n", "a space is missing after `x:`", "write `x: …`"),
        ("task a\n  on failure\n", "an `on` line needs `->` and a task", "on failure -> task-id"),
        ("task a\n  run: x\n  - y\n", "a list item stands among keys", "indent the items"),
        ("a: [{b: c} d]\n", "a comma is missing", "separate items"),
        ("task a\n  needs [b]\n", "a colon is missing after `needs`", "write `needs: …`"),
        ("task a\n  timeout 5m\n", "a colon is missing after `timeout`", "write `timeout: …`"),
        ("task a\n  hello world\n", "this line is not a statement of a plan", "a line is `key: value`"),
        ("task a\n  test it\n", "this line is not a statement of a plan", "a line is `key: value`"),
        ("finally now\n", "this line is not a statement of a plan", "a line is `key: value`"),
    ],
)
def test_a_finding_says_what_is_wrong_and_the_way_out(text: str, message: str, help: str) -> None:
    finding = findings(text)[0]
    assert message in finding.message
    assert help in finding.help


@rows(
    ("text", "message", "mended"),
    [
        ("tsk deploy\n", "`tsk` begins no line of a plan, did you mean `task`?", "task deploy\n"),
        ('taks deploy "Now" uses:noop\n', "did you mean `task`?", 'task deploy "Now" uses:noop\n'),
        ("paln x\n", "did you mean `plan`?", "plan x\n"),
        ("task a\n  om failure -> b\n", "did you mean `on`?", "task a\n  on failure -> b\n"),
        ("task a\n  needs [b]\n", "a colon is missing after `needs`", "task a\n  needs: [b]\n"),
        ("task a\n  needs[b]\n", "a colon is missing after `needs`", "task a\n  needs: [b]\n"),
        ("task a\n  run make all\n", "a colon is missing after `run`", "task a\n  run: make all\n"),
    ],
)
def test_a_misspelt_word_and_a_missing_colon_are_named_and_mended(text: str, message: str, mended: str) -> None:
    [finding] = findings(text)
    assert message in finding.message
    assert finding.fix is not None
    ((span, replacement),) = finding.fix.edits
    assert text[: span.start] + replacement + text[span.end :] == mended
    read(mended)


@rows(
    ("blank", "expected"),
    [("\t", ""), ("  \t", ""), ("\t\t\t\t\t\t", ""), ("    \t", "\t"), ("      ", "  "), ("\t\r", "")],
)
def test_a_line_of_spaces_and_tabs_belongs_to_its_block_text(blank: str, expected: str) -> None:
    text = f"task a\n  run: |\n    one\n{blank}\n    two\n  timeout: 5m\n"
    [task] = to_json(read(text))["tasks"]
    assert task == {"id": "a", "run": f"one\n{expected}\ntwo\n", "timeout": "5m"}


def test_a_block_text_may_begin_and_end_with_a_line_that_is_only_a_tab() -> None:
    assert to_json(read("run: |\n\t\n  one\n\t\nnext: 1\n")) == {"run": "\none\n", "next": 1}


def test_a_tab_before_a_word_in_a_block_text_is_still_named() -> None:
    [finding] = findings("task a\n  run: |\n    one\n\ttwo\n")
    assert finding.message == "a tab stands in the indentation"


def test_the_fix_for_a_glued_colon_makes_the_line_right() -> None:
    text = "task a\n  run:x\n"
    fix = findings(text)[0].fix
    assert fix is not None
    ((span, replacement),) = fix.edits
    assert to_json(read(text[: span.start] + replacement + text[span.end :])) == {"tasks": [{"id": "a", "run": "x"}]}


def test_a_key_that_stands_twice_has_both_places() -> None:
    (finding,) = findings("task a\n  on failure -> b\n  on_failure: c\n")
    assert finding.code == "PLAN002"
    assert finding.span == (27, 37)
    assert finding.labels[0].span == (9, 19)


def test_threads_may_parse_at_the_same_time() -> None:
    texts = [f"task t{number}\n  run: {number}\n  x: 'y\n" * 30 for number in range(4)]
    results: dict[int, list[tuple[int, int]]] = {}
    threads = [Thread(target=lambda index=index: results.update({index: places(texts[index])})) for index in range(4)]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[index] == [(3 * line + 3, 6) for line in range(30)] for index in range(4))
