"""A tree as text notation in the canonical style, with its comments."""

from __future__ import annotations

import re

from planrunner.records import Struct
from planrunner.syntax.comments import Comments, Keeper, is_implied
from planrunner.syntax.scalars import block_header, block_lines, double_quoted, is_plain_text, quoted, word
from planrunner.syntax.text import is_word_list
from planrunner.syntax.text_lexer import BARE, BLOCK, DASH, FINALLY, FLOW_PLAIN, KEY, PLAIN
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

WIDTH = 100
_TASK_LISTS = frozenset(("tasks", "nodes", "steps", "finally", "subplan"))
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\*?")
_EVENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ROUTES = {"on_success": "success", "on_failure": "failure"}


class _RouteLine(Struct):
    """A line ``on … ->``; the comments of any of ``places`` belong to it."""

    text: str
    places: tuple[int, ...]


def write_text(tree: Node, comments: Comments | None = None) -> str:
    """Text notation that reads as equal data; shared nodes are written out each time. Raises ValueError for a tree that
    is not a mapping: the notation says nothing else."""
    if not isinstance(tree, Mapping):
        raise ValueError("the text notation writes mappings only")
    writer = _Writer(Keeper(comments))
    return "\n".join(writer.document(tree)) + "\n"


def scalar_text(node: Scalar, pattern: re.Pattern[str] = PLAIN) -> str:
    """A scalar on one line; ``pattern`` tells what needs no quotes where it stands."""
    plain = word(node)
    if plain is not None:
        return plain
    text = str(node.value)
    return text if _may_be_plain(text, pattern) else quoted(text)


def _may_be_plain(text: str, pattern: re.Pattern[str]) -> bool:
    if not is_plain_text(text) or not pattern.fullmatch(text) or BLOCK.match(text):
        return False
    return text[0] not in "\"'[{" or text.startswith("{{")


def _item_text(node: Scalar) -> str:
    """A scalar behind a dash, where a colon or another dash would begin something else."""
    text = scalar_text(node)
    if (
        isinstance(node.value, str)
        and text[0] not in "\"'"
        and (KEY.match(text) or DASH.match(text) or FINALLY.match(text))
    ):
        return quoted(text)
    return text


def _key_text(key: Scalar) -> str:
    name = str(key.value)
    return name if _PLAIN_KEY.fullmatch(name) else double_quoted(name)


def _flow(node: Node) -> str:
    if isinstance(node, Scalar):
        return scalar_text(node, FLOW_PLAIN)
    if isinstance(node, Sequence):
        return f"[{', '.join(_flow(item) for item in node.items)}]"
    return f"{{{', '.join(f'{_key_text(key)}: {_flow(value)}' for key, value in node.entries)}}}"


def _id_of(node: Node | None) -> str:
    """The text of a node that may stand as a bare id, else an empty string."""
    if isinstance(node, Scalar) and isinstance(node.value, str) and _ID.fullmatch(node.value):
        return node.value
    return ""


def _title(node: Node | None) -> str:
    """A title in quotes, as the head of a task has it, where the node is one."""
    return double_quoted(node.value) if isinstance(node, Scalar) and isinstance(node.value, str) else ""


def _pair(name: str, node: Node | None) -> str:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return f"{name}:{scalar_text(node, BARE)}"
    return ""


def _is_own_block(key: Scalar, value: Node) -> bool:
    """Whether an entry of the plan is written as blocks of their own at the left margin."""
    if not isinstance(value, Sequence) or not value.items:
        return False
    return key.value == "finally" or (key.value == "tasks" and all(isinstance(item, Mapping) for item in value.items))


def _needed(value: Node) -> str:
    """A list of needs as words, or an empty string where they are not plain ids."""
    if not isinstance(value, Sequence) or not all(_id_of(item) for item in value.items):
        return ""
    words = " ".join(_id_of(item) for item in value.items)
    return words if is_word_list(words) else ""


def _route_lines(key: Scalar, value: Node) -> list[_RouteLine]:
    """The ``on … ->`` lines for an entry of a task, or an empty list where only nested keys can say it."""
    event = _ROUTES.get(str(key.value), "")
    if not event and (key.value != "next" or not isinstance(value, Sequence)):
        return []
    single = bool(event) and not (isinstance(value, Sequence) and len(value.items) > 1)
    targets = [value] if single or not isinstance(value, Sequence) else value.items
    first = () if is_implied(key) else (key.start,)
    lines = []
    for target in targets:
        text = _route_text(event, target)
        if not text:
            return []
        lines.append(_RouteLine(text, (*first, *_places(target))))
        first = ()
    return lines


