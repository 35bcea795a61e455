"""The service as an ASGI application."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI
from fastapi.staticfiles import StaticFiles

from planrunner import __version__
from planrunner.service import health, metrics
from planrunner.service.api import routers as api
from planrunner.service.context import Project
from planrunner.service.following import Followers
from planrunner.service.pages import compare as compare_pages
from planrunner.service.pages import drafts, editor, entry, inbox, knowledge, lists, queue, run, start
from planrunner.service.pages import plans as plan_pages
from planrunner.service.plans import Drafts
from planrunner.service.problems import catch_problems
from planrunner.service.scopes import tell_scopes
from planrunner.service.stories import Stories

ROUTERS: tuple[APIRouter, ...] = (
    health.router,
    metrics.router,
    *api.ROUTERS,
    entry.router,
    lists.router,
    inbox.router,
    knowledge.router,
    queue.router,
    drafts.router,
    plan_pages.router,
    editor.router,
    run.router,
    start.router,
    compare_pages.router,
)
"""Of the API and of the pages, in the order in which addresses are looked for."""

API = "/api/v1"


def make_app(served: Sequence[Project]) -> FastAPI:
    """The application for these projects. It stands behind a ``Guard``, which says who asks."""
    app = FastAPI(
        title="planrunner",
        version=__version__,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=True,
    )
    app.state.followers = Followers()
    app.state.drafts = Drafts()
    app.state.stories = Stories()
    app.state.projects = {project.name: project for project in served}
    app.mount("/static", StaticFiles(packages=[("planrunner.views.page", "static")]))
    catch_problems(app)
    app.state.routes = [route for router in ROUTERS for route in router.routes]
    tell_scopes(ROUTERS)
    for router in ROUTERS:
        app.include_router(router)
    return app
