"""Stepping through a recorded run: forwards, backwards, and to breakpoints."""

from __future__ import annotations

from io import StringIO

import pytest
from workbench import planrunner

from planrunner.app.history.replay import history
from planrunner.errors import PlanrunnerError
from planrunner.machine.evolve import fold
from planrunner.shell.recording import Recording
from planrunner.shell.stepper import Stepper
from planrunner.views.terminal import Terminal

PLAN = """\
plan: stages
params: {level: {type: int, default: 3}}
tasks:
  - {id: build, run: echo built, timeout: 10s}
  - id: fan
    foreach: [1, 2]
    as: item
    needs: [build]
    subplan:
      - {id: work, run: "echo {{ item }}", timeout: 10s}
  - {id: test, run: exit 3, timeout: 10s, needs: [fan], retry: {attempts: 2, delay: 10ms}}
"""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("steps")
    (folder / "planrunner.yaml").write_text("{}\n")
    (folder / "stages.yaml").write_text(PLAN)
    done = planrunner(folder, "exec", "stages.yaml", "--progress", "quiet")
    assert done.returncode == 1, done.stderr
    return str(folder / ".planrunner")


@pytest.fixture
def kept() -> list[tuple[str, ...]]:
    return []


@pytest.fixture
def stepper(state: str, kept: list[tuple[str, ...]]) -> Stepper:
    return Stepper(Recording(history("last", state)), Terminal(StringIO()), kept.append)


def statuses(stepper: Stepper) -> dict[str, str]:
    now = stepper.recording.state
    return {spec.id: task.status for spec, task in zip(now.specs, now.tasks, strict=True)}


def test_every_step_leads_to_the_state_that_the_journal_gives(stepper: Stepper) -> None:
    entries = stepper.recording.entries
    for position in range(1, len(entries) + 1):
        stepper.do("")
        whole = fold(stepper.recording.state.plan, stepper.recording.run_id, entries[:position])
        assert statuses(stepper) == {spec.id: task.status for spec, task in zip(whole.specs, whole.tasks, strict=True)}
    assert "the recording ends here" in stepper.do("step")[-1]
    stepper.do(f"back {len(entries)}")
    assert (stepper.recording.position, statuses(stepper)["build"]) == (0, "pending")


def test_a_breakpoint_on_a_task_stops_where_its_status_changes(stepper: Stepper) -> None:
    stepper.do("break test")
    seen = []
    while not stepper.recording.is_over:
        stepper.do("continue")
        seen.append(statuses(stepper)["test"])
    assert seen[0] == "running"
    assert "failed" in seen
    stepper.do("reverse")
    assert statuses(stepper)["test"] == "failed"
    stepper.do("reverse")
    assert statuses(stepper)["test"] != "failed"


def test_a_condition_stops_once_where_it_begins_to_hold(stepper: Stepper) -> None:
    stepper.do("break when tasks.build.status == 'completed' and params.level == 3")
    stepper.do("c")
    assert statuses(stepper)["build"] == "completed"
    assert statuses(stepper)["test"] == "pending"
    stepper.do("c")
    assert stepper.recording.is_over


def test_an_event_stops_by_its_type_and_conditions_read_it(stepper: Stepper) -> None:
    stepper.do("break event attempt_ended")
    stepper.do("c")
    assert statuses(stepper)["build"] == "running"
    assert stepper.do("print event.task") == ['"build"']
    stepper.do("delete")
    stepper.do("break when event.type == 'task_settled' and event.task == 'test'")
    stepper.do("c")
    assert statuses(stepper)["test"] == "failed"


def test_next_leaves_a_task_and_goto_names_an_entry(stepper: Stepper) -> None:
    stepper.do("goto 2")
    first = stepper.recording.entry
    assert first is not None
    assert getattr(first.event, "task", "") == "build"
    stepper.do("next")
    assert statuses(stepper)["build"] == "completed"


def test_what_is_shown_is_of_that_moment(stepper: Stepper) -> None:
    stepper.do("goto 2")
    assert "build" in "\n".join(stepper.do("state"))
    assert stepper.do("why build")[0] == "`build` is running"
    assert any(line.startswith(">     2") for line in stepper.do("list 3"))


def test_breakpoints_are_kept_and_come_back(stepper: Stepper, kept: list[tuple[str, ...]], state: str) -> None:
    stepper.do("break test")
    stepper.do("break event task_settled")
    assert kept[-1] == ("test", "event task_settled")
    other = Stepper(Recording(history("last", state)), Terminal(StringIO()), lambda _: None)
    [left] = other.restore((*kept[-1], "gone"))
    assert "`gone` is left out" in left
    assert [each.text for each in other.breakpoints] == ["test", "event task_settled"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("stpe", "no command `stpe`, did you mean `step`?"),
        ("break tset", "tset"),
        ("break event task_setled", "did you mean `task_settled`?"),
        ("break when (", "the condition does not parse"),
        ("delete 4", "there is no breakpoint 4"),
        ("print tasks.nothing", "the expression has no value here"),
        ("goto x", "`x` is not a number"),
        ("why", "`why` needs a task"),
        ("back -1", "`-1` is not a number"),
    ],
)
def test_a_wrong_command_says_what_it_takes(stepper: Stepper, line: str, said: str) -> None:
    with pytest.raises(PlanrunnerError) as raised:
        stepper.do(line)
    assert said in f"{raised.value.message} {raised.value.hint}"
    assert stepper.recording.position == 0
