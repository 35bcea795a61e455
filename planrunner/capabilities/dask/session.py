"""The connection of a run to a Dask scheduler: opened by the first task that needs it, closed with the run."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Any, NoReturn

from distributed import Client, KilledWorker
from distributed.client import FutureCancelledError

from planrunner import __version__
from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.dask import remote
from planrunner.capabilities.dask.remote import Done, Order
from planrunner.capabilities.outputs import count_call

CONNECTING = 5.0
"""Seconds for a scheduler to answer."""
_SLICE = 0.1
_LOOK = 2.0
"""Seconds after which the cluster is looked at again."""
_GATHERING = 60.0
"""Seconds for an outcome to come over."""
_EARLIER = 60.0
"""Seconds for what earlier sessions of the run began to be gone."""
_ANSWERING = 4.0
"""Seconds for workers to answer."""


class Session:
    """The client of one run. Raises Failure where there is no scheduler, or one that does not fit."""

    def __init__(self, address: str, run: str) -> None:
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it says is said by failures
        self._address, self._run = address, run
        try:
            connect: Any = Client  # it has no types
            self.client: Any = connect(address, timeout=CONNECTING, set_as_default=False, name=f"planrunner-{run}")
        except (OSError, TimeoutError, ValueError) as error:
            why = f"no Dask scheduler answers at {address}: {_line(error)}"
            raise Failure(why, "transient") from None
        self._lock = threading.Lock()
        self._looked = 0.0
        self._workers: dict[str, dict[str, float]] = {}
        try:
            self._open()
        except BaseException:
            self.wait()
            raise

    def _open(self) -> None:
        try:
            opened = self.client.run_on_scheduler(remote.opened, __version__, self._run, self.client.id)
            version, has_earlier = opened
            if version != __version__:
                raise Failure(f"the scheduler at {self._address} has planrunner {version}, not {__version__}")
            until = time.monotonic() + _EARLIER
            while not self._is_over() and has_earlier:  # asked in any case: a worker without planrunner says so
                if time.monotonic() > until:
                    raise Failure("an earlier attempt of the run has not ended on the cluster", "transient")
        except Failure:
            raise
        except Exception as error:
            _unlike(self._address, error)

    def _is_over(self, key: str = "", workers: list[str] | None = None) -> bool:
        """Whether nothing is left of an attempt, without a key of earlier sessions of the run; waits a second."""
        about = (self._run, self.client.id, key, 1.0)
        work = self.client._run  # `run` takes no timeout, and connects for half a minute to a worker that has just died
        try:
            answers = self.client.sync(
                work, remote.over, *about, workers=workers, on_error="return", callback_timeout=_ANSWERING
            )
        except TimeoutError:
            return False
        for answer in answers.values():
            if isinstance(answer, Exception) and not isinstance(answer, OSError):
                raise answer
        return False not in answers.values()

    @property
    def over(self) -> bool:
        return bool(self.client.status != "running")

    @property
    def pid(self) -> int:
        return 0

    def end(self, forced: bool) -> None:
        """Nothing to begin: ``wait`` ends it."""

    def wait(self) -> None:
        with contextlib.suppress(Exception):  # the scheduler may be gone
            if not self.over:
                self._ask("close", session=self.client.id)
        with contextlib.suppress(Exception):
            self.client.close(timeout=2)

    def _ask(self, what: str, **arguments: str) -> Any:
        """What the books of the scheduler say."""
        return self.client.sync(getattr(self.client.scheduler, f"planrunner_{what}"), **arguments)

    def workers(self) -> dict[str, dict[str, float]]:
        """The workers with their resources, as they were at most two seconds ago. Raises Failure."""
        with self._lock:
            if not self._workers or time.monotonic() > self._looked + _LOOK:
                try:
                    self._workers = self._ask("workers")
                except Exception as error:
                    raise Failure(f"the scheduler at {self._address} is gone: {_line(error)}", "transient") from None
                self._looked = time.monotonic()
            return self._workers

    def run(self, context: Context, order: Order, resources: dict[str, float]) -> Done:
        """Have a worker run a program; gives how it ended. Raises Failure, ``lost`` where that is not known."""
        self._require(resources)
        count_call(context)
        submitted: Any = self.client.submit(
            remote.attempt, order, key=order.key, pure=False, retries=0, resources=resources or None
        )
        done = threading.Event()
        submitted.add_done_callback(lambda _: done.set())
        try:
            looked = time.monotonic()
            while not done.wait(_SLICE):
                if context.cancelled():
                    self._cancel(submitted, order)
                    raise Failure("stopped on the cluster", "interrupted")
                if time.monotonic() > looked + _LOOK and not self.over:
                    looked = time.monotonic()
                    self._look(order, resources)
            return self._result(submitted, order)
        finally:
            with contextlib.suppress(Exception):
                submitted.release()

    def _look(self, order: Order, resources: dict[str, float]) -> None:
        """Raises Failure where an attempt will not end: the worker that began it is gone, or none can begin it."""
        worker, is_there = self._beginner(order)
        if not worker:
            self._require(resources)
        elif not is_there:
            raise lost(f"the worker {worker}, which began it, is gone")

    def _require(self, resources: dict[str, float]) -> None:
        """Raises Failure where no worker has these resources: Dask would wait for one."""
        workers = self.workers()
        if not workers:
            raise Failure(f"the Dask cluster at {self._address} has no workers", "transient")
        if any(all(worker.get(name, 0) >= much for name, much in resources.items()) for worker in workers.values()):
            return
        wanted = ", ".join(f"{name}={much:g}" for name, much in sorted(resources.items()))
        offers = sorted(
            {", ".join(f"{name}={much:g}" for name, much in sorted(each.items())) for each in workers.values()}
        )
        said = "; ".join(each or "none" for each in offers)
        raise Failure(f"no worker has the resources {wanted}; the workers have: {said}")

    def _cancel(self, submitted: Any, order: Order) -> None:
        """Cancel an attempt, and wait until its program is gone."""
        with contextlib.suppress(Exception):  # a scheduler that is gone has taken its workers with it
            submitted.cancel(force=True)
            worker, is_there = self._beginner(order)
            if is_there:
                self._is_over(order.key, [worker])

    def _beginner(self, order: Order) -> tuple[str, bool]:
        try:
            worker, is_there = self._ask("beginner", session=order.session, key=order.key)
        except Exception as error:
            raise self._without_scheduler(error) from None
        return worker, is_there

    def _without_scheduler(self, error: Exception) -> Failure:
        return lost(f"the scheduler at {self._address} is gone ({_line(error)})")

    def _result(self, submitted: Any, order: Order) -> Done:
        try:
            done: Done = submitted.result(timeout=_GATHERING)
        except KilledWorker as error:
            worker, _ = self._beginner(order)
            if not worker:
                raise Failure(f"{_line(error)}, and none of them began it", "transient") from None
            raise lost(f"the worker {worker}, which began it, is gone") from None
        except (FutureCancelledError, TimeoutError, OSError) as error:
            raise self._without_scheduler(error) from None
        except Exception as error:
            _unlike(self._address, error)
        if done.elsewhere:
            raise lost(f"the worker {done.elsewhere}, which began it, is gone")
        return done


def lost(why: str) -> Failure:
    """The failure of an attempt whose end is not known."""
    return Failure(f"{why}; the program may have run to its end", "lost")


def _unlike(address: str, error: Exception) -> NoReturn:
    """Raises Failure for a scheduler or worker that cannot do what this planrunner asks."""
    wanted = f"scheduler and workers need planrunner {__version__} with the extra `dask`"
    raise Failure(f"the Dask cluster at {address} cannot run it: {_line(error)}; {wanted}") from None


def _line(error: BaseException) -> str:
    """What an exception says, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
