"""Results of ``planrunner test``, ``chaos`` and ``replay`` for people, and tests as JUnit XML; made from the object
of ``--json``."""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from planrunner.escapes import harmless
from planrunner.machine.replay import Difference, Replayed
from planrunner.plan.expressions.quantities import duration_text
from planrunner.views.terminal import Terminal, plural, table

Json = Any


def test_lines(screen: Terminal, document: dict[str, Json], every: bool) -> Iterator[str]:
    """A line for each case, below the failing ones what was expected and what came; then the coverage of each plan.
    With ``every`` it is listed what no case reached."""
    file = ""
    for case in document["cases"]:
        if case["file"] != file:
            file = case["file"]
            note = "  (generated: no test file names this plan)" if case["generated"] else ""
            yield screen.paint(harmless(file), "bold") + screen.paint(note, "dim")
        yield from _case(screen, case)
    if document["coverage"]:
        yield ""
        yield from _coverage(screen, document["coverage"], every)
    yield ""
    yield _summary(screen, document)


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


def _summary(screen: Terminal, document: dict[str, Json]) -> str:
    failed = document["failed"]
    text = f"{document['passed']} passed" + (f", {failed} failed" if failed else "")
    plans = len(document["coverage"])
    sign = screen.sign("failed" if failed or not document["cases"] else "completed")
    return f"{sign} {text}; {percent(document['share'])} covered of {plural(plans, 'plan')}"


def junit(document: dict[str, Json]) -> str:
    """The results as JUnit XML: one suite for each file; times are those of the virtual clock."""
    files: dict[str, list[dict[str, Json]]] = {}
    for case in document["cases"]:
        files.setdefault(case["file"], []).append(case)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(f'<testsuites tests="{len(document["cases"])}" failures="{document["failed"]}">')
    for file, cases in files.items():
        failed = sum(not case["passed"] for case in cases)
        lines.append(f'  <testsuite name={quoteattr(file)} tests="{len(cases)}" failures="{failed}">')
        for case in cases:
            lines += _junit_case(case)
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _junit_case(case: dict[str, Json]) -> Iterator[str]:
    names = f"classname={quoteattr(case['plan'])} name={quoteattr(sound(case['name']))}"
    head = f'    <testcase {names} time="{case["duration"]}"'
    if case["passed"]:
        yield f"{head}/>"
        return
    yield f"{head}>"
    messages = [case["broken"]] if case["broken"] else []
    messages += [f"{miss['about']}: expected {miss['expected']}, got {miss['got']}" for miss in case["misses"]]
    details = [f"{miss['place']}\n" + "\n".join(miss["why"]) for miss in case["misses"]]
    text = escape(sound("\n".join(details)))
    yield f"      <failure message={quoteattr(sound('; '.join(messages)))}>{text}</failure>"
    yield "    </testcase>"


def sound(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return "".join(char for char in text if char in "\t\n" or " " <= char not in "\ufffe\uffff")


def chaos_lines(screen: Terminal, document: dict[str, Json]) -> Iterator[str]:
    """The table of what was injected and how each run ended, then the verdict."""
    world = "a scratch copy of the project" if document.get("real") else f"a simulation: {document['world']}"
    writes = plural(document["writes"], "journal write")
    yield f"{harmless(document['plan'])} in {world}; {writes}, ends as {document['status']}"
    yield ""
    rows = [
        (
            row["what"],
            str(row["runs"]),
            str(row["doubts"]),
            ", ".join(f"{n} {word}" for word, n in row["ended"].items()),
        )
        for row in document["table"]
    ]
    yield from table(screen, ("KILLED", "RUNS", "IN DOUBT", "ENDED"), rows)
    yield ""
    if document["doubts"]:
        settled = "tried again" if document.get("real") else "settled by what the simulation knows"
        yield f"in doubt: {plural(document['doubts'], 'attempt')} of unsafe tasks, {settled}"
    if document["left_out"]:
        yield f"{plural(document['left_out'], 'run')} left out: no time (--time)"
    yield from _verdict(screen, document)


def _verdict(screen: Terminal, document: dict[str, Json]) -> Iterator[str]:
    bad = document["violation"]
    if bad is None:
        text = "the same end every time" + ("" if document.get("real") else ", nothing lost, nothing unsafe done twice")
        yield f"{screen.sign('completed')} {plural(document['runs'], 'run')} killed and resumed: {text}"
        return
    yield f"{screen.sign('failed')} a kill changed how the run ends:"
    for line in bad["wrong"][:10]:
        yield f"    {harmless(line)}"
    yield f"  again: {harmless(bad['again'])}"


LONGEST = 300


def replay_lines(run_id: str, replayed: Replayed, edited: bool) -> list[str]:
    """A few lines: that the record is exact, or the first difference with both sides."""
    difference = replayed.difference
    if difference is None:
        counts = f"{replayed.entries} entries, {replayed.decided} decided again, {replayed.inputs} from outside"
        alike = "decides the same with this plan" if edited else "replays exactly"
        return [f"run {run_id} {alike}: {counts}"]
    lines = [f"run {run_id} differs at entry {difference.seq}: {harmless(difference.message)}"]
    facts = [("task", difference.task), ("field", difference.field)]
    return [*lines, *(f"  {name:<9}{harmless(value)}" for name, value in facts if value), *_sides(difference)]


def _sides(difference: Difference) -> list[str]:
    expected, got, where = difference.expected, difference.got, ""
    if isinstance(expected, str) and isinstance(got, str) and "\n" in expected + got:
        expected, got, where = _first_line(expected, got)
    return [f"  expected {_shown(expected)}{where}", f"  got      {_shown(got)}{where}"]


def _first_line(expected: str, got: str) -> tuple[str | None, str | None, str]:
    """The first line that differs on either side, and its number."""
    one, other = expected.splitlines(), got.splitlines()
    for number in range(max(len(one), len(other))):
        left = one[number] if number < len(one) else None
        right = other[number] if number < len(other) else None
        if left != right:
            return left, right, f"  (line {number + 1})"
    return expected, got, ""


def _shown(value: Json) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else dumps(value, ensure_ascii=False)
    return harmless(text if len(text) <= LONGEST else text[: LONGEST - 1] + "~")


def replay_object(replayed: Replayed) -> dict[str, Json]:
    """The same as data; ``difference`` is None where the record is exact."""
    difference = replayed.difference
    return {
        "exact": difference is None,
        "entries": replayed.entries,
        "decided": replayed.decided,
        "inputs": replayed.inputs,
        "difference": None if difference is None else difference._asdict(),
    }
