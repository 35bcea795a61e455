"""The lease of a queue: one process at a time works it off."""

from __future__ import annotations

from planrunner.journal.process_leases import ProcessLease, process_with

_NAME = "queue.worker"


def worker_lease(state: str) -> ProcessLease:
    """The right to work off the queue of a state directory."""
    return ProcessLease(state, _NAME)


def worker_of(state: str) -> str:
    """The process that works off the queue of a state directory, as people read it; empty where none does."""
    return process_with(state, _NAME)
