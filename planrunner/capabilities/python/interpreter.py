"""Which Python runs what belongs to the project."""

from __future__ import annotations

import os
import sys

from planrunner.capabilities.contract import Context, Failure


def interpreter(context: Context, python: str = "") -> str:
    """The path of the interpreter: the one that is asked for, else ``python`` on the PATH of the task, else the one
    that runs planrunner. Raises Failure where the one asked for does not exist."""
    call = context.call
    if "/" in python:
        path = os.path.join(call.directory, python)
        if not _is_program(path):
            raise Failure(f"there is no Python at {python}")
        return path
    found = on_path(context, python or "python")
    if found:
        return found
    if python:
        raise Failure(f"{python} is not on the PATH")
    return sys.executable


def on_path(context: Context, name: str) -> str:
    """Where a program is on the PATH of the task; empty where it is not."""
    path = context.environment().get("PATH") or os.defpath
    candidates = (os.path.join(context.call.directory, folder, name) for folder in path.split(os.pathsep) if folder)
    return next(filter(_is_program, candidates), "")


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)
