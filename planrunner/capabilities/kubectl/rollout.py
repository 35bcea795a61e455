"""``kubectl.rollout_status`` and ``kubectl.rollout_undo``: wait for a rollout, and go back to an earlier one."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import Request, bounded, call, word
from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability, seconds
from planrunner.capabilities.kubectl.cluster import Cluster, Object, identity, noted, objects_in, restored

_RESOURCE = r"(deployment|daemonset|statefulset)(\.apps)?/[a-z0-9][a-z0-9.-]*"
_REVISION = "deployment.kubernetes.io/revision"


class Rollout(NamedTuple):
    complete: Annotated[bool, Doc("every replica is of the newest generation and available")]
    generation: Annotated[int, Doc("generation of what is wanted")]
    revision: Annotated[str, Doc("revision of a deployment; empty for other kinds")]
    replicas: Annotated[int, Doc("how many replicas are wanted")]
    updated: Annotated[int, Doc("how many are of the newest generation")]
    available: Annotated[int, Doc("how many are available")]
    message: Annotated[str, Doc("what kubectl said last")]


def _held(context: Context, cluster: Cluster, resource: str) -> Object:
    name = word(resource, "resource", _RESOURCE)
    fixed = ("get", "--ignore-not-found", "--output", "json", "--", name)
    objects = objects_in(context, cluster.request(*fixed))
    if not objects:
        raise Failure(f"{resource} does not exist in the cluster")
    return objects[0]


def _rollout(item: Object, message: str) -> Rollout:
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    daemons = item["kind"] == "DaemonSet"
    replicas = int(status.get("desiredNumberScheduled", 0) if daemons else spec.get("replicas", 1))
    updated = int(status.get("updatedNumberScheduled" if daemons else "updatedReplicas") or 0)
    ready = "numberAvailable" if daemons else "readyReplicas" if item["kind"] == "StatefulSet" else "availableReplicas"
    available, generation = int(status.get(ready) or 0), int(meta.get("generation", 0))
    seen = int(status.get("observedGeneration") or 0) >= generation
    complete = seen and updated >= replicas and available >= replicas
    revision = str((meta.get("annotations") or {}).get(_REVISION, ""))
    return Rollout(complete, generation, revision, replicas, updated, available, message)


@capability(
    "kubectl.rollout_status",
    effect="read",
    risks=("network: talks to a cluster",),
    spends=("calls",),
    preconditions=("program kubectl",),
)
def rollout_status(
    context: Context,
    resource: Annotated[str, Doc("a deployment, daemonset or statefulset, such as deployment/web")],
    timeout: Annotated[float | str, Doc("how long to wait for it", quantity="duration")] = "5m",
    namespace: Annotated[str, Doc("namespace; default: that of the context")] = "",
    kube_context: Annotated[str, Doc("context of the kubeconfig; default: the current one")] = "",
) -> Rollout:
    """Wait until a rollout is complete. One that is not when the time is over fails as `stalled`, with its numbers."""
    cluster = Cluster(kube_context, namespace)
    try:
        limit = seconds(timeout)
    except ValueError as error:
        raise Failure(f"`timeout`: {error}") from None
    name = word(resource, "resource", _RESOURCE)
    fixed = ("rollout", "status", "--watch=true", f"--timeout={limit:g}s", "--", name)
    ended = call(context, cluster.request(*fixed, loud=True), fine=(0, 1))
    said = bounded(ended.said, 1_000)
    rollout = _rollout(_held(context, cluster, resource), said)
    if ended.code:
        raise Failure(f"the rollout of {resource} is not complete: {said}", "stalled", rollout._asdict())
    return rollout


def _request(cluster: Cluster, resource: str, revision: int) -> Request:
    name = word(resource, "resource", _RESOURCE)
    return cluster.request("rollout", "undo", f"--to-revision={int(revision)}", "--", name)


def _preview(
    context: Context, resource: str, to_revision: int = 0, namespace: str = "", kube_context: str = ""
) -> Preview:
    cluster = Cluster(kube_context, namespace)
    rollout = _rollout(_held(context, cluster, resource), "")
    goal = f"revision {to_revision}" if to_revision else "the revision before"
    now = f" from revision {rollout.revision}" if rollout.revision else ""
    return Preview(f"roll {resource} back to {goal}{now}", calls=(_request(cluster, resource, to_revision).shown,))


def _capture(
    context: Context, resource: str, to_revision: int = 0, namespace: str = "", kube_context: str = ""
) -> dict[str, Any]:
    cluster = Cluster(kube_context, namespace)
    held = _held(context, cluster, resource)
    return {**noted(context, cluster, [identity(held)], [held]), "generation": held["metadata"].get("generation", 0)}


def _undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    """What is wanted of the object as before. kubectl leaves no name with a rollback: that it was ours shows in the
    generation, which every change of what is wanted counts up."""
    ours = outputs["generation"] if outputs else before["generation"] + 1
    return restored(context, before, lambda held: held["metadata"].get("generation", 0) == ours)


@capability(
    "kubectl.rollout_undo",
    risks=("network: talks to a cluster", "changes objects of a cluster"),
    spends=("calls",),
    preview=_preview,
    capture=_capture,
    undo=_undo,
    preconditions=("program kubectl",),
)
def rollout_undo(
    context: Context,
    resource: Annotated[str, Doc("a deployment, daemonset or statefulset, such as deployment/web")],
    to_revision: Annotated[int, Doc("the revision to go back to; 0: the one before")] = 0,
    namespace: Annotated[str, Doc("namespace; default: that of the context")] = "",
    kube_context: Annotated[str, Doc("context of the kubeconfig; default: the current one")] = "",
) -> Rollout:
    """Roll back to an earlier revision. It does not wait for the rollout; `kubectl.rollout_status` does.

    An undo restores the earlier specification, unless it has been changed since.
    """
    if to_revision < 0:
        raise Failure("`to_revision` is 0 or more")
    cluster = Cluster(kube_context, namespace)
    ended = call(context, _request(cluster, resource, to_revision))
    return _rollout(_held(context, cluster, resource), bounded(ended.said, 1_000))
