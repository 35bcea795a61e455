"""What all stores of memory hold to: once for an act, back again, within their retention, and safe among processes."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pgvector
import pytest

from planrunner.errors import StorageFailed, UsageError
from planrunner.failures import Failure
from planrunner.knowledge.memory.entries import Entry, Mixed, Moved, Picked
from planrunner.knowledge.memory.layers import Layer, Part, open_layer
from planrunner.knowledge.memory.lines import Lines
from planrunner.knowledge.memory.places import Place
from planrunner.knowledge.vectors import packed

FILES = ("sqlite", "file")
BACKENDS = (*FILES, pytest.param("postgresql", marks=pytest.mark.slow))


def at(
    folder: Path, backend: str, name: str = "project", part: Part = "entries", run: str = "R1", **retention: Any
) -> Layer:
    store = {"backend": backend, "retention": retention}
    if backend == "postgresql":
        store["url_env"] = _variable(folder)
    settings = {f"{name}_store": store}
    return open_layer(name, settings, Place(str(folder / "state"), str(folder / "home"), run), part)


def _variable(folder: Path) -> str:
    """A variable with the address of a database, the same for all processes that use a folder."""
    name = f"MEMORY_OF_{crc32(str(folder).encode())}"
    if name not in os.environ:
        os.environ[name] = pgvector.empty_database()
    return name


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def layer(tmp_path: Path, backend: str) -> Iterator[Layer]:
    with at(tmp_path, backend) as opened:
        yield opened


def keys(layer: Layer) -> list[str]:
    return [entry.key for entry in layer.page()[0]]


def value(layer: Layer, key: str) -> Any:
    entry = layer.get(key)
    return None if entry is None else entry.value


def test_a_layer_that_was_never_written_is_empty_and_stays_unmade(tmp_path: Path, layer: Layer) -> None:
    assert (layer.page(), layer.get("x"), layer.search("x"), layer.revert("m")) == (([], 0), None, [], False)
    assert not (tmp_path / "state").exists()


def test_an_entry_is_replaced_and_keeps_its_beginning(layer: Layer) -> None:
    first = layer.put(Entry("port", {"a": [1, None, "ä"]}, ("db", "db")), "m1").after
    second = layer.put(Entry("port", 5433), "m2").after
    assert first is not None and second is not None
    assert (value(layer, "port"), second.created, first.tags) == (5433, first.created, ("db",))
    assert second.updated >= first.updated


def test_an_act_is_done_once(layer: Layer) -> None:
    layer.put(Entry("port", 1), "m1")
    layer.put(Entry("port", 2), "other")
    assert layer.put(Entry("port", 1), "m1").again
    assert value(layer, "port") == 2


@pytest.mark.parametrize("former", [None, "before"])
def test_an_act_is_taken_back_exactly_and_twice_is_the_same(layer: Layer, former: str | None) -> None:
    if former:
        layer.put(Entry("port", former, ("db",)), "m0")
    before = layer.get("port")
    layer.put(Entry("port", "after"), "m1")
    assert layer.revert("m1") and not layer.revert("m1")
    assert layer.get("port") == before


def test_what_was_forgotten_comes_back(layer: Layer) -> None:
    layer.put(Entry("port", 1), "m1")
    before = layer.get("port")
    layer.forget("port", "m2")
    assert layer.get("port") is None and layer.search("port") == []
    assert layer.revert("m2") and layer.get("port") == before
    assert [hit.entry.key for hit in layer.search("port")] == ["port"]


def test_what_others_have_changed_since_is_not_put_back(layer: Layer) -> None:
    layer.put(Entry("port", 1), "m1")
    layer.put(Entry("port", 2), "m2")
    with pytest.raises(Moved, match="`port` was changed by another act"):
        layer.revert("m1")
    layer.forget("port", "m3")
    with pytest.raises(Moved):
        layer.revert("m2")
    assert value(layer, "port") is None


def test_entries_are_picked_by_the_beginning_of_their_key_and_by_all_tags(layer: Layer) -> None:
    for number, tags in enumerate((("a",), ("a", "b"), ("b",))):
        layer.put(Entry(f"k{number % 2}/x", number, tags), f"m{number}")
        layer.put(Entry(f"note/{number}", "the same words", tags), f"n{number}")
    picked, total = layer.page(Picked("note/", ("a",)))
    assert ([entry.key for entry in picked], total) == (["note/1", "note/0"], 2)
    for by in ("text", "vector", "both"):
        hits = layer.search("same words", by, picked=Picked(tags=("a", "b")))  # type: ignore[arg-type]
        assert [hit.entry.key for hit in hits][:1] == ["note/1"], by


def test_a_search_by_text_looks_at_the_whole_entry_and_takes_common_words_where_there_are_no_others(
    layer: Layer,
) -> None:
    layer.put(Entry("long", " ".join(f"word{number}" for number in range(200)) + " needle what is it"), "m1")
    layer.put(Entry("short", "nothing"), "m2")
    for query in ("needle", "word199", "what is it"):
        assert [hit.entry.key for hit in layer.search(query, "text")] == ["long"], query


def test_the_oldest_go_first_where_there_are_too_many(tmp_path: Path, backend: str) -> None:
    with at(tmp_path, backend, max_items=3) as layer:
        for number in range(5):
            layer.put(Entry(f"k{number}", number), f"m{number}")
        assert keys(layer) == ["k4", "k3", "k2"]
        layer.put(Entry("k2", "renewed"), "m5")
        layer.put(Entry("k5", 5), "m6")
        assert keys(layer) == ["k5", "k2", "k4"]
        assert [hit.entry.key for hit in layer.search("k3", "text")] == []


def test_what_is_too_old_goes_with_the_next_write(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(tmp_path, backend, max_age="1h") as layer:
        layer.put(Entry("old", 1), "m1")
        now = time.time() + 7200
        monkeypatch.setattr(time, "time", lambda: now)
        layer.put(Entry("new", 2), "m2")
        assert keys(layer) == ["new"]


def test_a_run_has_a_task_layer_of_its_own_and_lessons_lie_apart(tmp_path: Path, backend: str) -> None:
    for run, part in (("R1", "entries"), ("R2", "entries"), ("R1", "lessons")):
        with at(tmp_path, backend, "task", part, run) as layer:  # type: ignore[arg-type]
            layer.put(Entry("x", f"{run} {part}"), f"{run} {part}")
    with at(tmp_path, backend, "task", run="R2") as layer:
        assert [entry.value for entry in layer.page()[0]] == ["R2 entries"]
        assert [hit.entry.value for hit in layer.search("entries")] == ["R2 entries"]


def test_vectors_of_two_embedders_are_not_mixed_and_can_be_made_again(layer: Layer) -> None:
    layer.put(Entry("a", "text", vector=packed("small", [1.0, 0.0])), "m1")
    with pytest.raises(Mixed, match="`small 2`, this one by `hash 256`") as caught:
        layer.put(Entry("b", "text"), "m2")
    assert "planrunner memory reindex" in str(caught.value.hint)
    with pytest.raises(Mixed):
        layer.search("text")
    near = layer.search("", "vector", vector=packed("small", [3.0, 4.0]))
    assert [(hit.entry.key, round(hit.score, 4)) for hit in near] == [("a", 0.6)]
    layer.embed({"a": None})
    layer.put(Entry("b", "text"), "m2")
    assert layer.embedders() == ("hash 256",)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (Entry(" ", 1), "a key has 1 to 500"),
        (Entry("a\nb", 1), "a key has 1 to 500"),
        (Entry("a", float("nan")), "not JSON data"),
        (Entry("a", "x" * (1 << 20)), "bytes as JSON"),
        (Entry("a", 1, ("",)), "a tag has"),
    ],
)
def test_what_cannot_be_kept_is_refused(layer: Layer, entry: Entry, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        layer.put(entry, "m")


def test_another_backend_is_not_taken_for_an_empty_memory(tmp_path: Path) -> None:
    for there, wanted in (("sqlite", "file"), ("file", "sqlite")):
        with at(tmp_path / there, there) as layer:
            layer.put(Entry("a", 1), "m")
        for act in (lambda each: each.get("a"), lambda each: each.put(Entry("a", 1), "m")):
            with at(tmp_path / there, wanted) as layer, pytest.raises(UsageError, match=f"is kept as `{there}`"):
                act(layer)


@pytest.mark.parametrize("backend", FILES)
def test_nothing_is_written_through_a_link(tmp_path: Path, backend: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state" / "memory").symlink_to(tmp_path / "elsewhere")
    with at(tmp_path, backend) as layer, pytest.raises(StorageFailed, match="is a link"):
        layer.put(Entry("a", 1), "m")


@pytest.mark.parametrize("backend", FILES)
def test_a_file_that_is_damaged_is_named(tmp_path: Path, backend: str) -> None:
    name = tmp_path / "state" / "memory" / ("project.db" if backend == "sqlite" else "project.jsonl")
    name.parent.mkdir(parents=True)
    name.write_text("not a memory\n" * 100)
    with at(tmp_path, backend) as layer, pytest.raises(StorageFailed, match=name.name):
        layer.get("a")


@pytest.mark.slow
def test_a_team_that_cannot_be_reached_is_an_error_without_its_password(tmp_path: Path) -> None:
    place, settings = (
        Place(str(tmp_path / "state")),
        {"project_store": {"backend": "postgresql", "url_env": "TEAM_MEMORY"}},
    )
    with pytest.raises(UsageError, match="the variable TEAM_MEMORY, which holds the address of the project memory"):
        open_layer("project", settings, place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEAM_MEMORY", "postgresql://ana:hush@127.0.0.1:1/memory")
        with open_layer("project", settings, place) as layer, pytest.raises(StorageFailed) as caught:
            layer.put(Entry("a", 1), "m")
    assert "the memory at postgresql://127.0.0.1:1/memory cannot be used" in caught.value.message
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "store", [{"backend": "postgresql"}, {"url_env": "TEAM"}, {"backend": "file", "url_env": "TEAM"}]
)
def test_an_address_and_the_backend_that_has_one_go_together(tmp_path: Path, store: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="`memory: project_store:`"):
        open_layer("project", {"project_store": store}, Place(str(tmp_path)))


@pytest.mark.slow
def test_a_local_memory_is_not_taken_for_an_empty_one_of_a_team(tmp_path: Path) -> None:
    with at(tmp_path, "sqlite") as layer:
        layer.put(Entry("a", 1), "m")
    with at(tmp_path, "postgresql") as layer, pytest.raises(UsageError, match="is kept as `sqlite`"):
        layer.get("a")


def _write(folder: str, backend: str, who: int) -> None:
    with at(Path(folder), backend) as layer:
        for number in range(25):
            layer.put(Entry(f"{who}/{number}", "words"), f"{who} {number}")
            layer.change("count", f"c {who} {number}", lambda old: Entry("count", 1 if old is None else old.value + 1))


def test_processes_write_at_once_and_nothing_is_lost(tmp_path: Path, backend: str) -> None:
    at(tmp_path, backend).close()
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(str(tmp_path), backend, who)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    with at(tmp_path, backend) as layer:
        assert [writer.exitcode for writer in writers] == [0, 0, 0]
        assert (value(layer, "count"), layer.page(Picked())[1]) == (75, 76)
        assert len(layer.search("words", "text", 100)) == 75


def test_a_wait_for_another_writer_can_be_stopped(tmp_path: Path) -> None:
    with at(tmp_path, "sqlite") as layer:
        layer.put(Entry("a", 1), "m")
    other = sqlite3.connect(tmp_path / "state/memory/project.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    place = Place(str(tmp_path / "state"))
    stopped = open_layer("project", {}, place, stopped=lambda: True)
    with stopped, pytest.raises(Failure, match="another process writes") as caught:
        stopped.put(Entry("a", 2), "n")
    assert caught.value.failure == "interrupted"
    other.close()


def test_to_open_waits_for_a_process_that_has_the_database_to_itself(tmp_path: Path) -> None:
    with at(tmp_path, "sqlite") as layer:
        layer.put(Entry("a", 1), "m")
    other = sqlite3.connect(tmp_path / "state/memory/project.db", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("UPDATE version SET number = number + 1")
    asked: list[bool] = []

    def stopped() -> bool:
        asked.append(True)
        other.close()
        return False

    with open_layer("project", {}, Place(str(tmp_path / "state")), stopped=stopped) as opened:
        assert value(opened, "a") == 1
    assert asked == [True]


def test_a_line_that_a_kill_cut_off_counts_as_not_written(tmp_path: Path) -> None:
    with at(tmp_path, "file") as layer:
        layer.put(Entry("a", 1), "m1")
    path = tmp_path / "state/memory/project.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    with at(tmp_path, "file") as layer:
        assert layer.page()[1] == 1
        layer.put(Entry("b", 2), "m2")
    assert path.read_bytes().startswith(whole) and path.read_bytes().count(b"\n") == 2
    with at(tmp_path, "file") as layer:
        assert keys(layer) == ["b", "a"]


def test_lines_that_later_ones_replaced_are_dropped_and_acts_stay_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planrunner.knowledge.memory.lines._SLACK", 5)
    path = tmp_path / "state/memory/project.jsonl"
    with at(tmp_path, "file") as layer:
        layer.put(Entry("a", 0), "m0")
        layer.put(Entry("a", "last"), "m1")
        for _ in range(20):
            layer.put(Entry("b", 1), "again")
            layer.revert("again")
    assert path.read_bytes().count(b"\n") < 12
    assert os.stat(path).st_mode & 0o077 == 0
    store = Lines(str(path))
    assert (store.page(Picked(), 10)[1], store.revert("m1")) == (1, True)
    assert [entry.value for entry in store.page(Picked(), 10)[0]] == [0]
