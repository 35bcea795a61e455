"""A runner without tasks, driven by the tests in a process of its own: ``journal_writer.py MODE STATE RUN …``.

It prints ``ack N`` after each acknowledged append, N being the last seq that is durable.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from planrunner.errors import RunHeld
from planrunner.journal.records import Lease, NewRun
from planrunner.journal.sqlite import Journal, open_journal
from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry, Outcome, RunEnded, RunStarted, TaskSettled

if TYPE_CHECKING:
    from planrunner.machine.events import Event


def script(tasks: int) -> list[list[Event]]:
    """The appends of a run of a chain of tasks; the end of one and the start of the next share an append."""
    appends: list[list[Event]] = [[RunStarted("digest", {}, 7), AttemptStarted("t0", 1, "k0")]]
    for number in range(tasks):
        done: list[Event] = [
            AttemptEnded(f"t{number}", 1, Outcome(exit_code=0)),
            TaskSettled(f"t{number}", "completed"),
        ]
        following: Event = RunEnded("completed")
        if number + 1 < tasks:
            following = AttemptStarted(f"t{number + 1}", 1, f"k{number + 1}")
        appends.append([*done, following])
    return appends


def numbered(after: int, events: list[Event]) -> list[Entry]:
    return [Entry(seq, float(seq), event) for seq, event in enumerate(events, after + 1)]


def say(handle: Lease) -> None:
    os.write(1, b"ack %d\n" % handle.last_seq)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write(state: str, run: str, tasks: int, deadly: int) -> None:
    """Begin or take up the scripted run; kill ourselves after ``deadly`` acknowledged appends (0: never)."""
    journal = open_journal(state)
    plan = [event for append in script(tasks) for event in append]
    ends = [sum(len(part) for part in script(tasks)[: count + 1]) for count in range(tasks + 1)]
    known = [row.run for row in journal.runs()]
    if run in known:
        handle = journal.acquire(run)
    else:
        handle = journal.create_run(NewRun(run, "chain", "digest", 1.0))
    appends = 0
    for end in ends:
        if end > handle.last_seq:
            journal.append(handle, numbered(handle.last_seq, plan[handle.last_seq : end]))
            say(handle)
            appends += 1
            if appends == deadly:
                die()
    journal.release(handle)
    journal.close()


def flood(state: str, run: str) -> None:
    """Append in batches of growing and shrinking size until killed."""
    journal = open_journal(state)
    handle = journal.create_run(NewRun(run, "flood", "digest", 1.0))
    size = 1
    while True:
        events: list[Event] = [TaskSettled(f"t{number}", "completed", detail="x" * 50) for number in range(size)]
        journal.append(handle, numbered(handle.last_seq, events))
        say(handle)
        size = size * 3 % 97 + 1


def race(state: str, run: str, rounds: int) -> None:
    """At each round wait for a line, try to hold the run, say how it went, wait for another line, let go."""
    journal = open_journal(state)
    os.write(1, b"ready\n")
    for _ in range(rounds):
        sys.stdin.readline()
        handle = None
        try:
            handle = journal.acquire(run)
            os.write(1, b"won\n")
        except RunHeld:
            os.write(1, b"lost\n")
        sys.stdin.readline()
        if handle is not None:
            journal.release(handle)
        os.write(1, b"free\n")
    journal.close()


def keep(state: str, run: str) -> None:
    """Hold a run until killed."""
    journal: Journal = open_journal(state)
    journal.acquire(run)
    os.write(1, b"held\n")
    time.sleep(600)


def first(state: str, run: str) -> None:
    """Wait for a line, then open a state directory that may not exist yet, and write one run."""
    os.write(1, b"ready\n")
    sys.stdin.readline()
    write(state, run, 3, 0)


if __name__ == "__main__":
    mode, state, run = sys.argv[1:4]
    numbers = [int(word) for word in sys.argv[4:]]
    {"write": write, "flood": flood, "race": race, "keep": keep, "first": first}[mode](state, run, *numbers)  # type: ignore[operator]
