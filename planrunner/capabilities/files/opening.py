"""A file of the working directory, opened for what reads it piece by piece: an upload, a script."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.files.beneath import Beneath
from planrunner.capabilities.files.scope import Scope


def open_inside(directory: str, path: str, scope: Scope | None = None) -> BinaryIO:
    """A regular file inside the working directory, to read. Raises Failure: policy for a path that leads outside, or
    out of the scope."""
    with Beneath(directory, scope=scope) as tree:
        try:
            opened = tree.open_to_read(path)
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise Failure(f"{path} is not a regular file")
    return os.fdopen(opened, "rb")
