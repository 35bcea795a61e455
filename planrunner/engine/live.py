"""Effects on the real world: processes, functions in threads, timers, signals and facts, waited for in one place."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from planrunner.capabilities.binding import Binding, Result, invoke
from planrunner.capabilities.contract import Call, Exit, Pause, Spawn, basic_environment
from planrunner.engine.attempts import (
    INTERRUPTED,
    Attempt,
    Pulse,
    abandoned,
    exited,
    located,
    log_path,
    make_scratch,
    markers,
    paused,
    returned,
    settled,
    with_texts,
    with_usage,
    work_of,
)
from planrunner.engine.background import Background, is_of
from planrunner.engine.calls import refused_right, strayed
from planrunner.engine.effects import (
    AT_ONCE,
    Cancel,
    Effect,
    Examine,
    Forget,
    Look,
    Observe,
    Probe,
    Remember,
    Restore,
    Save,
    StartCall,
    TakeCheckpoint,
    Weigh,
)
from planrunner.engine.output import Record, Secrecy, log_name
from planrunner.engine.poller import Clock, Poller, Signals, StopSwitch, Workers
from planrunner.engine.processes import GRACE, Launch, SpawnFailed, Supervisor, left_behind
from planrunner.engine.questions import Questions
from planrunner.engine.secrets import without_secrets
from planrunner.engine.services import AttemptServices, held
from planrunner.errors import StorageFailed
from planrunner.machine.events import AttemptEnded, Event, Outcome, StopRequested
from planrunner.plan.rights import visible
from planrunner.redaction import Redactor
from planrunner.safety.sandbox.refusals import Tally

if TYPE_CHECKING:
    from planrunner.engine.sandbox import Grounds
    from planrunner.engine.secrets import Vault

Json = Any


class LiveSettings(NamedTuple):
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
    users: Mapping[str, tuple[str, ...]] = {}
    """The services that tasks need, by the id of the task; empty where the plan has none."""
    switch: StopSwitch | None = None
    """Stops the run from another thread of this process."""

    @property
    def grounds(self) -> Grounds:
        """What the sandbox of an attempt is made from."""
        from planrunner.engine.sandbox import Grounds

        return Grounds(self.state_dir, self.directory, self.untrusted, self.outside)


def is_bound(call: Call, settings: LiveSettings) -> bool:
    """Whether a policy, or code that was made while the run went on, may say what the processes of a call are shut
    into."""
    return (call.rights != () or settings.untrusted or call.made != "") and not settings.unconfined


def apart(call: Call, settings: LiveSettings) -> Call:
    """The call with a folder for scratch files of its own where its processes are shut in, or may be: what Python runs
    is looked at when it is called."""
    if not is_bound(call, settings) and (settings.unconfined or not _may_be_made(call)):
        return call
    from planrunner.engine import sandbox

    return sandbox.apart(call)


def _may_be_made(call: Call) -> bool:
    if call.task.uses != "python.run":
        return False
    from planrunner.capabilities.python.scan import may_be_made

    return may_be_made(call)


def begin(attempt: Attempt, launch: Launch, settings: LiveSettings, supervisor: Supervisor, poller: Poller) -> None:
    """Start the process of an attempt, shut in where the policy says so. Raises SpawnFailed."""
    if attempt.call.rights:
        launch = launch._replace(inherited=seen(attempt.call, supervisor.programs.environment))
    if not is_bound(attempt.call, settings) and (settings.unconfined or not launch.spawn.made):
        attempt.process = supervisor.start(launch)
        return
    from planrunner.engine.sandbox import start

    attempt.process, attempt.shut = start(attempt.call, launch, settings.grounds, supervisor, poller)


def services(settings: LiveSettings, secrecy: Secrecy, call: Call) -> AttemptServices:
    """What the engine does for the capability of a call."""
    own = {**call.env, **markers(call, settings.epoch)}
    given = settings.environment
    if call.rights:
        given = seen(call, os.environ if given is None else given)
    found = AttemptServices(settings.state_dir, settings.directory, given, own, settings.vault)
    found.secrecy = secrecy
    if is_bound(call, settings):
        found.refused = Tally()
        from planrunner.engine.sandbox import Around, enclosed

        found.enclose = partial(enclosed, Around(call, settings.grounds, found.refused))
    return found


def new_record(settings: LiveSettings, secrecy: Secrecy, call: Call) -> Record:
    """Where an attempt's output goes."""
    watcher = partial(settings.on_output, call.task.id, call.attempt) if settings.on_output else None
    return Record(log_path(settings.state_dir, call), watcher, secrecy)


