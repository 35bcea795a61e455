"""Results of evaluations as data, and two of them compared: what got worse."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from planrunner.app.proof.evalfile import Suite
from planrunner.app.proof.evalruns import Score, Scored
from planrunner.app.proof.scores import SPENT
from planrunner.app.proof.verdict import Miss
from planrunner.errors import NotFound, UsageError
from planrunner.views.documents import FORMAT, document

Json = Any
Document = dict[str, Json]


def suite_object(suite: Suite, results: Sequence[Scored]) -> Document:
    """The results of one evaluation file. ``passed`` of a case is null where budgets kept it from being decided."""
    cases = [_case_object(suite, scored) for scored in results]
    every = [score for scored in results for score in scored.scores]
    return {
        "file": suite.source.name,
        "name": suite.name,
        "cases": cases,
        "models": _models(cases),
        "used": _total([amounts for score in every for amounts in (score.used, score.judging)]),
        "judging": _total([score.judging for score in every]),
        "short": sum(score.short for score in every),
        "notes": list(_notes(suite, results)),
    }


def evaluation_object(suites: list[Document], comparison: Document | None = None) -> Document:
    """Everything as data: what ``eval --json`` prints and ``--save`` writes."""
    cases = [case for suite in suites for case in suite["cases"]]
    return document(
        kind="evaluation",
        passed=sum(case["passed"] is True for case in cases),
        failed=sum(case["passed"] is False for case in cases),
        undecided=sum(case["passed"] is None for case in cases),
        suites=suites,
        **({} if comparison is None else {"comparison": comparison}),
    )


def _case_object(suite: Suite, scored: Scored) -> Document:
    case, scores = scored.case, scored.scores
    done = [score for score in scores if not score.short]
    good = sum(score.passed for score in done)
    line = suite.source.place(case.span.start).line
    return {
        "id": case.id,
        "model": scored.model,
        "plan": case.plan,
        "place": f"{suite.source.name}:{line}",
        "passed": _verdict(good, len(scores) - len(done), len(scores), case.share),
        "share": case.share,
        "rate": round(good / len(done), 4) if done else None,
        "runs": len(done),
        "good": good,
        "duration": round(sum(score.duration for score in done) / len(done), 3) if done else None,
        **{what: _mean([score.used for score in done], what) for what in SPENT},
        "scores": [_score_object(suite, score) for score in scores],
    }


def _verdict(good: int, short: int, runs: int, share: float) -> bool | None:
    """Whether enough runs pass; None where those that are missing decide it."""
    if good >= share * runs - 1e-9:
        return True
    return None if good + short >= share * runs - 1e-9 else False


def _mean(used: list[Any], what: str) -> float | None:
    """What a run used on average; None where one of them does not tell."""
    if not used or any(what not in amounts for amounts in used):
        return None
    return round(float(sum(amounts[what] for amounts in used)) / len(used), 9)


def _total(used: list[Any]) -> Document:
    return {
        what: None if any(what not in each for each in used) else round(sum(e[what] for e in used), 9) for what in SPENT
    }


def _score_object(suite: Suite, score: Score) -> Document:
    return {
        "run": score.run,
        "status": score.status,
        "passed": None if score.short else score.passed,
        "broken": score.broken,
        "duration": score.duration,
        **{what: score.used.get(what) for what in SPENT},
        "misses": [_miss_object(suite, miss) for miss in score.misses],
        "verdicts": list(score.verdicts),
    }


def _miss_object(suite: Suite, miss: Miss) -> Document:
    line, column = suite.source.place(miss.span.start)
    place = f"{suite.source.name}:{line}:{column}"
    return {"about": miss.about, "expected": miss.expected, "got": miss.got, "place": place, "why": list(miss.why)}


def _models(cases: Iterable[Document]) -> list[Document]:
    """The models beside each other, over all cases."""
    rows: dict[str, list[Document]] = {}
    for case in cases:
        rows.setdefault(case["model"], []).append(case)
    return [
        {
            "model": model,
            "passed": sum(case["passed"] is True for case in mine),
            "cases": len(mine),
            "rate": _average([case["rate"] for case in mine]),
            **{what: _average([case[what] for case in mine]) for what in (*SPENT, "duration")},
        }
        for model, mine in rows.items()
        if model
    ]


def _average(numbers: list[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return round(sum(known) / len(known), 9) if known and len(known) == len(numbers) else None


def _notes(suite: Suite, results: Sequence[Scored]) -> Iterable[str]:
    """What had no effect: a model that no run asked."""
    for model in suite.models:
        name = suite.replaces or model
        of_model = (score for scored in results if scored.model == model for score in scored.scores)
        scores = [score for score in of_model if score.run and not score.short]
        if scores and not any(name in score.asked for score in scores):
            where = f"names `{name}`" if suite.replaces else "uses the default model"
            yield f"`{model}` was never asked: no task that ran {where}"


def compare(against: str, before: list[Document], after: list[Document]) -> Document:
    """The cases that both sides have, those that got worst first. A case regressed where fewer of its runs pass than
    before, and fewer than it asks for."""
    known = {_key(suite, case): case for suite in before for case in suite["cases"]}
    rows = []
    for suite in after:
        for case in suite["cases"]:
            earlier = known.get(_key(suite, case))
            if earlier is not None and earlier["rate"] is not None and case["rate"] is not None:
                rows.append(_row(suite, earlier, case))
    rows.sort(key=lambda row: (not row["regressed"], row["rate"][1] - row["rate"][0]))
    return {"against": against, "regressed": sum(row["regressed"] for row in rows), "cases": rows}


def _key(suite: Document, case: Document) -> tuple[str, str, str]:
    return suite["name"], case["id"], case["model"]


def _row(suite: Document, before: Document, after: Document) -> Document:
    worse = after["rate"] < before["rate"] - 1e-9 and after["rate"] < after["share"] - 1e-9
    amounts = {what: [before[what], after[what]] for what in ("rate", *SPENT, "duration")}
    return {"suite": suite["name"], "id": after["id"], "model": after["model"], "regressed": worse, **amounts}


def saved(path: str) -> list[Document]:
    """The suites of a result that ``--save`` wrote. Raises NotFound, UsageError."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except OSError as error:
        raise NotFound(
            f"`{path}` cannot be read: {error.strerror}", "`planrunner eval --save FILE` writes one"
        ) from error
    except ValueError:
        data = None
    if not isinstance(data, dict) or data.get("kind") != "evaluation" or data.get("format", FORMAT + 1) > FORMAT:
        raise UsageError(f"`{path}` is not a result that `planrunner eval --save` wrote")
    suites: list[Document] = data["suites"]
    return suites
