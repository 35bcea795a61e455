"""``kubectl.get``, ``kubectl.apply`` and ``kubectl.delete``: objects of a cluster."""

from __future__ import annotations

import json
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import Request, call, refused, word
from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.kubectl.cluster import (
    MANAGER,
    RESOURCE,
    Cluster,
    Object,
    as_list,
    described,
    digest,
    identity,
    is_secret,
    key,
    live,
    manifest_bytes,
    named,
    noted,
    objects_in,
    restored,
)

_KIND = r"[a-z][a-z0-9.,-]*"
_NAME = r"[a-z0-9][a-z0-9.:-]*"
_SELECTOR = r"[A-Za-z0-9!(][A-Za-z0-9_./=!,() -]*"
_LARGEST = 512 << 10


class Objects(NamedTuple):
    items: Annotated[list[dict[str, Any]], Doc("the objects; none where they are too large, `artifact` has them then")]
    total: Annotated[int, Doc("how many objects there are")]
    artifact: Annotated[dict[str, Any] | None, Doc("the objects as JSON, kept where they are more than 512 KiB")]


@capability(
    "kubectl.get",
    effect="read",
    risks=("network: talks to a cluster",),
    spends=("calls",),
    preconditions=("program kubectl",),
)
def get(
    context: Context,
    resource: Annotated[str, Doc("kind of the objects, such as pods or deployments.apps")],
    name: Annotated[str, Doc("one object; default: all of them")] = "",
    selector: Annotated[str, Doc("labels they have to have, such as app=web")] = "",
    namespace: Annotated[str, Doc("namespace; default: that of the context")] = "",
    kube_context: Annotated[str, Doc("context of the kubeconfig; default: the current one")] = "",
) -> Objects:
    """Read objects of a Kubernetes cluster. Finding none is not a failure. The values of secrets are left out."""
    fixed = ["get", "--ignore-not-found", "--output", "json"]
    if selector:
        if name:
            raise Failure("give either `name` or `selector`")
        fixed += ["--selector", word(selector, "selector", _SELECTOR)]
    chosen = [word(resource, "resource", _KIND), *([word(name, "name", _NAME)] if name else [])]
    asked = Cluster(kube_context, namespace).request(*fixed, "--", *chosen)
    items = [_without_secrets(item) for item in objects_in(context, asked)]
    text = json.dumps(items)
    if len(text) <= _LARGEST:
        return Objects(items, len(items), None)
    return Objects([], len(items), context.keep(text.encode(), f"{resource}.json", "application/json"))


