"""Which profile of the project's file holds in this process: ``--profile``, PLANRUNNER_PROFILE, the run's own, or the
file's ``profile``.

The choice is kept in the environment of the process, so that the processes that ``chaos`` and ``test`` start go by it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from planrunner.errors import UsageError
from planrunner.plan.nearest import nearest

VARIABLE = "PLANRUNNER_PROFILE"
NONE = "none"
"""What says that no profile holds, whatever the file's ``profile`` is."""


def asked() -> str | None:
    """The profile that somebody asked for: empty for none at all, None where nobody asked."""
    found = os.environ.get(VARIABLE)
    return None if not found else "" if found == NONE else found


def choose(name: str) -> None:
    """Let a profile hold for whatever this process does from now on; empty is none at all."""
    os.environ[VARIABLE] = name or NONE


def check_kept(recorded: str, run: str) -> None:
    """Raises UsageError where another profile was asked for than the one that a run began with, empty where it had
    none: what a run may do is settled when it begins."""
    wanted = asked()
    if wanted is not None and wanted != recorded:
        began = f"with the profile `{recorded}`" if recorded else "without a profile"
        hint = f"leave `--profile` and {VARIABLE} out, or write `--profile {recorded or NONE}`"
        raise UsageError(f"run {run} began {began} and keeps to that; `{wanted or NONE}` was asked for", hint)


def unknown(name: str, where: str, known: Iterable[str]) -> UsageError:
    """The error for a profile that the project does not have."""
    names = sorted(known)
    close = nearest(name, names)
    hint = f"did you mean `{close}`?" if close else f"it has {', '.join(names)}" if names else "it has none"
    return UsageError(f"`{where}` has no profile `{name}`", hint)
