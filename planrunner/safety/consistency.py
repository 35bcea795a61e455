"""What the sections of a project say of each other: names that must be there, keys in two files, profiles, and what is
not done yet."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from planrunner import caller
from planrunner.diagnostics import Diagnostic
from planrunner.knowledge.memory.entries import LAYERS
from planrunner.knowledge.vectors import HASH
from planrunner.plan import contexts
from planrunner.plan.agents import MODEL_CHOICES
from planrunner.plan.names import ENDINGS, plans_named
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.schema import section_check
from planrunner.plan.wording import listed, unknown_key
from planrunner.records import Struct
from planrunner.safety.settings import joined, overlaid, unknown_profile
from planrunner.safety.timetables import cron_fault, zone_fault
from planrunner.source import Span
from planrunner.syntax.tree import Json, Mapping, Node, Scalar, Sequence, entries, to_json
from planrunner.syntax.yaml_errors import other_digits

if TYPE_CHECKING:
    from planrunner.safety.settings import Part

_IDLE = {
    "workflow": "`planrunner exec` is told which plan to run",
}
_MOST = 100
"""Findings of one kind about one section: who wrote more names wrong does not read them, and each costs a search."""
_NEAR = 1_000
"""Names among which the nearest one is looked for."""

Names = dict[str, None]


class Piece(Struct):
    """A section as one file has it."""

    part: Part
    key: Scalar
    value: Node


def check(directory: str, parts: list[Part], user: Part | None, wanted: str | None) -> None:
    """Add what is wrong to the findings of each part. Raises UsageError where ``wanted`` names no profile."""
    pieces = [Piece(part, key, value) for part in parts for key, value in part.sections()]
    _once(pieces)
    known = _known(pieces, user)
    for piece in pieces:
        name = str(piece.key.value)
        piece.part.findings += islice(_references(name, piece.value, known, directory), _MOST)
        piece.part.findings += _idle(name, piece)
        if name == "profiles":
            check_profiles(piece.part, piece.value, [(each.key, each.value) for each in pieces])
            for _, over in entries(piece.value):
                for key, value in over.entries if isinstance(over, Mapping) else ():
                    piece.part.findings += islice(_references(str(key.value), value, known, directory), _MOST)
    if wanted and wanted not in known["profiles"]:
        raise unknown_profile(wanted, parts[0].name, known["profiles"])


def _once(pieces: Iterable[Piece]) -> None:
    """What stands in two files must be mappings that share no key, or lists that share no ``id``."""
    first: dict[str, Piece] = {}
    keys: dict[tuple[str, str], str] = {}
    for piece in pieces:
        name = str(piece.key.value)
        earlier = first.setdefault(name, piece)
        both = earlier is not piece and name != "include"
        if both and not (isinstance(piece.value, (Mapping, Sequence)) and type(piece.value) is type(earlier.value)):
            where = earlier.part.place(earlier.key)
            message = f"`{name}` stands at {where} already, and the two cannot be put together"
            piece.part.findings.append(Diagnostic("PLAN843", message, piece.key.span))
            continue
        for key in _keys(piece.value):
            here = piece.part.place(key)
            where = keys.setdefault((name, str(key.value)), here)
            if where != here and (both or name in ("agents", "tools")):
                message = f"`{key.value}` of `{name}` stands at {where} already"
                piece.part.findings.append(Diagnostic("PLAN843", message, key.span, help="keep one of them"))


def _keys(node: Node) -> Iterator[Scalar]:
    """The names of the entries of a section, where they stand."""
    if isinstance(node, Mapping):
        yield from (key for key, _ in node.entries)
    for item in node.items if isinstance(node, Sequence) else ():
        name = item.get("id") if isinstance(item, Mapping) else None
        if isinstance(name, Scalar):
            yield name


def _known(pieces: Iterable[Piece], user: Part | None) -> dict[str, Names]:
    """The names that each section has, with those that a profile or the user adds."""
    names: dict[str, Names] = {name: {} for name in _CALLED}
    sections = [(str(piece.key.value), piece.value) for piece in pieces]
    if user is not None:
        sections += [(str(key.value), value) for key, value in user.sections()]
    for name, value in list(sections):
        for _, over in entries(value) if name == "profiles" else ():
            sections += [(str(key.value), each) for key, each in over.entries] if isinstance(over, Mapping) else []
    for name, value in sections:
        if name in names:
            names[name].update(dict.fromkeys(key for key, _ in entries(value)))
    for name in MODEL_CHOICES:
        names["models"].pop(name, None)
    names["models"][HASH] = None
    return {**names, "memory": dict.fromkeys(LAYERS)}


_OF_AGENTS = {"model": "models", "fallback": "models", "memory": "memory", "context": "contexts"}


def _references(section: str, value: Node, known: dict[str, Names], directory: str) -> Iterator[Diagnostic]:
    if section == "agents":
        for agent, body in entries(value):
            for key, of in _OF_AGENTS.items():
                yield from _named(f"the agent `{agent}`", _value(body, key), of, known)
            for key in ("tools", "denied"):
                others = partial(_is_other, known["agents"])
                yield from _named(f"the agent `{agent}`", _value(body, key), "tools", known, others)
            memory = _value(body, "memory")
            layers = to_json(memory) if memory is not None else []
            yield from _context(f"the agent `{agent}`", _value(body, "context"), layers, known, directory)
    elif section == "contexts":
        for written in _keys(value):
            if written.value == contexts.FRESH:
                message = "a profile named `fresh` has no effect: `context: fresh` means a new conversation"
                yield Diagnostic("PLAN006", message, written.span, help="give it another name")
        for profile, body in entries(value):
            yield from _context(f"the context profile `{profile}`", body, [], known, directory)
    elif section == "models":
        for key in ("default", "judge"):
            yield from _named(f"`{key}` of `models`", _value(value, key), "models", known)
        for model, body in entries(value):
            yield from _named(f"the model `{model}`", _value(body, "fallback"), "models", known)
            yield from _named(f"the model `{model}`", _value(body, "credential"), "provider_credentials", known)
    elif section == "reflect":
        yield from _named("`reflect`", _value(value, "model"), "models", known)
        if known["models"].keys() <= {HASH} and not (isinstance(value, Scalar) and not value.value):
            help_ = "add `models: {fast: {provider: openai, model: gpt-5-mini, key_env: OPENAI_API_KEY}}`, or remove it"
            yield Diagnostic("PLAN227", "`reflect` needs a model, and there is none", value.span, help=help_)
    elif section == "tools":
        for tool, body in entries(value):
            yield from _tool(tool, body, known)
    elif section == "forge":
        yield from _named("`forge`", _value(value, "credential"), "provider_credentials", known)
    elif section == "cli_profiles":
        for shell, body in entries(value):
            yield from _named(f"the shell profile `{shell}`", _value(body, "profile"), "profiles", known)
    elif section == "profile" and isinstance(value, Scalar) and value.value != caller.NO_PROFILE:
        yield from _named("`profile`", value, "profiles", known)
    elif section == "workflow":
        yield from _plan("`workflow`", value if isinstance(value, Scalar) else _value(value, "plan"), directory)
    elif section == "triggers":
        for named in _keys(value):
            if not _TRIGGER_NAME.fullmatch(str(named.value)):
                help_ = "it stands in addresses: use letters, digits, hyphens and underscores"
                yield Diagnostic("PLAN006", f"`{named.value}` cannot name a trigger", named.span, help=help_)
        for trigger, body in entries(value):
            yield from _trigger(trigger, body, known, directory)


def _is_other(agents: Names, word: str) -> bool:
    """Whether a word for a tool names another agent, or nothing of this project."""
    return word in agents or _not_of_the_project(word)


def _not_of_the_project(word: str) -> bool:
    """Whether a word for a tool names what every project has, or something that plans are checked for."""
    return word in ("ask", "shell") or not {".", "*"}.isdisjoint(word)


_BESIDE_A_SERVER = ("uses", "plan", "with", "description")
_OF_A_COMMAND, _OF_AN_ADDRESS = ("env", "secrets"), ("headers", "credential", "header")
"""Keys of an MCP server that is started, and of one that is reached."""


def _tool(name: str, body: Node, known: dict[str, Names]) -> Iterator[Diagnostic]:
    """What has no effect in an entry of ``tools``, and the credentials that an MCP server names."""
    server = _value(body, "mcp")
    idle = ["tools"] if server is None else list(_BESIDE_A_SERVER)
    yield from _without_effect(body, idle, f"the tool `{name}` is {'not ' if server is None else ''}an MCP server")
    if isinstance(server, Scalar):
        yield from _command(server)
    if not isinstance(server, Mapping):
        return
    reached = server.key("url") is not None
    other = "is reached at its address" if reached else "is started by a command"
    yield from _without_effect(server, _OF_A_COMMAND if reached else _OF_AN_ADDRESS, f"the server `{name}` {other}")
    if server.key("credential") is None:
        yield from _without_effect(server, ["header"], f"the server `{name}` has no `credential`")
    whose, secrets = f"the MCP server `{name}`", server.get("secrets")
    named = [value for _, value in secrets.entries] if isinstance(secrets, Mapping) else []
    for each in [server.get("credential"), *named]:
        yield from _named(whose, each, "provider_credentials", known)
    if isinstance(command := server.get("command"), Scalar):
        yield from _command(command)


def _without_effect(node: Node, keys: Iterable[str], why: str) -> Iterator[Diagnostic]:
    for key, _ in node.entries if isinstance(node, Mapping) else ():
        if str(key.value) in keys:
            yield Diagnostic("PLAN009", f"`{key.value}` has no effect: {why}", key.span, help=f"remove `{key.value}`")


def _command(node: Scalar) -> Iterator[Diagnostic]:
    """A command in one text that cannot be split into words."""
    try:
        shlex.split(node.value if isinstance(node.value, str) else "")
    except ValueError as error:
        yield Diagnostic("PLAN005", f"the command cannot be split into words: {str(error).lower()}", node.span)


def _context(
    whose: str, node: Node | None, layers: Json, known: dict[str, Names], directory: str
) -> Iterator[Diagnostic]:
    """What is wrong with a context profile; ``layers`` of memory are those of its agent."""
    if not isinstance(node, Mapping):
        return
    said = {str(key.value): to_json(value) for key, value in node.entries}
    if (memory := node.get("memory")) is not None:
        yield from _named(whose, _value(memory, "layers"), "memory", known)
    elif layers:
        said = {**said, "memory": {"layers": layers}}
    for key, message in contexts.faults(said, said):
        yield Diagnostic("PLAN006", message, _place(node, key))
    for key, pattern in contexts.unmatched(said, directory):
        yield Diagnostic("PLAN846", f"`{pattern}` matches no file of the project", _place(node, key, pattern))


def _place(node: Mapping, key: str, word: str = "") -> Span:
    value = node.get(key) or node
    items = value.items if isinstance(value, Sequence) else []
    return next((item.span for item in items if isinstance(item, Scalar) and item.value == word), value.span)


def _value(node: Node, key: str) -> Node | None:
    return node.get(key) if isinstance(node, Mapping) else None


_CALLED = {
    "models": "model",
    "agents": "agent",
    "tools": "tool",
    "profiles": "profile",
    "contexts": "context profile",
    "memory": "layer of memory",
    "provider_credentials": "credential",
}
"""What an entry of a section is called that others name."""


def _named(
    whose: str,
    node: Node | None,
    section: str,
    known: dict[str, Names],
    other: Callable[[str], bool] = lambda word: False,
) -> Iterator[Diagnostic]:
    """Names, one or a list, that the section does not have, but for those that are meant for something ``other``."""
    names = known[section]
    for each in node.items if isinstance(node, Sequence) else [node]:
        if not isinstance(each, Scalar) or not isinstance(each.value, str) or each.value in names or other(each.value):
            continue
        close = nearest(each.value, islice(names, _NEAR))
        what = f"{whose} names the {_CALLED[section]} `{each.value}`, which does not exist"
        yield Diagnostic("PLAN841", what + meant(close), each.span, help=_help_of(section, names))


def _help_of(section: str, names: Names) -> str:
    """What a name of the section could have been, or what brings one."""
    own = tuple(islice((name for name in names if name != HASH), 8))
    has = f"`{section}` has {listed(own)}" if own else f"there is no section `{section}`"
    return f"{has}; a tool may also be a capability such as `files.read`, or `ask`" if section == "tools" else has


_TRIGGER_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_OF_CRON, _OF_WATCH = ("timezone", "missed"), ("settle",)
"""Keys that belong to one kind of trigger."""


def _trigger(name: str, body: Node, known: dict[str, Names], directory: str) -> Iterator[Diagnostic]:
    """What is wrong with an entry of ``triggers``."""
    whose = f"the trigger `{name}`"
    kinds = [key for key in ("cron", "webhook", "watch") if _value(body, key) is not None]
    yield from _without_effect(body, kinds[1:], f"{whose} has `{''.join(kinds[:1])}` already")
    for kind, keys in (("cron", _OF_CRON), ("watch", _OF_WATCH)):
        if kinds[:1] != [kind]:
            yield from _without_effect(body, keys, f"{whose} has no `{kind}`")
    yield from _plan(whose, _value(body, "plan"), directory)
    yield from other_digits(_value(body, "params"))
    for key, fault in (("cron", cron_fault), ("timezone", zone_fault)):
        node = _value(body, key)
        if isinstance(node, Scalar) and isinstance(node.value, str) and (wrong := fault(node.value)):
            yield Diagnostic("PLAN006", wrong, node.span)
    webhook = _value(body, "webhook")
    if webhook is not None:
        yield from _named(whose, _value(webhook, "secret"), "provider_credentials", known)
        yield from _literal_paths(whose, _value(body, "params"))


_PATH_OF_BODY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def _literal_paths(whose: str, params: Node | None) -> Iterator[Diagnostic]:
    """Parameters of a trigger with a webhook that look as if they were to be taken from the body."""
    for key, node in params.entries if isinstance(params, Mapping) else ():
        if isinstance(node, Scalar) and isinstance(node.value, str) and _PATH_OF_BODY.fullmatch(node.value):
            told = f"{whose} gives each run the text `{node.value}` as `{key.value}`"
            entry = f"{{params: {{{key.value}: {node.value}}}}}"
            yield Diagnostic("PLAN616", told, node.span, help=f"to take it from the body: `webhook: {entry}`")


def _plan(whose: str, node: Node | None, directory: str) -> Iterator[Diagnostic]:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return
    word = node.value
    if "\0" in word or not (os.path.isfile(os.path.join(directory, word)) or plans_named(word, directory)):
        yield Diagnostic("PLAN841", f"{whose} names the plan `{word}`, which does not exist", node.span)
    elif len(named := plans_named(word, directory)) > 1 and not word.endswith(ENDINGS):
        told = f"{whose} names the plan `{word}`, which may be any of {', '.join(named)}"
        yield Diagnostic("PLAN841", told, node.span, help="write its path")


def _idle(name: str, piece: Piece) -> Iterator[Diagnostic]:
    if name in _IDLE:
        yield Diagnostic("PLAN845", f"`{name}` is checked and does nothing yet: {_IDLE[name]}", piece.key.span)


Keyed = tuple[Scalar, Node]

_SCHEMA = "project.schema.json"
SECTIONS = (
    *("policy", "network", "models", "research", "sql", "dask", "git", "forge", "artifacts", "plugins"),
    *("agents", "tools", "contexts", "reflect", "memory", "workflow", "scheduler", "provider_credentials"),
    *("telemetry", "notify"),
)
"""What a profile may hold. Who may decide, what is included and which profiles there are, it does not say."""
_OF_THE_WHOLE = ("PLAN004", "PLAN009")
"""Findings that only the section with the profile over it can have: a missing key, keys that exclude each other."""
_MOST_SECTIONS = 100
"""Profiles that a project may have."""
_LARGEST = 200_000
"""Values that are looked at for all profiles of a file, each with what lies below it."""


class _TooMuch(Exception):
    """The profiles lie over more than is looked at."""


class _Room:
    """How much may still be looked at."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _LARGEST


