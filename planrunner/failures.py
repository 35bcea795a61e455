"""How an attempt fails: the exception by which a capability says it, and in which class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Any


class Failure(Exception):
    """Raised by a capability to fail its attempt in a class of its choice; any other exception fails it as ``logic``.

    ``failure`` is ``transient`` (worth another attempt), ``logic``, ``policy`` or a class of the plugin's own. ``rule``
    names the rule that refuses what was wanted, dotted like ``network.private``: the class is ``policy`` unless another
    one is given. Another attempt waits for at least ``retry_after`` seconds; ``retry`` asks for one where the task has
    no ``retry`` (``attempts`` in all, ``delay`` and ``max_delay`` in seconds).
    """

    def __init__(
        self,
        message: str,
        failure: str | None = None,
        outputs: Mapping[str, Json] | None = None,
        *,
        rule: str = "",
        retry_after: float | None = None,
        retry: Mapping[str, Json] | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = ("policy" if rule else "logic") if failure is None else failure
        self.outputs = dict(outputs or {})
        self.rule = rule
        self.retry_after = retry_after
        self.retry = dict(retry or {})
