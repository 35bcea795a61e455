"""Events to rows and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import rows

from planrunner.errors import StorageFailed
from planrunner.journal import codec
from planrunner.machine import events
from planrunner.machine.events import (
    EDITION,
    EVENTS,
    AttemptEnded,
    AttemptStarted,
    Entry,
    Outcome,
    RunStarted,
    TaskSettled,
)

if TYPE_CHECKING:
    from planrunner.machine.events import Event

STORED = [json.loads(line) for line in (Path(__file__).parent / "events.jsonl").read_text("utf-8").splitlines()]
"""At least one event of each kind, as the journal holds it."""

TEXT = st.text(st.characters(codec=None), max_size=20)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def values(annotation: str) -> st.SearchStrategy[Any]:
    if annotation.endswith(" | None"):
        return st.none() | values(annotation.removesuffix(" | None"))
    if annotation.startswith("tuple["):
        return st.lists(values(annotation[6:-1].removesuffix(", ...")), max_size=3).map(tuple)
    if annotation.startswith("dict[str, "):
        return st.dictionaries(TEXT, values(annotation[10:-1]), max_size=3)
    if annotation in {"Json", "Any"}:
        return JSON
    record = getattr(events, annotation, None)
    if isinstance(record, type):
        return records(record)
    if record is not None and get_origin(record) is Literal:
        return st.sampled_from(get_args(record))
    if annotation.startswith("Literal["):
        return st.sampled_from([word.strip(" \"'") for word in annotation[8:-1].split(",")])
    simple: dict[str, st.SearchStrategy[Any]] = {
        "int": st.integers(-(2**70), 2**70),
        "float": NUMBER,
        "bool": st.booleans(),
    }
    return simple.get(annotation, TEXT)


def records(record: Any) -> st.SearchStrategy[Any]:
    fields = {
        name: values(getattr(kind, "__forward_arg__", str(kind))) for name, kind in record.__annotations__.items()
    }
    return st.builds(record, **fields)


@given(st.one_of([records(event) for event in EVENTS]))
def test_every_event_comes_back_as_it_went_in(event: Event) -> None:
    back = codec.decode(*codec.encode(event))
    assert type(back) is type(event)
    assert back == event


@given(st.lists(st.one_of([records(event) for event in EVENTS]), max_size=8))
def test_many_events_read_at_once_are_the_same_as_one_by_one(several: list[Event]) -> None:
    entries = [Entry(seq, seq / 8, event) for seq, event in enumerate(several, 1)]
    rows = codec.encode_rows(0, entries)
    assert codec.decode_rows(rows) == entries


def test_a_body_is_json_without_the_fields_that_have_their_default() -> None:
    kind, version, body = codec.encode(AttemptStarted("build", 2, "run:build:2", effect="read"))
    assert (kind, version) == ("attempt_started", EDITION)
    assert json.loads(body) == {"task": "build", "attempt": 2, "key": "run:build:2", "effect": "read"}


def test_an_exit_code_of_zero_is_not_taken_for_a_default() -> None:
    _, _, body = codec.encode(AttemptEnded("a", 1, Outcome(exit_code=0)))
    assert json.loads(body) == {"task": "a", "attempt": 1, "outcome": {"exit_code": 0}}


def test_no_tasks_selected_is_not_all_tasks() -> None:
    event = RunStarted("digest", {}, 1, selected=())
    assert codec.decode(*codec.encode(event)) == event


def test_nested_records_are_objects_and_their_tuples_come_back() -> None:
    event = AttemptEnded("a", 1, Outcome(artifacts=({"name": "log"},)))
    back = codec.decode(*codec.encode(event))
    assert isinstance(back, AttemptEnded)
    assert isinstance(back.outcome, Outcome)
    assert isinstance(back.outcome.artifacts, tuple)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_json_has_not_is_refused_before_it_is_stored(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        codec.encode(AttemptEnded("a", 1, Outcome(outputs={"x": value})))


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(TypeError, match="Outcome is not an event"):
        codec.encode(Outcome())  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "version"), [("task_teleported", EDITION), ("task_settled", EDITION + 1)])
def test_an_event_of_a_newer_program_is_named(kind: str, version: int) -> None:
    with pytest.raises(StorageFailed, match=f"no event `{kind}` of version {version}") as caught:
        codec.decode(kind, version, "{}")
    assert "upgrade" in caught.value.hint


def test_an_event_of_an_older_program_is_refused() -> None:
    with pytest.raises(StorageFailed, match=f"no event `task_settled` of version {EDITION - 1}") as caught:
        codec.decode("task_settled", EDITION - 1, "{}")
    assert "older" in caught.value.hint


@rows("body", ["", "{", "[]", "3", '{"task": "a"}{', '{"task": "a", "status": "failed", "colour": 1}', "{}"])
def test_a_damaged_row_is_named_with_its_number(body: str) -> None:
    good = (1, 0.0, *codec.encode(TaskSettled("a", "completed")))
    with pytest.raises(StorageFailed, match=r"event 2 .*damaged"):
        codec.decode_rows([good, (2, 0.0, "task_settled", EDITION, body)])


def test_two_damaged_rows_cannot_pass_for_two_whole_ones() -> None:
    rows = [(1, 0.0, "task_queued", EDITION, '{"task":"a"},{"task":"b"}'), (2, 0.0, "task_queued", EDITION, "")]
    with pytest.raises(StorageFailed, match="damaged"):
        codec.decode_rows(rows)


def test_every_kind_has_a_name_of_its_own() -> None:
    assert codec.event_types()["attempt_started"] is AttemptStarted
    assert len(codec.event_types()) == len(EVENTS)


def test_what_is_stored_reads_and_is_written_alike() -> None:
    rows = [(line["seq"], line["at"], line["kind"], line["version"], json.dumps(line["body"])) for line in STORED]
    entries = codec.decode_rows(rows)
    assert [entry.seq for entry in entries] == list(range(1, len(STORED) + 1))
    for line, entry in zip(STORED, entries, strict=True):
        kind, version, body = codec.encode(entry.event)
        assert (kind, version, json.loads(body)) == (line["kind"], line["version"], line["body"])


def test_every_kind_is_among_what_is_stored() -> None:
    seen = {line["kind"] for line in STORED}
    assert sorted(set(codec.event_types()) - seen) == [], "these have no line in tests/journal/events.jsonl"
    assert sorted(seen - set(codec.event_types())) == [], "these are no kinds"