def remark_on_end(settings: LiveSettings, secrecy: Secrecy, attempt: tuple[str, str], names: list[str]) -> None:
    """Tell in the log of an attempt what of it the end of the run ended."""
    task, number = attempt
    words = left_behind(names, "run")
    if words and task and number.isascii() and number.isdigit() and len(number) < 9:
        path = f"{settings.state_dir}/logs/{settings.run_id}/{log_name(task, int(number))}"
        record = Record(path, None, secrecy)
        record.remark(words)
        record.close()


def cleaned(redactor: Redactor | None, found: Any) -> Any:
    """What is told to the loop, without the secrets of the run."""
    if redactor is None:
        return found
    return without_secrets(redactor, found)


def variables(settings: LiveSettings) -> Mapping[str, str]:
    """What processes get below their own variables: little where the plan is from outside the project."""
    whole = os.environ if settings.environment is None else settings.environment
    return basic_environment(whole) if settings.untrusted else whole


def seen(call: Call, environment: Mapping[str, str]) -> Mapping[str, str]:
    """What of the variables of the operator the policy lets a call see."""
    return visible(call.rights, environment)


def refused(settings: LiveSettings, call: Call) -> Outcome | None:
    """The outcome of a call that may not be made: its rights refuse it, or it would leave the directory of the run."""
    found: Outcome | None = None
    if call.rights:
        found = refused_right(call, settings.directory)
    if found is None and (call.task.cwd or call.task.outputs):
        found = strayed(call, settings.directory, settings.outside)
    return found


_REASONS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "terminated"}


def _questions(
    poller: Poller, settings: LiveSettings, serve: Callable[[Call], AttemptServices], done: Callable[[Any], None]
) -> Questions:
    from planrunner.engine.observation import asking

    return Questions(poller, settings.grace, partial(asking, settings.resolve, serve), done)


