"""The C parts of standard modules, without the Python around them, which costs a short run several milliseconds."""

from __future__ import annotations

import sys

from planrunner.record import TYPE_CHECKING

__all__ = ["deque", "load_sqlite", "partial", "sha256", "signal"]

if TYPE_CHECKING:
    import signal
    from collections import deque
    from collections.abc import Callable
    from functools import partial
    from hashlib import sha256
    from types import ModuleType
    from typing import Any
else:
    try:
        import _signal as signal
        from _collections import deque
        from _functools import partial
    except ImportError:  # another interpreter than CPython
        import signal
        from collections import deque
        from functools import partial
    try:
        from _sha256 import sha256  # CPython 3.11; ``hashlib`` loads OpenSSL and takes ten times as long
    except ImportError:
        try:
            from _sha2 import sha256  # CPython 3.12 and later
        except ImportError:
            from hashlib import sha256


def load_sqlite() -> ModuleType:
    """``sqlite3`` without the package around it, which imports ``datetime`` and more.

    The C part fetches ``lru_cache`` from ``functools`` when it is loaded, to keep statements by, and nothing else. That
    module brings five others along, and together they take longer than opening the database: where nobody has loaded it
    yet, its own C part stands in for it during this import.
    """
    try:
        if "functools" in sys.modules:
            import _sqlite3
        else:
            sys.modules["functools"] = _only_lru_cache()
            try:
                import _sqlite3
            finally:
                del sys.modules["functools"]
    except ImportError:  # another interpreter than CPython
        import sqlite3

        return sqlite3
    return _sqlite3


def _only_lru_cache() -> ModuleType:
    from _functools import _lru_cache_wrapper  # type: ignore[import-not-found]

    def lru_cache(size: int) -> Callable[[Any], Any]:
        return lambda function: _lru_cache_wrapper(function, size, False, tuple)

    module = type(sys)("functools")
    module.lru_cache = lru_cache  # type: ignore[attr-defined]
    return module
