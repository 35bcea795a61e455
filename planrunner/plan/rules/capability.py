"""Calls of capabilities: the capability exists, takes these inputs, and literal inputs have values that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from planrunner.diagnostics import Diagnostic, Edit, Fix, Label
from planrunner.jsontext import as_text
from planrunner.plan.commands.names import VERBS
from planrunner.plan.commands.statements import looks_like_calls
from planrunner.plan.expressions.quantities import amount, meant_quantity, parse_duration, parse_money, parse_size
from planrunner.plan.http_forms import is_address, is_condition, parse_status
from planrunner.plan.lower.actions import variable_of
from planrunner.plan.model import Action, Capability, Field, Task
from planrunner.plan.nearest import capability_family, nearest, nearest_capability
from planrunner.plan.rules.texts import Within, value_place
from planrunner.plan.rules.view import PlanView, find_word, has_key, names, span_of
from planrunner.plan.shapes import WITH_INPUTS
from planrunner.plan.templated import is_template
from planrunner.records import Struct

_KEEP_ONE = "keep one and move the other into a task of its own"


def check(view: PlanView) -> Iterable[Diagnostic]:
    used = view.used
    demanding = {name for name, found in used.items() if any(field.required for field in found.inputs)}
    for task in view.plan.tasks:
        if task.uses:
            capability = used.get(task.uses)
            if capability is None:
                yield _unknown(view, task, task.uses, "uses")
            elif capability.takes_run and not has_key(task, "run") and not capability.inputs:
                yield _nothing_to_run(view, task)
            else:
                if task.run is not None and has_key(task, "run") and not capability.takes_run:
                    yield _beside(task, "run", f"`{capability.name}` runs no script", _own_text(capability))
                elif has_key(task, "command") and looks_like_calls(task.command):
                    yield _beside(task, "command", "the capability runs, the command does not")
                if task.inputs or task.uses in demanding:
                    yield from _inputs(view, _Use(task, capability, task.inputs, task.run))
                if task.outputs:
                    yield from _outputs(view, task, capability)
        elif (
            task.inputs
            and not task.command
            and (task.steps or task.subplan or task.loop is not None or task.sub is not None)
        ):
            yield _unread(view, task)
        if task.rollback is not None:
            yield from _action(view, task, task.rollback, "rollback")


_EXITS = frozenset({"python.run"})
"""Capabilities that are a process of their own and take no script."""


def check_exit_codes(view: PlanView) -> Iterable[Diagnostic]:
    """Exit codes of tasks that have none. What a plugin gives is not known, nor what a person says of words."""
    for task in view.plan.tasks:
        capability = view.used.get(task.uses)
        if task.command or (task.uses and (capability is None or _exits(capability))):
            continue
        read = [each for each in (*task.expect, *task.postconditions) if each.expression is not None]
        place = next((each.span for each in read if each.expression and ("exit_code",) in each.expression.paths), None)
        if place is None:
            continue
        help_ = "say it at the task that does: it has `run`"
        what = f"`{task.uses}` runs no program" if task.uses else f"`{task.id}` runs no program itself"
        yield Diagnostic("PLAN235", f"{what}, so it has no exit code", place, help=help_)


def _exits(capability: Capability) -> bool:
    return (
        capability.takes_run
        or capability.plugin != "planrunner"
        or capability.name in _EXITS
        or any(field.name == "exit_code" for field in capability.outputs)
    )


def _nothing_to_run(view: PlanView, task: Task) -> Diagnostic:
    message = f"`{task.uses}` has nothing to run"
    if isinstance(task.inputs, dict) and "run" in task.inputs:
        place = find_word(view, task, "run", "with")
        return Diagnostic("PLAN008", message, place, help="`run` stands beside `id`, not under `with`")
    help_ = "give it `run: …`, a script or a list of arguments"
    return Diagnostic("PLAN008", message, span_of(task, "uses"), help=help_)


def _action(view: PlanView, task: Task, action: Action, key: str) -> Iterable[Diagnostic]:
    capability = view.capabilities.get(action.uses) if action.uses else None
    if action.uses and capability is None:
        yield _unknown(view, task, action.uses, key)
    elif capability is not None and action.run is not None and not capability.takes_run:
        message = f"`run` and `uses` cannot be combined: `{action.uses}` runs no script"
        yield Diagnostic("PLAN009", message, find_word(view, task, "run", key), help=_KEEP_ONE)
    elif capability is not None:
        yield from _inputs(view, _Use(task, capability, action.inputs, action.run, key))


class _Use(Struct):
    """A capability with the inputs that it is given: by a task, or by what undoes one (``key``)."""

    task: Task
    capability: Capability
    inputs: Any
    run: Any
    key: str = "with"

    def whole(self) -> Within:
        """Where the inputs stand."""
        return Within(self.task, self.key, self.inputs if self.key == "with" else {"with": self.inputs})


def _own_text(capability: Capability) -> str:
    """Where the text of a capability goes that takes one, such as code or SQL."""
    name = next((each.name for each in capability.inputs if each.name in ("code", "statement")), "")
    return f"write its text as `with: {{{name}: …}}`, or take `uses` out for a script of the shell" if name else ""


def _beside(task: Task, key: str, why: str, help_: str = "") -> Diagnostic:
    """What a task says to do beside its capability, which would do without it. A command in words may stand there: it
    tells people what the capability is for."""
    label = Label(span_of(task, "uses"), "`uses` is here")
    message = f"`{key}` and `uses` cannot be combined: {why}"
    return Diagnostic("PLAN009", message, span_of(task, key), labels=(label,), help=help_ or _KEEP_ONE)


def _unread(view: PlanView, task: Task) -> Diagnostic:
    """Inputs of a task that calls no capability itself."""
    span = span_of(task, "with")
    message = f"`with` of `{task.id}` has no effect: the task does not call a capability"
    if task.sub is None:
        return Diagnostic("PLAN008", message, span, help="the tasks inside read the names around them; remove it")
    fix = None
    if view.source.text[span.start : span.end] == "with" and not has_key(task, "params"):
        fix = Fix("write `params`", (Edit(span, "params"),))
    return Diagnostic("PLAN008", message, span, help="a subplan takes its values under `params`", fix=fix)


def _unknown(view: PlanView, task: Task, name: str, key: str) -> Diagnostic:
    span = find_word(view, task, name, key)
    missing = getattr(view.capabilities, "missing", None)
    if missing is not None and (why := missing(name)):
        return Diagnostic("PLAN007", f"the capability `{name}` cannot be used", span, help=why)
    close = VERBS.get(name) or nearest_capability(name, view.capabilities)
    if close:
        written = view.source.text[span.start : span.end] == name
        fix = Fix(f"use `{close}`", (Edit(span, close),), safe=False) if written else None
        return Diagnostic("PLAN007", f"unknown capability `{name}`, did you mean `{close}`?", span, fix=fix)
    family = capability_family(name)
    members = sorted(known for known in view.capabilities if known.startswith(f"{family}."))
    way = "`planrunner capabilities` lists the installed ones"
    if members:
        way = f"the family `{family}` has {names(members)}"
    if aside := getattr(view.capabilities, "aside", ""):
        way = f"{aside}; {way}"
    return Diagnostic("PLAN007", f"unknown capability `{name}`", span, help=way)


def _inputs(view: PlanView, use: _Use) -> Iterable[Diagnostic]:
    task, capability, inputs = use.task, use.capability, use.inputs
    given: Mapping[str, Any] = inputs if isinstance(inputs, dict) else {}
    fields = {field.name: field for field in capability.inputs}
    judged = use.key == "with" and capability.name in WITH_INPUTS and has_key(task, "with")
    meant: set[str | None] = set()
    for name, value in given.items():
        field = fields.get(name)
        if field is not None:
            if isinstance(value, str) or not judged:
                yield from (_unfit(view, use, field, fault) for fault in faults(value, field))
        elif not capability.open_inputs:
            close = nearest(str(name), fields) or _in_place_of(capability, given, str(name))
            meant.add(close)
            yield _unknown_input(view, use, str(name), close)
    if isinstance(inputs, dict) or inputs is None:
        for field in capability.inputs:
            absent = field.required and field.name not in given and field.name not in meant
            if absent and not (capability.takes_run and use.run is not None):
                yield _missing(view, use, field)


def _in_place_of(capability: Capability, given: Mapping[str, Any], name: str) -> str | None:
    """The one required input that is missing, where ``name`` is the one that the capability does not have and its value
    fits: what other tools call the input."""
    absent = [field for field in capability.inputs if field.required and field.name not in given]
    known = {field.name for field in capability.inputs}
    if len(absent) != 1 or given.keys() - known != {name} or any(faults(given[name], absent[0])):
        return None
    return absent[0].name


def _outputs(view: PlanView, task: Task, capability: Capability) -> Iterable[Diagnostic]:
    """Declared outputs that nothing gives: the capability gives others, and the plan says no value or file."""
    given = [field.name for field in capability.outputs]
    if not given or capability.open_outputs or capability.takes_run:
        return
    for output in task.outputs:
        if output.name in given or output.value is not None or output.path:
            continue
        span = find_word(view, task, output.name, "outputs")
        message = f"`{capability.name}` gives no output `{output.name}`"
        close = nearest(output.name, given)
        if close is None:
            yield Diagnostic("PLAN202", message, span, help=f"it gives {names(given)}")
            continue
        written = view.source.text[span.start : span.end] == output.name
        fix = Fix(f"rename it to `{close}`", (Edit(span, close),), safe=False) if written else None
        yield Diagnostic("PLAN202", f"{message}, did you mean `{close}`?", span, fix=fix)


def _unknown_input(view: PlanView, use: _Use, name: str, close: str | None) -> Diagnostic:
    capability = use.capability
    span = find_word(view, use.task, name, use.key)
    fields = [field.name for field in capability.inputs]
    if capability.takes_run and not fields:
        message = f"the input `{name}` does not reach the script of `{capability.name}`"
        return Diagnostic("PLAN008", message, span, help=f"pass it with `env: {{{variable_of(name)}: …}}`")
    message = f"`{capability.name}` takes no input `{name}`"
    if close:
        field = next(each for each in capability.inputs if each.name == close)
        written = view.source.text[span.start : span.end] == name and close not in use.inputs
        fits = written and not any(faults(use.inputs[name], field))
        alike = nearest(name, fields) == close
        fix = Fix(f"rename it to `{close}`", (Edit(span, close),), safe=alike) if fits else None
        way = f"did you mean `{close}`?" if alike else f"did you mean `{close}`, which is missing?"
        return Diagnostic("PLAN008", f"{message}, {way}", span, fix=fix)
    way = f"it takes {names(fields)}" if fields else "it takes no inputs"
    return Diagnostic("PLAN008", message, span, help=way)


def _missing(view: PlanView, use: _Use, field: Field) -> Diagnostic:
    about = f"{field.name}: {field.description}" if field.description else f"it is of type {field.type}"
    message = f"`{use.capability.name}` needs the input `{field.name}`"
    if use.key != "with":
        where = "" if use.inputs else " under `with:`"
        span = find_word(view, use.task, use.capability.name, use.key)
        return Diagnostic("PLAN008", f"{message}{where} of `{use.key}`", span, help=about)
    where = "" if has_key(use.task, "with") else " under `with:`"
    return Diagnostic("PLAN008", message + where, span_of(use.task, "with", "uses"), help=about)


def _unfit(view: PlanView, use: _Use, field: Field, fault: Fault) -> Diagnostic:
    """The finding about a value that is written out."""
    inside = () if use.key == "with" else ("with",)
    span, word = value_place(view, use.whole(), (*inside, field.name, *fault.path), fault.unknown)
    path = fault.path[:-1] if fault.unknown else fault.path
    named = field.name + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
    message = f"input `{named}` of `{use.capability.name}` {fault.said}"
    if not fault.near:
        return Diagnostic("PLAN008", message, span, help=fault.help or field.description)
    fix = Fix(f"write `{fault.near}`", (Edit(span, fault.near),), safe=False) if word else None
    return Diagnostic("PLAN008", f"{message}, did you mean `{fault.near}`?", span, fix=fix)


def _near(value: str, parse: Callable[[str], float | None]) -> str:
    """The quantity of the kind of ``parse`` that a text with another word for its unit means; empty without one."""
    near = meant_quantity(value) or ""
    return near if near and parse(near) is not None else ""


Json = Any
Path = tuple[str | int, ...]
Quick = Callable[[Json], bool]

_QUANTITIES: dict[str, tuple[Callable[[str], float | None], str, str]] = {
    "duration": (parse_duration, "a duration such as `30s` or `5m`", "seconds"),
    "size": (parse_size, "a size such as `50MB`", "bytes"),
    "money": (parse_money, "an amount such as `$2` or `$0.50`", "dollars"),
}


def _is_amount(parse: Callable[[str], float | None], value: Json) -> bool:
    return amount(value, parse) is not None


_FORMS: dict[str, tuple[Quick, str]] = {
    **{f"plan-{name}": (partial(_is_amount, parse), words) for name, (parse, words, _) in _QUANTITIES.items()},
    "http-status": (lambda value: parse_status(value) is not None, "a status such as 200, `2xx` or `200-299`"),
    "http-address": (is_address, "an address that starts with `http://` or `https://`"),
    "http-condition": (
        is_condition,
        "a condition on `status`, `headers`, `json` and `body`, such as `json.state == 'done'`",
    ),
    "fraction": (lambda value: isinstance(value, (int, float)) and 0 <= value <= 1, "a number from 0 to 1"),
}
"""What else a schema may ask of a text or number, under `format`."""
_SCHEMAS = {
    "string": {"type": "string"},
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "list": {"type": "array"},
    "map": {"type": "object"},
}
"""What an input of a type takes that publishes no schema."""
_WORDS = {"integer": "int", "boolean": "bool", "array": "list", "object": "map"}
"""Types of JSON Schema in the words of the plan language."""
_KINDS: tuple[tuple[type, str], ...] = ((str, "string"), (list, "array"), (dict, "object"))
_CLASSES: dict[str, tuple[type, ...]] = {
    "string": (str, int, float, bool),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_made: dict[int, tuple[Json, Quick]] = {}
REMEMBERED = 1024
"""Schemas that are kept ready for judging."""
SHOWN = 8
"""So many names at most stand in a message."""


class Fault(Struct):
    """One value that does not fit: ``path`` leads to it from the input, ``said`` is what it is and what was expected;
    ``near`` is what to write instead of the last word of it."""

    path: Path
    said: str
    help: str = ""
    near: str = ""
    unknown: bool = False
    """It is a key that the map around it does not have."""
    length: bool = False
    """It is a list, as expected, of another length."""


def faults(value: Json, field: Field) -> Iterator[Fault]:
    """Where the value of an input does not fit; nothing for what may be right."""
    known = _QUANTITIES.get(field.type)
    schema = field.schema or _SCHEMAS.get(field.type)
    if known is None and (not isinstance(schema, dict) or _quick(schema)(value)):
        return
    if value is None or is_template(value) or value == field.default:
        return
    if known is not None and isinstance(value, (str, int, float)):
        found = amount(value, known[0])
        if found is None:
            near = _near(str(value), known[0])
            said = f"is `{_short(value)}`" if near else f"is `{_short(value)}`, expected {known[1]}"
            yield Fault((), said, near=near)
        elif "integer" in _types(schema) and found != int(found):
            yield Fault((), f"is `{_short(value)}`, expected a whole number of {known[2]}")
    else:
        yield from _look(schema, value, ())


def _quick(schema: dict[str, Json]) -> Quick:
    """Whether a value fits beyond doubt, made once for each schema: nearly all values do, and need no words."""
    known = _made.get(id(schema))
    if known is None:
        if len(_made) >= REMEMBERED:
            _made.clear()
        known = _made[id(schema)] = (schema, _making(schema))
    return known[1]


def _making(schema: Json) -> Quick:
    if not isinstance(schema, dict) or not schema:
        return lambda value: True
    if "anyOf" in schema:
        members = [_making(member) for member in schema["anyOf"]]
        return lambda value: any(member(value) for member in members)
    if "enum" in schema:
        words = frozenset(choice for choice in schema["enum"] if isinstance(choice, str))
        return lambda value: isinstance(value, str) and value in words
    classes = frozenset(each for name in _types(schema) for each in _CLASSES.get(name, ()))
    if "prefixItems" in schema:
        return _making_fixed([_making(each) for each in schema["prefixItems"]])
    item, rest = _making(schema.get("items")), schema.get("additionalProperties")
    named = {name: _making(each) for name, each in schema.get("properties", {}).items()}
    other: Quick = (lambda value: False) if rest is False else _making(rest)

    form = _form(schema)

    def fits(value: Json) -> bool:
        if type(value) not in classes or not (form is None or form[0](value)):
            return False
        if isinstance(value, list):
            return all(map(item, value))
        return not isinstance(value, dict) or all(named.get(name, other)(each) for name, each in value.items())

    return fits


def _making_fixed(parts: list[Quick]) -> Quick:
    def fits(value: Json) -> bool:
        if type(value) is not list or len(value) != len(parts):
            return False
        return all(part(each) for part, each in zip(parts, value, strict=True))

    return fits


def _look(schema: Json, value: Json, path: Path) -> Iterator[Fault]:
    if not isinstance(schema, dict) or value is None or is_template(value):
        return
    if "anyOf" in schema:
        yield from _any(schema["anyOf"], value, path)
    elif "enum" in schema:
        if not any(
            choice == value and isinstance(choice, bool) == isinstance(value, bool) for choice in schema["enum"]
        ):
            yield _none_of(schema["enum"], value, path)
    elif not _is_of(value, _types(schema)):
        yield Fault(path, f"is {kind(value)}, expected {_joined([_WORDS.get(each, each) for each in _types(schema)])}")
    elif (form := _form(schema)) is not None and not form[0](value):
        yield Fault(path, f"is `{_short(value)}`, expected {form[1]}")
    elif isinstance(value, list):
        first = schema.get("prefixItems", [])
        if first and len(first) != len(value):
            yield Fault(path, f"has {_counted(len(value))}, expected {len(first)}", length=True)
        for number, item in enumerate(value):
            yield from _look(first[number] if number < len(first) else schema.get("items"), item, (*path, number))
    elif isinstance(value, dict):
        yield from _entries(schema, value, path)


def _entries(schema: dict[str, Json], value: dict[str, Json], path: Path) -> Iterator[Fault]:
    named, rest = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        if name in named:
            yield from _look(named[name], item, (*path, name))
        elif rest is False and not is_template(name):
            near = nearest(str(name), named) or ""
            way = "" if near else f"it has {', '.join(f'`{each}`' for each in list(named)[:SHOWN])}"
            yield Fault((*path, name), f"has no key `{name}`", way, near, unknown=True)
        else:
            yield from _look(rest, item, (*path, name))


def _any(members: list[Json], value: Json, path: Path) -> Iterator[Fault]:
    """What is wrong by the one alternative that a value of its kind can mean, or that none is of its kind."""
    faults = [list(_look(member, value, path)) for member in members]
    if not all(faults):
        return
    alike = [
        each
        for each, member in zip(faults, members, strict=True)
        if _of_its_kind(each[0], path) or "enum" in member or (_form(member) and _is_of(value, _types(member)))
    ]
    if alike:
        yield from alike[0]
        return
    words = [_WORDS.get(each, each) for member in members for each in _types(member) if each != "null"]
    yield Fault(path, f"is {kind(value)}, expected {_joined(list(dict.fromkeys(words)))}")


def _of_its_kind(fault: Fault, path: Path) -> bool:
    """Whether the value itself is what was expected, and wrong in what it holds."""
    return fault.path != path or fault.length


def _none_of(choices: list[Json], value: Json, path: Path) -> Fault:
    words = [str(choice) for choice in choices if choice not in ("", None)]
    near = (nearest(value, words) or "") if isinstance(value, str) else ""
    shown = f"`{_short(value)}`" if not isinstance(value, (list, dict)) else kind(value)
    way = f"it takes {', '.join(f'`{word}`' for word in words)}" if len(words) <= SHOWN else ""
    return Fault(path, f"is {shown}, which it does not take", "" if near else way, near)


def _form(schema: dict[str, Json]) -> tuple[Quick, str] | None:
    return _FORMS.get(schema.get("format", ""))


def _counted(count: int) -> str:
    return f"{count} item" if count == 1 else f"{count} items"


def _types(schema: Json) -> list[str]:
    found = schema.get("type", []) if isinstance(schema, dict) else []
    return list(found) if isinstance(found, list) else [found]


def _is_of(value: Json, types: list[str]) -> bool:
    if not types:
        return True
    if isinstance(value, bool):
        return "boolean" in types or "string" in types
    if isinstance(value, (int, float)):
        whole = isinstance(value, int) or value.is_integer()
        return "number" in types or "string" in types or ("integer" in types and whole)
    return next((name in types for each, name in _KINDS if isinstance(value, each)), True)


def kind(value: Json) -> str:
    """What a value is, in words."""
    for each, name in ((bool, "a bool"), (int, "an int"), (float, "a number"), (str, "a string"), (list, "a list")):
        if isinstance(value, each):
            return name
    return "a map"


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _short(value: Json) -> str:
    text = " ".join(as_text(value).split())
    return text if len(text) <= 40 else text[:39] + "…"
