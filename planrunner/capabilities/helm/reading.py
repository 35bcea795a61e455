"""``helm.status`` and ``helm.template``: how a release is, and what a chart makes."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import answer, bounded, call
from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.helm.release import Chart, File, Release, history
from planrunner.capabilities.helm.upgrade import hidden, rendered

_SHOWN = 65_536


class Status(NamedTuple):
    installed: Annotated[bool, Doc("whether there is such a release, and it is not uninstalled")]
    revision: Annotated[int, Doc("its newest revision; 0 where there is none")]
    status: Annotated[str, Doc("such as deployed or failed; empty where there is none")]
    namespace: Annotated[str, Doc("its namespace, as helm tells it")]
    description: Annotated[str, Doc("what helm says of the newest revision")]
    history: Annotated[
        list[dict[str, Any]], Doc("revisions, oldest first: number, status, chart, app_version, description")
    ]


class Rendered(NamedTuple):
    manifest: Annotated[str, Doc("what the chart makes, the end where it is long; secrets are hidden")]
    objects: Annotated[int, Doc("how many documents it has")]
    artifact: Annotated[dict[str, Any], Doc("the whole of it, kept; secrets are hidden")]


@capability(
    "helm.status",
    effect="read",
    risks=("network: talks to a cluster",),
    spends=("calls",),
    preconditions=("program helm",),
)
def status(
    context: Context,
    release: Annotated[str, Doc("name of the release")],
    namespace: Annotated[str, Doc("namespace; default: that of the context")] = "",
    kube_context: Annotated[str, Doc("context of the kubeconfig; default: the current one")] = "",
) -> Status:
    """How a release is. One that does not exist is no failure."""
    where = Release(release, namespace, kube_context)
    found = history(context, where)
    if not found:
        return Status(False, 0, "", namespace, "", [])
    told = answer(call(context, where.request("status", "--output", "json", "--", release)))
    if not isinstance(told, dict):
        raise Failure("`helm status` did not describe the release")
    info = told.get("info") or {}
    state = str(info.get("status") or found[-1].status)
    return Status(
        state != "uninstalled",
        found[-1].number,
        state,
        str(told.get("namespace") or namespace),
        str(info.get("description") or found[-1].description),
        [revision._asdict() for revision in found[-50:]],
    )


@capability(
    "helm.template",
    effect="read",
    risks=("network: may fetch the chart",),
    spends=("calls",),
    preconditions=("program helm",),
)
def template(
    context: Context,
    release: Annotated[str, Doc("name of the release")],
    chart: Annotated[
        str,
        Doc(
            "folder or archive inside the working directory, or a reference such as repo/name, oci://…",
            form="file-chart",
        ),
    ],
    values: Annotated[dict[str, Any] | None, Doc("values for the chart; they win over those of the files")] = None,
    namespace: Annotated[str, Doc("namespace that the chart is told")] = "",
    version: Annotated[str, Doc("version of a chart that is fetched")] = "",
    values_files: Annotated[list[File] | None, Doc("files with values, inside the working directory")] = None,
) -> Rendered:
    """The manifest that a chart makes, without a cluster. A digest stands for the content of each secret."""
    where, what = Release(release, namespace, ""), Chart(chart, version, values, tuple(values_files or ()))
    text = hidden(rendered(context, where, what))
    kept = context.keep(text.encode(), f"{release}.yaml", "application/yaml")
    return Rendered(bounded(text, _SHOWN), len([part for part in text.split("\n---\n") if part.strip()]), kept)
