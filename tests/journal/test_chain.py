"""The proof of a run as a function over rows: no database, no file."""

from __future__ import annotations

from typing import Any

import pytest

from planrunner.journal.chain import Chain, Head, first_link
from planrunner.journal.codec import encode_rows
from planrunner.journal.proof import EventRow, Sealed, StoredRun, verify
from planrunner.machine.events import Entry, RunEnded, RunStarted, TaskQueued

EVENTS = (RunStarted("digest", {}, 7), TaskQueued("a"), TaskQueued("b"), RunEnded("completed"))


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> Chain:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    return Chain("/nowhere", b"k" * 32)


def stored(key: Chain) -> tuple[StoredRun, Head]:
    """A run of four events, and what a head knows of it."""
    facts = (1, "r1", "plan", "digest", 1.0, 1)
    rows = encode_rows(0, [Entry(seq, seq + 0.5, event) for seq, event in enumerate(EVENTS, 1)])
    chained, link = key.extend(first_link("r1", "plan", "digest", 1.0), rows)
    events: list[EventRow] = [
        (seq, at, kind.encode(), version, body.encode(), mac, True) for seq, at, kind, version, body, mac in chained
    ]
    row = Sealed(*facts, 1, "completed", 4.5, key.seal(*facts, 1, "completed", 4.5))
    plan = ("digest", "text", "plan.yaml", "yaml", None)
    return StoredRun(row, events, [(*plan, key.seal(*plan))]), (4, 1, link, "r1")


def kinds(rows: StoredRun, key: Chain, head: Head | None = None) -> list[str]:
    return [found.kind for found in verify(rows, key, head)]


def changed(rows: StoredRun, index: int, **columns: Any) -> StoredRun:
    names = ("seq", "at", "kind", "version", "body", "mac", "typed")
    events = list(rows.events)
    fields = {**dict(zip(names, events[index], strict=True)), **columns}
    events[index] = tuple(fields.values())  # type: ignore[assignment]
    return rows._replace(events=events)


def test_a_run_as_it_was_written_has_no_breaks(key: Chain) -> None:
    rows, head = stored(key)
    assert verify(rows, key, head) == []


@pytest.mark.parametrize("index", range(4))
def test_a_changed_event_breaks_the_chain_there(key: Chain, index: int) -> None:
    rows, head = stored(key)
    found = verify(changed(rows, index, body=b'{"task":"other"}'), key, head)
    assert (found[0].kind, found[0].seq) == ("changed", index + 1)


def test_a_run_that_was_cut_is_known_by_its_head_alone(key: Chain) -> None:
    rows, head = stored(key)
    row = rows.row._replace(status="", ended=None)
    row = row._replace(seal=key.seal(*row[:-1]))
    short = rows._replace(row=row, events=list(rows.events)[:3])
    assert kinds(short, key) == []
    assert kinds(short, key, head) == ["cut"]


def test_row_and_plan_bear_seals_of_their_own(key: Chain) -> None:
    rows, head = stored(key)
    assert kinds(rows._replace(row=rows.row._replace(epoch=9)), key, head) == ["row"]
    assert kinds(rows._replace(plans=[("digest", "other", *rows.plans[0][2:])]), key, head) == ["plan"]


def test_another_key_proves_nothing(key: Chain) -> None:
    rows, head = stored(key)
    assert "key" in kinds(rows, Chain("/nowhere", b"x" * 32), head)
