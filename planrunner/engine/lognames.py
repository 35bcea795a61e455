"""The names of log files: readable, bounded, and never the same for two tasks."""

from __future__ import annotations

from hashlib import sha256

LONGEST = 120
"""Characters of a task's path that stand in a file name as they are; longer ones are cut, with a digest."""

_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-[]#@*+")


def log_name(task: str, attempt: int) -> str:
    """``polish#1/draft`` and 2 give ``polish#1+draft.2.log``: no id has a ``+``, so paths stay apart."""
    return f"{task if task.isidentifier() and len(task) < LONGEST and task.isascii() else _name(task)}.{attempt}.log"


def _name(task: str) -> str:
    name = task.replace("/", "+")
    if len(name) <= LONGEST and _ALLOWED.issuperset(name) and "+" not in task:
        return name
    kept = "".join(sign if sign in _ALLOWED else "_" for sign in name[: LONGEST - 33])
    return f"{kept}~{sha256(task.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
