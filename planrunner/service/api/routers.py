"""The addresses of the API together, in the order in which they are looked for."""

from __future__ import annotations

from fastapi import APIRouter

from planrunner.service.api import (
    artifacts,
    editing,
    gates,
    memory,
    plan_files,
    projects,
    queue,
    runs,
    steering,
    streams,
    triggers,
)

ROUTERS: tuple[APIRouter, ...] = (
    projects.router,
    gates.router,
    runs.router,
    steering.router,
    streams.router,
    artifacts.router,
    memory.router,
    editing.router,
    plan_files.router,
    queue.router,
    triggers.router,
    triggers.hooks,
)
"""Those of a task or a gate, whose names may have slashes, come after the ones that they could hide."""
