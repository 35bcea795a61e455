"""Which confinement the processes of a call get: operator, plan and task each may tighten it, and the strictest of
them counts. A plan from outside the project is shut in whatever anybody says."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from planrunner.jsontext import shown
from planrunner.plan.expressions.quantities import amount, parse_count, parse_duration, parse_size
from planrunner.plan.rights import Level, entries, restricts
from planrunner.safety.sandbox.confinement import KINDS, STANDARD, Confinement, Kind, Limits, Network, Refused
from planrunner.safety.sandbox.scopes import scope

Json = Any

_PASSED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM")


class Place(NamedTuple):
    """Where a call takes place: the directory of the run, its state directory, the folder of this attempt alone, and
    what planrunner runs on, which is read and never written. ``tools`` are folders of programs to be let in."""

    root: str
    state: str
    own: str
    programs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class Demand(NamedTuple):
    """How strict it has to be. ``asked`` says that somebody named the kind or wants a sandbox as such, so that nothing
    weaker will do; else it only has to enforce what is declared. ``who`` demands it."""

    kind: Kind
    asked: bool = False
    who: str = ""
    image: str = ""


def demand(levels: Sequence[Level], untrusted: bool, made: str = "") -> Demand:
    """How strict a sandbox these levels ask for. Code that was ``made`` while the run went on is shut in unless one of
    them says something of a sandbox. Raises Refused for a profile that there is not."""
    found = Demand("bubblewrap", False, "a plan from outside the project") if untrusted else Demand("none")
    if made and all(_sandbox(level) is None for level in levels):
        found = Demand("bubblewrap", False, made)
    for level in levels:
        said = _demanded(level)
        if (KINDS.index(said.kind), said.asked) > (KINDS.index(found.kind), found.asked):
            found = said
    return found


def _demanded(level: Level) -> Demand:
    said = _sandbox(level)
    if said is None or said is False:
        return Demand("bubblewrap", False, level.name) if restricts(level.data, "files", "network") else Demand("none")
    profile = said if isinstance(said, str) else said.get("profile") if isinstance(said, dict) else None
    if profile is None:
        return Demand("bubblewrap", True, level.name)
    kind: Kind | None = next((one for one in KINDS if one == profile), None)
    if kind is None:
        raise Refused(f"`{level.name}` asks for a sandbox `{profile}`", f"there are {', '.join(KINDS)}")
    if kind == "none" and restricts(level.data, "files", "network"):
        return Demand("bubblewrap", False, level.name)
    image = str(said.get("image") or "") if isinstance(said, dict) else ""
    return Demand(kind, kind != "none", level.name, image)


def confinement(levels: Sequence[Level], place: Place, untrusted: bool, made: str = "") -> Confinement:
    """What the processes of a call are shut into; ``made`` as in ``demand``. Raises Refused for a policy that cannot be
    enforced."""
    wanted = demand(levels, untrusted, made)
    is_made = bool(made) and wanted.who == made
    if wanted.kind == "none":
        return Confinement("none", place.root, network="open", limits=Limits())
    files = scope(levels, place.root, place.state, place.programs)
    limits, origins = _limits(levels, untrusted)
    return Confinement(
        wanted.kind,
        place.root,
        files.writable,
        (*place.tools, *place.programs, *files.readable),
        files.guarded,
        files.denied,
        files.missing,
        place.own,
        os.path.join(os.path.realpath(place.state), "cache"),
        _network(levels, untrusted or wanted.asked or is_made, untrusted),
        limits,
        tuple(dict.fromkeys((*_PASSED, *_named_variables(levels)))),
        origins,
        wanted.image,
        made if is_made else "",
    )


def _sandbox(level: Level) -> Json:
    return level.data.get("sandbox") if isinstance(level.data, dict) else None


def _limited(levels: Sequence[Level]) -> Iterator[tuple[Level, Mapping[str, Json]]]:
    for level in levels:
        said = _sandbox(level)
        if isinstance(said, dict):
            yield level, said


def _network(levels: Sequence[Level], closed: bool, untrusted: bool) -> Network:
    """Open only where somebody opens it: a sandbox that was asked for has no network by default. A plan from outside
    cannot open all of it for itself."""
    said = [
        (level.is_operators, said["network"]) for level, said in _limited(levels) if said.get("network") is not None
    ]
    opened = any(how for operators, how in said if not untrusted or operators)
    sections = [level.data["network"] for level in levels if restricts(level.data, "network")]
    if not all(how for _, how in said) or any(map(_is_empty, sections)):
        return "none"
    if closed and not opened and not any(entries(section, "allow") for section in sections):
        return "none"
    return "judged" if sections else "open"


def _is_empty(section: Json) -> bool:
    """Whether it names hosts that may be reached and there are none."""
    return entries(section, "allow") == () and not entries(section, "ask")


def _limits(levels: Sequence[Level], untrusted: bool) -> tuple[Limits, dict[str, str]]:
    """The smallest of each limit and who set it. What a level of the plan says widens the standard only where the plan
    is the project's own."""
    found: dict[str, Json] = {}
    origins: dict[str, str] = {}
    for level, said in _limited(levels):
        for name in Limits._fields:
            if said.get(name) is None:
                continue
            value = _amount(level, name, said[name])
            if untrusted and not level.is_operators and (usual := getattr(STANDARD, name)) is not None:
                value = min(value, usual)
            if name not in found or value < found[name]:
                found[name], origins[name] = value, level.name
    return STANDARD._replace(**found), origins


def _amount(level: Level, name: str, value: Json) -> float:
    # Late: few policies name quantities.
    parse = {"cpu": parse_duration, "time": parse_duration, "memory": parse_size, "output": parse_size}
    read = amount(value, parse.get(name, parse_count))
    if read is None or (read <= 0 and name != "output"):
        raise Refused(f"`{level.name}`: `sandbox.{name}` is no amount: {shown(value)}", rule="policy.sandbox")
    return read if name in ("cpu", "time") else int(read)


def _named_variables(levels: Sequence[Level]) -> Iterator[str]:
    """Variables that a level allows by their full name, which is to say that they are wanted."""
    for level in levels:
        if level.is_operators and restricts(level.data, "env"):
            yield from (str(name) for name in entries(level.data["env"], "allow") or () if str(name).isidentifier())
