"""Making objects of a cluster what they were before a task changed them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from planrunner.capabilities.clients import call
from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.kubectl.cluster import (
    MANAGER,
    Cluster,
    Object,
    as_list,
    digest,
    identity,
    is_secret,
    key,
    live,
    wanted,
)

_SEAL = "planrunner.digest"
"""Where the digest of an object stands of which nothing else was kept."""


def noted(context: Context, cluster: Cluster, names: list[Object], found: list[Object]) -> dict[str, Any]:
    """What an undo has to know: the names, and the objects as they were, in an artifact; of secrets only the digest, so
    that what they hold lies nowhere but in the cluster."""
    kept = json.dumps([_sealed(each) if is_secret(each) else each for each in found], sort_keys=True)
    record = context.keep(kept.encode(), "kubernetes-before.json", "application/json")
    return {"context": cluster.context, "namespace": cluster.namespace, "names": names, "before": record["sha256"]}


def restored(context: Context, before: dict[str, Any], ours: Callable[[Object], bool]) -> dict[str, Any]:
    """Put every object back, the last one first. ``ours`` says of one that is not as before whether this task made it
    so. Raises Failure, before anything is changed, where somebody else has changed one of them since."""
    cluster = Cluster(before["context"], before["namespace"])
    with context.artifact(before["before"]) as file:
        was = {key(found): found for found in json.loads(file.read())}
    now = {key(found): found for found in live(context, cluster, as_list(before["names"]))} if before["names"] else {}
    steps = [(name, was.get(key(name)), now.get(key(name))) for name in reversed(before["names"])]
    steps = [step for step in steps if not _same(step[1], step[2])]
    if sealed := next((name for name, old, _ in steps if old is not None and _SEAL in old), None):
        raise Failure(f"{key(sealed)} was changed or deleted, and what secrets hold is not kept: put it back by hand")
    for name, old, held in steps:
        if held is not None and not ours(held):
            raise Failure(f"{key(name)} was changed by somebody else since: put it back by hand")
        if old is not None and held is not None and old["metadata"].get("uid") != held["metadata"].get("uid"):
            raise Failure(f"{key(name)} was deleted and made anew since: put it back by hand")
    for name, old, held in steps:
        _step(context, cluster, name, old, held)
    return {"changed": [key(name) for name, _, _ in steps]}


def _same(old: Object | None, held: Object | None) -> bool:
    if old is None or held is None:
        return old is held
    return old[_SEAL] == digest(held) if _SEAL in old else wanted(old) == wanted(held)


def _sealed(found: Object) -> Object:
    return {**identity(found), _SEAL: digest(found)}


def _step(context: Context, cluster: Cluster, name: Object, old: Object | None, held: Object | None) -> None:
    if old is None:
        call(
            context,
            cluster.request("delete", "--filename", "-", "--ignore-not-found", "--wait=true", stdin=as_list([name])),
        )
    elif held is None:
        make_again(context, cluster, old)
    else:  # with the version we have looked at: the server refuses when somebody was quicker
        body = wanted(old)
        kept = {name: held["metadata"][name] for name in ("resourceVersion", "finalizers") if name in held["metadata"]}
        body["metadata"] = {**body["metadata"], **kept}
        call(context, cluster.request("replace", "--field-manager", MANAGER, "--filename", "-", stdin=as_list([body])))


def make_again(context: Context, cluster: Cluster, old: Object) -> None:
    call(
        context, cluster.request("create", "--field-manager", MANAGER, "--filename", "-", stdin=as_list([wanted(old)]))
    )
