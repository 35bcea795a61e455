"""A loaded plan as JSON text that loads without any parser, places included.

The expressions in templates are kept beside the plan, so that rendering needs no parser either. The text begins with
the number of the layout, so that what another version wrote is not misread.
"""

from __future__ import annotations

import gc
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from planrunner.jsontext import read_json
from planrunner.later import Later
from planrunner.plan.model import Plan, Tree

if TYPE_CHECKING:
    from planrunner.plan.expressions.parse import parse, remember
    from planrunner.plan.templates import codes, tree_of
else:
    parse = Later("planrunner.plan.expressions.parse:parse")
    remember = Later("planrunner.plan.expressions.parse:remember")
    codes = Later("planrunner.plan.templates:codes")
    tree_of = Later("planrunner.plan.templates:tree_of")


LAYOUT = 8


class _Remembered(msgspec.Struct, frozen=True, array_like=True):
    """An expression in a template."""

    text: str
    tree: Tree
    paths: tuple[tuple[str, ...], ...]


class _Compiled(msgspec.Struct, frozen=True, array_like=True):
    layout: int
    in_templates: list[_Remembered]
    plan: Plan


def dump(plan: Plan) -> str:
    """The plan as text, complete: ``load(dump(plan)) == plan``. Its numbers are finite: the parser refuses others."""
    try:
        packed = _ENCODER.encode(plan).decode()
    except UnicodeEncodeError:  # a text with halves of characters, which JSON can write and UTF-8 cannot
        packed = json.dumps(msgspec.to_builtins(plan), separators=(",", ":"), allow_nan=False)
    expressions = _ENCODER.encode(_in_templates(packed)).decode()
    return f"[{LAYOUT},{expressions},{packed}]"


_JSON_TEXT = r'"(?:[^"\\]|\\.)*"'


def _in_templates(packed: str) -> list[_Remembered]:
    """Text, tree and paths of each expression in the templates of a packed plan."""
    if "{{" not in packed and "{%" not in packed:
        return []
    expressions: dict[str, _Remembered] = {}
    for text in dict.fromkeys(re.findall(_JSON_TEXT, packed)):
        if "{{" in text or "{%" in text:
            for code in codes(tree_of(read_json(text)).nodes):
                if code.text and code.text not in expressions:
                    expression = parse(code.text)
                    expressions[code.text] = _Remembered(code.text, Tree(expression.tree), expression.paths)
    return list(expressions.values())


def load(text: str) -> Plan:
    """The plan of a text that ``dump`` wrote. Raises ValueError where it is damaged or of another layout."""
    collecting = gc.isenabled()
    gc.disable()  # everything made here stays alive: a collection in between only costs
    try:
        if not text.startswith(f"[{LAYOUT},"):
            raise ValueError(f"the compiled plan has another layout than {LAYOUT}, which this version reads")
        try:
            compiled = _decoder().decode(text)
        except msgspec.DecodeError as error:
            if isinstance(error, msgspec.ValidationError):
                raise
            compiled = msgspec.convert(json.loads(text), _Compiled, dec_hook=_made)
        for each in compiled.in_templates:
            remember(each.text, each.tree, each.paths)
        return compiled.plan
    finally:
        if collecting:
            gc.enable()


def _made(kind: type, value: Any) -> Any:
    return Tree(_tuple(value))


def _tuple(value: Any) -> Any:
    """Lists that were tuples, all the way down: expression trees hold no other lists."""
    return tuple([_tuple(item) if item.__class__ is list else item for item in value])


_ENCODER = msgspec.json.Encoder()


@cache
def _decoder() -> msgspec.json.Decoder[_Compiled]:
    """Made for the first plan that is read: it looks at every record of the model."""
    return msgspec.json.Decoder(_Compiled, dec_hook=_made)
