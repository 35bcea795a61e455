"""A loaded plan as text that loads without any parser: JSON arrays by position, places included.

A record is a flat array ``[index, value, index, value, …]`` of the fields that differ from their defaults; what a value
is follows from the type of its field in ``model``. Expressions of one text share one entry of a pool, and the
expressions in templates are kept beside it, so that rendering needs no parser either. The text begins with the number
of the layout, so that what another version wrote is not misread. Data of the author (inputs, notes …) is kept as JSON
has it.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from functools import cache
from itertools import compress
from operator import is_not
from typing import Any

from planrunner.jsontext import encode_basestring_ascii as _text
from planrunner.jsontext import joined, read_json, write_json
from planrunner.plan import model
from planrunner.plan.expressions.parse import parse, remember
from planrunner.plan.model import Expression, Plan
from planrunner.plan.templates import codes, tree_of
from planrunner.source import Span

LAYOUT = 7

_Pool = dict[Any, Any]
"""While packing: the number of each expression text. While making: text, tree and paths by number."""
_Pack = Callable[[Any, _Pool], str]
_Make = Callable[[Any, _Pool], Any]
_Codec = tuple[_Pack, _Make]
"""Writes a value as JSON text, and makes it again of what JSON gives."""


def dump(plan: Plan) -> str:
    """The plan as text, complete: ``load(dump(plan)) == plan``."""
    pool: _Pool = {}
    packed = _codec("Plan")[0](plan, pool)
    expressions = [[text if text.__class__ is str else text[0], tree, paths] for text, (_, tree, paths) in pool.items()]
    return f"[{LAYOUT},{write_json(expressions)},{write_json(_in_templates(packed))},{packed}]"


_JSON_TEXT = r'"(?:[^"\\]|\\.)*"'


def _in_templates(packed: str) -> list[Any]:
    """Text, tree and paths of each expression in the templates of a packed plan."""
    if "{{" not in packed and "{%" not in packed:
        return []
    expressions: dict[str, Any] = {}
    for text in dict.fromkeys(re.findall(_JSON_TEXT, packed)):
        if "{{" in text or "{%" in text:
            for code in codes(tree_of(read_json(text)).nodes):
                if code.text and code.text not in expressions:
                    expression = parse(code.text)
                    expressions[code.text] = [code.text, expression.tree, expression.paths]
    return list(expressions.values())


def load(text: str) -> Plan:
    """The plan of a text that ``dump`` wrote. Raises ValueError where it is damaged or of another layout."""
    collecting = gc.isenabled()
    gc.disable()  # everything made here stays alive: a collection in between only costs
    try:
        layout, *rest = read_json(text)
        if layout != LAYOUT:
            raise ValueError(f"the compiled plan has layout {layout!r}, this version reads {LAYOUT}")
        expressions, in_templates, packed = rest
        for words, tree, paths in in_templates:
            remember(words, _tuple(tree), _tuple(paths))
        pool = {number: (words, _tuple(tree), _tuple(paths)) for number, (words, tree, paths) in enumerate(expressions)}
        plan: Plan = _codec("Plan")[1](packed, pool)
        return plan
    except (TypeError, IndexError, KeyError) as error:
        raise ValueError("the compiled plan is damaged") from error
    finally:
        if collecting:
            gc.enable()


@cache
def _codec(declared: str) -> _Codec:
    """The codec of a type, as ``model`` writes it: of a record, a tuple, one of these or None, or data."""
    if declared in _SPECIAL:
        return _SPECIAL[declared]
    if declared.endswith(" | None"):
        return _optional(*_codec(declared.removesuffix(" | None")))
    if declared.startswith("tuple["):
        item = declared[len("tuple[") : -1]
        if item.endswith(", ..."):
            return _many(*_codec(item.removesuffix(", ...")))
        return _several([_codec(each) for each in item.split(", ")])
    kind = getattr(model, declared, None)
    if not hasattr(kind, "_fields"):
        return _DATA
    # the codec itself is made with the first value: records hold one another
    return lambda value, pool: _record(kind)[0](value, pool), lambda packed, pool: _record(kind)[1](packed, pool)


@cache
def _record(kind: Any) -> _Codec:
    fields: tuple[str, ...] = kind._fields
    defaults = [kind._field_defaults.get(name, _REQUIRED) for name in fields]
    codecs = [_codec(kind.__annotations__[name].__forward_arg__) for name in fields]
    packers = [pack for pack, _ in codecs]
    makers = [None if codec is _DATA else codec[1] for codec in codecs]
    numbers = range(len(fields))
    names = [str(at) for at in numbers]
    build = tuple.__new__

    def pack(value: Any, pool: _Pool) -> str:
        row: list[str] = []
        for at in compress(numbers, map(is_not, value, defaults)):
            item, default = value[at], defaults[at]
            if item.__class__ is str:
                if item != default:
                    row += (names[at], _text(item))
            elif item != default or item.__class__ is not default.__class__:
                row += (names[at], packers[at](item, pool))
        return joined("[", row, "]")

    def make(row: Any, pool: _Pool) -> Any:
        values = defaults[:]
        pairs = iter(row)
        for at, item in zip(pairs, pairs, strict=True):
            maker = makers[at]
            values[at] = item if maker is None else maker(item, pool)
        return build(kind, values)

    return pack, make


_REQUIRED = object()


def _optional(pack: _Pack, make: _Make) -> _Codec:
    return (
        lambda value, pool: "null" if value is None else pack(value, pool),
        lambda packed, pool: None if packed is None else make(packed, pool),
    )


def _many(pack: _Pack, make: _Make) -> _Codec:
    return (
        lambda values, pool: joined("[", [pack(value, pool) for value in values], "]"),
        lambda packed, pool: tuple([make(item, pool) for item in packed]),
    )


def _several(codecs: list[_Codec]) -> _Codec:
    """A tuple with a type for each item."""
    return (
        lambda values, pool: joined("[", [pack(v, pool) for (pack, _), v in zip(codecs, values, strict=True)], "]"),
        lambda packed, pool: tuple([make(item, pool) for (_, make), item in zip(codecs, packed, strict=True)]),
    )


def _pack_expression(value: Any, pool: _Pool) -> str:
    text, tree, paths, span = value
    entry = pool.get(text)
    if entry is None:
        entry = pool[text] = (len(pool), tree, paths)
    elif entry[1] is not tree and entry[1] != tree:  # the names of commands mean what their own calls give
        entry = pool.setdefault((text, repr(tree)), (len(pool), tree, paths))
    return f"[{entry[0]},{span[0]},{span[1]}]"


def _make_expression(packed: Any, pool: _Pool) -> Any:
    number, start, end = packed
    build = tuple.__new__
    return build(Expression, (*pool[number], build(Span, (start, end))))


def _tuple(value: Any) -> Any:
    """Lists that were tuples, all the way down: expression trees and paths hold no other lists."""
    return tuple([_tuple(item) if item.__class__ is list else item for item in value])


def _pack_data(value: Any, _pool: _Pool) -> str:
    if value.__class__ is float and value - value == 0:
        return repr(value)
    return write_json(value)


def _make_spans(packed: Any, _pool: _Pool) -> tuple[tuple[str, Span], ...]:
    """Places of keys, flat: ``[key, start, end, key, start, end, …]``."""
    rest = iter(packed)
    build = tuple.__new__
    return tuple([(key, build(Span, (start, end))) for key, start, end in zip(rest, rest, rest, strict=True)])


_DATA: _Codec = (_pack_data, lambda packed, _pool: packed)
_SPECIAL: dict[str, _Codec] = {
    "Expression": (_pack_expression, _make_expression),
    "Span": (lambda span, _: f"[{span[0]},{span[1]}]", lambda packed, _: tuple.__new__(Span, packed)),
    "tuple[str, ...]": (lambda words, _: f"[{','.join(map(_text, words))}]", lambda packed, _: tuple(packed)),
    "tuple[tuple[str, Span], ...]": (
        lambda spans, _: f"[{','.join([f'{_text(key)},{start},{end}' for key, (start, end) in spans])}]",
        _make_spans,
    ),
    "str | tuple[str, ...] | None": (_pack_data, lambda packed, _: tuple(packed) if type(packed) is list else packed),
}
"""Types with a form of their own, of which plans have many or which their own parts do not tell apart."""
