"""Effects on the real world: calls, timers, signals and facts, waited for in one place."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, assert_never

from planrunner.capabilities.contract import Call
from planrunner.engine.attempts import INTERRUPTED, Attempt, settled
from planrunner.engine.background import Background
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
from planrunner.engine.executors import LiveSettings, LocalExecutor, Resources, services
from planrunner.engine.output import Record, Secrecy, log_name
from planrunner.engine.poller import Clock, Poller, Signals
from planrunner.engine.processes import Supervisor, left_behind
from planrunner.engine.questions import Questions
from planrunner.engine.secrets import without_secrets
from planrunner.errors import StorageFailed
from planrunner.machine.events import AttemptEnded, Event, Outcome, StopRequested
from planrunner.redaction import Redactor

if TYPE_CHECKING:
    from planrunner.engine.services import AttemptServices

Json = Any


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


def refused(settings: LiveSettings, call: Call) -> Outcome | None:
    """The outcome of a call that may not be made: its rights refuse it, or it would leave the directory of the run."""
    if not (call.rights or call.task.cwd or call.task.outputs):
        return None
    from planrunner.engine.permission import refused_right, strayed

    refused = refused_right(call, settings.directory) if call.rights else None
    return refused or strayed(call, settings.directory, settings.outside)


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
        resources = self._live._resources

        def back(result: Any) -> None:
            resources.thread_ended()
            done(result)

        resources.threads().submit(work, back)

    def begin(self, call: Call) -> None:
        """Make a call that waited for a service."""
        self._live._start(call)

    def is_open(self, attempt: Attempt) -> bool:
        """Whether an attempt has not ended."""
        return self._live._local.is_open(attempt)

    def serve(self, attempt: Attempt) -> None:
        """The attempt of a service is over, and its process goes on."""
        self._live._local.serve(attempt)

    def fail(self, task: str, message: str) -> None:
        """End what runs for a task at the top of the plan."""
        self._live._local.fail(task, message)

    def report(self, call: Call, outcome: Outcome) -> None:
        self._live._report(call, outcome)


def _background(live: LiveEffects, settings: LiveSettings) -> Background | None:
    if not settings.users:
        return None
    return Background(_Host(live), live._resources.poller, live._resources.supervisor, settings.users)


class LiveEffects:
    """``Effects`` on the real world. Use from one thread; signals are caught when that is the main one. ``forced``
    becomes True at the second Ctrl-C: everything is killed. ``redactor`` knows what the run keeps secret."""

    def __init__(self, settings: LiveSettings) -> None:
        self.forced = self._closed = False
        self._asked = self._examined = 0
        self._settings = settings
        self._thread = 0
        self.redactor: Redactor | None = None if settings.vault is None else settings.vault.redactor
        self._clock = settings.clock or Clock(time.time())
        self._resources = Resources(settings)
        self._local = LocalExecutor(settings, self._resources, self)
        self._local.background = self._background = _background(self, settings)
        self._executor = settings.executor or self._local
        self._calls: dict[str, tuple[Call, Any]] = {}
        """The calls that are under way by their keys, with their handles."""
        self._questions: Questions | None = None
        self._events: list[Event] = []
        self._signals = Signals(self._resources.poller, caught=settings.own_process)
        if settings.switch is not None:
            settings.switch.connect(self._signals.ask)

    def now(self) -> float:
        return self._clock.now()

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong on the side, such as a log that could not be written."""
        return tuple(self._resources.supervisor.problems)

    def start(self, effects: Sequence[Effect]) -> None:
        self._thread = get_ident()
        for effect in effects:
            if isinstance(effect, StartCall):
                self._start(effect.call)
            else:
                _act(self, effect)

    def _ask(self, effect: Probe | Save | Examine) -> None:
        if self._questions is None:
            serve = partial(services, self._settings, self)
            self._questions = _questions(self._resources.poller, self._settings, serve, partial(self._seen, None))
        self._examined += 1
        self._questions.ask(effect, self._resources.threads())

    def _start(self, call: Call) -> None:
        if self._background is not None and not self._background.admits(call):
            return
        if refusal := refused(self._settings, call):
            self._report(call, refusal._replace(acted=False))
            return
        self._calls[call.key] = call, None
        handle = self._executor.submit(call, partial(self._sink, call))
        if call.key in self._calls:
            self._calls[call.key] = call, handle

    def _sink(self, call: Call, outcome: Outcome) -> None:
        if get_ident() == self._thread:
            self._end(call, outcome)
        else:
            self._resources.workers.post(partial(self._end, call, outcome))

    def _end(self, call: Call, outcome: Outcome) -> None:
        """A call is over: its outcome as it stands once the policy allows each file that it gives or keeps."""
        if self._calls.pop(call.key, None) is None:
            return
        if call.rights:
            from planrunner.engine.services import held

            outcome = held(call, outcome, self._settings.directory)
        outcome = settled(call, outcome, self._settings.state_dir, self.redactor)
        self._report(call, outcome)
        if outcome.failure == "unstarted":
            self._events.append(StopRequested("storage", comment=outcome.message))

    def _aside(self, work: Callable[[], Any], into: list[Any] | None = None) -> None:
        self._examined += 1
        self._resources.threads().submit(work, partial(self._seen, into))

    def _seen(self, into: list[Any] | None, found: Any) -> None:
        self._examined -= 1
        self._resources.thread_ended()
        if isinstance(found, StorageFailed):
            raise found
        if found is not None:
            (self._events if into is None else into).append(cleaned(self.redactor, found))

    def _report(self, call: Call, outcome: Outcome) -> None:
        self._events.append(cleaned(self.redactor, AttemptEnded(call.task.id, call.attempt, outcome)))

    def wait(self, until: float | None) -> list[Event]:
        """See ``Effects``; returns nothing at once when nothing is on its way and no time is given."""
        if self._background is not None and self._background.is_stuck() and not (self._calls or self._events):
            self._background.give_up()
        if (self._calls or self._examined) and self._events:
            self._resources.poller.turn(0.0)
        while not self._events:
            self._take_signals()
            if self._events or (until is None and not (self._calls or self._examined)):
                break
            rest = None if until is None else until - self._clock.now()
            if rest is not None and rest <= 0:
                self._resources.poller.turn(0.0)
                break
            if self._resources.supervisor.running:
                self._resources.supervisor.get_ready()
            self._resources.poller.turn(rest)
        self._take_signals()
        events, self._events = self._events, []
        return events

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
        self._resources.poller.turn(0.0)  # what is over already was not interrupted
        for _, handle in list(self._calls.values()):
            self._executor.cancel(handle, INTERRUPTED, forced)
        if self._questions is not None:
            self._questions.stop(forced)
        if self._background is not None:
            self._background.drop(INTERRUPTED)

    def _call_off(self, effect: Cancel) -> None:
        """Stop one attempt permanently; one that has ended keeps its outcome."""
        outcome = Outcome(effect.failure, effect.message)
        for call, handle in list(self._calls.values()):
            if (call.task.id, call.attempt) == (effect.task, effect.attempt):
                self._executor.cancel(handle, outcome)
        if self._background is not None:
            self._background.drop(outcome, effect.task)

    def close(self) -> None:
        """End whatever still runs, see that nothing of the run is left, and give signals back."""
        if self._closed:
            return
        self._closed = True
        self.stop(forced=True)
        if self._background is not None:
            self._background.stop(self.forced)
        _let_end(self._resources.supervisor, self._resources.poller, self._settings.grace)
        for attempt, names in self._resources.supervisor.sweep_run(self._settings.run_id, self._settings.epoch).items():
            remark_on_end(self._settings, self, attempt, names)
        self._resources.workers.close()
        self._signals.close()
        self._resources.supervisor.close()
        self._resources.poller.close()


def _let_end(supervisor: Supervisor, poller: Poller, grace: float) -> None:
    """Wait for processes that were killed or, after the grace, will be; not for ever."""
    deadline = time.monotonic() + grace + 5
    while supervisor.running and time.monotonic() < deadline:
        poller.turn(0.1)


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
