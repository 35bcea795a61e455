"""Artifacts and logs: listed, and handed out so that a browser shows none of them as a page of the service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from planrunner.app.history.artifacts import Wanted, found, listed, origin_object, shown, version_object
from planrunner.app.history.show import logs, look, read_log
from planrunner.errors import NotFound
from planrunner.journal.artifacts import Version
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.service.api.answers import Limit, Name, api_router, shaped
from planrunner.service.context import HereProject
from planrunner.views.documents import document_of, listing

Json = Any

router = api_router("artifacts")

PIECE = 256 << 10
SEALED = "default-src 'none'; sandbox; frame-ancestors 'none'"
"""The policy of content that tasks made: nothing in it runs, loads or belongs to the service."""

_BYTES: dict[int | str, dict[str, Json]] = {
    200: {
        "description": "The content, as an attachment.",
        "content": {
            "application/octet-stream": {"schema": {"type": "string", "contentMediaType": "application/octet-stream"}}
        },
    }
}
_TEXT: dict[int | str, dict[str, Json]] = {
    200: {"description": "The output.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/artifacts", responses=shaped("Versions, the newest first.", "artifacts", "total"))
def artifacts(
    project: HereProject,
    plan: Annotated[str, Query(max_length=200)] = "",
    task: Annotated[str, Query(max_length=500)] = "",
    name: Annotated[str, Query(max_length=500)] = "",
    type: Annotated[str, Query(max_length=200)] = "",
    run: Annotated[str, Query(max_length=100)] = "",
    skip: Annotated[int, Query(ge=0, lt=1 << 31)] = 0,
    limit: Limit = 100,
) -> Json:
    """List versions of artifacts, the newest first."""
    try:
        every = listed(Wanted(plan, task, name, type, run), project.state)
    except NotFound:
        if run:
            raise
        every = []  # nothing has run yet
    rows = map(version_object, every[skip : skip + limit])
    return listing("artifacts", rows, total=len(every))


@router.get("/artifacts/{ref:path}/content", response_class=Response, responses=_BYTES)
def content(project: HereProject, ref: Name) -> Response:
    """Download the content of a version: `plan/task/name`, with `@N` or `@RUN`, or a digest."""
    version, store = found(ref, project.state)
    return StreamingResponse(
        _pieces(version, store),
        media_type="application/octet-stream",
        headers={
            **attachment(version.name),
            "content-length": str(version.size),
            "etag": f'"{version.sha256}"',
        },
    )


@router.get("/artifacts/{ref:path}", responses=shaped("The version, and what it came from.", "ref", "sha256"))
def artifact(project: HereProject, ref: Name) -> Json:
    """Show a version of an artifact with its origin."""
    return document_of(origin_object(shown(ref, project.state)))


@router.get("/runs/{run}/log", response_class=Response, responses=_TEXT)
def log(
    project: HereProject,
    run: Name,
    task: Annotated[str, Query(min_length=1, max_length=500)],
    attempt: Annotated[int | None, Query(ge=1, lt=1 << 31)] = None,
    tail: Annotated[int | None, Query(ge=0, lt=1 << 31, description="Only the last lines of each.")] = None,
) -> Response:
    """Read what attempts of a task wrote, with secrets redacted."""
    every = logs(look(run, project.state), task, attempt)

    def text() -> Iterator[bytes]:
        for one in every:
            if len(every) > 1:
                yield f"==> {one.task}, attempt {one.attempt} <==\n".encode("utf-8", "replace")
            yield from read_log(one, tail=tail)

    headers = {"content-security-policy": SEALED}
    return StreamingResponse(text(), media_type="text/plain; charset=utf-8", headers=headers)


def attachment(name: str) -> dict[str, str]:
    """The headers of content that is saved and not shown."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name.rpartition("/")[2])[-100:] or "artifact"
    named = quote(name.rpartition("/")[2].encode("utf-8", "replace"), safe="")
    return {
        "content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{named}",
        "content-security-policy": SEALED,
        "x-content-type-options": "nosniff",
    }


def _pieces(version: Version, store: ArtifactStore) -> Iterator[bytes]:
    with store.open(version.sha256) as file:
        while data := file.read(PIECE):
            yield data
