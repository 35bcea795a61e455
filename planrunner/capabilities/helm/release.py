"""Which release is meant, and its history."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.clients import Request, answer, call, inside, refused, word
from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.declare import Doc
from planrunner.capabilities.durations import seconds

_NAME = r"[a-z0-9]([a-z0-9.-]{0,51}[a-z0-9])?"
_NAMESPACE = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_CONTEXT = r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*"
_CHART = r"[A-Za-z0-9.][A-Za-z0-9._:/@+?=&%~-]*"
_VERSION = r"[0-9A-Za-z^~><=*v][0-9A-Za-z.+^~><=*, -]*"
_SETTINGS = (
    "KUBECONFIG", "HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME", "HELM_DRIVER", "HELM_REGISTRY_CONFIG",
    "HELM_REPOSITORY_CACHE", "HELM_REPOSITORY_CONFIG", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
    "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT",
)  # fmt: skip
_MARK = "planrunner "
_NOT_FOUND = "release: not found"


File = Annotated[str, Doc("", form="file-read")]


class Release(NamedTuple):
    """A release by name, in a namespace of a context of the kubeconfig; empty means the current one."""

    name: str
    namespace: str
    context: str

    def request(self, *arguments: str, **options: Any) -> Request:
        word(self.name, "release", _NAME)
        chosen = ["helm"]
        if self.context:
            chosen += ["--kube-context", word(self.context, "kube_context", _CONTEXT)]
        if self.namespace:
            chosen += ["--namespace", word(self.namespace, "namespace", _NAMESPACE)]
        return Request((*chosen, *arguments), _SETTINGS, **options)


class Revision(NamedTuple):
    """A line of the history: ``description`` is who made it, or what went wrong."""

    number: int
    status: str
    chart: str
    app_version: str
    description: str


class Chart(NamedTuple):
    """What is installed: a chart with its values."""

    chart: str
    version: str
    values: dict[str, Any] | None
    files: tuple[str, ...]

    def arguments(self, context: Context) -> tuple[list[str], str, bytes]:
        """Options, the chart itself, and what goes to the standard input of helm: values never stand among the
        arguments."""
        options: list[str] = []
        for file in self.files:
            options += ["--values", inside(context, file, "values_files")]
        stdin = b""
        if self.values:
            options += ["--values", "-"]
            stdin = json.dumps(self.values).encode()
        if self.version:
            options += ["--version", word(self.version, "version", _VERSION)]
        return options, _chart(context, self.chart), stdin


def _chart(context: Context, chart: str) -> str:
    """A chart of the working directory by its path, else a reference to one elsewhere."""
    word(chart, "chart", _CHART)
    here = os.path.lexists(os.path.join(context.call.directory, chart))
    if chart.startswith((".", "/")) or here:
        return inside(context, chart, "chart")
    return chart


def history(context: Context, release: Release) -> list[Revision]:
    """The revisions, oldest first; none where there is no such release. Raises Failure where helm does not tell."""
    asked = release.request("history", "--max", "256", "--output", "json", "--", release.name)
    ended = call(context, asked, fine=(0, 1))
    if ended.code:
        if _NOT_FOUND in ended.stderr.decode("utf-8", "replace"):
            return []
        raise refused(asked, ended)
    found = answer(ended)
    if not isinstance(found, list):
        raise Failure("`helm history` did not answer with a list")
    return sorted(_revision(entry) for entry in found)


def _revision(entry: dict[str, Any]) -> Revision:
    texts = (str(entry.get(name) or "") for name in ("status", "chart", "app_version", "description"))
    return Revision(int(entry["revision"]), *texts)


def latest(context: Context, release: Release) -> Revision | None:
    found = history(context, release)
    return found[-1] if found else None


def mark(context: Context) -> str:
    """The description of revisions that this task makes: the same for all attempts until it is run again."""
    return _MARK + hashlib.sha256((context.call.once or context.call.key).encode()).hexdigest()[:32]


def limit(timeout: float | str) -> str:
    """A duration as helm writes it."""
    try:
        return f"{seconds(timeout):g}s"
    except ValueError as error:
        raise Failure(f"`timeout`: {error}") from None
