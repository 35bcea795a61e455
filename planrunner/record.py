"""``NamedTuple`` that costs less to define: what type checkers see is the one of ``typing``.

Defining a class with ``typing.NamedTuple`` compiles every annotation; with some hundred fields that is a third of
what a short run may spend on start-up. Here annotations stay text. Everything else is alike: fields, defaults, methods,
equality, pickling, ``_replace`` and ``_fields``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    _OWN = frozenset({"__module__", "__qualname__", "__annotations__", "__annotate__", "__annotate_func__"})

    class _Maker(type):
        def __new__(cls, name, bases, members):
            if not bases:
                return type.__new__(cls, name, bases, members)
            fields = members.get("__annotations__", {})
            defaults = tuple(members[field] for field in fields if field in members)
            made = namedtuple(name, fields, defaults=defaults, module=members["__module__"])
            made.__annotations__ = fields
            made.__qualname__ = members["__qualname__"]
            for key, value in members.items():
                if key not in fields and key not in _OWN:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Maker):
        pass
