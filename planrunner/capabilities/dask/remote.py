"""What of ``dask.run`` happens on the cluster: a worker runs the program, and the scheduler knows who began what.

Dask repeats a task whose worker is gone, or left with the result. A program must not be repeated silently, so that a
worker begins one only after the scheduler entered it in the book of its session, which takes each key once. A session
is one runner of one run; that of a later runner closes the book of an earlier one.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from asyncio import sleep
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from distributed import get_worker
from distributed.utils import sync

from planrunner import __version__
from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.capabilities.programs import Ended, Program, run
from planrunner.frozen import EMPTY
from planrunner.plan.model import Task

Json = Any

LIMIT = 1 << 20
"""Bytes of standard output that come back."""


class Order(NamedTuple):
    """One attempt: ``key`` names it on the cluster, ``session`` is the client that submitted it."""

    version: str
    session: str
    run: str
    key: str
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    directory: str

    def __repr__(self) -> str:
        """Dask writes arguments to its log; the variables may be secret."""
        return f"Order({self.key})"


class Done(NamedTuple):
    """How an attempt ended on a worker. Without ``ended`` the program did not run there: ``elsewhere`` is the worker
    that began it, ``fault`` why it could not be started, with its class."""

    host: str
    pid: int = 0
    ended: Ended | None = None
    seconds: float = 0.0
    elsewhere: str = ""
    fault: tuple[str, str] = ("", "")


# On the scheduler.


class Books:
    """The sessions of a cluster, with what their workers began."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._runs: dict[str, str] = {}
        self._begun: dict[str, dict[str, str]] = {}

    def open(self, run: str, session: str) -> bool:
        """Open the book of a session; gives whether the run has earlier ones. These end: what they began is cancelled,
        what they did not begin never begins."""
        clients = self._scheduler.clients
        for gone in self._begun.keys() - clients.keys():
            del self._begun[gone]
        earlier = [each for each, theirs in self._runs.items() if theirs == run]
        for other in earlier:
            self.close(other)
            if other in clients:
                self._scheduler.remove_client(other)
        self._runs[session], self._begun[session] = run, {}
        return bool(earlier)

    def close(self, session: str) -> None:
        """Close the book of a session."""
        self._runs.pop(session, None)
        self._begun.pop(session, None)

    def begin(self, session: str, key: str, worker: str) -> str:
        """Enter that a worker begins an attempt; gives the one that began it before, for which it must not. Raises
        LookupError where the session is over."""
        book = self._begun[session]
        if key in book:
            return book[key]
        book[key] = worker
        return ""

    def beginner(self, session: str, key: str) -> tuple[str, bool]:
        """The worker that began an attempt, and whether it is still there; empty where none did."""
        worker = self._begun.get(session, {}).get(key, "")
        return worker, worker in self._scheduler.workers

    def workers(self) -> dict[str, dict[str, float]]:
        """The workers of the cluster, with their resources."""
        return {address: dict(worker.resources) for address, worker in self._scheduler.workers.items()}


def opened(version: str, run: str, session: str, dask_scheduler: Any = None) -> tuple[str, bool]:
    """``Books.open`` where the scheduler has this version of planrunner; gives the version that it has as well."""
    if version != __version__:
        return __version__, False
    books: Books = dask_scheduler.extensions.setdefault("planrunner", Books(dask_scheduler))
    for name in ("begin", "beginner", "close", "workers"):
        dask_scheduler.handlers[f"planrunner_{name}"] = getattr(books, name)
    return __version__, books.open(run, session)


# On a worker.


class _Reaper:
    """A process beside the worker that kills what runs there once the worker is dead, also by ``kill -9``."""

    _SCRIPT = (
        "trap '' HUP INT TERM; groups=; while read -r line; do groups=$line; done; "
        'for group in $groups; do kill -s KILL -- "-$group"; done'
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            self._tell()

    def drop(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            self._tell()

    def _tell(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                ("sh", "-c", self._SCRIPT),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        self._process.stdin.write((" ".join(map(str, sorted(self._groups))) + "\n").encode())
        self._process.stdin.flush()


_reaper = _Reaper()
_present: dict[str, Order] = {}
"""The attempts on this worker, by their keys."""


async def over(run: str, session: str, key: str, seconds: float) -> bool:
    """Wait until nothing of an attempt is left on this worker; without a key nothing of the run that is not of the
    session. False where it takes longer than ``seconds``."""
    until = time.monotonic() + seconds
    while any(
        each.key == key if key else (each.run == run and each.session != session) for each in list(_present.values())
    ):
        if time.monotonic() > until:
            return False
        await sleep(0.02)
    return True


class _Log:
    """A log that keeps nothing: what a program prints comes back with its end."""

    usage: Mapping[str, Json] = EMPTY

    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    def beat(self) -> None: ...

    def spend(self, amounts: Mapping[str, Json]) -> None: ...


def attempt(order: Order) -> Done:
    """Run the program of an attempt to its end. Dask logs what is raised, with the arguments: nothing is."""
    worker = get_worker()
    host = str(worker.address)
    if order.version != __version__:
        return Done(host, fault=("logic", f"the worker {host} has planrunner {__version__}, not {order.version}"))
    pids: list[int] = []

    def cancelled() -> bool:
        task = worker.state.tasks.get(order.key)
        return task is None or task.state != "executing" or worker.status.name not in ("running", "paused")

    def started(pid: int) -> None:
        pids.append(pid)
        _reaper.add(pid)

    with _presence(order):
        try:
            if elsewhere := _enter(worker, order, host):
                return Done(host, elsewhere=elsewhere)
            began_at = time.monotonic()
            context = Context(_call(order), _Log(), cancelled, None)
            ended = run(context, Program(order.arguments, limit=LIMIT, begun=started))
            return Done(host, pids[0], ended, time.monotonic() - began_at)
        except Failure as failure:
            if failure.failure == "cancelled":
                return Done(host, fault=("lost", f"the worker {host} ended, and the program with it"))
            return Done(host, fault=(failure.failure, str(failure)))
        except Exception as error:
            return Done(host, fault=("transient", f"the worker {host} failed: {type(error).__name__}: {error}"))
        finally:
            for pid in pids:
                _reaper.drop(pid)


@contextlib.contextmanager
def _presence(order: Order) -> Iterator[None]:
    _present[order.key] = order
    try:
        yield
    finally:
        _present.pop(order.key, None)


def _enter(worker: Any, order: Order, host: str) -> str:
    """As ``Books.begin``, which is on the scheduler."""
    ask = worker.scheduler.planrunner_begin
    answer: Any = sync(worker.loop, ask, session=order.session, key=order.key, worker=host)
    return str(answer)


def _call(order: Order) -> Call:
    """The call as ``programs`` reads it."""
    return Call(
        run_id=order.run,
        task=Task(order.key),
        attempt=1,
        key=order.key,
        inputs={},
        script="",
        arguments=order.arguments,
        values={},
        env=order.env,
        directory=order.directory,
        scratch="",
        timeout=None,
    )
