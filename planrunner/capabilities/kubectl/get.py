"""``kubectl.get``: objects of a cluster as data."""

from __future__ import annotations

import json
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import word
from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.kubectl.cluster import Cluster, objects_in

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
    """Read objects of a Kubernetes cluster. Nothing found is no failure. The values of secrets are left out."""
    fixed = ["get", "--ignore-not-found", "--output", "json"]
    if selector:
        if name:
            raise Failure("give either `name` or `selector`")
        fixed += ["--selector", word(selector, "selector", _SELECTOR)]
    chosen = [word(resource, "resource", _KIND), *([word(name, "name", _NAME)] if name else [])]
    found = [
        _without_secrets(each)
        for each in objects_in(context, Cluster(kube_context, namespace).request(*fixed, "--", *chosen))
    ]
    text = json.dumps(found)
    if len(text) <= _LARGEST:
        return Objects(found, len(found), None)
    return Objects([], len(found), context.keep(text.encode(), f"{resource}.json", "application/json"))


def _without_secrets(found: dict[str, Any]) -> dict[str, Any]:
    if found.get("kind") != "Secret":
        return found
    hidden: dict[str, Any] = {
        part: dict.fromkeys(found[part] or (), "(hidden)") for part in ("data", "stringData") if part in found
    }
    meta = dict(found.get("metadata") or {})
    notes = {name: text for name, text in (meta.pop("annotations", None) or {}).items() if "last-applied" not in name}
    return {**found, **hidden, "metadata": {**meta, **({"annotations": notes} if notes else {})}}
