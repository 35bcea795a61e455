"""INT, TERM and HUP as something the loop waits for."""

from __future__ import annotations

import signal
from collections import deque
from types import FrameType

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Catches the signals that ask to stop, until ``close``; does nothing outside the main thread.

    A signal that was ignored before (``nohup``, a job in the background) stays ignored. ``asked`` counts the requests;
    from the third one on KeyboardInterrupt is raised wherever the program is, for a loop that no longer turns.
    """

    __slots__ = ("_before", "_descriptor", "_pending", "asked")

    def __init__(self, wake: int) -> None:
        self.asked = 0
        self._pending: deque[int] = deque()
        self._before: dict[int, object] = {}
        self._descriptor: int | None = None
        try:
            self._descriptor = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        except ValueError:
            return
        for number in _WATCHED:
            before = signal.getsignal(number)
            if before != signal.SIG_IGN and before is not None:
                self._before[number] = before
                signal.signal(number, self._note)

    def take(self) -> list[int]:
        """The signals that came since the last look."""
        taken = []
        while self._pending:
            taken.append(self._pending.popleft())
        return taken

    def close(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]
        if self._descriptor is not None:
            signal.set_wakeup_fd(self._descriptor)
        self._before.clear()
        self._descriptor = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked += 1
        self._pending.append(number)
        if self.asked > 2:
            signal.default_int_handler(signal.SIGINT, frame)  # no `raise` of ours: nobody takes it for a fault
