"""``planrunner eval``: find evaluation files, run or look up what they name, score it, and compare it with another
version."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from planrunner.app.history.replay import history
from planrunner.app.plans.path import read_regular
from planrunner.app.proof.evalfile import Suite, read_suite
from planrunner.app.proof.evalruns import Desk, Version, evaluate, version
from planrunner.app.proof.regression import Document, compare, evaluation_object, saved, suite_object
from planrunner.app.proof.test import is_chosen, runnable, search
from planrunner.diagnostics import Diagnostic, has_errors
from planrunner.errors import NotFound, PlanInvalid, UsageError
from planrunner.records import Struct
from planrunner.source import Source

Json = Any

ENDINGS = (".eval.yaml", ".eval.yml", ".eval.json")


class EvalRequest(Struct):
    """What ``planrunner eval`` was asked for. ``against`` names another plan file, a recorded run or a git revision,
    ``baseline`` a saved result; ``recorded`` scores a run in place of new ones; ``keep`` is a folder for the runs.
    ``vouch`` raises Denied for a plan that may not run."""

    paths: tuple[str, ...] = ()
    pattern: str = ""
    against: str = ""
    baseline: str = ""
    recorded: str = ""
    keep: str = ""
    state: str | None = None
    vouch: Callable[[str, Mapping[str, Json]], None] = lambda plan, params: None
    progress: Callable[[int, int], None] = lambda done, every: None


class Evaluated(Struct):
    """The results as data, and the files that could not be used, with their findings."""

    document: Document
    invalid: tuple[tuple[Source, tuple[Diagnostic, ...]], ...]


def evaluate_paths(request: EvalRequest) -> Evaluated:
    """Evaluate every file below the paths; nothing runs where one of them is invalid. Raises NotFound, UsageError,
    Denied."""
    suites, invalid = _read(request)
    if invalid:
        return Evaluated(evaluation_object([]), tuple(invalid))
    if request.keep:
        _make(request.keep)
    with tempfile.TemporaryDirectory(prefix="planrunner-eval-") as folder:
        desk = Desk(folder, request.state, request.progress, request.keep)
        now = Version(run=history(request.recorded, request.state)) if request.recorded else Version()
        then = version(request.against, desk, suites) if request.against else None
        _vouch(request, suites, (now, *([] if then is None else [then])))
        before = saved(request.baseline) if request.baseline else None
        if then is not None:
            before = _objects(suites, desk._replace(keep=""), then)
        after = _objects(suites, desk, now)
    if before is None:
        return Evaluated(evaluation_object(after), ())
    comparison = compare(request.against or request.baseline, before, after)
    if not comparison["cases"]:
        raise UsageError(
            f"`{request.against or request.baseline}` has none of these cases: there is nothing to compare"
        )
    return Evaluated(evaluation_object(after, comparison), ())


def _read(request: EvalRequest) -> tuple[list[Suite], list[tuple[Source, tuple[Diagnostic, ...]]]]:
    suites: list[Suite] = []
    invalid: list[tuple[Source, tuple[Diagnostic, ...]]] = []
    for path in find_suites(request.paths):
        file = read_regular(path)
        try:
            suite = Suite(file.source, findings=file.findings) if file.findings else read_suite(file.source, runnable)
        except PlanInvalid as error:
            invalid.append((error.source, error.findings))
            continue
        if has_errors(suite.findings):
            invalid.append((suite.source, suite.findings))
        cases = tuple(case for case in suite.cases if is_chosen(request.pattern, f"{path}::{case.id}"))
        if cases:
            suites.append(suite._replace(cases=cases))
    if not suites and not invalid:
        raise NotFound(f"no case is called like `{request.pattern}`")
    names = [suite.name for suite in suites]
    for suite in suites:
        if names.count(suite.name) > 1:
            raise UsageError(f"two evaluation files are called `{suite.name}`: results are compared by that name")
    return suites, invalid


def find_suites(places: Sequence[str]) -> list[str]:
    """Evaluation files below ``places``. Raises NotFound where there is none."""
    files: dict[str, None] = {}
    for path in places or ["."]:
        if os.path.isdir(path):
            files.update(dict.fromkeys(search(path, ENDINGS)))
        elif not os.path.isfile(path):
            raise NotFound(f"there is no evaluation file `{path}`")
        else:
            files[os.path.normpath(path)] = None
    if not files:
        named = ", ".join(f"`{path}`" for path in places or ["."])
        raise NotFound(f"no evaluation in {named}", "evaluations are files called *.eval.yaml")
    return list(files)


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"`{folder}` cannot be made: {error.strerror}") from error


def _vouch(request: EvalRequest, suites: Iterable[Suite], versions: Iterable[Version]) -> None:
    """Ask once for each plan that is going to run."""
    asked: set[str] = set()
    for one in versions:
        for suite in suites if one.run is None else ():
            for case in suite.cases:
                plan = one.plan or case.plan
                if not case.run and plan not in asked:
                    asked.add(plan)
                    request.vouch(plan, case.params)


def _objects(suites: Sequence[Suite], desk: Desk, one: Version) -> list[Document]:
    done = [suite_object(suite, evaluate(suite, desk, one)) for suite in suites]
    if one.run is not None and not any(suite["cases"] for suite in done):
        raise UsageError(f"no case has the parameters of run {one.run.run_id}")
    return done
