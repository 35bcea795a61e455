"""The tools of a project: which program is meant, in which version, and what to install where there is none."""

from __future__ import annotations

import os
import re
import sys

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.programs import Ended, Program, run
from planrunner.capabilities.python.interpreter import interpreter, on_path
from planrunner.record import NamedTuple

_LARGEST = 64 << 20
"""Bytes that a tool may print."""
_ASK = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


class Tool(NamedTuple):
    """The words that start a tool, and its version."""

    name: str
    words: tuple[str, ...]
    version: str


def find(context: Context, name: str, python: str) -> Tool:
    """The tool of the project's Python; where none is asked for, also the one on the PATH or that of planrunner's own
    Python. Raises Failure that says how to install it."""
    asked = interpreter(context, python)
    for path in dict.fromkeys((asked,) if python else (asked, sys.executable)):
        ended = run(context, Program((path, "-c", _ASK, name), quiet=True, timeout=60))
        if ended.code == 0:
            return Tool(name, (path, "-m", name), ended.text.strip())
        program = "" if python or path != asked else on_path(context, name)
        if program:
            told = run(context, Program((program, "--version"), quiet=True, timeout=60))
            number = re.search(r"\d+(\.\d+)+", told.text)
            return Tool(name, (program,), number[0] if number else "")
    raise Failure(f"{name} is not installed: {asked} -m pip install {name}")


def told(context: Context, tool: Tool, *arguments: str, expected: tuple[int, ...] = (0, 1)) -> Ended:
    """Run a tool that prints its findings. Raises Failure for an exit code that stands for something else."""
    ended = run(context, Program((*tool.words, *arguments), env={"PYTHONDONTWRITEBYTECODE": "1"}, limit=_LARGEST))
    if ended.code not in expected:
        raise Failure(f"{tool.name} ended with {ended.code}: {ended.said}")
    if ended.dropped:
        raise Failure(f"{tool.name} prints more than {_LARGEST >> 20} MiB; give it fewer paths")
    return ended


def cache(context: Context, name: str) -> str:
    """A folder of the project's state for what a tool remembers; without an engine nothing is remembered."""
    return context.cache(name) if context.services is not None else os.devnull


def names(value: str | list[str]) -> list[str]:
    """One name or several. Raises Failure for one that a tool could take for an option."""
    found = [value] if isinstance(value, str) else [str(each) for each in value]
    if wrong := next((name for name in found if name.startswith(("-", "@"))), None):
        raise Failure(f"{wrong} is no path; one that begins so is written ./{wrong}", "policy")
    return found
