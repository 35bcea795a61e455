"""What a capability must say of itself before people can rely on it; nothing is called to find out."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

from planrunner.capabilities.soundness import EFFECTS
from planrunner.plan.model import Capability, Field

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?")
LOOKING = ("pure", "read")
"""Effect classes of capabilities that change nothing."""


def mutates(found: Capability) -> bool:
    """Whether a call may change the world."""
    return found.effect not in LOOKING


def undocumented(found: Capability) -> Iterator[str]:
    """What of it has no words: itself, inputs, outputs."""
    if not found.summary:
        yield "it has no docstring, so nobody is told what it does"
    yield from (f"the input `{field.name}` has no text: annotate it with Doc(…)" for field in found.inputs
                if not field.description)  # fmt: skip
    yield from (f"the output `{field.name}` has no text: annotate it with Doc(…)" for field in found.outputs
                if not field.description)  # fmt: skip


def unsound(found: Capability) -> Iterator[str]:
    """What is wrong with its declaration."""
    yield from misnamed(found)
    for field in found.inputs:
        yield from _misfit(field)
    yield from uncertain(found)


def misnamed(found: Capability) -> Iterator[str]:
    """What is wrong with its name and its effect class: nobody can rely on it, also where nobody checks it."""
    if _NAME.fullmatch(found.name) is None:
        yield f"`{found.name}` is not named `family.verb` in lower case"
    if found.effect not in EFFECTS:
        yield f"the effect `{found.effect}` is none of {', '.join(EFFECTS)}"
    if found.effect == "checkable" and not found.probe:
        yield "it is `checkable` and has no `probe`"


def uncertain(found: Capability) -> Iterator[str]:
    """What is missing before a change, and after it."""
    if not mutates(found):
        if found.undo or found.irreversible:
            yield f"it is `{found.effect}`, so there is nothing to undo"
        return
    if found.takes_run:
        return  # the task's own script says what it does, and its `rollback` how that is undone
    if not found.preview:
        yield "it changes something and has no `preview`"
    if found.undo and found.irreversible:
        yield "it has an `undo` and says that it is irreversible"
    if not (found.undo or found.irreversible):
        yield "it changes something: give it `capture` and `undo`, or say `irreversible=True`"


def _misfit(field: Field) -> Iterator[str]:
    if not field.name.isidentifier() or (keyword.iskeyword(field.name) and not field.name.islower()):
        yield f"the input `{field.name}` has no name that a plan can write"
    if field.required and field.default is not None:
        yield f"the input `{field.name}` is required and has a default"
    if not field.required and not _fits(field.default, field):
        yield f"the default of the input `{field.name}` is not of its type {field.type}"


def _fits(value: object, field: Field) -> bool:
    wanted: dict[str, tuple[type, ...]] = {
        "string": (str,),
        "int": (int,),
        "number": (int, float),
        "bool": (bool,),
        "list": (list, tuple),
        "map": (dict,),
    }
    return value is None or isinstance(value, wanted.get(field.type, (object,)))
