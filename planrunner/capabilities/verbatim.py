"""Inputs that are code: they stand in the plan as they are run, and values reach them as data beside them."""

from __future__ import annotations

from typing import Any

from planrunner.capabilities.contract import Context, Failure


def require_verbatim(context: Context, name: str, instead: str) -> None:
    """Refuse an input that was put together out of values while the run went on, whatever those values were.

    ``instead`` says how values are handed over. Raises Failure (policy).
    """
    task = context.call.task
    written = task.inputs.get(name) if isinstance(task.inputs, dict) else None
    if _holds_template(written) or (written is None and task.command):
        raise Failure(f"`{name}` is code and takes no templates: {instead}", "policy", rule="template.code")


def _holds_template(written: Any) -> bool:
    if isinstance(written, str):
        return "{{" in written or "{%" in written
    if isinstance(written, dict):
        return any(map(_holds_template, written.values()))
    return isinstance(written, (list, tuple)) and any(map(_holds_template, written))
