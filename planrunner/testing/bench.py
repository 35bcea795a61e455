"""Calls one capability with the engine's own parts: threads, processes, timeouts, logs, artifacts, settings."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.app.runs.execute import ExecRequest, RunResult, Silent, execute
from planrunner.capabilities.binding import Binding, bind, invoke
from planrunner.capabilities.contract import BESIDE, Call, Context, Declaration, Planning, declaration_of
from planrunner.capabilities.faults import Overdue, within
from planrunner.engine.attempts import Attempt, markers
from planrunner.engine.effects import StartCall
from planrunner.engine.executors import LiveSettings
from planrunner.engine.live import LiveEffects
from planrunner.engine.output import Record
from planrunner.engine.planning import Planner
from planrunner.engine.services import AttemptServices
from planrunner.frozen import EMPTY
from planrunner.journal.stores import open_journal
from planrunner.machine.events import AttemptEnded, Outcome
from planrunner.machine.state import State
from planrunner.plan.model import Capability, Plan, Task
from planrunner.plugins.registry import Registry

if TYPE_CHECKING:
    from planrunner.app.runs.execute import RunResult

Function = Callable[..., Any]

LOOK = 30.0
"""Seconds for a call that ends by itself, and for a function beside a capability."""
SOON = 2.0
"""Seconds that a call may take to end once it is asked to."""
RUN = f"20260101T000000-conformance-{os.getpid()}"


class Asked(NamedTuple):
    """What a call is given beside its inputs; see ``Call``. ``run`` is the script or the arguments of the task."""

    inputs: Mapping[str, Any] = EMPTY
    env: Mapping[str, str] = EMPTY
    run: str | Sequence[str] = ""
    timeout: float | None = None
    key: str = f"{RUN}:task:1"
    attempt: int = 1


class Ended(NamedTuple):
    """How a call came out: the outcome, what it wrote to its log, and the seconds from ``stop`` to the end."""

    outcome: Outcome
    log: str
    seconds: float


class Bench:
    """A place to call a capability in: ``directory`` is its working directory, the state lies in a folder of its own
    that is gone with the bench.

    ``capability`` is the name of an installed one, or a function marked with ``@capability``, which needs not be
    installed. Raises KeyError for a name that nothing has.
    """

    def __init__(self, capability: str | Function, directory: str, settings: Mapping[str, Any] | None = None) -> None:
        self.directory = os.path.realpath(directory)
        self.registry, self.name = _known(capability, self.directory)
        if settings:
            write_settings(self.directory, settings)
        self.state = os.path.join(tempfile.mkdtemp(prefix="planrunner-bench-"), "state")
        open_journal(self.state).close()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        shutil.rmtree(os.path.dirname(self.state), ignore_errors=True)

    @property
    def function(self) -> Function:
        return self.registry.resolve(self.name)

    @property
    def declaration(self) -> Declaration:
        return declaration_of(self.function) or Declaration(self.name)

    @property
    def description(self) -> Capability:
        found = self.registry.find(self.name)
        if found is None:
            raise LookupError("; ".join(self.registry.problems()) or f"nothing describes `{self.name}`")
        return found

    def call(self, asked: Asked, stop_after: float | None = None) -> Ended:
        """Call it and wait for the end; with ``stop_after`` it is asked to stop after so many seconds."""
        call, effects = self._call(asked), self._effects()
        stopped = began = time.monotonic()
        try:
            effects.start([StartCall(call)])
            if stop_after is not None:
                ended = _outcome(effects.wait(effects.now() + stop_after))
                if ended is not None:
                    return Ended(ended, self._log(call), 0.0)
                stopped = time.monotonic()
                effects.stop()
            while (ended := _outcome(effects.wait(None))) is None:
                pass
            return Ended(ended, self._log(call), time.monotonic() - (began if stop_after is None else stopped))
        finally:
            effects.close()

    def context(self, asked: Asked) -> Context:
        """The context as a function in a thread gets it."""
        return Attempt(self._call(asked), Record(""), self._serve).context

    def ask(self, function: Function, asked: Asked, given: Mapping[str, Any] | None = None) -> Outcome:
        """Call ``preview``, ``capture`` or ``probe`` with the inputs of the call, or ``undo`` with what is ``given``,
        as the engine does; what it returns is in the outputs. Raises AssertionError where it takes longer than
        ``LOOK``: it is named, asked to stop and left to itself."""
        asked = asked if given is None else asked._replace(inputs=given)
        inputs_of = self.function if given is None else None
        bound = bind(self.name, function, inputs_of)
        try:
            found = within(LOOK, self._named(function), lambda stopped: self._told(bound, asked, stopped))
        except Overdue as late:
            raise AssertionError(str(late)) from None
        if not isinstance(found, Outcome):
            raise TypeError(f"{function!r} returned {found!r}")
        return found

    def _told(self, bound: Binding, asked: Asked, stopped: Callable[[], bool]) -> Any:
        return invoke(bound, dict(asked.inputs), self.context(asked)._replace(cancelled=stopped))

    def _named(self, function: Function) -> str:
        """What the function is to the capability."""
        part = next((part for part in BESIDE if getattr(self.declaration, part) is function), "function")
        return f"`{part}` of `{self.name}`"

    def _serve(self, call: Call) -> AttemptServices:
        served = AttemptServices(self.state, self.directory, None, {**call.env, **markers(call, 0)})
        served.planner = self._planner
        return served

    def _planner(self) -> Planning:
        """For what writes plans: no plan is running here."""
        return Planner(self.registry, self.directory, "", "", State(Plan("none"), RUN))

    def _call(self, asked: Asked) -> Call:
        script = asked.run if isinstance(asked.run, str) else ""
        arguments = tuple(asked.run) if not isinstance(asked.run, str) else ()
        return Call(
            run_id=RUN,
            task=Task("task", uses=self.name),
            attempt=asked.attempt,
            key=asked.key,
            inputs=dict(asked.inputs),
            script=script,
            arguments=arguments,
            values={},
            env=dict(asked.env),
            directory=self.directory,
            scratch=os.path.join(self.state, "tmp", RUN, f"task.{asked.attempt}"),
            timeout=asked.timeout,
            once=f"{RUN}:task",
        )

    def _settings(self) -> LiveSettings:
        resolve, directory = self.registry.resolve, self.directory
        planner = self._planner
        return LiveSettings(
            self.state, RUN, resolve, own_process=False, directory=directory, grace=SOON, planner=planner
        )

    def _effects(self) -> LiveEffects:
        return LiveEffects(self._settings())

    def _log(self, call: Call) -> str:
        folder = os.path.join(self.state, "logs", RUN)
        texts = []
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
        return "".join(texts)


def _known(capability: str | Function, directory: str) -> tuple[Registry, str]:
    registry = Registry(project=directory)
    if isinstance(capability, str):
        registry.resolve(capability)
        return registry, capability
    declaration = declaration_of(capability)
    if declaration is None:
        raise KeyError(f"{capability!r} is not marked with @capability")
    alone = Registry(plugins=False)
    alone.add(SimpleNamespace(function=capability), "plugin", declaration.name.partition(".")[0])
    if problems := alone.problems():
        raise KeyError(problems[0])
    return alone, declaration.name


def write_settings(directory: str, settings: Mapping[str, Any]) -> None:
    """Write the project's file ``planrunner.yaml``; JSON is YAML as well."""
    with open(os.path.join(directory, "planrunner.yaml"), "w", encoding="utf-8") as file:
        json.dump(dict(settings), file, indent=2)
        file.write("\n")


def _outcome(events: Sequence[object]) -> Outcome | None:
    return next((event.outcome for event in events if isinstance(event, AttemptEnded)), None)


def run_plan(
    plan: str | Mapping[str, Any] | os.PathLike[str],
    directory: str,
    functions: Sequence[Callable[..., Any]] = (),
    params: Mapping[str, Any] | None = None,
) -> RunResult:
    """The result of a run with its state in ``directory/.planrunner``. ``plan`` is a path, or a plan as text or data,
    which is written to ``plan.yaml`` there. Raises PlanInvalid with the findings of a plan that cannot run."""
    path = os.path.join(directory, "plan.yaml")
    if isinstance(plan, os.PathLike):
        path = os.fspath(plan)
    else:
        text = plan if isinstance(plan, str) else json.dumps(dict(plan))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    registry = Registry(project=directory)
    for function in functions:
        declaration = declaration_of(function)
        if declaration is None:
            raise TypeError(f"{function!r} is not marked with @capability")
        registry.add(SimpleNamespace(function=function), declaration.name, declaration.name.partition(".")[0])
    given = tuple((params or {}).items())
    state = os.path.join(directory, ".planrunner")
    return execute(ExecRequest(path, given, state=state, unattended=True, vouched=True), Silent(), registry)
