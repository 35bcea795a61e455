"""What a run loads of the machine: the policies of the features that its plan has."""

from __future__ import annotations

import subprocess
import sys

import pytest

from planrunner.later import Later, load
from planrunner.machine import policies
from planrunner.machine.evolve import FOLDS, LISTENERS, OF_EVERY_EVENT

TABLES = [
    *vars(policies).values(),
    *FOLDS.values(),
    *[fold for listeners in LISTENERS.values() for _, fold in listeners],
    *[fold for _, fold in OF_EVERY_EVENT],
]
PLACES = sorted({each.place for each in TABLES if isinstance(each, Later)})


@pytest.mark.parametrize("place", PLACES)
def test_every_place_in_the_tables_is_one(place: str) -> None:
    assert callable(load(place))


A_PLAIN_RUN = """
import sys
from planrunner.machine.decide import decide
from planrunner.machine.events import AttemptEnded, AttemptStarted, Outcome, RunStarted, TaskSettled
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.plan.model import Plan, Task

state = State(Plan("one", tasks=(Task("a", uses="noop"), Task("b", uses="noop", needs=("a",)))), "run")
evolve(state, RunStarted("sha256:0", {}, 7), 1.0)
for name in "ab":
    assert [type(command).__name__ for command in decide(state, 1.0).commands] == ["Start"]
    evolve(state, AttemptStarted(name, 1, "key", ""), 1.0)
    evolve(state, AttemptEnded(name, 1, Outcome()), 2.0)
    for command in decide(state, 2.0).commands:
        evolve(state, command.event, 2.0)
print(type(decide(state, 2.0).commands[0]).__name__)
print(*sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith("planrunner.machine.")))
"""


def test_a_plan_without_features_loads_no_policy() -> None:
    ran = subprocess.run([sys.executable, "-c", A_PLAIN_RUN], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    command, modules = ran.stdout.splitlines()
    assert command == "End"
    plain = "commands decide events evolve graph names policies state statuses stops timers"
    assert modules.split() == plain.split()
