"""Two tasks without an order between them that write one file, or of which one writes what the other reads.

Files are known from the inputs that capabilities declare as paths, from declared outputs and artifacts, and from the
redirections, ``tee``, ``cat``, ``cp`` and ``mv`` of scripts as far as these can be read without running them. A path
with a template or a variable is not known. Lines that several tasks append to one file do not collide: each arrives.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, pairwise
from typing import Literal

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.access import taken, touched
from planrunner.plan.graph import Graph
from planrunner.plan.joins import ON_SUCCESS
from planrunner.plan.model import Edge, Fanout, Task
from planrunner.plan.rules.view import PlanView, span_of
from planrunner.plan.shell.parse import parse
from planrunner.plan.shell.tree import Command, Word, started
from planrunner.plan.tasks import comes_last, inside
from planrunner.plan.templated import holds_template
from planrunner.records import Struct
from planrunner.source import Span

Way = Literal["read", "write", "append"]

_MOST = 24
"""Tasks that touch one file of which every pair is looked at; of more each is looked at with the next."""
_MOST_PAIRS = 2_000
_FREELY = ("files.mkdir", "sql.", "git.", "branch.")
"""What may be done with one path in any order, or is kept apart by what does it."""
_APPENDS = ("files.append", "kb.note", "kb.claim")
_SHELLS = ("sh", "bash", "dash", "ash")
_GOES_ELSEWHERE = ("cd", "pushd", "popd")


class _Touch(Struct):
    """A file that a task touches: ``name`` is the task by its path from the list on, ``at`` the place in its text,
    ``whens`` the conditions of tasks inside that one of the list."""

    path: str
    way: Way
    name: str
    at: Span
    whens: frozenset[str] = frozenset()


class _Pair(Struct):
    first: int
    second: int
    one: _Touch
    other: _Touch


def check(view: PlanView) -> Iterable[Diagnostic]:
    tasks = view.plan.tasks
    if view.checked or view.refused or view.plan.max_parallel == 1:
        return
    touches = [list(_touches(view, task, task.id, "")) if not _is_apart(task) else [] for task in tasks]
    for task, own in zip(tasks, touches, strict=True):
        if task.fanout is not None and _at_once(view, task, task.fanout):
            yield from _items(task, own)
    pairs = list(islice(_pairs(touches), _MOST_PAIRS))
    known = [(pair.first, pair.second) for pair in pairs]
    forth = view.graph.precedes(known)
    back = view.graph.precedes([(second, first) for first, second in known])
    found: set[tuple[int, int]] = set()
    branches = _Branches(view.graph)
    for pair, *ordered in zip(pairs, forth, back, strict=True):
        places = (pair.first, pair.second)
        if any(ordered) or places in found or _one_at_a_time(view, *(tasks[at] for at in places)):
            continue
        if not branches.exclude(*places, pair.one.whens, pair.other.whens):
            found.add(places)
            yield _report(view, pair)


# Which files


def _touches(view: PlanView, task: Task, name: str, cwd: str, whens: frozenset[str] = frozenset()) -> Iterator[_Touch]:
    """What a task and those inside it touch."""
    cwd = posixpath.join(cwd, task.cwd)
    inner = inside(task)
    if inner and task.agent is None and not any(each.uses.startswith("branch.") for each in inner):
        for each in inner:
            more = {each.when.text} if each.when is not None else set[str]()
            yield from _touches(view, each, f"{name}/{each.id}", cwd, whens | more)
    if inner or task.agent is not None:
        return
    for path, way, key in _own(view, task):
        if path and not holds_template(path) and not (holds_template(cwd) and not path.startswith("/")):
            place = posixpath.normpath(posixpath.join(cwd, path))
            if place not in (".", "/") and not place.startswith(("/dev/", "/proc/")):
                yield _Touch(place, way, name, span_of(task, key, "uses"), whens)


def _own(view: PlanView, task: Task) -> Iterator[tuple[str, Way, str]]:
    capability = view.capabilities.get(task.uses) if task.uses else None
    if capability is not None and not task.uses.startswith(_FREELY):
        for touch in touched(capability, task.inputs):
            if not touch.several:
                way: Way = "append" if touch.way == "write" and task.uses in _APPENDS else touch.way
                yield touch.text, way, "with"
    yield from ((touch.text, "read", touch.at[0]) for touch in taken(task) if not touch.several)  # type: ignore[misc]
    if isinstance(task.run, str) and posixpath.basename((task.shell or "sh").split()[0]) in _SHELLS:
        yield from ((path, way, "run") for path, way in _of_script(task.run))


def _of_script(text: str) -> Iterator[tuple[str, Way]]:
    """The files that the commands of a script name as they are written, in front of what cannot be read."""
    if "{%" in text or "\0" in text or not any(sign in text for sign in (">", "<", "tee", "cat", "cp", "mv")):
        return
    script = parse(text)
    readable = [
        each for each in script.commands if not each.apart and (script.beyond is None or each.end <= script.beyond)
    ]
    leaves = any((words := started(each.words)) and words[0].text in _GOES_ELSEWHERE for each in script.commands)
    for command in readable:
        for path, way in (*_redirected(command), *_named(command)):
            if path and (path.startswith("/") or not leaves):
                yield path, way


def _redirected(command: Command) -> Iterator[tuple[str, Way]]:
    for each in command.redirects:
        path = "" if each.target is None else _literal(each.target)
        if each.sign in (">", ">|", "&>", ">&") and not (each.sign == ">&" and (path.isdigit() or path == "-")):
            yield path, "write"
        elif each.sign in (">>", "&>>"):
            yield path, "append"
        elif each.sign == "<":
            yield path, "read"


def _named(command: Command) -> Iterator[tuple[str, Way]]:
    """The files among the arguments of programs that do one thing with them."""
    program, *arguments = started(command.words) or [Word()]
    options = [each.text for each in arguments if each.text.startswith("-")]
    paths = [_literal(each) for each in arguments if not each.text.startswith("-")]
    if program.text == "tee" and set(options) <= {"-a"}:
        yield from ((path, "append" if options else "write") for path in paths)
    elif program.text == "cat":
        yield from ((path, "read") for path in paths)
    elif program.text in ("cp", "mv") and len(paths) == 2 and not options and not paths[1].endswith("/"):
        yield paths[0], "read" if program.text == "cp" else "write"
        yield paths[1], "write"


def _literal(word: Word) -> str:
    """The text of a word that the shell takes as it is; empty for any other."""
    plain = all(part.kind in ("plain", "quoted", "escaped") for part in word.parts)
    return word.text if plain and not any(sign in word.shape for sign in "*?~[{") else ""


# Which tasks


def _is_apart(task: Task) -> bool:
    """Whether a task works in a place of its own, as candidates do, each in its working tree."""
    return any(each.uses.startswith("branch.") for each in inside(task))


def _at_once(view: PlanView, task: Task, fanout: Fanout) -> bool:
    """Whether items of a fan-out may run side by side."""
    few = isinstance(fanout.items, list) and len(fanout.items) < 2
    return fanout.max_parallel != 1 and not fanout.tools and not few and not _one_at_a_time(view, task, task)


def _one_at_a_time(view: PlanView, one: Task, other: Task) -> bool:
    alone = {label for label, most in view.plan.limits if most == 1}
    return not alone.isdisjoint(set(one.labels) & set(other.labels))


def _pairs(touches: Sequence[Sequence[_Touch]]) -> Iterator[_Pair]:
    """Pairs of tasks that touch one file, or of which one touches a folder around the file of the other, and that do
    not both just read, or append."""
    of_path: dict[str, dict[tuple[int, Way], _Touch]] = {}
    for at, own in enumerate(touches):
        for touch in own:
            of_path.setdefault(touch.path, {}).setdefault((at, touch.way), touch)
    for path, known in of_path.items():
        entries = [(at, touch) for (at, _), touch in known.items()]
        around = [(at, touch) for above in _above(path) for (at, _), touch in of_path.get(above, {}).items()]
        close = combinations(entries, 2) if len(entries) <= _MOST else pairwise(entries)
        for (first, one), (second, other) in (*close, *((a, b) for a in entries for b in around[:_MOST])):
            if first != second and {one.way, other.way} not in ({"read"}, {"append"}):
                yield _Pair(first, second, one, other) if first < second else _Pair(second, first, other, one)


def _above(path: str) -> Iterator[str]:
    while (path := posixpath.dirname(path)) not in ("", "/", ".."):
        yield path


Key = tuple[str, str, str, bool]


class _Branches:
    """By which edges and conditions tasks are reached, to tell those that never run both."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._above: dict[int, set[int]] = {}

    def exclude(self, one: int, other: int, whens: frozenset[str], other_whens: frozenset[str]) -> bool:
        """Whether two tasks are, or may well be, never run both."""
        tasks = self._graph.tasks
        if comes_last(tasks[one]) != comes_last(tasks[other]) or tasks[one].finally_ != tasks[other].finally_:
            return True  # the one comes after the other
        ones, others = self._whens(one) | whens, self._whens(other) | other_whens
        if (ones - others and others - ones) or self._on_failures(one, other) or self._on_failures(other, one):
            return True
        mine, theirs = self._routes(one), self._routes(other)
        return self._apart(mine, theirs, other) or self._apart(theirs, mine, one)

    def _apart(self, mine: dict[int, set[Key]], theirs: dict[int, set[Key]], other: int) -> bool:
        """Whether an edge leads to one task alone, while another edge of the same task, or its success, leads to the
        other."""
        for source, keys in mine.items():
            if source in theirs and keys.isdisjoint(theirs[source]):
                return True
            if (
                source not in theirs
                and not any(key[0] in ("success", "always") for key in keys)
                and source in self._upstream(other)
            ):
                return True
        return False

    def _upstream(self, at: int) -> set[int]:
        if at not in self._above:
            seen, waiting = {at}, [at]
            for here in waiting:
                fresh = [there for there in self._graph.before(here) if there not in seen]
                seen.update(fresh)
                waiting += fresh
            self._above[at] = seen
        return self._above[at]

    def _whens(self, at: int) -> set[str]:
        tasks = self._graph.tasks
        return {when.text for each in self._upstream(at) if (when := tasks[each].when) is not None}

    def _on_failures(self, one: int, other: int) -> bool:
        """Whether one waits for a failure of what the other waits for."""
        for each in self._upstream(one):
            waits = self._graph.tasks[each].join.kind not in ON_SUCCESS
            if waits and not self._upstream(other).isdisjoint(self._graph.needs[each]):
                return True
        return False

    def _routes(self, at: int) -> dict[int, set[Key]]:
        """The tasks whose edges lead to a task, or to one before it, with what these edges wait for."""
        reached: dict[int, set[Key]] = {}
        above = self._upstream(at)
        for here in above:
            for source in self._graph.routed_from[here]:
                edges = [each for each in self._graph.tasks[source].edges if self._graph.find(each.target) == here]
                reached.setdefault(source, set()).update(map(_key, edges))
        return reached


