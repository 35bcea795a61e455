"""The files that make up a project's settings: ``planrunner.yaml`` and what it includes, each read once.

Included files lie below the root and no way to them is a link; every step is opened from the one before, so that no
folder can be swapped meanwhile. Number, depth and size are bounded, because the sender of a project writes these files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Row
from typing import Any

from planrunner import caller
from planrunner.diagnostics import Diagnostic, Label, arrange
from planrunner.errors import UsageError
from planrunner.plan import compiled
from planrunner.plan.model import Budgets, Plan
from planrunner.plan.nearest import nearest
from planrunner.plan.schema import section_check, unknown_section
from planrunner.plan.sections import PROJECT
from planrunner.records import Struct
from planrunner.safety.content import READ, SECTIONS, Said, Settings, content_of
from planrunner.source import MAX_TEXT, Source
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence, to_json

Json = Any

MOST = 32
"""Files that a project's settings may have."""
DEEPEST = 4
"""Files that include each other in turn, the project's own counted."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Part:
    """One file of the settings. ``name`` is its path from the root, as people know it; ``tree`` is None where the file
    is empty or does not parse; ``findings`` grow while it is checked."""

    __slots__ = ("findings", "name", "size", "source", "tree")

    def __init__(self, content: bytes, name: str, path: str) -> None:
        from planrunner.syntax.notations import decode, parse

        source, found = decode(content, path)
        self.name = name
        self.size = len(content)
        self.source = source or Source("", path, "yaml")
        self.tree: Node | None = None
        self.findings: list[Diagnostic] = list(found)
        if source is not None and not _says_nothing(source.text):
            parsed = parse(source)
            self.tree = parsed.tree
            self.findings += parsed.findings

    def sections(self) -> Iterator[tuple[Scalar, Node]]:
        """Each section with its key; empty where the file is not a mapping."""
        if isinstance(self.tree, Mapping):
            yield from self.tree.entries

    def told(self) -> tuple[Diagnostic, ...]:
        """The findings as people read them: nothing mends settings but a person, so a fix is only what helps."""
        return arrange(
            each if each.fix is None else each._replace(fix=None, help=each.help or each.fix.title)
            for each in self.findings
        )

    def place(self, node: Node) -> str:
        """Where a node stands, as people write it: ``config/agents.yaml:3:5``."""
        line, column = self.source.place(node.start)
        return f"{self.name}:{line}:{column}"


def _says_nothing(text: str) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines())


def with_included(root: Part, directory: str) -> list[Part]:
    """The part and those it includes, in the order in which they are named; what cannot be included is a finding where
    it is named."""
    including = _Including(directory)
    including.follow(root, (root.name,))
    return including.parts


def included_names(root: Part, directory: str) -> tuple[str, ...]:
    """The paths that the part includes, at whatever depth, whether or not there are such files yet."""
    including = _Including(directory)
    including.follow(root, (root.name,))
    return tuple(including.named)


_SIGNS = frozenset("*?[")
"""What makes a pattern of a path elsewhere."""


class _Including:
    """Goes along ``include`` from file to file."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.parts: list[Part] = []
        self.named: dict[str, str] = {}
        """The paths that are included, with the place where each is named."""
        self._left = MAX_TEXT

    def follow(self, part: Part, trail: tuple[str, ...]) -> None:
        self.parts.append(part)
        self._left -= part.size
        for node in _includes(part):
            name, why = _inside(str(node.value))
            why = why or self._refusal(name, trail)
            content = None
            if not why:
                self.named[name] = part.place(node)
                content, why = self._read(name)
            if content is None:
                part.findings.append(Diagnostic("PLAN842", why, node.span))
            else:
                self.follow(content, (*trail, name))

    def _refusal(self, name: str, trail: tuple[str, ...]) -> str:
        if name in trail:
            return f"`{name}` includes itself: {' → '.join((*trail[trail.index(name) :], name))}"
        if name in self.named:
            return f"`{name}` is included already, at {self.named[name]}"
        if len(trail) == DEEPEST:
            return f"`{name}` is included too deep: {' → '.join(trail)} are the most there may be"
        if len(self.named) + 1 == MOST:
            return f"`{name}` is one file too many: a project's settings have at most {MOST}"
        return ""

    def _read(self, name: str) -> tuple[Part | None, str]:
        path = os.path.join(self._directory, name)
        try:
            content = content_of(_opened(self._directory, name.split("/")))
        except OSError as error:
            pattern = "; `include` takes the names of files, not patterns" if _SIGNS.intersection(name) else ""
            return None, f"`{name}` cannot be included: {_words(error)}{pattern}"
        if len(content) > self._left:
            return None, f"`{name}` is too large: the files of a project have at most {MAX_TEXT:,} bytes together"
        return Part(content, name, path), ""


