"""Malformed plans: each gives its finding at the right line and column, in bounded time, and never an exception."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from rows import rows

from planrunner.source import Source
from planrunner.syntax.notations import decode, parse

if TYPE_CHECKING:
    from planrunner.source import Notation

CORPUS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "corpus", "malformed")
SECONDS = 5.0

FILES = [
    ("bad-escape.json", "PLAN001 1:11"),
    ("bare-key.json", "PLAN001 1:2"),
    ("comment.json", "PLAN001 2:3"),
    ("duplicate-key.json", "PLAN002 2:2"),
    ("empty.json", "PLAN001 1:1"),
    ("half-a-pair.json", "PLAN001 1:10"),
    ("leading-zero.json", "PLAN001 1:9"),
    ("missing-colon.json", "PLAN001 1:9"),
    ("missing-comma.json", "PLAN001 2:2"),
    ("nan.json", "PLAN001 1:9"),
    ("open-object.json", "PLAN001 1:1"),
    ("open-string.json", "PLAN001 1:10"),
    ("single-quotes.json", "PLAN001 1:2"),
    ("tab-in-string.json", "PLAN001 1:9"),
    ("trailing-comma.json", "PLAN001 1:14"),
    ("trailing-garbage.json", "PLAN001 2:1"),
    ("bad-escape.plan", "PLAN001 2:9"),
    ("bell.plan", "PLAN001 2:8"),
    ("between-levels.plan", "PLAN001 3:3"),
    ("colon-in-list.plan", "PLAN001 2:8"),
    ("deeper-than-a-value.plan", "PLAN001 3:5"),
    ("duplicate-key.plan", "PLAN002 3:3"),
    ("empty.plan", "PLAN001 1:1"),
    ("glued-colon.plan", "PLAN001 2:6"),
    ("item-among-keys.plan", "PLAN001 3:3"),
    ("key-among-items.plan", "PLAN001 4:5"),
    ("key-without-value.plan", "PLAN001 1:8"),
    ("no-arrow.plan", "PLAN001 2:3"),
    ("no-condition.plan", "PLAN001 2:19"),
    ("no-statement.plan", "PLAN001 2:3"),
    ("no-target.plan", "PLAN001 2:3"),
    ("not-a-number.plan", "PLAN013 2:8"),
    ("open-list.plan", "PLAN001 2:10"),
    ("open-quote.plan", "PLAN001 2:8"),
    ("route-with-tail.plan", "PLAN001 2:19"),
    ("second-plan.plan", "PLAN001 2:1"),
    ("spaced-key.plan", "PLAN001 2:3"),
    ("tab.plan", "PLAN001 2:1"),
    ("text-behind-list.plan", "PLAN001 2:17"),
    ("text-behind-quote.plan", "PLAN001 2:12"),
    ("title-first.plan", "PLAN001 1:14"),
    ("two-errors.plan", "PLAN001 2:3; PLAN001 4:8"),
    ("two-ids.plan", "PLAN001 1:8"),
    ("value-missing.plan", "PLAN001 2:10"),
    ("wrong-closer.plan", "PLAN001 2:15"),
    ("alias-as-key.yaml", "PLAN013 2:1"),
    ("alias-of-itself.yaml", "PLAN013 4:5"),
    ("alias-with-tail.yaml", "PLAN001 2:7"),
    ("alternatives.yaml", "PLAN001 1:11"),
    ("ampersand-alone.yaml", "PLAN001 2:6"),
    ("at-start.yaml", "PLAN001 2:8"),
    ("backtick-start.yaml", "PLAN001 2:8"),
    ("bad-escape.yaml", "PLAN001 2:11"),
    ("bad-unicode-escape.yaml", "PLAN001 2:9"),
    ("bare-template-in-list.yaml", "PLAN001 2:9"),
    ("bare-template-with-tail.yaml", "PLAN001 4:10"),
    ("bare-template.yaml", "PLAN001 4:10"),
    ("bell.yaml", "PLAN001 2:9"),
    ("between-levels.yaml", "PLAN001 3:2"),
    ("block-header.yaml", "PLAN001 2:7"),
    ("block-tab.yaml", "PLAN001 3:1"),
    ("bracket-too-many.yaml", "PLAN001 2:14"),
    ("byte-order-mark.yaml", "PLAN001 1:8"),
    ("colon-in-item.yaml", "PLAN001 3:16"),
    ("comma-only.yaml", "PLAN001 2:9"),
    ("comma-start.yaml", "PLAN001 2:8"),
    ("crlf.yaml", "PLAN001 2:9"),
    ("deeper-than-a-value.yaml", "PLAN001 2:3"),
    ("duplicate-key-in-brackets.yaml", "PLAN002 2:22"),
    ("duplicate-key.yaml", "PLAN002 3:1"),
    ("empty.yaml", "PLAN001 1:1"),
    ("escape-character.yaml", "PLAN001 2:8"),
    ("glued-colon-inside.yaml", "PLAN001 2:7"),
    ("glued-colon.yaml", "PLAN001 1:5"),
    ("infinite.yaml", "PLAN013 2:6"),
    ("item-on-key-line.yaml", "PLAN001 2:8"),
    ("key-without-colon.yaml", "PLAN001 2:1"),
    ("list-as-key.yaml", "PLAN013 2:1"),
    ("list-then-key.yaml", "PLAN001 2:1"),
    ("mapping-as-key.yaml", "PLAN013 1:1"),
    ("merge-of-a-word.yaml", "PLAN013 3:7"),
    ("missing-comma.yaml", "PLAN001 1:16"),
    ("question-mark.yaml", "PLAN001 3:39"),
    ("missing-key.yaml", "PLAN001 2:1"),
    ("not-a-number.yaml", "PLAN013 2:6"),
    ("only-a-marker.yaml", "PLAN001 1:1"),
    ("only-comments.yaml", "PLAN001 1:1"),
    ("open-double-quote.yaml", "PLAN001 2:8"),
    ("open-list-at-end.yaml", "PLAN001 2:8"),
    ("open-list.yaml", "PLAN001 2:8"),
    ("open-mapping.yaml", "PLAN001 2:9"),
    ("open-quote-in-brackets.yaml", "PLAN001 1:12"),
    ("open-single-quote.yaml", "PLAN001 2:8"),
    ("own-tag.yaml", "PLAN013 2:6"),
    ("percent-start.yaml", "PLAN001 2:8"),
    ("python-tag.yaml", "PLAN013 1:7"),
    ("quote-inside.yaml", "PLAN001 2:12"),
    ("second-byte-order-mark.yaml", "PLAN001 2:1"),
    ("second-colon.yaml", "PLAN001 2:11"),
    ("star-alone.yaml", "PLAN001 2:6"),
    ("stray-bracket.yaml", "PLAN001 2:8"),
    ("tab-indentation.yaml", "PLAN001 3:1"),
    ("tab-under-a-value.yaml", "PLAN001 4:1"),
    ("text-behind-end.yaml", "PLAN013 3:1"),
    ("text-behind-quote.yaml", "PLAN001 2:10"),
    ("too-large-a-number.yaml", "PLAN013 2:6"),
    ("two-documents.yaml", "PLAN013 2:1"),
    ("undefined-handle.yaml", "PLAN013 1:7"),
    ("uneven-items.yaml", "PLAN001 3:3"),
    ("unicode-columns.yaml", "PLAN001 2:17"),
    ("unknown-alias.yaml", "PLAN001 2:7"),
    ("unknown-directive.yaml", "PLAN001 1:1"),
    ("word-before-keys.yaml", "PLAN001 1:1"),
    ("wrong-closer.yaml", "PLAN001 1:13"),
    ("wrong-tag.yaml", "PLAN013 2:14"),
    ("yaml-3.yaml", "PLAN001 1:1"),
]


def findings_of(data: bytes, name: str) -> str:
    """The findings of a file as ``CODE line:column; …``."""
    source, findings = decode(data, name)
    if source is None:
        return "; ".join(finding.code for finding in findings)
    return shown(source)


def shown(source: Source) -> str:
    parts = []
    for finding in parse(source).findings:
        place = source.place(finding.span.start)
        assert 0 <= finding.span.start <= finding.span.end
        assert finding.message.startswith("JSON") or finding.message[0] == finding.message[0].lower()
        parts.append(f"{finding.code} {place.line}:{place.column}")
    return "; ".join(parts)


@rows(("name", "expected"), FILES)
def test_a_malformed_file_is_refused_at_the_right_place(name: str, expected: str) -> None:
    with open(os.path.join(CORPUS, name), "rb") as file:
        assert findings_of(file.read(), name) == expected


def test_every_file_of_the_corpus_has_its_row() -> None:
    assert sorted(os.listdir(CORPUS)) == sorted(name for name, _ in FILES)


BYTES: list[tuple[str, bytes, str]] = [
    ("utf-16.yaml", "plan: a\n".encode("utf-16"), "PLAN012"),
    ("utf-16-big.plan", b"\xfe\xff" + "plan a\n".encode("utf-16-be"), "PLAN012"),
    ("utf-32.yaml", "plan: a\n".encode("utf-32"), "PLAN012"),
    ("latin-1.yaml", "plan: é\n".encode("latin-1"), "PLAN012"),
    ("nul.yaml", b"plan: a\0b\n", "PLAN012"),
    ("elf.yaml", b"\x7fELF\x02\x01\x01\0\0\0", "PLAN012"),
    ("gzip.json", b"\x1f\x8b\x08\x00\x00\x00", "PLAN012"),
    ("surrogate.json", b'{"a": "\xed\xa0\xbd"}', "PLAN012"),
    ("cut-off.yaml", "plan: é".encode()[:-1], "PLAN012"),
    ("huge.yaml", b"a: b\n" * 2_000_000, "PLAN011"),
]


@pytest.mark.parametrize(("name", "data", "expected"), BYTES, ids=[row[0] for row in BYTES])
def test_bytes_that_are_no_plan_are_named(name: str, data: bytes, expected: str) -> None:
    source, findings = decode(data, name)
    assert source is None
    assert [finding.code for finding in findings] == [expected]


def bomb(levels: int, width: int) -> str:
    lines = ["l0: &l0 [" + ", ".join(["x"] * width) + "]"]
    lines += [f"l{level}: &l{level} [" + ", ".join([f"*l{level - 1}"] * width) + "]" for level in range(1, levels)]
    return "\n".join(lines) + "\n"


def merged_bomb() -> str:
    lines = ["a: &a"] + [f"  k{number}: v" for number in range(2000)] + ["tasks:"]
    return "\n".join(lines + ["  - <<: *a"] * 900) + "\n"


def deep_by_aliases() -> str:
    lines = ["l0: &l0 x"] + [f"l{level}: &l{level} [*l{level - 1}]" for level in range(1, 500)]
    return "\n".join(lines) + "\n"


def deep_block(opening: str) -> str:
    return "".join(" " * level + opening + "\n" for level in range(1500))


HUGE: list[tuple[str, Callable[[], str], Notation, str]] = [
    ("opening brackets", lambda: "[" * 100_000, "yaml", "PLAN011 1:65"),
    ("opening braces", lambda: "{a: " * 30_000, "yaml", "PLAN011 1:257"),
    ("bare braces", lambda: "{" * 100_000, "yaml", "PLAN001 1:1"),
    ("dashes", lambda: "- " * 50_000, "yaml", "PLAN011 1:129"),
    ("question marks", lambda: "? " * 50_000, "yaml", "PLAN013 1:3"),
    ("nested mappings", lambda: deep_block("a:"), "yaml", "PLAN011 65:65"),
    ("a bomb of aliases", lambda: bomb(9, 9), "yaml", "PLAN011 7:10"),
    ("a bomb of merge keys", lambda: merged_bomb(), "yaml", "PLAN011 2253:9"),
    ("too many aliases", lambda: "a: &a x\nb: [" + "*a, " * 1001 + "]\n", "yaml", "PLAN011 2:4005"),
    ("depth by aliases", lambda: deep_by_aliases(), "yaml", "PLAN011 65:12"),
    ("a long scalar", lambda: "a: " + "x" * 1_100_000, "yaml", "PLAN011 1:4"),
    ("a long block", lambda: "a: |\n" + "  xxxxxxx\n" * 150_000, "yaml", "PLAN011 1:4"),
    ("a long text", lambda: "# c\n" * 2_200_000, "yaml", "PLAN011 1:1"),
    ("an open quote before much text", lambda: 'a: "' + "b c\n" * 400_000, "yaml", "PLAN001 1:4"),
    ("a key too long", lambda: "a: b\n" + "k" * 5000 + ": v\n", "yaml", "PLAN001 2:1"),
    (
        "many anchors",
        lambda: "".join(f"k{n}: &a{n} x\n" for n in range(50_000)) + "z: *none\n",
        "yaml",
        "PLAN001 50001:4",
    ),
    ("ten thousand digits", lambda: "a: " + "9" * 10_000, "yaml", "PLAN013 1:4"),
    ("half a surrogate pair", lambda: "a: \ud83d\n", "yaml", "PLAN001 1:4"),
    ("NUL", lambda: "a: b\n\0", "yaml", "PLAN012 2:1"),
    ("many tags", lambda: "a: " + "!" * 100_000, "yaml", "PLAN013 1:4"),
    ("opening brackets", lambda: "[" * 100_000, "json", "PLAN011 1:65"),
    ("opening objects", lambda: '{"a":' * 100_000, "json", "PLAN011 1:321"),
    ("an endless number", lambda: "[" + "1" * 1_000_000 + "]", "json", "PLAN013 1:2"),
    ("an open string", lambda: '["' + "x" * 2_000_000, "json", "PLAN001 1:2"),
    ("a long string", lambda: '["' + "x" * 2_000_000 + '"]', "json", "PLAN011 1:2"),
    ("backslashes", lambda: '"' + "\\" * 1_000_000, "json", "PLAN001 1:1"),
    ("opening brackets", lambda: "a: " + "[" * 100_000, "text", "PLAN011 1:67"),
    ("nested keys", lambda: deep_block("a:"), "text", "PLAN011 65:65"),
    ("dashes", lambda: "a:\n  " + "- " * 50_000, "text", "PLAN011 2:129"),
    ("opening templates", lambda: "task a x:" + "{{" * 500_000, "text", "PLAN001 1:10"),
    ("a long line", lambda: "a: " + "x " * 600_000, "text", "PLAN011 1:4"),
    ("a long block", lambda: "a: |\n" + "  xxxxxxx\n" * 150_000, "text", "PLAN011 1:4"),
    ("a line of quotes", lambda: "a: " + "'" * 1_000_001, "text", "PLAN001 1:1000004"),
    ("NUL", lambda: "a: b\n\0", "text", "PLAN012 2:1"),
    ("half a surrogate pair", lambda: "a: \ud83d\n", "text", "PLAN001 1:4"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "notation", "expected"), [row[1:] for row in HUGE], ids=[f"{row[2]}-{row[0]}" for row in HUGE]
)
def test_a_hostile_text_is_refused_in_bounded_time(make: Callable[[], str], notation: Notation, expected: str) -> None:
    source = Source(make(), "x", notation)
    start = time.process_time()
    assert shown(source) == expected
    assert time.process_time() - start < SECONDS


NODES: list[tuple[Notation, Callable[[int], str]]] = [
    ("yaml", lambda count: "- a\n" * count),
    ("yaml", lambda count: "[" + "a," * count + "]"),
    ("json", lambda count: "[" + "1," * count + "1]"),
    ("text", lambda count: "a:\n" + "  - b\n" * count),
]


@pytest.mark.parametrize(("notation", "make"), NODES)
def test_the_number_of_nodes_is_bounded(
    notation: Notation, make: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("yaml", "json", "text_lexer"):
        monkeypatch.setattr(importlib.import_module(f"planrunner.syntax.{module}"), "MAX_NODES", 20_000)
    assert parse(Source(make(19_990), "x", notation)).tree is not None
    (finding,) = parse(Source(make(20_001), "x", notation)).findings
    assert finding.code == "PLAN011"
    assert "20,000 nodes" in finding.message


@pytest.mark.slow
def test_a_text_full_of_faults_gives_a_bounded_number_of_findings() -> None:
    source = Source("task a\n" + "  nothing here\n" * 20_000, "x", "text")
    start = time.process_time()
    assert 50 <= len(parse(source).findings) <= 200
    assert time.process_time() - start < SECONDS


def test_a_question_mark_in_braces_is_told_to_be_quoted() -> None:
    text = "plan: p\ntasks: [{id: go, ask: Deploy to production?, approvers: [ann]}]\n"
    finding = parse(Source(text, "p.yaml", "yaml")).findings[0]
    assert finding.message == "a `?` in braces or brackets must be quoted"
    assert finding.help == 'quote the text that has it: "Deploy to production?"'


QUOTED = "a text with `:` in it must be quoted in braces or brackets"


@rows(
    ("written", "message", "meant"),
    [
        ("{function: m:add}", QUOTED, '{function: "m:add"}'),
        ("{function: tools.py:add , args: {a: 1}}", QUOTED, '{function: "tools.py:add" , args: {a: 1}}'),
        ("{url: http://me@host/y?z=1}", QUOTED, '{url: "http://me@host/y?z=1"}'),
        ("{statement: SELECT :a}", QUOTED, '{statement: "SELECT :a"}'),
        ('{"function":m:add}', QUOTED, '{"function":"m:add"}'),
        ("[a, m:add]", QUOTED, '[a, "m:add"]'),
        ("{a: [b, m:add]}", QUOTED, '{a: [b, "m:add"]}'),
        ("{value:3}", "a space is missing after `value:`", "{value: 3}"),
        ("{a: 1, to:b}", "a space is missing after `to:`", "{a: 1, to: b}"),
        ("{a: [1], to:b}", "a space is missing after `to:`", "{a: [1], to: b}"),
        ("{a: {b: 1, to:b}}", "a space is missing after `to:`", "{a: {b: 1, to: b}}"),
    ],
)
def test_a_colon_in_braces_is_told_to_be_quoted_or_to_have_a_space(written: str, message: str, meant: str) -> None:
    text = f"plan: p\ntasks:\n  - id: a\n    with: {written}\n    uses: noop\n"
    finding = parse(Source(text, "p.yaml", "yaml")).findings[0]
    assert finding.message == message
    assert finding.fix is not None
    (edit,) = finding.fix.edits
    mended = text[: edit.span.start] + edit.text + text[edit.span.end :]
    assert mended == text.replace(written, meant)
    assert parse(Source(mended, "p.yaml", "yaml")).findings == ()


def test_a_text_with_a_colon_and_quotes_in_braces_is_left_to_the_writer() -> None:
    finding = parse(Source('plan: p\nwith: {run: echo :"a"}\n', "p.yaml", "yaml")).findings[0]
    assert (finding.message, finding.help, finding.fix) == (QUOTED, "quote the whole value", None)


def test_a_template_with_a_colon_that_is_not_quoted_is_told_so() -> None:
    finding = parse(Source("plan: p\ntitle: {{ a:b }}\n", "p.yaml", "yaml")).findings[0]
    assert finding.message == "a value that starts with `{{` must be quoted"
