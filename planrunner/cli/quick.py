"""Reads ordinary calls of ``exec`` and ``resume`` without click, whose import takes longer than a short run.

Only what is certain is read here: help, mistakes and rare spellings give None and go through click, which words them.
A test compares both readers.
"""

from __future__ import annotations

from typing import Any

from planrunner.cli.options import OUTPUT, PROGRESS, ExecOptions, ResumeOptions, pair, resolution
from planrunner.cli.settings import COLORS, Settings, settings

_GLOBALS = {"-C": "directory", "--state": "state", "--color": "color", "--profile": "profile"}
_GLOBAL_FLAGS = {"--no-input": "no_input", "--no-plugins": "no_plugins"}
_EXEC = {
    "-p": "params",
    "--param": "params",
    "--params-file": "params_file",
    "--only": "only",
    "--until": "until",
    "--max-parallel": "max_parallel",
    "--seed": "seed",
    "--progress": "progress",
    "--output": "output",
    "--preview": "preview",
    "--trust": "trust",
    "--allow-outside": "allow_outside",
}
_EXEC_FLAGS = {"--dry-run": "dry_run", "--json": "json", "--no-wait": "no_wait", "--unattended": "unattended"}
_RESUME = {"--settle": "settle", "--progress": "progress", "--output": "output"}
_RESUME_FLAGS = {"--json": "json", "--unattended": "unattended", "--no-wait": "no_wait"}
_MANY = frozenset({"params", "only", "until", "settle", "allow_outside"})


class _Unusual(Exception):
    """The arguments need click."""


def read(arguments: list[str]) -> tuple[Settings, ExecOptions | ResumeOptions] | None:
    """The settings and options of an ordinary ``exec`` or ``resume``; None for anything else."""
    try:
        given, at = _scan(arguments, 0, _GLOBALS, _GLOBAL_FLAGS, 0)
        command = arguments[at] if at < len(arguments) else ""
        if command in ("exec", "run"):
            options, _ = _scan(arguments, at + 1, _EXEC, _EXEC_FLAGS, 1)
            return settings(**given), ExecOptions(options.pop("argument"), **options)
        if command == "resume":
            options, _ = _scan(arguments, at + 1, _RESUME, _RESUME_FLAGS, 1)
            return settings(**given), ResumeOptions(options.pop("argument"), **options)
    except _Unusual:
        pass
    return None


def _scan(
    arguments: list[str], at: int, valued: dict[str, str], flags: dict[str, str], takes: int
) -> tuple[dict[str, Any], int]:
    """Read options from ``at`` on: up to the first word where ``takes`` is 0, to the end with exactly one word else."""
    found: dict[str, Any] = {}
    while at < len(arguments):
        word = arguments[at]
        if not word.startswith("-"):
            if not takes:
                break
            if "argument" in found or not word:
                raise _Unusual
            found["argument"] = word
        elif word in flags:
            found[flags[word]] = True
        else:
            at = _take(arguments, at, valued, found)
        at += 1
    if takes and "argument" not in found:
        raise _Unusual
    found.pop("", None)
    return found, at


def _take(arguments: list[str], at: int, valued: dict[str, str], found: dict[str, Any]) -> int:
    """Read one option with its value into ``found``; gives the place of the last word used."""
    word, equals, value = arguments[at].partition("=")
    if equals and word.startswith("--"):
        name = valued.get(word)
    else:
        name = valued.get(arguments[at])
        at += 1
        if at >= len(arguments) or arguments[at].startswith("-"):
            raise _Unusual
        value = arguments[at]
    if name is None:
        raise _Unusual
    if name in _MANY:
        found[name] = (*found.get(name, ()), _typed(name, value))
    else:
        found[name] = _typed(name, value)
    return at


def _typed(name: str, value: str) -> Any:
    if name in ("params", "settle"):
        split = pair(value) if name == "params" else resolution(value)
        if split is None:
            raise _Unusual
        return split
    if name in ("max_parallel", "seed"):
        if not (value.isascii() and value.isdigit()) or (name == "max_parallel" and int(value) < 1):
            raise _Unusual
        return int(value)
    choices = {"progress": PROGRESS, "output": OUTPUT, "color": COLORS}.get(name)
    if choices is not None and value not in choices:
        raise _Unusual
    return value
