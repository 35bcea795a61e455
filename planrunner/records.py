"""Records: values with named fields, which do not change once they are made."""

from __future__ import annotations

from typing import Any, Self, dataclass_transform

import msgspec
from msgspec import field
from msgspec.structs import asdict, astuple, replace

__all__ = ["Mutable", "Struct", "astuple", "defaults", "field", "fields"]


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A record. A mapping that is the default of a field is one of its own in each record."""

    def _replace(self, **changes: Any) -> Self:
        """The same with other values in some fields."""
        return replace(self, **changes)

    def _asdict(self) -> dict[str, Any]:
        """The fields by their names."""
        return asdict(self)


@dataclass_transform(eq_default=False, field_specifiers=(msgspec.field,))
class Mutable(msgspec.Struct, eq=False):
    """What changes while a run goes on; equal to itself alone."""


def fields(record: Any) -> tuple[str, ...]:
    """The names of the fields of a record or of a kind of records; none for anything else."""
    names: tuple[str, ...] = getattr(record, "__struct_fields__", getattr(record, "_fields", ()))
    return names


def defaults(record: Any) -> dict[str, Any]:
    """What the fields of a record, or of a kind of records, are where nothing is given."""
    if hasattr(record, "_field_defaults"):
        given: dict[str, Any] = record._field_defaults
        return given
    names, values = record.__struct_fields__, record.__struct_defaults__
    found = zip(names[len(names) - len(values) :], values, strict=True)
    return {name: value.factory() if hasattr(value, "factory") else value for name, value in found}
