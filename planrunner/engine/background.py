"""The services of a run: processes whose attempt ends when they are ready, and which go on to the end of the run."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from planrunner.machine.events import Outcome

if TYPE_CHECKING:
    from planrunner.capabilities.contract import Call, Exit
    from planrunner.engine.attempts import Attempt
    from planrunner.engine.poller import Poller
    from planrunner.engine.processes import Supervisor
    from planrunner.plan.model import Plan


class Host(Protocol):
    """The effects of the run: they make calls, report what they came to, and do something aside in a thread."""

    def in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None: ...

    def begin(self, call: Call) -> None: ...

    def report(self, call: Call, outcome: Outcome) -> None: ...


class Attempts(Protocol):
    """The attempts under way: whether one has not ended, the end of one whose process goes on, and the failure of those
    of a task."""

    def is_open(self, attempt: Attempt) -> bool: ...

    def serve(self, attempt: Attempt) -> None: ...

    def fail(self, task: str, message: str) -> None: ...


AGAIN = 0.05
"""Seconds between two looks whether a service is ready."""
PATIENCE = 2.0
"""Seconds that an answer may take."""
_HERE = ("127.0.0.1", "localhost", "::1")
_SILENT = "did not answer"
_LINES = 3
"""Of its last output, in the message about a service that has ended."""


def users_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The services that the tasks of a plan need, by the id of the task; empty where the plan has none."""
    services = {task.id for task in plan.tasks if task.ready}
    if not services:
        return {}
    return {task.id: tuple(need for need in task.needs if need in services) for task in plan.tasks}


