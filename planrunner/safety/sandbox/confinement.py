"""What a process is shut into: plain data, worked out from the policy and the same for every way to enforce it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from planrunner.errors import PlanInvalid, UsageError
from planrunner.files.match import path_matches
from planrunner.frozen import EMPTY
from planrunner.jsontext import shown
from planrunner.plan.expressions.quantities import amount, parse_count, parse_duration, parse_size
from planrunner.plan.rights import Level, entries, restricts, texts
from planrunner.records import Struct
from planrunner.safety.project import read_settings, settings_files, unsound

Kind = Literal["none", "landlock", "bubblewrap", "docker"]
Network = Literal["open", "judged", "none"]

KINDS: tuple[Kind, ...] = ("none", "landlock", "bubblewrap", "docker")
"""The profiles of ``policy.sandbox``, each stricter than the one before it."""


class Limits(NamedTuple):
    """The most that an attempt may use, None for no bound: processor seconds and bytes of memory of all its processes
    together, how many processes live at once, seconds since the start, bytes printed, open files of one process."""

    cpu: float | None = None
    memory: int | None = None
    processes: int | None = None
    time: float | None = None
    output: int | None = None
    files: int | None = None


STANDARD = Limits(memory=4 << 30, processes=512, output=1 << 30, files=4096)
"""What holds in a sandbox where no level says otherwise."""


class Missing(NamedTuple):
    """Something that may be written and is not there yet: it has to be made before it can be let in."""

    path: str
    folder: bool


class Branch(Struct):
    """The trees of candidates of a run lie in ``folder``, which is denied: they come and go while others are shut in.
    ``tree`` is the one that a call is made in and that is let in again, ``ground`` what stands for the working
    directory in it. Paths are empty where there is none."""

    folder: str = ""
    tree: str = ""
    ground: str = ""

    def shows(self, path: str) -> bool:
        """Whether a call may come upon a path as far as this goes."""
        return not self.folder or not beneath(path, self.folder) or bool(self.tree and beneath(path, self.tree))


_NO_BRANCH = Branch()


class Confinement(Struct):
    """What a process is shut into. Paths are absolute and real; of two that lie in each other the inner one counts, and
    for the same path the later of ``readable``, ``writable``, ``guarded``, ``denied``.

    ``guarded`` may be read and never written, ``denied`` not even be seen. ``own`` is a folder of this attempt alone,
    which lies in the state directory and is let in whatever is denied around it; ``fresh`` is one that starts empty and
    is gone afterwards, where there are namespaces: what programs remember for later would reach tasks that are not shut
    in. ``network`` is ``judged`` where each
    host is asked about. ``environment`` names the variables that pass beside those of the task. ``origins`` says which
    level set a limit; ``image`` is for docker.
    """

    kind: Kind
    root: str
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    own: str = ""
    branch: Branch = _NO_BRANCH
    fresh: str = ""
    network: Network = "none"
    limits: Limits = STANDARD
    environment: tuple[str, ...] = ()
    origins: Mapping[str, str] = EMPTY
    image: str = ""
    made: str = ""
    """The code for whose sake alone it is shut in, since it was made while the run went on."""

    def withheld(self, path: str) -> tuple[str, ...]:
        """What is denied and counts for a path: in the tree of its candidate the folder of all trees does not."""
        if self.branch.tree and beneath(path, self.branch.tree):
            return tuple(each for each in self.denied if each != self.branch.folder)
        return self.denied


class Command(Struct):
    """What is to be shut in; ``name`` is unique to the attempt, ``proxy`` the socket of the proxy, if any."""

    arguments: Sequence[str]
    env: Mapping[str, str]
    directory: str
    name: str = ""
    proxy: str = ""
    first: int = 0
    """The number that the first of the descriptors of ``Wrapped`` will have; 0: each keeps its own."""
    title: str = ""
    """What the program is called by, where that is not its path."""


class Refused(Exception):
    """A process may not be started, because it cannot be shut in as the policy demands. ``hint`` is the way out,
    ``rule`` the name of the rule."""

    def __init__(self, message: str, hint: str = "", rule: str = "sandbox") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.hint = hint
        self.rule = rule


MOST = 50_000
"""Files that are looked at for a pattern; a project with more of them names folders."""
EACH = 500
"""Files and folders that are let in or hidden one by one: each costs a mount and an open descriptor, and ordinary users
have 1,024 of these."""
_REPOSITORIES = 3
"""How deep repositories within the project are looked for."""
_OPERATOR = "planrunner.yaml"
_WILD = frozenset("*?")


class Scope(Struct):
    """See the fields of the same names of ``Confinement``."""

    writable: tuple[str, ...]
    readable: tuple[str, ...]
    guarded: tuple[str, ...]
    denied: tuple[str, ...]
    missing: tuple[Missing, ...]


class _Allowed(Struct):
    """Something to be let in; ``folder`` None where it is there already."""

    path: str
    folder: bool | None = None


def scope(
    levels: Sequence[Level], root: str, state: str, programs: Iterable[str] = (), branch: Branch = _NO_BRANCH
) -> Scope:
    """What these levels let in of the working directory and around it. What they deny is denied in the tree of a
    candidate as well. Raises Refused for a pattern that would have too many files looked at."""
    root = os.path.realpath(root)
    writable = [_Allowed(root), *_outside(levels, root, "write")]
    readable = [_Allowed(root), *_outside(levels, root, "read", "write")]
    denied: list[str] = [os.path.realpath(state)]
    opened = False
    for level in levels:
        files = level.data.get("files") if isinstance(level.data, dict) else None
        if not isinstance(files, dict):
            continue
        read, write = files.get("read"), files.get("write")
        if write is not None or read is not None:
            mine = texts(write if write is not None else read)
            opened = (opened or _Allowed(root) in writable) and write is not None and any(map(_names_git, mine))
            writable = _both(writable, list(_found(mine, root)))
        if read is not None:
            readable = _both(readable, list(_found((*texts(read), *texts(write)), root)))
        denied += _denied(texts(files.get("deny")), root)
        within = [each for each in texts(files.get("deny")) if not os.path.isabs(each)]
        denied += (path for copy in {branch.tree, branch.ground} - {"", root} for path in _denied(within, copy))
    if len({*denied, *(each.path for each in (*writable, *readable))}) > EACH:
        words = f"more than {EACH} files would be let in or hidden one by one"
        raise Refused(words, "name the folders that they lie in (`docs/**`)", "policy.files")
    guarded = list(_ruling(root))
    held = _around(guarded, root, [each.path for each in writable])
    guarded += () if opened else repositories(root, branch)
    let = (*(each.path for each in writable), *held)
    seen = tuple(each.path for each in readable if each.folder is None)
    aside = [branch.folder] if os.path.isdir(branch.folder) else []
    return Scope(
        (*filter(branch.shows, let), *_with_tree(branch, let)),
        (*filter(branch.shows, seen), *_with_tree(branch, seen)),
        (*guarded, *programs),
        tuple(dict.fromkeys((*filter(branch.shows, denied), *aside))),
        tuple(Missing(each.path, each.folder) for each in writable if each.folder is not None),
    )


def _with_tree(branch: Branch, let: Sequence[str]) -> tuple[str, ...]:
    """The tree of a candidate, where the folder that all trees lie in is let in."""
    return (branch.tree,) if branch.tree and any(beneath(branch.tree, each) for each in let) else ()


def _ruling(root: str) -> Iterator[str]:
    """The project's file and what it includes. Raises Refused where it is not sound."""
    path = f"{root}/{_OPERATOR}"
    if not os.path.lexists(path):
        return
    try:
        read_settings(root)
    except PlanInvalid as error:
        raise Refused(unsound(error)) from None
    except UsageError as error:
        raise Refused(error.message) from None
    yield from (f"{root}/{name}" for name in settings_files(root))


