"""The parts that plans and tasks declare: parameters, outputs, artifacts, budgets."""

from __future__ import annotations

import os
import re
from typing import Any

from planrunner.plan import lower_values as values
from planrunner.plan.expressions.quantities import parse_duration
from planrunner.plan.lower_values import Lowering
from planrunner.plan.model import Artifact, Budgets, Output, Param
from planrunner.plan.nearest import nearest
from planrunner.plan.params import misfit
from planrunner.plan.wording import meant_word
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

TYPES = frozenset({"string", "int", "number", "bool", "duration", "size", "money", "percent", "list", "map", "any"})
_TYPES_ELSEWHERE = {
    "integer": "int",
    "str": "string",
    "float": "number",
    "boolean": "bool",
    "array": "list",
    "object": "map",
}
"""Names of types in other languages, and ours."""
_REFERENCE = r"(?:artifacts|tasks|params|env|outputs)(?:\.[A-Za-z0-9_-]+)+|stdout|stderr|exit_code"
_PARAM_KEYS = frozenset({"type", "default", "required", "description", "choices"})


def params(low: Lowering, node: Node) -> tuple[Param, ...]:
    """The parameters of a plan; a default that a run could not use is reported where it stands."""
    for _, value in node.entries if isinstance(node, Mapping) else ():
        choices = value.get("choices") if isinstance(value, Mapping) else None
        for each in choices.items if isinstance(choices, Sequence) else [choices] if choices is not None else []:
            if "{{" in values.text(each):
                low.report("PLAN006", "the choices of a parameter hold no template", each.span, "write them out")
    return fields(low, node)


def fields(low: Lowering, node: Node) -> tuple[Param, ...]:
    """The fields of a form, declared as parameters are; their choices may hold templates."""
    if not isinstance(node, Mapping):
        return ()
    found = []
    for key, value in node.entries:
        param = _param(key, value)
        computed = any(isinstance(choice, str) and "{{" in choice for choice in param.choices)
        kind, problem = misfit(param._replace(choices=()) if computed else param)
        default = value.get("default") if isinstance(value, Mapping) else value
        if isinstance(value, Mapping):
            _check_choices(low, param, value.get("choices"))
        elif default is not None and (meant := _TYPES_ELSEWHERE.get(values.text(default))):
            help_ = f"a type is `{meant}`; a default that is this text is `{{default: {values.text(default)}}}`"
            low.report(
                "PLAN006",
                f"`{key.value}` is declared `{values.text(default)}`, which is not a type",
                default.span,
                help_,
            )
        if kind and default is not None:
            low.report("PLAN005" if kind == "type" else "PLAN006", f"the default does not fit: {problem}", default.span)
        found.append(param)
    return tuple(found)


def _check_choices(low: Lowering, param: Param, node: Node | None) -> None:
    """Report each choice that a value of the parameter's type can never be."""
    for item in node.items if isinstance(node, Sequence) else ():
        if "{{" in values.text(item):
            continue
        _, problem = misfit(param._replace(default=values.data(item), choices=()))
        if problem:
            low.report("PLAN005", f"the choice does not fit: {problem}", item.span)


def _param(key: Scalar, node: Node) -> Param:
    """A declaration, or (for anything but a mapping) the type alone, where it is the name of one, else the default."""
    if not isinstance(node, Mapping):
        default = values.data(node)
        if isinstance(default, str) and default.partition("[")[0].strip() in TYPES:
            return Param(str(key.value), _type_word(default), None, True, span=key.span)
        return Param(str(key.value), _type_of(default), default, default is None, span=key.span)
    parts = {str(name.value): value for name, value in node.entries if name.value in _PARAM_KEYS}
    default = values.data(parts["default"]) if "default" in parts else None
    required = values.truth(parts["required"]) if "required" in parts else None
    choices = values.data(parts["choices"]) if "choices" in parts else None
    return Param(
        str(key.value),
        _type_word(values.text(parts["type"])) if "type" in parts else _type_of(default),
        default,
        "default" not in parts if required is None else required,
        values.text(parts["description"]) if "description" in parts else "",
        tuple(choices) if isinstance(choices, list) else (choices,) if isinstance(choices, str) else (),
        key.span,
    )


def _type_word(word: str) -> str:
    """``list[url]`` is a list; a word that is no type is any."""
    name = word.partition("[")[0].strip()
    return name if name in TYPES else "any"


def _type_of(value: Any) -> str:
    """The type that a default implies: whoever declares no type and gives text may give anything."""
    return {bool: "bool", int: "int", float: "number", list: "list", dict: "map"}.get(type(value), "any")


def outputs(node: Node) -> tuple[Output, ...]:
    """A mapping from name to declaration, or a list of files (each named as its path)."""
    if isinstance(node, Mapping):
        return tuple(_output(str(key.value), value, key.span) for key, value in node.entries)
    if isinstance(node, Sequence):
        return tuple(output for item in node.items if (output := _listed_output(item)))
    return ()


def _listed_output(node: Node) -> Output | None:
    if isinstance(node, Mapping):
        name = node.get("name")
        return _output(values.text(name), node, name.span) if name is not None else None
    path = values.text(node)
    return Output(path, "any", None, path, span=node.span) if path else None


