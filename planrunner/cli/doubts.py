"""Asks at the terminal what became of tasks that were interrupted, before their run goes on."""

from __future__ import annotations

import sys

from planrunner.app.inspect import look
from planrunner.app.settling import Doubt, open_doubts
from planrunner.cli.options import Pairs, ResumeOptions
from planrunner.cli.settings import Settings, messages
from planrunner.views.terminal import foreign

_ANSWERS = {"r": "retry", "c": "completed", "f": "failed", "b": "rollback"}


def decided(given: Settings, options: ResumeOptions) -> Pairs:
    """What the options say of tasks in doubt, or else the person at the terminal; nothing where nobody can be asked."""
    alone = options.unattended or options.no_wait or given.no_input
    if options.settle or alone or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return options.settle
    found: list[tuple[str, str]] = []
    looked = look(options.run, given.state)
    for doubt in () if looked.row.held or looked.row.status else open_doubts(looked.state):
        answer = _asked(given, doubt)
        if not answer:
            break
        found.append((doubt.task, answer))
    return tuple(found)


def _asked(given: Settings, doubt: Doubt) -> str:
    """The answer about one task; empty to decide later."""
    screen = messages(given)
    command = doubt.command.splitlines()
    lines = [f"`{doubt.name}` was interrupted, result unknown", *(f"    {line}" for line in command)]
    screen.write("".join(f"{foreign(screen, line)}\n" for line in lines))
    back = ", roll[b]ack" if doubt.undoable else ""
    while True:
        screen.write(f"[r]etry, [c]ompleted, [f]ailed{back}, [q] decide later: ")
        line = sys.stdin.readline()
        word = line.strip().lower()
        answer = _ANSWERS.get(word, word)
        if not line or word in ("q", "quit"):
            return ""
        if answer in _ANSWERS.values() and (doubt.undoable or answer != "rollback"):
            return answer
