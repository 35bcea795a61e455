"""The ends of logs, as the page of a run and its report show them."""

from __future__ import annotations

import os

from planrunner.engine.output import log_name
from planrunner.journal.workspace import private
from planrunner.views.page.drawer import Tail


def tail_of(folder: str, task: str, attempt: int, most: int) -> Tail | None:
    """The end of the log of an attempt in a folder of logs: its last lines of ``most`` bytes together, or the end of a
    longer line. None where there is no file."""
    try:
        with open(os.path.join(folder, log_name(task, attempt)), "rb", opener=private) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            data = file.read(most)
    except OSError:
        return None
    if size > most:
        data = data.partition(b"\n")[2] or data
    return Tail(task, attempt, data.decode("utf-8", "replace"), size - len(data), size)
