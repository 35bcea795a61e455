"""Values for people: JSON in one line, in messages of every kind."""

from __future__ import annotations

from rows import rows

from planrunner.jsontext import as_text, shown
from planrunner.machine.events import Outcome
from planrunner.plan.model import Task
from planrunner.views.containers import item_text
from planrunner.views.failure import command_text


@rows(
    ("value", "text"),
    [
        ({"ok": True, "a": [1, None, "é"]}, '{"ok": true, "a": [1, null, "é"]}'),
        ("it's", '"it\'s"'),
        (None, "null"),
        ("x" * 100, '"' + "x" * 80 + '…"'),
        ([1] * 100, ("[" + "1, " * 100)[:79] + "…"),
        (Outcome, f'"{Outcome}"'),
    ],
)
def test_a_value_is_shown_as_json(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_text_on_its_own_has_no_quotes() -> None:
    assert as_text("it's") == "it's"
    assert as_text([True]) == "[true]"


def test_items_are_shown_as_json() -> None:
    assert item_text(True) == "true"
    assert item_text({"fast": False, "name": "it"}) == "fast=false name=it"


def test_a_call_is_shown_with_its_inputs_as_json() -> None:
    assert command_text(Task("a", uses="noop", inputs={"value": {"ok": True}})) == 'noop value={"ok": true}'