def check_profiles(part: Part, tree: Node, sections: Iterable[Keyed]) -> None:
    """Add what is wrong with the profiles to the findings of the part; ``sections`` are those of all files."""
    if not isinstance(tree, Mapping):
        return
    base, room = _together(sections), _Room()
    for number, (key, over) in enumerate(tree.entries):
        if number == _MOST_SECTIONS:
            part.findings.append(Diagnostic("PLAN844", f"there are more than {_MOST_SECTIONS} profiles", key.span))
            return
        if key.value == caller.NO_PROFILE:
            message = f"`{caller.NO_PROFILE}` says that no profile holds, so none can be called that"
            part.findings.append(Diagnostic("PLAN844", message, key.span))
        if not isinstance(over, Mapping):
            continue  # the schema says so
        try:
            part.findings += _of_one(str(key.value), over, base, room)
        except _TooMuch:
            message = f"the profiles lie over more than {_LARGEST:,} values"
            part.findings.append(Diagnostic("PLAN844", message, key.span))
            return


def _together(sections: Iterable[Keyed]) -> dict[str, Json]:
    combined: dict[str, Json] = {}
    for key, value in sections:
        name = str(key.value)
        combined[name] = joined(combined[name], to_json(value)) if name in combined else to_json(value)
    return combined


