"""A layer of memory as the settings describe it: its store, what may be kept in it, and searches by text and by
vector at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from planrunner.errors import UsageError
from planrunner.extras import installing
from planrunner.jsontext import write_json
from planrunner.knowledge.memory.database import Database
from planrunner.knowledge.memory.entries import (
    ANY,
    LARGEST,
    LAYERS,
    LONGEST_KEY,
    Changed,
    Entry,
    Hit,
    LayerName,
    Mixed,
    Picked,
    Store,
    check_embedder,
)
from planrunner.knowledge.memory.lines import Lines
from planrunner.knowledge.memory.places import SUFFIXES, Place, Stopped, never
from planrunner.knowledge.vectors import Vector, hashed
from planrunner.plan.expressions.quantities import parse_duration
from planrunner.plan.nearest import nearest
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.knowledge.memory.postgresql import Server

Json = Any
By = Literal["text", "vector", "both"]
Part = Literal["entries", "lessons"]
"""What a layer keeps apart: what was put there, and what was learnt of failures and patterns."""

TEAM = "postgresql"
"""The backend that a team shares."""
THRESHOLD = 0.65
"""Similarity from which on a lesson counts as about the same problem, where the settings say nothing."""
_TASK_AGE = 30 * 86400.0
_DEPTH = 50
"""Entries of each kind of search that are laid together, at least."""
_UNLIKE = 0.05
"""Similarity of texts that have nothing in common."""
_DAMPING = 60.0
_TOKEN = 4
"""Characters of a token, about."""


class Rules(Struct):
    """How a layer is kept: ``most`` entries (None: any number), none that has not changed for ``age`` seconds;
    ``address`` is that of the database of a team."""

    backend: str = "sqlite"
    address: str = ""
    most: int | None = None
    age: float | None = None


class Layer:
    """One layer, opened with its first use. ``clean`` takes secrets out of JSON data. Reads of a layer that was never
    written find nothing and make nothing. Errors are StorageFailed, and UsageError for what cannot be kept or asked."""

    __slots__ = ("_clean", "_path", "_rules", "_space", "_stem", "_stopped", "_store", "name")

    def __init__(
        self,
        name: LayerName,
        place: Place,
        rules: Rules,
        part: Part = "entries",
        clean: Callable[[Json], Json] = lambda value: value,
        stopped: Stopped = never,
    ) -> None:
        self.name = name
        self._clean = clean
        self._stopped = stopped
        self._path = "" if rules.address else place.path(name, rules.backend)
        self._stem = place.path(name, "sqlite").removesuffix(SUFFIXES["sqlite"])
        self._rules = rules
        self._space = " ".join((*([place.run] if name == "task" else []), *(["lessons"] if part == "lessons" else [])))
        self._store: Store | None = None

    def __enter__(self) -> Layer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def put(self, entry: Entry, mark: str) -> Changed:
        """Keep an entry under its key, in place of what that had, once for a mark. ``entry`` has key, value, tags,
        source, trust and, where a model has made it, its vector; the rest is filled in."""
        entry = self.checked(entry)
        return self.change(entry.key, mark, lambda before: entry)

    def change(self, key: str, mark: str, make: Callable[[Entry | None], Entry | None]) -> Changed:
        """Let an entry be what ``make`` gives of what it was, once for a mark; its times and its mark are set here."""

        def made(before: Entry | None) -> Entry | None:
            after, now = make(before), time.time()
            if after is None:
                return None
            created = now if before is None else before.created
            return after._replace(created=created, updated=now, mark=mark)

        store = self._opened()
        changed = store.change(key, mark, made)
        if self._rules.most is not None or self._rules.age is not None:
            store.retain(self._rules.most, 0.0 if self._rules.age is None else time.time() - self._rules.age)
        return changed

    def checked(self, entry: Entry) -> Entry:
        """An entry without secrets, and with its vector. Raises UsageError for what cannot be kept."""
        entry = entry._replace(
            key=str(self._clean(entry.key)), value=self._clean(entry.value), tags=_tags(self._clean([*entry.tags]))
        )
        if not entry.key.strip() or len(entry.key) > LONGEST_KEY or not entry.key.isprintable():
            raise UsageError(f"a key has 1 to {LONGEST_KEY} printable characters, found {entry.key[:80]!r}")
        try:
            size = len(write_json(entry.value))
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"the value of `{entry.key}` is not JSON data: {error}") from None
        if size > LARGEST:
            raise UsageError(f"the value of `{entry.key}` has {size:,} bytes as JSON, above {LARGEST:,}", "keep a file")
        vector = entry.vector or hashed(entry.text)
        check_embedder(vector.embedder, self.embedders())
        return entry._replace(vector=vector)

    def forget(self, key: str, mark: str) -> Changed:
        """Remove an entry, once for a mark; nothing where there is none."""
        return self.change(key, mark, lambda before: None)

    def revert(self, mark: str) -> bool:
        """Take an act back; False where there is nothing to take back. Raises UsageError where another act changed the
        entry since."""
        store = self._reading()
        return store is not None and store.revert(mark)

    def get(self, key: str) -> Entry | None:
        store = self._reading()
        return None if store is None else store.get(key)

    def page(self, picked: Picked = ANY, limit: int = 50, offset: int = 0) -> tuple[list[Entry], int]:
        """Entries, those that changed last first, and how many fit in all."""
        store = self._reading()
        return ([], 0) if store is None else store.page(picked, limit, offset)

    def search(
        self, query: str, by: By = "both", limit: int = 10, picked: Picked = ANY, vector: Vector | None = None
    ) -> list[Hit]:
        """The entries that fit a query best. ``vector`` is that of the query where a model made those of the entries. A
        score is the similarity by vector, the relevance by text, and from 0 to 1 by both: an entry that is first in
        both kinds has 1. Raises Mixed where the vectors cannot be compared."""
        store = self._reading()
        if store is None or limit < 1:
            return []
        if by == "text":
            hits = store.by_text(query, limit, picked)
        elif by == "vector":
            hits = store.by_vector(vector or hashed(query), limit, picked)
        else:
            near = store.by_vector(vector or hashed(query), max(_DEPTH, limit), picked)
            words = store.by_text(query, max(_DEPTH, limit), picked)
            hits = _fused(words, [hit for hit in near if hit.score > _UNLIKE])[:limit]
        return [hit._replace(layer=self.name) for hit in hits]

    def embedders(self) -> tuple[str, ...]:
        """Who made the vectors."""
        store = self._reading()
        return () if store is None else store.embedders()

    def embed(self, vectors: Mapping[str, Vector | None]) -> None:
        """Put these in place of the vectors of entries, by key."""
        self._opened().embed(vectors)

    def _reading(self) -> Store | None:
        """The store where it is there already."""
        if self._rules.address:
            server = self._opened()
            return server if server.is_there else None
        if self._store is None and not os.path.lexists(self._path):
            self._refuse_other_backend()
            return None
        return self._opened()

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._made()
        return self._store

    def _made(self) -> Store:
        if self._rules.address:
            return self._of_team()
        self._refuse_other_backend()
        store = Database if self._rules.backend == "sqlite" else Lines
        return store(self._path, self._space, self._stopped)

    def _of_team(self) -> Store:
        try:
            of_team = import_module("planrunner.knowledge.memory.postgresql").Server
        except ImportError as error:
            told = f"the {self.name} memory is kept in PostgreSQL, and its driver is not installed ({error})"
            raise UsageError(told, installing("sql")) from None
        server: Server = of_team(self._rules.address, self.name, self._space, self._stopped)
        if not server.is_there:
            self._refuse_other_backend()
        return server

    def _refuse_other_backend(self) -> None:
        """What another backend keeps would be forgotten in silence."""
        for backend, suffix in SUFFIXES.items():
            file = self._stem + suffix
            if backend != self._rules.backend and os.path.lexists(file) and not os.path.lexists(self._path):
                raise UsageError(
                    f"the {self.name} memory is kept as `{backend}` ({file}), and the settings say"
                    f" `{self._rules.backend}`",
                    "take the setting back, `planrunner memory export`, move the file away, then import",
                )


def open_layer(
    name: str,
    settings: Mapping[str, Json],
    place: Place,
    part: Part = "entries",
    clean: Callable[[Json], Json] = lambda value: value,
    stopped: Stopped = never,
) -> Layer:
    """The layer of a name as the section ``memory`` of the settings has it. Raises UsageError for an unknown name,
    StorageFailed where the layer has no place."""
    for layer in LAYERS:
        if layer == name:
            return Layer(layer, place, _rules(layer, settings), part, clean, stopped)
    close = nearest(name, LAYERS)
    raise UsageError(
        f"`{name}` is not a layer of memory", f"did you mean `{close}`?" if close else "task, project or global"
    )


def _rules(layer: LayerName, settings: Mapping[str, Json]) -> Rules:
    store = settings.get(f"{layer}_store") or {}
    retention = store.get("retention") or {}
    age = parse_duration(str(retention["max_age"])) if "max_age" in retention else None
    if age is None and layer == "task":
        age = _TASK_AGE
    backend, variable = store.get("backend", "sqlite"), store.get("url_env", "")
    if (backend == TEAM) != bool(variable):
        told = f"`memory: {layer}_store:` has `url_env` and no `backend: {TEAM}`"
        if backend == TEAM:
            told = f"`memory: {layer}_store:` says `backend: {TEAM}` and not where that is"
        raise UsageError(told, f"write both: {{backend: {TEAM}, url_env: VARIABLE}}, or neither")
    address = os.environ.get(variable, "") if variable else ""
    if variable and not address:
        told = f"the variable {variable}, which holds the address of the {layer} memory, is not set"
        raise UsageError(told, f"set it, such as `export {variable}=postgresql://user@host/memory`")
    return Rules(backend, address, retention.get("max_items"), age)


def recall(layers: Iterable[Layer], query: str, limit: int = 10, tokens: int = 2_000) -> list[Hit]:
    """What is remembered that fits a query, for a prompt: the best of all layers together, as many as have room in so
    many tokens. Whatever is not ``trusted`` is untrusted text."""
    hits = sorted((hit for layer in layers for hit in _recalled(layer, query, limit)), key=lambda hit: -hit.score)
    chosen: list[Hit] = []
    for hit in hits:
        tokens -= len(hit.entry.key) // _TOKEN + len(write_json(hit.entry.value)) // _TOKEN + 1
        if tokens < 0 or len(chosen) == limit:
            break
        chosen.append(hit)
    return chosen


def _recalled(layer: Layer, query: str, limit: int) -> list[Hit]:
    try:
        return layer.search(query, "both", limit)
    except Mixed:  # no model is asked here, and words find entries too; places stand for what cannot be compared
        return _fused(layer.search(query, "text", limit), [])


def _fused(*lists: list[Hit]) -> list[Hit]:
    """Lists by their ranks: an entry that is well placed in several stands before one that is first in one."""
    scores: dict[str, float] = {}
    entries: dict[str, Entry] = {}
    for hits in lists:
        for rank, hit in enumerate(hits):
            entries[hit.entry.key] = hit.entry
            scores[hit.entry.key] = scores.get(hit.entry.key, 0.0) + _DAMPING / (_DAMPING + rank) / len(lists)
    order = sorted(scores, key=lambda key: -scores[key])
    return [Hit(entries[key], round(scores[key], 4)) for key in order]


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    for tag in tags:
        if not tag.strip() or not tag.isprintable() or len(tag) > 100:
            raise UsageError(f"a tag has 1 to 100 printable characters, found {tag[:80]!r}")
    return tuple(dict.fromkeys(tags))
