"""What a capability function says about itself: inputs, outputs and texts out of its signature and docstring."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Container, Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from planrunner.capabilities.contract import Doc, declaration_of
from planrunner.capabilities.soundness import misdescribed
from planrunner.plan.model import Capability, Field

_NAMES = {name: getattr(typing, name) for name in ("Annotated", "Any", "Literal", "Optional", "Union")}
"""Names that annotations may use although their module imports them for type checkers only."""

_TYPES: dict[Any, tuple[str, Any]] = {
    str: ("string", {"type": "string"}),
    int: ("int", {"type": "integer"}),
    float: ("number", {"type": "number"}),
    bool: ("bool", {"type": "boolean"}),
    list: ("list", {"type": "array"}),
    tuple: ("list", {"type": "array"}),
    dict: ("map", {"type": "object"}),
    type(None): ("any", {"type": "null"}),
}
_PARTS = ("anyOf", "items", "prefixItems", "additionalProperties")


def describe(function: Callable[..., Any], plugin: str = "planrunner") -> Capability:
    """The description of a tagged function. Raises TypeError without a tag, and where no plan could call it or it
    cannot be shown."""
    declaration = declaration_of(function)
    if declaration is None:
        raise TypeError(f"{getattr(function, '__qualname__', function)!r} is not marked with @capability")
    hints = annotations_of(function)
    summary, description, texts = _texts(inspect.getdoc(function) or "")
    inputs = tuple(_inputs(function, hints, texts))
    gives = get_origin(hints.get("return")) or hints.get("return")  # a plain dict promises no names: any may be in it
    described = Capability(
        name=declaration.name,
        summary=summary,
        description=description,
        effect=declaration.effect,
        inputs=inputs,
        outputs=outputs_of(hints.get("return")),
        instant=declaration.instant,
        takes_run=declaration.takes_run,
        open_inputs=declaration.open_inputs or _takes_any(function, hints),
        open_outputs=declaration.open_outputs or (not declaration.process and gives is dict),
        probe=declaration.probe is not None,
        risks=declaration.risks,
        spends=declaration.spends,
        plugin=plugin,
        preview=declaration.preview is not None,
        undo=declaration.undo is not None,
        irreversible=declaration.irreversible,
        foreign=declaration.foreign,
        own=declaration.own,
        shaped=dict(declaration.shaped),
        preconditions=declaration.preconditions,
        writes=declaration.writes,
    )
    if why := misdescribed(described):
        raise TypeError(why)
    return described


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, or of a record. Raises TypeError that names the first one that cannot be read."""
    try:
        return get_type_hints(function, localns=_NAMES, include_extras=True)
    except Exception:  # an annotation is code, which may raise anything
        whole = inspect.unwrap(function)
        names = getattr(whole, "__globals__", {})
        for name, annotation in inspect.get_annotations(whole).items():
            alone = types.SimpleNamespace(__annotations__={name: annotation})
            try:
                get_type_hints(alone, names, _NAMES, include_extras=True)
            except Exception as error:
                what = "what it returns" if name == "return" else f"the parameter `{name}`"
                raise TypeError(f"the annotation {annotation!r} of {what} cannot be read: {error}") from error
        raise


def _inputs(function: Callable[..., Any], hints: Mapping[str, Any], texts: Mapping[str, str]) -> list[Field]:
    fields: list[Field] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "context" and not fields:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            fields += (_or_null(field(*part, None, texts.get(part[0], ""))) for part in unpacked(hints.get(name)))
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            shown = str(parameter).partition(":")[0]
            raise TypeError(f"the parameter `{shown}` of {function.__qualname__} cannot be given by name")
        required = parameter.default is parameter.empty
        default = None if required else parameter.default
        fields.append(field(name.removesuffix("_"), hints.get(name, Any), required, default, texts.get(name, "")))
    return [part._replace(schema=closed(part.schema)) for part in fields]


