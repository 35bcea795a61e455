"""``kubectl.apply``: what a manifest says becomes so, on the side of the server."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import Request, call, refused
from planrunner.capabilities.contract import Context, Failure, Preview
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.kubectl.cluster import (
    MANAGER,
    Cluster,
    described,
    digest,
    is_secret,
    key,
    live,
    manifest,
    named,
    objects_in,
)
from planrunner.capabilities.kubectl.restore import noted, restored


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
    context: Context,
    manifest: Any = None,
    path: str = "",
    namespace: str = "",
    kube_context: str = "",
    force: bool = False,
) -> Preview:
    """What the server would make of it, by ``kubectl diff``, which hides the values of secrets."""
    cluster, stdin = Cluster(kube_context, namespace), _stdin(context, manifest, path)
    fixed = ("diff", "--server-side", "--field-manager", MANAGER, *_flags(force))
    asked = cluster.request(*fixed, "--filename", "-", stdin=stdin)
    ended = call(context, asked, fine=(0, 1))
    if ended.code and not ended.stdout:  # 1 is the code of a difference, and then there is one to see
        raise refused(asked, ended)
    said = "apply with changes" if ended.code else "apply without a change"
    return Preview(said, ended.text, (_apply_request(cluster, stdin, *_flags(force)).shown,))


def _capture_apply(
    context: Context,
    manifest: Any = None,
    path: str = "",
    namespace: str = "",
    kube_context: str = "",
    force: bool = False,
) -> dict[str, Any]:
    cluster, stdin = Cluster(kube_context, namespace), _stdin(context, manifest, path)
    names = named(context, cluster, stdin)
    before = noted(context, cluster, names, live(context, cluster, stdin))
    if any(is_secret(each) for each in names):
        return {**before, "manifest": ""}
    return {**before, "manifest": context.keep(stdin, "kubernetes-manifest", "application/yaml")["sha256"]}


def _undo_apply(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    """Ours is what we left behind; where nobody saw that, what applying the manifest again would leave as it is. A
    manifest with secrets is not kept, so that nothing is known to be ours then."""
    cluster = Cluster(before["context"], before["namespace"])
    if outputs is not None:
        left = {each["digest"] for each in outputs["objects"]}
        return restored(context, before, lambda held: digest(held) in left)
    ours: dict[str, Any] = {}

    def is_ours(held: dict[str, Any]) -> bool:
        if not before["manifest"]:
            raise Failure(f"the attempt was cut off, and a manifest with secrets is not kept: look at {key(held)}")
        if not ours:
            with context.artifact(before["manifest"]) as file:
                asked = _apply_request(cluster, file.read(), "--force-conflicts", "--dry-run=server")
            ours.update({key(each): digest(each) for each in objects_in(context, asked)})
        return bool(ours.get(key(held)) == digest(held))

    return restored(context, before, is_ours)


def _stdin(context: Context, given: Any, path: str) -> bytes:
    return manifest(context, given, path)


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
    force: Annotated[bool, Doc("take over fields that somebody else has set")] = False,
) -> Applied:
    """Apply objects to a Kubernetes cluster with `kubectl apply --server-side`.

    Everything goes to kubectl on its standard input. An undo deletes the objects that are new and puts the others back
    as they were; it refuses where somebody else has changed one of them since. What secrets hold is kept nowhere: one
    that was there before and has been changed cannot be put back, and neither is anything else of the task then, nor
    after an attempt that was cut off while it applied a manifest with secrets.
    """
    cluster, stdin = Cluster(kube_context, namespace), _stdin(context, manifest, path)
    found = [described(each) for each in objects_in(context, _apply_request(cluster, stdin, *_flags(force)))]
    return Applied(found, len(found))
