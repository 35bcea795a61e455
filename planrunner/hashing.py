"""SHA-256 without OpenSSL: the interpreter's own module costs a tenth of ``hashlib`` at import."""

from __future__ import annotations

from planrunner.record import TYPE_CHECKING

__all__ = ["sha256"]

if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha256 import sha256  # CPython 3.11
    except ImportError:
        try:
            from _sha2 import sha256  # CPython 3.12 and later
        except ImportError:
            from hashlib import sha256
