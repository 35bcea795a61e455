"""What is remembered, and the port that a store of it fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from planrunner.errors import Hint, StorageFailed, UsageError
from planrunner.jsontext import as_text, write_json
from planrunner.knowledge.ranking import words
from planrunner.knowledge.vectors import Vector
from planrunner.records import Struct

Json = Any

LayerName = Literal["task", "project", "global"]
LAYERS: tuple[LayerName, ...] = ("task", "project", "global")
"""What one run remembers, what a project does, and what its user does."""
LONGEST_KEY = 500
LARGEST = 1 << 20
"""Bytes of a value, as JSON."""
_TEXT = 20_000
"""Characters of an entry that a search looks at."""


class Source(NamedTuple):
    """Who wrote an entry: a ``task`` of a run, a ``model`` (an agent that is a task of a run) or a ``person``."""

    kind: Literal["task", "model", "person"] = "person"
    name: str = ""
    run: str = ""


class Entry(NamedTuple):
    """One thing that is remembered. ``value`` is any JSON data; ``trusted`` only where a person vouched for it: all
    else is untrusted text. ``created`` and ``updated`` are seconds since 1970; ``mark`` names the act that wrote it
    last, and ``vector`` is not loaded by reads."""

    key: str
    value: Json
    tags: tuple[str, ...] = ()
    source: Source = Source()
    trusted: bool = False
    created: float = 0.0
    updated: float = 0.0
    mark: str = ""
    vector: Vector | None = None

    @property
    def text(self) -> str:
        """What searches look at: the words of the key, of the tags and of all texts in the value."""
        text = " ".join((*words(self.key), *self.tags, *_texts(self.value)))
        return text[:_TEXT].encode("utf-8", "replace").decode()

    def as_json(self) -> dict[str, Json]:
        """The entry as people and programs get it; the mark and the vector are the store's own."""
        data = {**self._asdict(), "tags": [*self.tags], "source": self.source._asdict()}
        return {name: value for name, value in data.items() if name not in ("mark", "vector")}


class Hit(Struct):
    """An entry that a search gave; ``score`` is its similarity (by vector) or its relevance, higher is better."""

    entry: Entry
    score: float
    layer: str = ""


class Changed(Struct):
    """What an act made of an entry. ``again``: it had been done before, and nothing was done now."""

    before: Entry | None
    after: Entry | None
    again: bool = False


class Picked(Struct):
    """Which entries are meant: those with a key that begins so, and with all of these tags."""

    prefix: str = ""
    tags: tuple[str, ...] = ()

    def fits(self, entry: Entry) -> bool:
        return entry.key.startswith(self.prefix) and set(self.tags) <= set(entry.tags)


Make = Callable[["Entry | None"], "Entry | None"]
"""What an entry becomes, by what it is now; None: it is not there."""

ANY = Picked()


class Store(Protocol):
    """Where one layer is kept; of the task layer, what one run remembers. Several processes may use it at once, and
    what a method has changed survives a loss of power on return. Raises StorageFailed."""

    is_there: bool
    """Whether anything was ever written."""

    def change(self, key: str, mark: str, make: Make) -> Changed:
        """Put in place of an entry what ``make`` gives, once for a mark, alone among all writers."""

    def revert(self, mark: str) -> bool:
        """Bring back what an act replaced; False where it did nothing or was reverted. Raises Moved where another act
        has changed the entry since."""

    def get(self, key: str) -> Entry | None: ...

    def page(self, picked: Picked, limit: int, offset: int = 0) -> tuple[list[Entry], int]:
        """Entries, those that changed last first, and how many there are in all."""

    def by_text(self, query: str, limit: int, picked: Picked = ANY) -> list[Hit]:
        """The entries that have words of the query, the most relevant first."""

    def by_vector(self, query: Vector, limit: int, picked: Picked = ANY) -> list[Hit]:
        """The entries whose vectors are most similar. Raises Mixed where other embedders made some of them."""

    def embedders(self) -> tuple[str, ...]:
        """Who made the vectors."""

    def embed(self, vectors: Mapping[str, Vector | None]) -> None:
        """Put other vectors in place of those of the entries with these keys."""

    def retain(self, most: int | None, since: float) -> int:
        """Drop what changed before ``since``, of all runs, then the oldest above ``most``; gives how many went."""

    def close(self) -> None: ...


class Moved(UsageError):
    """An entry has been changed by another act since, so it is left as it is."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the entry `{key}` was changed by another act since, so it is not put back")


class Mixed(UsageError):
    """Vectors of several embedders cannot be compared."""

    def __init__(self, wanted: str, there: Sequence[str]) -> None:
        others = ", ".join(f"`{name}`" for name in sorted(there) if name != wanted)
        super().__init__(
            f"the vectors of this memory were made by {others}, this one by `{wanted}`: they cannot be compared",
            "give a `vector` of the same model with its name as `embedder`, search by text alone, or make all vectors"
            " again without a model: `planrunner memory reindex`",
        )


def may_go_back(mark: str, left: bool, now: Entry | None, former: Entry | None) -> bool:
    """Whether what an act made of an entry (``left``: one that is there) still stands, so that it can be reverted;
    False where the entry is as it was before. Raises Moved where another act has changed it since."""
    if (now is None and not left) or (now is not None and now.mark == mark):
        return True
    if now != former:
        raise Moved((now or former or Entry("", None)).key)
    return False


def check_embedder(wanted: str, there: Sequence[str]) -> None:
    """Raises Mixed where a vector was made by another embedder."""
    if any(name != wanted for name in there):
        raise Mixed(wanted, there)


def failed(path: str, error: object) -> StorageFailed:
    """The error to show where a store cannot be read or written."""
    reason = getattr(error, "strerror", None) or error
    return StorageFailed(f"the memory `{path}` cannot be used: {reason}", Hint("free some space or repair the file"))


def row_of(entry: Entry) -> str:
    """An entry as a store keeps it, without its vector."""
    return write_json(entry._replace(vector=None))


def entry_from(row: Sequence[Json], vector: Vector | None = None) -> Entry:
    """What ``row_of`` wrote, read as JSON."""
    key, value, tags, source, trusted, created, updated, mark = row[:8]
    return Entry(key, value, tuple(tags), Source(*source), trusted, created, updated, mark, vector)


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield str(name)
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)
    elif value is not None:
        yield as_text(value, _TEXT)
