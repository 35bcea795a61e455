"""What each task of a plan may do, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from planrunner.views.terminal import harmless


class Said(Protocol):
    """See ``app/policies.py``."""

    @property
    def what(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def by(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def way(self) -> str: ...


class Explained(Protocol):
    """See ``app/policies.py``."""

    @property
    def task(self) -> str: ...
    @property
    def uses(self) -> str: ...
    @property
    def said(self) -> Sequence[Said]: ...


_WORDS = {
    "allow": "may use",
    "ask": "asks for",
    "deny": "may not use",
    "open": "depends on",
    "scope": "is held to",
    "shut in": "runs in",
}
_FILES = {"allow": "may", "deny": "may not", "later": "wants to"}


def render(title: str, tasks: Sequence[Explained]) -> str:
    """Lines for people: what holds for every task, then a block for each, refusals with the line to write."""
    common = [each for each in tasks[0].said if all(each in task.said for task in tasks)] if len(tasks) > 1 else []
    lines = [f"policy of {harmless(title)}"]
    if common:
        lines += ["", "every task", *_block(common)]
    for task in tasks:
        own = [each for each in task.said if each not in common]
        lines += ["", f"{harmless(task.task)}  {harmless(task.uses)}".rstrip(), *_block(own)]
        if not task.said:
            lines.append("  no policy says anything")
    return "\n".join(lines)


def _block(said: Sequence[Said]) -> list[str]:
    return [f"  {harmless(line)}" for each in said for line in _lines(each)]


def _lines(said: Said) -> Iterator[str]:
    by = f"  ({said.by}, {said.place})" if said.place else "" if said.by else "  (no policy says anything)"
    if said.verdict == "later":
        by = "  (judged when the task is called)"
    words, what = (_FILES, f"{said.way} {said.what}") if said.way else (_WORDS, said.what)
    if said.verdict == "open":
        what = f"the values of {what}"
    yield f"{words[said.verdict]:<12} {what}{by}"
    if said.help:
        yield f"{'':<12} {said.help}"
