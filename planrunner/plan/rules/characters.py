"""Characters that are invisible, or that turn the direction of writing: the text does not read as it runs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.rules.view import PlanView
from planrunner.source import Span

CODES = ("PLAN014",)

_HIDDEN = re.compile(
    "[\u0085\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\u3164\ufeff"
    "\U000e0000-\U000e007f]+"
)
_TURNING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
MOST = 20
"""Places of one plan that are told."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    text = view.source.text
    if not view.whole or text.isascii():
        return
    told = 0
    for match in _HIDDEN.finditer(text):
        if match.start() == 0 and match[0] == "\ufeff":
            continue  # the mark that begins a file
        told += 1
        if told > MOST:
            return
        names = " ".join(f"U+{ord(sign):04X}" for sign in match[0][:4])
        does = "changes the direction of writing" if _TURNING.search(match[0]) else "is invisible"
        message = f"the text contains {names}, which {does}"
        help_ = 'remove it, or write an escape in double quotes, such as `"\\u202e"`'
        yield Diagnostic("PLAN014", message, Span(match.start(), match.end()), help=help_)
