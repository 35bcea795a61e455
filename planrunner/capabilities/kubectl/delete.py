"""``kubectl.delete``: objects go, and can be made again."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import Request, call, word
from planrunner.capabilities.contract import Context, Failure, Preview
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.kubectl.cluster import (
    RESOURCE,
    Cluster,
    Object,
    as_list,
    described,
    identity,
    key,
    live,
    manifest,
    objects_in,
)
from planrunner.capabilities.kubectl.restore import noted, restored

_HOLDS_MORE = ("Namespace", "PersistentVolume", "PersistentVolumeClaim", "CustomResourceDefinition")


class Deleted(NamedTuple):
    objects: Annotated[list[dict[str, Any]], Doc("what was deleted: kind, api_version, name, namespace, uid")]
    total: Annotated[int, Doc("how many objects there were")]


class _What(NamedTuple):
    manifest: Any
    path: str
    resource: str


def _found(context: Context, cluster: Cluster, what: _What) -> list[Object]:
    """What is there of what is to be deleted."""
    if not what.resource:
        return live(context, cluster, manifest(context, what.manifest, what.path))
    if what.manifest is not None or what.path:
        raise Failure("give one of `resource`, `manifest` and `path`")
    name = word(what.resource, "resource", RESOURCE)
    fixed = ("get", "--ignore-not-found", "--output", "json", "--", name)
    return objects_in(context, cluster.request(*fixed))


def _checked(found: list[Object], everything: bool) -> list[Object]:
    for each in found:
        if each["kind"] in _HOLDS_MORE and not everything:
            said = "holds what cannot be made again: say `everything: true` to delete it"
            raise Failure(f"{key(each)} {said}", "policy", rule="kubectl.everything")
    return found


def _delete_request(cluster: Cluster, found: list[Object]) -> Request:
    stdin = as_list(identity(each) for each in found)
    return cluster.request("delete", "--filename", "-", "--ignore-not-found", "--wait=true", stdin=stdin)


def _preview_delete(
    context: Context, resource: str = "", manifest: Any = None, path: str = "", namespace: str = "",
    kube_context: str = "", everything: bool = False,
) -> Preview:  # fmt: skip
    cluster = Cluster(kube_context, namespace)
    found = _checked(_found(context, cluster, _What(manifest, path, resource)), everything)
    if not found:
        return Preview("nothing of it is there: nothing to delete")
    gone = "".join(f"-{key(each)}\n" for each in found)
    return Preview(
        f"delete {len(found)} object{'s' * (len(found) > 1)}", gone, (_delete_request(cluster, found).shown,)
    )


def _capture_delete(
    context: Context, resource: str = "", manifest: Any = None, path: str = "", namespace: str = "",
    kube_context: str = "", everything: bool = False,
) -> dict[str, Any]:  # fmt: skip
    cluster = Cluster(kube_context, namespace)
    found = _checked(_found(context, cluster, _What(manifest, path, resource)), everything)
    held = [key(each) for each in found if each["kind"] in _HOLDS_MORE]
    return {**noted(context, cluster, [identity(each) for each in found], found), "held": held}


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
    found = _checked(_found(context, cluster, _What(manifest, path, resource)), everything)
    if found:
        call(context, _delete_request(cluster, found))
    return Deleted([described(each) for each in found], len(found))
