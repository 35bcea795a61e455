"""What the built-in capabilities are for and what they take and give, as published in ``schemas/capabilities``: reading
it imports no capability.

The files are made from the signatures by ``docs/generate.py``; a test holds each against its function.
"""

from __future__ import annotations

import json
import os
from typing import Any

from planrunner.jsontext import read_json
from planrunner.plan.model import Capability, Field
from planrunner.resources import read_data

Json = Any

_TUPLES = ("risks", "spends", "foreign", "own", "preconditions", "writes")
_read: dict[str, dict[str, Capability]] = {}


def family_of(name: str) -> str:
    """The family in whose file a capability stands; those without a family are together in ``core``."""
    family, dot, _ = name.partition(".")
    return family if dot else "core"


def description_of(name: str) -> Capability:
    """The description of a built-in capability. Raises FileNotFoundError or KeyError for one that is not published."""
    family = family_of(name)
    if family not in _read:
        text = read_data(os.path.join("schemas", "capabilities"), f"{family}.json")
        _read[family] = {each["name"]: _parsed(each) for each in read_json(text)["capabilities"]}
    return _read[family][name]


def _parsed(data: dict[str, Json]) -> Capability:
    fields: dict[str, Json] = {**data}
    for key in _TUPLES:
        fields[key] = tuple(data.get(key, ()))
    for key in ("inputs", "outputs"):
        fields[key] = tuple(Field(**field) for field in data.get(key, ()))
    return Capability(**fields)


def published(family: str, found: list[Capability]) -> str:
    """The text of the file of a family; what is as by default is left out."""
    rows = [_sparse(each, Capability._field_defaults) for each in sorted(found)]
    title = "What `planrunner` can call"
    whole = {"title": title, "family": family, "format": 1, "capabilities": rows}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _sparse(record: Capability | Field, defaults: dict[str, Json]) -> dict[str, Json]:
    data = {key: value for key, value in record._asdict().items() if key not in defaults or value != defaults[key]}
    for key in ("inputs", "outputs"):
        if key in data:
            data[key] = [_sparse(field, Field._field_defaults) for field in data[key]]
    return data
