"""The tools of a project: which program is meant, in which version, and what to install where there is none."""

from __future__ import annotations

import os
import re
import sys
from typing import NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.programs import Ended, Program, run
from planrunner.capabilities.python.interpreter import interpreter, on_path

_LARGEST = 64 << 20
"""Bytes that a tool may print."""
_ASK = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


class Tool(NamedTuple):
    """The words that start a tool, and its version. ``borrowed``: the project has no Python, so it is planrunner's."""

    name: str
    words: tuple[str, ...]
    version: str
    borrowed: bool = False


def find(context: Context, name: str, python: str, alone: bool = False) -> Tool:
    """The tool of the project's Python. One that needs nothing of the project (``alone``) may also be a program on the
    PATH, or come with planrunner, where no Python is asked for. Raises Failure that says how to install it."""
    asked = interpreter(context, python)
    found = _in_python(context, name, asked)
    if found is None and alone and not python:
        found = _program(context, name) or _in_python(context, name, sys.executable)
    if found is None:
        raise Failure(f"{name} is not installed: {asked} -m pip install {name}")
    borrowed = not python and found.words[0] == sys.executable and not on_path(context, "python")
    return found._replace(borrowed=borrowed)


def _in_python(context: Context, name: str, path: str) -> Tool | None:
    ended = run(context, Program((path, "-c", _ASK, name), quiet=True, timeout=60))
    return Tool(name, (path, "-m", name), ended.text.strip()) if ended.code == 0 else None


def _program(context: Context, name: str) -> Tool | None:
    program = on_path(context, name)
    if not program:
        return None
    ended = run(context, Program((program, "--version"), quiet=True, timeout=60))
    number = re.search(r"\d+(\.\d+)+", ended.text)
    return Tool(name, (program,), number[0] if number else "") if ended.code == 0 else None


def told(context: Context, tool: Tool, *arguments: str, expected: tuple[int, ...] = (0, 1)) -> Ended:
    """Run a tool that prints its findings. Raises Failure for an exit code that stands for something else."""
    ended = run(context, Program((*tool.words, *arguments), env={"PYTHONDONTWRITEBYTECODE": "1"}, limit=_LARGEST))
    if ended.code not in expected:
        raise Failure(f"{tool.name} ended with {ended.code}: {ended.said}")
    if ended.dropped:
        raise Failure(f"{tool.name} prints more than {_LARGEST >> 20} MiB; give it fewer paths")
    return ended


def cache(context: Context, name: str) -> str:
    """A folder of the project's state for what a tool remembers; without an engine nothing is remembered. Tools believe
    what they find there, so the name is one that nobody foresees who puts files into the clones of others."""
    if context.services is None:
        return os.devnull
    mac, _, _ = context.vouched("folder", name).partition("\n")
    return context.cache(f"{name}-{mac}" if mac else name)
