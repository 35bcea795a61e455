"""What a plan and its tasks may do, for the person who is asked whether it may run, and which credentials a project
has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from planrunner.escapes import escaped, harmless, masked, numbered
from planrunner.plan.expressions.quantities import duration_text
from planrunner.records import Struct
from planrunner.views.terminal import Terminal, cut, plural, table, width

Json = Any


MOST = 40
"""Names of a row that are listed; how many more there are is told."""
LONGEST = 72
"""Columns of one name."""
LONGEST_PATH = 300
"""Columns of a path that has to be seen whole."""
_LABEL = 12
_EFFECTS = {"unsafe": "changes things", "checkable": "changes things", "idempotent": "changes things", "read": "reads"}
_PLAIN = frozenset("./:_-@*#[]+=%~$")


def powers_lines(screen: Terminal, document: dict[str, Json]) -> Iterator[str]:
    """The summary, a row for each kind of thing; rows without anything to tell are left out, but for what would be
    missed."""
    for label, text in _rows(document):
        yield from _wrapped(screen, label, text)


def _rows(document: dict[str, Json]) -> Iterator[tuple[str, list[str]]]:
    yield "plan", [f"{item(document['plan'])} with {plural(document['tasks'], 'task')}"]
    yield "file", [item(document["file"], LONGEST_PATH)]
    if document["why"]:
        origin = "inside, with text from outside" if document["origin"] == "drafted" else document["origin"]
        yield "origin", [f"{origin}: {cut(_visible(document['why']), LONGEST_PATH, False)}"]
    if document["subplans"]:
        yield "links to", _items(document["subplans"])
    yield "works in", [item(document["directory"], LONGEST_PATH)]
    yield "calls", _bounded([_call(row) for row in document["capabilities"]]) or ["nothing"]
    if document["programs"]:
        yield "programs", [*_items(document["programs"]), "and what these start"]
    if document["hosts"]:
        yield "hosts", _items(document["hosts"])
    if document["writes"]:
        yield "writes", _items(document["writes"])
    if document["outside"]:
        rows = [
            f"{item(row['path'], LONGEST_PATH)} ({row['as']} of {item(row['task'])})" for row in document["outside"]
        ]
        yield "reaches out", _bounded(rows)
    yield from _given(document)
    if document["asks"]:
        yield "asks first", _items(document["asks"])
    if document["irreversible"]:
        yield "no undo", _items(document["irreversible"])
    yield "at most", _worst(document["worst"])
    yield "digest", [document["digest"]]


def _given(document: dict[str, Json]) -> Iterator[tuple[str, list[str]]]:
    """What the plan is given: secrets, variables, parameters, and the settings that come with it."""
    if document["secrets"]:
        yield "secrets", _items(document["secrets"])
    if document["env"]:
        yield "reads", _items([f"${name}" for name in document["env"]])
    if document["params"]:
        yield "parameters", _bounded([f"{item(name)}={item(value)}" for name, value in document["params"].items()])
    if (settings := document["settings"]) is not None:
        yield "settings", [f"its own planrunner.yaml: {', '.join(_items(settings['sections'])) or 'empty'}"]
        if settings["env"]:
            yield "", [f"they take {', '.join(_items([f'${name}' for name in settings['env']]))}"]
        if settings["private"]:
            yield "", [f"they open {', '.join(_items(settings['private']))}"]
        if settings["files"]:
            yield "", [f"they read secrets from {', '.join(_items(settings['files']))}"]
        if settings["commands"]:
            yield "", [f"they run {', '.join(_items(settings['commands']))} for secrets"]
        if settings["hosts"]:
            yield "", [f"they name {', '.join(_items(settings['hosts']))}"]


def _call(row: dict[str, Json]) -> str:
    effects = dict.fromkeys(_EFFECTS[effect] for effect in row["effects"] if effect in _EFFECTS)
    told = ", ".join([plural(row["tasks"], "task"), *effects])
    return f"{item(row['name'])} ({told})"


def _worst(worst: dict[str, Json]) -> list[str]:
    """The bounds of what a run uses; what nothing bounds is said to be open."""
    parts = ["any number of attempts" if worst["attempts"] is None else plural(worst["attempts"], "attempt")]
    limits = [each for each in (worst["time"], worst["limit"]) if each is not None]
    parts.append(duration_text(min(limits)) if limits else "any time")
    if worst["cost"] is None or worst["cost"] > 0:
        parts.append("any cost" if worst["cost"] is None else f"${worst['cost']:g}")
    if worst["tokens"] is None or worst["tokens"] > 0:
        parts.append("any number of tokens" if worst["tokens"] is None else f"{worst['tokens']:g} tokens")
    return parts


def _items(names: Iterable[str]) -> list[str]:
    return _bounded([item(name) for name in names])


def _bounded(names: list[str]) -> list[str]:
    return [*names[:MOST], f"and {len(names) - MOST} more: --json lists all"] if len(names) > MOST else names


def item(text: str, longest: int = LONGEST) -> str:
    """A name as one item of a row: in quotes where it holds anything that could look like the end of an item, what is
    not ASCII or does not show written out, and no longer than it may be."""
    text = masked(text)
    shown = _visible(text)
    plain = bool(text) and all(char.isascii() and (char.isalnum() or char in _PLAIN) for char in text)
    if not plain:
        shown = '"' + shown.replace('"', '\\"') + '"'
    return cut(shown, longest, False)


def _visible(text: str) -> str:
    """The text with all but the signs of ASCII written out: a letter of another alphabet may look exactly like one of
    ours."""
    return "".join(char if char.isascii() else numbered(char) for char in escaped(text))


def _wrapped(screen: Terminal, label: str, items: list[str]) -> Iterator[str]:
    """A row over as many lines as it takes, broken between its items."""
    room = max(screen.edge() - _LABEL - 2, 20)
    line = ""
    head = screen.paint(f"{label:<{_LABEL}}", "bold")
    for at, each in enumerate(items):
        more = each + ("," if at < len(items) - 1 else "")
        if line and width(line) + 1 + width(more) > room:
            yield f"  {head}{line}"
            head, line = " " * _LABEL, ""
        line = f"{line} {more}" if line else more
    yield f"  {head}{line}"


class Said(Struct):
    """One thing that a task wants or may do. ``verdict`` is allow, ask or deny, ``open`` where values decide that are
    not known yet, ``later`` for a file that only the call can tell; ``by`` is the rule and its entry, ``place`` the
    line that says so ("": no level says anything), ``help`` why it is refused and what would allow it. ``way`` says of
    a file what the task does with it: read or write."""

    what: str
    verdict: str
    by: str = ""
    place: str = ""
    help: str = ""
    way: str = ""


class Explained(Struct):
    """A task by its path, what it calls, and what is said to it."""

    task: str
    uses: str
    said: tuple[Said, ...]


_WORDS = {
    "allow": "may use",
    "ask": "asks for",
    "deny": "may not use",
    "open": "depends on",
    "scope": "is held to",
    "shut in": "runs in",
}
_FILES = {"allow": "may", "deny": "may not", "later": "wants to"}


def render(title: str, tasks: Sequence[Explained]) -> str:
    """Lines for people: what holds for every task, then a block for each, refusals with the line to write."""
    common = [each for each in tasks[0].said if all(each in task.said for task in tasks)] if len(tasks) > 1 else []
    lines = [f"policy of {harmless(title)}"]
    if common:
        lines += ["", "every task", *_block(common)]
    for task in tasks:
        own = [each for each in task.said if each not in common]
        lines += ["", f"{harmless(task.task)}  {harmless(task.uses)}".rstrip(), *_block(own)]
        if not task.said:
            lines.append("  no policy says anything")
    return "\n".join(lines)


def _block(said: Sequence[Said]) -> list[str]:
    return [f"  {harmless(line)}" for each in said for line in _lines(each)]


def _lines(said: Said) -> Iterator[str]:
    by = f"  ({said.by}, {said.place})" if said.place else "" if said.by else "  (no policy says anything)"
    if said.verdict == "later":
        by = "  (judged when the task is called)"
    words, what = (_FILES, f"{said.way} {said.what}") if said.way else (_WORDS, said.what)
    if said.verdict == "open":
        what = f"the values of {what}"
    yield f"{words[said.verdict]:<12} {what}{by}"
    if said.help:
        yield f"{'':<12} {said.help}"


class Credited(Struct):
    """One credential: ``source`` says where it comes from, ``variable`` where tasks find it, ``place`` which line lists
    it. ``there`` is None if that was not checked; ``problem`` and ``warning`` are empty where all is well. The value is
    nowhere among it."""

    id: str
    provider: str
    source: str
    variable: str
    place: str
    there: bool | None = None
    problem: str = ""
    warning: str = ""


_SIGNS = {True: "completed", False: "failed"}


def rows(terminal: Terminal, credited: Sequence[Credited]) -> Iterator[str]:
    """A line for each credential: where it comes from, or, once it was looked up, whether it is there."""
    if not credited:
        yield "no credentials: `provider_credentials` of planrunner.yaml lists them"
    elif credited[0].there is None:
        cells = [[harmless(cell) for cell in (each.id, each.variable, each.source, each.place)] for each in credited]
        yield from table(terminal, ("credential", "variable", "comes from", "listed in"), cells)
    else:
        for each in credited:
            said = f": {each.problem}" if each.problem else f", from {each.source}"
            yield f"{terminal.sign(_SIGNS[bool(each.there)])} {harmless(each.id + said)}"
            if each.warning:
                yield f"  {harmless(each.warning)}"
