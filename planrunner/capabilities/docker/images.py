"""Putting names of images back to what they stood for."""

from __future__ import annotations

from typing import Any

from planrunner.capabilities.clients import call
from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.docker.engine import Image, image, request


def name_before(context: Context, engine: str, name: str) -> dict[str, Any]:
    """What a name stands for now, for an undo: the id, empty where nothing has the name."""
    found = image(context, engine, name)
    return {"engine": engine, "name": name, "id": found.id if found else ""}


def put_back(context: Context, before: dict[str, Any], ours: Any) -> dict[str, Any]:
    """Make a name stand for what it did. ``ours`` says of an image whether this task gave it the name; any other one
    is somebody else's, and then Failure is raised."""
    engine, name, was = before["engine"], before["name"], before["id"]
    found = image(context, engine, name)
    now = found.id if found else ""
    if now == was:
        return {"changed": False}
    if found is not None and not ours(found):
        raise Failure(f"`{name}` stands for another image since, {short(found.id)}, which this task did not make")
    if was:
        call(context, request(engine, "image", "tag", "--", was, name))
    elif found is not None:
        unname(context, engine, name, found)
    return {"changed": True}


def unname(context: Context, engine: str, name: str, found: Image) -> None:
    """Take a name away; the image goes with its last name."""
    call(context, request(engine, "image", "rm", "--", name))
    remove_nameless(context, engine, found.id)


def remove_nameless(context: Context, engine: str, digest: str) -> None:
    """Remove an image that no name is left of. One that is gone is fine."""
    found = image(context, engine, digest)
    if found is not None and not found.tags:
        call(context, request(engine, "image", "rm", "--", digest))


def short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
