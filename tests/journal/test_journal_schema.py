"""The published form of events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from planrunner.fileio import read_data
from planrunner.journal.eventschema import event_schema
from planrunner.machine.events import EDITION

LINE: dict[str, Any] = {
    "seq": 1,
    "at": 0.0,
    "kind": "task_settled",
    "version": EDITION,
    "body": {"task": "a", "status": "failed"},
}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(read_data("schemas", "journal-event.schema.json"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_schema_in_the_tree_is_made_from_the_event_types_of_today() -> None:
    kept = json.loads(read_data("schemas", "journal-event.schema.json"))
    assert kept == event_schema(), (
        "renew it: python -m planrunner.journal.eventschema > schemas/journal-event.schema.json"
    )


def test_every_stored_event_is_valid(validator: jsonschema.Draft202012Validator) -> None:
    for line in (Path(__file__).parent / "events.jsonl").read_text(encoding="utf-8").splitlines():
        validator.validate(json.loads(line))


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 0},
        {"at": "yesterday"},
        {"kind": "task_teleported"},
        {"version": EDITION + 1},
        {"body": {"task": "a"}},
        {"body": {"task": "a", "status": "happy"}},
        {"body": {"task": "a", "status": "failed", "colour": "red"}},
    ],
    ids=str,
)
def test_a_line_that_is_no_event_is_invalid(validator: jsonschema.Draft202012Validator, change: dict[str, Any]) -> None:
    validator.validate(LINE)
    assert not validator.is_valid({**LINE, **change})
