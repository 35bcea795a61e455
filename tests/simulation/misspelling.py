"""Names in the text of a plan that can be misspelt: references, keys, words of the language."""

from __future__ import annotations

import random
import re
from typing import Any, NamedTuple

Json = Any


class Name(NamedTuple):
    """A name at ``start`` to ``end`` of a text; ``kind`` says of what."""

    kind: str
    start: int
    end: int


KEYS = frozenset(
    """plan params defaults tasks finally needs join when expect preconditions postconditions validation run uses with
    env cwd on_success on_failure next failure_modes detect recover to else recovers rework max class fresh inputs
    outputs loop until carry foreach matrix include exclude gate gates ask checks options evidence form pros cons cost
    title description policy labels artifacts backup rollback budgets on_exhausted subplans subplan timeout
    stdout stdin done on name path type value required""".split()
)
"""Keys of plans; in data of the author's own they are words like any other."""
WORDS = frozenset(["success", "failure", "always", "logic", "rollback", "approval", "decision", "noop", "json"])
OTHER_NAMES = frozenset(["budget", "input", "policies", "nodes", "steps", "environment", "criteria"])
"""Names under which the language knows some keys too."""
FUNCTIONS = ("len", "default", "int", "first")
FILTERS = ("length", "default")
_OWN = frozenset(["value", "data", "kept", "given", "field", "one", "two", "about", "axis", "file"])
"""Names under which the plans of ``sound_plans`` keep data."""


def names(text: str, document: Json) -> list[Name]:
    """Everything in the text of a plan, written as JSON with one entry on a line, that can be misspelt."""
    found = [*_references(text, document), *_words(text), *_keys(text)]
    return sorted(set(found))


def _matches(kind: str, pattern: str, text: str) -> list[Name]:
    return [Name(kind, *match.span(1)) for match in re.finditer(pattern, text)]


def _references(text: str, document: Json) -> list[Name]:
    ids = {match[1] for match in re.finditer(r'"id": "(\w+)"', text)}
    found = []
    for name in ids - {"one", "two"}:
        found += _matches("task", rf"(?<!\"id\": \")\b({name})\b(?!x?\":)", text)
    found += _matches("parameter", r"\bparams\.(\w+)", text)
    found += _matches("root", r"(?<![\w.\"])(params|tasks|outputs|item|matrix)(?=[. ])", text)
    found += _matches("member", r"\btasks\.\w+\.(outputs)\b", text)
    noops = {match[1] for match in re.finditer(r'"id": "(\w+)",\s*"uses": "noop"', text)}
    for name in noops:
        found += _matches("output", rf"\btasks\.{name}\.outputs\.(value)\b", text)
    found += _matches("axis", r"\bmatrix\.(one)\b", text)
    for name in document.get("subplans", {}):
        found += _matches("subplan", rf'"subplan": "({name})"', text)
    return found


def _words(text: str) -> list[Name]:
    found = []
    for word in WORDS:
        found += _matches(f"word {word}", rf'"(?:on|uses|gate|on_exhausted|on_failure|stdout)": "({word})"', text)
    for name in FUNCTIONS:
        found += _matches(f"function {name}", rf"(?<![\w.])({name})\(", text)
    for name in FILTERS:
        found += _matches(f"filter {name}", rf"\| ({name})\b", text)
    return found


def _keys(text: str) -> list[Name]:
    """Keys of the language, outside of what the plan keeps as data."""
    found = []
    holders: list[str] = []
    for line in re.finditer(r'^( *)(?:"([^"]*)": )?(.*)$', text, re.MULTILINE):
        depth, key = len(line[1]), line[2]
        del holders[depth:]
        holders += [""] * (depth - len(holders))
        around = [each for each in holders if each]
        free = {"value", "default", "with", "env", "carry", "subplans", "gates", "params"} & set(around[-2:])
        data = {"value", "default", "with"} & set(around) or (around[-1:] == ["form"]) or free & set(around[-1:])
        if key in KEYS and not data and around[-1:] not in (["outputs"], ["matrix"]):
            found.append(Name(f"key {key}", line.start(2), line.end(2)))
        if key is not None:
            holders.append(key)
    return found


def misspelt(rng: random.Random, text: str, name: Name) -> str:
    """The text with two letters of a name swapped, one left out or one doubled."""
    word = text[name.start : name.end]
    ways = [word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1)]
    ways += [word[:at] + word[at + 1 :] for at in range(1, len(word)) if len(word) > 3]
    ways += [word[:at] + word[at] + word[at:] for at in range(len(word))]
    known = set(re.findall(r"\w+", text)) | KEYS | WORDS | OTHER_NAMES
    fitting = [way for way in ways if way not in known and not way[0].isdigit()]
    return text[: name.start] + rng.choice(fitting) + text[name.end :]
