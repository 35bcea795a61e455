"""Templates that are more than plain references, by Jinja in a sandbox that allows only what is named here.

Members are those of data, methods and filters are allow-lists, arithmetic is that of the expression language. ``if``
and ``for`` are allowed, with bounds on iterations and output; everything that stores, includes or defines is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, Undefined, UndefinedError, nodes, pass_context
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.filters import FILTERS
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context, LoopContext
from jinja2.visitor import NodeTransformer

from planrunner.plan.expressions.arithmetic import compute, negative
from planrunner.plan.expressions.functions import join, replace
from planrunner.plan.expressions.problem import Problem, TemplateError
from planrunner.plan.expressions.values import (
    LONGEST_TEXT,
    NAMES,
    EvaluationError,
    MissingName,
    Scope,
    bounded_text,
    items_of,
    json_of,
    kind,
    plain,
    text_of,
)
from planrunner.plan.nearest import nearest
from planrunner.plan.placeholders import placeholders, with_quoted_ids
from planrunner.plan.template_parsing import ParsingEnvironment

Json = Any

LONGEST_SOURCE = 65_536
"""Characters of one text that needs the template engine."""
MOST_ITERATIONS = 100_000
"""Turns of all loops of one text together."""

_TEXT_METHODS = frozenset(
    "upper lower strip lstrip rstrip split splitlines startswith endswith title capitalize".split()
)
_MAP_METHODS = frozenset(["items", "keys", "values", "get"])
_LOOP_MEMBERS = frozenset("index index0 revindex revindex0 first last length previtem nextitem depth depth0".split())
_PLAIN_FILTERS = (
    "abs capitalize count d default dictsort first float groupby int items last length list lower map max min reject"
    " rejectattr reverse round select selectattr sort string sum title trim truncate unique upper urlencode wordcount"
)
_INTERNAL = frozenset(["__called__", "__counted__", "__joined__"])
_REFUSED: dict[type[nodes.Node], str] = {
    nodes.Assign: "set",
    nodes.AssignBlock: "set",
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.FilterBlock: "filter",
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "import",
    nodes.Extends: "extends",
    nodes.Block: "block",
    nodes.With: "with",
}


def render_text(text: str, scope: Scope) -> Json:
    """The value of a text that is one whole template, else the rendered text. Raises TemplateError."""
    try:
        names, produce = _program(text)
        return produce({"__left__": [MOST_ITERATIONS], **_values(names, scope)})
    except TemplateError:
        raise
    except EvaluationError as error:
        raise TemplateError(f"{error.message}, in {_excerpt(text)}") from error
    except (UndefinedError, SecurityError) as error:
        raise TemplateError(f"{error.message}, in {_excerpt(text)}") from error
    except (TemplateSyntaxError, TemplateRuntimeError) as error:
        raise TemplateError(f"the template does not parse: {error.message}, in {_excerpt(text)}") from error
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError, MemoryError) as error:
        raise TemplateError(f"the template cannot be rendered: {error}, in {_excerpt(text)}") from error


def tree_of(text: str) -> nodes.Template | None:
    """The tree of a text with templates, for whoever follows what it reads; None where it does not parse."""
    try:
        return _environment().parse(with_quoted_ids(text))
    except (TemplateSyntaxError, RecursionError):
        return None


def faults(text: str) -> list[Problem]:
    """PLAN210 for what does not parse and what is refused, each at its placeholder where the text has no blocks."""
    if len(text) > LONGEST_SOURCE:
        return [Problem("PLAN210", f"a text with templates has at most {LONGEST_SOURCE:,} characters", 0, len(text))]
    if "{%" in text:
        return [
            Problem("PLAN210", said, *_named(text, said, *_line(text, line)), help)
            for said, line, help in _faults(text)
        ]
    return [
        Problem("PLAN210", said, *_named(text, said, found.start, found.end), help)
        for found in placeholders(text)
        for said, _, help in _faults(text[found.start : found.end])
    ]


def _named(text: str, message: str, start: int, end: int) -> tuple[int, int]:
    """Where the name that a message is about stands, between two offsets; these where it is not a single word there."""
    name = re.match(r"there is no \w+ `(\w+)`", message)
    found = list(re.finditer(rf"\b{name[1]}\b", text[start:end])) if name else []
    return (start + found[0].start(), start + found[0].end()) if len(found) == 1 else (start, end)


def _faults(text: str) -> Iterator[tuple[str, int, str]]:
    try:
        refused = list(_refusals(_environment().parse(with_quoted_ids(text))))
    except (TemplateSyntaxError, RecursionError) as error:
        message = getattr(error, "message", None) or "it is nested too deeply"
        literal = "for two braces as text write `{{ '{{' }}`, or wrap the part in `{% raw %}`"
        yield f"the template does not parse: {message}", getattr(error, "lineno", 1), literal
        return
    yield from refused


def _refusals(tree: nodes.Template) -> Iterator[tuple[str, int, str]]:
    environment = _environment()
    for node in tree.find_all(nodes.Node):
        line = node.lineno or 1
        if type(node) in _REFUSED:
            yield f"templates have no `{_REFUSED[type(node)]}`", line, "compute the value in a task and read its output"
        elif isinstance(node, nodes.For) and node.recursive:
            yield "loops of templates are not recursive", line, ""
        elif isinstance(node, nodes.Filter) and (node.name not in environment.filters or node.name in _INTERNAL):
            meant = nearest(node.name, environment.filters.keys() - _INTERNAL)
            yield f"there is no filter `{node.name}`", line, f"did you mean `{meant}`?" if meant else ""
        elif isinstance(node, nodes.Test) and node.name not in environment.tests:
            meant = nearest(node.name, environment.tests)
            yield f"there is no test `{node.name}`", line, f"did you mean `{meant}`?" if meant else ""
        elif isinstance(node, nodes.Call):
            yield from _refused_call(node, line)
        elif isinstance(node, (nodes.Getattr, nodes.Name)):
            name = node.attr if isinstance(node, nodes.Getattr) else node.name
            if name.startswith("_"):
                yield f"names that begin with an underscore, such as `{name}`, are not readable", line, ""


def _refused_call(node: nodes.Call, line: int) -> Iterator[tuple[str, int, str]]:
    target = node.node
    if isinstance(target, nodes.Getattr):
        if target.attr not in _TEXT_METHODS | _MAP_METHODS:
            allowed = nearest(target.attr, sorted(_TEXT_METHODS | _MAP_METHODS))
            yield f"there is no method `{target.attr}`", line, f"did you mean `{allowed}`?" if allowed else ""
    else:
        name = target.name if isinstance(target, nodes.Name) else "…"
        yield f"templates have no functions: `{name}(…)`", line, "use a filter, such as `{{ items | length }}`"


class _Missing(StrictUndefined):
    """A name that is not there: any use but ``default`` and ``is defined`` fails, with words of ours."""

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint:
            return self._undefined_hint
        if kind(self._undefined_obj) == "unknown":
            return f"nothing is called `{self._undefined_name}` here"
        return f"{NAMES[kind(self._undefined_obj)]} has no `{self._undefined_name}`"


class _Sandbox(ParsingEnvironment):
    """Members are looked up in data only, calls go to a few methods, operators are those of expressions."""

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])
    intercepted_unops = frozenset(["-", "+"])

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Undefined):
            return obj
        found = _member(obj, argument)
        return self.undefined(obj=obj, name=str(argument)) if found is _NOTHING else found

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        raise SecurityError("templates have no functions")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        for value in (left, right):
            if isinstance(value, Undefined):
                str(value)
        if operator == "**":
            raise EvaluationError("templates do not raise to powers")
        if operator == "//":
            result = compute("/", left, right)
            return result // 1 if kind(result) == "number" else result
        return compute(operator, left, right)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        return negative(arg) if operator == "-" else arg


_NOTHING = object()


def _member(obj: Any, key: Any) -> Any:
    if isinstance(obj, dict):
        if isinstance(key, str) and key in obj:
            return obj[key]
        if isinstance(key, int) and items_of(obj) is not obj:
            return _member(items_of(obj), key)
        return _NOTHING
    if isinstance(obj, (str, list, tuple)):
        if (isinstance(key, int) and -len(obj) <= key < len(obj)) or isinstance(key, slice):
            return obj[key]
        return _NOTHING
    if isinstance(obj, LoopContext):
        return getattr(obj, key) if key in _LOOP_MEMBERS else _NOTHING
    if kind(obj) == "group":
        try:
            return obj.resolve(key)
        except (KeyError, MissingName):
            return _NOTHING
    return _NOTHING


class _Bounding(NodeTransformer):
    """Sends what loops read and what ``~`` joins through filters that keep count, and calls of methods through one that
    looks for methods: a member of that name is data wherever it is not called."""

    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        target = node.node
        if not isinstance(target, nodes.Getattr):
            return node
        arguments = [nodes.Const(target.attr), *node.args]
        called = nodes.Filter(target.node, "__called__", arguments, node.kwargs, node.dyn_args, node.dyn_kwargs)
        return called.set_lineno(node.lineno)

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 (the name is the visitor's)
        self.generic_visit(node)
        assert isinstance(node.iter, nodes.Expr)
        node.iter = _filtered(node.iter, "__counted__")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), "__joined__")


def _filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


@pass_context
def _counted(context: Context, items: Iterable[Any]) -> Iterator[Any]:
    left = context["__left__"]
    for item in items:
        left[0] -= 1
        if left[0] < 0:
            raise EvaluationError(f"the loops of the template take more than {MOST_ITERATIONS:,} turns")
        yield item


def _called(value: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    allowed = _TEXT_METHODS if isinstance(value, str) else _MAP_METHODS if isinstance(value, dict) else ()
    if method not in allowed:
        raise EvaluationError(f"{NAMES[kind(_strict(value))]} has no method `{method}`")
    return getattr(value, method)(*args, **kwargs)


def _default(value: Any, other: Any = "", boolean: bool = False) -> Any:
    """As ``default`` of expressions: an optional parameter that was not given, which is null, counts as absent."""
    absent = isinstance(value, Undefined) or value is None or (boolean and not value)
    return other if absent else value


def _joined(items: list[Any]) -> str:
    return join([_strict(item) for item in items])


def _strict(value: Any) -> Any:
    if isinstance(value, Undefined):
        str(value)
    return value


def _join(items: Iterable[Any], separator: str = "", attribute: str | None = None) -> str:
    found = list(items)
    if attribute is not None:
        found = [_member(item, attribute) for item in found]
    return join([_strict(item) for item in found], separator)


def _replace(text: Any, old: str, new: str) -> str:
    return replace(text_of(_strict(text)), old, new)


def _indent(text: str, width: int = 4, first: bool = False, blank: bool = False) -> str:
    if not 0 <= width <= 80:
        raise EvaluationError("`indent` takes a width up to 80")
    bounded_text(text)
    if len(text) + text.count("\n") * width > LONGEST_TEXT:
        raise EvaluationError(f"the text would have more than {LONGEST_TEXT:,} characters")
    return str(FILTERS["indent"](text, width, first, blank))


def _tojson(value: Any, indent: int | None = None) -> str:
    import json

    if indent is None:
        return json_of(_strict(value))
    return bounded_text(
        json.dumps(json.loads(json_of(_strict(value))), ensure_ascii=False, indent=min(max(indent, 0), 8))
    )


def _output(value: Any) -> str:
    return text_of(_strict(value))


@lru_cache(maxsize=1)
def _environment() -> _Sandbox:
    sandbox = _Sandbox(
        undefined=_Missing,
        finalize=_output,
        keep_trailing_newline=True,
        comment_start_string="{#\x00",
        comment_end_string="\x00#}",
        cache_size=0,
    )
    sandbox.globals.clear()
    sandbox.filters = {name: FILTERS[name] for name in _PLAIN_FILTERS.split()}
    sandbox.filters |= {"join": _join, "replace": _replace, "indent": _indent, "tojson": _tojson, "json": _tojson}
    sandbox.filters |= {"default": _default, "d": _default, "string": _output}
    sandbox.filters |= {"__called__": _called, "__counted__": _counted, "__joined__": _joined}
    return sandbox


Produce = Callable[[dict[str, Any]], Json]


@lru_cache(maxsize=512)
def _program(text: str) -> tuple[tuple[str, ...], Produce]:
    """The names a text reads and the function that renders it."""
    if len(text) > LONGEST_SOURCE:
        raise TemplateError(f"a text with templates has at most {LONGEST_SOURCE:,} characters")
    source = with_quoted_ids(text)
    environment = _environment()
    tree = environment.parse(source)
    for message, _, help in _refusals(tree):
        raise TemplateError(f"{message}, in {_excerpt(text)}" + (f" ({help})" if help else ""))
    names = tuple(sorted(find_undeclared_variables(tree)))
    whole = _whole(source)
    if whole is not None:
        expression = environment.parse("{{" + whole + "}}").find(nodes.Output)
        tree = nodes.Template([nodes.Assign(nodes.Name("result", "store"), _only(expression), lineno=1)], lineno=1)
        return names, _value_of(environment, tree)
    tree = _Bounding().visit(tree)
    template = environment.from_string(tree)
    return names, lambda context: _bounded_output(template, context)


def _only(output: nodes.Output | None) -> nodes.Expr:
    assert output is not None
    return output.nodes[0]


def _value_of(environment: _Sandbox, tree: nodes.Template) -> Produce:
    tree = _Bounding().visit(tree)
    tree.set_environment(environment)
    template = environment.from_string(tree)

    def produce(values: dict[str, Any]) -> Json:
        context = template.new_context(values)
        for _ in template.root_render_func(context):
            pass
        result = _strict(context.vars["result"])
        return plain(list(result) if isinstance(result, Iterator) else result)

    return produce


def _bounded_output(template: Template, values: dict[str, Any]) -> str:
    parts, length = [], 0
    for part in template.root_render_func(template.new_context(values)):
        length += len(part)
        if length > LONGEST_TEXT:
            raise TemplateError(f"the rendered text would have more than {LONGEST_TEXT:,} characters")
        parts.append(part)
    return "".join(parts)


def _whole(source: str) -> str | None:
    """The inside of a text that is one placeholder and nothing else."""
    if "{%" in source:
        return None
    found = placeholders(source)
    if len(found) != 1 or found[0].start or found[0].end != len(source):
        return None
    return found[0].body.strip("-+ ") if found[0].body[:1] in "-+" else found[0].body


def _values(names: tuple[str, ...], scope: Scope) -> dict[str, Any]:
    values = {}
    for name in names:
        try:
            values[name] = scope.resolve(name)
        except (KeyError, MissingName):
            continue
    return values


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return f"`{line}`" if len(line) <= 80 else f"`{line[:79]}…`"


def _line(text: str, number: int) -> tuple[int, int]:
    """The offsets of a line, from 1."""
    start = 0
    for _ in range(number - 1):
        start = text.find("\n", start) + 1
    end = text.find("\n", start)
    return start, len(text) if end < 0 else end
