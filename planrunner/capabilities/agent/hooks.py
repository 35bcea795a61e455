"""What the hooks of an agent (``calls`` of its task) say of a call that its model asks for."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.values import EvaluationError, Names

Json = Any


class Verdict(NamedTuple):
    """What the hooks come to, each text with the hook that it is of: a call that is denied is not made, one with a
    question waits for a person, and the result of one with ``say`` is told with those texts."""

    deny: str = ""
    ask: str = ""
    say: tuple[str, ...] = ()
    hook: str = ""


class Hooks:
    """The hooks of one agent. All that fit a call count; the strictest answer decides."""

    def __init__(self, hooks: Iterable[Json], params: Json) -> None:
        self._hooks = list(hooks)
        self._params = params or {}

    def judge(self, tool: str, arguments: dict[str, Json], known: Iterable[str]) -> Verdict:
        """The verdict on a call; ``known`` are the arguments that its tool takes, of which a model may leave some
        out."""
        call = {"tool": tool, "arguments": {**dict.fromkeys(known), **arguments}}
        scope = Names({"call": call, "params": self._params})
        met = [(hook, why) for hook in self._hooks if (why := self._fits(hook, tool, scope)) is not None]
        for does in ("deny", "ask"):
            for hook, why in met:
                if hook["does"] == does:
                    text = hook["text"] + why
                    return Verdict(**{does: text}, say=_said(met), hook=name_of(hook))
        return Verdict(say=_said(met))

    def _fits(self, hook: dict[str, Json], tool: str, scope: Names) -> str | None:
        """None where a hook is not about a call; else what is to be added to its text. A condition without a value
        counts as met where the hook restricts."""
        if not any(fnmatchcase(tool, pattern) for pattern in hook["tools"]):
            return None
        if not hook["when"]:
            return ""
        try:
            return "" if truth(parse(hook["when"]).tree, scope) else None
        except EvaluationError as error:
            return None if hook["does"] == "say" else f" (`{hook['when']}` has no value: {error})"


def _said(met: Iterable[tuple[dict[str, Json], str]]) -> tuple[str, ...]:
    return tuple(hook["text"] for hook, _ in met if hook["does"] == "say")


def name_of(hook: dict[str, Json]) -> str:
    """What people are told of a hook: ``files.write when call.arguments.path == "x"``, in one line."""
    when = f" when {hook['when']}" if hook["when"] else ""
    return f"{', '.join(hook['tools'])}{when}"
