"""What attempts were called with, as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.jsontext import stable_json
from planrunner.views.terminal import Terminal, harmless


def call_lines(terminal: Terminal, calls: Iterable[Any]) -> Iterator[str]:
    """The lines of calls as ``app/calls.py`` gives them."""
    for each in calls:
        what = "judge of visit" if each.judge else "attempt"
        yield terminal.paint(f"{what} {each.attempt}", "bold")
        if each.problem:
            yield f"  not rendered: {harmless(each.problem)}"
        elif not each.same:
            yield "  not what was recorded: its digest differs, since this version renders the call in another way"
        for name, value in each.call.items():
            text = value if isinstance(value, str) else stable_json(value)
            first, *rest = text.splitlines() or [""]
            yield f"  {name:<7} {harmless(first)}"
            yield from (f"          {harmless(line)}" for line in rest)
        for sent in each.sent:
            yield from _sent_lines(sent)


def _sent_lines(sent: Any) -> Iterator[str]:
    yield f"  {harmless(sent.name)}  {sent.size} bytes, sha256 {sent.sha256}"
    if sent.text is None:
        yield "    its content is not kept any more"
    else:
        yield from (f"    {harmless(line)}" for line in sent.text.splitlines())
