"""What ``planrunner test`` found out, for people and as JUnit XML; both are made from the object of ``--json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from planrunner.views.symbols import duration_text, plural
from planrunner.views.terminal import Terminal, harmless

Json = Any


def test_lines(screen: Terminal, found: dict[str, Json], every: bool) -> Iterator[str]:
    """A line for each case, below the failing ones what was expected and what came; then the coverage of each plan.
    With ``every`` it is listed what no case reached."""
    file = ""
    for case in found["cases"]:
        if case["file"] != file:
            file = case["file"]
            note = "  (generated: no test file names this plan)" if case["generated"] else ""
            yield screen.paint(harmless(file), "bold") + screen.paint(note, "dim")
        yield from _case(screen, case)
    if found["coverage"]:
        yield ""
        yield from _coverage(screen, found["coverage"], every)
    yield ""
    yield _summary(screen, found)


def _case(screen: Terminal, case: dict[str, Json]) -> Iterator[str]:
    sign = screen.sign("completed" if case["passed"] else "failed")
    runs = f", {case['runs']} runs" if case["runs"] > 1 else ""
    aside = screen.paint(f"  {case['status'].replace('_', ' ')} after {duration_text(case['duration'])}{runs}", "dim")
    yield f"  {sign} {harmless(case['name'])}{aside}"
    if case["broken"]:
        yield f"      a promise of the engine does not hold: {harmless(case['broken'])}"
    for miss in case["misses"]:
        yield f"      {screen.paint(harmless(miss['about']), 'bold')}  {miss['place']}"
        yield f"        expected  {harmless(miss['expected'])}"
        yield f"        got       {harmless(miss['got'])}"
        for number, line in enumerate(miss["why"]):
            yield f"        {'why' if not number else '':<8}  {harmless(line)}"


def _coverage(screen: Terminal, coverage: dict[str, Json], every: bool) -> Iterator[str]:
    yield screen.paint("coverage", "bold")
    longest = max(len(path) for path in coverage)
    for path, found in coverage.items():
        kinds = ", ".join(f"{kind} {one['reached']}/{one['all']}" for kind, one in found["kinds"].items())
        yield f"  {harmless(path):<{longest}}  {percent(found['share']):>4}  {screen.paint(kinds, 'dim')}"
        if every:
            for point in found["missing"]:
                yield f"      not covered: {point['kind'][:-1]} `{harmless(point['task'])}` {harmless(point['text'])}"


def percent(share: float) -> str:
    """A share in whole percent; only a whole is 100%."""
    return f"{100 if share >= 1 else min(99, round(share * 100))}%"


def _summary(screen: Terminal, found: dict[str, Json]) -> str:
    failed = found["failed"]
    text = f"{found['passed']} passed" + (f", {failed} failed" if failed else "")
    plans = len(found["coverage"])
    sign = screen.sign("failed" if failed or not found["cases"] else "completed")
    return f"{sign} {text}; {percent(found['share'])} covered of {plural(plans, 'plan')}"


def junit(found: dict[str, Json]) -> str:
    """The results as JUnit XML: one suite for each file; times are those of the virtual clock."""
    files: dict[str, list[dict[str, Json]]] = {}
    for case in found["cases"]:
        files.setdefault(case["file"], []).append(case)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(f'<testsuites tests="{len(found["cases"])}" failures="{found["failed"]}">')
    for file, cases in files.items():
        failed = sum(not case["passed"] for case in cases)
        lines.append(f'  <testsuite name={quoteattr(file)} tests="{len(cases)}" failures="{failed}">')
        for case in cases:
            lines += _junit_case(case)
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _junit_case(case: dict[str, Json]) -> Iterator[str]:
    names = f"classname={quoteattr(case['plan'])} name={quoteattr(_sound(case['name']))}"
    head = f'    <testcase {names} time="{case["duration"]}"'
    if case["passed"]:
        yield f"{head}/>"
        return
    yield f"{head}>"
    messages = [case["broken"]] if case["broken"] else []
    messages += [f"{miss['about']}: expected {miss['expected']}, got {miss['got']}" for miss in case["misses"]]
    details = [f"{miss['place']}\n" + "\n".join(miss["why"]) for miss in case["misses"]]
    text = escape(_sound("\n".join(details)))
    yield f"      <failure message={quoteattr(_sound('; '.join(messages)))}>{text}</failure>"
    yield "    </testcase>"


def _sound(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return "".join(char for char in text if char in "\t\n" or " " <= char not in "\ufffe\uffff")
