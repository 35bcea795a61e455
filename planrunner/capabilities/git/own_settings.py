"""What the settings of the user and the machine say about the few things that they are asked for, and nothing else."""

from __future__ import annotations

import os

from planrunner.capabilities.contract import Context
from planrunner.capabilities.git.command import program
from planrunner.capabilities.programs import Program, run


def user_value(context: Context, key: str) -> str:
    """The value of a setting such as ``user.name``; empty where there is none."""
    return next(iter(user_values(context, key)[-1:]), "")


def user_values(context: Context, key: str) -> list[str]:
    """All values of a setting. The user's own files are read for this alone; they decide nothing else."""
    names = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
    hidden = {name: None for name in context.environment() if name.startswith(("GIT_", "LD_"))}
    own = {name: os.environ.get(name) for name in names}  # never what the plan says: it would trust in the user's name
    env: dict[str, str | None] = {**hidden, **own, "GIT_DIR": "/dev/null", "LC_ALL": "C"}
    call = Program((program(), "config", "--includes", "-z", "--get-all", key), "/", env, quiet=True, own=True)
    found = run(context, call)
    return [value for value in found.text.split("\0") if value] if found.code == 0 else []
