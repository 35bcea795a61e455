"""What is wrong with the functions behind a capability, which its description does not tell; nothing is called."""

from __future__ import annotations

import inspect
import types
from collections import abc
from collections.abc import Callable, Iterable, Iterator
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    is_typeddict,
)

from planrunner.capabilities.contract import BESIDE, Declaration, Doc, declaration_of
from planrunner.capabilities.signature import annotations_of, is_vehicle, schema_of

_ANYTHING = (None, Any, object, type(None))
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_ABSTRACT = (*_MAPPINGS, abc.Sequence, abc.Iterable, abc.Collection)
QUANTITIES = ("duration", "size", "money")
"""Types of the plan language that Python has no word for."""
_DATA = "str, int, float, bool, None, list, dict, Literal, a TypedDict or a NamedTuple of these"


def faults_of(function: Callable[..., Any]) -> Iterator[str]:
    """What is wrong with a tagged function that can be described, and with those that its tag names, a sentence each.
    Raises TypeError where there is no tag, or an annotation that cannot be read."""
    declaration = declaration_of(function)
    if declaration is None:
        raise TypeError(f"{function!r} is not marked with @capability")
    yield from _kind(function, "the capability")
    if declaration.instant and declaration.process:
        yield "`instant=True` and `process=True` exclude each other"
    hints = annotations_of(function)
    for name in _inputs(function):
        what = f"the input `{name.removesuffix('_')}`"
        if name in hints:
            yield from _annotation(hints[name], what)
        else:
            yield f"{what} has no annotation, so nobody is told what it takes"
    yield from _annotation(hints.get("return"), "what it returns")
    if declaration.process and "return" in hints and not _waited_for(hints["return"]):
        said = "None" if hints["return"] is type(None) else _shown(hints["return"])
        yield f"it is `process=True` and declares to return `{said}`: it has to return a Spawn or a Pause"
    yield from _companions(declaration, function)


def _waited_for(annotation: Any) -> bool:
    """Whether a return annotation leaves room for what a process gives, and for nothing else."""
    annotation = _bare(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return all(map(_waited_for, get_args(annotation)))
    return annotation is Any or is_vehicle(annotation)


def _shown(annotation: Any) -> str:
    return str(annotation) if get_origin(annotation) else getattr(annotation, "__name__", str(annotation))


def _inputs(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that are inputs of their own."""
    found = dict(inspect.signature(function).parameters)
    if next(iter(found), "") == "context":
        del found["context"]
    return {name: one for name, one in found.items() if one.kind is not one.VAR_KEYWORD}


def _kind(function: object, what: str) -> Iterator[str]:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield f"{what} is an `async def`, which nobody awaits: it has to be a plain function"
    elif inspect.isgeneratorfunction(function):
        yield f"{what} is a generator, which nobody goes through: return a list"


# Annotations


def _annotation(annotation: Any, what: str) -> Iterator[str]:
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, Doc):
            yield from _doc(extra, what)
    if not _quantified(annotation) and (wrong := _no_data(annotation)) is not None:
        yield f"{what} has the type {wrong}, which JSON has no form for: it may be {_DATA}"


def _doc(doc: Doc, what: str) -> Iterator[str]:
    for part in ("text", "quantity", "code"):
        value: object = getattr(doc, part)
        if not isinstance(value, str):
            yield f"the {part} of the Doc of {what} is no text but {type(value).__name__}"
    if doc.quantity and str(doc.quantity) not in QUANTITIES:
        yield f"the quantity `{doc.quantity}` of {what} is none of {', '.join(QUANTITIES)}"


def _quantified(annotation: Any) -> bool:
    return any(isinstance(extra, Doc) and extra.quantity for extra in getattr(annotation, "__metadata__", ()))


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _no_data(annotation: Any) -> str | None:
    """The name of the first type in an annotation that has no form in JSON; None where all have one."""
    annotation = _bare(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _ANYTHING or is_vehicle(annotation) or hasattr(annotation, "__value__"):
        return None
    if origin is Literal:
        return next((repr(one) for one in arguments if not isinstance(one, (str, int, type(None)))), None)
    if hasattr(annotation, "_fields") or is_typeddict(annotation):
        return _first(annotations_of(annotation).values())
    if hasattr(annotation, "__supertype__"):
        return _no_data(annotation.__supertype__)
    if origin in (Union, types.UnionType, Required, NotRequired):
        return _first(arguments)
    if schema_of(annotation)[0] == "any" and (origin or annotation) not in _ABSTRACT:
        return f"`{getattr(annotation, '__name__', annotation)}`"
    if (origin or annotation) in _MAPPINGS and arguments:
        return _first(arguments[1:]) if _bare(arguments[0]) is str else f"`{annotation}`"
    return _first(one for one in arguments if one is not Ellipsis)


def _first(annotations: Iterable[Any]) -> str | None:
    return next(filter(None, map(_no_data, annotations)), None)


# The functions beside it


def _companions(declaration: Declaration, function: Callable[..., Any]) -> Iterator[str]:
    """``preview``, ``capture`` and ``probe`` take the inputs, ``undo`` what was captured and the outputs."""
    takes = _inputs(function)
    every = [name.removesuffix("_") for name in takes]
    needed = [name.removesuffix("_") for name, one in takes.items() if one.default is one.empty]
    for part in BESIDE:
        value: object = getattr(declaration, part)
        what = f"its `{part}`"
        if value is None:
            continue
        if not callable(value):
            yield f"{what} is no function but {type(value).__name__}"
            continue
        yield from _kind(value, what)
        yield from _call(value, what, (["before", "outputs"],) if part == "undo" else (every, needed))
    if declaration.undo is not None and declaration.capture is None:
        yield "it has `undo` and no `capture`, so nothing is known of the state before"
    if declaration.capture is not None and declaration.undo is None:
        yield "it has `capture` and no `undo`"


def _call(function: Callable[..., Any], what: str, calls: Iterable[list[str]]) -> Iterator[str]:
    """Why planrunner cannot call it with ``context`` and these names; nothing where it can."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # written in C: nobody knows
    first = ["context"] if next(iter(signature.parameters), "") == "context" else []
    renamed = {name.removesuffix("_"): name for name in signature.parameters if name.endswith("_")}
    for names in calls:
        try:
            signature.bind(*first, **{renamed.get(name, name): None for name in names})
        except TypeError as error:
            shown = ", ".join(f"`{name}`" for name in ("context", *names))
            yield f"{what} cannot be called with {shown}, as it is: {error}"
            return
