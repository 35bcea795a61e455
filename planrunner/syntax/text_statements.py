"""What somebody probably meant by a line of the text notation that is no statement."""

from __future__ import annotations

import re
from difflib import get_close_matches

from planrunner.diagnostics import Edit, Fix
from planrunner.source import Span
from planrunner.syntax.text_values import Fault

KEYS = frozenset(
    (
        "title description owner version params defaults env max_parallel limits on_failure outputs artifacts gates "
        "uses using with run command gate ask checks approvers needs join when if expect preconditions postconditions "
        "role priority labels cwd shell stdout timeout retry allow_failure on_success next failure_modes rollback loop "
        "foreach matrix subplan budgets effect kind breakers watchdog heartbeat fresh backup degraded optional form "
        "escalate checkpoint irreversible policy secrets stdin delay ends_plan"
    ).split()
)
"""Keys that people write without their colon."""

_WORD = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)(?=[ \t\[{\"']|\Z)")
_ROUTE = re.compile(r"[A-Za-z]{1,3}[ \t]+[A-Za-z_][A-Za-z0-9_-]*[ \t]*->")
_FIRST_WORDS = ("task", "plan", "finally")


def no_statement(line: str, start: int) -> Fault:
    """The fault for ``line``, whose text begins at ``start``: a missing colon, a misspelt word, or anything else."""
    end = start + len(line.rstrip())
    word = _WORD.match(line)
    if word and word[1] in KEYS:
        at = start + word.end()
        spaced = line[word.end() : word.end() + 1] in " \t"
        fix = Fix("put a colon there", (Edit(Span(at, at), ":" if spaced else ": "),))
        help = f"write `{word[1]}: …`"
        return Fault(f"a colon is missing after `{word[1]}`", start, at, help=help, fix=fix)
    meant = _meant(line, word[1]) if word else ""
    if word and meant:
        at = start + word.end()
        fix = Fix(f"write `{meant}`", (Edit(Span(start, at), meant),), safe=False)
        return Fault(f"`{word[1]}` begins no line of a plan, did you mean `{meant}`?", start, at, fix=fix)
    help = "a line is `key: value`, `- item`, `task id`, or `on failure -> id`"
    return Fault("this line is no statement of a plan", start, end, help=help)


def _meant(line: str, word: str) -> str:
    """The word of the notation that a misspelt one stands for; an arrow behind a short word tells of an edge."""
    if _ROUTE.match(line):
        return "on"
    return next((found for found in get_close_matches(word, _FIRST_WORDS, n=1, cutoff=0.75) if found != word), "")
