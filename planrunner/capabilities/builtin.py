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
    "python.run": "planrunner.capabilities.python.run:run",
    "shell": "planrunner.capabilities.shell:shell",
    "sleep": "planrunner.capabilities.control:sleep",
    "sql.execute": "planrunner.capabilities.sql.execute:execute",
    "sql.query": "planrunner.capabilities.sql.query:query",
    "sql.script": "planrunner.capabilities.sql.execute:script",
    "validate.bandit": "planrunner.capabilities.validate.code:bandit",
    "validate.json_schema": "planrunner.capabilities.validate.data:json_schema",
    "validate.junit": "planrunner.capabilities.validate.tests:junit",
    "validate.mypy": "planrunner.capabilities.validate.code:mypy",
    "validate.pytest": "planrunner.capabilities.validate.tests:pytest",
    "validate.ruff": "planrunner.capabilities.validate.code:ruff",
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
