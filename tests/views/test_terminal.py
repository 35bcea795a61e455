"""Text for terminals: width, harmlessness, durations, tables."""

from __future__ import annotations

import io
import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rows import rows

from planrunner.escapes import harmless
from planrunner.plan.expressions.quantities import duration_text
from planrunner.statuses import SHOWN
from planrunner.views.terminal import Terminal, cut, pad, table, width


@given(st.text())
def test_harmless_text_has_no_control_characters(text):
    assert not [char for char in harmless(text) if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs")]


@given(st.text(st.characters(categories=("L", "N", "P", "S"))))
def test_printable_text_stays_as_it_is(text):
    assert harmless(text) == text


@rows(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b", ""),
        ("\x1b[", ""),
        ("a\tb", "a   b"),
        ("a\rb\x00", "ab"),
    ],
)
def test_escape_sequences_are_taken_out_whole(text, shown):
    assert harmless(text) == shown


@given(st.text(st.characters(categories=("L", "N", "M"))), st.integers(2, 30))
def test_cut_text_fits(text, columns):
    assert width(cut(text, columns)) <= columns


def test_wide_characters_take_two_columns_and_marks_none():
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert pad("日", 4) == "日  "


@rows(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (-0.0001, "0ms"),
        (0.25, "250ms"),
        (0.9999, "1.0s"),
        (12.34, "12.3s"),
        (59.99, "1m00s"),
        (245, "4m05s"),
        (3599.9, "1h00m"),
        (7380, "2h03m"),
        (100 * 3600, "4d04h"),
    ],
)
def test_durations_are_written_for_people(seconds, text):
    assert duration_text(seconds) == text


def test_every_status_differs_by_its_word_and_none_of_the_ascii_signs_is_missing():
    assert all(shown.plain.isascii() and len(shown.plain) == 1 for shown in SHOWN.values())


def test_a_stream_that_is_gone_is_written_to_no_more():
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    terminal = Terminal(Gone())
    terminal.write("x")
    assert terminal.gone


def test_text_the_encoding_lacks_is_written_escaped():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Terminal(stream, unicode=True).write("✔ ok")
    stream.seek(0)
    assert stream.read() == "\\u2714 ok"


def test_columns_come_before_the_terminals_own_size(monkeypatch):
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.setenv("LINES", "11")
    assert Terminal(io.StringIO()).size() == (44, 11)


def test_a_table_lines_up_and_is_cut_only_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    rows = [("a", "long text that goes on and on"), ("日本", "b")]
    pipe = table(Terminal(io.StringIO(), unicode=True), ("N", "TEXT"), rows)
    assert pipe == ["N     TEXT", "a     long text that goes on and on", "日本  b"]
    live = table(Terminal(io.StringIO(), unicode=True, live=True), ("N", "TEXT"), rows)
    assert live[1] == "a     long text tha…"


def test_harmless_text_has_no_password_of_an_address():
    assert harmless("see https://me:hun\x1b[1mter2@h/ and ssh://me@h") == "see https://me:***@h/ and ssh://me@h"
    assert harmless("http://h:80/ mail a@b: x") == "http://h:80/ mail a@b: x"


def test_what_hides_or_turns_text_is_shown_as_an_escape() -> None:
    assert harmless("a\u202eb\u200bc\ufeffd\x85e") == "a\\u202eb\\u200bc\\ufeffd\\u0085e"
    assert harmless("a\x1b[31mb\x07") == "ab"


def test_the_columns_of_a_table_are_as_wide_as_what_is_seen(screen, monkeypatch):
    monkeypatch.setattr(Terminal, "size", lambda self: (40, 20))
    terminal, _ = screen(color=True, live=True)
    rows = [("a", f"{terminal.sign('failed')} failed", "why"), ("b", f"{terminal.sign('completed')} done", "x" * 60)]
    header, *lines = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in table(terminal, ("ID", "STATUS", "WHY"), rows)]
    assert header == "ID  STATUS    WHY"
    assert lines == ["a   ✘ failed  why", "b   ✔ done    " + "x" * 25 + "…"]
