"""What a policy lets a task do: every level (operator, plan, task) may refuse or ask, and none can give back what
another takes.

At each level a section names what is allowed, asked for or denied. An entry that denies beats one that asks, and where
a section has ``allow`` whatever it does not name is refused. Over the levels the strictest answer counts.

The same functions judge a plan as it is written and a call that is about to be made. In the first case a value with a
template is not known: an entry about it asks already, and it allows and denies only when the value is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from planrunner.files.match import name_matches, path_matches
from planrunner.plan.patterns import UNKNOWN, value_matches
from planrunner.plan.templated import holds_template
from planrunner.records import Struct

Json = Any


Verdict = Literal["allow", "ask", "deny"]
_Fit = Callable[[Json, bool], bool | None]
"""Whether an entry is about what is to be done (None: that is not known yet); the flag is True where the entry
allows, so that all of it has to be covered."""


class Level(NamedTuple):
    """The rights at one level. ``name`` is what people read: ``planrunner.yaml``, ``the plan``, ``task build``;
    ``data`` has the shape of ``policy:``; ``file`` is where it is written ("": in the plan)."""

    name: str
    data: Json
    file: str = ""

    @property
    def is_operators(self) -> bool:
        """Whether it is the project's, its profile's or the user's own: no plan gives itself such a name."""
        return self.name.removesuffix(AS_BEFORE) == "planrunner.yaml" or self.name.startswith(("/", "profile "))


class Decision(Struct):
    """What a policy says: ``rule`` names the section and its list, ``entry`` is the line of it that decided ("" where
    nothing fitted), ``level`` whose it is (None: no level restricts this)."""

    verdict: Verdict
    rule: str = ""
    entry: str = ""
    level: Level | None = None


class CapabilityUse(Struct):
    """A call of a capability. ``commands`` are the words of each command that it runs; None where it runs none, or
    (``script``) where they are not known. Of a ``final`` one every value is there; else templates stand for them.
    ``steered`` is a variable that the task sets and that makes its commands others (empty: none); ``elsewhere`` says
    that it works in another folder than the run, so that a relative path to a program means another file. ``text`` is
    the script. With ``doubt`` a value that is not known yet counts against the call."""

    capability: str
    inputs: Json = None
    commands: Sequence[Sequence[str]] | None = None
    script: bool = False
    final: bool = False
    steered: str = ""
    elsewhere: bool = False
    text: str = ""
    doubt: bool = False


class Access(Struct):
    """One thing that a task wants: ``what`` for people, the section of a policy that it is for, and what an entry that
    allows it would say. Of a file also the ``way`` in which it is wanted (read or write) and where the task names it:
    the keys that lead there (``with``, ``path``)."""

    what: str
    section: str
    entry: str
    way: str = ""
    at: tuple[str | int, ...] = ()

    @staticmethod
    def file(way: Literal["read", "write"], place: str, at: tuple[str | int, ...] = ()) -> Access:
        """A file by its path from the working directory, as ``rights.path`` takes it."""
        return Access(f"{'reading' if way == 'read' else 'writing'} {place}", "files", place, way, at)


UNRESTRICTED = Decision("allow")

_ORDER: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}

_IDLE = frozenset({"noop", "fail", "sleep"})
"""Capabilities that touch nothing: a list of what is allowed need not name them."""


UNDO = "#undo"
"""Ends the name of a capability where that is undone."""


def capability(levels: Iterable[Level], use: CapabilityUse) -> Decision:
    """Whether a capability may be called so."""

    def fit(entry: Json, every: bool) -> bool | None:
        fits = _use_fits(entry, use, every)
        return not every if fits is None and (use.final or use.doubt) else fits

    found = _strictest(levels, "capabilities", fit)
    missing = found.verdict == "deny" and found.rule == "policy.capabilities.allow"
    return UNRESTRICTED if missing and use.capability in _IDLE else found


def named(levels: Iterable[Level], section: str, name: str) -> Decision:
    """Whether something with a name may be used: of ``env`` or ``tools``."""
    return _strictest(levels, section, lambda entry, _: name_matches(str(entry), name))


