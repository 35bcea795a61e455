"""``helm.upgrade``: install or upgrade a release."""

from __future__ import annotations

import difflib
import hashlib
import re
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import Request, answer, call
from planrunner.capabilities.contract import Context, Failure, Preview
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.helm.release import Chart, File, Release, Revision, history, latest, limit, mark

_SECRET = re.compile(r"^kind:\s*[\"']?Secret[\"']?\s*$", re.MULTILINE)
_NAME = re.compile(r"^\s+name:\s*(\S+)\s*$", re.MULTILINE)


class Upgraded(NamedTuple):
    release: Annotated[str, Doc("name of the release")]
    namespace: Annotated[str, Doc("its namespace, as helm tells it")]
    revision: Annotated[int, Doc("its newest revision")]
    previous: Annotated[int, Doc("the revision before; 0 where it is new")]
    status: Annotated[str, Doc("such as deployed")]
    chart: Annotated[str, Doc("chart and version")]
    changed: Annotated[bool, Doc("false where an earlier attempt had done it already")]


class _Options(NamedTuple):
    timeout: str
    wait: bool
    create_namespace: bool


def _request(context: Context, release: Release, chart: Chart, options: _Options) -> Request:
    given, where, stdin = chart.arguments(context)
    flags = ["--wait"] * options.wait + ["--create-namespace"] * options.create_namespace
    fixed = ("upgrade", "--install", "--output", "json", "--description", mark(context), "--timeout", options.timeout)
    return release.request(*fixed, *flags, *given, "--", release.name, where, stdin=stdin)


def rendered(context: Context, release: Release, chart: Chart) -> str:
    """The manifest that a chart makes, without asking the cluster."""
    given, where, stdin = chart.arguments(context)
    return call(context, release.request("template", *given, "--", release.name, where, stdin=stdin)).text


def hidden(manifest: str) -> str:
    """A manifest in which a digest stands for the content of each secret, so that a change still shows."""
    return "\n---\n".join(
        _without_values(part) for part in re.split(r"^---\s*$", manifest, flags=re.MULTILINE) if part.strip()
    )


def _without_values(part: str) -> str:
    if not _SECRET.search(part):
        return part.strip("\n")
    named = _NAME.search(part)
    digest = hashlib.sha256(part.strip().encode()).hexdigest()[:12]
    return f"kind: Secret\nmetadata:\n  name: {named[1] if named else ''}\n# content hidden, digest {digest}"


def _preview(
    context: Context, release: str, chart: str, values: dict[str, Any] | None = None, namespace: str = "",
    kube_context: str = "", version: str = "", values_files: list[str] | None = None, timeout: float | str = "5m",
    wait: bool = True, create_namespace: bool = False,
) -> Preview:  # fmt: skip
    """The manifest of the release as it is against the one that the chart makes."""
    where, what = Release(release, namespace, kube_context), Chart(chart, version, values, tuple(values_files or ()))
    now = latest(context, where)
    old = ""
    if now is not None and now.status != "uninstalled":
        old = call(context, where.request("get", "manifest", "--", release)).text
    new = hidden(rendered(context, where, what))
    names = (f"{release} now", f"{release} then")
    lines = difflib.unified_diff(hidden(old).splitlines(), new.splitlines(), *names, lineterm="")
    asked = _request(context, where, what, _Options(limit(timeout), wait, create_namespace))
    said = f"upgrade {release} from revision {now.number}" if now else f"install {release}"
    diff = "".join(f"{line}\n" for line in lines)
    return Preview(said, diff, (asked.shown,))


def _capture(
    context: Context, release: str, chart: str, namespace: str = "", kube_context: str = "", **_: Any
) -> dict[str, Any]:
    where = Release(release, namespace, kube_context)
    now = latest(context, where)
    revision = now.number if now is not None else 0
    before = {"release": release, "namespace": namespace, "context": kube_context, "mark": mark(context)}
    return {**before, "revision": revision, "status": now.status if now is not None else ""}


