"""The policies that not every plan needs, each by the place of its function, which is loaded with the first call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from planrunner.later import Later

if TYPE_CHECKING:
    from planrunner.machine.commands import Command, Compare, Record, Start
    from planrunner.machine.events import Outcome
    from planrunner.machine.graph import Frame
    from planrunner.machine.state import GateState, State, TaskState
    from planrunner.machine.timers import Timer
    from planrunner.plan.model import Retry, Task
    from planrunner.plan.rights import Level

Json = Any
Ask = Callable[["State", int], "Command | None"]
Step = Callable[["State", int, float], "Command | None"]
Is = Callable[["State", int], bool]
InPlace = Callable[["State", "Command", float], "Command | None"]
"""What comes in place of a command: itself, another one, or nothing yet."""

# Before an attempt

needs_and_edges: Callable[[State, int], tuple[bool, Command | None]] = Later("planrunner.machine.joins:needs_and_edges")
conditions_first: Callable[[State, int], tuple[bool, Command | None]] = Later(
    "planrunner.machine.joins:conditions_first"
)
compute: Ask = Later("planrunner.machine.joins:compute")
hook_asks: Callable[[State, int], str] = Later("planrunner.machine.rights:hook_asks")
stage_before: Callable[[State, int], str] = Later("planrunner.machine.gates:stage_before")
freshness_first: Ask = Later("planrunner.machine.reuse:freshness_first")
compared: Callable[[State, int], Compare | None] = Later("planrunner.machine.reuse:compared")
is_still_approved: Is = Later("planrunner.machine.reuse:is_still_approved")
begin: Callable[[State, int], Command] = Later("planrunner.machine.containers:begin")
reissue: Callable[[State, int], Start] = Later("planrunner.machine.recovery:reissue")
waits_for_service: Is = Later("planrunner.machine.rework:waits_for_service")
omitted_after_service: Ask = Later("planrunner.machine.rework:omitted_after_service")
new_admission: Callable[[State, float], Any] = Later("planrunner.machine.admission:Admission")

# While one is under way, and after it

gate_step: Step = Later("planrunner.machine.gates:step")
container_step: Step = Later("planrunner.machine.containers:step")
recover: Ask = Later("planrunner.machine.recovery:recover")
judge: Callable[[State, int], Any] = Later("planrunner.machine.verdicts:judge")
judge_failed: Callable[[GateState | None, int], Any] = Later("planrunner.machine.verdicts:judge_failed")
why_again: Callable[[State, int, int], str] = Later("planrunner.machine.verdicts:why_again")
retry_policy: Callable[[Retry, Outcome | None, int, str], Retry | None] = Later(
    "planrunner.machine.verdicts:retry_policy"
)
retry_delay: Callable[[Retry, int, str, float | None], float] = Later("planrunner.machine.verdicts:retry_delay")
has_room: Is = Later("planrunner.machine.budgets:has_room")
sent_back: Callable[[State, int, str, str], Record | None] = Later("planrunner.machine.rework:by_edge")
sentence_of_gate: Callable[[GateState], str] = Later("planrunner.machine.gates:sentence")
is_all_kept: Is = Later("planrunner.machine.reuse:is_all_kept")
left_changes: Callable[[Any], bool] = Later("planrunner.machine.rollback:left_changes")
handlers: Callable[[State, int], list[int]] = Later("planrunner.machine.joins:handlers")
has_next: Is = Later("planrunner.machine.joins:has_next")

# In place of what was decided

redirected: InPlace = Later("planrunner.machine.rework:redirected")
conclusive: InPlace = Later("planrunner.machine.joins:conclusive")
kept_first: InPlace = Later("planrunner.machine.checkpoints:kept_first")
saved_first: Callable[[State, list[Command]], list[Command]] = Later("planrunner.machine.rollback:saved_first")
held_back: Callable[[State, list[Command], float], list[Command]] = Later("planrunner.machine.admission:held_back")

# Of time

alarm: Callable[[State, int, int], Command | None] = Later("planrunner.machine.clocks:alarm")
ring: Callable[[State, list[Timer]], list[Command]] = Later("planrunner.machine.clocks:ring")
time_left: Callable[[State, Task, float], bool] = Later("planrunner.machine.clocks:time_left")
no_room: Callable[[Task, str], str] = Later("planrunner.machine.clocks:no_room")

# Of the run as a whole

govern: Callable[[State, Iterable[Mapping[str, Json]]], None] = Later("planrunner.machine.rights:govern")
budget_notices: Callable[[State, float], list[Command]] = Later("planrunner.machine.budgets:notices")
time_limit: Callable[[State], float | None] = Later("planrunner.machine.budgets:time_limit")
warning_time: Callable[[State], float | None] = Later("planrunner.machine.budgets:warning_time")
resets_due: Callable[[State], list[Record]] = Later("planrunner.machine.rework:due")
proposed: Callable[[State], int | None] = Later("planrunner.machine.agents:proposed")
undone_first: Callable[[State, Frame], bool] = Later("planrunner.machine.containers:undone_first")
comes_first: Callable[[State], bool] = Later("planrunner.machine.rollback:comes_first")
continue_rollbacks: Callable[[State, float], list[Command]] = Later("planrunner.machine.rollback:continue_rollbacks")
is_undoing: Callable[[State], bool] = Later("planrunner.machine.rollback:busy")
pause_meters: Callable[[State], list[Command]] = Later("planrunner.machine.clocks:pause_meters")
hypotheses_in_scope: Callable[..., Json] = Later("planrunner.machine.hypotheses:in_scope")

# Of calls, for the engine

task_scope: Callable[[State, int, int, Mapping[int, TaskState]], Any] = Later("planrunner.machine.scope:TaskScope")
plan_of: Callable[[State, Frame], Any] = Later("planrunner.machine.scope:plan_of")
takes_back: Callable[[State, Task], bool] = Later("planrunner.machine.compensation:takes_back")
levels_of: Callable[[State, int], tuple[Level, ...]] = Later("planrunner.machine.rights:levels_of")
is_limited: Callable[[State, int, str], bool] = Later("planrunner.machine.budgets:is_limited")
approved_files: Callable[[State, int], tuple[str, ...]] = Later("planrunner.machine.gates:approved")
