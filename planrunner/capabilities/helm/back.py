"""``helm.rollback`` and ``helm.uninstall``: back to an earlier revision, and away."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import Request, call
from planrunner.capabilities.contract import Context, Failure, Preview
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.helm.release import Release, latest, limit


class RolledBack(NamedTuple):
    release: Annotated[str, Doc("name of the release")]
    revision: Annotated[int, Doc("its newest revision, which is like the one it went back to")]
    previous: Annotated[int, Doc("the revision before the rollback")]
    status: Annotated[str, Doc("such as deployed")]


class Uninstalled(NamedTuple):
    release: Annotated[str, Doc("name of the release")]
    uninstalled: Annotated[bool, Doc("false where there was none")]
    revision: Annotated[int, Doc("the revision that was installed; 0 where there was none")]


def _noted(context: Context, where: Release) -> dict[str, Any]:
    now = latest(context, where)
    state = {"revision": now.number, "status": now.status} if now else {"revision": 0, "status": ""}
    return {"release": where.name, "namespace": where.namespace, "context": where.context, **state}


def _where(before: dict[str, Any]) -> Release:
    return Release(before["release"], before["namespace"], before["context"])


def _rollback_request(where: Release, revision: int, timeout: float | str, wait: bool) -> Request:
    goal = [str(int(revision))] if revision else []
    return where.request("rollback", "--timeout", limit(timeout), *["--wait"] * wait, "--", where.name, *goal)


def _preview_rollback(
    context: Context, release: str, revision: int = 0, namespace: str = "", kube_context: str = "",
    timeout: float | str = "5m", wait: bool = True,
) -> Preview:  # fmt: skip
    where = Release(release, namespace, kube_context)
    now = latest(context, where)
    if now is None:
        raise Failure(f"there is no release {release}")
    goal = f"revision {revision}" if revision else "the revision before"
    asked = _rollback_request(where, revision, timeout, wait)
    return Preview(f"roll {release} back from revision {now.number} to {goal}", calls=(asked.shown,))


def _capture_rollback(
    context: Context, release: str, revision: int = 0, namespace: str = "", kube_context: str = "", **_: Any
) -> dict[str, Any]:
    return _noted(context, Release(release, namespace, kube_context))


def _undo_rollback(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    """Forward again, to the revision before the rollback."""
    where = _where(before)
    now = latest(context, where)
    if now is None:
        raise Failure(f"there is no release {where.name} any more")
    if now.number == before["revision"] or now.description == f"Rollback to {before['revision']}":
        return {"changed": False}
    ours = outputs["revision"] if outputs else before["revision"] + 1
    if now.number != ours or not now.description.startswith("Rollback "):
        raise Failure(f"{where.name} has a revision {now.number} that this task did not make: {now.description}")
    call(context, where.request("rollback", "--wait", "--", where.name, str(before["revision"])))
    return {"changed": True}


@capability(
    "helm.rollback",
    risks=("network: talks to a cluster", "changes objects of a cluster"),
    spends=("calls",),
    preview=_preview_rollback,
    capture=_capture_rollback,
    undo=_undo_rollback,
    preconditions=("program helm",),
)
def rollback(
    context: Context,
    release: Annotated[str, Doc("name of the release")],
    revision: Annotated[int, Doc("the revision to go back to; 0: the one before")] = 0,
    namespace: Annotated[str, Doc("namespace; default: that of the context")] = "",
    kube_context: Annotated[str, Doc("context of the kubeconfig; default: the current one")] = "",
    timeout: Annotated[float | str, Doc("how long helm waits for each object", quantity="duration")] = "5m",
    wait: Annotated[bool, Doc("until everything is ready")] = True,
) -> RolledBack:
    """Roll a release back. An undo goes forward again, unless somebody else has made a revision since."""
    if revision < 0:
        raise Failure("`revision` is 0 or more")
    where = Release(release, namespace, kube_context)
    before = latest(context, where)
    if before is None:
        raise Failure(f"there is no release {release}")
    call(context, _rollback_request(where, revision, timeout, wait))
    now = latest(context, where) or before
    return RolledBack(release, now.number, before.number, now.status)


def _uninstall_request(where: Release, keep: bool, timeout: float | str) -> Request:
    kept = ["--keep-history"] * keep
    return where.request("uninstall", "--timeout", limit(timeout), "--wait", *kept, "--", where.name)


def _preview_uninstall(
    context: Context, release: str, namespace: str = "", kube_context: str = "", keep_history: bool = True,
    timeout: float | str = "5m",
) -> Preview:  # fmt: skip
    where = Release(release, namespace, kube_context)
    now = latest(context, where)
    if now is None or now.status == "uninstalled":
        return Preview(f"there is no release {release}: nothing to uninstall")
    asked = _uninstall_request(where, keep_history, timeout)
    return Preview(f"uninstall {release}, revision {now.number}", calls=(asked.shown,))


def _capture_uninstall(
    context: Context, release: str, namespace: str = "", kube_context: str = "", keep_history: bool = True, **_: Any
) -> dict[str, Any]:
    return {**_noted(context, Release(release, namespace, kube_context)), "kept": keep_history}


def _undo_uninstall(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    """The revision that was installed, again."""
    where = _where(before)
    now = latest(context, where)
    if before["revision"] == 0 or before["status"] == "uninstalled":
        return {"changed": False}
    if now is None:
        why = "" if before["kept"] else ", which was not asked for"
        raise Failure(f"{where.name} was uninstalled without its history{why}: install it again")
    if now.description == f"Rollback to {before['revision']}":
        return {"changed": False}
    if now.number != before["revision"]:
        raise Failure(f"{where.name} has a revision {now.number} that this task did not make: {now.description}")
    if now.status != "uninstalled":
        return {"changed": False}
    call(context, where.request("rollback", "--wait", "--", where.name, str(before["revision"])))
    return {"changed": True}


@capability(
    "helm.uninstall",
    effect="idempotent",
    risks=("network: talks to a cluster", "deletes objects of a cluster"),
    spends=("calls",),
    preview=_preview_uninstall,
    capture=_capture_uninstall,
    undo=_undo_uninstall,
    preconditions=("program helm",),
)
def uninstall(
    context: Context,
    release: Annotated[str, Doc("name of the release")],
    namespace: Annotated[str, Doc("namespace; default: that of the context")] = "",
    kube_context: Annotated[str, Doc("context of the kubeconfig; default: the current one")] = "",
    keep_history: Annotated[bool, Doc("keep its revisions, so that the removal can be undone")] = True,
    timeout: Annotated[float | str, Doc("how long helm waits for each object", quantity="duration")] = "5m",
) -> Uninstalled:
    """Uninstall a release and wait until its objects are gone. One that is not there is fine.

    With `keep_history` an undo rolls back to the revision that was installed.
    """
    where = Release(release, namespace, kube_context)
    now = latest(context, where)
    if now is None or now.status == "uninstalled":
        return Uninstalled(release, False, 0)
    call(context, _uninstall_request(where, keep_history, timeout))
    return Uninstalled(release, True, now.number)