class Background:
    """The services of one run, by the id of their task. Calls that need one which is being started again wait here."""

    def __init__(
        self,
        host: Host,
        attempts: Attempts,
        poller: Poller,
        supervisor: Supervisor,
        users: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._host = host
        self._attempts = attempts
        self._poller = poller
        self._supervisor = supervisor
        self._users = users
        self._serving: dict[str, Attempt] = {}
        self._seen: dict[str, str] = {}
        """What services answered that are not ready."""
        self._over: dict[str, str] = {}
        """Why services do not serve any more."""
        self._waiting: list[Call] = []
        self.closed = False

    def admits(self, call: Call) -> bool:
        """Whether a call may be made now; one that may not waits, or has failed."""
        wanted = self._wanted(call)
        if over := [self._over[name] for name in wanted if name in self._over]:
            self._host.report(call, Outcome("logic", over[0]))
            return False
        if not all(name in self._serving for name in wanted):
            self._waiting.append(call)
            return False
        if call.ready and (problem := taken(call.ready)):
            self._host.report(call, Outcome("transient", problem, acted=False))
            self._lose(call.name, f"the service `{call.name}` did not start: {problem}")
            return False
        return True

    def _wanted(self, call: Call) -> Sequence[str]:
        return self._users.get(_top(call.name), ())

    def is_stuck(self) -> bool:
        """Whether calls wait for a service; asked when nothing else is on its way."""
        return bool(self._waiting)

    def give_up(self) -> None:
        """Fail the calls that wait for a service which nothing starts."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            lacking = next(name for name in self._wanted(call) if name not in self._serving)
            self._host.report(call, Outcome("logic", f"the service `{lacking}` was not started"))

    def drop(self, outcome: Outcome, task: str = "") -> None:
        """Let the calls that wait, or that of one task, end without having been made."""
        dropped = [call for call in self._waiting if task in ("", call.name)]
        self._waiting = [call for call in self._waiting if task not in ("", call.name)]
        for call in dropped:
            self._host.report(call, outcome)

    def begun(self, attempt: Attempt) -> None:
        """The process of a service has started: look for its being ready."""
        self._over.pop(attempt.call.name, None)
        ready = attempt.call.ready
        if ready.startswith("log:"):
            attempt.record.listen(ready.removeprefix("log:").strip().encode(), partial(self._is_ready, attempt))
        else:
            self._ask(attempt)

    def _ask(self, attempt: Attempt) -> None:
        if self._attempts.is_open(attempt):
            self._host.in_thread(partial(address_fault, attempt.call.ready), partial(self._answered, attempt))

    def _answered(self, attempt: Attempt, lack: str) -> None:
        if not lack:
            self._is_ready(attempt)
        else:
            self._seen[attempt.call.name] = lack
            self._poller.after(AGAIN, partial(self._ask, attempt))

    def _is_ready(self, attempt: Attempt) -> None:
        process = attempt.process
        if process is None or process.pidfd < 0 or process.forced or not self._attempts.is_open(attempt):
            return
        self._poller.cancel(process.timer)
        self._serving[attempt.call.name] = attempt
        attempt.record.keep_to_itself()
        self._attempts.serve(attempt)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._host.begin(call)

    def ended(self, attempt: Attempt, end: Exit, outcome: Outcome) -> Outcome | None:
        """What an attempt comes to whose process has ended; None where it had been ready."""
        name = attempt.call.name
        if self._serving.pop(name, None) is None:
            if outcome.failure == "interrupted":
                return outcome
            outcome = _not_ready(attempt.call, end, outcome, self._seen.pop(name, _SILENT))
            self._lose(name, f"the service `{name}` {outcome.message}")
            return outcome
        attempt.withdraw()
        if not self.closed:
            self._lose(name, f"the service `{name}` has ended: {outcome.message or 'exit code 0'}{_last_lines(end)}")
        return None

    def _lose(self, name: str, message: str) -> None:
        self._over[name] = message
        for task, wanted in self._users.items():
            if name in wanted:
                self._attempts.fail(task, message)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._host.begin(call)

    def stop(self, forced: bool) -> None:
        """End all of them: TERM and, after the grace, KILL; ``forced`` is KILL at once."""
        self.closed = True
        for attempt in self._serving.values():
            if attempt.process is not None:
                self._supervisor.interrupt(attempt.process, forced)


def is_of(call: Call, task: str) -> bool:
    """Whether a call is made for a task at the top of the plan, or for one that it holds."""
    return _top(call.name) == task


def _top(path: str) -> str:
    return re.split(r"[/#@\[]", path, maxsplit=1)[0]


def _not_ready(call: Call, end: Exit, outcome: Outcome, seen: str) -> Outcome:
    """What became of a service that did not become ready; ``seen`` is the last answer of its address."""
    if outcome.failure == "timeout":
        what = f"was not ready in time: {call.ready} {'did not appear' if call.ready[:4] == 'log:' else seen}"
        return outcome._replace(message=what + _last_lines(end))
    if outcome.failure:
        return outcome._replace(message=f"ended before it was ready: {outcome.message}")
    message = "ended before it was ready (exit code 0): a service stays in the foreground"
    return outcome._replace(failure="logic", message=message + _last_lines(end), outputs={})


def _last_lines(end: Exit) -> str:
    lines = [line.strip()[:200] for line in (end.stderr.strip() or end.stdout.strip()).splitlines()[-_LINES:]]
    return f"; its last output: {' / '.join(lines)}" if lines else ""


def _place(address: str) -> tuple[str, int]:
    """Host and port of an address, which must be one of this machine; raises ValueError."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or 80
    if host not in _HERE:
        raise ValueError(f"{host} is not an address of this machine")
    return host, port


def taken(address: str) -> str:
    """That another program listens there, empty where none does."""
    if address.startswith("log:"):
        return ""
    try:
        host, port = _place(address)
    except ValueError:
        return ""  # it does not become ready, which says more
    try:
        socket.create_connection((host, port), PATIENCE).close()
    except TimeoutError:
        pass  # it listens, but takes no connections
    except OSError:
        return ""
    return f"port {port} of {host} is in use by another program"


def address_fault(address: str) -> str:
    """What an address lacks that is to take a connection, or to give a page; empty where it does."""
    import http.client

    try:
        host, port = _place(address)
        parts = urlsplit(address)
        if parts.scheme == "tcp":
            with socket.create_connection((host, port), PATIENCE):
                return ""
        connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
        try:
            connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
            status = connection.getresponse().status
            return "" if 200 <= status < 400 else f"answered {status}"
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException):
        return _SILENT
