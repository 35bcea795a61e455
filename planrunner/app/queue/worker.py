"""The worker: takes runs from the queue of one project and acts on them in a host."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from planrunner.app.queue.acting import act_for, last_entry
from planrunner.app.queue.items import ENDS, Limits, Status
from planrunner.app.queue.lease import WakeSignal, worker_lease
from planrunner.app.queue.limits import CurrentLimits, allowance
from planrunner.app.queue.parked import Parked
from planrunner.app.queue.store import Store, Task
from planrunner.app.runs.execute import RunResult, Silent
from planrunner.app.runs.host import MOST, Host
from planrunner.caller import acting, asked_by
from planrunner.errors import INTERNAL, TERMINATED, PlanrunnerError, RunHeld, StorageFailed, UsageError
from planrunner.journal.process_leases import ProcessLease
from planrunner.machine.decide import next_time
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.records import Struct

Json = Any

LOOK = 0.1
"""Seconds between two looks at what other processes have written."""
STANDBY = 0.5
"""Seconds between two tries to get the lease of a queue that another worker has."""
_NEAR = 2.0
"""Seconds to the next time of a run from which on it keeps its slot for it."""
_AT_ONCE = 32
"""Items that are taken in one transaction."""
_BREATHS = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds to wait after storage has failed, longer each time."""


_CLOCK = "planrunner.app.triggers.clock"
"""Loaded by name where a project has triggers: what it needs belongs to an extra."""
_FAULT = "a fault of planrunner keeps the queue from being worked off"


class Ended(Struct):
    """A run that its thread has let go of, with what it came to."""

    task: Task
    result: RunResult | None
    error: BaseException | None


class Change(Struct):
    """That an item stands otherwise than before."""

    run: str
    status: Status
    reason: str = ""


Told = Callable[[Change], None]


class Slot(Silent):
    """Looks at one run: whether it needs its slot, or only waits for a time that comes."""

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state: State | None = None

    def started(self, run_id: str, plan: Plan, state: State) -> None:
        self._state = state

    @property
    def is_needed(self) -> bool:
        """False while no task of the run is under way and its next time is not near."""
        state = self._state
        if state is None or state.running or state.status != "running":
            return True
        now = time.time()
        try:
            return (next_time(state, now) or now) - now < _NEAR
        except RuntimeError:  # its thread is changing the state this moment
            return True


class Worker:
    """Works off the queue of a project in threads of its own until it is closed. ``root`` is the directory of the
    project, ``state`` its state directory, both absolute; ``told`` is called in its thread with every change that it
    notes.

    One worker of a state directory acts at a time; another one stands by and takes over when that ends. Each run
    acts for the person who asked for it. What a dead worker left is taken up first.
    """

    __slots__ = ("_bell", "_closed", "_lease", "_problem", "_root", "_state", "_thread", "_told", "_turns")

    def __init__(self, root: str, state: str, told: Told | None = None) -> None:
        self._told = told or _silent
        self._root = root
        self._state = state
        self._bell = WakeSignal(state)
        self._lease: ProcessLease | None = None
        self._closed = threading.Event()
        self._problem = ""
        self._thread: threading.Thread | None = None
        self._turns: Turns | None = None

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self) -> bool:
        """Become the one that acts, unless another worker is; whether it is this one. Raises StorageFailed for a state
        directory that cannot be used."""
        Store(self._state).close()
        self._lease = worker_lease(self._state)
        return self._lease.take()

    def start(self) -> None:
        """Begin, in a thread. Raises as ``claim``, which may come before."""
        if self._lease is None:
            self.claim()
        self._thread = threading.Thread(target=self._work, name="planrunner-queue")
        self._thread.start()

    def close(self, timeout: float | None = None) -> None:
        """Take nothing more, ask every run to stop (it is paused as by SIGTERM, and the next worker continues it), and
        wait ``timeout`` seconds at most for each."""
        self._closed.set()
        self._bell.ring()
        turns = self._turns
        if turns is not None:
            turns.stop(timeout)
        if self._thread is not None:
            self._thread.join(timeout)

    @property
    def is_acting(self) -> bool:
        """Whether this worker has the lease of the queue; else another one has."""
        return self._lease is not None and self._lease.is_held

    @property
    def problem(self) -> str:
        """Why it cannot work at the moment, for people; empty where it can."""
        return self._problem

    @property
    def is_idle(self) -> bool:
        """Whether no run goes on and none waits for its turn; parked ones may be there."""
        return self._turns is not None and self._turns.is_idle

    def _work(self) -> None:
        lease, failures = self._lease, 0
        assert lease is not None
        try:
            while not self._closed.is_set():
                try:
                    if lease.take():
                        self._take_turns()
                        return
                    self._problem, failures = "", 0
                    self._closed.wait(STANDBY)
                except Exception as error:  # the disk is full, say: people mend that, and the queue goes on
                    self._problem = error.message if isinstance(error, PlanrunnerError) else f"{_FAULT}: {error!r}"
                    self._closed.wait(_BREATHS[min(failures, len(_BREATHS) - 1)])
                    failures += 1
        finally:
            lease.release()

    def _take_turns(self) -> None:
        with Store(self._state) as store:
            turns = self._turns = self._turns or Turns(self._root, store, self._bell, self._told)
            turns.store = store
            turns.recover()
            while not self._closed.is_set():
                pause = turns.turn()
                self._problem = turns.problem
                self._bell.wait(pause)
            turns.stop(None)
            turns.settle()
            turns.close()


