"""``NamedTuple`` that costs less to define: what type checkers see is the one of ``typing``.

``typing.NamedTuple`` compiles every annotation and a constructor for each class; with some eighty classes on the way to
a running task that is a good part of what a short run may spend on start-up. Here annotations stay text and a
constructor is compiled when the first value is made. Everything else is alike: fields, defaults, methods, equality,
pickling, matching, ``_replace`` and ``_fields``.
"""

from __future__ import annotations

__all__ = ["TYPE_CHECKING", "NamedTuple"]

TYPE_CHECKING = False
"""Type checkers take a name like this for true. Modules on the way to a running task import it from here: ``typing``
loads regular expressions and more, which costs a short run as much as the interpreter itself."""

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from _collections import _tuplegetter

    _OWN = frozenset({"__module__", "__qualname__", "__annotations__", "__annotate__", "__annotate_func__"})

    class _Record(tuple):
        """What all records share; the fields of a class are properties of its own."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} takes {len(cls._fields)} values, not {len(made)}")
            return made

        def _replace(self, /, **changes):
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"{type(self).__name__} has no field {', '.join(changes)}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self):
            return tuple(self)

    def _first_new(cls, /, *values, **named):
        """Stands in until the first value is made: compiles the constructor, which checks arguments by itself."""
        fields = ", ".join(cls._fields)
        closing = "," if len(cls._fields) == 1 else ""
        source = f"lambda _cls, {fields}: _new(_cls, ({fields}{closing}))" if fields else "lambda _cls: _new(_cls)"
        constructor = eval(source, {"_new": tuple.__new__, "__builtins__": {}})  # noqa: S307 (names of fields only)
        constructor.__defaults__ = tuple(cls._field_defaults.values())
        constructor.__name__ = "__new__"
        constructor.__qualname__ = f"{cls.__qualname__}.__new__"
        cls.__new__ = staticmethod(constructor)
        return constructor(cls, *values, **named)

    class _Maker(type):
        def __new__(cls, name, bases, members):
            if not bases:
                return type.__new__(cls, name, bases, members)
            annotations = members.get("__annotations__", {})
            fields = tuple(annotations)
            defaults = {field: members[field] for field in fields if field in members}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"a field without a default follows one with a default in {name}")
            made = {key: value for key, value in members.items() if key not in annotations and key not in _OWN}
            for at, field in enumerate(fields):
                made[field] = _tuplegetter(at, "")
            made.update(
                __slots__=(),
                __module__=members["__module__"],
                __qualname__=members["__qualname__"],
                __annotations__=annotations,
                __match_args__=fields,
                __new__=_first_new,
                _fields=fields,
                _field_defaults=defaults,
            )
            return type(name, (_Record,), made)

    class NamedTuple(metaclass=_Maker):
        """The base that a class names; the class itself becomes a tuple with named fields."""
