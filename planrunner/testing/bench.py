"""Calls one capability with the engine's own parts: threads, processes, timeouts, logs, artifacts, settings."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace, TracebackType
from typing import Any

from planrunner.capabilities.binding import Binding, bind
from planrunner.capabilities.contract import Call, Context
from planrunner.capabilities.declare import Declaration, declaration_of
from planrunner.engine.attempts import Attempt, keeper
from planrunner.engine.effects import StartCall
from planrunner.engine.live import LiveEffects, LiveSettings
from planrunner.engine.tails import Record
from planrunner.journal.workspace import prepare_state
from planrunner.machine.events import AttemptEnded, Outcome
from planrunner.plan.model import Capability, Task
from planrunner.plugins import Registry
from planrunner.record import NamedTuple

Function = Callable[..., Any]

RUN = "20260101T000000-conformance"


class Asked(NamedTuple):
    """What a call is given beside its inputs; see ``Call``. ``run`` is the script or the arguments of the task."""

    inputs: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
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
            _write_settings(self.directory, settings)
        self.state = os.path.join(tempfile.mkdtemp(prefix="planrunner-bench-"), "state")
        prepare_state(self.state)

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
        return self.registry[self.name]

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
        """The context as a function in a thread gets it: for preview, capture, undo and probe."""
        call = self._call(asked)
        context = Attempt(call, Record("")).context
        return _served(context, self._settings(), call)

    def ask(self, function: Function, asked: Asked, *arguments: Any) -> Any:
        """Call ``preview``, ``capture`` or ``probe`` with the inputs, or ``undo`` with ``arguments`` instead."""
        binding = bind(self.name, function)
        context = self.context(asked)
        if arguments:
            return function(context, *arguments) if binding.wants_context else function(*arguments)
        return _with_inputs(binding, dict(asked.inputs), context)

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
        return LiveSettings(self.state, RUN, self.registry.resolve, keeper(self.state), own_process=False)

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


def _write_settings(directory: str, settings: Mapping[str, Any]) -> None:
    """JSON is YAML as well."""
    import json

    with open(os.path.join(directory, "planrunner.yaml"), "w", encoding="utf-8") as file:
        json.dump(dict(settings), file, indent=2)
        file.write("\n")


def _outcome(events: Sequence[object]) -> Outcome | None:
    return next((event.outcome for event in events if isinstance(event, AttemptEnded)), None)


def _served(context: Context, settings: LiveSettings, call: Call) -> Context:
    return context


def _with_inputs(binding: Binding, inputs: dict[str, Any], context: Context) -> Any:
    named = {binding.renamed.get(name, name): value for name, value in inputs.items()}
    return binding.function(context, **named) if binding.wants_context else binding.function(**named)
