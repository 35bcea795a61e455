"""The page ``docs/explanation/diagrams.md``: five diagrams, drawn from the code, the plans and a recorded run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from planrunner import hookspecs
from planrunner.app.follow.measures import COUNTING
from planrunner.app.follow.traces import ENDING
from planrunner.app.history.replay import read_history
from planrunner.app.history.state import plan_of
from planrunner.machine.events import EVENTS
from planrunner.machine.evolve import fold
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED, TASK
from planrunner.plan.graph import Graph
from planrunner.plan.load import load
from planrunner.plan.model import Plan, Role
from planrunner.plan.rules.reach import MEANING
from planrunner.plugins.registry import Registry
from planrunner.source import Source
from planrunner.statuses import status_word
from planrunner.views.graph import COLOURS, drawing, render_mermaid
from planrunner.views.status import run_statuses

ROOT = Path(__file__).resolve().parents[1]
HISTORY = ROOT / "tests" / "app" / "history" / "histories" / "nested.yaml.jsonl"
"""A run of ``plans/nested.yaml`` as the journal keeps it."""

PAGE = """\
# Five diagrams

{made}The graph of a plan, the life of a task, roles, tasks that come from tasks, and what leaves a run.
Each is drawn from the code, a plan or a recorded run. `planrunner graph PLAN --format mermaid` draws the first kind
for any plan, `planrunner graph --run RUN` colours it by a run. [Architecture](architecture.md) names the parts of
the program, the [execution model](execution-model.md) their rules.

## The graph of a plan

A plan is a directed graph without circles. Its nodes are tasks. An arrow says that a task comes after another one,
and when it is taken:

| arrow | written as | taken |
|---|---|---|
| solid, no words | `needs: [a]` | when `join` says so: by default, when all needs completed |
| solid, `on success`, `on always` | `next`, `on_success` | when the task ended so, and its `when` is true |
| dashed, `on failure` | `on_failure`, `failure_modes` | when the task failed; with `recovers` its target stands in |
| dashed, `when …` | `next` with `when` alone | when its condition is true, however the task ended |
| dashed, `at most n times` | `rework: TASK, max: n` | back to an earlier task; the only arrow that leads back |

{dag}
*Figure 1. [`plans/rework.yaml`](../../plans/rework.yaml): `review` needs `draft` and `pictures`; if it fails, the
run goes back to `draft`.*

Without the diagram: `draft` and `pictures` have no needs and start together. `review` starts when both completed. If
it fails, `draft` and what comes after `draft` is reset, four times at most; `pictures` does not come after `draft`
and is not run again. If `review` completes, `publish` starts. A circle of needs is an error of lint, with the circle
printed (`planrunner rule PLAN103`).

## The life of a task

Each task has one status. `planrunner/machine/statuses.py` has the table of changes that are allowed; any other
change is refused, in a run and in a replay. Statuses on the left are open, those in the box are settled: the task
waits for nothing.

{life}
*Figure 2. Statuses of a task. An arrow into the box names the settled statuses it can lead to.*

The same as a table, a row for each status, a column for what it can become:

