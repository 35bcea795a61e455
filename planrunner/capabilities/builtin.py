"""What planrunner comes with, by name: finding one imports nothing, running one imports its module alone."""

from __future__ import annotations

from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TARGETS: dict[str, str] = {
    "fail": "planrunner.capabilities.control:fail",
    "files.read": "planrunner.capabilities.files:read",
    "files.write": "planrunner.capabilities.files:write",
    "noop": "planrunner.capabilities.control:noop",
    "shell": "planrunner.capabilities.shell:shell",
    "sleep": "planrunner.capabilities.control:sleep",
}
"""Name of a capability to ``module:function``."""


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
