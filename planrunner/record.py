"""``NamedTuple`` that costs less to define: what type checkers see is the one of ``typing``.

``typing.NamedTuple`` compiles every annotation and a constructor for each class; with some eighty classes on the way to
a running task that is a good part of what a short run may spend on start-up. Here annotations stay text and a
constructor is made with the first value. Everything else is alike: fields, defaults, methods, equality,
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

    _new = tuple.__new__
    _CONSTRUCTORS = (
        lambda _cls: _new(_cls),
        lambda _cls, a: _new(_cls, (a,)),
        lambda _cls, a, b: _new(_cls, (a, b)),
        lambda _cls, a, b, c: _new(_cls, (a, b, c)),
        lambda _cls, a, b, c, d: _new(_cls, (a, b, c, d)),
        lambda _cls, a, b, c, d, e: _new(_cls, (a, b, c, d, e)),
        lambda _cls, a, b, c, d, e, f: _new(_cls, (a, b, c, d, e, f)),
        lambda _cls, a, b, c, d, e, f, g: _new(_cls, (a, b, c, d, e, f, g)),
        lambda _cls, a, b, c, d, e, f, g, h: _new(_cls, (a, b, c, d, e, f, g, h)),
        lambda _cls, a, b, c, d, e, f, g, h, i: _new(_cls, (a, b, c, d, e, f, g, h, i)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j: _new(_cls, (a, b, c, d, e, f, g, h, i, j)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n)),
    )
    """A constructor for each number of fields, compiled with this module: a class takes its code and names the fields
    in it, which costs a sixth of compiling one."""
    _Function = type(_CONSTRUCTORS[0])

    def _constructor(fields):
        count = len(fields)
        if count < len(_CONSTRUCTORS):
            return _CONSTRUCTORS[count].__code__
        names = ", ".join(fields)
        return eval(f"lambda _cls, {names}: _new(_cls, ({names}))").__code__  # noqa: S307 (names of fields only)

    def _first_new(cls, /, *values, **named):
        """Stands in until the first value is made: makes the constructor, which checks arguments by itself."""
        fields, qualname = cls._fields, f"{cls.__qualname__}.__new__"
        code = _constructor(fields)
        code = code.replace(co_varnames=("_cls", *fields), co_name="__new__", co_qualname=qualname)
        constructor = _Function(code, {"_new": _new}, "__new__", tuple(cls._field_defaults.values()))
        cls.__new__ = staticmethod(constructor)
        return constructor(cls, *values, **named)

    class _Record(tuple):
        """What all records share."""

        __slots__ = ()
        __new__ = _first_new

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

    _GETTERS = []
    """The properties for the first field, the second …: all classes share them."""

    class _Maker(type):
        def __new__(cls, name, bases, members):
            if not bases:
                return type.__new__(cls, name, bases, members)
            fields = tuple(members.setdefault("__annotations__", {}))
            defaults = {field: members[field] for field in fields if field in members}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"a field without a default follows one with a default in {name}")
            while len(_GETTERS) < len(fields):
                _GETTERS.append(_tuplegetter(len(_GETTERS), ""))
            members.update(zip(fields, _GETTERS, strict=False))
            members["__slots__"] = ()
            members["__match_args__"] = members["_fields"] = fields
            members["_field_defaults"] = defaults
            return type(name, (_Record,), members)

    class NamedTuple(metaclass=_Maker):
        """The base that a class names; the class itself becomes a tuple with named fields."""
