"""What is remembered, and what is known."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field

from planrunner.app.project import knowledge, memory
from planrunner.app.project.memory import Where
from planrunner.knowledge.claims import Status, found
from planrunner.knowledge.memory.entries import LayerName, Picked
from planrunner.knowledge.notes import FOLDER, Kind
from planrunner.service.api.answers import Body, Limit, Name, api_router, shaped
from planrunner.service.context import Admin, HereProject, HereVisitor, Project, Visitor
from planrunner.service.problems import Problem
from planrunner.views.documents import document_of, listing

Json = Any

router = api_router("memory and knowledge")

Layer = Annotated[LayerName, Query(description="The layer of memory.")]
Run = Annotated[str, Query(max_length=100, description="The run, for the layer `task`.")]
Lessons = Annotated[bool, Query(description="Lessons instead of entries.")]
Tags = Annotated[list[str], Query(max_length=20)]


def _where(visitor: Visitor, project: Project, layer: LayerName, run: str = "", lessons: bool = False) -> Where:
    """The memory that is meant. Raises Problem 403 for that of all projects, where the token is for some of them."""
    if layer == "global" and visitor.projects is not None:
        raise Problem(403, "the memory of all projects is not shown to a token for some of them")
    return Where(layer, run, lessons, project.state)


class Remembered(Body):
    """A value to remember. ``trusted``: plans may use it as trusted text."""

    value: Json
    tags: list[str] = Field(default=[], max_length=50)
    trusted: bool = False


@router.get("/memory", responses=shaped("Entries, the latest change first or the best match first.", "entries"))
def entries(
    visitor: HereVisitor,
    project: HereProject,
    keys: Annotated[str, Query(max_length=2000, description="These keys alone, with commas between them.")] = "",
    query: Annotated[str, Query(max_length=500, description="What to search for.")] = "",
    by: Literal["both", "text", "vector"] = "both",
    prefix: Annotated[str, Query(max_length=500)] = "",
    tag: Tags = [],  # noqa: B006  # FastAPI copies defaults
    layer: Layer = "project",
    run: Run = "",
    lessons: Lessons = False,
    limit: Limit = 50,
) -> Json:
    """List what is remembered, search for it, or read some keys."""
    where, picked = _where(visitor, project, layer, run, lessons), Picked(prefix, tuple(tag))
    with memory.opened(where) as opened:
        if keys:
            known = [opened.get(key) for key in keys.split(",")[:100]]
            data = [entry.as_json() for entry in known if entry is not None]
            total = len(data)
        elif query:
            hits = opened.search(query, by, limit, picked)
            data, total = [{**hit.entry.as_json(), "score": round(hit.score, 4)} for hit in hits], len(hits)
        else:
            page, total = opened.page(picked, limit)
            data = [entry.as_json() for entry in page]
    return listing("entries", data, layer=layer, total=total)


@router.get("/memory/{key:path}", responses=shaped("The entry.", "key", "value"))
def entry(
    visitor: HereVisitor,
    project: HereProject,
    key: Name,
    layer: Layer = "project",
    run: Run = "",
    lessons: Lessons = False,
) -> Json:
    """Show an entry and its source."""
    with memory.opened(_where(visitor, project, layer, run, lessons)) as opened:
        return document_of(memory.got(opened, key).as_json())


@router.put("/memory/{key:path}", responses=shaped("The entry.", "key", "value"))
def put(body: Remembered, visitor: Admin, project: HereProject, key: Name, layer: Layer = "project") -> Json:
    """Keep a value under a key. A token's holder vouches for it as a person where it is `trusted`."""
    with memory.opened(_where(visitor, project, layer), writes=True) as opened:
        return document_of(memory.put(opened, key, body.value, body.tags, body.trusted).as_json())


@router.delete("/memory/{key:path}", responses=shaped("The key.", "key"))
def forget(visitor: Admin, project: HereProject, key: Name, layer: Layer = "project") -> Json:
    """Forget an entry."""
    with memory.opened(_where(visitor, project, layer), writes=True) as opened:
        memory.forget(opened, key)
    return document_of({"key": key, "layer": layer})


@router.get("/knowledge", responses=shaped("Notes and claims.", "notes", "total"))
def notes(
    query: Annotated[str, Query(max_length=500)] = "",
    kind: Kind | None = None,
    status: Status | None = None,
    tag: Tags = [],  # noqa: B006  # FastAPI copies defaults
    skip: Annotated[int, Query(ge=0, lt=1 << 31)] = 0,
    limit: Limit = 100,
) -> Json:
    """List notes and claims of the knowledge base; with `query` the matches, the best first."""
    every = found(knowledge.all_notes(FOLDER), query, kind or "", status, [*tag])
    return listing("notes", every[skip : skip + limit], total=len(every))


@router.get("/knowledge/{id}", responses=shaped("The note.", "id", "title"))
def note(id: Name) -> Json:
    """Show a note, or a claim with the evidence for and against it."""
    return document_of(knowledge.one(FOLDER, id))
