"""Where the ``{{ … }}`` of a text begin and end, and which names stand inside. Needs no template engine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planrunner.record import NamedTuple


class Placeholder(NamedTuple):
    """``{{ body }}`` with its offsets; ``closed`` is false where the closing braces are missing."""

    start: int
    end: int
    body: str
    closed: bool = True


class Token(NamedTuple):
    kind: str
    text: str
    start: int


class Reference(NamedTuple):
    """A name that is read, such as ``("tasks", "test", "outputs", "n")``, with its offsets in the text."""

    path: tuple[str, ...]
    start: int
    end: int


_STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
# Patterns are compiled when first used: most runs need none of them.
_INSIDE = rf"(?s){_STRING}|\}}\}}|[{{}}]"
_TOKEN = (
    rf"(?s)(?P<string>{_STRING})"
    r"|(?P<group>(?:tasks|artifacts)(?=\s*\.\s*[A-Za-z_]))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<number>[0-9][A-Za-z0-9_.]*)"
    r"|(?P<sign>==|!=|<=|>=|//|\*\*|\S)"
)
_ID = r"\s*\.\s*([A-Za-z_][A-Za-z0-9_-]*)"
_BLOCK = rf"(?s)\{{%(?:{_STRING}|(?!%\}}).)*%\}}"
_RAW = r"(?s)\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}"
_LOOP = r"(?s)\{%[-+]?\s*for\s+(.+?)\s+in\s"
_WORDS = frozenset(
    "and or not in is if else elif for endfor endif raw endraw recursive true false none True False None".split()
)


def placeholders(text: str, start: int = 0, end: int | None = None) -> list[Placeholder]:
    """Every ``{{ … }}`` between two offsets, in order. Braces inside quoted text and of maps do not close it."""
    found = []
    end = len(text) if end is None else end
    at = text.find("{{", start, end)
    while at >= 0:
        close = _close(text, at + 2, end)
        if close < 0:
            found.append(Placeholder(at, end, text[at + 2 : end], False))
            break
        found.append(Placeholder(at, close + 2, text[at + 2 : close]))
        at = text.find("{{", close + 2, end)
    return found


def _close(text: str, at: int, end: int) -> int:
    """The offset of the closing braces, or -1."""
    depth = 0
    for match in re.compile(_INSIDE).finditer(text, at, end):
        sign = match[0]
        if sign == "{":
            depth += 1
        elif sign == "}" and depth:
            depth -= 1
        elif sign == "}}":
            if not depth:
                return match.start()
            depth = max(0, depth - 2)
            if text.startswith("}", match.end()) and not depth and text.startswith("}}", match.end() - 1):
                return match.end() - 1
    return -1


def segments(text: str) -> Iterator[tuple[int, int]]:
    """The offsets of the insides of ``{{ … }}`` and ``{% … %}``; raw blocks are text."""
    at = 0
    raws = [match.span() for match in re.finditer(_RAW, text)] if "{%" in text else []
    for start, end in [*raws, (len(text), len(text))]:
        blocks = list(re.compile(_BLOCK).finditer(text, at, start)) if "{%" in text else []
        for block in blocks:
            yield from (
                (found.start + 2, found.start + 2 + len(found.body)) for found in placeholders(text, at, block.start())
            )
            yield block.start() + 2, block.end() - 2
            at = block.end()
        yield from ((found.start + 2, found.start + 2 + len(found.body)) for found in placeholders(text, at, start))
        at = end


def references(text: str) -> list[Reference]:
    """Every name the templates of a text read. Names that a ``for`` gives are none, nor are filters and tests."""
    own = {name for match in re.finditer(_LOOP, text) for name in re.findall(r"[A-Za-z_]\w*", match[1])}
    found = []
    for start, end in segments(text):
        found += [item for item in _read(text, start, end) if item.path[0] not in own]
    return found


def _tokens(text: str, start: int, end: int) -> list[Token]:
    tokens = []
    at, token, task_id = start, re.compile(_TOKEN), re.compile(_ID)
    while match := token.search(text, at, end):
        at = match.end()
        tokens.append(Token(match.lastgroup or "", match[0], match.start()))
        if match.lastgroup == "group" and (following := task_id.match(text, at, end)):
            tokens += [Token("sign", ".", at), Token("name", following[1], following.start(1))]
            at = following.end()
    return tokens


def _read(text: str, start: int, end: int) -> Iterator[Reference]:
    tokens = _tokens(text, start, end)
    position = 0
    while position < len(tokens):
        token = tokens[position]
        before = tokens[position - 1].text if position else ""
        after = tokens[position + 1].text if position + 1 < len(tokens) else ""
        position += 1
        if token.kind not in ("name", "group") or token.text in _WORDS or before in (".", "|", "is"):
            continue
        if token.text == "loop" and "{%" in text:
            continue  # the loop of a `for`
        if (after == "=" and before in ("(", ",")) or (before == "not" and _before(tokens, position - 2) == "is"):
            continue
        path, position = _follow(tokens, position, [token.text])
        last = tokens[position - 1]
        yield Reference(tuple(path), token.start, last.start + len(last.text))


def _before(tokens: list[Token], position: int) -> str:
    return tokens[position - 1].text if position > 0 else ""


def _follow(tokens: list[Token], position: int, path: list[str]) -> tuple[list[str], int]:
    """The members behind a name; a method that is called is none."""
    while position + 1 < len(tokens):
        sign, member = tokens[position : position + 2]
        following = tokens[position + 2].text if position + 2 < len(tokens) else ""
        if sign.text == "." and member.kind in ("name", "group"):
            if following == "(":
                break
            path.append(member.text)
            position += 2
        elif sign.text == "[" and member.kind == "string" and following == "]":
            path.append(member.text[1:-1])
            position += 3
        else:
            break
    return path, position


def with_quoted_ids(text: str) -> str:
    """The text with ``tasks.sign-off`` as ``tasks["sign-off"]``, which a template engine reads as one name."""
    parts, at = [], 0
    for start, end in segments(text):
        tokens = _tokens(text, start, end)
        for group, name in ((tokens[i], tokens[i + 2]) for i in range(len(tokens) - 2) if tokens[i].kind == "group"):
            if "-" in name.text:
                parts += [text[at : group.start + len(group.text)], f'["{name.text}"]']
                at = name.start + len(name.text)
    return "".join([*parts, text[at:]])
