"""The functions of expressions over texts that write them otherwise: cases, edges, lines, addresses."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from planrunner.plan.expressions.values import (
    LONGEST_TEXT,
    NAMES,
    EvaluationError,
    bounded_list,
    bounded_text,
    kind,
    text_of,
)

Json = Any


def text(value: Json, function: str) -> str:
    """A text as the argument of a function. Raises EvaluationError for anything else."""
    if kind(value) != "string":
        raise EvaluationError(f"`{function}` takes text, not {NAMES[kind(value)]}")
    return str(value)


def lower(value: Json) -> str:
    """In small letters."""
    return bounded_text(text(value, "lower").lower())


def upper(value: Json) -> str:
    """In capitals."""
    return bounded_text(text(value, "upper").upper())


def capitalize(value: Json) -> str:
    """With a capital first and small letters behind it."""
    return bounded_text(text(value, "capitalize").capitalize())


def title(value: Json) -> str:
    """With a capital at the start of each word."""
    return bounded_text(" ".join(word.capitalize() for word in text(value, "title").split(" ")))


def trim(value: Json, characters: Json = None) -> str:
    """Without white space, or these characters, at both ends."""
    return text(value, "trim").strip(_or_none(characters, "trim"))


def trim_start(value: Json, characters: Json = None) -> str:
    """Without white space, or these characters, at the start."""
    return text(value, "lstrip").lstrip(_or_none(characters, "lstrip"))


def trim_end(value: Json, characters: Json = None) -> str:
    """Without white space, or these characters, at the end."""
    return text(value, "rstrip").rstrip(_or_none(characters, "rstrip"))


def lines(value: Json) -> list[Json]:
    """The lines of a text, without their ends."""
    return bounded_list(list(text(value, "lines").splitlines()))


def words(value: Json) -> int:
    """How many words a text has."""
    return len(text(value, "wordcount").split())


def truncate(value: Json, length: Json = None, killwords: Json = None, end: Json = None) -> str:
    """At most ``length`` characters (255), ``end`` ("...") included, cut between words unless ``killwords``."""
    whole, most, tail = text(value, "truncate"), 255 if length is None else _whole(length, "truncate"), "..."
    tail = tail if end is None else text(end, "truncate")
    if len(whole) <= most:
        return whole
    cut = whole[: max(0, most - len(tail))]
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + tail


def indent(value: Json, width: Json = None, first: Json = None, blank: Json = None) -> str:
    """Each line but the first behind ``width`` (4) spaces; the first and blank lines too where asked for."""
    whole, by = text(value, "indent"), 4 if width is None else _whole(width, "indent")
    if not 0 <= by <= 80:
        raise EvaluationError("`indent` takes a width up to 80")
    if len(whole) + (whole.count("\n") + 1) * by > LONGEST_TEXT:
        raise EvaluationError(f"the text would have more than {LONGEST_TEXT:,} characters")
    space = " " * by
    result = [
        space + line if (line.strip() or blank) and (number or first) else line
        for number, line in enumerate(whole.split("\n"))
    ]
    return "\n".join(result)


def urlencode(value: Json) -> str:
    """A text as a part of an address; a map as its query."""
    try:
        if kind(value) == "map":
            pairs = [f"{quote(key, '')}={quote(text_of(item), '')}" for key, item in value.items()]
            return bounded_text("&".join(pairs))
        return bounded_text(quote(bounded_text(text(value, "urlencode")), "/"))
    except UnicodeEncodeError:
        raise EvaluationError("`urlencode` takes text that UTF-8 can encode") from None


def _or_none(value: Json, function: str) -> str | None:
    return None if value is None else text(value, function)


def _whole(value: Json, function: str) -> int:
    if kind(value) != "number" or not isinstance(value, int):
        raise EvaluationError(f"`{function}` takes a whole number, not {NAMES[kind(value)]}")
    return value
