"""A task held against the levels of policy, and entries of a policy that can never match."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from planrunner.files.match import name_matches
from planrunner.plan.nearest import nearest
from planrunner.plan.patterns import UNKNOWN, written
from planrunner.plan.rights import (
    AS_BEFORE,
    Access,
    CapabilityUse,
    Decision,
    Level,
    capability,
    host,
    named,
    package,
    restricts,
    texts,
)
from planrunner.plan.rights import entries as entries_of
from planrunner.plan.shell import programs
from planrunner.plan.shell.commands import commands
from planrunner.plan.shell.variables import set_in, steered
from planrunner.plan.templated import holds_template
from planrunner.records import Struct
from planrunner.syntax.yaml_writer import key_text

if TYPE_CHECKING:
    from planrunner.plan.model import Capability, Task

Json = Any


_ADDRESS = re.compile(
    r"(?:https?|ssh|git|wss?)://(?:[^/@\s?#]*@)?(\[[0-9A-Fa-f:.]+\]|[^/:@\s?#\[\]]+)(?::(\d{1,5}))?", re.I
)
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_SPEAKS = frozenset({"http", "research", "git"})
"""Families of capabilities whose inputs name hosts by addresses."""

_INSTALLS = ("dependencies", "packages", "requirements")
"""Inputs that name packages to install."""


def judged(
    levels: Sequence[Level], task: Task, env: Iterable[tuple[str, str]] = (), doubt: bool = False
) -> Iterator[tuple[Access, Decision]]:
    """Everything that a task wants by its text, and what the levels say to it; what undoes it included. ``env`` are the
    variables of the plan around it. With ``doubt`` values that are not known yet count against the task."""
    if not levels or task.concluding:  # that one only asks
        return
    names = [name for name, _ in (*env, *task.env)]
    for action in (task, task.rollback):
        if action is not None and action.uses:
            script = action.run if isinstance(action.run, str) else ""
            use = CapabilityUse(
                action.uses, action.inputs, *commands_of(action.run, task.shell), text=script, doubt=doubt
            )
            yield from uses(levels, placed(use, names, _leads_elsewhere(task.cwd)))
            names += assigned(levels, action.run, task.shell)
    yield from variables(levels, dict.fromkeys(names))


def placed(use: CapabilityUse, names: Iterable[str], elsewhere: bool) -> CapabilityUse:
    """A call with what around it decides which programs its commands are: the names of the variables that are set, and
    whether it works in another folder than the run."""
    if not use.script:
        return use
    return use._replace(steered=steered(names), elsewhere=elsewhere)


def _leads_elsewhere(cwd: str) -> bool:
    """Whether a ``cwd`` is another folder than that of the run as far as it is written; what has a template, and what
    is absolute, the call tells."""
    return bool(cwd) and not holds_template(cwd) and not cwd.startswith("/") and posixpath.normpath(cwd) != "."


def uses(levels: Sequence[Level], use: CapabilityUse) -> Iterator[tuple[Access, Decision]]:
    """What one call wants."""
    alone = " ".join(use.commands[0])[:80] if use.commands is not None and len(use.commands) == 1 else None
    command = "" if alone is None else f" `{alone.replace(UNKNOWN, '{{ … }}')}`"
    right = capability(levels, use)
    what = f"`{use.capability}`{command}{_because(levels, use, right)}"
    yield Access(what, "capabilities", use.capability), right
    if use.capability.partition(".")[0] in _SPEAKS:
        for name, port in addresses(use.inputs):
            entry = f"{name}:{port}" if port else name
            what = "a host that a value names" if UNKNOWN in name else f"the host {entry}"
            yield Access(what, "network", entry), host(levels, name, port)
    if any(restricts(level.data, "dependencies") for level in levels):
        for name in _packages(use):
            known = UNKNOWN not in name
            what = f"the package `{name}`" if known else "an install whose packages cannot be read from the script"
            yield Access(what, "dependencies", name if known else "*"), package(levels, name)


def _because(levels: Sequence[Level], use: CapabilityUse, right: Decision) -> str:
    """What around a call makes the answer another than that to its commands alone."""
    if right.verdict != "allow" and use.steered and capability(levels, use._replace(steered="")) != right:
        return f" with `{use.steered}` set, which makes commands others than they say"
    if right.verdict != "allow" and use.elsewhere and capability(levels, use._replace(elsewhere=False)) != right:
        return " with a `cwd` of its own, where a relative path is another program"
    return ""


def variables(levels: Sequence[Level], names: Iterable[str]) -> Iterator[tuple[Access, Decision]]:
    """The variables that a plan sets. What ``allow`` names are those of the operator that a task may see; its own
    values hide nothing, so only what denies or asks is about them."""
    for name in names:
        right = named(levels, "env", name)
        if right.verdict != "deny" or right.rule != "policy.env.allow":
            yield Access(f"the variable `{name}`", "env", name), right


def commands_of(run: str | tuple[str, ...] | None, shell: str = "") -> tuple[tuple[tuple[str, ...], ...] | None, bool]:
    """The commands of what a task runs as it is written (None: they cannot be told), and whether it runs anything."""
    if run is None:
        return None, False
    if isinstance(run, tuple):
        return (run,), True
    return commands(run, shell=shell), True


def assigned(levels: Sequence[Level], run: str | Sequence[str] | None, shell: str) -> tuple[str, ...]:
    """The variables that what a task runs sets by itself, where a level is about variables."""
    if run is None or not any(restricts(level.data, "env") for level in levels):
        return ()
    return tuple(set_in(run, shell))


def addresses(value: Json) -> Iterator[tuple[str, int]]:
    """The hosts and ports (0: not said) of every address in the inputs of a call."""
    if isinstance(value, str):
        match = _ADDRESS.match(_TEMPLATE.sub(UNKNOWN, value.strip()))
        if match:
            yield match[1].lower(), int(match[2] or 0)
    elif isinstance(value, dict):
        for item in value.values():
            yield from addresses(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from addresses(item)


def _packages(use: CapabilityUse) -> Iterator[str]:
    """The names of packages that a call installs, without versions and extras. What a template names is left to the
    time when its value is there."""
    named_in = [text for key in _INSTALLS if isinstance(use.inputs, dict) for text in texts(use.inputs.get(key))]
    names = [programs.package(_TEMPLATE.sub(UNKNOWN, text)) for text in named_in]
    if use.script:
        names += programs.installed(use.commands, use.text)
    told = use.final or use.doubt or use.commands is None
    yield from dict.fromkeys(name for name in names if told or UNKNOWN not in name)


def refusal(wanted: Access, right: Decision) -> str:
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
        text = key_text(value)
        return "'" + value.replace("'", "''") + "'" if text == f'"{value}"' else text
    return written(value)


def cure(level: Level, line: str) -> str:
    """What makes right what a level takes away: the line to write, or the option that applies the current policy."""
    if level.name.endswith(AS_BEFORE):
        return "`--accept-policy`, for `planrunner retry` or `resume`, applies only the current policy"
    return f"to allow it, write there: {line}"


Path = tuple[str | int, ...]

NEVER, NOT_HERE = "PLAN802", "PLAN803"
_BETWEEN = frozenset("&& || | & > >> < 2> &> ;;".split())
"""Signs between commands, and of redirections, which are not words of a command."""


class Known(Struct):
    """The capabilities there are: ``find`` gives one by its name, ``built_in`` the names that need no plugin, ``names``
    all of them (it may load plugins)."""

    find: Callable[[str], Capability | None]
    built_in: Callable[[], Iterable[str]]
    names: Callable[[], Iterable[str]]


class IneffectiveEntry(Struct):
    """An entry that never fits (``NEVER``), or not with what is installed (``NOT_HERE``): the keys that lead to it from
    the policy on, what is wrong, and what to write."""

    code: str
    path: Path
    message: str
    help: str


def ineffective_entries(policy: Json, known: Known) -> Iterator[IneffectiveEntry]:
    """The entries of one level that refuse or ask about nothing, whatever a plan does. Those that allow are left out:
    what they miss is refused, which people notice."""
    if not isinstance(policy, dict):
        return
    section = policy.get("capabilities")
    for verdict in ("deny", "ask"):
        given = section.get(verdict) if isinstance(section, dict) else None
        for path, entry in _listed(given, ("capabilities", verdict)):
            yield from _capability(entry, path, known)
    files = policy.get("files")
    for path, entry in _listed(files.get("deny"), ("files", "deny")) if isinstance(files, dict) else ():
        if isinstance(entry, str):
            yield from _file(entry, path)


def _listed(value: Json, path: Path) -> Iterator[tuple[Path, Json]]:
    if isinstance(value, (list, tuple)):
        yield from (((*path, at), entry) for at, entry in enumerate(value))
    elif value is not None:
        yield path, value


def _capability(entry: Json, path: Path, known: Known) -> Iterator[IneffectiveEntry]:
    if isinstance(entry, str):
        yield from _name(entry, path, known)
    if not isinstance(entry, dict):
        return
    uses = entry.get("uses", "*")
    found = [*_name(uses, (*path, "uses"), known)] if isinstance(uses, str) else []
    yield from found
    if not found and isinstance(uses, str) and not _is_pattern(uses):
        yield from _called(entry, path, known.find(uses))
    for place, pattern in _listed(entry.get("run"), (*path, "run")):
        if isinstance(pattern, str):
            yield from _command(pattern, place)


def _name(pattern: str, path: Path, known: Known) -> Iterator[IneffectiveEntry]:
    """A name, or a pattern of names, that no capability has."""
    if _is_pattern(pattern):
        if any(name_matches(pattern, name) for each in (known.built_in, known.names) for name in each()):
            return
    elif known.find(pattern) is not None:
        return
    what = f"`{pattern}` in `{_section(path)}` matches nothing: no installed capability has that name"
    family, _, rest = pattern.partition(".")
    families = dict.fromkeys(name.partition(".")[0] for name in known.built_in())
    close = nearest(pattern, known.names())
    if close is None and rest and family not in families and (near := nearest(family, families)):
        close = f"{near}.{rest}"
    if not rest and family in families:
        close = f"{family}.*"
    if close is not None and not _is_pattern(close.partition(".")[0]):
        yield IneffectiveEntry(NEVER, path, f"{what}, did you mean `{close}`?", f"write `{close}`")
    elif family in families:
        yield IneffectiveEntry(NEVER, path, what, f"`planrunner capabilities {family}` lists those of the family")
    else:
        yield IneffectiveEntry(NOT_HERE, path, what, "install the plugin that brings it, or take the entry out")


def _called(entry: dict[str, Json], path: Path, capability: Capability | None) -> Iterator[IneffectiveEntry]:
    """What an entry says of the call of one capability, and that this one does not take."""
    if capability is None:
        return
    name, given = capability.name, entry.get("with")
    if "run" in entry and not capability.takes_run:
        message = f"`run` matches no call of `{name}`, which runs no script"
        yield IneffectiveEntry(NEVER, (*path, "run"), message, "write `with` and patterns for its inputs")
    inputs = [field.name for field in capability.inputs]
    for key in given if isinstance(given, dict) and not capability.open_inputs else ():
        if key in inputs:
            continue
        message = f"`{name}` has no input `{key}`, so the entry matches no call"
        if key == "run" and capability.takes_run:
            help_ = f"write it beside `uses`: {{uses: {name}, run: …}}"
        else:
            close = nearest(str(key), inputs)
            help_ = f"did you mean `{close}`?" if close else f"`planrunner capabilities {name}` lists its inputs"
        yield IneffectiveEntry(NEVER, (*path, "with", key), message, help_)


def _command(pattern: str, path: Path) -> Iterator[IneffectiveEntry]:
    words = pattern.split()
    joins = [word for word in words if word in _BETWEEN] + [word[-1] for word in words[:-1] if word.endswith(";")]
    if joins:
        message = f"`{joins[0]}` matches no word: a pattern is matched against each command of a script"
        yield IneffectiveEntry(NEVER, path, message, "write a pattern for each command: run: [git push *, rm *]")


def _file(pattern: str, path: Path) -> Iterator[IneffectiveEntry]:
    if ".." in pattern.split("/"):
        message = (
            f"`{pattern}` matches no file: paths are from the working directory of the run, or full ones, without `..`"
        )
        yield IneffectiveEntry(NEVER, path, message, "write the full path of what lies outside, such as /srv/shared/**")
    elif pattern.partition("/")[0] == "~":
        message = f"`{pattern}` matches no file outside the project: `~` is a name like any other"
        yield IneffectiveEntry(NEVER, path, message, "write the full path, such as /srv/keys/**")


def _section(path: Path) -> str:
    return f"policy.{path[0]}.{path[1]}"


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text
