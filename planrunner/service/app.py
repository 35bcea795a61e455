"""The service as an ASGI application."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles

from planrunner import __version__
from planrunner.safety.tokens import SCOPES, Scope
from planrunner.service import monitoring
from planrunner.service.api import routers as api
from planrunner.service.context import Needs, Project, the_visitor
from planrunner.service.following import Followers
from planrunner.service.histories import Histories
from planrunner.service.pages import compare as compare_pages
from planrunner.service.pages import drafts, editor, entry, inbox, knowledge, lists, queue, run, start
from planrunner.service.pages import plans as plan_pages
from planrunner.service.plans import Drafts
from planrunner.service.problems import catch_problems

ROUTERS: tuple[APIRouter, ...] = (
    monitoring.router,
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
    app.state.histories = Histories()
    app.state.projects = {project.name: project for project in served}
    app.mount("/static", StaticFiles(packages=[("planrunner.views.page", "static")]))
    catch_problems(app)
    app.state.routes = [route for router in ROUTERS for route in router.routes]
    tell_scopes(ROUTERS)
    for router in ROUTERS:
        app.include_router(router)
    return app


# Which scope each address asks for, told in the OpenAPI document as ``x-scope``


def scope_of(route: APIRoute) -> Scope | None:
    """The scope without which an address gives nothing; None where it is open to all."""
    asked = set(_asked(route.dependant))
    return max(asked, key=SCOPES.index) if asked else None


def addresses(routers: Iterable[APIRouter]) -> Iterator[APIRoute]:
    """Every address of some routers."""
    for router in routers:
        yield from (route for route in router.routes if isinstance(route, APIRoute))


def tell_scopes(routers: Iterable[APIRouter]) -> None:
    """Have the OpenAPI document tell the scope of each address."""
    for route in addresses(routers):
        route.openapi_extra = {**(route.openapi_extra or {}), "x-scope": scope_of(route)}


def _asked(dependant: Dependant) -> Iterator[Scope]:
    if isinstance(dependant.call, Needs):
        yield dependant.call.scope
    elif dependant.call is the_visitor:
        yield "read"
    for inner in dependant.dependencies:
        yield from _asked(inner)