def package(levels: Iterable[Level], name: str) -> Decision:
    """Whether a package may be installed. One that cannot be told fits whatever denies or asks, and of what allows the
    pattern ``*`` alone. Capitals and the signs between words do not count, as for those who publish packages."""

    def fit(entry: Json, every: bool) -> bool:
        return not every or entry == "*" if UNKNOWN in name else name_matches(_alike(str(entry)), _alike(name))

    return _strictest(levels, "dependencies", fit)


def _alike(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def visible(levels: Sequence[Level], environment: Mapping[str, str]) -> Mapping[str, str]:
    """What a task may see of the variables of the operator."""
    if not any(restricts(level.data, "env") for level in levels):
        return environment
    return {name: text for name, text in environment.items() if named(levels, "env", name).verdict != "deny"}


def host(levels: Iterable[Level], name: str, port: int = 0) -> Decision:
    """Whether a host may be reached. Entries that are networks are left to the caller that knows the address:
    they neither allow nor deny here, and a section that has one refuses nothing by its names alone."""
    return _strictest(levels, "network", lambda entry, _: host_fits(str(entry), name.lower(), port))


def path(levels: Iterable[Level], way: Literal["read", "write"], place: str) -> Decision:
    """Whether a file may be read or written. ``place`` is relative to the working directory, or absolute where it lies
    outside, without ``.`` and ``..``; what may be written may be read too."""
    found = UNRESTRICTED
    for level in levels:
        found = _stricter(found, _path(level, way, place))
    return found


def restricts(data: Json, *sections: str) -> bool:
    """Whether a level says anything about one of these sections (or about anything, where none is named)."""
    return isinstance(data, dict) and any(data.get(name) is not None for name in sections or JUDGED)


def narrows(data: Json) -> bool:
    """Whether a level takes any right away, or shuts a task in."""
    return restricts(data) or (isinstance(data, dict) and data.get("sandbox") is not None)


AS_BEFORE = " as it was earlier in the run"
"""Ends the name of a level that holds for a run although its file says something else by now."""

JUDGED = ("capabilities", "files", "network", "env", "dependencies", "tools", "python")
"""The sections that say what a call may do."""


def texts(value: Json) -> tuple[str, ...]:
    """A text or a list of texts as a tuple."""
    if isinstance(value, str):
        return (value,)
    return tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else ()


def entries(section: Json, verdict: Verdict) -> tuple[Json, ...] | None:
    """The entries of one list of a section; None where it has no such list. A section that is a list allows."""
    if isinstance(section, (str, list)):
        section = {"allow": section}
    found = section.get(verdict) if isinstance(section, dict) else None
    if found is None:
        return None
    return tuple(found) if isinstance(found, (list, tuple)) else (found,)


def host_fits(entry: str, name: str, port: int) -> bool | None:
    """Whether an entry such as ``example.org``, ``*.example.org`` or ``example.org:443`` is for a host. None for one
    that is a network or an address in brackets, which the name does not decide, and where the host is not known."""
    if holds_template(name) or "/" in entry or "[" in entry:
        return None
    wanted, _, number = entry.lower().partition(":")
    if ":" in number:
        return True if entry.lower() == name else None  # an IPv6 address
    if number and port and number != str(port):
        return False
    return name.endswith(wanted[1:]) if wanted.startswith("*.") else wanted in (name, "*")


def _strictest(levels: Iterable[Level], section: str, fit: _Fit) -> Decision:
    found = UNRESTRICTED
    for level in levels:
        data = level.data.get(section) if isinstance(level.data, dict) else None
        if data is None:
            continue
        found = _stricter(found, _judged(level, section, data, fit))
    return found


def _stricter(found: Decision, said: Decision) -> Decision:
    """The stricter of two answers; of two that allow, the one that a level gives, and then the narrower one."""
    if _ORDER[said.verdict] != _ORDER[found.verdict]:
        return said if _ORDER[said.verdict] > _ORDER[found.verdict] else found
    return said if said.verdict == "allow" and said.level is not None else found


def _judged(level: Level, section: str, data: Json, fit: _Fit) -> Decision:
    for verdict in ("deny", "ask"):
        for entry in entries(data, verdict) or ():
            fits = fit(entry, False)
            if fits or (fits is None and verdict == "ask"):
                return Decision(verdict, f"policy.{section}.{verdict}", shown(entry), level)
    allowed = entries(data, "allow")
    if allowed is None:
        return UNRESTRICTED
    for entry in allowed:
        if fit(entry, True) is not False:
            return Decision("allow", f"policy.{section}.allow", shown(entry), level)
    asked = entries(data, "ask")
    if asked and any(fit(entry, False) for entry in asked):
        return UNRESTRICTED
    return Decision("deny", f"policy.{section}.allow", "", level)


def _path(level: Level, way: str, place: str) -> Decision:
    data = level.data.get("files") if isinstance(level.data, dict) else None
    if not isinstance(data, dict):
        return UNRESTRICTED
    for entry in texts(data.get("deny")):
        if path_matches(entry, place):
            return Decision("deny", "policy.files.deny", entry, level)
    allowed = data.get(way)
    if allowed is None:
        return UNRESTRICTED
    for entry in texts(allowed) + (texts(data.get("write")) if way == "read" else ()):
        if path_matches(entry, place):
            return Decision("allow", f"policy.files.{way}", entry, level)
    return Decision("deny", f"policy.files.{way}", "", level)


def _use_fits(entry: Json, use: CapabilityUse, every: bool) -> bool | None:
    """An entry of ``capabilities``: a pattern of names, or a mapping that has more to say. What allows a call allows
    what undoes it, whose inputs are others."""
    if every and use.capability.endswith(UNDO):
        name = str(entry.get("uses", "*")) if isinstance(entry, dict) else str(entry)
        return name_matches(name, use.capability) or name_matches(name, use.capability.removesuffix(UNDO))
    if not isinstance(entry, dict):
        return name_matches(str(entry), use.capability)
    if not name_matches(str(entry.get("uses", "*")), use.capability):
        return False
    inputs = entry.get("with") or {}
    if not isinstance(inputs, dict):
        return None  # the schema has refused it, and until it is mended nothing is known
    answers = [_input_fits(pattern, use, name, every) for name, pattern in inputs.items()]
    if "run" in entry:
        answers.append(_command_fits(texts(entry["run"]), use, every))
    if False in answers:
        return False
    return None if None in answers else True


def _input_fits(pattern: Json, use: CapabilityUse, name: str, every: bool) -> bool | None:
    value = use.inputs.get(name) if isinstance(use.inputs, dict) else None
    if value is None:
        return False
    return None if not use.final and _unknown(value) else value_matches(pattern, value, every)


def _unknown(value: Json) -> bool:
    if isinstance(value, str):
        return holds_template(value)
    if isinstance(value, dict):
        return any(map(_unknown, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_unknown, value))


def _command_fits(patterns: Sequence[str], use: CapabilityUse, every: bool) -> bool | None:
    """Commands fit what allows when each of them does, and what denies or asks when one does. A script that cannot be
    read may hold any command: it fits what denies or asks, and nothing that allows but the pattern ``*``."""
    if "*" in patterns:
        return use.script or use.commands is not None
    if use.commands is None or use.steered:
        return use.script and not every
    from planrunner.plan.shell.programs import names_program_elsewhere, words_fit

    answers = [words_fit(patterns, tuple(words), every) for words in use.commands]
    if every:
        if names_program_elsewhere(use.commands, use.elsewhere):
            return False
        return False if False in answers or not answers else None if None in answers else True
    return True if True in answers else None if None in answers else False


def shown(entry: Json) -> str:
    """An entry as people wrote it, in one line."""
    if not isinstance(entry, dict):
        return str(entry)
    more = [f"{name}: {shown(value)}" for name, value in entry.items()]
    return "{" + ", ".join(more) + "}"