{changes}
A usual life is `pending`, `running`, `completed`. `queued` is a task without a free slot, `blocked` one that waits
for a person, `in doubt` one whose attempt was cut off by a crash, its result unknown. `not run` is a
task that no path led to, `skipped` one whose own `when` is false. A settled task is pending again when it is reset
(`retry`, `rerun`, rework, a new revision of the plan). The [execution model](execution-model.md#statuses) defines
each status.

## The roles of tasks

A task has a role, which follows from the arrows to it and away from it; `role:` in a plan states it, and lint checks
it (`PLAN110`). There is no other routing: a run takes the arrows of the plan and nothing else.

{roles}
*Figure 3. [`plans/roles.yaml`](../../plans/roles.yaml), which has a task of each role.*

{routing}
A task that fits several rows has the first of them as its name: START, EXIT, SPLIT, DECISION, BRANCH, MERGE, LINEAR.
What follows a MERGE is decided by its `join` ([joins](../reference/joins.md)). A DECISION without a path that fits
fails: `else: true` on an edge names the path for all other cases.

## Where tasks come from

The graph of a run grows. A loop, a fan-out or a subplan is a *parent*: when it starts, the tasks inside it exist,
with names that are paths. A *subtask* is one written inside its parent: a step of a subplan, a task of a round. A
*clone* is one of several made from the same text: an item of a fan-out. Both are tasks like any other, with a
status, attempts and outputs of their own.

{lineage}
*Figure 4. The tasks of a recorded run of [`plans/nested.yaml`](../../plans/nested.yaml). Arrows lead from a parent
to what it started.*

{parents}
A parent completes when everything inside it is settled and no failure is left; a loop when its `until` holds, a
fan-out when no more items failed than `tolerate` allows. Its outputs are made from those of its tasks, for a fan-out
as lists in the order of the items. For the story of one task see `planrunner why 'improve#2/measure/bench[1]'`. A
new attempt of a parent makes new tasks (`build@2/compile`). The same run, drawn as the plan, with the statuses of the
last round (`planrunner graph --run last --format mermaid`):

{coloured}
*Figure 4b. The plan, coloured by the run.*

## Plugins and telemetry

Plugins add capabilities, lint rules and search providers, and watch runs. Everything that leaves a run is an event,
durable in the journal before anyone sees it. So what observes cannot influence: it reads copies, or the journal.

{plugins}
*Figure 5. What plugins add and see, and what telemetry is made of. Dashed arrows carry copies.*

{hooks}
Without the diagram: the engine decides, writes an event, then acts. Observers of plugins get a copy of each event in
a thread of their own; the run never waits for them. Measures, traces and notices read the journal at their own pace,
also after a restart ([measure runs](../how-to/measure-runs.md), [notices](../how-to/notices.md)). Of the {count}
kinds of events, {spans} end a span of a trace, and {counted} are counted. All of them, by what they are about:

| about | events |
|---|---|
{events}
[Events](../reference/events.md) lists their fields, [hooks](../reference/hooks.md) what a plugin is called with.
"""

CHANGES: dict[tuple[str, str], str] = {
    ("pending", "queued"): "no slot is free",
    ("pending", "running"): "an attempt starts",
    ("pending", "blocked"): "a person is asked",
    ("queued", "running"): "a slot is free",
    ("queued", "blocked"): "a person is asked",
    ("queued", "pending"): "delayed",
    ("running", "pending"): "a retry is scheduled",
    ("running", "running"): "issued again after a crash",
    ("running", "blocked"): "a person judges the result",
    ("running", "in_doubt"): "a crash cut it off",
    ("in_doubt", "queued"): "repeated, no slot is free",
    ("in_doubt", "running"): "repeated",
    ("in_doubt", "in_doubt"): "still unknown",
    ("in_doubt", "pending"): "a retry is scheduled",
    ("in_doubt", "blocked"): "a person judges the result",
    ("blocked", "pending"): "approved",
    ("blocked", "queued"): "approved, no slot is free",
    ("blocked", "running"): "approved, starts",
}
"""What changes an open status to another one."""

ROUTING: dict[str, str] = {
    "START": "what comes after it; it starts with the run itself",
    "LINEAR": "one task, when this one completed",
    "DECISION": "the edges whose outcome and condition hold; the tasks of the others are not run",
    "BRANCH": "all tasks after it, side by side",
    "SPLIT": "the tasks inside it; what comes after it starts when those are settled",
    "MERGE": "one task, when the `join` of this one is met and it completed",
    "EXIT": "nothing; the run ends when all tasks are settled",
}
"""Where a run goes from a task of each role."""

HOOKS: dict[str, tuple[str, str]] = {
    "planrunner_register_capabilities": ("tasks", "capabilities"),
    "planrunner_register_rules": ("lint", "lint rules"),
    "planrunner_register_search_providers": ("search", "search providers"),
    "planrunner_observe_event": ("", ""),
}
"""Each hook with the node that takes what it adds, and what that is; an observer adds nothing."""

ABOUT: dict[str, tuple[str, ...]] = {
    "the run": ("Run", "Stop", "Plan", "Revision", "Policy", "LeftAlone", "PeopleAwaited"),
    "tasks and attempts": ("Task", "Attempt", "Retry", "Failure", "Doubt", "Settings", "Facts", "Warned"),
    "loops, fan-outs, subplans": ("Frame",),
    "gates": ("Gate",),
    "budgets": ("Budget",),
    "files, reuse, resets": ("Backup", "Checkpoint", "Freshness", "Reset", "TasksReset"),
    "undo": ("Rollback", "Undo"),
}
"""Events by the beginnings of their names; the longest beginning counts."""


def page(made: str) -> str:
    """The text of the page; ``made`` is the line that says so."""
    state = _recorded()
    return PAGE.format(
        made=made,
        dag=_block(render_mermaid(drawing(_plan("rework.yaml")))),
        life=_block(_life()),
        changes=_changes(),
        roles=_block(_roles()),
        routing=_routing(),
        lineage=_block(_lineage(state)),
        parents=_parents(state),
        coloured=_block(render_mermaid(drawing(_plan("nested.yaml"), run_statuses(state)))),
        plugins=_block("\n".join(_plugins()) + "\n"),
        hooks=_hooks(),
        count=len(EVENTS),
        spans=_names(kind.__name__ for kind in ENDING),
        counted=len(COUNTING),
        events="".join(f"| {about} | {', '.join(f'`{name}`' for name in names)} |\n" for about, names in _about()),
    )


def _block(text: str) -> str:
    return f"```mermaid\n{text}```\n"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _plan(name: str) -> Plan:
    path = ROOT / "plans" / name
    plan = load(Source(path.read_text(encoding="utf-8"), str(path), "yaml"), Registry()).plan
    assert plan is not None, name
    return plan


def _recorded() -> State:
    history = read_history(str(HISTORY))
    return fold(plan_of(history.plan), history.run_id, history.entries)


def _life() -> str:
    """The table of statuses; raises ValueError where ``CHANGES`` does not say the same as it."""
    open_ = [status for status in TASK if status not in SETTLED]
    pairs = {(old, new) for old in open_ for new in TASK[old] if new not in SETTLED}
    if differing := pairs ^ CHANGES.keys():
        raise ValueError(f"docs/diagrams.py has to explain just the changes of the table, see {sorted(differing)}")
    lines = ["stateDiagram-v2", "  [*] --> pending"]
    lines += [f"  {old} --> {new}: {words}" for (old, new), words in CHANGES.items()]
    lines.append('  state "in doubt" as in_doubt')
    lines += ["  state settled {", '    state "not run" as omitted', '    state "rolled back" as rolled_back']
    undone = [old for old in TASK if old in SETTLED and "rolled_back" in TASK[old]]
    lines += [f"    {status}" for status in ("skipped", "omitted")]
    lines += [f"    {old} --> rolled_back: undone" for old in undone] + ["  }"]
    for old in open_:
        ends = [status_word(new) for new in TASK if new in SETTLED and new in TASK[old]]
        lines.append(f"  {old} --> settled: {', '.join(ends)}")
    if any("pending" not in TASK[old] for old in SETTLED):
        raise ValueError("docs/diagrams.py says that every settled task can be reset")
    lines += ["  settled --> pending: reset", "  settled --> running: a task inside is reset"]
    return "\n".join(lines) + "\n"


def _changes() -> str:
    """The whole table as a matrix."""
    head = "| from | " + " | ".join(status_word(new) for new in TASK) + " |\n|---|" + "---|" * len(TASK) + "\n"
    rows = (
        f"| {status_word(old)} | {' | '.join('yes' if new in targets else '' for new in TASK)} |\n"
        for old, targets in TASK.items()
    )
    return head + "".join(rows)


def _roles() -> str:
    """The graph of ``roles.yaml`` with the role of each task in its node."""
    plan = _plan("roles.yaml")
    drawn = drawing(plan)
    missing = set(get_args(Role)) - {node.role for node in drawn.nodes}
    if missing or set(get_args(Role)) != ROUTING.keys():
        raise ValueError(f"plans/roles.yaml or docs/diagrams.py lacks a role: {sorted(missing)}")
    return render_mermaid(drawn._replace(nodes=tuple(node._replace(title=node.role) for node in drawn.nodes)))


def _routing() -> str:
    graph = Graph(_plan("roles.yaml"))
    tasks: dict[str, str] = {}
    for at, task in enumerate(graph.tasks):
        tasks.setdefault(graph.role(at), task.id)
    rows = (f"| {role} | {MEANING[role]} | {where} | `{tasks[role]}` |\n" for role, where in ROUTING.items())
    return "| role | a task with | then the run takes | here |\n|---|---|---|---|\n" + "".join(rows)


def _lineage(state: State) -> str:
    lines = ["flowchart LR"]
    for number, task in enumerate(state.specs):
        attempts = state.tasks[number].attempts
        also = f"<br/>{attempts} attempts" if attempts > 1 else ""
        lines.append(f'  t{number}["{task.id.rpartition("/")[2]}{also}"]')
    lines += [f"  t{owner} -->|{word}| t{number}" for owner, word, number in _children(state)]
    for status in sorted({task.status for task in state.tasks}):
        fill, line = COLOURS[status]
        members = ",".join(f"t{number}" for number, task in enumerate(state.tasks) if task.status == status)
        lines += [f"  classDef {status} fill:{fill},stroke:{line},color:#111111", f"  class {members} {status}"]
    return "\n".join(lines) + "\n"


def _children(state: State) -> Iterator[tuple[int, str, int]]:
    """Parent, what a task is to it, and the task."""
    for number, task in enumerate(state.tasks):
        frame = task.frame
        if frame.owner >= 0:
            words = {"items": "clone", "round": f"subtask, round {frame.round}"}
            yield frame.owner, words.get(frame.kind, "subtask"), number


def _parents(state: State) -> str:
    inside: dict[int, list[tuple[str, int]]] = {}
    for owner, word, number in _children(state):
        inside.setdefault(owner, []).append((word, number))
    rows = []
    for owner, members in inside.items():
        kinds: dict[str, list[str]] = {}
        for word, number in members:
            kinds.setdefault(word, []).append(state.specs[number].id)
        told = "; ".join(f"{word}: {_names(names)}" for word, names in kinds.items())
        rows.append(f"| `{state.specs[owner].id}` | {told} |\n")
    return "| parent | started |\n|---|---|\n" + "".join(rows)


def _hook_names() -> list[str]:
    names = [name for name in vars(hookspecs) if name.startswith("planrunner_")]
    if set(names) != HOOKS.keys():
        raise ValueError(f"docs/diagrams.py has to draw the hooks {names}")
    return names


def _plugins() -> Iterator[str]:
    yield "flowchart LR"
    yield '  subgraph plugin["a plugin, named by an entry point"]'
    names = _hook_names()
    for number, name in enumerate(names):
        yield f'    h{number}["{name.removeprefix("planrunner_")}"]'
    yield "  end"
    yield '  subgraph run["a run"]'
    yield '    engine["engine: decide, write, act"]'
    yield '    tasks["tasks"]'
    yield '    search["research.search"]'
    yield f'    journal[("journal: {len(EVENTS)} kinds of events")]'
    yield "  end"
    yield '  lint["planrunner lint"]'
    yield '  feed["feed: each entry, in order, once"]'
    yield '  measures["measures: /metrics, planrunner metrics"]'
    yield f'  traces["traces by OTLP: spans end with {", ".join(kind.__name__ for kind in ENDING)}"]'
    yield '  notices["notices: waiting, failed, done"]'
    yield '  page["page, API, planrunner events --follow"]'
    for number, name in enumerate(names):
        target, word = HOOKS[name]
        yield f"  h{number} -->|{word}| {target}" if target else f"  journal -.->|a copy of each event| h{number}"
    yield "  engine -->|starts| tasks"
    yield "  tasks -->|outcome| engine"
    yield "  tasks --> search"
    yield "  engine -->|events, before the act| journal"
    yield "  journal --> feed"
    yield "  journal --> page"
    for reader in ("measures", "traces", "notices"):
        yield f"  feed -.-> {reader}"


def _hooks() -> str:
    rows = []
    for name in _hook_names():
        target, word = HOOKS[name]
        first = (getattr(hookspecs, name).__doc__ or "").split("\n")[0].removesuffix(".")
        rows.append(f"| `{name}` | {first} | {'to the run: ' + word if target else 'from the run only'} |\n")
    return "| hook | what it does | direction |\n|---|---|---|\n" + "".join(rows)


def _about() -> list[tuple[str, list[str]]]:
    """Each event under one heading; raises ValueError for one that fits none."""
    told: dict[str, list[str]] = {about: [] for about in ABOUT}
    for kind in EVENTS:
        name = kind.__name__
        fitting = [(len(start), about) for about, starts in ABOUT.items() for start in starts if name.startswith(start)]
        if not fitting:
            raise ValueError(f"docs/diagrams.py has no heading for the event {name}")
        told[max(fitting)[1]].append(name)
    return list(told.items())