def _includes(part: Part) -> Iterator[Scalar]:
    """The paths that a part names; whatever else stands there the schema refuses."""
    include = part.tree.get("include") if isinstance(part.tree, Mapping) else None
    for node in include.items if isinstance(include, Sequence) else [include]:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            yield node


def _inside(path: str) -> tuple[str, str]:
    """A path in its plain form, and why it cannot be one below the root."""
    steps = [step for step in path.split("/") if step not in ("", ".")]
    if path.startswith(("/", "~")) or ".." in steps:
        return "", f"`{path}` leads out of the project: name a file below the folder of planrunner.yaml"
    if not steps or "\0" in path:
        return "", f"`{path}` names no file"
    return "/".join(steps), ""


def _opened(directory: str, steps: list[str]) -> int:
    """Open a file below the directory, through no link. Raises OSError."""
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps[:-1]:
            below = os.open(step, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        return os.open(steps[-1], READ | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)


def _words(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a link, and links are not followed"
    if error.errno == errno.ENOTDIR:
        return "a folder on the way is a link or no folder"
    return "there is no such file" if error.errno == errno.ENOENT else error.strerror or str(error)


def joined(first: Json, second: Json) -> Json:
    """A section of two files: keys of mappings and items of lists together. What stands twice was refused before."""
    if isinstance(first, dict) and isinstance(second, dict):
        return {**first, **second}
    if isinstance(first, list) and isinstance(second, list):
        return [*first, *second]
    return first


def beneath(lower: Json, upper: Json) -> Json:
    """A section of the user with that of the project over it, key by key: an entry is taken as a whole, so that no
    address of the one meets a key of the other."""
    if isinstance(lower, dict) and isinstance(upper, dict):
        return {**lower, **upper}
    if isinstance(lower, list) and isinstance(upper, list):
        known = {id_of(each) for each in upper}
        return [*(each for each in lower if id_of(each) not in known or id_of(each) is None), *upper]
    return upper


def overlaid(base: Json, over: Json) -> Json:
    """A section with a profile's over it: mappings at any depth, lists of entries with an ``id`` by that, anything else
    as a whole. An empty value takes a key away."""
    if isinstance(base, dict) and isinstance(over, dict):
        merged = dict(base)
        for key, value in over.items():
            if plain(value) is None:
                merged.pop(key, None)
            else:
                merged[key] = overlaid(merged[key], value) if key in merged else without_empty(value)
        return merged
    if isinstance(base, list) and isinstance(over, list) and all(id_of(each) is not None for each in (*base, *over)):
        later = {id_of(each): each for each in over}
        found_ids = {id_of(each) for each in base}
        kept = [overlaid(each, later[id_of(each)]) if id_of(each) in later else each for each in base]
        return [*kept, *(without_empty(each) for each in over if id_of(each) not in found_ids)]
    return without_empty(over)


def without_empty(value: Json) -> Json:
    """A value whose mappings have no empty keys: there is nothing that they could take away."""
    if isinstance(value, dict):
        return {key: without_empty(each) for key, each in value.items() if plain(each) is not None}
    return [without_empty(each) for each in value] if isinstance(value, list) and value else value


def id_of(entry: Json) -> str | None:
    """The ``id`` of an entry of a list; None where it has none."""
    name = plain(entry.get("id")) if isinstance(entry, dict) else None
    return name if isinstance(name, str) else None


def plain(leaf: Json) -> Json:
    """The value of a leaf, whether it remembers its place or not."""
    return leaf.value if hasattr(leaf, "value") else leaf


Leaf = Callable[[Part, Scalar | Sequence], Json]

APART = ("include", "profile", "profiles")
"""Sections that say which others hold, and hold nothing themselves."""


class Located(Struct):
    """A value of the settings and where it stands, such as ``config/models.yaml:3:5``."""

    value: Json
    place: str


class EmptyList(list[str]):
    """A list with nothing in it, which says much in a policy, and where it stands."""

    __slots__ = ("place",)

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place


def effective(parts: Row[Part], user: Part | None) -> Settings:
    """What holds, as plain data. Every part has been found sound, and the profile is there."""
    chosen = chosen_profile(parts)
    own, over = _own(parts, chosen, _plain_leaf)
    users = _sections(user, _plain_leaf) if user is not None else {}
    data = _over(_below(users, own), over)
    return Settings(
        data=data,
        own=_over(own, over),
        profile=chosen,
        levels=tuple(_levels(parts, user, chosen)),
        parts=(*parts, user) if user is not None else tuple(parts),
    )


def _levels(parts: Row[Part], user: Part | None, chosen: str) -> Iterator[Said]:
    """The user's policy, the project's and its profile's, where they say anything."""
    if user is not None:
        yield from _said(user.name, [(user, value) for key, value in user.sections() if key.value == "policy"])
    if not parts:
        return
    named = [(part, str(key.value), value) for part in parts for key, value in part.sections()]
    yield from _said(parts[0].name, [(part, value) for part, name, value in named if name == "policy"])
    for part, name, value in named:
        over = value.get(chosen) if chosen and name == "profiles" and isinstance(value, Mapping) else None
        policy = over.get("policy") if isinstance(over, Mapping) else None
        yield from _said(f"profile {chosen}", [] if policy is None else [(part, policy)])


def _said(name: str, found: Row[tuple[Part, Node]]) -> Iterator[Said]:
    """A level that one file says, or several together: no key stands in two of them."""
    pieces = tuple((part, node) for part, node in found if isinstance(node, Mapping) and node.entries)
    if pieces:
        whole = Mapping([entry for _, node in pieces for entry in node.entries], *pieces[0][1].span)
        file = pieces[0][0].name
        yield Said(name, f"{name} of {file}" if name.startswith("profile ") else file, to_json(whole), whole, pieces)


def located(parts: Row[Part], user: Part | None) -> dict[str, Json]:
    """The same sections, each leaf with its place; ``policy`` is a list of the levels that hold together."""
    own, over = _own(parts, chosen_profile(parts), _located_leaf)
    users = _sections(user, _located_leaf) if user is not None else {}
    sections = _over(_below(users, own), over)
    policies = [each["policy"] for each in (users, own, over) if "policy" in each]
    if policies:
        sections["policy"] = policies if len(policies) > 1 else policies[0]
    return sections


def chosen_profile(parts: Row[Part]) -> str:
    """The profile that holds: what was asked for, else what the file says; empty for none."""
    wanted = caller.workspace().profile
    if wanted is not None:
        return wanted
    said = next((value for part in parts for key, value in part.sections() if key.value == "profile"), None)
    name = said.value if isinstance(said, Scalar) else None
    return name if isinstance(name, str) and name != caller.NO_PROFILE else ""


def _own(parts: Row[Part], chosen: str, leaf: Leaf) -> tuple[dict[str, Json], dict[str, Json]]:
    """The sections of the project, and those of its profile."""
    sections: dict[str, Json] = {}
    for part in parts:
        for name, value in _sections(part, leaf).items():
            sections[name] = joined(sections[name], value) if name in sections else value
    named = sections.get("profiles")
    over = named.get(chosen) if chosen and isinstance(named, dict) else None
    return (
        {name: value for name, value in sections.items() if name not in APART},
        {name: value for name, value in over.items() if name != "description"} if isinstance(over, dict) else {},
    )


def _sections(part: Part, leaf: Leaf) -> dict[str, Json]:
    return {str(key.value): tree_data(value, part, leaf) for key, value in part.sections()}


def tree_data(node: Node, part: Part, leaf: Leaf) -> Json:
    """The data of a tree, with ``leaf`` for what its scalars and empty lists become."""
    if isinstance(node, Mapping):
        return {str(key.value): tree_data(value, part, leaf) for key, value in node.entries}
    if isinstance(node, Sequence):
        return [tree_data(item, part, leaf) for item in node.items] if node.items else leaf(part, node)
    return leaf(part, node)


def _plain_leaf(part: Part, node: Scalar | Sequence) -> Json:
    return node.value if isinstance(node, Scalar) else []


def _located_leaf(part: Part, node: Scalar | Sequence) -> Json:
    place = part.place(node)
    return Located(node.value, place) if isinstance(node, Scalar) else EmptyList(place)


def _below(users: dict[str, Json], own: dict[str, Json]) -> dict[str, Json]:
    """The sections of both; the user's policy is a level of its own and stays out."""
    defaults = {name: value for name, value in users.items() if name != "policy" and plain(value) is not None}
    for name, value in own.items():
        defaults[name] = beneath(defaults[name], value) if name in defaults else value
    return defaults


def _over(sections: dict[str, Json], over: dict[str, Json]) -> dict[str, Json]:
    """The sections with those of the profile over them; its policy is a level of its own and stays out."""
    narrowed = {name: value for name, value in over.items() if name != "policy"}
    merged: dict[str, Json] = overlaid(sections, narrowed)
    return merged


def unknown_profile(name: str, where: str, known: Iterable[str]) -> UsageError:
    """The error for a profile that the project does not have."""
    names = sorted(known)
    close = nearest(name, names)
    hint = f"did you mean `{close}`?" if close else f"it has {', '.join(names)}" if names else "it has none"
    return UsageError(f"`{where}` has no profile `{name}`", hint)


def limits(node: Node) -> str | None:
    """The budgets and the gates for labels of a level of policy as a compiled plan; None for none."""
    from planrunner.plan.lower.declarations import budgets, gated
    from planrunner.plan.lower.values import Lowering

    low = Lowering([])
    caps = node.get("budgets") if isinstance(node, Mapping) else None
    most = Budgets() if caps is None else budgets(low, caps, Budgets())
    demanded = gated(low, node)
    if not demanded and most == Budgets():
        return None
    return compiled.dump(Plan("policy", budgets=most, gated=demanded))


def faults(
    tree: Node | None, sections: tuple[str, ...] = SECTIONS, whose: str = "a project's file"
) -> Iterator[Diagnostic]:
    """What is wrong with the sections of a file."""

    def is_role(node: Node) -> bool:
        return isinstance(node, Scalar) and isinstance(node.value, str) and bool(node.value)

    def fault(message: str, node: Node) -> Diagnostic:
        return Diagnostic("PLAN005", message, node.span)

    if tree is None or (isinstance(tree, Scalar) and tree.value is None):
        return  # nothing but comments
    if not isinstance(tree, Mapping):
        yield fault(f"{whose} holds sections, such as {sections[0]}: …, not {_kind(tree)}", tree)
        return
    yield from _held_against_schema(tree, sections, whose)
    if (credentials := tree.get("provider_credentials")) is not None:
        yield from _credential_faults(credentials)
    people = tree.get("people")
    if people is None:
        return
    if not isinstance(people, Mapping):
        yield fault(
            f"`people` takes a mapping from names to roles, such as ana: [release], not {_kind(people)}", people
        )
        return
    for name, roles in people.entries:
        wrong = [item for item in roles.items if not is_role(item)] if isinstance(roles, Sequence) else [roles]
        if isinstance(roles, Sequence) or not is_role(roles):
            yield from (fault(f"`{name.value}` takes a list of roles, such as [release]", node) for node in wrong)


def _held_against_schema(tree: Mapping, sections: tuple[str, ...], whose: str) -> Iterator[Diagnostic]:
    for key, value in tree.entries:
        if key.value not in sections:
            yield unknown_section(PROJECT, whose, key, tree, sections)
        if key.value in SECTIONS and key.value != "people":  # of those we know better words
            yield from section_check(PROJECT, str(key.value), value)


def _kind(node: Node) -> str:
    return "a mapping" if isinstance(node, Mapping) else "a list" if isinstance(node, Sequence) else "one value"


def _credential_faults(entries: Node) -> Iterator[Diagnostic]:
    """Two entries of one id."""
    seen: dict[str, Scalar] = {}
    for entry in entries.items if isinstance(entries, Sequence) else ():
        key = entry.get("id") if isinstance(entry, Mapping) else None
        if not isinstance(key, Scalar) or not isinstance(key.value, str):
            continue
        first = seen.setdefault(key.value, key)
        if first is not key:
            message = f"there are two credentials with the id `{key.value}`"
            yield Diagnostic("PLAN005", message, key.span, labels=(Label(first.span, "the first one"),))
