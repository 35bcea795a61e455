"""The C parts of standard modules, without the Python around them, which costs a short run several milliseconds."""

from __future__ import annotations

from planrunner.record import TYPE_CHECKING

__all__ = ["deque", "partial", "signal"]

if TYPE_CHECKING:
    import signal
    from collections import deque
    from functools import partial
else:
    try:
        import _signal as signal
        from _collections import deque
        from _functools import partial
    except ImportError:  # another interpreter than CPython
        import signal
        from collections import deque
        from functools import partial
