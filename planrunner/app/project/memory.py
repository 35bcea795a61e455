"""What is remembered, for the person at the command line: looked through, changed, written out and taken in."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

from planrunner import caller
from planrunner.app.people.persons import require_person
from planrunner.errors import NotFound, UsageError
from planrunner.journal.chain import data_folder
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_project, find_state
from planrunner.jsontext import read_json
from planrunner.knowledge.memory.entries import Entry, Source
from planrunner.knowledge.memory.layers import Layer, Part, open_layer
from planrunner.knowledge.memory.lessons import is_lesson
from planrunner.knowledge.memory.places import Place
from planrunner.knowledge.vectors import hashed
from planrunner.plan.nearest import nearest
from planrunner.records import Struct
from planrunner.safety.project import read_data

Json = Any

_ALL = 1 << 40


class Where(Struct):
    """Which memory is meant: a layer (of ``run``, where it is that of a run), its entries or its lessons, and the state
    directory that was chosen."""

    layer: str = "project"
    run: str = ""
    lessons: bool = False
    state: str | None = None


def opened(where: Where, writes: bool = False) -> Layer:
    """The layer, to be closed. Raises UsageError, NotFound for an unknown run, StorageFailed, and for writing
    RecordMismatch where the state directory came from elsewhere."""
    state_dir, run = find_state(None, where.state), ""
    if where.layer == "task":
        if not where.run:
            raise UsageError("the task memory is that of one run", "name it: `--run RUN`, or `--run last`")
        with closing(open_journal(state_dir, readonly=True)) as journal:
            run = journal.find_run(where.run)
    if writes and where.layer != "global":
        open_journal(state_dir).close()
    settings = read_data(find_project(None)).get("memory") or {}
    part: Part = "lessons" if where.lessons else "entries"
    return open_layer(where.layer, settings, Place(state_dir, data_folder(), run), part)


def got(layer: Layer, key: str) -> Entry:
    """The entry of a key. Raises NotFound with the nearest one."""
    entry = layer.get(key)
    if entry is None:
        close = nearest(key, [each.key for each in layer.page(limit=1_000)[0]])
        hint = f"did you mean `{close}`?" if close else "`planrunner memory` lists what is remembered"
        raise NotFound(f"nothing is remembered as `{key}` in the {layer.name} memory", hint)
    return entry


def put(layer: Layer, key: str, value: Json, tags: Iterable[str], trusted: bool) -> Entry:
    """Remember a value as a person. Raises Denied where a process of a run would vouch for it."""
    if trusted:
        require_person("memory", find_state(None, None))
    source = Source("person", caller.principal().name)
    kept = layer.put(Entry(key, value, tuple(tags), source, trusted), _mark()).after
    assert kept is not None
    return kept


def forget(layer: Layer, key: str) -> None:
    """Forget an entry. Raises NotFound with the nearest one."""
    got(layer, key)
    layer.forget(key, _mark())


def exported(layer: Layer) -> Iterator[dict[str, Json]]:
    """All entries, the oldest first, as ``imported`` takes them."""
    for entry in reversed(layer.page(limit=_ALL)[0]):
        yield entry.as_json()


def imported(layer: Layer, lines: Iterable[str]) -> int:
    """Take entries in, one a line of JSON, in place of those with the same keys; none is trusted by that. Gives how
    many. Raises UsageError, before anything is taken in, for a line that is not one."""
    entries = [_entry(line, number) for number, line in enumerate(lines, 1) if line.strip()]
    for entry in entries:
        layer.put(entry, _mark())
    return len(entries)


def _entry(line: str, number: int) -> Entry:
    try:
        data = read_json(line)
        return Entry(str(data["key"]), data["value"], tuple(map(str, data.get("tags") or ())), Source(**data["source"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        said = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        hint = "a line is JSON with `key`, `value`, `tags` and `source`, as `planrunner memory export` writes it"
        raise UsageError(f"line {number} is not an entry: {said}", hint) from None


def reindexed(layer: Layer) -> int:
    """Make all vectors again, without a model; gives how many."""
    entries, total = layer.page(limit=_ALL)
    texts = {entry.key: entry.value["signature"] if is_lesson(entry) else entry.text for entry in entries}
    if texts:
        layer.embed({key: hashed(text) for key, text in texts.items()})
    return total


def _mark() -> str:
    return f"person {uuid.uuid4().hex}"
