"""What the names of calls stand for: capabilities by their whole names, the usual ones by their verbs alone."""

from __future__ import annotations

from collections.abc import Mapping

from planrunner.plan.commands.calls import CommandError, Word
from planrunner.plan.model import Capability
from planrunner.plan.nearest import nearest

VERBS: Mapping[str, str] = {
    "cite": "research.cite",
    "dedupe": "research.dedupe",
    "facts": "research.facts",
    "fetch": "research.fetch",
    "rank": "research.rank",
    "search": "research.search",
    "summarize": "llm.complete",
}
"""The verbs that mean the same whatever else is installed."""

FRAMED: Mapping[str, tuple[str, str]] = {
    "summarize": ("prompt", "Summarize what follows, and name the source of each statement.\n\n"),
}
"""Verbs that put words before what they are given: the input that gets them, and the words."""


def capability_of(verb: Word, capabilities: Mapping[str, Capability], family: str = "") -> Capability:
    """The capability that a call names, one of ``family`` before others. Raises CommandError where there is none, or
    more than one."""
    own = capabilities.get(f"{family}.{verb.text}") if family else None
    if own is not None:
        return own
    name = VERBS.get(verb.text, verb.text)
    found = capabilities.get(name)
    if found is not None:
        return found
    if name != verb.text:
        message = f"`{verb.text}` stands for `{name}`, which is not installed"
        raise CommandError(message, verb.start, verb.end, "`planrunner capabilities` lists what is", "PLAN007")
    alike = [other for other in capabilities if "." not in name and other.rpartition(".")[2] == name]
    if len(alike) == 1:
        return capabilities[alike[0]]
    if alike:
        shown = " or ".join(f"`{other}`" for other in sorted(alike)[:8])
        raise CommandError(f"`{name}` may be {shown}", verb.start, verb.end, "write the whole name", "PLAN215")
    raise _unknown(verb, capabilities)


def _unknown(verb: Word, capabilities: Mapping[str, Capability]) -> CommandError:
    short = {other.rpartition(".")[2]: other for other in capabilities} | dict(VERBS)
    near = nearest(verb.text, [*VERBS, *capabilities] if "." in verb.text else [*VERBS, *short, *capabilities])
    meant = f", did you mean `{near}`?" if near else ""
    way = "" if near else "`planrunner capabilities` lists the installed ones"
    return CommandError(f"unknown capability `{verb.text}`{meant}", verb.start, verb.end, way, "PLAN007")