def _of_one(name: str, over: Mapping, base: dict[str, Json], room: _Room) -> Iterator[Diagnostic]:
    for key, value in over.entries:
        section = str(key.value)
        if section == "description":
            continue
        if section not in SECTIONS:
            if section in base or section in ("people", "include", "profile", "profiles"):
                yield Diagnostic("PLAN844", f"`{section}` cannot stand in a profile", key.span)
            else:
                yield unknown_key("a profile", key, SECTIONS, over)
            continue
        check = section_check(_SCHEMA, section, _said(value))
        yield from (finding for finding in check if finding.code not in _OF_THE_WHOLE)
        if any(finding.code not in _OF_THE_WHOLE for finding in check):
            continue
        whole = overlaid(base[section], to_json(value)) if section in base else to_json(_said(value))
        for finding in section_check(_SCHEMA, section, _tree(whole, key.span, value, room)):
            yield finding._replace(message=f"with the profile `{name}`: {finding.message}", labels=(), fix=None)


def _said(node: Node) -> Node:
    """The tree without empty values, which only take something away."""
    if isinstance(node, Sequence):
        return Sequence([_said(item) for item in node.items], node.start, node.end, node.flow)
    if not isinstance(node, Mapping):
        return node
    kept = [(key, _said(value)) for key, value in node.entries if not _is_empty(value)]
    return Mapping(kept, node.start, node.end, node.flow)


def _is_empty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _tree(value: Json, place: Span, over: Node | None, room: _Room) -> Node:
    """Data as a tree: what the profile says stands where it says so, the rest at ``place``. Raises _TooMuch."""
    room.left -= 1
    if room.left < 0:
        raise _TooMuch
    if isinstance(value, dict):
        said = {key.value: (key.span, each) for key, each in over.entries} if isinstance(over, Mapping) else {}
        keyed = []
        for key, each in value.items():
            there, below = said.get(key, (place, None))
            keyed.append((Scalar(key, *there, key), _tree(each, there, below, room)))
        return Mapping(keyed, *place)
    if isinstance(value, list):
        return Sequence([_tree(each, place, None, room) for each in value], *place)
    return Scalar(value, *place, "" if value is None else str(value))
