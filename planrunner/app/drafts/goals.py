"""The goals that a plan is drafted for without a model: recognised by their words, filled from what a project has."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

from planrunner.capabilities.agent.facts import LACKING, Fact
from planrunner.errors import Hint, UsageError
from planrunner.records import Struct
from planrunner.source import Source
from planrunner.syntax.notations import parse, read_comments, write
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node, Scalar, Sequence, to_json

Json = Any

ENOUGH = 4
"""Points by which a goal counts as recognised."""
_PLACE = re.compile(r"<([a-z]+)>")


class Goal(Struct):
    """A goal that a plan is known for. ``words`` are worth points where they stand in what was asked for, ``unlike``
    takes points away; ``needs`` are the facts without which no plan can be made; ``text`` is the template."""

    name: str
    title: str
    example: str
    words: Mapping[str, int]
    unlike: Mapping[str, int]
    needs: tuple[str, ...]
    text: str

    def points(self, asked: str) -> int:
        """How much of what was asked for speaks of this goal."""
        return _points(asked, self.words) - _points(asked, self.unlike)


def _points(asked: str, words: Mapping[str, int]) -> int:
    return sum(points for word, points in words.items() if re.search(_forms(word), asked, re.IGNORECASE))


def _forms(word: str) -> str:
    """A word with the endings of English, its last letter doubled or dropped before them."""
    stem = word.removesuffix("e")
    return rf"\b{re.escape(stem)}(?:{re.escape(stem[-1])}?(?:e|es|s|ed|er|ing|ion|ions))?\b"


def goals() -> list[Goal]:
    """Every goal, by name."""
    folder = resources.files("planrunner.app.drafts") / "goals"
    texts = {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".yaml")}
    return [_read(os.path.splitext(name)[0], text) for name, text in sorted(texts.items())]


def _read(name: str, text: str) -> Goal:
    tree = parse(Source(text, f"{name}.yaml", "yaml")).tree
    assert isinstance(tree, MappingNode), "a template is a mapping"
    head = tree.get("goal")
    assert head is not None, "a template begins with its goal"
    said: Json = to_json(head)
    words, unlike = said["words"], said.get("unlike", {})
    return Goal(name, said["title"], said["example"], words, unlike, tuple(said["needs"]), text)


def recognised(asked: str, otherwise: Hint) -> Goal:
    """The goal that was asked for, or of which the first words were. Raises UsageError where none is, with the nearest
    ones and what to do ``otherwise``."""
    ranked = sorted(((goal.points(asked), goal) for goal in goals()), key=lambda each: -each[0])
    (best, goal), (second, other) = ranked[:2]
    if best >= ENOUGH and best > second:
        return goal
    if best >= ENOUGH:
        message = f"the goal is either to {goal.title} or to {other.title}: `{_short(asked)}`"
        raise UsageError(message, f'say one of the two, such as: planrunner draft "{goal.example}"')
    near = [each for points, each in ranked if points > 0]
    begun = [each for each in near if f"{each.example} ".startswith(f"{' '.join(asked.lower().split())} ")]
    if len(begun) == 1:
        return begun[0]
    listed = "; ".join(f'"{each.example}"' for each in near[:3] or [each for _, each in ranked[:3]])
    ways = Hint(f"name one of the known goals, such as {listed}; or ", *otherwise.parts)
    raise UsageError(f"no plan is known for the goal `{_short(asked)}`", ways)


def _short(asked: str) -> str:
    return asked if len(asked) <= 80 else f"{asked[:79]}…"


def filled(goal: Goal, facts: Mapping[str, Fact]) -> str:
    """The text of the plan. Raises UsageError that names what the project lacks for it."""
    lacking = [name for name in goal.needs if name not in facts]
    if lacking:
        told = "; ".join(LACKING[name] for name in lacking)
        hint = f'an example of this goal: planrunner draft "{goal.example}"'
        raise UsageError(f"a plan to {goal.title} needs {told}", hint)
    source = Source(goal.text, f"{goal.name}.yaml", "yaml")
    tree = parse(source).tree
    assert isinstance(tree, MappingNode)
    comments = read_comments(source, tree)
    tree.entries = [(key, _filled(value, facts)) for key, value in tree.entries if key.value != "goal"]
    _leave_out(tree, facts)
    return write(tree, "yaml", comments)


def _filled(node: Node, facts: Mapping[str, Fact]) -> Node:
    """The node with facts in their places; a place that is the whole value takes a list as well."""
    if isinstance(node, Scalar):
        return _replaced(node, facts) if isinstance(node.value, str) and "<" in node.value else node
    if isinstance(node, Sequence):
        node.items = [_filled(item, facts) for item in node.items]
        return node
    node.entries = [(key, _filled(value, facts)) for key, value in node.entries]
    return node


def _replaced(node: Scalar, facts: Mapping[str, Fact]) -> Node:
    text = str(node.value)
    whole = _PLACE.fullmatch(text)
    fact = facts.get(whole[1]) if whole else None
    if isinstance(fact, list):
        return Sequence([Scalar(item, node.start, node.end, item) for item in fact], node.start, node.end, True)
    value = _PLACE.sub(lambda place: str(facts.get(place[1], place[0])), text)
    style = node.style or ('"' if whole and whole[1] in ("version", "goal", "url") else "")
    return node if value == text else Scalar(value, node.start, node.end, value, style)


def _leave_out(plan: MappingNode, facts: Mapping[str, Fact]) -> None:
    """Take the tasks away whose facts are not there; what came after them comes after what they came after."""
    tasks = plan.get("tasks")
    assert isinstance(tasks, Sequence)
    gone: dict[str, list[Node]] = {}
    left: list[Node] = []
    for task in tasks.items:
        assert isinstance(task, MappingNode)
        given = _texts(task.get("given"))
        if all(name in facts for name in given):
            task.entries = [entry for entry in task.entries if entry[0].value != "given"]
            left.append(task)
        else:
            needs = task.get("needs")
            gone.setdefault(_texts(task.get("id"))[0], needs.items if isinstance(needs, Sequence) else [])
    tasks.items = left
    names = {_texts(task.get("id"))[0] for task in left if isinstance(task, MappingNode)}
    for task in left:
        assert isinstance(task, MappingNode)
        needs = task.get("needs")
        if isinstance(needs, Sequence):
            needs.items = list({_texts(each)[0]: each for each in _reached(needs.items, gone, names)}.values())
            if not needs.items:
                task.entries = [entry for entry in task.entries if entry[0].value != "needs"]


def _reached(needs: list[Node], gone: Mapping[str, list[Node]], names: set[str]) -> list[Node]:
    reached: list[Node] = []
    for need in needs:
        name = _texts(need)[0]
        reached += [need] if name in names or name not in gone else _reached(gone[name], gone, names)
    return reached


def _texts(node: Node | None) -> list[str]:
    if isinstance(node, Sequence):
        return [str(item.value) for item in node.items if isinstance(item, Scalar)]
    return [str(node.value)] if isinstance(node, Scalar) else []
