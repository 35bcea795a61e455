"""A cluster through kubectl: its objects as data, and put back as they were before a task changed them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from planrunner.capabilities.clients import Request, answers, call, inside, word
from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.scope import require_let

Object = dict[str, Any]

MANAGER = "planrunner"
"""The name by which the cluster remembers what we have set."""

RESOURCE = r"[a-z][a-z0-9.-]*/[a-z0-9][a-z0-9.:-]*"
_NAMESPACE = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_CONTEXT = r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*"
_SETTINGS = ("KUBECONFIG", "XDG_CONFIG_HOME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
_LARGEST_MANIFEST = 4 << 20
_MANIFESTS = (".yaml", ".yml", ".json")
_OF_THE_SERVER = frozenset("resourceVersion generation managedFields creationTimestamp uid selfLink finalizers".split())
_OF_CONTROLLERS = ("deployment.kubernetes.io/revision",)


class Cluster(NamedTuple):
    """A namespace in a context of the kubeconfig; empty means the current one."""

    context: str
    namespace: str

    def request(self, *arguments: str, **options: Any) -> Request:
        chosen = ["kubectl"]
        if self.context:
            chosen += ["--context", word(self.context, "kube_context", _CONTEXT)]
        if self.namespace:
            chosen += ["--namespace", word(self.namespace, "namespace", _NAMESPACE)]
        return Request((*chosen, *arguments), _SETTINGS, **options)


def manifest_bytes(context: Context, given: Any, path: str) -> bytes:
    """What is to be applied, for the standard input of kubectl: text, objects, or files of the working directory.
    Raises Failure for nothing, for both, and for more than 4 MiB."""
    if (given is None) == (not path):
        raise Failure("give either `manifest` or `path`")
    if path:
        place = inside(context, path, "path", whole=False)
        parts = []
        files = [place]
        if os.path.isdir(place):
            names = sorted(name for name in os.listdir(place) if name.endswith(_MANIFESTS))
            files = [os.path.join(place, name) for name in names]
            if any(os.path.islink(file) for file in files):
                raise Failure(f"`path`: {path} holds links", rule="files.link")
            for name in names:
                require_let(context, os.path.join(path, name))
        for name in files:
            with open(name, "rb") as file:
                parts.append(file.read(_LARGEST_MANIFEST + 1))
        data = b"\n---\n".join(parts)
    elif isinstance(given, str):
        data = given.encode()
    else:
        objects = given if isinstance(given, list) else [given]
        if not objects or not all(isinstance(item, dict) and "kind" in item for item in objects):
            raise Failure("`manifest`: expected text, an object with a `kind`, or a list of them")
        data = as_list(objects)
    if not data.strip() or len(data) > _LARGEST_MANIFEST:
        raise Failure("the manifest is empty" if not data.strip() else "the manifest is larger than 4 MiB")
    return data


def as_list(objects: Iterable[Object]) -> bytes:
    """Objects as kubectl reads them from its standard input."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}).encode()


def objects_in(context: Context, request: Request) -> list[Object]:
    """The objects that kubectl prints, out of lists as well."""
    return list(_flat(answers(call(context, request))))


def _flat(values: Iterable[Any]) -> Iterator[Object]:
    for value in values:
        if (
            isinstance(value, dict)
            and isinstance(value.get("items"), list)
            and str(value.get("kind", "")).endswith("List")
        ):
            yield from _flat(value["items"])
        elif isinstance(value, dict) and "kind" in value:
            yield value


def live(context: Context, cluster: Cluster, stdin: bytes) -> list[Object]:
    """The objects that a manifest names, as the cluster has them; without those it does not have."""
    fixed = ("get", "--filename", "-", "--ignore-not-found", "--output", "json")
    return objects_in(context, cluster.request(*fixed, stdin=stdin))


def named(context: Context, cluster: Cluster, stdin: bytes) -> list[Object]:
    """The objects that a manifest names, by name alone; nothing is sent to be stored."""
    fixed = ("create", "--dry-run=client", "--validate=false", "--filename", "-", "--output", "json")
    names = [identity(item) for item in objects_in(context, cluster.request(*fixed, stdin=stdin))]
    if nameless := next((item for item in names if not item["metadata"]["name"]), None):
        raise Failure(f"the manifest has a {nameless['kind']} without a name, which nothing could find again")
    return names


def identity(item: Object) -> Object:
    """What finds an object again."""
    meta = item.get("metadata") or {}
    place = {"namespace": meta["namespace"]} if meta.get("namespace") else {}
    return {
        "apiVersion": item.get("apiVersion", ""),
        "kind": item["kind"],
        "metadata": {"name": meta.get("name", ""), **place},
    }


