"""Reports of tests in the JUnit form, read as a stream."""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from planrunner.record import NamedTuple


class NoReport(Exception):
    """The data is no report of tests; the message says why."""


class Case(NamedTuple):
    """One test; ``result`` is passed, failed (an error is a failure too) or skipped."""

    name: str
    result: str


def read_cases(data: bytes) -> list[Case]:
    """The tests of a report in their order; raises NoReport."""
    found: list[Case] = []
    results = {"failure": "failed", "error": "failed", "skipped": "skipped"}

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "testcase":
            found.append(Case(attributes.get("name", "?"), "passed"))
        elif tag in results and found and found[-1].result != "failed":
            found[-1] = found[-1]._replace(result=results[tag])

    def refuse(*_: Any) -> None:
        raise NoReport("declares a document type, which a report of tests does not need")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise NoReport(f"is no JUnit report: {error}") from None
    return found
