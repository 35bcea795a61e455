"""Databases of a state directory beside the journal: laid out once, refused in another layout, written by one at a
time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from planrunner.errors import NotFound, StorageFailed
from planrunner.journal.local import LocalDatabase


class Words(LocalDatabase):
    NAME, MARK, LAYOUT, TABLES = "words", 7, 3, ("CREATE TABLE words (word TEXT PRIMARY KEY)",)

    __slots__ = ()


def words(state: str) -> list[str]:
    with Words(state, readonly=True) as opened:
        return [word for (word,) in opened.ask("SELECT word FROM words ORDER BY word")]


def test_what_was_written_is_read_and_what_failed_half_way_is_not(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    with Words(state) as opened:
        with opened.writing(durable=True):
            opened.do("INSERT INTO words VALUES ('one')")
        with pytest.raises(StorageFailed, match=r"words\.db` failed"), opened.writing():
            opened.do("INSERT INTO words VALUES ('two')")
            opened.do("INSERT INTO words VALUES ('one')")
    assert words(state) == ["one"]


def test_nothing_is_made_for_a_reader(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with pytest.raises(NotFound):
        Words(str(state), readonly=True)
    assert not state.exists()
    with Words(str(state)):
        pass
    assert words(str(state)) == []


@pytest.mark.parametrize(
    ("pragma", "told"),
    [("user_version = 2", "an older"), ("user_version = 4", "a newer"), ("application_id = 8", "another program")],
)
def test_a_file_of_another_layout_or_program_is_refused_and_left_as_it_is(
    tmp_path: Path, pragma: str, told: str
) -> None:
    with Words(str(tmp_path)):
        pass
    with closing(sqlite3.connect(tmp_path / "words.db")) as connection:
        connection.execute("PRAGMA user_version = 0")
        connection.execute(f"PRAGMA {pragma}")
    for readonly in (True, False):
        with pytest.raises(StorageFailed, match=told):
            Words(str(tmp_path), readonly)
    with closing(sqlite3.connect(tmp_path / "words.db")) as connection:
        name, _, value = pragma.partition(" = ")
        assert connection.execute(f"PRAGMA {name}").fetchone() == (int(value),)
