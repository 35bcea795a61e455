"""A task held against the levels of policy: what it calls, the hosts it names, its variables and packages."""

from __future__ import annotations

import re

from planrunner.plan.matching import UNKNOWN, written
from planrunner.plan.rights import AS_BEFORE, Level, Right, Use, capability, host, named, texts
from planrunner.plan.rights import entries as entries_of
from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Literal

    from planrunner.plan.model import Task

    Json = Any


class Wanted(NamedTuple):
    """One thing that a task wants: ``what`` for people, the section of a policy that it is for, and what an entry that
    allows it would say. Of a file also the ``way`` in which it is wanted (read or write) and where the task names it:
    the keys that lead there (``with``, ``path``)."""

    what: str
    section: str
    entry: str
    way: str = ""
    at: tuple[str | int, ...] = ()

    @staticmethod
    def file(way: Literal["read", "write"], place: str, at: tuple[str | int, ...] = ()) -> Wanted:
        """A file by its path from the working directory, as ``rights.path`` takes it."""
        return Wanted(f"{'reading' if way == 'read' else 'writing'} {place}", "files", place, way, at)


_ADDRESS = re.compile(
    r"(?:https?|ssh|git|wss?)://(?:[^/@\s?#]*@)?(\[[0-9A-Fa-f:.]+\]|[^/:@\s?#\[\]]+)(?::(\d{1,5}))?", re.I
)
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_SPEAKS = frozenset({"http", "research", "git"})
"""Families of capabilities whose inputs name hosts by addresses."""

_INSTALLS = ("dependencies", "packages", "requirements")
"""Inputs that name packages to install."""


def judged(levels: Sequence[Level], task: Task) -> Iterator[tuple[Wanted, Right]]:
    """Everything that a task wants by its text, and what the levels say to it; what it does instead when a budget runs
    short, and what undoes it, included."""
    if not levels:
        return
    if task.uses:
        yield from uses(levels, Use(task.uses, task.inputs, *commands_of(task.run, task.shell)))
    for action in (task.degraded, task.rollback):
        if action is not None and action.uses:
            yield from uses(levels, Use(action.uses, action.inputs, *commands_of(action.run, task.shell)))
    yield from variables(levels, (name for name, _ in task.env))


def uses(levels: Sequence[Level], use: Use) -> Iterator[tuple[Wanted, Right]]:
    """What one call wants."""
    command = f" `{' '.join(use.commands[0])[:80]}`" if use.commands is not None and len(use.commands) == 1 else ""
    yield Wanted(f"`{use.capability}`{command}", "capabilities", use.capability), capability(levels, use)
    if use.capability.partition(".")[0] in _SPEAKS:
        for name, port in addresses(use.inputs):
            entry = f"{name}:{port}" if port else name
            what = "a host that a value names" if UNKNOWN in name else f"the host {entry}"
            yield Wanted(what, "network", entry), host(levels, name, port)
    for name in _packages(use.inputs):
        yield Wanted(f"the package `{name}`", "dependencies", name), named(levels, "dependencies", name)


def variables(levels: Sequence[Level], names: Iterable[str]) -> Iterator[tuple[Wanted, Right]]:
    """The variables that a plan sets. What ``allow`` names are those of the operator that a task may see; its own
    values hide nothing, so only what denies or asks is about them."""
    for name in names:
        right = named(levels, "env", name)
        if right.verdict != "deny" or right.rule != "policy.env.allow":
            yield Wanted(f"the variable `{name}`", "env", name), right


def commands_of(run: str | tuple[str, ...] | None, shell: str = "") -> tuple[tuple[tuple[str, ...], ...] | None, bool]:
    """The commands of what a task runs as it is written (None: they cannot be told), and whether it runs anything."""
    if run is None:
        return None, False
    if isinstance(run, tuple):
        return (run,), True
    from planrunner.plan.commandlist import commands  # late: few runs have a policy

    return commands(run, shell=shell), True


def addresses(value: Json) -> Iterator[tuple[str, int]]:
    """The hosts and ports (0: not said) of every address in the inputs of a call."""
    if isinstance(value, str):
        found = _ADDRESS.match(_TEMPLATE.sub(UNKNOWN, value.strip()))
        if found:
            yield found[1].lower(), int(found[2] or 0)
    elif isinstance(value, dict):
        for item in value.values():
            yield from addresses(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from addresses(item)


def _packages(inputs: Json) -> Iterator[str]:
    """The names of packages that a call installs, without versions and extras."""
    for key in _INSTALLS if isinstance(inputs, dict) else ():
        for text in texts(inputs.get(key)):
            found = re.match(r"\s*[A-Za-z0-9][A-Za-z0-9._-]*", text)
            if found:
                yield found[0].strip().lower()


def refusal(wanted: Wanted, right: Right) -> str:
    """Why something is refused, in a sentence that ends with the line that would allow it."""
    level = right.level
    assert level is not None
    whose = level.file or level.name
    section, verdict = right.rule.split(".")[1:3]
    if verdict == "deny":
        told = f"{whose} denies {wanted.what}: `policy: {{{section}: {{deny: …}}}}` has `{right.entry}`"
        return f"{told}; {cure(level, '')}" if level.name.endswith(AS_BEFORE) else told
    given = level.data.get(section)
    allowed = texts(given.get(verdict)) if wanted.way else entries_of(given, "allow") or ()
    line = f"policy: {{{section}: {{{verdict}: {_pasted([*allowed, wanted.entry])}}}}}"
    return f"{whose} does not allow {wanted.what}; {cure(level, line)}"


def _pasted(value: Json) -> str:
    """A value on one line as YAML takes it back, inside braces too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_pasted(str(name))}: {_pasted(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_pasted, value)) + "]"
    if isinstance(value, str):
        from planrunner.syntax.write_yaml import key_text  # late: only what is refused is told

        text = key_text(value)
        return "'" + value.replace("'", "''") + "'" if text == f'"{value}"' else text
    return written(value)


def cure(level: Level, line: str) -> str:
    """What makes right what a level takes away: the line to write, or consent to the policy of now."""
    if level.name.endswith(AS_BEFORE):
        return "`--accept-policy`, for `planrunner retry` or `resume`, holds the run to the policy of now alone"
    return f"to allow it, write there: {line}"