def _route_text(event: str, target: Node) -> str:
    if event and _id_of(target):
        return f"on {event} -> {_id_of(target)}"
    if not isinstance(target, Mapping) or len(target.entries) < 2:
        return ""
    given = {str(key.value): value for key, value in target.entries}
    if not event:
        named = given.pop("on", None)
        event = str(named.value) if isinstance(named, Scalar) and isinstance(named.value, str) else ""
        if event in _ROUTES.values() or not _EVENT.fullmatch(event):
            return ""
    to, recovers, when = _id_of(given.pop("to", None)), given.pop("recovers", None), given.pop("when", None)
    sure = recovers is None or (isinstance(recovers, Scalar) and recovers.value is True)
    if given or not to or not sure or not (when is None or (isinstance(when, Scalar) and not _is_block(when))):
        return ""
    condition = f" when {scalar_text(when)}" if isinstance(when, Scalar) else ""
    return f"on {event} -> {to}{' recovers' if recovers else ''}{condition}"


def _is_block(node: Scalar) -> bool:
    return isinstance(node.value, str) and block_header(node.value) is not None


def _places(node: Node) -> tuple[int, ...]:
    """The offsets in a target of an edge where comments may be tied."""
    if isinstance(node, Mapping):
        return (node.start, *(key.start for key, _ in node.entries if not is_implied(key)))
    return (node.start,)


