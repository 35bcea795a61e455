"""The capabilities that plugins registered, with the checks of their descriptions and functions; nothing is called."""

from __future__ import annotations

import inspect
import keyword
import re
import types
from collections import abc
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, is_typeddict

from planrunner.capabilities import builtin
from planrunner.capabilities.contract import BESIDE, Declaration, Doc, declaration_of
from planrunner.capabilities.faults import interrupts
from planrunner.capabilities.signature import annotations_of, describe, is_vehicle, schema_of
from planrunner.capabilities.soundness import EFFECTS, misdescribed
from planrunner.plan.model import Capability
from planrunner.plugins.reports import Problems, one_line
from planrunner.process import plugin_code
from planrunner.records import Struct


class Known(Struct):
    """A registered capability: its function, or where to import it from, and its description once it was needed."""

    target: Callable[..., Any] | str
    description: Capability | None
    plugin: str


class Catalogue:
    """What plugins have registered, by the name of the capability."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.left_out: dict[str, str] = {}
        """Names that a plugin wanted and does not have, each with the sentence that says why."""
        self.problems = Problems()

    def registrar(self, plugin: str, family: str) -> Callable[..., None]:
        """The ``register`` that a plugin is handed."""

        def register(name: str, target: Callable[..., Any] | str, description: Capability | None = None) -> None:
            if not isinstance(name, str):
                raise ValueError(f"a capability is named {name!r}, which is not a text, and is left out")
            if family and name.partition(".")[0] != family:
                raise ValueError(f"the capability `{name}` is not of the family `{family}` and is left out")
            holder = "planrunner" if name in builtin.TARGETS else getattr(self.known.get(name), "plugin", "")
            if holder:
                raise ValueError(f"the capability `{name}` is left out, {holder} has one of that name")
            if isinstance(target, str) and description is None:
                raise ValueError(f"the capability `{name}` is named by a place to import and has no description")
            if description is not None and (why := misdescribed(description)):
                raise ValueError(f"the capability `{name}` is left out, {why}")
            self.known[name] = Known(target, description, plugin)

        return register

    @plugin_code()
    def take_marked(self, plugin: object, name: str, family: str) -> None:
        """Register every function of a plugin that is marked."""
        register = self.registrar(name, family)
        for function in list(vars(plugin).values()):
            declaration = None
            try:
                declaration = declaration_of(function)
                if declaration is not None:
                    register(declaration.name, function)
            except ValueError as error:
                named = declaration.name if declaration is not None else ""
                self._leave_out(named, name, f"the plugin {name}: {error}")
            except BaseException as error:  # an object whose attributes raise
                if interrupts(error):
                    raise
                self.problems.add(name, f"the plugin {name}: {one_line(error)}")

    @plugin_code()
    def described(self, name: str, known: Known) -> Known:
        """With its description; one that cannot be described is left out."""
        target: Any = known.target
        try:
            target = builtin.load(known.target) if isinstance(known.target, str) else known.target
            description = describe(target, known.plugin)._replace(name=name)
        except BaseException as error:  # annotations are code of the plugin
            if interrupts(error):
                raise
            told = str(error) if isinstance(error, (TypeError, NameError)) else one_line(error)
            place = "" if isinstance(target, str) else place_of(target)
            why = f"the capability `{name}` of {known.plugin} is left out: {place}{told}"
            self._leave_out(name, known.plugin, why)
            self.known.pop(name)
            return known
        self.known[name] = known = known._replace(description=description)
        for fault in misnamed(description):
            self.problems.add(known.plugin, f"the capability `{name}` of {known.plugin}: {place_of(target)}{fault}")
        return known

    def describe_all(self) -> None:
        """Describe every capability there is, so that those that cannot be are left out and named."""
        for name, known in list(self.known.items()):
            if known.description is None:
                self.described(name, known)

    def _leave_out(self, name: str, plugin: str, why: str) -> None:
        self.left_out.setdefault(name, why)
        self.problems.add(plugin, why)


def place_of(function: object) -> str:
    """File and line of a function with a colon behind, as a compiler would say it; empty for what has none."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""


_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?")
LOOKING = ("pure", "read")
"""Effect classes of capabilities that change nothing."""


def mutates(described: Capability) -> bool:
    """Whether a call may change the world."""
    return described.effect not in LOOKING


def undocumented(described: Capability) -> Iterator[str]:
    """What of it has no words: itself, inputs, outputs."""
    if not described.summary:
        yield "it has no docstring, which says what it does"
    yield from (f"the input `{field.name}` has no text: annotate it with Doc(…)" for field in described.inputs
                if not field.description)  # fmt: skip
    yield from (f"the output `{field.name}` has no text: annotate it with Doc(…)" for field in described.outputs
                if not field.description)  # fmt: skip


