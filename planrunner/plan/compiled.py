"""A loaded plan as text that loads without any parser: JSON arrays by position, places included.

A record is a flat array ``[index, value, index, value, …]`` of the fields that differ from their defaults; which kind
it is follows from the field that holds it, as the tables below say. Expressions of one text share one entry of a pool.
The text begins with the number of the layout, so that what another version wrote is not misread. Data of the author
(inputs, notes …) is kept as JSON has it.
"""

from __future__ import annotations

import gc
from _operator import is_not
from collections.abc import Callable
from itertools import compress
from typing import Any

from planrunner.jsontext import encode_basestring_ascii as _text
from planrunner.jsontext import joined, read_json, write_json
from planrunner.plan import model
from planrunner.plan.model import Budgets, Join, Loop, Plan, Retry, Script, Task
from planrunner.source import Span

LAYOUT = 3

_Pool = dict[Any, Any]
"""While packing: the number of each expression text. While making: text, tree and paths by number."""
_Pack = Callable[[Any, _Pool], str]
_Make = Callable[[Any, _Pool], Any]
_Codec = tuple[_Pack, _Make]
"""Writes a value as JSON text, and makes it again of what JSON gives."""


def dump(plan: Plan) -> str:
    """The plan as text, complete: ``load(dump(plan)) == plan``."""
    pool: _Pool = {}
    packed = _PLAN[0](plan, pool)
    expressions = [[text if text.__class__ is str else text[0], tree, paths] for text, (_, tree, paths) in pool.items()]
    return f"[{LAYOUT},{write_json(expressions)},{packed}]"


def load(text: str) -> Plan:
    """The plan of a text that ``dump`` wrote. Raises ValueError where it is damaged or of another layout."""
    collecting = gc.isenabled()
    gc.disable()  # everything made here stays alive: a collection in between only costs
    try:
        return _load(text)
    except (TypeError, IndexError, KeyError) as error:
        raise ValueError("the compiled plan is damaged") from error
    finally:
        if collecting:
            gc.enable()


def _load(text: str) -> Plan:
    layout, expressions, packed = read_json(text)
    if layout != LAYOUT:
        raise ValueError(f"the compiled plan has layout {layout!r}, this version reads {LAYOUT}")
    pool = {number: (words, _tuple(tree), _tuple(paths)) for number, (words, tree, paths) in enumerate(expressions)}
    plan: Plan = _PLAN[1](packed, pool)
    return plan


def _record(kind: Any, **codecs: _Codec) -> _Codec:
    """The codec of a NamedTuple; fields without a codec are JSON already."""
    fields: tuple[str, ...] = kind._fields
    defaults = [kind._field_defaults.get(name, _REQUIRED) for name in fields]
    packers = [codecs[name][0] if name in codecs else None for name in fields]
    makers = [codecs[name][1] if name in codecs else None for name in fields]
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
                packer = packers[at]
                row += (names[at], _pack_data(item, pool) if packer is None else packer(item, pool))
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


def _late(codec: Callable[[], _Codec]) -> _Codec:
    """A codec that is made with the first value it is for: small plans hold few kinds of records."""
    found: list[_Codec] = []

    def made() -> _Codec:
        if not found:
            found.append(codec())
        return found[0]

    return (
        lambda value, pool: made()[0](value, pool),
        lambda packed, pool: made()[1](packed, pool),
    )


def _optional(codec: _Codec) -> _Codec:
    """A value or None, for fields that must be given and may be None."""
    pack, make = codec
    return (
        lambda value, pool: "null" if value is None else pack(value, pool),
        lambda packed, pool: None if packed is None else make(packed, pool),
    )


