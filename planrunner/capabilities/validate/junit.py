"""Reports of tests in the JUnit form, read as a stream; nothing in them is resolved or loaded."""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.parsers import expat

LONGEST = 20_000
"""Characters of what a test said that are kept: the end of them."""


class NoReport(Exception):
    """The data is no report of tests; the message says why."""


class Case(NamedTuple):
    """One test; ``result`` is passed, failed, error (it could not run to its end) or skipped. ``line`` counts from 1,
    0 where the report does not tell; ``seconds`` is how long it took."""

    name: str
    result: str
    suite: str = ""
    file: str = ""
    line: int = 0
    seconds: float = 0.0
    message: str = ""
    text: str = ""


_RESULTS = {"failure": "failed", "error": "error", "skipped": "skipped"}
_WEIGHT = ("passed", "skipped", "failed", "error")


def read_cases(data: bytes) -> list[Case]:
    """The tests of a report in their order; raises NoReport."""
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.say
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise NoReport(f"is no JUnit report: {error}") from None
    return reader.cases


def _refuse(*_: Any) -> None:
    raise NoReport("declares a document type, which a report of tests does not need")


class _Reader:
    __slots__ = ("_inside", "_text", "cases")

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self._inside = ""
        self._text: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "testcase":
            self.cases.append(_case(attributes))
        elif tag in _RESULTS and self.cases:
            self._inside, self._text = tag, []
            last, result = self.cases[-1], _RESULTS[tag]
            if _WEIGHT.index(result) >= _WEIGHT.index(last.result):
                self.cases[-1] = last._replace(result=result, message=attributes.get("message", "")[:LONGEST])
            else:
                self._inside = ""

    def say(self, text: str) -> None:
        if self._inside:
            self._text.append(text)

    def end(self, tag: str) -> None:
        if tag == self._inside:
            self.cases[-1] = self.cases[-1]._replace(text="".join(self._text)[-LONGEST:])
            self._inside = ""


def _case(attributes: dict[str, str]) -> Case:
    line = attributes.get("line", "")
    try:
        seconds = float(attributes.get("time", "0").replace(",", ""))
    except ValueError:
        seconds = 0.0
    return Case(
        name=attributes.get("name", "?"),
        result="passed",
        suite=attributes.get("classname", ""),
        file=attributes.get("file", ""),
        line=int(line) + 1 if line.isdecimal() and len(line) < 10 else 0,
        seconds=seconds if 0 <= seconds < float("inf") else 0.0,
    )
