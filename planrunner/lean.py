"""The C parts of standard modules, without the Python around them, which costs a short run several milliseconds."""

from __future__ import annotations

from planrunner.record import TYPE_CHECKING

__all__ = ["deque", "partial", "sha256", "signal"]

if TYPE_CHECKING:
    import signal
    from collections import deque
    from functools import partial
    from hashlib import sha256
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