class Turns:
    """What a worker does while it has the lease: turn after turn it notes which runs are over, wakes those that may go
    on, and takes as many as there are slots."""

    def __init__(self, root: str, store: Store, bell: WakeSignal, told: Told) -> None:
        self.store = store
        self._told = told
        self.problem = ""
        self._bell = bell
        self._root = root
        self._limits = CurrentLimits(root)
        self._clock: Any = None
        self._host = Host(MOST)
        self._acting: dict[int, Slot] = {}  # by the number of the item: a run that is asked for again has another one
        self._ended: deque[Ended] = deque()
        self._parked = Parked(store.state)
        self._stopping = False
        self._not_before = 0.0
        self._trouble = ""
        self._failures = 0
        self.is_idle = False

    def recover(self) -> None:
        """Put what a dead worker left before everything else, and remember what is parked."""
        with self.store.writing():
            for task in self.store.tasks("running"):
                if task.item.number not in self._acting:
                    self.store.note(task.item.run, "waiting", ahead=1)
        self._parked.forget()
        for task in self.store.tasks("parked"):
            self._parked.add(task.item.run, task.seen, task.item.wakes)

    def turn(self) -> float:
        """One turn; gives the seconds after which the next one is due at the latest."""
        self.problem = ""
        self.settle()
        self._parked.look(self.store)
        limits = self._limits.now()
        due = self._fire()
        pause = min(due, self._take(limits))
        self.is_idle = not self._acting and not self._ended and not self.store.tasks("waiting", limit=1)
        return min(pause, self._parked.pause(), LOOK)

    def _fire(self) -> float:
        """Fire the triggers that are due; gives the seconds until the next one is."""
        if self._stopping or not (self._limits.has_triggers or self._clock is not None):
            return LOOK
        if self._clock is None:
            try:
                self._clock = import_module(_CLOCK).Clock(self._root, self.store.state, self._bell.ring)
            except UsageError as error:  # the extra is missing
                self.problem = f"{error.message} {error.hint}"
                return LOOK
        due = float(self._clock.turn(self.store, time.time()))
        self.problem = self._clock.problem
        return due

    def stop(self, timeout: float | None) -> None:
        """Start nothing more and have every run stop."""
        self._stopping = True
        self._host.close(timeout)

    def close(self) -> None:
        """Let go of what is watched; called in the thread that takes turns."""
        if self._clock is not None:
            self._clock.close()
        self._parked.close()

    def settle(self) -> None:
        """Note what has become of the runs that were let go of."""
        over: list[str] = []
        if not self._ended:
            return
        with self.store.writing():
            while self._ended:
                ended = self._ended.popleft()
                item = ended.task.item
                self._acting.pop(item.number, None)
                if self.store.task(item.run).item.number == item.number:
                    over.append(item.run)
                    self._note(ended)
        self._tell(over)

    def _tell(self, runs: Iterable[str]) -> None:
        if self._told is not _silent:
            for item in (self.store.task(run).item for run in runs):
                self._told(Change(item.run, item.status, item.reason))

    def _note(self, ended: Ended) -> None:
        run = ended.task.item.run
        if ended.error is not None:
            self._note_error(ended.task, ended.error)
            return
        result = ended.result
        assert result is not None
        self._failures = 0
        if self._stopping and result.exit_code == TERMINATED:
            return  # it still is on the list of this worker, and the next one continues it
        if result.state.ended_at is not None:
            self.store.note(
                run,
                ENDS[result.status],
                ended=time.time(),
                reason=result.state.reason,
                code=result.exit_code,
                carried=1,
            )
            return
        self._parked.park(self.store, run, result)

    def _note_error(self, task: Task, error: BaseException) -> None:
        """A run that could not start, or could not go on."""
        run, now = task.item.run, time.time()
        if self._stopping:
            return  # the next worker finds out whether it is the fault of the run
        if isinstance(error, RunHeld):  # another process acts on it: this one looks again when that lets go
            self._parked.note(self.store, run, task.seen, now + 1.0, error.message, error.exit_code)
            return
        if isinstance(error, StorageFailed):
            self._trouble = error.message
            self._not_before = time.monotonic() + _BREATHS[min(self._failures, len(_BREATHS) - 1)]
            self._failures += 1
            self.store.note(run, "waiting", ahead=1, reason=error.message)
            return
        known = isinstance(error, PlanrunnerError)
        message = error.message if isinstance(error, PlanrunnerError) else f"{type(error).__name__}: {error}"
        code = error.exit_code if isinstance(error, PlanrunnerError) else INTERNAL
        if (seen := last_entry(run, self.store.state)) and known:
            if not self._parked.is_over(self.store, run):
                self._parked.note(self.store, run, seen, None, message, code)
            return
        self.store.note(run, "failed", ended=now, reason=message, code=code)

    def _take(self, limits: Limits) -> float:
        """Take what has its turn; gives the seconds until more may be taken because of a limit on time."""
        wait = self._not_before - time.monotonic()
        if self._stopping or wait > 0:
            self.problem = self._trouble
            return max(wait, 0.0) or LOOK
        self.problem = self._limits.problem or self.problem
        if self.store.pause() is not None:
            return LOOK
        while True:
            room = min(self._room(limits), _AT_ONCE)
            allowed, wait = allowance(limits, self.store)
            room = min(room, allowed)
            if room <= 0 or not self.store.tasks("waiting", limit=1):
                return wait
            with self.store.writing():
                tasks = self.store.tasks("waiting", limit=room)  # what was cancelled since then is not among them
                for task in tasks:
                    self._mark(task)
            self._tell(task.item.run for task in tasks)
            for task in tasks:
                self._begin(task)

    def _room(self, limits: Limits) -> int:
        """How many runs more may go on. One that only waits for a time takes a thread and no slot."""
        threads = MOST - len(self._acting)
        if limits.concurrency is None or threads <= 0:
            return threads
        room = limits.concurrency - len(self._acting)
        if room <= 0:
            room = limits.concurrency - sum(slot.is_needed for slot in self._acting.values())
        return min(room, threads)

    def _mark(self, task: Task) -> None:
        now = time.time()
        fields: dict[str, Json] = {"begun": task.item.begun or now, "wakes": None, "reason": ""}
        if not task.had_turn and task.item.act != "start":
            fields["seen"] = last_entry(task.item.run, self.store.state)
        self.store.note(task.item.run, "running", **fields)

    def _begin(self, task: Task) -> None:
        item = task.item
        if not task.ours:
            message = "no planrunner of yours asked for it: it bears no seal of your audit key (`state.foreign`)"
            with self.store.writing():
                self.store.note(item.run, "failed", ended=time.time(), reason=message)
            return
        try:
            slot = Slot()
            with acting(item.by, task.where), asked_by(_seen_at_the_door):
                run = self._host.act(act_for(task, self.store), slot)
        except PlanrunnerError as error:
            self._over(task, None, error)
            return
        self._acting[item.number] = slot
        run.when_over(lambda over: self._over(task, *over.outcome()))

    def _over(self, task: Task, result: RunResult | None, error: BaseException | None) -> None:
        self._ended.append(Ended(task, result, error))
        self._bell.ring()


def _silent(change: Change) -> None:
    """For a worker that nothing listens to."""


def _seen_at_the_door() -> tuple[int, ...]:
    """Who asked for what stands in the queue was looked at when it was put there."""
    return ()
