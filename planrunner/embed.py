"""planrunner from Python: load, check and run plans, and look at runs.

The names of this module stay as they are within a minor version. Nothing is printed, and every error of the command
line is an exception of ``planrunner.errors`` with the same exit code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from planrunner.app.history.show import look as look_at
from planrunner.app.plans.lint import Choice, lint_paths, registry
from planrunner.app.plans.path import plan_named, read_regular
from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.app.runs.proposals import continued
from planrunner.diagnostics import Diagnostic, Severity, has_errors
from planrunner.errors import PlanInvalid
from planrunner.journal.workspace import find_project
from planrunner.machine.events import Entry
from planrunner.plan.load import load as load_source
from planrunner.records import Struct
from planrunner.source import Source
from planrunner.views.run import run_object

Json = Any
Path = str | os.PathLike[str]

__all__ = ["Finding", "LoadedPlan", "Run", "Task", "lint", "load", "look", "run"]


class Finding(Struct):
    """One finding of lint. ``line`` and ``column`` count from 1; ``help`` says what to do and may be empty."""

    code: str
    severity: Severity
    message: str
    path: str
    line: int
    column: int
    help: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.severity}[{self.code}] {self.message}"


class LoadedPlan(Struct):
    """A plan without errors. ``tasks`` are the ids of its tasks in the order of the file, ``params`` the defaults of
    its parameters (None for a required one), ``findings`` its warnings and notes."""

    name: str
    title: str
    path: str
    tasks: tuple[str, ...]
    params: Mapping[str, Json]
    findings: tuple[Finding, ...]


class Task(Struct):
    """A task of a run. ``failure`` is the class of the failure, empty where there is none; ``detail`` a sentence for
    people; ``seconds`` is None for a task that has not ended."""

    name: str
    status: str
    attempts: int
    outputs: Mapping[str, Json]
    failure: str
    detail: str
    seconds: float | None


class Run(Struct):
    """How a run stands. ``exit_code`` is that of the command line, None while another process runs it. ``data`` is the
    object that ``planrunner show --json`` prints, described by ``planrunner schema run``."""

    id: str
    plan: str
    status: str
    exit_code: int | None
    tasks: Mapping[str, Task]
    outputs: Mapping[str, Json]
    data: Mapping[str, Json]

    @property
    def ok(self) -> bool:
        """Whether the run completed."""
        return self.status == "completed"


def load(path: Path) -> LoadedPlan:
    """Read a plan and check it. ``path`` is a file, or the name of a plan as ``planrunner exec`` takes it.

    Raises NotFound, and PlanInvalid with its ``findings`` where the plan has errors.
    """
    file = read_regular(plan_named(os.fspath(path)))
    project = find_project(file.source.name)
    loaded = load_source(file.source, registry(project, keeps=False))
    found = (*file.findings, *loaded.findings)
    if loaded.plan is None or has_errors(found):
        raise PlanInvalid(f"`{file.source.name}` has errors", file.source, found)
    params = {param.name: param.default for param in loaded.plan.params}
    tasks = tuple(task.id for task in loaded.plan.tasks)
    findings = tuple(_finding(each, file.source) for each in found)
    return LoadedPlan(loaded.plan.id, loaded.plan.title, file.source.name, tasks, params, findings)


def lint(*paths: Path) -> list[Finding]:
    """The findings about plans and the settings of their projects, as ``planrunner lint`` prints them; a folder stands
    for every plan below it. Raises NotFound, and UsageError for settings that cannot be read."""
    checked = lint_paths([os.fspath(path) for path in paths], Choice())
    return [_finding(each, one.source) for one in checked for each in one.findings]


def run(
    path: Path,
    params: Mapping[str, Json] | None = None,
    *,
    only: Sequence[str] = (),
    until: Sequence[str] = (),
    max_parallel: int | None = None,
    state: Path | None = None,
    trust: str = "",
    on_event: Callable[[Entry], object] | None = None,
) -> Run:
    """Run a plan until it ends or waits for a person (status ``blocked``); a run that failed is a result, not an error.

    ``params``, ``only``, ``until`` and ``max_parallel`` are the options of ``planrunner exec``, ``state`` the state
    directory. ``trust`` is the digest of a plan from outside the project. ``on_event`` is called with each entry of the
    journal once it is durable; it must not raise.

    Call it from the main thread: from another one, signals of the process do not reach the run. Raises NotFound,
    PlanInvalid, UsageError for unknown parameters and tasks, Denied, Unready, StorageFailed.
    """
    request = ExecRequest(
        plan_named(os.fspath(path)),
        tuple((params or {}).items()),
        tuple(only),
        tuple(until),
        max_parallel,
        None if state is None else os.fspath(state),
        unattended=True,
        trust=trust,
    )
    seen = _Watch(on_event)
    result = execute(request, seen)
    if result.state.proposal:
        result = continued(result, seen, unattended=True)
    return look(result.run_id, result.state_dir)


def look(run: str = "last", state: Path | None = None) -> Run:
    """How a run stands, from its journal. ``run`` is an id, the start of one, or ``last``. Raises NotFound."""
    seen = look_at(run, None if state is None else os.fspath(state))
    data = run_object(seen.state, seen.state.plan_digest, seen.exit_code, seen.now, seen.entries)
    keys = ("status", "attempts", "outputs", "failure", "detail", "duration")
    tasks = {name: Task(name, *(each[key] for key in keys)) for name, each in data["tasks"].items()}
    return Run(data["run_id"], data["plan"], data["status"], data["exit_code"], tasks, data["outputs"], data)


def _finding(one: Diagnostic, source: Source) -> Finding:
    line, column = source.place(one.span.start)
    return Finding(one.code, one.severity, one.message, source.name, line, column, one.help)


class _Watch(Silent):
    """A watch that passes the entries of the journal on."""

    def __init__(self, on_event: Callable[[Entry], object] | None) -> None:
        self._on_event = on_event

    def event(self, entry: Entry) -> None:
        if self._on_event is not None:
            self._on_event(entry)
