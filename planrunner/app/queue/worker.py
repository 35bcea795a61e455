"""The worker: takes runs from the queue of one project and acts on them in a host."""

from __future__ import annotations


class Worker:
    """Works off the queue of a project in threads of its own until it is closed. ``root`` is the directory of the
    project, ``state`` its state directory, both absolute.

    One worker of a state directory acts at a time; another one stands by and takes over when that ends. It acts for
    whoever asked for each run. What a dead worker left is taken up first.
    """

    def __init__(self, root: str, state: str) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Begin, in a thread. Raises StorageFailed for a state directory that cannot be used."""

    def close(self, timeout: float | None = None) -> None:
        """Take nothing more, ask every run to stop (it is parked as by SIGTERM and goes on with the next worker), and
        wait ``timeout`` seconds at most for each."""

    @property
    def is_acting(self) -> bool:
        """Whether this worker has the lease of the queue; else another one has."""
        return False

    @property
    def problem(self) -> str:
        """Why it cannot work at the moment, for people; empty where it can."""
        return ""