class _Host:
    """What the services of a run may do with its effects."""

    __slots__ = ("_live",)

    def __init__(self, live: LiveEffects) -> None:
        self._live = live

    def aside(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Do something in a thread that no attempt waits for."""
        live = self._live

        def back(found: Any) -> None:
            live._supervisor.foreign_children = live._workers is not None and live._workers.busy > 0
            done(found)

        live._in_threads().submit(work, back)

    def begin(self, call: Call) -> None:
        """Make a call that waited for a service."""
        self._live._start(call)

    def is_open(self, attempt: Attempt) -> bool:
        """Whether an attempt has not ended."""
        return attempt.call.key in self._live._attempts

    def serve(self, attempt: Attempt) -> None:
        """The attempt of a service is over, and its process goes on."""
        live = self._live
        del live._attempts[attempt.call.key]
        if attempt.pulse is not None:
            attempt.pulse.end()
        outcome = with_usage(attempt, with_texts(attempt, Outcome()))
        live._report(attempt.call, _settled(attempt.call, outcome, live._settings, live.redactor))

    def fail(self, task: str, message: str) -> None:
        """End what runs for a task at the top of the plan."""
        for attempt in list(self._live._attempts.values()):
            if is_of(attempt.call, task):
                attempt.ending = ("logic", message)
                self._live._stop_one(attempt, forced=False)

    def report(self, call: Call, outcome: Outcome) -> None:
        self._live._report(call, outcome)


def _background(live: LiveEffects, poller: Poller, supervisor: Supervisor, settings: LiveSettings) -> Background | None:
    if not settings.users:
        return None
    return Background(_Host(live), poller, supervisor, settings.users)


def _found(bindings: dict[str, Binding], resolve: Callable[[str], Callable[..., Any]], name: str) -> Binding | Outcome:
    """Look a capability up for the first time; what is found is kept in ``bindings``."""
    found = located(resolve, name)
    if not isinstance(found, Outcome):
        bindings[name] = found
    return found


class LiveEffects:
    """``Effects`` on the real world. Use from one thread; signals are caught when that is the main one. ``forced``
    becomes True at the second Ctrl-C: everything is killed. ``redactor`` knows what the run keeps secret."""

    def __init__(self, settings: LiveSettings) -> None:
        self.forced = self._closed = False
        self._asked = self._examined = 0
        self._settings = settings
        self._serve = partial(services, settings, self)
        self.redactor: Redactor | None = None if settings.vault is None else settings.vault.redactor
        self._clock = settings.clock or Clock(time.time())
        self._poller = Poller()
        self._poller.on_wake = self._woken
        self._supervisor = Supervisor(self._poller, variables(settings), settings.grace, adopts=settings.own_process)
        self._bindings: dict[str, Binding] = {}
        self._attempts: dict[str, Attempt] = {}
        self._questions: Questions | None = None
        self._background = _background(self, self._poller, self._supervisor, settings)
        self._events: list[Event] = []
        self._workers: Workers | None = None
        self._signals = Signals(self._poller, caught=settings.own_process)
        if settings.switch is not None:
            settings.switch.connect(self._signals.ask)

    def now(self) -> float:
        return self._clock.now()

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong on the side, such as a log that could not be written."""
        return tuple(self._supervisor.problems)

    def start(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, StartCall):
                self._start(effect.call)
            else:
                _act(self, effect)

    def _ask(self, effect: Probe | Save | Examine) -> None:
        if self._questions is None:
            self._questions = _questions(self._poller, self._settings, self._serve, partial(self._seen, None))
        self._examined += 1
        self._questions.ask(effect, self._in_threads())

    def _start(self, call: Call) -> None:
        if self._background is not None and not self._background.admits(call):
            return
        uses = call.task.uses
        refusal = refused(self._settings, call)
        binding = refusal or self._bindings.get(uses) or _found(self._bindings, self._settings.resolve, uses)
        if isinstance(binding, Outcome):
            self._report(call, binding._replace(acted=False))
            return
        declaration = binding.declaration
        if declaration.instant and not binding.wants_context:
            result = invoke(binding, call.inputs, None)
            if isinstance(result, Outcome) and not result.usage:
                self._report(call, _settled(call, result, self._settings, self.redactor))
                return
            self._go_on(self._attempt(call), result)
        elif (declaration.instant or declaration.process) and not call.task.secrets:
            attempt = self._attempt(call)
            self._go_on(attempt, invoke(binding, call.inputs, attempt.context))
        else:
            self._start_thread(binding, self._attempt(call))

    def _attempt(self, call: Call) -> Attempt:
        attempt = Attempt(apart(call, self._settings), new_record(self._settings, self, call), self._serve)
        self._attempts[call.key] = attempt
        if self.redactor is not None:
            attempt.hide_outputs()
        if call.task.heartbeat is not None:
            attempt.pulse = Pulse(attempt, call.task.heartbeat, self._poller, partial(self._stop_one, attempt, False))
        return attempt

    def _go_on(self, attempt: Attempt, result: Result) -> None:
        """From what the function returned to what the attempt waits for now, or to its end."""
        if isinstance(result, StorageFailed):
            raise result
        if isinstance(result, Spawn):
            self._start_process(attempt, result)
        elif isinstance(result, Pause):
            seconds, outcome = paused(attempt.call, result)
            attempt.timer = self._poller.after(seconds, partial(self._end, attempt, outcome))
        else:
            self._end(attempt, result)

    def _start_process(self, attempt: Attempt, spawn: Spawn) -> None:
        call, record, spawn = attempt.call, attempt.record, attempt.with_grant(spawn)
        record.keep = spawn.keep
        if problem := make_scratch(call):  # it does not count, and the run goes on when there is room again
            self._end(attempt, Outcome("unstarted", problem))
            self._events.append(StopRequested("storage", comment=problem))
            return
        given = markers(call, self._settings.epoch)
        launch = Launch(spawn, given, call.timeout, record, partial(_exited, self, attempt, spawn))
        try:
            begin(attempt, launch, self._settings, self._supervisor, self._poller)
        except SpawnFailed as failed:
            self._end(attempt, Outcome(failed.failure, failed.message, rule=failed.rule, acted=False))
            return
        if call.ready and self._background is not None:
            self._background.begun(attempt)

    def _in_threads(self) -> Workers:
        if self._workers is None:
            self._workers = Workers(self._poller.wake)
        self._supervisor.foreign_children = True
        return self._workers

    def _aside(self, work: Callable[[], Any], into: list[Any] | None = None) -> None:
        self._examined += 1
        self._in_threads().submit(work, partial(self._seen, into))

    def _seen(self, into: list[Any] | None, found: Any) -> None:
        self._examined -= 1
        self._supervisor.foreign_children = self._workers is not None and self._workers.busy > 0
        if isinstance(found, StorageFailed):
            raise found
        if found is not None:
            (self._events if into is None else into).append(cleaned(self.redactor, found))

    def _start_thread(self, binding: Binding, attempt: Attempt) -> None:
        attempt.run_in(self._in_threads(), work_of(attempt, binding), partial(self._returned, attempt))
        if attempt.call.timeout is not None:
            attempt.timer = self._poller.after(attempt.call.timeout, partial(self._cancel, attempt, "timeout"))

    def _returned(self, attempt: Attempt, result: Result) -> None:
        """A function in a thread is done: success before a stop reached it counts, success past the timeout not."""
        self._poller.cancel(attempt.timer)
        self._supervisor.foreign_children = self._workers is not None and self._workers.busy > 0
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
                self._supervisor.problems.append(problem)
            outcome = with_texts(attempt, outcome)
        self._report(attempt.call, _settled(attempt.call, outcome, self._settings, self.redactor))

    def _report(self, call: Call, outcome: Outcome) -> None:
        self._events.append(cleaned(self.redactor, AttemptEnded(call.task.id, call.attempt, outcome)))

    def wait(self, until: float | None) -> list[Event]:
        """See ``Effects``; returns nothing at once when nothing is on its way and no time is given."""
        if self._background is not None and self._background.is_stuck() and not (self._attempts or self._events):
            self._background.give_up()
        if (self._attempts or self._examined) and self._events:
            self._poller.turn(0.0)
        while not self._events:
            self._take_signals()
            if self._events or (until is None and not (self._attempts or self._examined)):
                break
            rest = None if until is None else until - self._clock.now()
            if rest is not None and rest <= 0:
                self._poller.turn(0.0)
                break
            if self._supervisor.running:
                self._supervisor.get_ready()
            self._poller.turn(rest)
        self._take_signals()
        events, self._events = self._events, []
        return events

    def _woken(self, _: bytes) -> None:
        if self._workers is not None:
            self._workers.collect()

    def _take_signals(self) -> None:
        for number in self._signals.take():
            self._asked += 1
            if self._asked == 1:
                self._events.append(StopRequested(_REASONS[number]))
            else:
                self.forced = True
                self.stop(forced=True)
                self._events.append(StopRequested(_REASONS[number], comment=AT_ONCE))

    def stop(self, forced: bool = False) -> None:
        self._poller.turn(0.0)  # what is over already was not interrupted
        for attempt in list(self._attempts.values()):
            self._stop_one(attempt, forced)
        if self._questions is not None:
            self._questions.stop(forced)
        if self._background is not None:
            self._background.drop(INTERRUPTED)

    def _stop_one(self, attempt: Attempt, forced: bool) -> None:
        if attempt.process is not None:
            self._supervisor.interrupt(attempt.process, forced)
        elif attempt.job is None:
            self._poller.cancel(attempt.timer)
            self._end(attempt, INTERRUPTED)
        else:
            (self._abandon if forced else self._cancel)(attempt, attempt.reason or "interrupted")

    def _call_off(self, effect: Cancel) -> None:
        """Stop one attempt permanently; one that has ended keeps its outcome."""
        for attempt in list(self._attempts.values()):
            if (attempt.call.task.id, attempt.call.attempt) == (effect.task, effect.attempt):
                attempt.ending = (effect.failure, effect.message)
                self._stop_one(attempt, forced=False)
        if self._background is not None:
            self._background.drop(Outcome(effect.failure, effect.message), effect.task)

    def _cancel(self, attempt: Attempt, reason: str) -> None:
        """Ask a function to stop; one that has not after the grace is left to itself."""
        if attempt.reason:
            return
        attempt.reason = reason
        self._poller.cancel(attempt.timer)
        attempt.timer = self._poller.after(self._settings.grace, partial(self._abandon, attempt, reason))

    def _abandon(self, attempt: Attempt, reason: str) -> None:
        if attempt.job is None or self._workers is None:
            return
        attempt.reason = reason
        self._workers.abandon(attempt.job)
        self._end(attempt, abandoned(attempt))

    def close(self) -> None:
        """End whatever still runs, see that nothing of the run is left, and give signals back."""
        if self._closed:
            return
        self._closed = True
        self.stop(forced=True)
        if self._background is not None:
            self._background.stop(self.forced)
        _let_end(self._supervisor, self._poller, self._settings.grace)
        for attempt, names in self._supervisor.sweep_run(self._settings.run_id, self._settings.epoch).items():
            remark_on_end(self._settings, self, attempt, names)
        if self._workers is not None:
            self._workers.close()
        self._signals.close()
        self._supervisor.close()
        self._poller.close()


def _let_end(supervisor: Supervisor, poller: Poller, grace: float) -> None:
    """Wait for processes that were killed or, after the grace, will be; not for ever."""
    deadline = time.monotonic() + grace + 5
    while supervisor.running and time.monotonic() < deadline:
        poller.turn(0.1)


def _settled(call: Call, outcome: Outcome, settings: LiveSettings, redactor: Redactor | None) -> Outcome:
    """The outcome as it stands once the policy allows each file that it gives or keeps."""
    if call.rights:
        outcome = held(call, outcome, settings.directory)
    return settled(call, outcome, settings.state_dir, redactor)


def _act(live: LiveEffects, effect: Effect) -> None:
    from planrunner.engine.observation import act, beside

    match effect:
        case StartCall():
            live._start(effect.call)
        case Cancel():
            live._call_off(effect)
        case Probe():
            live._ask(effect)
        case Save() | Examine() if effect.call is not None:
            live._ask(effect)
        case Examine() | Weigh() | TakeCheckpoint():
            live._aside(*beside(live._settings.state_dir, effect, live.redactor))
        case Observe() | Look() | Remember() | Forget() | Save() | Restore():
            events = act(live._settings.state_dir, effect, live.redactor)
            live._events += [cleaned(live.redactor, event) for event in events]
        case _:
            assert_never(effect)


def _exited(live: LiveEffects, attempt: Attempt, spawn: Spawn, end: Exit) -> None:
    """The process of an attempt is over, and so is the attempt, where it was not a service that was ready."""
    outcome: Outcome | None = exited(attempt, spawn, end)
    if outcome is not None and attempt.call.ready and live._background is not None:
        outcome = live._background.ended(attempt, end, outcome)
    if outcome is not None:
        live._end(attempt, outcome)
