"""What the values of a task become: which of them run, name a host or a path, or decide something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planrunner.plan.model import Action
from planrunner.plan.shell.tree import HOLE
from planrunner.plan.taint.flow import Flow, actions_of, holes, placed, read, searched
from planrunner.plan.taint.levels import Cell, Place, meant
from planrunner.plan.taint.positions import (
    VARIABLE,
    Position,
    in_arguments,
    in_authority,
    in_script,
    use_of_input,
)
from planrunner.plan.taint.traits import DIGEST, STEERING, files_of, makes_rules
from planrunner.plan.templated import templates
from planrunner.records import Struct

Json = Any

LOOKED_AT = frozenset({"url", "host", "page", "path", "option", "written"})
"""Uses that hang on what the value is in the end: the run judges them by it. ``written`` is a file whose name is not
known before, with content from outside."""


class Sink(Struct):
    """A place where values become something. ``part`` is empty or ``rollback``; ``key`` and ``name`` say
    under which key of the task and which input it stands, ``text`` is the text there and ``template`` the part of it
    that counts. ``value`` is what has to be filled in to see what it comes to."""

    use: str
    part: str
    key: str
    name: str
    text: str
    template: str
    cells: tuple[Cell, ...]
    value: Json = None


def sinks(flow: Flow, place: Place, part: str | None = None) -> Iterator[Sink]:
    """The places of a task; of one of its calls alone where ``part`` is given."""
    task = place.task
    assert task is not None
    for name, action in actions_of(task):
        if part is None or name == part:
            at = place._replace(after=name == "rollback")
            yield from _run(at, name, action)
            yield from _inputs(flow, at, name, action)
    if task.cwd and holes(task.cwd):
        yield Sink("path", part or "", "cwd", "cwd", task.cwd, task.cwd, read(place, task.cwd), task.cwd)


def votes(place: Place) -> Iterator[Sink]:
    """What decides a gate without a person: a text in which its checks look for something."""
    task = place.task
    if task is None or task.gate is None:
        return
    for criterion in task.gate.checks:
        if criterion.expression is not None:
            cells = [cell for path in searched(criterion.expression.tree) for cell in meant(place, path)]
            yield Sink("approval", "", "checks", "", criterion.text, criterion.text, tuple(cells))


def _run(place: Place, part: str, action: Action) -> Iterator[Sink]:
    """What becomes of the values in a command, and of the variables that it reads."""
    task = place.task
    assert task is not None
    env = dict((*place.level.plan.env, *task.env))
    for name, value in env.items():
        if STEERING.fullmatch(name) and holes(value):
            yield Sink("command", part, part or "env", "", value, value, read(place, value))
    if action.run is None:
        return
    if not part and holes(task.stdin) and (use := use_of_input(action.run)):
        yield Sink(use, part, "stdin", "", task.stdin, task.stdin, read(place, task.stdin), task.stdin)
    variables = [name for name, value in env.items() if holes(value)]
    if isinstance(action.run, str):
        positions = in_script(action.run, variables, task.shell)
    else:
        positions = in_arguments(action.run, variables)
    for found in positions:
        text = action.run if isinstance(action.run, str) else found.word
        yield _positioned(place, (part, env, text), found)


def _positioned(place: Place, around: tuple[str, dict[str, str], str], found: Position) -> Sink:
    part, env, text = around
    task = place.task
    assert task is not None
    key = part or "run"
    if found.file:
        cells: tuple[Cell, ...] = (Cell("file", (), placed(task, found.file)),)
        return Sink(found.use, part, key, "", text, found.file, cells)
    prefix = f"{VARIABLE}."
    paths = [path for hole in holes(found.template) for path in hole.paths]
    named = [".".join(path) for path in paths if path[0] == VARIABLE]
    word, template = found.word, found.template
    for name in named:
        value = env.get(name.removeprefix(prefix), "")
        word, template = (each.replace(f"{{{{ {name} }}}}", value) for each in (word, template))
        key, text = part or "env", value
    return Sink(found.use, part, key, "", text, template, read(place, template), word)


def _inputs(flow: Flow, place: Place, part: str, action: Action) -> Iterator[Sink]:
    """What becomes of the inputs of a capability, as it declares."""
    if not isinstance(action.inputs, dict):
        return
    for name in flow.known(action.uses).writes:
        for path in files_of(action.inputs.get(name)):
            yield from _written(place, (part, name, path), action)
    for name, use in flow.known(action.uses).uses.items():
        value = action.inputs.get(name)
        if value is not None and use != DIGEST:
            for text, template, cells in _counting(place, use, value):
                yield Sink(use, part, part or "with", name, text, template, cells, value)


def _written(place: Place, at: tuple[str, str, str], action: Action) -> Iterator[Sink]:
    """A file that says what may be done in the project, or may turn out to be one."""
    part, name, path = at
    task = place.task
    assert task is not None
    if holes(path):
        yield Sink("written", part, part or "with", name, path, path, read(place, action.inputs), path)
    elif makes_rules(placed(task, path)):
        yield Sink("rules", part, part or "with", name, path, path, (Cell("file", (), placed(task, path)),))


def _counting(place: Place, use: str, value: Json) -> Iterator[tuple[str, str, tuple[Cell, ...]]]:
    """The parts of an input that become what it is used as."""
    task = place.task
    assert task is not None
    if use == "script" and isinstance(value, str) and not holes(value):
        yield value, value, (Cell("file", (), placed(task, value)),)
    elif use == "command" and isinstance(value, list):
        for found in in_arguments([str(item) for item in value]):
            if found.template and found.use != "option":
                yield found.word or found.template, found.template, read(place, found.template)
    elif use in ("url", "host") and isinstance(value, str):
        for template in _authority(value):
            yield value, template, read(place, template)
    elif use != "manifest" or isinstance(value, str):
        for text in templates(_unbound(value) if use == "statement" else value):
            if use != "manifest" or _is_whole(text):
                yield text, text, read(place, text)


def _unbound(value: Json) -> Json:
    """The statements of a list alone: what ``params`` beside one of them holds is bound, and does not run."""
    items = value if isinstance(value, list) else [value]
    return [
        {name: part for name, part in item.items() if name != "params"} if isinstance(item, dict) else item
        for item in items
    ]


def _authority(text: str) -> list[str]:
    """The templates of an address that say where it leads."""
    found, shape, at = holes(text), "", 0
    for hole in found:
        shape, at = shape + text[at : hole.start] + HOLE, hole.end
    return [text[found[number].start : found[number].end] for number in in_authority(shape + text[at:])]


def _is_whole(text: str) -> bool:
    found = holes(text.strip())
    return len(found) == 1 and found[0].end - found[0].start == len(text.strip())
