"""``docker.tag`` and ``docker.push``: another name for an image, and to its registry."""

from __future__ import annotations

import os
import re
import tempfile
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import Request, call
from planrunner.capabilities.contract import Context, Failure, Preview
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.docker.engine import Engine, Image, engine_of, image, reference, request
from planrunner.capabilities.docker.images import name_before, put_back, short

_DIGEST = re.compile(rb"digest: (sha256:[0-9a-f]{64})")


class Tagged(NamedTuple):
    image: Annotated[str, Doc("id of the image")]
    target: Annotated[str, Doc("its new name")]
    previous: Annotated[str, Doc("id of the image that had the name before; empty where none had")]
    engine: Annotated[str, Doc("the engine that was asked")]


class Pushed(NamedTuple):
    image: Annotated[str, Doc("the name that was pushed")]
    digest: Annotated[str, Doc("what the registry calls it; empty where the client did not say")]
    engine: Annotated[str, Doc("the engine that pushed it")]


def _tag_request(engine: str, source: str, target: str) -> Request:
    return request(engine, "image", "tag", "--", reference(source, "source"), reference(target, "target"))


def _source(context: Context, engine: str, source: str) -> Image:
    found = image(context, engine, reference(source, "source"))
    if found is None:
        raise Failure(f"{engine} has no image {source}")
    return found


def _preview_tag(context: Context, source: str, target: str, engine: Engine = "") -> Preview:
    client = engine_of(context, engine)
    asked = _tag_request(client, source, target)
    found, held = _source(context, client, source), image(context, client, target)
    taken = f", taken from {short(held.id)}" if held is not None and held.id != found.id else ""
    return Preview(f"name {source} ({short(found.id)}) {target} as well{taken}", calls=(asked.shown,))


def _capture_tag(context: Context, source: str, target: str, engine: Engine = "") -> dict[str, Any]:
    client = engine_of(context, engine)
    before = name_before(context, client, reference(target, "target"))
    return {**before, "source": _source(context, client, source).id}


def _undo_tag(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    held = image(context, before["engine"], before["name"])
    if held is not None and not before["id"] and held.id == before["source"] and len(held.tags) < 2:
        raise Failure(f"`{before['name']}` is the only name of {short(held.id)}: without it the image would be gone")
    return put_back(context, before, lambda found: found.id == before["source"])


@capability(
    "docker.tag",
    effect="idempotent",
    risks=("takes the name from the image that has it",),
    preview=_preview_tag,
    capture=_capture_tag,
    undo=_undo_tag,
    preconditions=("program docker|podman engine",),
)
def tag(
    context: Context,
    source: Annotated[str, Doc("the image, by name or id")],
    target: Annotated[str, Doc("the name it gets")],
    engine: Annotated[Engine, Doc("docker or podman; default: the first of them on the PATH")] = "",
) -> Tagged:
    """Give an image another name; a name that another image has goes over to this one."""
    client = engine_of(context, engine)
    asked = _tag_request(client, source, target)
    found, held = _source(context, client, source), image(context, client, target)
    if held is None or held.id != found.id:
        call(context, asked)
    return Tagged(found.id, target, held.id if held else "", client)


def _push_request(engine: str, name: str, digests: str = "") -> Request:
    noted = ("--digestfile", digests) if digests else ()
    return request(engine, "push", *noted, "--", reference(name, "image"), loud=True)


def _preview_push(context: Context, image: str, engine: Engine = "") -> Preview:
    client = engine_of(context, engine)
    return Preview(f"push {image} to its registry", calls=(_push_request(client, image).shown,))


@capability(
    "docker.push",
    effect="idempotent",
    risks=("network: sends the image to its registry, where others may take it",),
    spends=("calls",),
    preview=_preview_push,
    irreversible=True,
    preconditions=("program docker|podman engine",),
)
def push(
    context: Context,
    image: Annotated[
        str, Doc("the image by the name that says where it goes, such as registry.example/shop/web:1.4", use="image")
    ],
    engine: Annotated[Engine, Doc("docker or podman; default: the first of them on the PATH")] = "",
) -> Pushed:
    """Push an image to its registry, with the credentials that the client has. Nothing takes it back from there."""
    client = engine_of(context, engine)
    with tempfile.TemporaryDirectory() as folder:
        noted = os.path.join(folder, "digest") if client == "podman" else ""
        ended = call(context, _push_request(client, image, noted))
        if noted and os.path.exists(noted):
            with open(noted, encoding="ascii", errors="replace") as file:
                return Pushed(image, file.read(200).strip(), client)
    found = _DIGEST.search(ended.stdout)
    return Pushed(image, found[1].decode() if found else "", client)
