"""Where calls of capabilities are made: an executor takes a call and gives its outcome to a sink. ``LocalExecutor``
makes it inline where the function is instant, in a thread, or in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from planrunner.capabilities.binding import Binding, Result, invoke
from planrunner.capabilities.contract import Call, Exit, Pause, Planning, Spawn, basic_environment
from planrunner.engine.attempts import (
    INTERRUPTED,
    Attempt,
    Pulse,
    Sink,
    abandoned,
    exited,
    located,
    log_path,
    make_scratch,
    markers,
    paused,
    returned,
    with_texts,
    with_usage,
    work_of,
)
from planrunner.engine.lasting import RunResources
from planrunner.engine.output import Record, Secrecy
from planrunner.engine.poller import Clock, Poller, StopSwitch, Workers
from planrunner.engine.processes import GRACE, Launch, SpawnFailed, Supervisor
from planrunner.errors import StorageFailed
from planrunner.frozen import EMPTY
from planrunner.later import Later
from planrunner.machine.events import Outcome
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.engine.background import Background, is_of
    from planrunner.engine.identities import SpanIdentity
    from planrunner.engine.sandbox import RunPlaces
    from planrunner.engine.secrets import Vault
    from planrunner.engine.services import AttemptServices
    from planrunner.plan.rights import visible
    from planrunner.safety.sandbox.refusals import Tally
else:
    is_of = Later("planrunner.engine.background:is_of")
    visible = Later("planrunner.plan.rights:visible")
    Tally = Later("planrunner.safety.sandbox.refusals:Tally")


Json = Any


class Executor(Protocol):
    """Makes calls. What a call comes to, a failure as well, goes to its sink."""

    def submit(self, call: Call, sink: Sink) -> Any:
        """Make a call; gives the handle for ``cancel``. The sink is called once, from any thread, possibly before this
        returns; with the class ``unstarted`` where there is no room to begin, which stops the run."""

    def cancel(self, handle: Any, outcome: Outcome, forced: bool = False) -> None:
        """Have a call end, at once where ``forced``. ``outcome`` is what a call comes to that stops before it is done;
        one that is done keeps its own."""


class LiveSettings(Struct):
    """What live effects need to know of the run.

    ``resolve`` gives the function of a capability (KeyError: there is none); ``on_output`` is told task, attempt,
    stream and bytes as they come. Processes get ``environment`` (None: that of this process) below their own, and
    ``grace`` seconds between TERM and KILL. ``clock`` is the time line of the run (None: one that starts now),
    ``epoch`` tells this runner from earlier ones, ``directory`` is where the run works, ``outside`` are patterns of
    other places that it may work in. ``own_process`` False is for programs that do other things as well, other runs
    among them: signals are left to them, orphans to init. ``vault`` has the secrets of the run, where its project lists
    credentials. A plan from outside the project is ``untrusted``: whatever it starts is shut in, and gets little of the
    environment. ``unconfined`` says that a person has taken the sandbox away.
    """

    state_dir: str
    run_id: str
    resolve: Callable[[str], Callable[..., Any]]
    on_output: Callable[[str, int, str, bytes], None] | None = None
    environment: Mapping[str, str] | None = None
    grace: float = GRACE
    own_process: bool = True
    clock: Clock | None = None
    epoch: int = 0
    directory: str = ""
    vault: Vault | None = None
    outside: tuple[str, ...] = ()
    untrusted: bool = False
    unconfined: bool = False
    users: Mapping[str, tuple[str, ...]] = EMPTY
    """The services that tasks need, by the id of the task; empty where the plan has none."""
    trace: SpanIdentity | None = None
    """The span of the run, for the processes of its tasks; None where it is not traced."""
    switch: StopSwitch | None = None
    """Stops the run from another thread of this process."""
    executor: Executor | None = None
    """Makes the calls; None: this process and its children do."""
    planner: Callable[[], Planning] | None = None
    """For capabilities that write plans; None where the plan names none."""

    @property
    def grounds(self) -> RunPlaces:
        """What the sandbox of an attempt is made from."""
        grounds: RunPlaces = _sandbox().RunPlaces(self.state_dir, self.directory, self.untrusted, self.outside)
        return grounds


def _sandbox() -> Any:
    """The sandbox, which only what is shut in loads."""
    from planrunner.engine import sandbox

    return sandbox


def is_bound(call: Call, settings: LiveSettings) -> bool:
    """Whether a policy, or code that was made while the run went on, may say what the processes of a call are shut
    into."""
    return (call.rights != () or settings.untrusted or call.made != "") and not settings.unconfined


_MAKERS = frozenset({"python.run", "python.write_tests"})
"""Capabilities that may run code that was made while the run went on."""


def with_own_scratch(call: Call, settings: LiveSettings) -> Call:
    """The call with a folder for scratch files of its own where its processes are shut in, or may be: what Python runs
    is looked at when it is called."""
    if not is_bound(call, settings):
        if settings.unconfined or call.task.uses not in _MAKERS:
            return call
        from planrunner.capabilities.python.scan import may_be_made

        if not may_be_made(call):
            return call
    own: Call = _sandbox().with_own_scratch(call)
    return own


def begin(attempt: Attempt, launch: Launch, settings: LiveSettings, supervisor: Supervisor, poller: Poller) -> None:
    """Start the process of an attempt, shut in where the policy says so. Raises SpawnFailed."""
    if attempt.call.rights:
        launch = launch._replace(inherited=visible(attempt.call.rights, supervisor.programs.environment))
    if not is_bound(attempt.call, settings) and (settings.unconfined or not launch.spawn.made):
        attempt.process = supervisor.start(launch)
        return
    attempt.process, attempt.shut = _sandbox().start(attempt.call, launch, settings.grounds, supervisor, poller)


def services(
    settings: LiveSettings, secrecy: Secrecy, call: Call, lasts: RunResources | None = None
) -> AttemptServices:
    """What the engine does for the capability of a call; ``lasts`` is what stays open until the run ends."""
    from planrunner.engine.services import AttemptServices

    own = {**call.env, **markers(call, settings.epoch, settings.trace)}
    given = settings.environment
    if call.rights:
        given = visible(call.rights, os.environ if given is None else given)
    attempt_services = AttemptServices(settings.state_dir, settings.directory, given, own, settings.vault)
    attempt_services.secrecy = secrecy
    attempt_services.planner = settings.planner
    attempt_services.open = lasts
    if is_bound(call, settings) or (call.task.uses in _MAKERS and not settings.unconfined):
        attempt_services.refused = Tally()
        sandbox = _sandbox()
        attempt_services.enclose = partial(
            sandbox.enclosed, sandbox.Around(call, settings.grounds, attempt_services.refused)
        )
    return attempt_services


def new_record(settings: LiveSettings, secrecy: Secrecy, call: Call) -> Record:
    """Where an attempt's output goes."""
    watcher = partial(settings.on_output, call.task.id, call.attempt) if settings.on_output else None
    return Record(log_path(settings.state_dir, call), watcher, secrecy)


