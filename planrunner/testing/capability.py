"""Call one capability as a run would, without a plan."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from planrunner.machine.events import Outcome
from planrunner.testing.bench import Asked, Bench


def call_capability(
    capability: str | Callable[..., Any],
    inputs: Mapping[str, Any] | None = None,
    *,
    directory: str | None = None,
    settings: Mapping[str, Any] | None = None,
    asked: Asked | None = None,
) -> Outcome:
    """The outcome of a call, by the engine's own parts: a thread or a process, the timeout, artifacts, outputs as data.

    ``capability`` is an installed one by name, or a function marked with ``@capability``. ``directory`` is where it
    works (a temporary folder by default), ``settings`` are sections of ``planrunner.yaml``, ``asked`` gives timeout,
    key and environment. Whatever the capability raises is in the outcome. Raises KeyError for a name that nothing has.
    """
    call = (asked or Asked(timeout=30))._replace(inputs=dict(inputs or {}))
    with tempfile.TemporaryDirectory() as folder, Bench(capability, directory or folder, settings) as bench:
        return bench.call(call).outcome
