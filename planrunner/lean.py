"""The C parts of standard modules, without the Python around them, which costs a short run several milliseconds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

__all__ = ["CacheAlone", "blake2b", "deque", "partial", "sha256", "signal"]

if TYPE_CHECKING:
    import signal
    from collections import deque
    from functools import partial
    from hashlib import blake2b, sha256
    from types import ModuleType
    from typing import Any

    _lru_cache_wrapper: Any = None
else:
    try:
        import _signal as signal
        from _collections import deque
        from _functools import _lru_cache_wrapper, partial
    except ImportError:  # another interpreter than CPython
        import signal
        from collections import deque
        from functools import partial

        _lru_cache_wrapper = None
    try:
        from _sha256 import sha256  # CPython 3.11; ``hashlib`` loads OpenSSL and takes ten times as long
    except ImportError:
        try:
            from _sha2 import sha256  # CPython 3.12 and later
        except ImportError:
            from hashlib import sha256
    try:
        from _blake2 import blake2b  # beside ``hashlib`` for the same reason
    except ImportError:
        from hashlib import blake2b


class CacheAlone:
    """Within this context ``functools`` has its ``lru_cache`` and nothing else, unless it is loaded already.

    ``_sqlite3`` asks for that one decorator when it is loaded; with it come ``collections``, ``operator``, ``types``
    and more, which take longer than SQLite itself.
    """

    def __enter__(self) -> None:
        self._lent: ModuleType | None = None
        # with threads about somebody else might load the real one at this moment
        if _lru_cache_wrapper is not None and not {"functools", "threading"} & sys.modules.keys():
            self._lent = type(sys)("functools")
            self._lent.__dict__["lru_cache"] = _lru_cache
            sys.modules["functools"] = self._lent

    def __exit__(self, *_: object) -> None:
        if self._lent is not None and sys.modules.get("functools") is self._lent:
            del sys.modules["functools"]


def _lru_cache(size: int) -> Any:
    return lambda function: _lru_cache_wrapper(function, size, False, tuple)
