"""What holds for the whole process, set once by the door it was started through."""

from __future__ import annotations

import os

from planrunner.errors import UsageError

_own: list[bool] = []
_without_plugins: list[bool] = []


def set_own_process() -> None:
    """This process does nothing but what planrunner was called for: loading a plugin keeps the standard streams away
    from it, and a run may change what belongs to the whole process."""
    _own.append(True)


def is_own_process() -> bool:
    """Whether this process is planrunner's alone. Where it is not, a run changes nothing that is the whole process's:
    signals, the garbage collector, and who adopts orphans."""
    return bool(_own)


def disable_plugins() -> None:
    """Registries of this process know the built-in capabilities alone (``--no-plugins``)."""
    _without_plugins.append(True)


def plugins_disabled() -> bool:
    """Whether ``disable_plugins`` was called."""
    return bool(_without_plugins)


PROFILE_VARIABLE = "PLANRUNNER_PROFILE"
NO_PROFILE = "none"
"""What says that no profile holds, whatever the file's ``profile`` is."""


def asked_profile() -> str | None:
    """The profile asked for: empty for no profile at all, None without a choice."""
    found = os.environ.get(PROFILE_VARIABLE)
    return None if not found else "" if found == NO_PROFILE else found


def choose_profile(name: str) -> None:
    """Let a profile hold for whatever this process does from now on; empty means no profile."""
    os.environ[PROFILE_VARIABLE] = name or NO_PROFILE


def check_profile_kept(recorded: str, run: str) -> None:
    """Raises UsageError where another profile was asked for than the one that a run began with, empty where it had
    none: what a run may do is settled when it begins."""
    wanted = asked_profile()
    if wanted is not None and wanted != recorded:
        began = f"with the profile `{recorded}`" if recorded else "without a profile"
        hint = f"leave `--profile` and {PROFILE_VARIABLE} out, or write `--profile {recorded or NO_PROFILE}`"
        raise UsageError(f"run {run} began {began} and keeps to that; `{wanted or NO_PROFILE}` was asked for", hint)