class _Writer:
    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._lines: list[str] = []

    def document(self, tree: Mapping) -> list[str]:
        """The ``plan`` line with what belongs to the plan, then the tasks, then ``finally``."""
        self._lines = self._keeper.top()
        aside = [entry for entry in tree.entries if _is_own_block(*entry)]
        own = [entry for entry in tree.entries if not _is_own_block(*entry)]
        if _id_of(tree.get("plan")):
            words = {"plan": _id_of(tree.get("plan")), "title": _title(tree.get("title"))}
            for key, value in self._head("plan", words, own, "", ""):
                self._entry(key, value, "  ")
        else:
            for key, value in own:
                self._entry(key, value, "")
        if not tree.entries:
            self._lines.append("plan")
        closing: tuple[str, ...] = ()
        for key, value in sorted(aside, key=lambda entry: entry[0].value == "finally"):
            closing = self._set_apart(key, value, closing)
        self._lines.extend(closing)
        self._lines.extend(self._keeper.closing(tree))
        self._lines.extend(self._keeper.left_over())
        return self._lines

    def _set_apart(self, key: Scalar, value: Node, before: tuple[str, ...]) -> tuple[str, ...]:
        """The tasks or the ``finally`` block, behind a blank line and the comments ``before``; gives the comments at
        the end of the tasks, which nothing but their order tells from those that follow."""
        assert isinstance(value, Sequence)
        if self._lines and self._lines[-1]:
            self._lines.append("")
        self._lines.extend(before)
        self._lead(key, "")
        behind = self._behind(key)
        if key.value == "tasks":
            self._lines.extend([behind.strip()] if behind else [])
            closing = self._keeper.closing(value)
            self._items(value, "", True)
            return closing
        self._lines.append("finally" + behind)
        self._items(value, "  ", True)
        return ()

    def _lead(self, key: Scalar, indent: str) -> None:
        if not is_implied(key):
            self._lines.extend(indent + comment for comment in self._keeper.leading(key.start))

    def _behind(self, key: Scalar) -> str:
        return "" if is_implied(key) else self._keeper.trailing(key.start)

    def _head(
        self, word: str, words: dict[str, str], entries: list[tuple[Scalar, Node]], indent: str, behind: str
    ) -> list[tuple[Scalar, Node]]:
        """A ``plan`` or ``task`` line with the given words, by their keys; gives the entries left for below it."""
        rest = []
        for key, value in entries:
            if not words.get(str(key.value)):
                rest.append((key, value))
                continue
            self._lead(key, indent)
            more = self._behind(key)
            if behind and more:
                self._lines.append(indent + more.strip())
            behind = behind or more
        self._lines.append(indent + " ".join([word, *(text for text in words.values() if text)]) + behind)
        return rest

    def _task(self, node: Mapping, indent: str) -> None:
        words = {"id": _id_of(node.get("id")), "title": _title(node.get("title"))}
        words |= {"kind": _pair("kind", node.get("kind")), "uses": _pair("using", node.get("uses"))}
        behind = self._keeper.trailing(node.start)
        for key, value in self._head("task", words, node.entries, indent, behind):
            self._task_entry(key, value, indent + "  ")
        self._lines.extend(f"{indent}  {comment}" for comment in self._keeper.closing(node))

    def _task_entry(self, key: Scalar, value: Node, indent: str) -> None:
        routes = _route_lines(key, value)
        for line in routes:
            for place in line.places:
                self._lines.extend(indent + comment for comment in self._keeper.leading(place))
            behind = [note for place in line.places if (note := self._keeper.trailing(place))]
            self._lines.extend(indent + more.strip() for more in behind[1:])
            self._lines.append(f"{indent}{line.text}{behind[0] if behind else ''}")
        if routes:
            self._lines.extend(indent + comment for comment in self._keeper.closing(value))
        elif key.value == "needs" and _needed(value) and not self._keeper.inside(value):
            self._lead(key, indent)
            self._lines.append(f"{indent}needs: {_needed(value)}{self._behind(key)}")
        elif (
            key.value == "needs"
            and isinstance(value, Scalar)
            and isinstance(value.value, str)
            and is_word_list(value.value)
        ):
            self._lead(key, indent)
            self._lines.append(f"{indent}needs: {double_quoted(value.value)}{self._behind(key)}")
        else:
            self._entry(key, value, indent)

    def _entry(self, key: Scalar, value: Node, indent: str) -> None:
        self._lead(key, indent)
        self._value(f"{indent}{_key_text(key)}:", value, indent, self._behind(key), str(key.value) in _TASK_LISTS)

    def _items(self, node: Sequence, indent: str, tasks: bool) -> None:
        """The items of a list, a task each where they are tasks; blank lines part the longer ones."""
        previous = 0
        for index, item in enumerate(node.items):
            lead = [indent + comment for comment in self._keeper.leading(item.start)]
            begin = len(self._lines)
            if tasks and isinstance(item, Mapping):
                self._task(item, indent)
            else:
                behind = "" if isinstance(item, Mapping) and not item.flow else self._keeper.trailing(item.start)
                self._value(f"{indent}-", item, indent, behind, False)
            length = len(self._lines) - begin
            if tasks and index and max(length, previous) > 1:
                lead.insert(0, "")
            self._lines[begin:begin] = lead
            previous = length
        self._lines.extend(indent + comment for comment in self._keeper.closing(node))

    def _value(self, before: str, node: Node, indent: str, behind: str, tasks: bool) -> None:
        """A value behind its key or dash (``before``), with the comment ``behind`` on the first line."""
        line = self._one_line(node, len(before) + 1, before.endswith("-"))
        if line is not None:
            self._lines.append(f"{before} {line}{behind}")
            self._lines.extend(indent + comment for comment in self._keeper.closing(node))
            return
        deeper = indent + "  "
        if isinstance(node, Scalar):
            text = str(node.value)
            self._lines.append(f"{before} {block_header(text)}{behind}")
            self._lines.extend(block_lines(text, deeper))
            return
        start = len(self._lines)
        shared = before.endswith("-") and not behind and self._may_share_line(node)
        if not shared:
            self._lines.append(before + behind)
        if isinstance(node, Sequence):
            self._items(node, deeper, tasks)
        else:
            for key, value in node.entries:
                self._entry(key, value, deeper)
            self._lines.extend(deeper + comment for comment in self._keeper.closing(node))
        if shared:
            self._lines[start] = f"{before} {self._lines[start][len(deeper) :]}"

    def _may_share_line(self, node: Mapping | Sequence) -> bool:
        """Whether the first child of an item may stand behind its dash: not where a comment must come before it."""
        first: Node = node.entries[0][0] if isinstance(node, Mapping) else node.items[0]
        return not self._keeper.is_led(first.start)

    def _one_line(self, node: Node, column: int, is_item: bool) -> str | None:
        """The node on one line, or None where it takes more."""
        if isinstance(node, Scalar):
            if _is_block(node):
                return None
            return _item_text(node) if is_item else scalar_text(node)
        if not (node.items if isinstance(node, Sequence) else node.entries):
            return "[]" if isinstance(node, Sequence) else "{}"
        if not node.flow or self._keeper.inside(node):
            return None
        line = _flow(node)
        return line if column + len(line) <= WIDTH else None
