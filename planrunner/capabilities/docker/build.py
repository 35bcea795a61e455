"""``docker.build``: an image out of a folder of the project."""

from __future__ import annotations

import os
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import Request, call, inside, variables, word
from planrunner.capabilities.contract import Context, Failure, Preview
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.docker.engine import LABEL, Engine, engine_of, image, key_of, reference, request
from planrunner.capabilities.docker.images import name_before, put_back, remove_nameless, short

_ID = r"[A-Za-z0-9][A-Za-z0-9_.-]*"


class Built(NamedTuple):
    image: Annotated[str, Doc("id of the image")]
    tag: Annotated[str, Doc("its name")]
    previous: Annotated[str, Doc("id of the image that had the name before; empty where none had")]
    size: Annotated[int, Doc("bytes, as the engine counts them")]
    engine: Annotated[str, Doc("the engine that built it")]


def _build_request(context: Context, engine: str, tag: str, path: str, file: str, options: dict[str, Any]) -> Request:
    folder = inside(context, path, "path")
    arguments = ["build", "--tag", reference(tag, "tag"), "--label", f"{LABEL}={key_of(context)}"]
    if file:
        arguments += ["--file", inside(context, file, "file")]
    env = variables(options.get("build_args") or {}, "build_args")
    for name in sorted(env):
        arguments += ["--build-arg", name]
    secrets = variables(options.get("secrets") or {}, "secrets")
    for name in sorted(secrets):
        arguments += ["--secret", f"id={name},env={name}"]
    for name in ("target", "platform"):
        if options.get(name):
            arguments += [f"--{name}", word(options[name], name, r"[A-Za-z0-9][A-Za-z0-9_./-]*")]
    if options.get("network"):
        arguments += ["--network", word(options["network"], "network", _ID)]
    arguments += ["--pull"] * bool(options.get("pull")) + ["--no-cache"] * bool(options.get("no_cache"))
    if set(env) & set(secrets):
        raise Failure("`build_args` and `secrets` share a name")
    return request(engine, *arguments, "--", folder, env={**env, **secrets}, loud=True)


def _preview_build(
    context: Context, tag: str, path: str = ".", file: str = "", engine: Engine = "", **options: Any
) -> Preview:
    client = engine_of(context, engine)
    asked = _build_request(context, client, tag, path, file, options)
    found = image(context, client, tag)
    replaced = f", in place of {short(found.id)}" if found else ""
    return Preview(f"build {tag} from {path} with {client}{replaced}", calls=(asked.shown,))


def _capture_build(context: Context, tag: str, engine: Engine = "", **_: Any) -> dict[str, Any]:
    return {**name_before(context, engine_of(context, engine), reference(tag, "tag")), "key": key_of(context)}


def _undo_build(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    """The name as before, and the image that was built gone."""
    made = image(context, before["engine"], before["name"])
    done = put_back(context, before, lambda found: found.key == before["key"])
    for digest in {(outputs or {}).get("image", ""), made.id if made else ""} - {"", before["id"]}:
        found = image(context, before["engine"], digest)
        if found is not None and found.key == before["key"]:
            remove_nameless(context, before["engine"], digest)
    return done


@capability(
    "docker.build",
    effect="idempotent",
    risks=("network: the engine fetches what the build asks for", "the commands of the build run on the engine"),
    preview=_preview_build,
    capture=_capture_build,
    undo=_undo_build,
    own=("*",),
    preconditions=("program docker|podman engine",),
)
def build(
    context: Context,
    tag: Annotated[str, Doc("name of the image, such as shop/web:1.4")],
    path: Annotated[
        str, Doc("folder that is sent to the engine, inside the working directory", form="file-read")
    ] = ".",
    file: Annotated[
        str, Doc("Dockerfile inside the working directory; default: the one in `path`", form="file-read")
    ] = "",
    build_args: Annotated[dict[str, Any] | None, Doc("values for ARG, by name")] = None,
    secrets: Annotated[dict[str, Any] | None, Doc("secrets for RUN --mount=type=secret, by id")] = None,
    target: Annotated[str, Doc("stage to build")] = "",
    platform: Annotated[str, Doc("such as linux/arm64")] = "",
    network: Annotated[str, Doc("network of the build: none, or one the engine has; default: its own")] = "",
    pull: Annotated[bool, Doc("fetch newer versions of the images it is built on")] = False,
    no_cache: Annotated[bool, Doc("build every layer anew")] = False,
    engine: Annotated[Engine, Doc("docker or podman; default: the first of them on the PATH")] = "",
) -> Built:
    """Build an image with the client of docker or podman.

    Values of `build_args` and `secrets` are handed over in the environment and never among the arguments. The image
    carries the label `planrunner.key`, by which an undo knows it: it gives the name back to the image that had it, and
    removes the one that was built.
    """
    client = engine_of(context, engine)
    options = {
        "build_args": build_args, "secrets": secrets, "target": target, "platform": platform, "network": network,
        "pull": pull, "no_cache": no_cache,
    }  # fmt: skip
    asked = _build_request(context, client, tag, path, file, options)
    if not file and not any(os.path.isfile(os.path.join(asked.arguments[-1], name)) for name in _FILES):
        raise Failure(f"there is neither a Dockerfile nor a Containerfile in {path}")
    previous = image(context, client, tag)
    call(context, asked)
    made = image(context, client, tag)
    if made is None or made.key != key_of(context):
        raise Failure(f"the build ended well, but `{tag}` is not what it has built")
    return Built(made.id, tag, previous.id if previous else "", made.size, client)


_FILES = ("Dockerfile", "Containerfile")
