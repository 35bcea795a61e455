"""The files that the calls of a task name, held against the levels of policy before anything runs.

The schemas of the inputs say which of them are paths, and whether the files are read or written. ``format`` is
``file-read`` or ``file-written`` for a path, and ``file-mounted`` for a path whose neighbour ``write`` says which of
the two. It is ``file-database`` for the address of a SQLite database, and ``file-function`` for a function named by its
file. ``file-pattern`` is a pattern of files to read, ``file-diff`` a text that names files to be written. The files
that hold outputs, and those that are kept as artifacts, are read as well, and so is what is shown at a gate; what is
saved for an undo is read, and written when that puts it back. What holds a template is not known before the call, nor
what a diff names before it is applied: both are judged then, by the same functions (``capabilities/files/scope.py``).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from planrunner.files.match import is_glob, placed, steps
from planrunner.later import Later
from planrunner.plan.expressions.values import text_of
from planrunner.plan.rights import Access, Decision, Level, narrows, restricts
from planrunner.plan.rights import path as right_to
from planrunner.plan.tasks import inside
from planrunner.plan.templated import holds_template
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.plan.model import Capability, Gate, Plan, Task
    from planrunner.plan.policy_checks import judged
else:
    judged = Later("planrunner.plan.policy_checks:judged")

Json = Any


def looks_at(wanted: str, evidence: Json) -> list[dict[str, Json]]:
    """What has to be looked at, by the kind of the gate: a bare path is a file, a report of tests, or a part of the
    tree whose changes are reviewed."""
    items = evidence if isinstance(evidence, list) else [] if evidence is None else [evidence]
    paths = [item for item in items if isinstance(item, str)]
    rows: list[dict[str, Json]] = []
    if wanted == "tests":
        rows += [{"kind": "junit", "path": path} for path in paths]
    elif wanted == "diff":
        if not any(isinstance(item, dict) and "diff" in item for item in items):
            rows.append({"kind": "diff", "paths": paths})
    else:
        rows += [{"kind": "file", "path": path} for path in paths]
    for item in items:
        if not isinstance(item, str):
            rows += _explicit(item)
    kind = {"tests": "junit", "schema": "schema"}.get(wanted)
    if kind is not None and not any(look["kind"] == kind for look in rows):
        rows.append({"kind": kind, "name": "evidence"})
    return rows


def _explicit(item: Json) -> list[dict[str, Json]]:
    if not isinstance(item, dict):
        return [{"kind": "text", "name": "", "value": item}]
    if "schema" in item:
        return [{"kind": "schema", "path": item.get("file", item.get("path")), "schema": item["schema"]}]
    if "diff" in item:
        what, paths = item["diff"], item.get("paths", [])
        more = paths if isinstance(paths, list) else [paths]
        named = [*(what if isinstance(what, list) else []), *more]
        return [{"kind": "diff", "range": what if isinstance(what, str) else "", "paths": named}]
    rows: list[dict[str, Json]] = []
    for key, value in item.items():
        kind = {"file": "file", "files": "file", "path": "file", "junit": "junit", "tests": "junit"}.get(key)
        if kind is None:
            rows.append({"kind": "text", "name": key, "value": value})
        else:
            rows += [{"kind": kind, "path": path} for path in (value if isinstance(value, list) else [value])]
    return rows


def paths_of(look: dict[str, Json]) -> Iterator[tuple[str, bool]]:
    """The paths that a look names, each with whether it may stand for several files: a pattern of files, or a folder
    whose changes are reviewed."""
    if look["kind"] == "diff":
        yield from ((path, True) for path in (look.get("range"), *look["paths"]) if isinstance(path, str) and path)
    else:
        named = (path for path in (look.get("path"), look.get("schema")) if isinstance(path, str) and path)
        yield from ((path, look["kind"] == "file" and is_glob(path)) for path in named)


WAYS: dict[str, Literal["read", "write"]] = {
    "file-read": "read",
    "file-mounted": "read",
    "file-function": "read",
    "file-pattern": "read",
    "file-written": "write",
    "file-database": "write",
    "file-diff": "write",
}
"""What is done with the files that an input of such a format names."""

_SQLITE = "sqlite:///"

_SOMEWHERE = "/project"
"""Stands for the working directory of a run where it is not known: paths below it are the same below any."""


class Ground(Struct):
    """What there is beside the levels to judge paths: the capabilities by name, and the working directory of the run,
    absolute (empty where that is not known)."""

    capabilities: Mapping[str, Capability]
    directory: str = ""


class Touch(Struct):
    """A text in the inputs of a call that names a file, or (``several``) files that the text alone does not tell: a
    pattern, a diff; ``at`` leads to it from the inputs on."""

    way: Literal["read", "write"]
    text: str
    at: tuple[str | int, ...]
    several: bool = False


def touched(capability: Capability, inputs: Json) -> Iterator[Touch]:
    """What the inputs of a call say of files, in the order of the inputs."""
    if isinstance(inputs, dict):
        schemas = {field.name: field.schema for field in capability.inputs}
        for name, value in inputs.items():
            yield from dict.fromkeys(_named(schemas.get(name), value, (name,)))


def files(levels: Sequence[Level], task: Task, ground: Ground) -> Iterator[tuple[Access, Decision | None]]:
    """The files that a task names, what undoes it included, with what the levels say to each;
    None where only the call can tell. Nothing where no level is about files."""
    if not any(restricts(level.data, "files") for level in levels):
        return
    around = (ground.directory, task.cwd)
    for key, action in (("with", task), ("rollback", task.rollback)):
        found = ground.capabilities.get(action.uses) if action is not None and action.uses else None
        if found is not None and action is not None:
            for touch in touched(found, action.inputs):
                at = (key, *touch.at) if key == "with" else (key, "with", *touch.at)
                yield _judged(levels, around, touch._replace(at=at))
    yield from (_judged(levels, around, touch) for touch in (*taken(task), *_saved(task)))
    if task.gate is not None and task.gate.evidence is not None:
        yield from (_judged(levels, (ground.directory, ""), touch) for touch in _shown(task.gate))


def taken(task: Task) -> Iterator[Touch]:
    """What is read of the files that a task leaves: its outputs and artifacts."""
    if task.uses:
        for output in task.outputs:
            if output.path:
                yield Touch("read", output.path, ("outputs", output.path))
        for artifact in task.artifacts:
            if artifact.path:
                yield Touch("read", artifact.path, ("artifacts", artifact.path), is_glob(artifact.path))


def _saved(task: Task) -> Iterator[Touch]:
    for path in task.backup:
        yield Touch("read", path, ("backup", path), is_glob(path))
        yield Touch("write", path, ("backup", path), is_glob(path))


def _shown(gate: Gate) -> Iterator[Touch]:
    """What a gate looks at, from the working directory of the run."""
    for look in looks_at(gate.kind, gate.evidence):
        yield from (Touch("read", path, ("evidence", path), several) for path, several in paths_of(look))


def _judged(levels: Sequence[Level], around: tuple[str, str], touch: Touch) -> tuple[Access, Decision | None]:
    """``around`` are the working directory of the run and the ``cwd`` of the task."""
    open_ = touch.several or holds_template(touch.text) or holds_template(around[1])
    place = None if open_ else _place(*around, touch.text)
    right = None if place is None else right_to(levels, touch.way, place)
    return Access.file(touch.way, place or touch.text, touch.at), right


def _place(root: str, cwd: str, path: str) -> str | None:
    """Where a path leads, as policies name it; None for what names nothing below the directory of the call, which the
    call refuses by another rule, and for what hangs on a working directory that is not known."""
    if "\0" in path or "\0" in cwd or (not root and (path.startswith("/") or cwd.startswith("/"))):
        return None
    top = root or _SOMEWHERE
    directory = posixpath.normpath(posixpath.join(top, cwd))
    parts = steps(directory, path)
    place = placed(top, directory, parts) if parts else None
    return None if place is not None and not root and place.startswith("/") else place


def _named(schema: Json, value: Json, at: tuple[str | int, ...]) -> Iterator[Touch]:
    """The texts in a value that its schema calls paths."""
    if not isinstance(schema, dict):
        return
    for member in schema.get("anyOf", ()):
        yield from _named(member, value, at)
    form = schema.get("format")
    if isinstance(value, (bool, int, float)) and form in WAYS:
        value = text_of(value)
    if isinstance(value, str) and form in WAYS:
        text, several = _file_of(form, value)
        if text:
            yield Touch(WAYS[form], text, at, several)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _named(schema.get("items"), item, (*at, number))
    elif isinstance(value, dict):
        members = schema.get("properties", {})
        for name, item in value.items():
            member = members.get(name, schema.get("additionalProperties"))
            result = _named(member, item, (*at, name))
            mounted = isinstance(member, dict) and member.get("format") == "file-mounted"
            if mounted:  # a folder that is handed to others, to be read or, by a word beside it, to be written
                write = value.get("write", False)
                way: Literal["read", "write"] = "write" if write else "read"
                result = (each._replace(way=way, several=not isinstance(write, bool)) for each in result)
            yield from result


def _file_of(form: str, text: str) -> tuple[str, bool]:
    """The file that a text names, and whether only the call can tell what it comes to; empty where it names none, as
    the name of a database in the settings does not."""
    if form == "file-database" and not holds_template(text):
        plain = text.startswith(_SQLITE) and "?" not in text and not text.endswith(":memory:")
        return (text.removeprefix(_SQLITE) if plain else ""), False
    if form == "file-function" and not holds_template(text):
        place = text.rpartition(":")[0]
        return (place, False) if place.endswith(".py") else (text, True)
    return text, form == "file-diff" or (form == "file-pattern" and is_glob(text))


class GovernedTask(NamedTuple):
    """A task with the levels that hold for it, the operator's first, and the variables that the plan around it sets;
    ``name`` is its path (``owner/inner``)."""

    name: str
    task: Task
    levels: tuple[Level, ...]
    env: tuple[tuple[str, str], ...]


def governed_tasks(plan: Plan, operator: tuple[Level, ...] = ()) -> Iterator[GovernedTask]:
    """Every task, in the order of the text."""
    around = _with(operator, Level("the plan", plan.policy))
    todo = [("", task, around, plan.env) for task in reversed(plan.tasks)]
    while todo:
        prefix, task, around, env = todo.pop()
        levels = _with(around, Level(f"task {task.id}", task.policy))
        name = prefix + task.id
        yield GovernedTask(name, task, levels, env)
        inner = levels
        if task.sub is not None:
            inner = _with(inner, Level(f"the plan {task.sub.id}", task.sub.policy, task.sub.file))
            env = task.sub.env
        todo += ((f"{name}/", each, inner, env) for each in reversed(inside(task)))


def _with(levels: tuple[Level, ...], more: Level) -> tuple[Level, ...]:
    return (*levels, more) if narrows(more.data) else levels


def refused_tasks(
    plan: Plan, operator: tuple[Level, ...], ground: Ground
) -> Iterator[tuple[str, Task, Access, Decision]]:
    """What the levels refuse, whatever the templates come to, with the path of each task."""
    for name, task, levels, env in governed_tasks(plan, operator):
        for wanted, right in (*judged(levels, task, env), *files(levels, task, ground)):
            if right is not None and right.verdict == "deny":
                yield name, task, wanted, right
