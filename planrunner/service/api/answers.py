"""Answers of the API: JSON as the views give it, and how they are described in the OpenAPI document."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Path, Query, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from planrunner.jsontext import read_outside
from planrunner.service.context import HereProject, HereVisitor, behalf
from planrunner.views.documents import document_schema

Json = Any

PREFIX = "/api/v1/projects/{project}"
"""How the addresses of a project begin."""

_PROBLEM: dict[str, Json] = {
    "type": "object",
    "title": "Problem",
    "description": "A problem document of RFC 9457. `hint` is the way out, `exit_code` that of the command line for "
    "the same error, `next` has commands that help, `findings` are those of a plan, `errors` those of the request.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "exit_code": {"type": "integer"},
        "next": {"type": "array", "items": {"type": "object"}},
        "findings": {"type": "array", "items": {"type": "object"}},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}

_WHEN = {
    400: "The request cannot be done as it stands.",
    401: "No valid token came with it.",
    403: "The token or a policy does not allow it.",
    404: "There is no such thing, or it is not shown to this token.",
    409: "Something else was quicker, or acts on it.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "The body, a parameter or the plan is not valid.",
    429: "Too many requests; `Retry-After` says for how long.",
    503: "The journal cannot be used, or the service is stopping.",
}


def _problems() -> dict[int | str, dict[str, Json]]:
    content = {"application/problem+json": {"schema": _PROBLEM}}
    return {code: {"description": words, "content": content} for code, words in _WHEN.items()}


bearer = HTTPBearer(auto_error=False, description="A token of `planrunner token create`.")


class _Sent(Request):
    """A request whose body is read within the limits for texts that others sent."""

    async def json(self) -> Json:
        try:
            return read_outside((await self.body()).decode())
        except json.JSONDecodeError:
            raise
        except ValueError as error:
            raise HTTPException(400, f"the body is not JSON that can be used: {error}") from None


def _answering(endpoint: Callable[..., Json], status: int) -> Callable[..., Response]:
    """Has the function of an address, which gives a document, called for the visitor and in the project of a request.
    A function that does not say what scope it needs is for those who may read."""
    signature = inspect.signature(endpoint, eval_str=True)
    own = list(signature.parameters.values())
    here = {"visitor": HereVisitor, "project": HereProject}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
        for name, kind in here.items()
        if name not in signature.parameters
    ]

    @wraps(endpoint)
    def answer(**given: Any) -> Response:
        visitor, project = given["visitor"], given["project"]
        with behalf(visitor, project):
            document = endpoint(**{each.name: given[each.name] for each in own})
        return document if isinstance(document, Response) else Answer(document, status)

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
    made: Any = answer
    made.__signature__ = signature.replace(parameters=[*added, *parameters], return_annotation=Response)
    return answer


class _Route(APIRoute):
    """An address of the API."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        if "{project}" in path and not inspect.iscoroutinefunction(endpoint):
            endpoint = _answering(endpoint, more.get("status_code") or 200)
        super().__init__(path, endpoint, **more)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def received(request: Request) -> Response:
            return await answer(_Sent(request.scope, request.receive))

        return received


def api_router(tag: str, prefix: str = PREFIX) -> APIRouter:
    """A router of the API whose problems are described."""
    return APIRouter(
        prefix=prefix, tags=[tag], responses=_problems(), dependencies=[Depends(bearer)], route_class=_Route
    )


def shaped(description: str, *fields: str, status: int = 200) -> dict[int | str, dict[str, Json]]:
    """How an answer is described: an object that has ``fields`` at least."""
    content = {"application/json": {"schema": document_schema(*fields)}}
    return {status: {"description": description, "content": content}}


class Answer(Response):
    """A document as JSON. Bytes that are not UTF-8, as in the names of files, stand in it as escapes."""

    media_type = "application/json"

    def render(self, content: Json) -> bytes:
        return json.dumps(content, separators=(",", ":"), default=str).encode("ascii")


class Body(BaseModel):
    """A JSON body: nothing in it that is not described, and numbers are numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Empty(Body):
    """Nothing has to be said."""


class Why(Body):
    """A reason, which is kept with the run."""

    reason: str = Field(default="", max_length=20_000)


Name = Annotated[str, Path(min_length=1, max_length=500)]
"""A name in an address: of a run, a task, a gate, an artifact."""
Named = Annotated[str, Field(min_length=1, max_length=500)]
"""A name in a body: of a task."""
Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        description="A text of your choice: the same request with the same key is carried out once.",
    ),
]
"""What makes a request that starts a run one that is carried out once, whatever happens to the service."""
Moment = Annotated[
    float | None, Query(ge=0, le=253_402_300_799, description="Seconds since 1970, before the year 10000.")
]
"""A time in a query."""
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
