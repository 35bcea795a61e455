"""The tables of statuses are the only way anything changes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rows import rows

from planrunner.machine import events
from planrunner.machine.statuses import RUN, SETTLED, TASK, IllegalMove, check_run, check_task

if TYPE_CHECKING:
    from planrunner.machine.events import RunStatus, TaskStatus


def test_every_status_has_a_row() -> None:
    text = Path(events.__file__).read_text()
    for table, name in ((TASK, "TaskStatus"), (RUN, "RunStatus")):
        declared = re.search(rf"{name} = Literal\[(.*?)\]", text, re.DOTALL)
        assert declared is not None
        assert set(table) == set(re.findall(r'"(\w+)"', declared[1]))


@rows(("old", "new"), list(itertools.product(TASK, TASK)))
def test_a_move_of_a_task_is_allowed_exactly_when_the_table_has_it(old: TaskStatus, new: TaskStatus) -> None:
    if new in TASK[old]:
        check_task("t", old, new)
    else:
        with pytest.raises(IllegalMove, match="cannot go from"):
            check_task("t", old, new)


@rows(("old", "new"), list(itertools.product(RUN, RUN)))
def test_a_move_of_a_run_is_allowed_exactly_when_the_table_has_it(old: RunStatus, new: RunStatus) -> None:
    if new in RUN[old]:
        check_run(old, new)
    else:
        with pytest.raises(IllegalMove, match="cannot go from"):
            check_run(old, new)


def test_nothing_leaves_a_settled_status_but_a_rollback_and_being_sent_back() -> None:
    for status in SETTLED:
        assert TASK[status] <= {"rolled_back", "pending", "running"}
