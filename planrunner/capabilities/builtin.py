"""What planrunner comes with, by name: finding one imports nothing, running one imports its module alone."""

from __future__ import annotations

from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TARGETS: dict[str, str] = {
    "docker.build": "planrunner.capabilities.docker.build:build",
    "docker.image_remove": "planrunner.capabilities.docker.remove:image_remove",
    "docker.push": "planrunner.capabilities.docker.tag:push",
    "docker.run": "planrunner.capabilities.docker.run:run",
    "docker.tag": "planrunner.capabilities.docker.tag:tag",
    "fail": "planrunner.capabilities.control:fail",
    "files.read": "planrunner.capabilities.files:read",
    "files.write": "planrunner.capabilities.files:write",
    "helm.rollback": "planrunner.capabilities.helm.back:rollback",
    "helm.status": "planrunner.capabilities.helm.reading:status",
    "helm.template": "planrunner.capabilities.helm.reading:template",
    "helm.uninstall": "planrunner.capabilities.helm.back:uninstall",
    "helm.upgrade": "planrunner.capabilities.helm.upgrade:upgrade",
    "kubectl.apply": "planrunner.capabilities.kubectl.apply:apply",
    "kubectl.delete": "planrunner.capabilities.kubectl.delete:delete",
    "kubectl.get": "planrunner.capabilities.kubectl.get:get",
    "kubectl.rollout_status": "planrunner.capabilities.kubectl.rollout:rollout_status",
    "kubectl.rollout_undo": "planrunner.capabilities.kubectl.rollout:rollout_undo",
    "noop": "planrunner.capabilities.control:noop",
    "research.cite": "planrunner.capabilities.research.cite:cite",
    "research.dedupe": "planrunner.capabilities.research.dedupe:dedupe",
    "research.facts": "planrunner.capabilities.research.facts:facts",
    "research.fetch": "planrunner.capabilities.research.fetch:fetch",
    "research.rank": "planrunner.capabilities.research.rank:rank",
    "research.search": "planrunner.capabilities.research.search:search",
    "shell": "planrunner.capabilities.shell:shell",
    "sleep": "planrunner.capabilities.control:sleep",
}
"""Name of a capability to ``module:function``."""

SEAMS: dict[str, tuple[str, str]] = {
    "research.search": ("planrunner_register_search_providers", "planrunner.capabilities.research.providers:register"),
}
"""Capabilities to which plugins add something: the hook that is called before the first use, and what it is given."""


def load(target: str) -> Callable[..., Any]:
    """The function that ``module:function`` names; raises ImportError or AttributeError."""
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)
    return function


def planrunner_register_capabilities(register: Callable[..., None]) -> None:
    """Register the built-ins like any plugin does; ``register`` is described at the hook of this name."""
    from planrunner.capabilities.descriptions import description_of  # late: a plan seen before needs none of them

    for name, target in TARGETS.items():
        register(name, target, description_of(name))
