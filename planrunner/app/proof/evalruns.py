"""The runs of an evaluation: in scratch copies of the project, several at once, within its budgets; each is scored."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from functools import partial
from typing import Any

from planrunner.app.history.replay import SUFFIX, History, history, written
from planrunner.app.proof.evalfile import Case, Suite
from planrunner.app.proof.names import walk
from planrunner.app.proof.scores import SPENT, NotJudged, Run, judged, misses, run_of
from planrunner.app.proof.scratch import (
    Adjustment,
    Amounts,
    Runner,
    adjust,
    check_size,
    checked_out,
    commit_of,
    scratch_copy,
    with_share,
    written_amount,
)
from planrunner.app.proof.verdict import Miss
from planrunner.errors import NotFound
from planrunner.frozen import Frozen
from planrunner.journal.chain import forget_place
from planrunner.journal.workspace import find_project
from planrunner.plan.model import Budgets, Plan
from planrunner.records import Struct

Json = Any

NOTHING: Amounts = Frozen(dict.fromkeys(SPENT, 0.0))


class Score(Struct):
    """One run of a case. ``broken`` says why there is no run, or no verdict on it; ``short`` is a run that the budgets
    of the evaluation did not let begin or end. ``used`` is what the run used and ``judging`` what the judge did,
    without what is not known."""

    run: str = ""
    status: str = ""
    duration: float = 0.0
    used: Amounts = NOTHING
    judging: Amounts = NOTHING
    misses: tuple[Miss, ...] = ()
    verdicts: tuple[dict[str, Json], ...] = ()
    broken: str = ""
    short: bool = False
    asked: frozenset[str] = frozenset()

    @property
    def passed(self) -> bool:
        return not (self.misses or self.broken or self.short)


class Scored(Struct):
    """A case with one model (empty: that of the project), and its runs."""

    case: Case
    model: str
    scores: tuple[Score, ...]


class Version(Struct):
    """What is evaluated in place of the plans as they are: the plan file ``plan``, the git revision ``revision``, or
    the recorded ``run``."""

    plan: str = ""
    revision: str = ""
    run: History | None = None


class Desk(Struct):
    """What evaluations share: their scratch folder, the state directory that recorded runs are looked up in, who is
    told of progress, and the folder (empty: none) that runs are kept in."""

    folder: str
    state: str | None
    progress: Callable[[int, int], None]
    keep: str = ""


def version(word: str, desk: Desk, suites: Sequence[Suite]) -> Version:
    """What ``--against`` names: a plan file, a recorded run or a git revision. Raises NotFound."""
    if os.path.isfile(word) and not word.endswith(SUFFIX):
        return Version(plan=word)
    try:
        return Version(run=history(word, desk.state))
    except NotFound:
        plan = next((case.plan for suite in suites for case in suite.cases if case.plan), None)
        commit_of(find_project(plan), word)
        return Version(revision=word)


def evaluate(suite: Suite, desk: Desk, other: Version | None = None) -> list[Scored]:
    """The results of a suite, in its order. Raises NotFound, UsageError where a run, a revision or a project cannot be
    had; whatever the runs do ends in the results."""
    return _Evaluation(suite, desk, other or Version()).results()


class Fund:
    """What the runs of an evaluation may use together: each sets its share aside before it begins."""

    def __init__(self, limits: Budgets, slots: int) -> None:
        given = {what: getattr(limits, what) for what in SPENT}
        self._limits: dict[str, float] = {what: limit for what, limit in given.items() if limit is not None}
        self._taken = dict.fromkeys(self._limits, 0.0)
        self._slots, self._busy = slots, 0
        self._changed = threading.Condition()

    def reserve(self, least: Amounts) -> Amounts | None:
        """The share of a run, at least what its plan sets aside, for which it waits while others may give some back;
        None where nothing is left."""
        with self._changed:
            while True:
                left = {what: limit - self._taken[what] for what, limit in self._limits.items()}
                share = {what: max(free / max(self._slots - self._busy, 1), least[what]) for what, free in left.items()}
                if any(share[what] > free + 1e-9 for what, free in left.items()) and not self._busy:
                    share = left
                if all(1e-9 < amount <= left[what] + 1e-9 for what, amount in share.items()):
                    self._busy += 1
                    self._add(share)
                    return share
                if not self._busy:
                    return None
                self._changed.wait()

    def settle(self, share: Amounts, used: Amounts) -> None:
        """A run is over: give back what it did not use. What is not known to be unused stays taken."""
        with self._changed:
            self._busy -= 1
            self._add({what: used.get(what, amount) - amount for what, amount in share.items()})
            self._changed.notify_all()

    def _add(self, amounts: Amounts) -> None:
        for what, amount in amounts.items():
            self._taken[what] += amount


class _Evaluation:
    """One suite at work."""

    def __init__(self, suite: Suite, desk: Desk, other: Version) -> None:
        self._suite, self._desk, self._other = suite, desk, other
        self._fund = Fund(suite.budgets, suite.parallel)
        self._runner = Runner()
        self._places: dict[str, str] = {}
        self._folder = tempfile.mkdtemp(dir=desk.folder)

    def results(self) -> list[Scored]:
        """All runs, at most ``parallel`` at once."""
        suite = self._suite
        rows = [(case, model) for case in self._cases() for model in (() if case.run else suite.models) or ("",)]
        jobs = [(row, number) for row, (case, _) in enumerate(rows) for number in range(self._repeat(case))]
        scores: dict[int, dict[int, Score]] = {row: {} for row in range(len(rows))}
        for case, _ in rows:
            self._place(case)  # what cannot be had is told before anything runs
        with ThreadPoolExecutor(suite.parallel, "planrunner-eval") as pool:
            waiting = {}
            try:
                for row, number in jobs:
                    score = partial(self._score, *rows[row], number)
                    waiting[pool.submit(copy_context().run, score)] = row, number
                for done, future in enumerate(as_completed(waiting), 1):
                    row, number = waiting[future]
                    scores[row][number] = future.result()
                    self._desk.progress(done, len(jobs))
            except BaseException:
                self._runner.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [Scored(*rows[row], tuple(found[number] for number in sorted(found))) for row, found in scores.items()]

    def _cases(self) -> Iterator[Case]:
        """The cases that can be evaluated here: of a recorded run those whose parameters it had, of another version
        those that are run."""
        recorded = self._other.run
        given = {} if recorded is None else run_of(recorded).state.params
        for case in self._suite.cases:
            has_them = recorded is None or all(given.get(name) == value for name, value in case.params.items())
            if self._other == Version() or (has_them and not case.run):
                yield case

    def _repeat(self, case: Case) -> int:
        return 1 if self._other.run is not None else case.repeat

    def _place(self, case: Case) -> tuple[str, str]:
        """The project that a case is run in, and the path of its plan there. Raises UsageError, NotFound."""
        if case.run or self._other.run is not None:
            return "", ""
        plan = os.path.realpath(self._other.plan or case.plan)
        home = os.path.realpath(find_project(plan))
        if home not in self._places:
            base = home
            if self._other.revision:
                base = checked_out(home, self._other.revision, os.path.join(self._folder, f"base-{len(self._places)}"))
            check_size(base)
            self._places[home] = base
        inside = os.path.relpath(plan, home)
        if not os.path.isfile(os.path.join(self._places[home], inside)):
            raise NotFound(f"`{self._other.revision}` has no plan `{inside}`")
        return self._places[home], inside

    def _score(self, case: Case, model: str, number: int) -> Score:
        recorded = self._other.run or (self._recorded(case) if case.run else None)
        share = self._fund.reserve(self._least(case) if recorded is None else NOTHING)
        if share is None:
            return Score(short=True)
        spending = _Spending(share)
        try:
            if recorded is not None:
                return self._judged(case, run_of(recorded), spending)
            return self._live(case, model, number, spending)
        finally:
            self._fund.settle(share, spending.used)

    def _recorded(self, case: Case) -> History:
        beside = os.path.join(os.path.dirname(self._suite.source.name), case.run)
        return history(beside if os.path.isfile(beside) else case.run, self._desk.state)

    def _least(self, case: Case) -> Amounts:
        """What a run of a case sets aside at once: the largest budget of one of its tasks."""
        plan = self._suite.plans[case.plan]
        every = [task.budgets for _, task in walk(plan.tasks)]
        own = {what: [limit for each in every if (limit := getattr(each, what)) is not None] for what in SPENT}
        return {what: float(max(limits, default=0)) for what, limits in own.items()}

    def _live(self, case: Case, model: str, number: int, spending: _Spending) -> Score:
        base, plan = self._place(case)
        with scratch_copy(base, os.path.join(self._folder, f"{case.id}-{model or 'default'}-{number}")) as copy:
            adjust(copy, Adjustment(model, self._suite.replaces, spending.share))
            if spending.share:
                plan = os.path.relpath(with_share(os.path.join(copy, plan), spending.share), copy)
            ran = self._runner.run(copy, os.path.join(copy, ".planrunner"), plan, dict(case.params))
        if ran.run is None:
            spending.running = NOTHING if ran.code > 0 else {}
            return Score(broken=f"there is no run (exit code {ran.code}): {ran.said}", used=spending.running)
        if self._desk.keep:
            self._kept(ran.run, f"{self._suite.name}-{case.id}-{model or 'default'}-{number + 1}.jsonl")
        run = run_of(ran.run)
        spending.running = run.used
        if _is_short(run, self._suite.plans[case.plan], spending.share):
            return Score(run.id, run.state.status, run.duration, run.used, short=True)
        return self._judged(case, run, spending)

    def _kept(self, run: History, name: str) -> None:
        with open(os.path.join(self._desk.keep, name), "w", encoding="utf-8") as file:
            file.write(written(run))

    def _judged(self, case: Case, run: Run, spending: _Spending) -> Score:
        score = Score(run.id, run.state.status, run.duration, run.used, asked=run.asked)
        score = score._replace(misses=tuple(misses(run, case.checks)))
        try:
            verdicts, unmet = judged(run, case.checks, lambda criteria, text: self._ask(criteria, text, spending))
        except _Short:
            return score._replace(judging=spending.judging, short=True)
        except NotJudged as error:
            return score._replace(judging=spending.judging, broken=f"not judged: {error}")
        return score._replace(judging=spending.judging, misses=(*score.misses, *unmet), verdicts=tuple(verdicts))

    def _ask(self, criteria: Sequence[str], material: str, spending: _Spending) -> list[dict[str, Json]]:
        """The verdicts of the judge of the project as it is now, whatever version was run."""
        left = {what: amount - spending.used.get(what, amount) for what, amount in spending.share.items()}
        if any(amount <= 1e-9 for amount in left.values()):
            raise _Short
        limits = {what: written_amount(what, amount) for what, amount in left.items()}
        text = json.dumps({**_JUDGE, "tasks": [{**_JUDGE["tasks"][0], **({"budgets": limits} if limits else {})}]})
        state = tempfile.mkdtemp(dir=self._folder)
        try:
            params = {"criteria": list(criteria), "material": material}
            project = find_project(self._suite.source.name)
            ran = self._runner.run(project, state, "-", params, text)
        finally:
            forget_place(state)
        if ran.run is None:
            spending.judging = NOTHING if ran.code > 0 else {}
            raise NotJudged(ran.said)
        run = run_of(ran.run)
        spending.judging = run.used
        if run.state.status != "completed":
            task = run.state.tasks[0]
            if limits and task.failure == "budget":
                raise _Short
            raise NotJudged(task.detail or run.state.detail)
        verdicts: list[dict[str, Json]] = run.state.tasks[0].outputs["verdicts"]
        return verdicts


class _Short(NotJudged):
    """The budgets of the evaluation are used up."""


_JUDGE: dict[str, Json] = {
    "plan": "judgement",
    "params": {"criteria": {"type": "list", "required": True}, "material": {"type": "string", "required": True}},
    "tasks": [
        {
            "id": "judge",
            "uses": "llm.judge",
            "timeout": "10m",
            "with": {"criteria": "{{ params.criteria }}", "material": "{{ params.material }}", "fail": False},
        }
    ],
}


class _Spending:
    """The share of one run and of the judgement on it, and what they used of it; what is not known is not in it."""

    def __init__(self, share: Amounts) -> None:
        self.share = share
        self.running: Amounts = NOTHING
        self.judging: Amounts = NOTHING

    @property
    def used(self) -> dict[str, float]:
        """What both used."""
        known = self.running.keys() & self.judging.keys()
        return {what: self.running[what] + self.judging[what] for what in known}


def _is_short(run: Run, plan: Plan, share: Amounts) -> bool:
    """Whether a run ended for lack of a budget that is not its plan's own."""
    own = {what: getattr(plan.budgets, what) for what in share}
    if all(own[what] is not None and own[what] <= amount for what, amount in share.items()):
        return False
    return run.state.reason == "budget" or any(task.failure == "budget" for task in run.state.tasks)