def _around(files: Iterable[str], root: str, writable: Sequence[str]) -> Iterator[str]:
    """The folders around files that may be written to: let in by themselves they can be neither moved nor taken away,
    and with them what rules from within."""
    for path in files:
        folder = os.path.dirname(path)
        while folder != root:
            if any(beneath(folder, around) for around in writable):
                yield folder
            folder = os.path.dirname(folder)


def _names_git(pattern: str) -> bool:
    return pattern.removeprefix("./").split("/")[0] == ".git"


def beneath(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it; both are real."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _both(one: list[_Allowed], other: list[_Allowed]) -> list[_Allowed]:
    """What both let in: of two that lie in each other the inner one."""
    shared = [each for each in one if any(beneath(each.path, around.path) for around in other)]
    shared += [each for each in other if any(beneath(each.path, around.path) for around in one)]
    return list(dict.fromkeys(shared))


def _outside(levels: Sequence[Level], root: str, *ways: str) -> Iterator[_Allowed]:
    """What the operator lets in from outside the working directory."""
    for level in levels:
        files = level.data.get("files") if level.is_operators and isinstance(level.data, dict) else None
        if isinstance(files, dict):
            named = _found((each for way in ways for each in texts(files.get(way)) if os.path.isabs(each)), root)
            yield from (each for each in named if not beneath(each.path, root))


def _found(patterns: Iterable[str], root: str) -> Iterator[_Allowed]:
    """What patterns stand for now, whatever links lead there."""
    for pattern in patterns:
        plain = pattern.removesuffix("/**").rstrip("/") or "."
        if pattern == "**":
            yield _Allowed(root)
        elif not _WILD & set(plain):
            yield _named(os.path.join(root, plain), pattern != plain)
        else:
            yield from (_Allowed(os.path.realpath(path)) for path in _fitting(pattern, root))


def _named(path: str, folder: bool) -> _Allowed:
    real = os.path.realpath(path)
    return _Allowed(real) if os.path.exists(real) else _Allowed(real, folder)


def _denied(patterns: Iterable[str], root: str) -> Iterator[str]:
    """What may not be seen: by its own path, since a link to it leads to what is hidden."""
    for pattern in patterns:
        plain = pattern.removesuffix("/**").rstrip("/") or "."
        if _WILD & set(plain):
            yield from (os.path.realpath(path) for path in _fitting(pattern, root))
        elif os.path.lexists(path := os.path.join(root, plain)):
            yield os.path.realpath(path)


def _fitting(pattern: str, root: str) -> Iterator[str]:
    """What fits a pattern now, a folder standing for all that it holds. Raises Refused for too many files."""
    if os.path.isabs(pattern):
        if not beneath(pattern, root):
            raise Refused(f"`{pattern}` has wildcards outside the working directory", "name a folder", "policy.files")
        pattern = os.path.relpath(pattern, root)
    seen = 0
    todo = [""]
    while todo:
        at = todo.pop()
        try:
            listed = list(os.scandir(os.path.join(root, at)))
        except OSError:
            continue
        seen += len(listed)
        if seen > MOST:
            raise Refused(f"more than {MOST:,} files would be held against `{pattern}`", "name folders", "policy.files")
        for entry in listed:
            path = f"{at}/{entry.name}" if at else entry.name
            if path_matches(pattern, path):
                yield os.path.join(root, path)
            elif entry.is_dir(follow_symlinks=False):
                todo.append(path)


def repositories(root: str, branch: Branch) -> Iterator[str]:
    """What git keeps of the project and of repositories in it: hooks and settings there make git run programs."""
    return (path for path in ruling(root, branch) if path.endswith("/.git"))


def ruling(root: str, branch: Branch) -> Iterator[str]:
    """What rules over what is run in the project and in the folders in it: what git keeps, and settings. Trees of other
    candidates are left out."""
    todo = [(root, _REPOSITORIES), *([(branch.tree, _REPOSITORIES)] if branch.tree else [])]
    while todo:
        folder, deeper = todo.pop()
        own = f"{folder}/.git"
        yield from (path for path in (own, f"{folder}/{_OPERATOR}") if os.path.lexists(path))
        if deeper:
            try:
                inner = [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
            except OSError:
                continue
            todo += [(path, deeper - 1) for path in inner if path not in (own, branch.folder)]


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
    branch: Branch = _NO_BRANCH


class Demand(Struct):
    """How strict it has to be. ``asked`` says that a level names the kind or wants a sandbox as such, so that nothing
    weaker will do; else it only has to enforce what is declared. ``who`` demands it."""

    kind: Kind
    asked: bool = False
    who: str = ""
    image: str = ""


def demand(levels: Sequence[Level], untrusted: bool, made: str = "") -> Demand:
    """How strict a sandbox these levels ask for. Code that was ``made`` while the run went on is shut in unless one of
    them says something of a sandbox. Raises Refused for a profile that there is not."""
    wanted = Demand("bubblewrap", False, "a plan from outside the project") if untrusted else Demand("none")
    if made and all(_sandbox(level) is None for level in levels):
        wanted = Demand("bubblewrap", False, made)
    for level in levels:
        said = _demanded(level)
        if (KINDS.index(said.kind), said.asked) > (KINDS.index(wanted.kind), wanted.asked):
            wanted = said
    return wanted


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
    files = scope(levels, place.root, place.state, place.programs, place.branch)
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
        place.branch,
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
    """Open only where a level opens it: a sandbox that was asked for has no network by default. A plan from outside
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
    """Whether its list of hosts that may be reached is empty."""
    return entries(section, "allow") == () and not entries(section, "ask")


def _limits(levels: Sequence[Level], untrusted: bool) -> tuple[Limits, dict[str, str]]:
    """The smallest of each limit and who set it. What a level of the plan says widens the standard only where the plan
    is the project's own."""
    lowest: dict[str, Json] = {}
    origins: dict[str, str] = {}
    for level, said in _limited(levels):
        for name in Limits._fields:
            if said.get(name) is None:
                continue
            value = _amount(level, name, said[name])
            if untrusted and not level.is_operators and (usual := getattr(STANDARD, name)) is not None:
                value = min(value, usual)
            if name not in lowest or value < lowest[name]:
                lowest[name], origins[name] = value, level.name
    return STANDARD._replace(**lowest), origins


def _amount(level: Level, name: str, value: Json) -> float:
    # Late: few policies name quantities.
    parse = {"cpu": parse_duration, "time": parse_duration, "memory": parse_size, "output": parse_size}
    read = amount(value, parse.get(name, parse_count))
    if read is None or (read <= 0 and name != "output"):
        raise Refused(f"`{level.name}`: `sandbox.{name}` is not an amount: {shown(value)}", rule="policy.sandbox")
    return read if name in ("cpu", "time") else int(read)


def _named_variables(levels: Sequence[Level]) -> Iterator[str]:
    """Variables that a level allows by their full name, which is to say that they are wanted."""
    for level in levels:
        if level.is_operators and restricts(level.data, "env"):
            yield from (str(name) for name in entries(level.data["env"], "allow") or () if str(name).isidentifier())