def is_secret(item: Object) -> bool:
    """Whether what an object holds must not be kept."""
    return bool(item["kind"] == "Secret")


def key(item: Object) -> str:
    """An object in a few words, different for different ones."""
    meta = item["metadata"]
    place = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{item['kind']} {place}{meta['name']} ({item['apiVersion']})"


def described(item: Object) -> Object:
    """An object as a task gives it out: which one, and which state of it."""
    meta = item.get("metadata") or {}
    return {
        "kind": item["kind"],
        "api_version": item.get("apiVersion", ""),
        "name": meta.get("name", ""),
        "namespace": meta.get("namespace", ""),
        "uid": meta.get("uid", ""),
        "generation": meta.get("generation", 0),
        "resource_version": meta.get("resourceVersion", ""),
        "digest": digest(item),
    }


def digest(item: Object) -> str:
    """The digest of what is wanted of an object."""
    return hashlib.sha256(json.dumps(wanted(item), sort_keys=True).encode()).hexdigest()


def wanted(item: Object) -> Object:
    """What is wanted of an object: without what the server and its controllers say about it."""
    kept = {name: value for name, value in item.items() if name != "status"}
    meta = {name: value for name, value in (item.get("metadata") or {}).items() if name not in _OF_THE_SERVER}
    notes = {name: text for name, text in (meta.pop("annotations", None) or {}).items() if name not in _OF_CONTROLLERS}
    return {**kept, "metadata": {**meta, **({"annotations": notes} if notes else {})}}


_SEAL = "planrunner.digest"
"""Where the digest of an object stands of which nothing else was kept."""


def noted(context: Context, cluster: Cluster, names: list[Object], objects: list[Object]) -> dict[str, Any]:
    """What an undo has to know: the names, and the objects as they were, in an artifact; of secrets only the digest, so
    that what they hold lies nowhere but in the cluster."""
    sealed = [{**identity(item), _SEAL: digest(item)} if is_secret(item) else item for item in objects]
    kept = json.dumps(sealed, sort_keys=True)
    record = context.keep(kept.encode(), "kubernetes-before.json", "application/json")
    return {"context": cluster.context, "namespace": cluster.namespace, "names": names, "before": record["sha256"]}


def restored(context: Context, before: dict[str, Any], ours: Callable[[Object], bool]) -> dict[str, Any]:
    """Put every object back, the last one first. ``ours`` says of one that is not as before whether this task made it
    so. Raises Failure, before anything is changed, where one of them has been changed since by others."""
    cluster = Cluster(before["context"], before["namespace"])
    with context.artifact(before["before"]) as file:
        was = {key(item): item for item in json.loads(file.read())}
    now = {key(item): item for item in live(context, cluster, as_list(before["names"]))} if before["names"] else {}
    steps = [(name, was.get(key(name)), now.get(key(name))) for name in reversed(before["names"])]
    steps = [step for step in steps if not _same(step[1], step[2])]
    if sealed := next((name for name, old, _ in steps if old is not None and _SEAL in old), None):
        raise Failure(f"{key(sealed)} was changed or deleted, and what secrets hold is not kept: restore it by hand")
    for name, old, held in steps:
        if held is not None and not ours(held):
            raise Failure(f"{key(name)} has been changed since by another task or person: restore it by hand")
        if old is not None and held is not None and old["metadata"].get("uid") != held["metadata"].get("uid"):
            raise Failure(f"{key(name)} was deleted and created again since: restore it by hand")
    for name, old, held in steps:
        if old is None:
            words, body = ("delete", "--ignore-not-found", "--wait=true"), name
        elif held is None:
            words, body = ("create", "--field-manager", MANAGER), wanted(old)
        else:  # with the version we have looked at: the server refuses a later version
            words, body = ("replace", "--field-manager", MANAGER), wanted(old)
            kept = {
                part: held["metadata"][part] for part in ("resourceVersion", "finalizers") if part in held["metadata"]
            }
            body["metadata"] = {**body["metadata"], **kept}
        call(context, cluster.request(*words, "--filename", "-", stdin=as_list([body])))
    return {"changed": [key(name) for name, _, _ in steps]}


def _same(old: Object | None, held: Object | None) -> bool:
    if old is None or held is None:
        return old is held
    return old[_SEAL] == digest(held) if _SEAL in old else wanted(old) == wanted(held)
