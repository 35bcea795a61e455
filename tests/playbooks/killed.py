"""planrunner in a process that is killed while it runs a playbook:

python killed.py write:12 exec release     right before its 12th write to the journal
python killed.py end:tag exec release      right before it stores that an attempt at the task `tag` has ended
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from simulator.crashes import die_at

from planrunner.cli import main
from planrunner.journal.stores import LOCAL
from planrunner.machine.events import AttemptEnded, Entry


def die_at_the_end_of(task: str) -> None:
    original = LOCAL.append

    def append(self: Any, run: Any, entries: Sequence[Entry], *rest: Any) -> Any:
        for entry in entries:
            if isinstance(entry.event, AttemptEnded) and fnmatchcase(entry.event.task, task):
                os.kill(os.getpid(), signal.SIGKILL)
        return original(self, run, entries, *rest)

    LOCAL.append = append  # type: ignore[method-assign]


if __name__ == "__main__":
    moment, _, which = sys.argv[1].partition(":")
    if moment == "write":
        die_at(int(which), stored=False, told=lambda count, entries: None)
    else:
        die_at_the_end_of(which)
    raise SystemExit(main(sys.argv[2:]))
