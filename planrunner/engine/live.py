"""Effects on the real world: calls, timers, signals and facts, waited for in one place."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any, assert_never

from planrunner.ancestry import RunnerMark
from planrunner.capabilities.contract import Call
from planrunner.engine.attempts import INTERRUPTED, settled
from planrunner.engine.effects import (
    AT_ONCE,
    Cancel,
    CheckFreshness,
    DropFreshness,
    Effect,
    Examine,
    ObserveFacts,
    Probe,
    RecheckEvidence,
    RecordFreshness,
    Restore,
    Save,
    StartCall,
    TakeCheckpoint,
    ended,
)
from planrunner.engine.executors import LiveSettings, LocalExecutor, Resources, services
from planrunner.engine.marks import look, mark_changed, note_before
from planrunner.engine.output import Record, log_name
from planrunner.engine.poller import Clock, Signals, Turns
from planrunner.engine.processes import left_behind
from planrunner.errors import StorageFailed
from planrunner.journal.chain import data_folder
from planrunner.later import Later
from planrunner.machine.events import Event, Outcome, StopRequested
from planrunner.safety.trust import take_back

if TYPE_CHECKING:
    from planrunner.engine.background import Background
    from planrunner.engine.marks import Seen
    from planrunner.engine.questions import Questions
    from planrunner.engine.secrets import without_secrets
    from planrunner.redaction import Redactor
else:
    Background = Later("planrunner.engine.background:Background")
    Questions = Later("planrunner.engine.questions:Questions")
    without_secrets = Later("planrunner.engine.secrets:without_secrets")


Json = Any


LOOKS = 32
"""What is looked at or asked beside the attempts at once, such as the evidence of gates: each takes a thread."""

_REASONS: dict[int, str] = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hangup",
    signal.SIGQUIT: "quit",
}


_MAY_GO_ON = ("timeout", "interrupted")
"""How calls end whose function may not have stopped."""


def _observation() -> ModuleType:
    """What looks at the world beside calls, which runs of plain commands do without."""
    from planrunner.engine import observation

    return observation


class LiveEffects:
    """``Effects`` on the real world. Use from one thread; signals are caught when that is the main one. ``forced``
    becomes True at the second Ctrl-C: everything is killed. ``redactor`` knows what the run keeps secret."""

    def __init__(self, settings: LiveSettings) -> None:
        self.forced = self._closed = False
        self._asked = self._examined = 0
        self._settings = settings
        self._runner_mark = RunnerMark(settings.state_dir, data_folder())
        self._thread = 0
        self.redactor: Redactor | None = None if settings.vault is None else settings.vault.redactor
        self._clock = settings.clock or Clock(time.time())
        self._resources = Resources(settings)
        self._local = LocalExecutor(settings, self._resources, self)
        self._background: Background | None = None
        if settings.users:
            resources = self._resources
            self._background = Background(self, self._local, resources.poller, resources.supervisor, settings.users)
        self._local.background = self._background
        self._executor = settings.executor or self._local
        self._calls: dict[str, tuple[Call, Any]] = {}
        """The calls that are under way by their keys, with their handles."""
        self._looks: dict[str, tuple[Call, dict[str, Seen], str]] = {}
        """The files that could be plans before calls with text from outside, by the keys of those, and the note
        of that."""
        self._questions: Questions | None = None
        self._turns = Turns(LOOKS)
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
                self.begin(effect.call)
            else:
                self._act(effect)

    def _act(self, effect: Effect) -> None:
        match effect:
            case StartCall():
                self.begin(effect.call)
            case Cancel():
                outcome = Outcome(effect.failure, effect.message)
                for call, handle in list(self._calls.values()):
                    if (call.name, call.attempt) == (effect.task, effect.attempt):
                        self._executor.cancel(handle, outcome)
                if self._background is not None:
                    self._background.drop(outcome, effect.task)
            case Probe():
                self._ask(effect)
            case Save() | Examine() if effect.call is not None:
                self._ask(effect)
            case Examine() | RecheckEvidence() | TakeCheckpoint():
                work, into = _observation().thread_work(self._settings.state_dir, effect, self.redactor)
                self._examined += 1
                self._turns.take(partial(self._look, work, into))
            case ObserveFacts() | CheckFreshness() | RecordFreshness() | DropFreshness() | Save() | Restore():
                events = _observation().act(self._settings.state_dir, effect, self.redactor)
                self._events += [self._without_secrets(event) for event in events]
            case _:
                assert_never(effect)

    def _ask(self, effect: Probe | Save | Examine) -> None:
        if self._questions is None:
            ask = partial(_observation().asking, self._settings.resolve, partial(services, self._settings, self))
            poller, grace = self._resources.poller, self._settings.grace
            self._questions = Questions(poller, self._turns, grace, ask, partial(self._seen, None))
        self._examined += 1
        self._questions.ask(effect, self._resources.threads)

    def _look(self, work: Callable[[], Any], into: list[Any] | None) -> bool:
        self._resources.threads().submit(work, partial(self._looked, into))
        return True

    def begin(self, call: Call) -> None:
        """Make a call, where the services that it needs are there, its rights allow it and it stays in the directory of
        the run."""
        if self._background is not None and not self._background.admits(call):
            return
        if call.rights or call.task.cwd or call.task.outputs:
            from planrunner.engine.permission import denied, is_gone, outside_directory

            directory = self._settings.directory
            refusal = denied(call, directory) if call.rights else None
            if refusal := refusal or outside_directory(call, directory, self._settings.outside):
                self.report(call, refusal._replace(acted=False))
                return
            if call.purpose == "undo" and is_gone(call, directory):
                self.report(call, Outcome(outputs={"changed": False}))
                return
        if call.outside:
            folders = self._settings.directory, call.directory
            before = look(folders)
            self._looks[call.key] = call, before, note_before(folders, before, call.outside)
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
        place, state = self._settings.directory, self._settings.state_dir
        if not (call.rights or call.task.artifacts):
            outcome = settled(call, outcome, state, self.redactor)
        else:
            from planrunner.engine.services import check_file_rights, rescued

            outcome = settled(call, check_file_rights(call, outcome, place), state, self.redactor)
            if outcome.failure:
                outcome = rescued(call, outcome, place, state, self.redactor)
        if call.outside:
            self._mark(call.key, outcome.failure not in _MAY_GO_ON)
        self.report(call, outcome)
        if outcome.failure == "unstarted":
            self._events.append(StopRequested("storage", comment=outcome.message))

    def _mark(self, key: str, over: bool) -> None:
        """Mark the plan files that a call with text from outside has written; it is looked again at the end of what
        may still write, since it is not ``over``."""
        call, before, noted = self._looks[key]
        mark_changed((self._settings.directory, call.directory), before, call.outside)
        if over:
            del self._looks[key]
            take_back(noted)

    def in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Do something in a thread that no attempt waits for."""

        def back(result: Any) -> None:
            self._resources.thread_ended()
            done(result)

        self._resources.threads().submit(work, back)

    def _looked(self, into: list[Any] | None, result: Any) -> None:
        self._turns.over()
        self._seen(into, result)

    def _seen(self, into: list[Any] | None, result: Any) -> None:
        self._examined -= 1
        self._resources.thread_ended()
        if isinstance(result, StorageFailed):
            raise result
        if result is not None:
            (self._events if into is None else into).append(self._without_secrets(result))

    def report(self, call: Call, outcome: Outcome) -> None:
        self._events.append(self._without_secrets(ended(call, outcome)))

    def _without_secrets(self, value: Any) -> Any:
        return value if self.redactor is None else without_secrets(self.redactor, value)

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

    def close(self) -> None:
        """End whatever still runs, see that nothing of the run is left, and give signals back."""
        if self._closed:
            return
        self._closed = True
        self.stop(forced=True)
        if self._background is not None:
            self._background.stop(self.forced)
        deadline = time.monotonic() + self._settings.grace + 5
        while self._resources.supervisor.running and time.monotonic() < deadline:
            self._resources.poller.turn(0.1)
        lasted = self._resources.open
        lasted.close(self.forced)
        left = self._resources.supervisor.sweep_run(self._settings.run_id, self._settings.epoch, every=bool(lasted))
        for (task, number), names in left.items():
            words = left_behind(names, "run")
            if words and task and number.isascii() and number.isdigit() and len(number) < 9:
                path = f"{self._settings.state_dir}/logs/{self._settings.run_id}/{log_name(task, int(number))}"
                record = Record(path, None, self)
                record.remark(words)
                record.close()
        for key in list(self._looks):
            self._mark(key, True)
        self._resources.workers.close()
        self._signals.close()
        self._resources.supervisor.close()
        self._resources.poller.close()
        if not self._settings.own_process:  # else what a task has left stays below this process to its end
            self._runner_mark.close()
