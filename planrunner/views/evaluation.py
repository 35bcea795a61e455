"""Results of ``planrunner eval`` for people and as JUnit XML, made from the object of ``--json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from planrunner.escapes import harmless
from planrunner.plan.expressions.quantities import duration_text
from planrunner.views.proof import percent, sound
from planrunner.views.terminal import Terminal, plural, table

Json = Any

SHOWN = 3
"""Groups of runs of a case whose misses are shown."""
HEADER = ("", "CASE", "MODEL", "PASSED", "COST", "TOKENS", "TIME")


def evaluation_lines(screen: Terminal, document: dict[str, Json]) -> Iterator[str]:
    """A table of each evaluation with what its cases lack below it, the comparison, and the verdict."""
    for suite in document["suites"]:
        yield screen.paint(harmless(suite["file"]), "bold")
        yield from table(screen, HEADER, _rows(screen, suite["cases"]))
        yield from _lacks(screen, suite["cases"])
        if len(suite["models"]) > 1:
            yield ""
            rows = [(each["model"], f"{each['passed']}/{each['cases']}", *_amounts(each)) for each in suite["models"]]
            yield from table(screen, ("MODEL", "CASES", "RUNS", "COST", "TOKENS", "TIME"), rows)
        yield from (f"note: {harmless(note)}" for note in suite["notes"])
        yield ""
    if "comparison" in document:
        yield from _comparison(screen, document["comparison"])
        yield ""
    yield _summary(screen, document)


def _rows(screen: Terminal, cases: list[dict[str, Json]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for case in cases:
        sign = screen.sign({True: "completed", False: "failed", None: "paused"}[case["passed"]])
        passed = f"{case['good']}/{len(case['scores'])}"
        rows.append((sign, case["id"], case["model"] or "-", passed, *_amounts(case)[1:]))
    return rows


def _amounts(found: dict[str, Json]) -> tuple[str, str, str, str]:
    """Pass rate, cost, tokens and time on average."""
    rate, time = found["rate"], found["duration"]
    return (
        "-" if rate is None else percent(rate),
        money(found["cost"]) if found["cost"] != 0 else "-",
        "?" if found["tokens"] is None else f"{found['tokens']:,.0f}" if found["tokens"] else "-",
        "-" if time is None else duration_text(time),
    )


def money(amount: float | None) -> str:
    """Dollars with as many digits as small amounts need; ``?`` where they are not known."""
    if amount is None:
        return "?"
    return f"${amount:.2f}" if amount >= 1 or not amount else f"${amount:.6f}".rstrip("0")


def _lacks(screen: Terminal, cases: list[dict[str, Json]]) -> Iterator[str]:
    """What the runs of a case lack, those that lack the same together."""
    for case in cases:
        alike: dict[str, list[int]] = {}
        for number, score in enumerate(case["scores"]):
            if score["passed"] is False:
                said = [score["status"], score["broken"], *([miss["place"], miss["got"]] for miss in score["misses"])]
                alike.setdefault(str(said), []).append(number)
        model = f" with {case['model']}" if case["model"] else ""
        for numbers in list(alike.values())[:SHOWN]:
            score = case["scores"][numbers[0]]
            runs = f"{plural(len(numbers), 'run')} of {len(case['scores'])}"
            yield ""
            yield screen.paint(harmless(f"{case['id']}{model}, {runs}: {score['status'] or 'not run'}"), "bold")
            yield from _lack(screen, score)
        if len(alike) > SHOWN:
            yield f"  and {plural(sum(map(len, list(alike.values())[SHOWN:])), 'more run')}: see --json"


def _lack(screen: Terminal, score: dict[str, Json]) -> Iterator[str]:
    if score["broken"]:
        yield f"  {harmless(score['broken'])}"
    for miss in score["misses"]:
        yield f"  {harmless(miss['about'])}  {screen.paint(miss['place'], 'dim')}"
        yield f"    got  {harmless(miss['got'])}"
        for at, line in enumerate(miss["why"]):
            yield f"    {'why' if not at else '':<3}  {harmless(line)}"


def _comparison(screen: Terminal, comparison: dict[str, Json]) -> Iterator[str]:
    yield screen.paint(f"compared with {harmless(comparison['against'])}", "bold")
    rows = []
    for row in comparison["cases"]:
        sides = [{name: row[name][side] for name in ("rate", "cost", "tokens", "duration")} for side in (0, 1)]
        *changes, times = zip(*map(_amounts, sides))
        shown = [before if before == after else f"{before} → {after}" for before, after in changes]
        sign = screen.sign("failed" if row["regressed"] else "completed")
        rows.append((sign, row["id"], row["model"] or "-", *shown, " → ".join(times)))
    yield from table(screen, HEADER, rows)


def _summary(screen: Terminal, document: dict[str, Json]) -> str:
    failed, undecided = document["failed"], document["undecided"]
    regressed = document.get("comparison", {}).get("regressed", 0)
    text = f"{document['passed']} passed" + (f", {failed} failed" if failed else "")
    text += f", {undecided} not decided: the budgets are used up" if undecided else ""
    text += f"; {plural(regressed, 'regression')}" if "comparison" in document else ""
    costs = [suite["used"]["cost"] for suite in document["suites"]]
    text += f"; {money(None if None in costs else sum(costs))}"
    sign = "failed" if failed or regressed else "paused" if undecided else "completed"
    return f"{screen.sign(sign)} {text}"


def evaluation_junit(document: dict[str, Json]) -> str:
    """The results as JUnit XML: a suite for each file, a test for each run."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for suite in document["suites"]:
        runs = [(case, number, score) for case in suite["cases"] for number, score in enumerate(case["scores"], 1)]
        failed = sum(score["passed"] is False for _, _, score in runs)
        skipped = sum(score["passed"] is None for _, _, score in runs)
        counts = f'tests="{len(runs)}" failures="{failed}" skipped="{skipped}"'
        lines.append(f"  <testsuite name={quoteattr(suite['file'])} {counts}>")
        for case, number, score in runs:
            lines += _junit_run(case, number, score)
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _junit_run(case: dict[str, Json], number: int, score: dict[str, Json]) -> Iterator[str]:
    model = f"[{case['model']}]" if case["model"] else ""
    name = f"{case['id']}{model} {number}"
    head = f"    <testcase classname={quoteattr(case['plan'] or 'recorded')} name={quoteattr(sound(name))}"
    head += f' time="{score["duration"]}"'
    if score["passed"]:
        yield f"{head}/>"
        return
    yield f"{head}>"
    if score["passed"] is None:
        yield '      <skipped message="the budgets of the evaluation are used up"/>'
    else:
        messages = [score["broken"]] if score["broken"] else []
        messages += [f"{miss['about']}: {miss['got']}" for miss in score["misses"]]
        details = "\n".join("\n".join([miss["place"], *miss["why"]]) for miss in score["misses"])
        yield f"      <failure message={quoteattr(sound('; '.join(messages)))}>{escape(sound(details))}</failure>"
    yield "    </testcase>"
