"""Instructions for a model: text, a file that holds it, or a list of both.

What a file holds counts as if it stood in the plan, so that templates in it are filled in and its text is part of the
plan's digest. A value of another kind is left to the checks of schemas.
"""

from __future__ import annotations

from typing import Any

from planrunner.plan.files import Fault, Links
from planrunner.plan.lower import values
from planrunner.plan.lower.values import Lowering
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

Json = Any

INPUTS = frozenset({"prompt", "system", "goal", "rubric"})
"""Inputs of capabilities that are instructions, and may be in a file."""
FAMILIES = ("agent.", "llm.")
"""Capabilities with such inputs."""
SAID = "text, {file: PATH}, or a list of both"


def fits(value: Json) -> bool:
    """Whether a value is instructions: as ``SAID``."""
    parts = value if isinstance(value, list) else [value]
    return bool(parts) and all(isinstance(each, str) or _is_file(each) for each in parts)


def _is_file(value: Json) -> bool:
    return isinstance(value, dict) and value.keys() == {"file"} and isinstance(value["file"], str)


def whole(low: Lowering, node: Node) -> Node:
    """Instructions as one text; a file that cannot be read is reported at its name."""
    if isinstance(node, Scalar) or not fits(values.data(node)):
        return node
    parts = node.items if isinstance(node, Sequence) else [node]
    text = "\n\n".join(_part(low, each) for each in parts)
    return Scalar(text, node.start, node.end, "")


def _part(low: Lowering, node: Node) -> str:
    file = node.get("file") if isinstance(node, Mapping) else None
    return values.plain_text(node) if file is None else _read(low, values.text(file), file.span)


def _read(low: Lowering, word: str, place: Span) -> str:
    if "{{" in word:
        help_ = "let `when` choose between two tasks, or have `files.read` read the file in the run"
        message = "the path of instructions cannot hold a template: they are read with the plan"
        low.report("PLAN006", message, place, help_)
        return ""
    found = (low.links or Links()).text(word)
    if isinstance(found, Fault):
        low.report(found.code, found.message, place, found.help)
        return ""
    return found


def of_inputs(low: Lowering, uses: str, inputs: Json, node: Node | None, place: Span) -> Json:
    """The inputs of a capability with its instructions as text; ``node`` is where they stand in the plan."""
    if not isinstance(inputs, dict) or not uses.startswith(FAMILIES):
        return inputs
    for name in INPUTS & inputs.keys():
        if isinstance(inputs[name], (dict, list)) and fits(inputs[name]):
            written = node.get(name) if isinstance(node, Mapping) else None
            read = whole(low, values.tree_at(inputs[name], place) if written is None else written)
            inputs = {**inputs, name: values.data(read)}
    return inputs
