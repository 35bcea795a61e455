"""The settings that hold, out of all files, the user's and the chosen profile; and where each of them stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Row
from typing import Any, NamedTuple

from planrunner.errors import UsageError
from planrunner.plan.nearest import nearest
from planrunner.safety import profiles
from planrunner.safety.layers import beneath, joined, overlaid, plain
from planrunner.safety.parts import Part, Said, Settings
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence, to_json

Json = Any
Leaf = Callable[[Part, Scalar | Sequence], Json]

APART = ("include", "profile", "profiles")
"""Sections that say which others hold, and hold nothing themselves."""


class Located(NamedTuple):
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
    files = tuple(part.name for part in parts[1:])
    data = _over(_below(users, own), over)
    return Settings(
        data={**data, "include": {"files": list(files)}} if files else data,
        own=_over(own, over),
        profile=chosen,
        levels=tuple(_levels(parts, user, chosen)),
        files=files,
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
    found = _over(_below(users, own), over)
    policies = [each["policy"] for each in (users, own, over) if "policy" in each]
    if policies:
        found["policy"] = policies if len(policies) > 1 else policies[0]
    return found


def chosen_profile(parts: Row[Part]) -> str:
    """The profile that holds: what was asked for, else what the file says; empty for none."""
    wanted = profiles.asked_profile()
    if wanted is not None:
        return wanted
    said = next((value for part in parts for key, value in part.sections() if key.value == "profile"), None)
    name = said.value if isinstance(said, Scalar) else None
    return name if isinstance(name, str) and name != profiles.NO_PROFILE else ""


def _own(parts: Row[Part], chosen: str, leaf: Leaf) -> tuple[dict[str, Json], dict[str, Json]]:
    """The sections of the project, and those of its profile."""
    found: dict[str, Json] = {}
    for part in parts:
        for name, value in _sections(part, leaf).items():
            found[name] = joined(found[name], value) if name in found else value
    named = found.get("profiles")
    over = named.get(chosen) if chosen and isinstance(named, dict) else None
    return (
        {name: value for name, value in found.items() if name not in APART},
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
    found = {name: value for name, value in users.items() if name != "policy" and plain(value) is not None}
    for name, value in own.items():
        found[name] = beneath(found[name], value) if name in found else value
    return found


def _over(sections: dict[str, Json], over: dict[str, Json]) -> dict[str, Json]:
    """The sections with those of the profile over them; its policy is a level of its own and stays out."""
    narrowed = {name: value for name, value in over.items() if name != "policy"}
    found: dict[str, Json] = overlaid(sections, narrowed)
    return found


def unknown_profile(name: str, where: str, known: Iterable[str]) -> UsageError:
    """The error for a profile that the project does not have."""
    names = sorted(known)
    close = nearest(name, names)
    hint = f"did you mean `{close}`?" if close else f"it has {', '.join(names)}" if names else "it has none"
    return UsageError(f"`{where}` has no profile `{name}`", hint)
