"""What the names in a command stand for: capabilities, results of calls, and the inputs that take them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from planrunner.plan.commands.calls import CommandError, Word
from planrunner.plan.model import Capability, Field
from planrunner.plan.nearest import meant, nearest
from planrunner.records import Struct

Json = Any
Tree = Any
Step = tuple[str, int, int] | tuple[int, int, int]
"""A member or an index, and where it stands."""


class VisibleNames(Struct):
    """What the task of a command can read: its ``with``, the parameters of its plan, the outputs of the tasks it needs
    (by name, the ids that have it), and the names that every expression has there."""

    inputs: Mapping[str, Json]
    params: frozenset[str]
    needed: Mapping[str, tuple[str, ...]]
    roots: frozenset[str]


class Result(Struct):
    """An earlier call of the sequence: its task and the capability that gave it."""

    task: str
    capability: Capability


OF_A_PROCESS = frozenset({"stdout", "stderr", "exit_code"})
"""What every script gives beside the outputs that it writes itself."""


class Values:
    """Reads the arguments of one command; ``results`` grows with its calls."""

    __slots__ = ("_given", "_text", "results")

    def __init__(self, text: str, given: VisibleNames) -> None:
        self._text = text
        self._given = given
        self.results: dict[str, Result] = {}

    def data(self, tree: Tree, field: Field | None = None) -> Json:
        """The input that a tree stands for, ``field`` being what takes it. Raises CommandError."""
        kind, start, end = tree[:3]
        if kind == "const":
            return tree[3]
        if kind == "quantity":
            return self._text[start:end]
        if kind == "list":
            return [self.data(item) for item in tree[3]]
        if kind == "map":
            return {key: self.data(item) for key, item in tree[3]}
        return self._named(tree, field)

    def _named(self, tree: Tree, field: Field | None) -> Json:
        steps: list[Step] = []
        node = tree
        while node[0] in ("attr", "index"):
            key = node[4] if node[0] == "attr" else node[4][3]
            steps.append((key, node[3][2], node[2]))
            node = node[3]
        _, start, end, name = node
        steps.reverse()
        if name in self.results:
            return self._result(name, steps, field, (start, end))
        given = self._given
        if name in given.inputs:
            return _inside(name, given.inputs[name], steps)
        if name in given.params:
            return _template(f"params.{name}", steps)
        if found := given.needed.get(name, ()):
            if len(found) > 1:
                both = " and ".join(f"`tasks.{task}.outputs.{name}`" for task in found)
                raise CommandError(f"`{name}` may be {both}", start, end, "write the whole path", "PLAN201")
            return _template(f"tasks.{found[0]}.outputs.{name}", steps)
        if name in given.roots:
            return _template(name, steps)
        raise self._unknown(name, start, end)

    def _result(self, name: str, steps: list[Step], field: Field | None, place: tuple[int, int]) -> Json:
        result = self.results[name]
        known = outputs_of(result.capability)
        if steps and steps[0][0] in OF_A_PROCESS and result.capability.takes_run and not known:
            return _template(f"tasks.{result.task}", steps)
        if steps:
            self._check_member(name, result.capability, known, steps[0])
        elif field is not None and known:
            chosen = fitting(known, field)
            if chosen is None:
                gives = ", ".join(f"`{name}.{each.name}` ({each.type})" for each in known[:8])
                message = f"`{name}` gives no {field.type} for the input `{field.name}`"
                raise CommandError(message, *place, f"it has {gives}", "PLAN205")
            if chosen:
                steps = [(chosen, 0, 0)]
        return _template(f"tasks.{result.task}.outputs", steps)

    def _check_member(self, name: str, capability: Capability, known: tuple[Field, ...], step: Step) -> None:
        """A result is the map of the outputs of its capability: an unknown output is named where it stands."""
        key, start, end = step
        names = [each.name for each in known]
        if not names or key in names:
            return
        listed = ", ".join(f"`{name}.{each}`" for each in names[:8])
        if isinstance(key, int):
            message = f"`{name}` holds the outputs of `{capability.name}` by name"
            raise CommandError(message, start, end, f"it has {listed}", "PLAN205")
        near = nearest(key, names)
        guess = meant(near)
        message = f"`{capability.name}` gives no output `{key}`{guess}"
        raise CommandError(message, start, end, "" if near else f"it gives {listed}", "PLAN202")

    def _unknown(self, name: str, start: int, end: int) -> CommandError:
        given = self._given
        names = [*self.results, *given.inputs, *sorted(given.params), *given.needed, *sorted(given.roots)]
        guess = meant(nearest(name, names))
        way = (
            "results of earlier calls, `with`, parameters and outputs of needed tasks have names; write text in quotes"
        )
        return CommandError(f"`{name}` is not defined here{guess}", start, end, way, "PLAN201")


def _template(root: str, steps: list[Step]) -> str:
    path = "".join(f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{_key(key)}]" for key, *_ in steps)
    return "{{ " + root + path + " }}"


def _key(key: str | int) -> str:
    return str(key) if isinstance(key, int) else json.dumps(key, ensure_ascii=False)


def _inside(name: str, value: Json, steps: list[Step]) -> Json:
    """A part of what stands under ``with``: of data the part itself, of a template its path made longer."""
    for number, (key, start, end) in enumerate(steps):
        if isinstance(value, str) and value.strip().startswith("{{") and value.strip().endswith("}}"):
            inner = value.strip()[2:-2].strip()
            if "{{" not in inner:
                return _template(inner if _plain(inner) else f"({inner})", steps[number:])
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            raise CommandError(f"`{name}` of `with` has no `{key}`", start, end, "", "PLAN201") from None
    return value


def _plain(path: str) -> bool:
    return all(character.isalnum() or character in "._[]\"'-" for character in path)


_MAPS = frozenset({"map", "any"})


def outputs_of(capability: Capability) -> tuple[Field, ...]:
    """The outputs that are known to be all; empty where the capability may give others."""
    return () if capability.open_outputs else capability.outputs


def fitting(outputs: tuple[Field, ...], field: Field) -> str | None:
    """What a whole result is for an input: empty for the map of all outputs, which an input of the type map or any
    takes; else the name of the first output of the type of the input, or the first of unknown type. None: nothing."""
    if field.type in _MAPS:
        return ""
    for wanted in (field.type, "any"):
        for output in outputs:
            if output.type == wanted:
                return output.name
    return None


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
    """The capability that a call names, one of ``family`` before others. Raises CommandError where none fits, or
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
    guess = meant(near)
    way = "" if near else "`planrunner capabilities` lists the installed ones"
    return CommandError(f"unknown capability `{verb.text}`{guess}", verb.start, verb.end, way, "PLAN007")
