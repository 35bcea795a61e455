"""Mappings that many records share as the default of a field, so that none of them can change what the others have."""

from __future__ import annotations

from typing import Any, NoReturn


class Frozen(dict[Any, Any]):
    """A dict, for JSON and for whatever asks whether it is one, that stays as it was made; ``|`` and ``copy`` make a
    dict that can be changed. A ``MappingProxyType`` is refused by both."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a mapping that is the default of a field is shared and not changed; give one of your own")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[Frozen], tuple[dict[Any, Any]]]:
        return Frozen, (dict(self),)


EMPTY = Frozen()
