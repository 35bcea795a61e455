"""Images of an engine (docker, podman): built, named, pushed and removed; names go back to what they stood for."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from typing import Annotated, Any, Literal, NamedTuple

from planrunner.capabilities.clients import Request, answer, call, inside, refused, variables, word
from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability

Engine = Literal["", "docker", "podman"]
LABEL = "planrunner.key"
REFERENCE = r"[A-Za-z0-9][A-Za-z0-9._:/@-]*"
_SETTINGS = (
    "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "CONTAINER_HOST",
    "CONTAINERS_CONF", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME",
)  # fmt: skip


_UNKNOWN = ("no such image", "image not known", "no such object", "unable to find")
"""What the engines print where they have no such image, each in its own words."""


class Image(NamedTuple):
    """An image as the engine has it; ``key`` is the mark of the task that built it."""

    id: str
    tags: tuple[str, ...]
    key: str
    size: int


def engine_of(context: Context, chosen: str) -> str:
    """The client program: the one asked for, else the first of docker and podman on the PATH. Raises Failure where
    neither is found."""
    path = context.environment().get("PATH")
    for name in (chosen,) if chosen else ("docker", "podman"):
        if name not in ("docker", "podman"):
            raise Failure(f"`engine` is docker or podman, not {name!r}")
        if shutil.which(name, path=path):
            return name
    raise Failure(f"`{chosen}` is not on the PATH" if chosen else "neither `docker` nor `podman` is on the PATH")


def request(engine: str, *arguments: str, **options: Any) -> Request:
    return Request((engine, *arguments), _SETTINGS, **options)


def reference(value: object, name: str) -> str:
    """An image by name, tag, digest or id; raises Failure (policy)."""
    return word(value, name, REFERENCE)


def key_of(context: Context) -> str:
    """The mark that this task puts on what it makes: the same for all attempts until it is run again."""
    return hashlib.sha256((context.call.once or context.call.key).encode()).hexdigest()[:32]


def find_image(context: Context, engine: str, name: str) -> Image | None:
    """What the engine has under a name; None where it has nothing. Raises Failure where it does not answer."""
    asked = request(engine, "image", "inspect", "--", name)
    ended = call(context, asked, fine=(0, 1, 125))
    if ended.code:
        said = ended.stderr.decode("utf-8", "replace").lower()
        if any(sign in said for sign in _UNKNOWN):
            return None
        raise refused(asked, ended)
    document = answer(ended)
    if not isinstance(document, list) or not document or not isinstance(document[0], dict):
        raise Failure(f"`{engine} image inspect` did not describe {name}")
    data = document[0]
    labels = (data.get("Config") or {}).get("Labels") or data.get("Labels") or {}
    tags = tuple(str(tag) for tag in data.get("RepoTags") or ())
    return Image(str(data.get("Id", "")), tags, str(labels.get(LABEL, "")), int(data.get("Size") or 0))


def name_before(context: Context, engine: str, name: str) -> dict[str, Any]:
    """What a name stands for now, for an undo: the id, empty where nothing has the name."""
    current = find_image(context, engine, name)
    return {"engine": engine, "name": name, "id": current.id if current else ""}


def put_back(context: Context, before: dict[str, Any], ours: Any) -> dict[str, Any]:
    """Make a name stand for what it did. ``ours`` says of an image whether this task gave it the name; for any
    other one Failure is raised."""
    engine, name, was = before["engine"], before["name"], before["id"]
    current = find_image(context, engine, name)
    now = current.id if current else ""
    if now == was:
        return {"changed": False}
    if current is not None and not ours(current):
        raise Failure(f"`{name}` now names another image, {short(current.id)}, which this task did not make")
    if was:
        call(context, request(engine, "image", "tag", "--", was, name))
    elif current is not None:
        call(context, request(engine, "image", "rm", "--", name))
        remove_nameless(context, engine, current.id)
    return {"changed": True}


def remove_nameless(context: Context, engine: str, digest: str) -> None:
    """Remove an image that no name is left of. One that is gone is fine."""
    current = find_image(context, engine, digest)
    if current is not None and not current.tags:
        call(context, request(engine, "image", "rm", "--", digest))


def short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


_ID = r"[A-Za-z0-9][A-Za-z0-9_.-]*"


class Built(NamedTuple):
    image: Annotated[str, Doc("id of the image")]
    tag: Annotated[str, Doc("its name")]
    previous: Annotated[str, Doc("id of the image that had the name before; empty where none had")]
    size: Annotated[int, Doc("bytes, as the engine counts them", form="bytes")]
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
    current = find_image(context, client, tag)
    replaced = f", in place of {short(current.id)}" if current else ""
    return Preview(f"build {tag} from {path} with {client}{replaced}", calls=(asked.shown,))


def _capture_build(context: Context, tag: str, engine: Engine = "", **_: Any) -> dict[str, Any]:
    return {**name_before(context, engine_of(context, engine), reference(tag, "tag")), "key": key_of(context)}


def _undo_build(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    """The name as before, and the image that was built gone."""
    made = find_image(context, before["engine"], before["name"])
    change = put_back(context, before, lambda current: current.key == before["key"])
    for digest in {(outputs or {}).get("image", ""), made.id if made else ""} - {"", before["id"]}:
        current = find_image(context, before["engine"], digest)
        if current is not None and current.key == before["key"]:
            remove_nameless(context, before["engine"], digest)
    return change


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
    no_cache: Annotated[bool, Doc("build every layer without the cache")] = False,
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
    previous = find_image(context, client, tag)
    call(context, asked)
    made = find_image(context, client, tag)
    if made is None or made.key != key_of(context):
        raise Failure(f"the build succeeded, but `{tag}` names another image")
    return Built(made.id, tag, previous.id if previous else "", made.size, client)


_FILES = ("Dockerfile", "Containerfile")


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
    current = find_image(context, engine, reference(source, "source"))
    if current is None:
        raise Failure(f"{engine} has no image {source}")
    return current


def _preview_tag(context: Context, source: str, target: str, engine: Engine = "") -> Preview:
    client = engine_of(context, engine)
    asked = _tag_request(client, source, target)
    chosen, current = _source(context, client, source), find_image(context, client, target)
    taken = f", taken from {short(current.id)}" if current is not None and current.id != chosen.id else ""
    return Preview(f"name {source} ({short(chosen.id)}) {target} as well{taken}", calls=(asked.shown,))


def _capture_tag(context: Context, source: str, target: str, engine: Engine = "") -> dict[str, Any]:
    client = engine_of(context, engine)
    before = name_before(context, client, reference(target, "target"))
    return {**before, "source": _source(context, client, source).id}


def _undo_tag(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    held = find_image(context, before["engine"], before["name"])
    if held is not None and not before["id"] and held.id == before["source"] and len(held.tags) < 2:
        raise Failure(f"`{before['name']}` is the only name of {short(held.id)}: without it the image would be gone")
    return put_back(context, before, lambda current: current.id == before["source"])


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
    chosen, current = _source(context, client, source), find_image(context, client, target)
    if current is None or current.id != chosen.id:
        call(context, asked)
    return Tagged(chosen.id, target, current.id if current else "", client)


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
    match = _DIGEST.search(ended.stdout)
    return Pushed(image, match[1].decode() if match else "", client)


class Removed(NamedTuple):
    removed: Annotated[bool, Doc("false where the image did not exist")]
    image: Annotated[str, Doc("id of the image; empty where it did not exist")]
    engine: Annotated[str, Doc("the engine that was asked")]


def _remove_request(engine: str, name: str, force: bool) -> Request:
    return request(engine, "image", "rm", *["--force"] * force, "--", reference(name, "image"))


def _preview_remove(context: Context, image: str, force: bool = False, engine: Engine = "", **_: Any) -> Preview:
    client = engine_of(context, engine)
    asked = _remove_request(client, image, force)
    current = find_image(context, client, image)
    if current is None:
        return Preview(f"{client} has no image {image}: nothing to remove")
    return Preview(f"remove {image} ({short(current.id)}) from {client}", calls=(asked.shown,))


def _capture_remove(context: Context, image: str, backup: bool = True, engine: Engine = "", **_: Any) -> dict[str, Any]:
    client, name = engine_of(context, engine), reference(image, "image")
    current = find_image(context, client, name)
    before: dict[str, Any] = {"engine": client, "name": name, "id": current.id if current else "", "tags": []}
    if current is None:
        return before
    before["tags"] = list(current.tags)
    keeps_a_name = name in current.tags and len(current.tags) > 1
    if backup and not keeps_a_name:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "image.tar")
            call(context, request(client, "image", "save", "--output", path, "--", name))
            before["artifact"] = context.keep_file(path, f"image-{short(current.id)}.tar", "application/x-tar")
    return before


def _undo_remove(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    engine, name, was = before["engine"], before["name"], before["id"]
    if not was:
        return {"changed": False}
    current = find_image(context, engine, name)
    if current is not None and current.id != was:
        raise Failure(f"`{name}` now names another image, {short(current.id)}")
    changed = current is None
    if find_image(context, engine, was) is None:
        if "artifact" not in before:
            raise Failure(f"`{before['name']}` was removed without a backup: build or pull it again")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "image.tar")
            with context.artifact(before["artifact"]["sha256"]) as kept, open(path, "xb") as file:
                shutil.copyfileobj(kept, file)
            call(context, request(engine, "image", "load", "--input", path))
        if find_image(context, engine, before["id"]) is None:
            raise Failure(f"the backup was loaded, but {engine} has no image {short(before['id'])} now")
        changed = True
    for tag in before["tags"]:
        if find_image(context, engine, tag) is None:
            call(context, request(engine, "image", "tag", "--", was, reference(tag, "tag")))
            changed = True
    return {"changed": changed}


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
    current = find_image(context, client, image)
    if current is None:
        return Removed(False, "", client)
    call(context, asked)
    return Removed(True, current.id, client)