def unsound(described: Capability) -> Iterator[str]:
    """What is wrong with its declaration."""
    yield from misnamed(described)
    for field in described.inputs:
        if not field.name.isidentifier() or (keyword.iskeyword(field.name) and not field.name.islower()):
            yield f"the input `{field.name}` has no name that a plan can write"
        if field.required and field.default is not None:
            yield f"the input `{field.name}` is required and has a default"
        wanted: dict[str, tuple[type, ...]] = {
            "string": (str,),
            "int": (int,),
            "number": (int, float),
            "bool": (bool,),
            "list": (list, tuple),
            "map": (dict,),
        }
        if not field.required and not (
            field.default is None or isinstance(field.default, wanted.get(field.type, (object,)))
        ):
            yield f"the default of the input `{field.name}` is not of its type {field.type}"
    yield from uncertain(described)


def misnamed(described: Capability) -> Iterator[str]:
    """What is wrong with its name and its effect class: callers rely on both."""
    if _NAME.fullmatch(described.name) is None:
        yield f"`{described.name}` is not named `family.verb` in lower case"
    if described.effect not in EFFECTS:
        yield f"the effect `{described.effect}` is not one of {', '.join(EFFECTS)}"
    if described.effect == "checkable" and not described.probe:
        yield "it is `checkable` and has no `probe`"


def uncertain(described: Capability) -> Iterator[str]:
    """What is missing before a change, and after it."""
    if not mutates(described):
        if described.undo or described.irreversible:
            yield f"it is `{described.effect}`, so there is nothing to undo"
        return
    if described.takes_run:
        return  # the task's own script says what it does, and its `rollback` how that is undone
    if not described.preview:
        yield "it changes something and has no `preview`"
    if described.undo and described.irreversible:
        yield "it has an `undo` and says that it is irreversible"
    if not (described.undo or described.irreversible):
        yield "it changes something: give it `capture` and `undo`, or say `irreversible=True`"


_ANYTHING = (None, Any, object, type(None))
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_ABSTRACT = (*_MAPPINGS, abc.Sequence, abc.Iterable, abc.Collection)
QUANTITIES = ("duration", "size", "money")
"""Types of the plan language that Python has no word for."""
_DATA = "str, int, float, bool, None, list, dict, Literal, a TypedDict or a NamedTuple of these"


def faults_of(function: Callable[..., Any]) -> Iterator[str]:
    """What is wrong with a tagged function that can be described, and with those that its tag names, a sentence each.
    Raises TypeError without a tag, or for an annotation that cannot be read."""
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
            yield f"{what} has no annotation, which says what it accepts"
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
    parameters = dict(inspect.signature(function).parameters)
    if next(iter(parameters), "") == "context":
        del parameters["context"]
    return {name: one for name, one in parameters.items() if one.kind is not one.VAR_KEYWORD}


def _kind(function: object, what: str) -> Iterator[str]:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield f"{what} is an `async def`: it has to be a plain function"
    elif inspect.isgeneratorfunction(function):
        yield f"{what} is a generator: return a list"


# Annotations


def _annotation(annotation: Any, what: str) -> Iterator[str]:
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, Doc):
            for part in ("text", "quantity", "code"):
                value: object = getattr(extra, part)
                if not isinstance(value, str):
                    yield f"the {part} of the Doc of {what} is not a text but {type(value).__name__}"
            if extra.quantity and str(extra.quantity) not in QUANTITIES:
                yield f"the quantity `{extra.quantity}` of {what} is not one of {', '.join(QUANTITIES)}"
    if (
        not any(isinstance(extra, Doc) and extra.quantity for extra in getattr(annotation, "__metadata__", ()))
        and (wrong := _no_data(annotation)) is not None
    ):
        yield f"{what} has the type {wrong}, which JSON has no form for: it may be {_DATA}"


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
            yield f"{what} is not a function but {type(value).__name__}"
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
        return  # written in C: unknown
    first = ["context"] if next(iter(signature.parameters), "") == "context" else []
    renamed = {name.removesuffix("_"): name for name in signature.parameters if name.endswith("_")}
    for names in calls:
        try:
            signature.bind(*first, **{renamed.get(name, name): None for name in names})
        except TypeError as error:
            shown = ", ".join(f"`{name}`" for name in ("context", *names))
            yield f"{what} cannot be called with {shown}, as it is: {error}"
            return
