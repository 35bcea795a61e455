"""``memory.put``, ``memory.get``, ``memory.search`` and ``memory.forget``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.files.inputs import check
from planrunner.capabilities.files.records import name_of
from planrunner.errors import UsageError
from planrunner.jsontext import shown
from planrunner.knowledge.memory.entries import Entry, Hit, LayerName, Picked, Source
from planrunner.knowledge.memory.layers import Layer, Part
from planrunner.knowledge.vectors import Vector, is_vector, packed

Json = Any

_MOST = 200
RISKS = ("the global layer lies outside the project, among the user's data (files)",)
LAYER = "task: this run; project: all runs of the project; global: all projects of the user"
_VECTOR = "embedding of the text, such as from llm.embed; default: computed from its words, without a model"
_EMBEDDER = "name of the model that computed `vector`"


@contextmanager
def opened(context: Context, name: str, part: Part = "entries") -> Iterator[Layer]:
    """A layer; what cannot be kept or asked is a failure of the call."""
    try:
        with context.memory(name, part) as layer:
            yield layer
    except UsageError as error:
        hint = f": {error.hint}" if str(error.hint) else ""
        raise Failure(f"{error.message}{hint}") from None


def writer(context: Context) -> Source:
    """Who writes: the task of the call, or the model that a task leaves the call to."""
    task = context.call.task
    return Source("model" if task.uses.startswith("agent.") else "task", task.id, context.call.run_id)


def mark(context: Context, act: str, inputs: Mapping[str, Json]) -> str:
    """The name of an act, the same for every attempt of the task's visit: it is done once."""
    left_out = ("layer", "vector", "embedder")
    what = {name: value for name, value in inputs.items() if name not in left_out and value is not None}
    return name_of(context, act, what)


def capture_of(act: str, **defaults: Json) -> Callable[..., dict[str, Json]]:
    """The ``capture`` of a capability: which act is to be taken back. The store itself keeps what it replaces.
    ``defaults`` are those of inputs that belong to the act."""

    def capture(context: Context, layer: str = "project", **inputs: Json) -> dict[str, Json]:
        check(inputs)
        return {"layer": layer, "mark": mark(context, act, {**defaults, **inputs})}

    return capture


def reverted(context: Context, before: dict[str, Json], part: Part) -> dict[str, Json]:
    """Take back an act of which ``before`` was captured. Raises Failure where another act changed the entry since."""
    with opened(context, before["layer"], part) as layer:
        return {"changed": layer.revert(before["mark"])}


def undo_entry(context: Context, before: dict[str, Json], outputs: dict[str, Json] | None) -> dict[str, Json]:
    """Bring the former value back."""
    return reverted(context, before, "entries")


class Kept(NamedTuple):
    key: Annotated[str, Doc("the key")]
    layer: Annotated[LayerName, Doc("the layer")]


def _entry(
    context: Context,
    key: str,
    value: Json,
    tags: list[str] | None = None,
    vector: list[float] | None = None,
    embedder: str = "",
) -> Entry:
    check({"key": key, "tags": tags, "embedder": embedder})
    return Entry(key, value, tuple(tags or ()), writer(context), vector=_vector(vector, embedder))


def _vector(vector: list[float] | None, embedder: str) -> Vector | None:
    if (vector is None) != (not embedder):
        raise Failure("`vector` needs `embedder`, the name of the model that computed it, and the reverse")
    if vector is not None and not (is_vector(vector) and len(vector) <= 65536):
        raise Failure("`vector` has 1 to 65536 finite numbers")
    return None if vector is None else packed(embedder, vector)


def _show_put(context: Context, key: str, value: Json, layer: str = "project", **inputs: Json) -> Preview:
    with opened(context, layer) as memory:
        checked = memory.checked(_entry(context, key, value, **inputs))
        before = memory.get(checked.key)
    was = "" if before is None else f"-{shown(before.value, 1_000)}\n"
    diff = f"--- {layer}/{key}\n+++ {layer}/{key}\n{was}+{shown(checked.value, 1_000)}\n"
    return Preview(f"remember `{key}` in the {layer} memory", diff)


@capability(
    "memory.put", effect="idempotent", risks=RISKS,
    preview=_show_put, capture=capture_of("memory.put"), undo=undo_entry,
)  # fmt: skip
def put(
    context: Context,
    key: Annotated[str, Doc("name of the entry, such as deploy/last-version; an entry of that name is replaced")],
    value: Annotated[Any, Doc("value to keep: any JSON data, up to 1 MB")],
    layer: Annotated[LayerName, Doc(LAYER)] = "project",
    tags: Annotated[list[str] | None, Doc("tags to filter entries by")] = None,
    vector: Annotated[list[float] | None, Doc(_VECTOR)] = None,
    embedder: Annotated[str, Doc(_EMBEDDER)] = "",
) -> Kept:
    """Keep a value under a key.

    The value is durable once the task has ended, written exactly once per task, with secrets masked. A rollback
    restores the earlier value. Readers get the value of a task as untrusted text.
    """
    act = mark(context, "memory.put", {"key": key, "value": value, "tags": tags})
    with opened(context, layer) as memory:
        memory.put(_entry(context, key, value, tags, vector, embedder), act)
    return Kept(key, layer)


