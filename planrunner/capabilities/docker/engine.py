"""Which engine is meant, and what it knows about images."""

from __future__ import annotations

import hashlib
import shutil
from typing import Any, Literal, NamedTuple

from planrunner.capabilities.clients import Request, answer, call, refused, word
from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.programs import Ended

Engine = Literal["", "docker", "podman"]
LABEL = "planrunner.key"
REFERENCE = r"[A-Za-z0-9][A-Za-z0-9._:/@-]*"
_SETTINGS = (
    "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "CONTAINER_HOST",
    "CONTAINERS_CONF", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME",
)  # fmt: skip


class Image(NamedTuple):
    """An image as the engine has it; ``key`` is the mark of the task that built it."""

    id: str
    tags: tuple[str, ...]
    key: str
    size: int


def engine_of(context: Context, chosen: str) -> str:
    """The client program: the one asked for, else the first of docker and podman on the PATH. Raises Failure where
    there is none."""
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


def image(context: Context, engine: str, name: str) -> Image | None:
    """What the engine has under a name; None where it has nothing. Raises Failure where it does not answer."""
    asked = request(engine, "image", "inspect", "--", name)
    ended = call(context, asked, fine=(0, 1, 125))
    if ended.code:
        if _unknown(ended):
            return None
        raise refused(asked, ended)
    found = answer(ended)
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        raise Failure(f"`{engine} image inspect` did not describe {name}")
    data = found[0]
    labels = (data.get("Config") or {}).get("Labels") or data.get("Labels") or {}
    tags = tuple(str(tag) for tag in data.get("RepoTags") or ())
    return Image(str(data.get("Id", "")), tags, str(labels.get(LABEL, "")), int(data.get("Size") or 0))


def _unknown(ended: Ended) -> bool:
    """Both engines say this, each in its own words, where they have no such image."""
    said = ended.stderr.decode("utf-8", "replace").lower()
    return any(sign in said for sign in ("no such image", "image not known", "no such object", "unable to find"))
