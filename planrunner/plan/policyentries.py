"""Entries of a policy that deny or ask and can never fit: whoever wrote them believes in a rule that nobody keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.plan.nearest import nearest
from planrunner.plan.patterns import name_matches

if TYPE_CHECKING:
    from planrunner.plan.model import Capability

Json = Any
Path = tuple[str | int, ...]

NEVER, NOT_HERE = "PLAN802", "PLAN803"
_BETWEEN = frozenset("&& || | & > >> < 2> &> ;;".split())
"""Signs between commands, and of redirections, which are no words of a command."""


class Known(NamedTuple):
    """The capabilities there are: ``find`` gives one by its name, ``built_in`` the names that need no plugin, ``names``
    all of them (it may load plugins)."""

    find: Callable[[str], Capability | None]
    built_in: Callable[[], Iterable[str]]
    names: Callable[[], Iterable[str]]


class Misfit(NamedTuple):
    """An entry that never fits (``NEVER``), or not with what is installed (``NOT_HERE``): the keys that lead to it from
    the policy on, what is wrong, and what to write."""

    code: str
    path: Path
    message: str
    help: str


def misfits(policy: Json, known: Known) -> Iterator[Misfit]:
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


def _capability(entry: Json, path: Path, known: Known) -> Iterator[Misfit]:
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


def _name(pattern: str, path: Path, known: Known) -> Iterator[Misfit]:
    """A name, or a pattern of names, that no capability has."""
    if _is_pattern(pattern):
        if any(name_matches(pattern, name) for each in (known.built_in, known.names) for name in each()):
            return
    elif known.find(pattern) is not None:
        return
    what = f"`{pattern}` in `{_section(path)}` fits nothing: no installed capability is named so"
    family, _, rest = pattern.partition(".")
    families = dict.fromkeys(name.partition(".")[0] for name in known.built_in())
    close = nearest(pattern, known.names())
    if close is None and rest and family not in families and (near := nearest(family, families)):
        close = f"{near}.{rest}"
    if close is not None and not _is_pattern(close.partition(".")[0]):
        yield Misfit(NEVER, path, f"{what}, did you mean `{close}`?", f"write `{close}`")
    elif family in families:
        yield Misfit(NEVER, path, what, f"`planrunner capabilities {family}` lists those of the family")
    else:
        yield Misfit(NOT_HERE, path, what, "install the plugin that brings it, or take the entry out")


def _called(entry: dict[str, Json], path: Path, capability: Capability | None) -> Iterator[Misfit]:
    """What an entry says of the call of one capability, and that this one does not take."""
    if capability is None:
        return
    name, given = capability.name, entry.get("with")
    if "run" in entry and not capability.takes_run:
        message = f"`run` fits no call of `{name}`, which runs no script"
        yield Misfit(NEVER, (*path, "run"), message, "write `with` and patterns for its inputs")
    inputs = [field.name for field in capability.inputs]
    for key in given if isinstance(given, dict) and not capability.open_inputs else ():
        if key in inputs:
            continue
        message = f"`{name}` has no input `{key}`, so the entry fits no call"
        if key == "run" and capability.takes_run:
            help_ = f"write it beside `uses`: {{uses: {name}, run: …}}"
        else:
            close = nearest(str(key), inputs)
            help_ = f"did you mean `{close}`?" if close else f"`planrunner capabilities {name}` lists its inputs"
        yield Misfit(NEVER, (*path, "with", key), message, help_)


def _command(pattern: str, path: Path) -> Iterator[Misfit]:
    words = pattern.split()
    joins = [word for word in words if word in _BETWEEN] + [word[-1] for word in words[:-1] if word.endswith(";")]
    if joins:
        message = f"`{joins[0]}` fits no word: a pattern is held against each single command of a script"
        yield Misfit(NEVER, path, message, "write a pattern for each command: run: [git push *, rm *]")


def _file(pattern: str, path: Path) -> Iterator[Misfit]:
    if ".." in pattern.split("/"):
        message = (
            f"`{pattern}` fits no file: paths are from the working directory of the run, or full ones, without `..`"
        )
        yield Misfit(NEVER, path, message, "write the full path of what lies outside, such as /srv/shared/**")
    elif pattern.partition("/")[0] == "~":
        message = f"`{pattern}` fits no file outside the project: `~` is a name like any other"
        yield Misfit(NEVER, path, message, "write the full path, such as /srv/keys/**")


def _section(path: Path) -> str:
    return f"policy.{path[0]}.{path[1]}"


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text
