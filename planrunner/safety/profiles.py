"""Which profile of the project's file holds in this process: ``--profile``, PLANRUNNER_PROFILE, the run's own, or the
file's ``profile``.

The choice is kept in the environment of the process, so that the processes that ``chaos`` and ``test`` start go by it.
"""

from __future__ import annotations

import os

from planrunner.errors import UsageError

PROFILE_VARIABLE = "PLANRUNNER_PROFILE"
NO_PROFILE = "none"
"""What says that no profile holds, whatever the file's ``profile`` is."""


def asked_profile() -> str | None:
    """The profile that somebody asked for: empty for none at all, None where nobody asked."""
    found = os.environ.get(PROFILE_VARIABLE)
    return None if not found else "" if found == NO_PROFILE else found


def choose_profile(name: str) -> None:
    """Let a profile hold for whatever this process does from now on; empty is none at all."""
    os.environ[PROFILE_VARIABLE] = name or NO_PROFILE


def check_profile_kept(recorded: str, run: str) -> None:
    """Raises UsageError where another profile was asked for than the one that a run began with, empty where it had
    none: what a run may do is settled when it begins."""
    wanted = asked_profile()
    if wanted is not None and wanted != recorded:
        began = f"with the profile `{recorded}`" if recorded else "without a profile"
        hint = f"leave `--profile` and {PROFILE_VARIABLE} out, or write `--profile {recorded or NO_PROFILE}`"
        raise UsageError(f"run {run} began {began} and keeps to that; `{wanted or NO_PROFILE}` was asked for", hint)