def _without_secrets(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("kind") != "Secret":
        return item
    hidden: dict[str, Any] = {
        part: dict.fromkeys(item[part] or (), "(hidden)") for part in ("data", "stringData") if part in item
    }
    meta = dict(item.get("metadata") or {})
    notes = {name: text for name, text in (meta.pop("annotations", None) or {}).items() if "last-applied" not in name}
    return {**item, **hidden, "metadata": {**meta, **({"annotations": notes} if notes else {})}}


class Applied(NamedTuple):
    objects: Annotated[
        list[dict[str, Any]],
        Doc("what was applied: kind, api_version, name, namespace, uid, generation, resource_version, digest"),
    ]
    total: Annotated[int, Doc("how many objects there are")]


def _apply_request(cluster: Cluster, stdin: bytes, *flags: str) -> Request:
    fixed = ("apply", "--server-side", "--field-manager", MANAGER, *flags)
    return cluster.request(*fixed, "--filename", "-", "--output", "json", stdin=stdin)


def _flags(force: bool) -> list[str]:
    return ["--force-conflicts"] * force


def _preview_apply(
    context: Context, manifest: Any = None, path: str = "", namespace: str = "", kube_context: str = "",
    force: bool = False,
) -> Preview:  # fmt: skip
    """What the server would make of it, by ``kubectl diff``, which hides the values of secrets."""
    cluster, stdin = Cluster(kube_context, namespace), manifest_bytes(context, manifest, path)
    fixed = ("diff", "--server-side", "--field-manager", MANAGER, *_flags(force))
    asked = cluster.request(*fixed, "--filename", "-", stdin=stdin)
    ended = call(context, asked, fine=(0, 1))
    if ended.code and not ended.stdout:  # 1 is the code of a difference, and then there is one to see
        raise refused(asked, ended)
    said = "apply with changes" if ended.code else "apply without a change"
    return Preview(said, ended.text, (_apply_request(cluster, stdin, *_flags(force)).shown,))


def _capture_apply(
    context: Context, manifest: Any = None, path: str = "", namespace: str = "", kube_context: str = "",
    force: bool = False,
) -> dict[str, Any]:  # fmt: skip
    cluster, stdin = Cluster(kube_context, namespace), manifest_bytes(context, manifest, path)
    names = named(context, cluster, stdin)
    before = noted(context, cluster, names, live(context, cluster, stdin))
    if any(is_secret(item) for item in names):
        return {**before, "manifest": ""}
    return {**before, "manifest": context.keep(stdin, "kubernetes-manifest", "application/yaml")["sha256"]}


def _undo_apply(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    """Ours is what we left behind; where that was not seen, what applying the manifest again would leave as it is. A
    manifest with secrets is not kept, so that nothing is known to be ours then."""
    cluster = Cluster(before["context"], before["namespace"])
    if outputs is not None:
        left = {item["digest"] for item in outputs["objects"]}
        return restored(context, before, lambda held: digest(held) in left)
    ours: dict[str, Any] = {}

    def is_ours(held: dict[str, Any]) -> bool:
        if not before["manifest"]:
            raise Failure(f"the attempt was cut off, and a manifest with secrets is not kept: look at {key(held)}")
        if not ours:
            with context.artifact(before["manifest"]) as file:
                asked = _apply_request(cluster, file.read(), "--force-conflicts", "--dry-run=server")
            ours.update({key(item): digest(item) for item in objects_in(context, asked)})
        return bool(ours.get(key(held)) == digest(held))

    return restored(context, before, is_ours)


@capability(
    "kubectl.apply",
    effect="idempotent",
    risks=("network: talks to a cluster", "changes objects of a cluster"),
    spends=("calls",),
    preview=_preview_apply,
    capture=_capture_apply,
    undo=_undo_apply,
    preconditions=("program kubectl",),
)
def apply(
    context: Context,
    manifest: Annotated[
        Any, Doc("what to apply: YAML or JSON as text, an object, or a list of objects", use="manifest")
    ] = None,
    path: Annotated[str, Doc("or a file, or a folder of files, inside the working directory", form="file-read")] = "",
    namespace: Annotated[str, Doc("namespace of objects that name none; default: that of the context")] = "",
    kube_context: Annotated[str, Doc("context of the kubeconfig; default: the current one")] = "",
    force: Annotated[bool, Doc("take over fields that another manager has set")] = False,
) -> Applied:
    """Apply objects to a Kubernetes cluster with `kubectl apply --server-side`.

    Everything goes to kubectl on its standard input. An undo deletes the objects that are new and puts the others back
    as they were; it refuses where one of them has been changed since by others. What secrets hold is kept nowhere: one
    that was there before and has been changed cannot be put back, and neither is anything else of the task then, nor
    after an attempt that was cut off while it applied a manifest with secrets.
    """
    cluster, stdin = Cluster(kube_context, namespace), manifest_bytes(context, manifest, path)
    applied = [described(item) for item in objects_in(context, _apply_request(cluster, stdin, *_flags(force)))]
    return Applied(applied, len(applied))


_HOLDS_MORE = ("Namespace", "PersistentVolume", "PersistentVolumeClaim", "CustomResourceDefinition")


class Deleted(NamedTuple):
    objects: Annotated[list[dict[str, Any]], Doc("what was deleted: kind, api_version, name, namespace, uid")]
    total: Annotated[int, Doc("how many objects there were")]


class _Named(NamedTuple):
    resource: str
    manifest: Any
    path: str
    everything: bool


def _targets(context: Context, cluster: Cluster, what: _Named) -> list[Object]:
    """The objects to delete, as the cluster has them. Raises Failure for those that hold more than themselves."""
    if not what.resource:
        objects = live(context, cluster, manifest_bytes(context, what.manifest, what.path))
    elif what.manifest is not None or what.path:
        raise Failure("give one of `resource`, `manifest` and `path`")
    else:
        name = word(what.resource, "resource", RESOURCE)
        fixed = ("get", "--ignore-not-found", "--output", "json", "--", name)
        objects = objects_in(context, cluster.request(*fixed))
    for item in objects:
        if item["kind"] in _HOLDS_MORE and not what.everything:
            said = "holds what cannot be made again: say `everything: true` to delete it"
            raise Failure(f"{key(item)} {said}", rule="kubectl.everything")
    return objects


def _delete_request(cluster: Cluster, objects: list[Object]) -> Request:
    stdin = as_list(identity(item) for item in objects)
    return cluster.request("delete", "--filename", "-", "--ignore-not-found", "--wait=true", stdin=stdin)


def _preview_delete(
    context: Context, resource: str = "", manifest: Any = None, path: str = "", namespace: str = "",
    kube_context: str = "", everything: bool = False,
) -> Preview:  # fmt: skip
    cluster = Cluster(kube_context, namespace)
    objects = _targets(context, cluster, _Named(resource, manifest, path, everything))
    if not objects:
        return Preview("nothing of it is there: nothing to delete")
    gone = "".join(f"-{key(item)}\n" for item in objects)
    return Preview(
        f"delete {len(objects)} object{'s' * (len(objects) > 1)}", gone, (_delete_request(cluster, objects).shown,)
    )


def _capture_delete(
    context: Context, resource: str = "", manifest: Any = None, path: str = "", namespace: str = "",
    kube_context: str = "", everything: bool = False,
) -> dict[str, Any]:  # fmt: skip
    cluster = Cluster(kube_context, namespace)
    objects = _targets(context, cluster, _Named(resource, manifest, path, everything))
    held = [key(item) for item in objects if item["kind"] in _HOLDS_MORE]
    return {**noted(context, cluster, [identity(item) for item in objects], objects), "held": held}


def _undo_delete(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    if before["held"]:
        raise Failure(f"{before['held'][0]} held more than itself, which cannot be made again")
    return restored(context, before, lambda held: False)


@capability(
    "kubectl.delete",
    effect="idempotent",
    risks=("network: talks to a cluster", "deletes objects of a cluster"),
    spends=("calls",),
    preview=_preview_delete,
    capture=_capture_delete,
    undo=_undo_delete,
    preconditions=("program kubectl",),
)
def delete(
    context: Context,
    resource: Annotated[str, Doc("one object, such as deployment/web")] = "",
    manifest: Annotated[Any, Doc("or what a manifest names: text, an object, or a list of objects")] = None,
    path: Annotated[
        str, Doc("or what a file, or a folder of files, inside the working directory names", form="file-read")
    ] = "",
    namespace: Annotated[str, Doc("namespace of objects that name none; default: that of the context")] = "",
    kube_context: Annotated[str, Doc("context of the kubeconfig; default: the current one")] = "",
    everything: Annotated[bool, Doc("also namespaces, volumes and definitions, with all that is in them")] = False,
) -> Deleted:
    """Delete objects of a Kubernetes cluster and wait until they are gone. What is not there is fine.

    An undo makes them again as they were asked for; they are new objects then, with a state of their own. Namespaces,
    volumes and definitions of resources hold more than themselves: they are only deleted with `everything`, and no undo
    brings them back. Neither does one bring back secrets, since what they hold is kept nowhere, and what was deleted
    with one stays deleted.
    """
    cluster = Cluster(kube_context, namespace)
    objects = _targets(context, cluster, _Named(resource, manifest, path, everything))
    if objects:
        call(context, _delete_request(cluster, objects))
    return Deleted([described(item) for item in objects], len(objects))
