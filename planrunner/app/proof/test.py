"""``planrunner test``: find test files and plans, run their cases in imagined worlds, and say what they reached."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from planrunner.app.plans.files import find_plans
from planrunner.app.plans.lint import registry
from planrunner.app.plans.path import read_regular
from planrunner.app.proof.coverage import Case, Coverage, all_goes_well, coverage_object, implied, reached_tasks
from planrunner.app.proof.lives import Broken, Lived, Stage, live
from planrunner.app.proof.names import paths
from planrunner.app.proof.reads import outputs_read
from planrunner.app.proof.testfile import Suite, read_tests
from planrunner.app.proof.verdict import Miss, misses
from planrunner.app.proof.world import (
    Known,
    World,
    decided,
    decision,
    extended,
    known_capabilities,
    lapses,
    script,
    staged,
)
from planrunner.diagnostics import Diagnostic, has_errors
from planrunner.errors import Hint, NextStep, NotFound, PlanInvalid, UsageError
from planrunner.files.match import name_fits
from planrunner.machine.state import State
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plan.params import bind_params
from planrunner.records import Struct
from planrunner.source import Source

Json = Any


ENDINGS = (".test.yaml", ".test.yml", ".test.json")
FORMAT = 1


class CaseResult(Struct):
    """How a case went. ``place`` is where it stands (``file:line``), ``broken`` what of the engine's own promises did
    not hold, ``runs`` how many runs it took."""

    case: Case
    file: str
    place: str
    misses: tuple[Miss, ...] = ()
    broken: str = ""
    status: str = ""
    duration: float = 0.0
    runs: int = 0

    @property
    def passed(self) -> bool:
        return not (self.misses or self.broken)


class Tested(Struct):
    """Everything that ``planrunner test`` found out. ``invalid`` are files that could not be used, with their
    findings."""

    results: tuple[CaseResult, ...]
    coverage: dict[str, Coverage]
    invalid: tuple[tuple[Source, tuple[Diagnostic, ...]], ...]
    sources: dict[str, Source]


def test_paths(places: Sequence[str], pattern: str = "") -> Tested:
    """Run the cases of every test file below ``places``, and the implied cases of plans that have no test file.

    ``pattern`` keeps the cases whose ``file::name`` holds it (``*`` stands for any characters). Raises NotFound where
    there is neither a test nor a plan.
    """
    bench = _Bench(pattern)
    files, plans = find_tests(places)
    tested: set[str] = set()
    for file in files:
        tested |= bench.file(file)
    for plan in plans:
        if os.path.realpath(plan) not in tested:
            bench.plan(plan)
    if pattern and not bench.results and not bench.invalid:
        raise NotFound(f"no case is called like `{pattern}`", Hint(NextStep("test"), " lists them all"))
    return Tested(tuple(bench.results), bench.coverage, tuple(bench.invalid), bench.sources)


test_paths.__test__ = False  # type: ignore[attr-defined]


def find_tests(places: Sequence[str]) -> tuple[list[str], list[str]]:
    """Test files and plans below ``places``; a plan that is named brings the test files beside it along."""
    wanted = list(places) or ["."]
    files: dict[str, None] = {}
    plans: dict[str, None] = {}
    for path in wanted:
        if path.endswith(ENDINGS):
            if not os.path.isfile(path):
                raise NotFound(f"there is no test file `{path}`")
            files[os.path.normpath(path)] = None
        elif os.path.isdir(path):
            files.update(dict.fromkeys(search(path, ENDINGS)))
            plans.update(dict.fromkeys(_plans_below(path)))
        else:
            plans.update(dict.fromkeys(find_plans([path])))
            files.update(dict.fromkeys(_beside(path)))
    if not files and not plans:
        named = ", ".join(f"`{path}`" for path in wanted)
        raise NotFound(f"no plan and no test in {named}", "tests are named *.test.yaml")
    return list(files), list(plans)


def _plans_below(folder: str) -> list[str]:
    try:
        return find_plans([folder])
    except NotFound:
        return []


def search(folder: str, endings: tuple[str, ...]) -> Iterator[str]:
    """The files below a folder whose names end so; hidden folders and those of other tools are left alone."""
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.normpath(os.path.join(here, name))


_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


def _beside(plan: str) -> Iterator[str]:
    """The test files beside a plan, and in ``tests`` beside it, that test this plan."""
    folder = os.path.dirname(plan)
    for place in (folder, os.path.join(folder, "tests")):
        try:
            names = sorted(os.listdir(place or "."))
        except OSError:
            continue
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(ENDINGS) and _names_plan(path, plan):
                yield os.path.normpath(path)


def _names_plan(file: str, plan: str) -> bool:
    """Whether a test file speaks of a plan; the text alone decides, for the file may be faulty."""
    try:
        with open(file, encoding="utf-8", errors="replace") as text:
            lines = text.read().splitlines()
    except OSError:
        return False
    for line in lines:
        key, colon, value = line.strip().lstrip("- ").partition(":")
        if colon and key.strip("\"'") == "plan":
            named = os.path.join(os.path.dirname(file), value.partition(" #")[0].strip(" \"'"))
            if os.path.realpath(named) == os.path.realpath(plan):
                return True
    return False


class _Bench:
    """Runs cases and keeps what came of them."""

    __slots__ = ("_known", "_pattern", "_plans", "coverage", "invalid", "results", "sources")

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._plans: dict[str, Plan] = {}
        self._known: dict[str, Known] = {}
        self.results: list[CaseResult] = []
        self.coverage: dict[str, Coverage] = {}
        self.invalid: list[tuple[Source, tuple[Diagnostic, ...]]] = []
        self.sources: dict[str, Source] = {}

    def file(self, path: str) -> set[str]:
        """Run the cases of a test file; gives the real paths of the plans that it speaks of."""
        suite = self._read(path)
        if suite is None:
            return set()
        self.sources[path] = suite.source
        for case in suite.cases:
            place = suite.source.place(case.span.start)
            if self._chosen(f"{path}::{case.name}"):
                self._run(case, path, f"{path}:{place.line}")
        return {os.path.realpath(case.plan) for case in suite.cases}

    def plan(self, path: str) -> None:
        """Run the implied cases of a plan."""
        try:
            plan = self._plan(path)
        except PlanInvalid as error:
            self.invalid.append((error.source, error.findings))
            return
        first = all_goes_well(plan, path)
        started: set[str] = set()
        if self._chosen(f"{path}::{first.name}"):
            started = self._run(first, path, path)
        for case in implied(plan, path, started or set(paths(plan))):
            if self._chosen(f"{path}::{case.name}"):
                self._run(case, path, path)

    def _chosen(self, name: str) -> bool:
        return is_chosen(self._pattern, name)

    def _read(self, path: str) -> Suite | None:
        file = read_regular(path)
        if file.findings:
            self.invalid.append((file.source, file.findings))
            return None
        try:
            suite = read_tests(file.source, self._plan)
        except PlanInvalid as error:
            self.invalid.append((error.source, error.findings))
            return None
        if has_errors(suite.findings):
            self.invalid.append((suite.source, suite.findings))
            return None
        return suite

    def _plan(self, path: str) -> Plan:
        if path not in self._plans:
            self._plans[path] = plan = runnable(path)
            self._known[path] = known_capabilities(plan)
            self.coverage[path] = Coverage(plan)
        return self._plans[path]

    def _run(self, case: Case, file: str, place: str) -> set[str]:
        """Run a case; gives the written paths of the tasks that it reached."""
        coverage = self.coverage[case.plan]
        stage = stage_of(self._plan(case.plan), case, self._known[case.plan])
        result = CaseResult(case, file, place)
        grown = 0
        reached: set[str] = set()
        try:
            for lived in runs(stage, case):
                grown += coverage.note(lived)
                reached |= reached_tasks(lived, coverage.tasks)
                result = result._replace(
                    runs=result.runs + 1,
                    misses=tuple(misses(lived, case.expect)),
                    status=lived.state.status,
                    duration=lived.duration,
                )
                if result.misses:
                    break
        except Broken as error:
            result = result._replace(broken=str(error))
        if grown or not case.guess or not result.passed:  # a guess is there for what it reaches alone
            self.results.append(result)
        return reached


def is_chosen(pattern: str, name: str) -> bool:
    """Whether the ``file::name`` of a case holds a pattern; an empty one chooses all."""
    return not pattern or pattern in name or name_fits(f"*{pattern}*", name)


def runnable(path: str) -> Plan:
    """The plan of a file, ready to run. Raises NotFound, PlanInvalid."""
    file = read_regular(path)
    if file.findings:
        raise PlanInvalid(f"`{path}` cannot run", file.source, file.findings)
    loaded = load(file.source, registry())
    if loaded.plan is None:
        raise PlanInvalid(f"`{path}` cannot run", file.source, loaded.findings)
    return loaded.plan


def stage_of(plan: Plan, case: Case, known: Known) -> Stage:
    """The stage on which a case is played. Raises UsageError for parameters that do not fit."""
    bound = bind_params(plan, case.params)
    if bound.problems:
        raise UsageError("; ".join(bound.problems))
    world = case.world._replace(fields=known.fields, read=outputs_read(plan))
    return Stage(
        staged(plan, world),
        script(world),
        known.traits,
        bound.values,
        case.seed,
        case.env,
        lambda state, number: (
            decided(state, number, _said(world, state, number)) or (extended(state, number) if case.generated else ())
        ),
        case.settle,
        lambda state, number: lapses(state, number, _said(world, state, number)),
    )


def _said(world: World, state: State, number: int) -> Json:
    return decision(world, state.specs[number].id, state.tasks[number].visit)


def runs(stage: Stage, case: Case) -> Iterable[Lived]:
    """The runs of a case: one, or with a crash at every write one for each."""
    if case.crash is None:
        yield live(stage, None, case.mishaps)
    elif case.crash.write:
        yield live(stage, {case.crash.write: case.crash.stored}, case.mishaps)
    else:
        calm = live(stage, None, case.mishaps)
        for write in range(1, calm.writes + 1):
            yield live(stage, {write: case.crash.stored}, case.mishaps)


def tested_object(tested: Tested) -> dict[str, Json]:
    """Everything as data: what ``test --json`` prints and the report for people is made of."""
    cases = [_case_object(result, tested.sources) for result in tested.results]
    return {
        "format": FORMAT,
        "passed": sum(case["passed"] for case in cases),
        "failed": sum(not case["passed"] for case in cases),
        "cases": cases,
        "coverage": {path: coverage_object(found) for path, found in sorted(tested.coverage.items())},
        "share": round(total_share(tested), 4),
    }


def total_share(tested: Tested) -> float:
    """The part of all points of all plans that was reached."""
    every = sum(len(found.points) for found in tested.coverage.values())
    return sum(len(found.reached) for found in tested.coverage.values()) / every if every else 1.0


def _case_object(result: CaseResult, sources: dict[str, Source]) -> dict[str, Json]:
    return {
        "file": result.file,
        "name": result.case.name,
        "plan": result.case.plan,
        "place": result.place,
        "generated": result.case.generated,
        "passed": result.passed,
        "status": result.status,
        "duration": round(result.duration, 3),
        "runs": result.runs,
        "broken": result.broken,
        "misses": [_miss_object(miss, result, sources.get(result.file)) for miss in result.misses],
    }


def _miss_object(miss: Miss, result: CaseResult, source: Source | None) -> dict[str, Json]:
    place = f"{result.file}:{':'.join(map(str, source.place(miss.span.start)))}" if source else result.place
    return {
        "about": miss.about,
        "expected": miss.expected,
        "got": miss.got,
        "place": place,
        "line": source.line(source.place(miss.span.start).line).strip() if source else "",
        "why": list(miss.why),
    }
