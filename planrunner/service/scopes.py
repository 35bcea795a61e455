"""Which scope each address asks for, told in the OpenAPI document as ``x-scope``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from planrunner.safety.tokens import SCOPES, Scope
from planrunner.service.context import Needs, the_visitor


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