def _many(codec: _Codec) -> _Codec:
    pack, make = codec
    return (
        lambda values, pool: joined("[", [pack(value, pool) for value in values], "]"),
        lambda packed, pool: tuple([make(item, pool) for item in packed]),
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
    return build(model.Expression, (*pool[number], build(Span, (start, end))))


def _tuple(value: Any) -> Any:
    """Lists that were tuples, all the way down: expression trees and paths hold no other lists."""
    return tuple([_tuple(item) if item.__class__ is list else item for item in value])


def _pack_data(value: Any, _pool: _Pool) -> str:
    if value.__class__ is float and value - value == 0:
        return repr(value)
    return write_json(value)


def _pack_words(words: Any, _pool: _Pool) -> str:
    return f"[{','.join(map(_text, words))}]"


def _pack_span(span: Any, _pool: _Pool) -> str:
    return f"[{span[0]},{span[1]}]"


def _make_spans(packed: Any, _pool: _Pool) -> tuple[tuple[str, Span], ...]:
    """Places of keys, flat: ``[key, start, end, key, start, end, …]``."""
    rest = iter(packed)
    build = tuple.__new__
    return tuple([(key, build(Span, (start, end))) for key, start, end in zip(rest, rest, rest, strict=True)])


def _pack_spans(spans: Any, _pool: _Pool) -> str:
    return f"[{','.join([f'{_text(key)},{start},{end}' for key, (start, end) in spans])}]"


_SPAN: _Codec = (_pack_span, lambda packed, _pool: tuple.__new__(Span, packed))
_TUPLES: _Codec = (_pack_data, lambda packed, _pool: _tuple(packed))
_SPANS: _Codec = (_pack_spans, _make_spans)
_RUN: _Codec = (_pack_data, lambda packed, _pool: tuple(packed) if packed.__class__ is list else packed)
_WORDS: _Codec = (_pack_words, lambda packed, _pool: tuple(packed))
_ITEMS: _Codec = (_pack_data, lambda packed, _pool: tuple(packed))
_EXPRESSION: _Codec = (_pack_expression, _make_expression)

_CRITERION = _late(lambda: _record(model.Criterion, expression=_optional(_EXPRESSION), span=_SPAN))
_CRITERIA = _many(_CRITERION)
_OUTPUTS = _many(_late(lambda: _record(model.Output, span=_SPAN)))
_ARTIFACTS = _many(_late(lambda: _record(model.Artifact, span=_SPAN)))
_BUDGETS = _record(Budgets)
_RETRY = _record(Retry, on=_WORDS)
_SCRIPT = _record(Script, values=_TUPLES, simple=_WORDS)
_ACTION = _late(lambda: _record(model.Action, run=_RUN, script=_SCRIPT, retry=_RETRY))
_PARAMS = _many(_late(lambda: _record(model.Param, choices=_ITEMS, span=_SPAN)))
_GATE = _late(
    lambda: _record(
        model.Gate,
        checks=_CRITERIA,
        roles=_WORDS,
        people=_WORDS,
        escalate=_record(model.Approvers, roles=_WORDS, people=_WORDS),
        on_reject=_record(model.Reject, span=_SPAN),
        options=_many(_record(model.Option, pros=_WORDS, cons=_WORDS, span=_SPAN, each=_optional(_EXPRESSION))),
        form=_PARAMS,
    )
)


def _pack_gated(gated: Any, pool: _Pool) -> str:
    return f"[{','.join([f'[{_text(label)},{_GATE[0](gate, pool)}]' for label, gate in gated])}]"


def _make_gated(packed: Any, pool: _Pool) -> tuple[tuple[str, model.Gate], ...]:
    return tuple([(label, _GATE[1](gate, pool)) for label, gate in packed])


_TASKS: _Codec = _late(lambda: _many(_TASK))
_SUB: _Codec = _late(lambda: _PLAN)
"""What tasks hold themselves."""
_TASK: _Codec = _record(
    Task,
    labels=_WORDS,
    run=_RUN,
    script=_SCRIPT,
    gate=_GATE,
    steps=_ITEMS,
    subplan=_TASKS,
    loop=_late(lambda: _record(Loop, until=_optional(_EXPRESSION), tasks=_TASKS)),
    fanout=_late(
        lambda: _record(model.Fanout, foreach=_EXPRESSION, axes=_many(_record(model.Axis, expression=_EXPRESSION)))
    ),
    computed=_many(_late(lambda: _record(model.Computed, expression=_EXPRESSION))),
    needs=_WORDS,
    join=_late(lambda: _record(Join, expression=_EXPRESSION, span=_SPAN)),
    edges=_many(_late(lambda: _record(model.Edge, condition=_EXPRESSION, span=_SPAN))),
    when=_EXPRESSION,
    preconditions=_CRITERIA,
    postconditions=_CRITERIA,
    expect=_CRITERIA,
    failure_modes=_many(_late(lambda: _record(model.FailureMode, detect=_CRITERION, span=_SPAN))),
    retry=_RETRY,
    env=_TUPLES,
    outputs=_OUTPUTS,
    artifacts=_ARTIFACTS,
    budgets=_BUDGETS,
    rollback=_ACTION,
    span=_SPAN,
    spans=_SPANS,
    watchdog=_many(_late(lambda: _record(model.Watch))),
    degraded=_ACTION,
    fresh=_late(lambda: _record(model.Fresh, inputs=_WORDS, outputs=_WORDS, condition=_EXPRESSION)),
    backup=_WORDS,
    sub=_SUB,
    checkpoint=_WORDS,
)
_PLAN: _Codec = _record(
    Plan,
    params=_PARAMS,
    tasks=_many(_TASK),
    budgets=_BUDGETS,
    limits=_TUPLES,
    env=_TUPLES,
    outputs=_OUTPUTS,
    artifacts=_ARTIFACTS,
    span=_SPAN,
    rollback=_late(lambda: _record(model.RollbackPolicy, only=_WORDS, budgets=_BUDGETS)),
    breakers=_many(_late(lambda: _record(model.Breaker, span=_SPAN))),
    gated=(_pack_gated, _make_gated),
)