def _output(name: str, node: Node, span: Span) -> Output:
    if isinstance(node, Mapping):
        parts = {str(key.value): value for key, value in node.entries}
        return Output(
            name,
            _type_word(values.text(parts["type"])) if "type" in parts else "any",
            _template(values.data(parts["value"])) if "value" in parts else None,
            values.text(parts["path"]) if "path" in parts else "",
            values.text(parts["description"]) if "description" in parts else "",
            span,
        )
    value = values.data(node)
    if isinstance(value, str) and _type_word(value) == value.partition("[")[0] and "{{" not in value:
        return Output(name, _type_word(value), span=span)
    return Output(name, "any", _template(value), span=span)


def check_types(low: Lowering, node: Node) -> None:
    """Report words of outputs that are all but the name of a type, or the name of the output again: as a value,
    ``intt`` would be given as text."""
    for key, value in node.entries if isinstance(node, Mapping) else ():
        said = value.get("type") if isinstance(value, Mapping) else value
        if not isinstance(said, Scalar) or not isinstance(said.value, str):
            continue
        word = said.value.strip()
        if said is value and word == key.value and word not in TYPES:
            message = f"the output `{word}` is declared `{word}`, which is not a type"
            help_ = f"write its type, such as `{word}: string`; the text itself is written `{word}: {{value: {word}}}`"
            low.report("PLAN006", message, said.span, help_)
            continue
        name = word.partition("[")[0]
        meant = None if name in TYPES else meant_word(name, sorted(TYPES), 1 if len(name) <= 5 else 2)
        if meant is None:
            continue
        text = f" The text itself is written `{key.value}: {{value: {word}}}`" if said is value else ""
        message = f"the output `{key.value}` is declared `{word}`, which is not a type"
        low.report("PLAN006", message, said.span, f"did you mean `{meant}`?{text}")


def _template(value: Any) -> Any:
    """A bare reference such as ``artifacts.sources`` means the value, so it becomes the template that gives it."""
    if isinstance(value, str) and re.fullmatch(_REFERENCE, value.strip()):
        return "{{ " + value.strip() + " }}"
    return value


def artifacts(node: Node) -> tuple[Artifact, ...]:
    if not isinstance(node, Sequence):
        return ()
    return tuple(artifact for item in node.items if (artifact := _artifact(item)))


RETENTIONS = ("forever", "keep", "plan", "run")
"""Words that say how long an artifact is kept; else it is a duration or a number of versions."""
_VERSIONS = r"([1-9][0-9]{0,5})\s*versions?"


def versions_kept(word: str) -> int:
    """The number of ``3 versions``, 0 for anything else."""
    found = re.fullmatch(_VERSIONS, word.strip())
    return int(found[1]) if found else 0


def check_retention(low: Lowering, node: Node) -> None:
    """Report a retention that says nothing."""
    for item in node.items if isinstance(node, Sequence) else ():
        said = item.get("retention") if isinstance(item, Mapping) else None
        word = values.text(said) if said is not None else ""
        if said is None or not word or word in RETENTIONS or versions_kept(word):
            continue
        if parse_duration(word) is None:
            near = nearest(word, RETENTIONS)
            meant = f", did you mean `{near}`?" if near else ""
            message = f"`{word}` does not say how long an artifact is kept{meant}"
            low.report("PLAN006", message, said.span, "write `forever`, `run`, `7d` or `3 versions`")


def check_places(low: Lowering, node: Node) -> None:
    """Report constant paths of artifacts that lead out of the working directory."""
    for item in node.items if isinstance(node, Sequence) else ():
        said = item.get("path") if isinstance(item, Mapping) else item
        path = values.text(said) if said is not None else ""
        if said is None or "{{" in path or not path:
            continue
        whole = os.path.normpath(path)
        if whole.startswith("/") or whole.split("/")[0] == "..":
            message = f"an artifact cannot be `{path}`: it lies outside the working directory"
            low.report("PLAN006", message, said.span, "copy the file to the working directory first")


def _artifact(node: Node) -> Artifact | None:
    if isinstance(node, Scalar):
        path = values.text(node)
        return Artifact(path, path, span=node.span) if path else None
    if not isinstance(node, Mapping):
        return None
    parts = {str(key.value): values.text(value) for key, value in node.entries}
    name, path = parts.get("name", ""), parts.get("path", "")
    kind, retention, source = parts.get("type", ""), parts.get("retention", ""), parts.get("from", "")
    return Artifact(name or path or source, path, kind, retention, source, node.span)


_EXHAUSTED = frozenset(["stop", "gate", "skip_optional", "degrade"])
_AMOUNTS = ("tokens", "calls", "attempts", "iterations", "depth")


def budgets(low: Lowering, node: Node, default: Budgets) -> Budgets:
    """Limits; those not named are the default's."""
    found: dict[str, Any] = {}
    for key, value in node.entries if isinstance(node, Mapping) else ():
        name = str(key.value)
        if name == "time":
            found[name] = values.duration(low, value)
        elif name == "cost":
            found[name] = values.money(low, value)
        elif name in _AMOUNTS:
            found[name] = values.count(low, value)
        elif name == "warn":
            found[name] = values.fraction(low, value)
            if (found[name] or 0) > 1:
                message = f"`{values.text(value)}` is more than the whole limit"
                low.report("PLAN006", message, value.span, "a share is at most `100%`")
        elif name == "on_exhausted" and (word := values.text(value)) in _EXHAUSTED:
            found[name] = word
    return default._replace(**found)
