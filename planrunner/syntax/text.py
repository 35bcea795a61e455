"""The text notation to the node tree by ``grammar/plan.lark``, with recovery at the next line."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Union

from planrunner.diagnostics import Diagnostic
from planrunner.records import Struct
from planrunner.source import Source, Span
from planrunner.syntax.lalr import END, Parser, Unexpected, grammar
from planrunner.syntax.limits import CollectorPaused, Refused, check_length, duplicate_key, empty_plan, find_unreadable
from planrunner.syntax.text_lexer import Lexeme, Lexer
from planrunner.syntax.tree import Mapping, Node, Parsed, Scalar, Sequence

MAX_FINDINGS = 100


def parse_text(source: Source) -> Parsed:
    """Read the text notation. Each line that does not parse gives one finding, and then the tree is None."""
    try:
        check_length(source.text)
        unreadable = find_unreadable(source.text)
        if unreadable is not None:
            raise Refused(unreadable)
        with CollectorPaused():
            return _parse(source.text)
    except Refused as refusal:
        return Parsed(None, (refusal.finding,))


def _parse(text: str) -> Parsed:
    lexemes = Lexer(text).lexemes()
    if not lexemes:
        raise Refused(empty_plan())
    builder = Builder()
    tree = _Reading(text, lexemes, builder).run()
    broken = tree is None or any(finding.code != "PLAN002" for finding in builder.findings)
    return Parsed(None if broken else tree, tuple(builder.findings))


_READ = Lexeme("_READ", 0, 0)


class _Reading:
    """One pass over the lexemes. ``marks`` holds, for each open block, how high the parser's stacks were when its
    current statement began: cutting them back to that height forgets the statement and nothing else."""

    def __init__(self, text: str, lexemes: list[Lexeme], builder: Builder) -> None:
        self._text = text
        self._lexemes = lexemes
        self._findings = builder.findings
        self._parser = Parser(grammar("plan"), builder)
        self._marks = [1]

    def run(self) -> Node | None:
        at, lexemes = 0, self._lexemes
        feed, stack, marks = self._parser.feed, self._parser.states, self._marks
        while at < len(lexemes):
            lexeme = lexemes[at]
            kind = lexeme.type
            try:
                feed(kind, lexeme)
            except Unexpected as problem:
                at = self._recover(at, problem)
                if len(self._findings) > MAX_FINDINGS:
                    return None
                continue
            lexemes[at] = _READ  # what was read is needed no more: the tree grows in the room it leaves
            at += 1
            if lexeme.first:
                marks[-1] = len(stack) - 1
            elif kind == "_INDENT":
                marks.append(len(stack))
            elif kind == "_DEDENT":
                marks.pop()
        try:
            tree: Node = self._parser.finish()
        except Unexpected as problem:
            self._report(Lexeme(END, len(self._text), len(self._text)), problem)
            return None
        return tree

    def _recover(self, at: int, problem: Unexpected) -> int:
        """Report the lexeme that does not fit and leave out its statement; gives where to go on."""
        lexemes = self._lexemes
        lexeme = lexemes[at]
        following = lexemes[at + 1] if at + 1 < len(lexemes) else lexeme
        self._report(following if following.type == "FAULT" and lexeme.type == "_INDENT" else lexeme, problem)
        if lexeme.type == "_INDENT":
            return self._behind_block(at)
        if not lexeme.first:
            height = self._marks[-1]
            del self._parser.states[height:], self._parser.values[height - 1 :]
        while at < len(lexemes) and lexemes[at].type != "_NL":
            at = self._behind_block(at) - 1 if lexemes[at].type == "_INDENT" else at + 1
            if lexemes[at].type == "_DEDENT":
                return at + 1
        at += 1
        if at < len(lexemes) and lexemes[at].type == "_INDENT":
            return self._behind_block(at)
        return at

    def _behind_block(self, at: int) -> int:
        """The index behind the block that begins at ``at``."""
        depth = 0
        for index in range(at, len(self._lexemes)):
            kind = self._lexemes[index].type
            depth += (kind == "_INDENT") - (kind == "_DEDENT")
            if not depth:
                return index + 1
        return len(self._lexemes)

    def _report(self, lexeme: Lexeme, problem: Unexpected) -> None:
        finding = lexeme.finding or unexpected(lexeme, problem.expected, self._text)
        self._findings.append(
            finding
            if finding.span.end > finding.span.start
            else finding._replace(span=Span(finding.span.start, finding.span.start + 1))
        )


class Entry(NamedTuple):
    """``key: value``; also one part of the first line of a task."""

    key: Scalar
    value: Node


class Item(Struct):
    """``- value``; ``start`` is the place of the dash."""

    node: Node
    start: int


class Task(Struct):
    """A ``task`` block."""

    node: Mapping


class Route(Struct):
    """``on failure -> target``; ``event`` is the word behind ``on``."""

    event: Scalar
    target: Scalar
    recovers: Scalar | None
    when: Scalar | None
    start: int

    @property
    def end(self) -> int:
        return (self.when or self.recovers or self.target).end


Statement = Union[Entry, Item, Task, Route]


class Body(Struct):
    """The statements of an indented block that has still to become a mapping or a list."""

    statements: list[Statement]
    start: int


class Head(Struct):
    """What stands behind ``plan`` or ``task`` on its line, and the statements below."""

    entries: list[Entry]
    statements: list[Statement]


_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\*?")
_OPERATORS = frozenset(("and", "or", "not", "in", "is", "if", "else"))
_ROUTE_KEYS = {"success": "on_success", "failure": "on_failure"}


def is_word_list(text: str) -> bool:
    """Whether a text behind ``needs:`` is several ids, not an expression: ``status lint``, but not ``a or b``."""
    words = text.split(" ")
    return len(words) > 1 and all(_ID.fullmatch(word) and word not in _OPERATORS for word in words)


def implied(name: str, at: int) -> Scalar:
    """A key that the text does not spell out; it has no width."""
    return Scalar(name, at, at)


class Builder:
    """One method for each rule of the grammar; ``findings`` collects what is wrong with statements that parse."""

    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []

    def start(self, children: list[Any]) -> Mapping:
        statements: list[Statement] = []
        for child in children:
            statements.extend((*child.entries, *child.statements) if isinstance(child, Head) else (child,))
        return self._mapping(self._without(Item, statements), 0)

    def plan(self, children: list[Any]) -> Head:
        return self._head("plan", children)

    def task(self, children: list[Any]) -> Task:
        head = self._head("id", children)
        start: int = children[0].start
        body = [_needs(each) for each in self._without(Item, head.statements)]
        node = self._mapping([*head.entries, *body], start)
        node.end = max(node.end, children[0].end)
        return Task(node)

    def _head(self, name: str, children: list[Any]) -> Head:
        word, title, body = children[1], children[2], children[-1]
        entries = []
        if word:
            keyword = children[0]
            key = Scalar("plan", keyword.start, keyword.end, "plan") if name == "plan" else implied(name, word.start)
            entries.append(Entry(key, word.node))
        if title:
            entries.append(Entry(implied("title", title.start), title.node))
        entries.extend(children[3:-1])
        return Head(entries, body.statements if body else [])

    def pair(self, children: list[Any]) -> Entry:
        key = children[0].node
        if key.value == "using":
            key.value = "uses"
        return Entry(key, _node(children[1]))

    def entry(self, children: list[Any]) -> Entry:
        key, value = children[0], children[1] if len(children) > 1 else None  # an absent `_value` is left out
        if isinstance(value, Body):
            return Entry(key.node, self._block_node(value))
        return Entry(key.node, Scalar(None, key.end + 1, key.end + 1) if value is None else _node(value))

    def item(self, children: list[Any]) -> Item:
        dash, value = children[0], children[1] if len(children) > 1 else None
        if isinstance(value, Body):
            return Item(self._block_node(value), dash.start)
        return Item(Scalar(None, dash.end, dash.end) if value is None else _node(value), dash.start)

    def route(self, children: list[Any]) -> Route:
        route, target, recovers, when = children
        return Route(route.node, target.node, recovers and recovers.node, when and when.node, route.start)

    def block(self, children: list[Any]) -> Body:
        return Body(children, _start(children[0]) if children else 0)

    def sequence(self, children: list[Any]) -> Sequence:
        return Sequence(
            [_node(child) for child in children[1:-1] if child is not None], children[0].start, children[-1].end, True
        )

    def mapping(self, children: list[Any]) -> Mapping:
        entries: list[Entry] = []
        for child in children[1:-1]:
            if isinstance(child, Lexeme) and child.type == "NAME" and child.node is not None:
                entries.append(Entry(child.node, Scalar(None, child.end, child.end)))
            elif child is not None:
                entries[-1] = Entry(entries[-1].key, _node(child))
        return Mapping(self._unique(entries), children[0].start, children[-1].end, True)

    def _block_node(self, body: Body) -> Node:
        statements = body.statements
        if not statements:
            return Scalar(None, body.start, body.start)
        kinds = {type(each) for each in statements}
        if isinstance(statements[0], (Entry, Route)) or (Item not in kinds and kinds & {Entry, Route}):
            return self._mapping(self._without(Item, statements), body.start)
        listed = self._without(Entry, self._without(Route, statements))
        items = [each.node for each in listed if isinstance(each, (Item, Task))]
        return Sequence(items, body.start, items[-1].end)

    def _without(self, unfit: type[Entry | Item | Task | Route], statements: list[Statement]) -> list[Statement]:
        """The statements that are not of the unfit kind, and a finding for the first that is."""
        kept = [each for each in statements if type(each) is not unfit]
        if len(kept) < len(statements):
            message = "a list item stands among keys" if unfit is Item else "a key stands among list items"
            help = (
                "indent the items below their key" if unfit is Item else "indent it below its item, or make it an item"
            )
            start = next(_start(each) for each in statements if isinstance(each, unfit))
            self.findings.append(Diagnostic("PLAN001", message, Span(start, start + 1), help=help))
        return kept

    def _mapping(self, statements: list[Statement], start: int) -> Mapping:
        entries = [each for each in statements if isinstance(each, Entry)]
        tasks = [each.node for each in statements if isinstance(each, Task)]
        routes = [each for each in statements if isinstance(each, Route)]
        if tasks:
            entries.append(
                Entry(implied("tasks", tasks[0].start), Sequence(list(tasks), tasks[0].start, tasks[-1].end))
            )
        if routes:
            entries.extend(_routed(routes))
        entries.sort(key=lambda entry: entry.key.start)
        end = max((max(entry.key.end, entry.value.end) for entry in entries), default=start)
        return Mapping(self._unique(entries), start, end)

    def _unique(self, entries: list[Entry]) -> list[tuple[Scalar, Node]]:
        first: dict[object, Scalar] = {}
        kept: list[tuple[Scalar, Node]] = []
        for key, value in entries:
            earlier = first.setdefault(key.value, key)
            if earlier is key:
                kept.append((key, value))
            else:
                self.findings.append(duplicate_key(key, earlier))
        return kept


def _node(value: Any) -> Node:
    """The node of a value, which is a lexeme where it is a scalar."""
    if isinstance(value, Lexeme):
        assert value.node is not None
        return value.node
    node: Node = value
    return node


def _start(statement: Statement) -> int:
    if isinstance(statement, Entry):
        return statement.key.start
    return statement.node.start if isinstance(statement, Task) else statement.start


def _needs(statement: Statement) -> Statement:
    """``needs: a b`` as a list of ids."""
    if isinstance(statement, Entry) and statement.key.value == "needs" and isinstance(statement.value, Scalar):
        value = statement.value
        if not value.style and isinstance(value.value, str) and is_word_list(value.raw):
            words = [
                Scalar(word[0], value.start + word.start(), value.start + word.end(), word[0])
                for word in re.finditer(r"\S+", value.raw)
            ]
            return Entry(statement.key, Sequence(list(words), value.start, value.end, True))
    return statement


def _routed(routes: list[Route]) -> list[Entry]:
    """The entries ``on_success``, ``on_failure`` and ``next`` that ``on … ->`` lines stand for."""
    entries = []
    for event, key in _ROUTE_KEYS.items():
        matching = [route for route in routes if route.event.value == event]
        if matching:
            name = Scalar(key, matching[0].start, matching[0].event.end, f"on {event}")
            targets = [_target(route, False) for route in matching]
            value = targets[0] if len(targets) == 1 else Sequence(targets, targets[0].start, targets[-1].end)
            entries.append(Entry(name, value))
    others = [route for route in routes if route.event.value not in _ROUTE_KEYS]
    if others:
        listed = [_target(route, True) for route in others]
        entries.append(Entry(implied("next", others[0].start), Sequence(listed, others[0].start, listed[-1].end)))
    return entries


def _target(route: Route, named: bool) -> Node:
    """Where a route leads: the id, or a mapping where more is said; with its event if ``named``."""
    entries: list[tuple[Scalar, Node]] = [(implied("on", route.event.start), route.event)] if named else []
    if not (named or route.recovers or route.when):
        return route.target
    entries.append((implied("to", route.target.start), route.target))
    if route.recovers:
        entries.append((implied("recovers", route.recovers.start), route.recovers))
    if route.when:
        entries.append((implied("when", route.when.start), route.when))
    return Mapping(entries, route.start if named else route.target.start, route.end, True)


_CLOSING = {"RSQB": "]", "RBRACE": "}"}


def unexpected(lexeme: Lexeme, expected: frozenset[str], text: str) -> Diagnostic:
    """The finding for ``lexeme`` where the parser expected one of the terminals ``expected``."""
    message, help = _words(lexeme, expected, text)
    return Diagnostic("PLAN001", message, Span(lexeme.start, lexeme.end), help=help)


def _words(lexeme: Lexeme, expected: frozenset[str], text: str) -> tuple[str, str]:
    shown = text[lexeme.start : lexeme.end]
    kind = lexeme.type
    if kind == "_INDENT":
        return "this line is indented deeper than the line above, which is complete", "indent it as its neighbours"
    if kind == "PLAN":
        return "the `plan` line stands once, at the top", "take this line away, or make it a task"
    if kind == END:
        return "the text ends too early", ""
    if "WORD" in expected and "TITLE" not in expected:
        return "the id of a task is expected here", "write `on failure -> task-id`"
    if "PAIR" in expected and kind in ("WORD", "TITLE"):
        return _head(kind, shown)
    if kind in _CLOSING and "_COMMA" in expected:
        return f"`{shown}` does not close the bracket that is open here", "close the inner bracket first"
    if "_COMMA" in expected:
        return f"a comma is missing before `{shown}`", "separate items with commas, or quote the whole text"
    if expected & {"LSQB", "SCALAR", "NAME"}:
        return f"a value is missing before `{shown}`" if shown else "a value is missing here", "write the value"
    return f"`{shown}` cannot stand here", ""


def _head(kind: str, shown: str) -> tuple[str, str]:
    if kind == "WORD":
        return f"`{shown}` is one word too many", 'an id is one word; put a title in quotes: task id "Title"'
    if kind == "TITLE":
        return "the title stands behind the id, before any `key:value`", 'write task id "Title" key:value'
    return f"`{shown}` cannot stand here", "write `key:value`"
