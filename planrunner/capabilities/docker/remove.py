"""``docker.image_remove``: take an image away, kept so that it can come back."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import Request, call
from planrunner.capabilities.contract import Context, Failure, Preview
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.docker.engine import Engine, Image, engine_of, image, reference, request
from planrunner.capabilities.docker.images import short


class Removed(NamedTuple):
    removed: Annotated[bool, Doc("false where there was no such image")]
    image: Annotated[str, Doc("id of the image; empty where there was none")]
    engine: Annotated[str, Doc("the engine that was asked")]


def _remove_request(engine: str, name: str, force: bool) -> Request:
    return request(engine, "image", "rm", *["--force"] * force, "--", reference(name, "image"))


def _preview_remove(context: Context, image: str, force: bool = False, engine: Engine = "", **_: Any) -> Preview:
    client = engine_of(context, engine)
    asked = _remove_request(client, image, force)
    found = _found(context, client, image)
    if found is None:
        return Preview(f"{client} has no image {image}: nothing to remove")
    return Preview(f"remove {image} ({short(found.id)}) from {client}", calls=(asked.shown,))


def _found(context: Context, engine: str, name: str) -> Image | None:
    return image(context, engine, name)


def _capture_remove(context: Context, image: str, backup: bool = True, engine: Engine = "", **_: Any) -> dict[str, Any]:
    client, name = engine_of(context, engine), reference(image, "image")
    found = _found(context, client, name)
    before: dict[str, Any] = {"engine": client, "name": name, "id": found.id if found else "", "tags": []}
    if found is None:
        return before
    before["tags"] = list(found.tags)
    if backup and not _only_a_name(found, name):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "image.tar")
            call(context, request(client, "image", "save", "--output", path, "--", name))
            before["artifact"] = context.keep_file(path, f"image-{short(found.id)}.tar", "application/x-tar")
    return before


def _only_a_name(found: Image, name: str) -> bool:
    """Whether the image stays under another name when this one is taken from it."""
    return name in found.tags and len(found.tags) > 1


def _undo_remove(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    engine, name, was = before["engine"], before["name"], before["id"]
    if not was:
        return {"changed": False}
    found = _found(context, engine, name)
    if found is not None and found.id != was:
        raise Failure(f"`{name}` stands for another image since, {short(found.id)}")
    changed = found is None
    if _found(context, engine, was) is None:
        _load(context, engine, before)
        changed = True
    for tag in before["tags"]:
        held = _found(context, engine, tag)
        if held is None:
            call(context, request(engine, "image", "tag", "--", was, reference(tag, "tag")))
            changed = True
    return {"changed": changed}


def _load(context: Context, engine: str, before: dict[str, Any]) -> None:
    if "artifact" not in before:
        raise Failure(f"`{before['name']}` was removed without a backup: build or pull it again")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "image.tar")
        with context.artifact(before["artifact"]["sha256"]) as kept, open(path, "xb") as file:
            shutil.copyfileobj(kept, file)
        call(context, request(engine, "image", "load", "--input", path))
    if _found(context, engine, before["id"]) is None:
        raise Failure(f"the backup was loaded, but {engine} has no image {short(before['id'])} now")


@capability(
    "docker.image_remove",
    effect="idempotent",
    risks=("removes an image",),
    preview=_preview_remove,
    capture=_capture_remove,
    undo=_undo_remove,
    preconditions=("program docker|podman engine",),
)
def image_remove(
    context: Context,
    image: Annotated[str, Doc("the image, by name or id")],
    force: Annotated[bool, Doc("also where containers or other names refer to it")] = False,
    backup: Annotated[bool, Doc("keep the image as an artifact, so that the removal can be undone")] = True,
    engine: Annotated[Engine, Doc("docker or podman; default: the first of them on the PATH")] = "",
) -> Removed:
    """Remove an image. One that is not there is fine.

    With `backup` the image is saved before, and an undo loads it and gives it all its names again; where another name
    of the image stays, nothing needs to be saved.
    """
    client = engine_of(context, engine)
    asked = _remove_request(client, image, force)
    found = _found(context, client, image)
    if found is None:
        return Removed(False, "", client)
    call(context, asked)
    return Removed(True, found.id, client)
