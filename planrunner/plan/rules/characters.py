"""Characters that are invisible, that turn the direction of writing, or that end a value where a comment was not meant:
the text does not read as it runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic
from planrunner.plan.rules.view import PlanView
from planrunner.source import Source, Span
from planrunner.syntax.tree import Mapping, Node, Scalar

_HIDDEN = (
    "[\u0085\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\u3164\ufeff"
    "\U000e0000-\U000e007f]+"
)
_TURNING = "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
MOST = 20
"""Places of one plan that are told."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    text = view.source.text
    if not view.whole or text.isascii():
        return
    told = 0
    for match in re.finditer(_HIDDEN, text):
        if match.start() == 0 and match[0] == "\ufeff":
            continue  # the mark that begins a file
        told += 1
        if told > MOST:
            return
        names = " ".join(f"U+{ord(sign):04X}" for sign in match[0][:4])
        does = "changes the direction of writing" if re.search(_TURNING, match[0]) else "is invisible"
        message = f"the text contains {names}, which {does}"
        help_ = 'remove it, or write an escape in double quotes, such as `"\\u202e"`'
        yield Diagnostic("PLAN014", message, Span(match.start(), match.end()), help=help_)


_CUT = re.compile(r"(?P<blanks>[ \t]*)#(?P<first>\S)[^\n]{0,60}")


def check_cut(source: Source, tree: Node) -> Iterator[Diagnostic]:
    """Plain values that end at ` #`, where what follows looks like text rather than a comment: `fixes #12`, `#fff`."""
    seen: set[int] = set()
    waiting: list[Node] = [tree]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Scalar):
            if not node.style and (found := _cut(source.text, node)) is not None:
                yield found
        else:
            waiting += reversed([each for _, each in node.entries] if isinstance(node, Mapping) else node.items)


def _cut(text: str, value: Scalar) -> Diagnostic | None:
    match = _CUT.match(text, value.end)
    if match is None or not (value.value is None or isinstance(value.value, str)):
        return None
    written = text[value.start : value.end]
    quotes = written.count('"') % 2 or written.count("'") % 2
    words = not written or " " in written or match["first"].isdigit() or quotes
    if not words or written != value.raw or (written and not match["blanks"]):
        return None
    rest = match[0].strip()
    what = f"the value ends at `{written[-30:]}`" if written else "the value is empty"
    help_ = "put the text in quotes; a comment has a space after its `#`"
    return Diagnostic("PLAN226", f"{what}: `{rest}` is a comment", Span(match.end("blanks"), match.end()), help=help_)