def variables(settings: LiveSettings) -> Mapping[str, str]:
    """What processes get below their own variables: little where the plan is from outside the project."""
    whole = os.environ if settings.environment is None else settings.environment
    return basic_environment(whole) if settings.untrusted else whole


class Resources:
    """What everything that is under way in one run shares: poller, threads and child processes."""

    def __init__(self, settings: LiveSettings) -> None:
        self.poller = Poller()
        self.supervisor = Supervisor(self.poller, variables(settings), settings.grace, adopts=settings.own_process)
        self.workers = Workers(self.poller.wake)
        self.poller.on_wake = lambda _: self.workers.collect()
        self.open = RunResources()
        self.supervisor.beside = self.open.pids

    def threads(self) -> Workers:
        """The threads, of which one is about to be used."""
        self.supervisor.foreign_children = True
        return self.workers

    def thread_ended(self) -> None:
        """A thread has done its work."""
        self.supervisor.foreign_children = self.workers.busy > 0


class LocalExecutor:
    """Makes calls in this process, in its threads and in processes of their own. Belongs to the thread of the loop.
    ``background`` are the services of the run."""

    def __init__(self, settings: LiveSettings, resources: Resources, secrecy: Secrecy) -> None:
        self._settings = settings
        self._resources = resources
        self._secrecy = secrecy
        self._serve = partial(services, settings, secrecy, lasts=resources.open)
        self._bindings: dict[str, Binding] = {}
        self._attempts: dict[str, Attempt] = {}
        self.background: Background | None = None

    def submit(self, call: Call, sink: Sink) -> str:
        uses = call.task.uses
        binding = self._bindings.get(uses)
        if binding is None:
            capability = located(self._settings.resolve, uses)
            if isinstance(capability, Outcome):
                sink(capability._replace(acted=False))
                return call.key
            binding = self._bindings[uses] = capability
        declaration = binding.declaration
        if declaration.instant and not binding.wants_context:
            result = invoke(binding, call.inputs, None)
            if isinstance(result, Outcome) and not result.usage:
                sink(result)
            else:
                self._go_on(self._attempt(call, sink), result)
        elif (declaration.instant or declaration.process) and not call.task.secrets:
            attempt = self._attempt(call, sink)
            self._go_on(attempt, invoke(binding, call.inputs, attempt.context))
        else:
            self._start_thread(binding, self._attempt(call, sink))
        return call.key

    def cancel(self, handle: str, outcome: Outcome, forced: bool = False) -> None:
        attempt = self._attempts.get(handle)
        if attempt is None:
            return
        if outcome is not INTERRUPTED:
            attempt.ending = (outcome.failure, outcome.message)
        self._stop(attempt, forced)

    def is_open(self, attempt: Attempt) -> bool:
        """Whether an attempt has not ended."""
        return attempt.call.key in self._attempts

    def serve(self, attempt: Attempt) -> None:
        """The attempt of a service is over, and its process goes on."""
        del self._attempts[attempt.call.key]
        if attempt.pulse is not None:
            attempt.pulse.end()
        attempt.sink(with_usage(attempt, with_texts(attempt, Outcome())))

    def fail(self, task: str, message: str) -> None:
        """End what runs for a task at the top of the plan."""
        for attempt in list(self._attempts.values()):
            if is_of(attempt.call, task):
                attempt.ending = ("logic", message)
                self._stop(attempt, forced=False)

    def _attempt(self, call: Call, sink: Sink) -> Attempt:
        attempt = Attempt(
            with_own_scratch(call, self._settings), new_record(self._settings, self._secrecy, call), self._serve
        )
        attempt.sink = sink
        self._attempts[call.key] = attempt
        if self._secrecy.redactor is not None:
            attempt.hide_outputs()
        if call.task.heartbeat is not None:
            stop = partial(self._stop, attempt, False)
            attempt.pulse = Pulse(attempt, call.task.heartbeat, self._resources.poller, stop)
        return attempt

    def _go_on(self, attempt: Attempt, result: Result) -> None:
        """From what the function returned to what the attempt waits for now, or to its end."""
        if isinstance(result, StorageFailed):
            raise result
        if isinstance(result, Spawn):
            self._start_process(attempt, result)
        elif isinstance(result, Pause):
            seconds, outcome = paused(attempt.call, result)
            attempt.timer = self._resources.poller.after(seconds, partial(self._end, attempt, outcome))
        else:
            self._end(attempt, result)

    def _start_process(self, attempt: Attempt, spawn: Spawn) -> None:
        call, record, spawn = attempt.call, attempt.record, attempt.with_grant(spawn)
        record.keep = spawn.keep
        if problem := make_scratch(call):  # it does not count, and the run goes on when there is room again
            self._end(attempt, Outcome("unstarted", problem))
            return
        given = markers(call, self._settings.epoch, self._settings.trace)
        launch = Launch(spawn, given, call.timeout, record, partial(self._exited, attempt, spawn))
        try:
            begin(attempt, launch, self._settings, self._resources.supervisor, self._resources.poller)
        except SpawnFailed as failed:
            self._end(attempt, Outcome(failed.failure, failed.message, rule=failed.rule, acted=False))
            return
        if call.ready and self.background is not None:
            self.background.begun(attempt)

    def _exited(self, attempt: Attempt, spawn: Spawn, end: Exit) -> None:
        """The process of an attempt is over, and so is the attempt, where it was not a service that was ready."""
        outcome: Outcome | None = exited(attempt, spawn, end)
        if outcome is not None and attempt.call.ready and self.background is not None:
            outcome = self.background.ended(attempt, end, outcome)
        if outcome is not None:
            self._end(attempt, outcome)

    def _start_thread(self, binding: Binding, attempt: Attempt) -> None:
        work = work_of(attempt, binding)
        attempt.run_in(self._resources.threads(), work, partial(self._returned, attempt))
        if attempt.call.timeout is not None:
            stop = partial(self._call_off, attempt, "timeout")
            attempt.timer = self._resources.poller.after(attempt.call.timeout, stop)

    def _returned(self, attempt: Attempt, result: Result) -> None:
        """A function in a thread is done: success before a stop reached it counts, success past the timeout not."""
        self._resources.poller.cancel(attempt.timer)
        self._resources.thread_ended()
        attempt.job = None
        self._go_on(attempt, returned(attempt, result))

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
        if self._attempts.pop(attempt.call.key, None) is None:
            return
        record = attempt.record
        if attempt.pulse is not None:
            attempt.pulse.end()
        attempt.withdraw()
        if attempt.ending is not None and outcome.failure == "interrupted":
            outcome = outcome._replace(failure=attempt.ending[0], message=attempt.ending[1])
        outcome = with_usage(attempt, outcome)
        if attempt.process is None:
            if problem := record.close():
                self._resources.supervisor.problems.append(problem)
            outcome = with_texts(attempt, outcome)
        attempt.sink(outcome)

    def _stop(self, attempt: Attempt, forced: bool) -> None:
        if attempt.process is not None:
            self._resources.supervisor.interrupt(attempt.process, forced)
        elif attempt.job is None:
            self._resources.poller.cancel(attempt.timer)
            self._end(attempt, INTERRUPTED)
        else:
            (self._abandon if forced else self._call_off)(attempt, attempt.reason or "interrupted")

    def _call_off(self, attempt: Attempt, reason: str) -> None:
        """Ask a function to stop; one that has not after the grace is left to itself."""
        if attempt.reason:
            return
        attempt.reason = reason
        self._resources.poller.cancel(attempt.timer)
        attempt.timer = self._resources.poller.after(self._settings.grace, partial(self._abandon, attempt, reason))

    def _abandon(self, attempt: Attempt, reason: str) -> None:
        if attempt.job is None:
            return
        attempt.reason = reason
        self._resources.workers.abandon(attempt.job)
        self._end(attempt, abandoned(attempt))