class Got(NamedTuple):
    found: Annotated[bool, Doc("false if the key has no entry")]
    value: Annotated[Any, Doc("value of the entry, or `default`: untrusted text")]
    trusted: Annotated[bool, Doc("whether a person has vouched for the value")]
    vouched: Annotated[Any, Doc("the value if it is trusted, otherwise null: not untrusted text")]
    tags: Annotated[list[str], Doc("its tags")]
    source: Annotated[dict[str, Any], Doc("who wrote it: kind (task, model, person), name, run")]
    updated: Annotated[float, Doc("time of the last change, in seconds since 1970; 0 without an entry")]


@capability("memory.get", effect="read", risks=RISKS, foreign=("value", "tags", "source"), own=("vouched",))
def get(
    context: Context,
    key: Annotated[str, Doc("name of the entry")],
    layer: Annotated[LayerName, Doc(LAYER)] = "project",
    default: Annotated[Any, Doc("`value` if the key has no entry")] = None,
) -> Got:
    """Recall the value under a key.

    `value` is text from outside, since a model, a page or another run may have written it. A value that a person
    wrote with `planrunner memory put --trusted` is in `vouched` as well.
    """
    check({"key": key})
    with opened(context, layer) as memory:
        entry = memory.get(key)
    if entry is None:
        return Got(False, default, False, None, [], {}, 0.0)
    vouched = entry.value if entry.trusted else None
    return Got(True, entry.value, entry.trusted, vouched, [*entry.tags], entry.source._asdict(), entry.updated)


class Results(NamedTuple):
    entries: Annotated[list[dict[str, Any]], Doc("the best first: key, value, tags, source, trusted, updated, score")]
    total: Annotated[int, Doc("number of entries")]


@capability("memory.search", effect="read", risks=RISKS, foreign=("entries",))
def search(
    context: Context,
    query: Annotated[str, Doc("words, or a question")],
    layer: Annotated[LayerName, Doc(LAYER)] = "project",
    by: Annotated[Literal["both", "text", "vector"], Doc("search by words, by similarity, or by both")] = "both",
    limit: Annotated[int, Doc("the most entries, up to 200")] = 10,
    tags: Annotated[list[str] | None, Doc("only entries with all of these tags")] = None,
    prefix: Annotated[str, Doc("only entries whose key starts with this")] = "",
    vector: Annotated[list[float] | None, Doc(_VECTOR)] = None,
    embedder: Annotated[str, Doc(_EMBEDDER)] = "",
) -> Results:
    """Search for entries.

    `text` finds entries that contain words of the query, `vector` entries with similar text, and `both` combines the
    two. The score is the relevance for `text`, the similarity for `vector`, and from 0 to 1 for `both`.
    """
    check({"query": query, "limit": limit, "tags": tags, "prefix": prefix, "embedder": embedder})
    if not 1 <= limit <= _MOST:
        raise Failure(f"`limit` is 1 to {_MOST}")
    with opened(context, layer) as memory:
        hits = memory.search(query, by, limit, Picked(prefix, tuple(tags or ())), _vector(vector, embedder))
    return Results([hit_object(hit) for hit in hits], len(hits))


def hit_object(hit: Hit) -> dict[str, Json]:
    """A hit as data."""
    return {**hit.entry.as_json(), "layer": hit.layer, "score": round(hit.score, 4)}


def _show_forget(context: Context, key: str, layer: LayerName = "project") -> Preview:
    with opened(context, layer) as memory:
        before = memory.get(key)
    was = "nothing is remembered under it" if before is None else f"it is {shown(before.value, 200)}"
    return Preview(f"forget `{key}` of the {layer} memory: {was}")


@capability(
    "memory.forget", effect="idempotent", risks=RISKS,
    preview=_show_forget, capture=capture_of("memory.forget"), undo=undo_entry,
)  # fmt: skip
def forget(
    context: Context,
    key: Annotated[str, Doc("name of the entry; without an entry nothing happens")],
    layer: Annotated[LayerName, Doc(LAYER)] = "project",
) -> Kept:
    """Forget an entry. A rollback restores it."""
    check({"key": key})
    with opened(context, layer) as memory:
        memory.forget(key, mark(context, "memory.forget", {"key": key}))
    return Kept(key, layer)
