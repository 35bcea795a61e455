"""The service as an ASGI application."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles

from planrunner import __version__
from planrunner.caller import principal
from planrunner.service.context import Project, Visitor

POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
    "script-src 'self'; style-src 'self'; img-src 'self'"
)

ROUTERS: tuple[APIRouter, ...] = ()
"""Of the API and of the pages, in the order in which addresses are looked for."""


def make_app(projects: Sequence[Project]) -> FastAPI:
    """The application for these projects."""
    app = FastAPI(title="planrunner", version=__version__, docs_url=None, redoc_url=None)
    app.state.projects = {project.name: project for project in projects}
    app.state.visitor = Visitor(principal(), frozenset({"read", "run", "decide", "admin"}))
    app.mount("/static", StaticFiles(packages=[("planrunner.views.page", "static")]))
    app.middleware("http")(_guarded)
    for router in ROUTERS:
        app.include_router(router)
    return app


async def _guarded(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await go_on(request)
    response.headers.setdefault("Content-Security-Policy", POLICY)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    return response


def project_at(root: str, name: str = "") -> Project:
    """The project in a directory, named after it."""
    place = os.path.abspath(root)
    return Project(name or os.path.basename(place), place, os.path.join(place, ".planrunner"))
