"""The report of an internal error: everything a maintainer asks for, in a file and never on the screen."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from itertools import pairwise

from planrunner import __version__
from planrunner.plugins.sources import cache_folder
from planrunner.redaction import without_any

_KEPT = 50
"""So many reports stay in a folder: a plan in a loop that meets a fault of ours must not fill the disk."""


def write_report(error: BaseException, arguments: Sequence[str]) -> str:
    """Write the report, for its user alone, and give its path, empty where no place can be written to."""
    begin = f"crash-{time.strftime('%Y%m%dT%H%M%S')}-"
    for folder in (*_log_folders(arguments), os.path.join(cache_folder(), "crashes"), tempfile.gettempdir()):
        try:
            os.makedirs(folder, exist_ok=True)
            handle, path = tempfile.mkstemp(".txt", begin, folder)
            with open(handle, "w", encoding="utf-8") as file:
                file.write(_report(error, arguments))
            _drop_old(folder)
        except OSError:
            continue
        return path
    return ""


def _drop_old(folder: str) -> None:
    """The names sort by time. Another user's reports in a shared folder stay: they cannot be taken away."""
    reports = sorted(name for name in os.listdir(folder) if name.startswith("crash-") and name.endswith(".txt"))
    for name in reports[:-_KEPT]:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, name))


def _log_folders(arguments: Sequence[str]) -> list[str]:
    """The logs of the state folder, where one is named or stands here already; a crash creates no new state folder."""
    given = dict(pairwise(arguments)).get("--state")
    state = given or os.environ.get("PLANRUNNER_STATE") or ".planrunner"
    return [os.path.abspath(os.path.join(state, "logs"))] if os.path.isdir(state) else []


def _report(error: BaseException, arguments: Sequence[str]) -> str:
    facts = [
        f"planrunner {__version__}",
        f"python {sys.version}",
        f"platform {platform.platform()}",
        f"arguments {' '.join(_masked(arguments))}",
        "",
    ]
    return without_any("\n".join(facts) + "\n" + "".join(traceback.format_exception(error)))


def _masked(arguments: Sequence[str]) -> list[str]:
    """The arguments without the values of parameters, which may be secrets."""
    return [word.partition("=")[0] + "=***" if "=" in word else word for word in arguments]
