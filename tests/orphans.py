"""Orphans of a test: this process adopts them once a run was made in it, and then that run may end them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_SET_SUBREAPER, _GET_SUBREAPER = 36, 37


@contextmanager
def given_to_init() -> Iterator[None]:
    """Processes that lose their parent meanwhile are not handed to this one."""
    call, before = ctypes.CDLL(None).prctl, ctypes.c_int()
    assert call(_GET_SUBREAPER, ctypes.byref(before), 0, 0, 0) == 0
    assert call(_SET_SUBREAPER, 0, 0, 0, 0) == 0
    try:
        yield
    finally:
        call(_SET_SUBREAPER, before.value, 0, 0, 0)
