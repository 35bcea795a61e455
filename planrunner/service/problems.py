"""What goes wrong, as answers: problem documents (RFC 9457) for programs, pages for people."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.routing import Match, Route

from planrunner.errors import (
    Denied,
    Fenced,
    NextStep,
    NotFound,
    PlanInvalid,
    PlanrunnerError,
    RecordMismatch,
    RunHeld,
    SettingsInvalid,
    StorageFailed,
    Unready,
    UsageError,
)
from planrunner.views.findings import findings_data
from planrunner.views.page.render import Frame, rendered

Json = Any

API = "/api/"
"""How addresses of the API begin."""

STATUS: tuple[tuple[type[PlanrunnerError], int], ...] = (
    (NotFound, 404),
    (PlanInvalid, 422),
    (Unready, 422),
    (RunHeld, 409),
    (Fenced, 409),
    (RecordMismatch, 409),
    (Denied, 403),
    (StorageFailed, 503),
    (UsageError, 400),
)


class Problem(Exception):
    """An answer that is not what was asked for. ``detail`` is one sentence, ``hint`` the way out, ``more`` further
    members of the document, ``headers`` of the answer."""

    def __init__(
        self,
        status: int,
        detail: str,
        hint: str = "",
        more: Mapping[str, Json] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.more = more or {}
        self.headers = headers or {}


FAULT = Problem(500, "a fault of planrunner; the log of the service says more")
"""The answer where something fails that never should; what failed is logged."""


def problem_of(error: Problem | PlanrunnerError) -> Problem:
    """The answer for an error of a use case; a problem is one already."""
    if isinstance(error, Problem):
        return error
    status = next((number for kind, number in STATUS if isinstance(error, kind)), 500)
    more: dict[str, Json] = {"exit_code": error.exit_code}
    if error.way_out.steps:
        more["next"] = [{"command": step.command, "arguments": [*step.arguments]} for step in error.way_out.steps]
    if isinstance(error, PlanInvalid):
        more["findings"] = findings_data([(error.source, error.findings)])["findings"]
    return Problem(status, error.message, error.way_out.worded(NextStep.__str__), more)


def problem_document(problem: Problem) -> dict[str, Json]:
    """The members of a problem document; ``type`` is ``about:blank``, so ``title`` is that of the status."""
    said: dict[str, Json] = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
    }
    return {**said, **({"hint": problem.hint} if problem.hint else {}), **problem.more}


def answer(problem: Problem, path: str, accept: str) -> Response:
    """The answer: a page where a browser asks for one outside the API, else a problem document."""
    headers = dict(problem.headers)
    if not path.startswith(API) and "text/html" in accept:
        title = HTTPStatus(problem.status).phrase
        page = rendered("error.html", Frame(), title=title, status=problem.status, problem=problem)
        return HTMLResponse(page.encode("utf-8", "backslashreplace"), problem.status, headers)
    text = json.dumps(problem_document(problem), separators=(",", ":"))  # half a character is an escape there
    return Response(text, problem.status, headers, "application/problem+json")


def catch_problems(app: FastAPI) -> None:
    """Let every error of the application be answered here, and none with a traceback."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(PlanrunnerError, _use_case)
    app.add_exception_handler(HTTPException, _of_framework)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(Exception, lambda request, _: _answered(request, FAULT))


def _answered(request: Request, problem: Problem) -> Response:
    return answer(problem, request.url.path, request.headers.get("accept", ""))


def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return _answered(request, error)


def _use_case(request: Request, error: Exception) -> Response:
    assert isinstance(error, PlanrunnerError)
    problem = problem_of(error)
    visitor = request.scope.get("visitor")
    if isinstance(error, SettingsInvalid) and (visitor is None or "admin" not in visitor.scopes):
        problem = Problem(problem.status, problem.detail, "`planrunner config check` says why, on the machine itself")
    project = request.app.state.projects.get(request.path_params.get("project"))
    return _answered(request, problem if project is None else below(problem, f"{project.root}/"))


def below(problem: Problem, root: str) -> Problem:
    """The problem with the paths of the project as its addresses have them; clients do not learn where it lies."""

    def near(value: Json) -> Json:
        if isinstance(value, str):
            return value.replace(root, "")
        if isinstance(value, dict):
            return {key: near(each) for key, each in value.items()}
        return [near(each) for each in value] if isinstance(value, list) else value

    return Problem(problem.status, near(problem.detail), near(problem.hint), near(dict(problem.more)), problem.headers)


def _of_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = f"there is nothing at `{request.url.path}`" if error.status_code == 404 else str(error.detail)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(sorted(_methods(request)))
        detail = f"`{request.url.path}` takes {headers['Allow']}, not {request.method}"
    return _answered(request, Problem(error.status_code, detail, headers=headers))


_PARAMETER = re.compile(r"\{[^}]*\}")


def _methods(request: Request) -> set[str]:
    """The methods that an address takes: those of the routes that fit it with the most words. The framework names
    those of the first one alone."""
    routes: list[Route] = request.app.state.routes
    fitting = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    nearest = max((route.path for route in fitting), key=lambda path: len(_PARAMETER.sub("", path)), default="")
    return {method for route in fitting if route.path == nearest for method in route.methods or ()}


def require_own_address(request: Request) -> None:
    """Raises HTTPException 405 where the path of a file is the address of something else, which takes other methods."""
    if request.method not in _methods(request):
        raise HTTPException(405)


def _malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [{"where": [*each["loc"]], "message": each["msg"]} for each in error.errors()]
    first = found[0]
    where = ".".join(str(part) for part in first["where"][1:]) or str(first["where"][0])
    hint = _body_keys(request) if first["where"][:1] == ["body"] else ""
    return _answered(request, Problem(422, f"`{where}`: {first['message']}", hint, more={"errors": found}))


def _body_keys(request: Request) -> str:
    """The keys of the body that an address takes, in words; empty where it takes none."""
    field = getattr(request.scope.get("route"), "body_field", None)
    model = getattr(getattr(field, "field_info", None), "annotation", None)
    names = ", ".join(f"`{name}`" for name in getattr(model, "model_fields", ()))
    return f"the body takes {names}" if names else ""