def closed(schema: Any) -> Any:
    """The schema of what is given: a record takes no keys that it does not name, which lint tells before a run."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) if key in _PARTS else value for key, value in schema.items()}
    if "properties" in inner:
        inner["properties"] = {name: closed(part) for name, part in inner["properties"].items()}
        inner["additionalProperties"] = False
    return inner


def unpacked(annotation: Any) -> list[tuple[str, Any, bool]]:
    """Name, annotation and whether it is required of what ``**options: Unpack[…]`` takes; empty where it takes any."""
    if get_origin(annotation) is not Unpack:
        return []
    (record,) = get_args(annotation)
    hints = get_type_hints(record, localns=_NAMES, include_extras=True)
    return [(name, hint, name in record.__required_keys__) for name, hint in hints.items()]


def _or_null(field: Field) -> Field:
    """An input that may be left out has no default of its own: null stands for that."""
    if field.required or not field.schema:
        return field
    members = field.schema["anyOf"] if field.schema.keys() == {"anyOf"} else [field.schema]
    return field._replace(schema={"anyOf": [*members, {"type": "null"}]})


def field(name: str, annotation: Any, required: bool = False, default: Any = None, text: str = "") -> Field:
    """One input or output out of its annotation."""
    doc = doc_of(annotation)
    kind, schema = schema_of(annotation)
    if doc and doc.code:
        schema = {**schema, "contentMediaType": doc.code}
    if doc and doc.quantity:
        schema.pop("format")  # the type of the field says it
    use = doc.use if doc else ""
    return Field(name, kind, required, default, doc.text if doc and doc.text else text, schema, use)


def doc_of(annotation: Any) -> Doc | None:
    return next((extra for extra in getattr(annotation, "__metadata__", ()) if isinstance(extra, Doc)), None)


def schema_of(annotation: Any) -> tuple[str, Any]:
    """The plan language's type and the JSON Schema of an annotation; ("any", {}) where nothing is known."""
    origin = get_origin(annotation)
    if origin is Annotated:
        doc = doc_of(annotation)
        inner = get_args(annotation)[0]
        if doc and doc.quantity:
            classes = {*(get_args(inner) or (inner,))}
            nothing = ["null"] if type(None) in classes else []
            number = "integer" if classes - {type(None)} == {int} else "number"
            return doc.quantity, {"type": ["string", number, *nothing], "format": f"plan-{doc.quantity}"}
        kind, schema = schema_of(inner)
        if doc and doc.form:
            names = [part["type"] for part in schema.get("anyOf", [schema])]
            schema = {"type": names[0] if len(names) == 1 else names, "format": doc.form}
        return kind, schema
    if origin in (Required, NotRequired):
        return schema_of(get_args(annotation)[0])
    arguments = get_args(annotation)
    if origin is Literal:
        kinds = {_TYPES.get(type(value), ("any", {}))[0] for value in arguments}
        return (kinds.pop() if len(kinds) == 1 else "any"), {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        schemas = [schema_of(member) for member in arguments]
        kinds = {kind for (kind, _), member in zip(schemas, arguments, strict=True) if member is not type(None)}
        return (kinds.pop() if len(kinds) == 1 else "any"), {"anyOf": [schema for _, schema in schemas]}
    if is_typeddict(annotation) or hasattr(annotation, "_fields"):
        hints = get_type_hints(annotation, localns=_NAMES, include_extras=True)
        return "map", {"type": "object", "properties": {name: schema_of(hint)[1] for name, hint in hints.items()}}
    kind, schema = _TYPES.get(origin or annotation, ("any", {}))
    if origin is tuple and arguments[-1:] != (Ellipsis,):
        parts = [schema_of(argument)[1] for argument in arguments]
        return kind, {**schema, "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    if kind == "list" and arguments:
        return kind, {**schema, "items": schema_of(arguments[0])[1]}
    if kind == "map" and len(arguments) == 2:
        return kind, {**schema, "additionalProperties": schema_of(arguments[1])[1]}
    return kind, dict(schema)


def outputs_of(returned: Any) -> tuple[Field, ...]:
    """The outputs that a return annotation promises."""
    annotation = get_args(returned)[0] if get_origin(returned) is Annotated else returned
    if annotation is None or annotation is type(None) or is_vehicle(annotation):
        return ()
    if is_typeddict(annotation) or hasattr(annotation, "_fields"):
        hints = get_type_hints(annotation, localns=_NAMES, include_extras=True)
        optional: Container[str] = getattr(annotation, "__optional_keys__", ())
        fields = []
        for name, hint in hints.items():  # annotations that are kept as text hide their `NotRequired` from the class
            origin = get_origin(hint)
            fields.append(field(name, hint, origin is Required or (origin is not NotRequired and name not in optional)))
        return tuple(fields)
    if schema_of(annotation)[0] in ("map", "any"):
        return ()
    return (field("value", returned, required=True),)


def is_vehicle(annotation: Any) -> bool:
    """Outcome, Spawn and Pause are how a function answers, not what it answers."""
    return getattr(annotation, "__name__", "") in ("Outcome", "Spawn", "Pause")


def _takes_any(function: Callable[..., Any], hints: Mapping[str, Any]) -> bool:
    named = [one.name for one in inspect.signature(function).parameters.values() if one.kind is one.VAR_KEYWORD]
    return any(not unpacked(hints.get(name)) for name in named)


def _texts(docstring: str) -> tuple[str, str, dict[str, str]]:
    """Summary, description and the texts of ``:param name:`` lines or of an ``Args:`` section."""
    body: list[str] = []
    texts: dict[str, str] = {}
    section = False
    for line in docstring.splitlines():
        stripped = line.strip()
        if stripped.startswith(":param ") and ":" in stripped[7:]:
            name, _, text = stripped[7:].partition(":")
            texts[name.split()[-1]] = text.strip()
        elif stripped in ("Args:", "Arguments:", "Parameters:"):
            section = True
        elif section and line[:1].isspace() and ":" in stripped:
            name, _, text = stripped.partition(":")
            texts[name.split("(")[0].strip()] = text.strip()
        else:
            section = section and not stripped
            body.append(line)
    summary, _, description = "\n".join(body).strip().partition("\n")
    return summary, description.strip(), texts
