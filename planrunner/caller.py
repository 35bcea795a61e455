"""Who asks for something, and from where: the principal and the workspace that a use case acts for.

A door (the command line, Python, a service) says both once, with ``acting``; everything below asks here and reads
neither ``$USER`` nor the working directory. Both belong to the context of a thread, as a deadline or a trace does, so
that runs for several people and projects go on side by side in one process: a hundred functions would have to hand an
argument on that a dozen of them read. Where no door said anything the process answers for itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from planrunner.errors import UsageError
from planrunner.later import Later

getpwuid = Later("pwd:getpwuid")

PROFILE_VARIABLE = "PLANRUNNER_PROFILE"
STATE_VARIABLE = "PLANRUNNER_STATE"
NO_PROFILE = "none"
"""What says that no profile holds, whatever the file's ``profile`` is."""


class Principal(NamedTuple):
    """Who acts. ``name`` is written into the journal; ``roles`` are what a door knows of the person; ``proof`` says how
    the name is known: ``account`` is the account of the operating system."""

    name: str
    roles: tuple[str, ...] = ()
    proof: str = "account"


class Workspace(NamedTuple):
    """The place of a caller. Relative paths and the project are looked for from the directory ``root``; ``state`` is a
    state directory that was chosen, empty for that of the project; ``profile`` a profile that was asked for, empty for
    none at all and None without a choice."""

    root: str
    state: str = ""
    profile: str | None = None


Asking = Callable[[], Collection[int] | None]
"""Gives the processes that ask for something; None where they cannot be told, as for one that is gone."""

_asking: ContextVar[Asking] = ContextVar("asking")
_principal: ContextVar[Principal] = ContextVar("principal")
_workspace: ContextVar[Workspace] = ContextVar("workspace")


def principal() -> Principal:
    """Who acts in this context: the user of the process where no door said anything else."""
    return _principal.get(None) or Principal(_account())


def workspace() -> Workspace:
    """Where this context stands: the working directory and the environment of the process where no door said anything
    else."""
    return _workspace.get(None) or Workspace(os.getcwd(), os.environ.get(STATE_VARIABLE, ""), _profile_of_process())


@contextmanager
def acting(who: Principal, where: Workspace) -> Iterator[None]:
    """Let what is done inside be done by ``who`` from ``where``, in this thread and those that copy its context."""
    before = _principal.set(who), _workspace.set(where)
    try:
        yield
    finally:
        _principal.reset(before[0])
        _workspace.reset(before[1])


@contextmanager
def asked_by(asking: Asking) -> Iterator[None]:
    """Let what is done inside be asked for by other processes than this one."""
    before = _asking.set(asking)
    try:
        yield
    finally:
        _asking.reset(before)


def asking_processes() -> Collection[int] | None:
    """The processes that ask for what is done: this one where no door said anything else. None where they cannot be
    told."""
    asking = _asking.get(None)
    return (os.getpid(),) if asking is None else asking()


def asks_itself() -> bool:
    """Whether this process does what it asks for, with no door to another one in between."""
    return _asking.get(None) is None


def keep_profile(name: str) -> None:
    """Let a profile hold for what this context does from here on; empty means no profile."""
    _workspace.set(workspace()._replace(profile=name))


def check_profile_kept(recorded: str, run: str) -> None:
    """Raises UsageError where another profile was asked for than the one that a run began with, empty where it had
    none: what a run may do is settled when it begins."""
    wanted = workspace().profile
    if wanted is not None and wanted != recorded:
        began = f"with the profile `{recorded}`" if recorded else "without a profile"
        hint = f"leave `--profile` and {PROFILE_VARIABLE} out, or write `--profile {recorded or NO_PROFILE}`"
        raise UsageError(f"run {run} began {began} and keeps to that; `{wanted or NO_PROFILE}` was asked for", hint)


def _profile_of_process() -> str | None:
    asked = os.environ.get(PROFILE_VARIABLE)
    return None if not asked else "" if asked == NO_PROFILE else asked


def _account() -> str:
    """The name by which the system knows the user."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME")
    if name:
        return name
    try:
        return str(getpwuid(os.getuid()).pw_name)
    except KeyError:
        return str(os.getuid())
