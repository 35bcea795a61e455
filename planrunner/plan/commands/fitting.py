"""Which output of a capability an input of another takes."""

from __future__ import annotations

from planrunner.plan.model import Capability, Field

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