def _key(edge: Edge) -> Key:
    return edge.on, edge.condition.text if edge.condition is not None else "", edge.failure_class, edge.otherwise


# What is said


def _items(task: Task, own: Sequence[_Touch]) -> Iterator[Diagnostic]:
    written = next((touch for touch in own if touch.way == "write" and not touch.whens), None)
    if written is not None and task.when is None:
        message = f"the items of `{task.id}` may run at once and each writes `{written.path}`"
        help_ = "name the item in the path, or set `max_parallel: 1`"
        yield Diagnostic("PLAN510", message, written.at, help=help_)


def _report(view: PlanView, pair: _Pair) -> Diagnostic:
    one, other = pair.one, pair.other
    first, second = (view.plan.tasks[at].id for at in (pair.first, pair.second))
    if "read" in (one.way, other.way):
        reader, writer = (one, other) if one.way == "read" else (other, one)
        message = f"`{reader.name}` reads `{reader.path}` while `{writer.name}` may write it"
        if reader.path != writer.path:
            message = f"`{reader.name}` reads `{reader.path}` while `{writer.name}` may write `{writer.path}`"
    elif one.path == other.path:
        message = f"`{one.name}` and `{other.name}` both write `{one.path}`"
    else:
        message = f"`{one.name}` writes `{one.path}` and `{other.name}` writes `{other.path}`"
    message += ", and neither waits for the other"
    place = other.at if _stands(view, other) else view.plan.tasks[pair.second].span
    labels = (Label(one.at if _stands(view, one) else view.plan.tasks[pair.first].span, f"`{one.name}` is here"),)
    return Diagnostic(
        "PLAN510",
        message,
        place,
        labels=labels,
        help=f"let one need the other, such as `needs: [{first}]` in `{second}`",
    )


def _stands(view: PlanView, touch: _Touch) -> bool:
    """Whether the place of a task is in this text: of a plan that is linked it is in another one."""
    top = view.plan.tasks[view.positions[touch.name.partition("/")[0]]]
    return not _links(top)


def _links(task: Task) -> bool:
    return task.sub is not None or any(map(_links, inside(task)))
