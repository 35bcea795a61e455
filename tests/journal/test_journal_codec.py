"""Events to rows and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrunner.errors import StorageFailed
from planrunner.journal import codec
from planrunner.machine import events
from planrunner.machine.events import EVENTS, AttemptEnded, AttemptStarted, Entry, Outcome, RunStarted, TaskSettled

if TYPE_CHECKING:
    from planrunner.machine.events import Event

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.jsonl"))

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
    record = getattr(events, annotation, None)
    if hasattr(record, "_fields"):
        return records(record)
    simple: dict[str, st.SearchStrategy[Any]] = {
        "int": st.integers(-(2**70), 2**70),
        "float": NUMBER,
        "bool": st.booleans(),
    }
    return JSON if annotation in {"Json", "Any"} else simple.get(annotation, TEXT)


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
    assert (kind, version) == ("attempt_started", 1)
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


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_json_has_not_is_refused_before_it_is_stored(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        codec.encode(AttemptEnded("a", 1, Outcome(outputs={"x": value})))


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(TypeError, match="Outcome is not an event"):
        codec.encode(Outcome())  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "version"), [("task_teleported", 1), ("task_settled", 7)])
def test_an_event_of_a_newer_program_is_named(kind: str, version: int) -> None:
    with pytest.raises(StorageFailed, match=f"no event `{kind}` of version {version}") as caught:
        codec.decode(kind, version, "{}")
    assert "upgrade" in caught.value.hint


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "3", '{"task": "a"}{', '{"task": "a", "status": "failed", "colour": 1}', "{}"]
)
def test_a_damaged_row_is_named_with_its_number(body: str) -> None:
    good = (1, 0.0, *codec.encode(TaskSettled("a", "completed")))
    with pytest.raises(StorageFailed, match=r"event 2 .*damaged"):
        codec.decode_rows([good, (2, 0.0, "task_settled", 1, body)])


def test_two_damaged_rows_cannot_pass_for_two_whole_ones() -> None:
    rows = [(1, 0.0, "task_queued", 1, '{"task":"a"},{"task":"b"}'), (2, 0.0, "task_queued", 1, "")]
    with pytest.raises(StorageFailed, match="damaged"):
        codec.decode_rows(rows)


def test_an_older_event_is_lifted_step_by_step_to_the_one_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invented: once ``task_settled`` was ``task_done`` with ``ok``, then ``task_settled`` version 0 with ``state``."""
    monkeypatch.setitem(
        codec.UPCASTERS,
        ("task_done", 1),
        lambda body: ("task_settled", 0, {"task": body["task"], "state": "completed" if body["ok"] else "failed"}),
    )
    monkeypatch.setitem(
        codec.UPCASTERS,
        ("task_settled", 0),
        lambda body: ("task_settled", 1, {"task": body["task"], "status": body["state"]}),
    )
    rows = [
        (1, 0.0, "task_done", 1, '{"task":"a","ok":true}'),
        (2, 0.0, "task_settled", 0, '{"task":"b","state":"skipped"}'),
        (3, 0.0, "task_settled", 1, '{"task":"c","status":"failed"}'),
    ]
    assert [entry.event for entry in codec.decode_rows(rows)] == [
        TaskSettled("a", "completed"),
        TaskSettled("b", "skipped"),
        TaskSettled("c", "failed"),
    ]


@given(st.one_of([records(event) for event in EVENTS]))
def test_what_is_written_by_hand_is_what_the_fields_say(event: Event) -> None:
    kind, _, body = codec.encode(event)
    assert json.loads(body) == json.loads(codec.rendered_by_field(codec.event_types()[kind])(event))


@given(records(Outcome))
def test_an_outcome_written_by_hand_is_what_its_fields_say(outcome: Outcome) -> None:
    assert json.loads(codec.renderer_of(Outcome)(outcome)) == json.loads(codec.rendered_by_field(Outcome)(outcome))


def test_the_kinds_that_are_written_by_hand_are_still_so():
    """A record that got a field since would silently be written the slow way."""
    from planrunner.machine import events

    assert {name: getattr(events, name)._fields for name in codec._BY_HAND} == {
        name: known for name, (known, _) in codec._BY_HAND.items()
    }


def test_fields_the_hand_does_not_know_are_written_too() -> None:
    class TaskSettled(NamedTuple):
        task: str
        colour: str = "none"

    assert json.loads(codec.renderer_of(TaskSettled)(TaskSettled("a", "blue"))) == {"task": "a", "colour": "blue"}


def test_every_kind_has_a_name_of_its_own() -> None:
    assert codec.event_types()["attempt_started"] is AttemptStarted
    assert len(codec.event_types()) == len(EVENTS)


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.stem)
def test_a_history_written_once_loads_for_ever(history: Path) -> None:
    lines = [json.loads(line) for line in history.read_text(encoding="utf-8").splitlines()]
    rows = [(line["seq"], line["at"], line["kind"], line["version"], json.dumps(line["body"])) for line in lines]
    entries = codec.decode_rows(rows)
    assert [entry.seq for entry in entries] == list(range(1, len(lines) + 1))
    for line, entry in zip(lines, entries, strict=True):
        kind, version, body = codec.encode(entry.event)
        if (line["kind"], line["version"]) == (kind, version):
            lifted = codec.LIFTED.get(kind, ())
            assert json.loads(body) == {name: value for name, value in line["body"].items() if name not in lifted}


def test_the_histories_hold_every_kind_of_today() -> None:
    seen = {json.loads(line)["kind"] for path in HISTORIES for line in path.read_text(encoding="utf-8").splitlines()}
    assert sorted(set(codec.event_types()) - seen) == [], "these have no line in tests/journal/histories"
    assert sorted(seen - set(codec.event_types())) == [], "these are no kinds"