def _undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> dict[str, Any]:
    """Back to the revision before, or no release where there was none."""
    where = Release(before["release"], before["namespace"], before["context"])
    found = history(context, where)
    since = [revision for revision in found if revision.number > before["revision"]]
    back = f"Rollback to {before['revision']}"
    if not since or since[-1].description == back:
        return {"changed": False}
    named = outputs["revision"] if outputs else 0
    foreign = next((each for each in since if not _ours(each, before, named)), None)
    if foreign is not None:
        raise Failure(
            f"{where.name} has a revision {foreign.number} that this task did not make: {foreign.description}"
        )
    if before["revision"] == 0:
        call(context, where.request("uninstall", "--wait", "--", where.name))
    else:
        _back(context, where, before)
    return {"changed": True}


def _back(context: Context, where: Release, before: dict[str, Any]) -> None:
    call(context, where.request("rollback", "--wait", "--", where.name, str(before["revision"])))
    if before["status"] == "uninstalled":
        call(context, where.request("uninstall", "--wait", "--keep-history", "--", where.name))


def _ours(revision: Revision, before: dict[str, Any], named: int) -> bool:
    """Ours by its mark or its number; helm puts the mark there at the end, so the next revision may be ours without it
    where it failed or is half done."""
    if revision.description == before["mark"] or revision.number == named:
        return True
    return revision.number == before["revision"] + 1 and (
        revision.status == "failed" or revision.status.startswith("pending-")
    )


@capability(
    "helm.upgrade",
    effect="idempotent",
    risks=("network: talks to a cluster and fetches the chart", "changes objects of a cluster"),
    spends=("calls",),
    preview=_preview,
    capture=_capture,
    undo=_undo,
    preconditions=("program helm",),
)
def upgrade(
    context: Context,
    release: Annotated[str, Doc("name of the release")],
    chart: Annotated[
        str,
        Doc(
            "folder or archive inside the working directory, or a reference such as repo/name, oci://…",
            form="file-chart",
            use="image",
        ),
    ],
    values: Annotated[dict[str, Any] | None, Doc("values for the chart; they win over those of the files")] = None,
    namespace: Annotated[str, Doc("namespace; default: that of the context")] = "",
    kube_context: Annotated[str, Doc("context of the kubeconfig; default: the current one")] = "",
    version: Annotated[str, Doc("version of a chart that is fetched")] = "",
    values_files: Annotated[list[File] | None, Doc("files with values, inside the working directory")] = None,
    timeout: Annotated[float | str, Doc("how long helm waits for each object", quantity="duration")] = "5m",
    wait: Annotated[bool, Doc("until everything is ready")] = True,
    create_namespace: Annotated[bool, Doc("make the namespace where it is missing; an undo leaves it there")] = False,
) -> Upgraded:
    """Install a release, or upgrade the one that is there, with `helm upgrade --install`.

    Values go to helm on its standard input. The revision carries a mark of the task, so an attempt that is made again
    finds that it is done. An undo rolls back to the revision before, or uninstalls what was not there; it refuses where
    somebody else has made a revision since.
    """
    where, what = Release(release, namespace, kube_context), Chart(chart, version, values, tuple(values_files or ()))
    asked = _request(context, where, what, _Options(limit(timeout), wait, create_namespace))
    before = latest(context, where)
    if before is not None and (before.description, before.status) == (mark(context), "deployed"):
        return Upgraded(release, namespace, before.number, before.number - 1, "deployed", before.chart, False)
    found = answer(call(context, asked))
    if not isinstance(found, dict) or not isinstance(found.get("version"), int):
        raise Failure("`helm upgrade` did not say which revision it has made")
    meta = (found.get("chart") or {}).get("metadata") or {}
    status = str((found.get("info") or {}).get("status", ""))
    named = f"{meta.get('name', '')}-{meta.get('version', '')}".strip("-")
    previous = before.number if before is not None else 0
    return Upgraded(release, str(found.get("namespace") or namespace), found["version"], previous, status, named, True)
