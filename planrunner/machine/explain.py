"""Why a task runs, waits, was skipped, was tried again or failed: the rules that apply, with the values they saw."""

from __future__ import annotations

from planrunner.machine import verdicts
from planrunner.machine.budgets import waits_for
from planrunner.machine.containers import tries
from planrunner.machine.graph import Frame
from planrunner.machine.joins import fired, needs_verdict, routes_verdict
from planrunner.machine.names import agent_of, counts, frames, is_gone, needed, owners
from planrunner.machine.recovery import left_text
from planrunner.machine.scope import FrameScope, TaskScope, utc
from planrunner.machine.state import State, TaskState, Tried
from planrunner.machine.statuses import SETTLED
from planrunner.machine.stops import stop_text
from planrunner.plan.agents import ASKING
from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.quantities import format_duration
from planrunner.plan.expressions.values import EvaluationError, shown
from planrunner.plan.identity import paths_read
from planrunner.plan.tasks import until_of
from planrunner.statuses import status_verb, status_word

_VERDICTS = {"approve": "approved", "reject": "rejected"}


def why(state: State, task_id: str) -> list[str]:
    """Sentences from the most to the least important; raises KeyError for a task the plan does not have."""
    number = state.index[task_id]
    task_state = state.tasks[number]
    lines = [_headline(state, number)]
    if is_gone(state, number):
        lines.append(f"the plan has it no more since revision {task_state.revised or state.revision}")
    if task_state.frame.owner >= 0:
        lines.append(place(state, number))
    if task_state.visit > 1 or number in state.held:
        lines += _anew(state, number)
    if task_state.status in ("pending", "queued"):
        lines += _waiting(state, number)
    lines += _gate(task_state)
    if number in state.containers:
        lines += holding(state, number)
    lines += _needs(state, number)
    lines += _routes(state, number)
    if state.specs[number].when is not None and task_state.status not in ("pending",):
        lines.append(_when(state, number))
    lines += _attempts(state, number)
    lines += _refused_within(state, number)
    if state.reason == "outputs" and task_state.frame is state.top:
        lines += _outputs(state, number)
    return lines


def _outputs(state: State, number: int) -> list[str]:
    """The outputs of the plan that read a task and have no value, for which the run failed."""
    read = ("tasks", state.specs[number].id)
    named = [each.name for each in state.plan.outputs if any(path[:2] == read for path in paths_read(each.value))]
    begins = tuple(f"the output `{name}` of the plan " for name in named)
    return [f"the run failed: {part}" for part in state.detail.split("; ") if named and part.startswith(begins)]


def _headline(state: State, number: int) -> str:
    task, task_state = state.specs[number], state.tasks[number]
    paused = task_state.reason == "decided" and task_state.status == "blocked"
    text = f"`{task.id}` {status_verb('paused') if paused else _stands(state, number)}"
    if task_state.detail:
        text += f": {task_state.detail}"
    if task_state.recovered_by:
        text += f"; `{task_state.recovered_by}` stands in for it"
    elif task_state.dependency_outcome == "tolerated" and task_state.status == "failed":
        text += "; its failure is allowed, so the others go on"
    elif number in state.recovering:
        text += "; a handler may still recover it"
    return text


def _stands(state: State, number: int) -> str:
    """How a task stands, as the verb of a sentence; none runs while no process holds the run."""
    left = left_text(state, number)
    return f"was {left}" if left.startswith("interrupted") else left or status_verb(state.tasks[number].status)


def _waiting(state: State, number: int) -> list[str]:
    task, task_state = state.specs[number], state.tasks[number]
    if task_state.status == "queued":
        lines = [f"it is ready and waits for a slot: {state.slots} of {state.max_parallel} are taken"]
        lines += [
            f"{_limit_name(label)} allows {state.limits[label]} at a time, {state.labels_running.get(label, 0)} run"
            for label in state.limited_labels(task)
        ]
        if state.ledger is not None:
            short = waits_for(state, number)
            lines = [short, *lines] if short else lines
        return lines
    if (due := state.wheel.due(number)) is not None:
        return [f"attempt {task_state.attempts + 1} starts at {utc(due)}"]
    frame = task_state.frame
    if task.concluding and frame.open > 1:
        others = "another task is" if frame.open == 2 else f"the other {frame.open - 1} open tasks are"
        return [f"it stands for the plan's `done` and starts when {others} settled"]
    if task.finally_ and frame.open:
        return [f"it stands under `finally` and starts when the other {frame.open} open tasks are settled"]
    item = next((each for each in (*owners(state, number), number) if each in state.turns), -1)
    if item >= 0 or (frame.limit and number >= frame.limit):
        owner = state.specs[state.tasks[item].frame.owner if item >= 0 else frame.owner]
        at_once = f"{owner.fanout.max_parallel} at once" if owner.fanout is not None else "a few at once"
        return [f"it waits for its turn: `{owner.id}` lets {at_once} begin, in their order"]
    if number in state.asked:
        return ["its preconditions are being looked at"]
    if state.stop_reason:
        return [f"nothing starts: {stop_text(state)}"]
    return []


def _gate(task_state: TaskState) -> list[str]:
    """What people were asked, what they said so far, and for what their word counts."""
    gate = task_state.gate
    if gate is None or not gate.opened:
        return []
    asked = " or ".join([*(f"the role {role}" for role in gate.roles), *gate.people]) or "anyone"
    votes = "1 vote" if gate.need == 1 else f"{gate.need} votes"
    asks = "asks" if gate.waits and task_state.status not in SETTLED else "asked"
    lines = [f"its gate {asks}: {gate.request.get('ask', '')}", f"  needs {votes} from {asked}"]
    if gate.again:
        lines.insert(1, f"  it asks again: {gate.again}")
    if gate.not_starter:
        lines[-1] += ", except the person who started the run"
    if gate.waits and gate.expires_at is not None:
        lines.append(f"  it expires at {utc(gate.expires_at)}")
    for vote in gate.votes:
        roles = f" ({', '.join(vote.roles or vote.claimed)}{', claimed' if vote.claimed else ''})"
        said = f"  {vote.by}{roles if vote.roles or vote.claimed else ''} {_VERDICTS[vote.verdict]}"
        lines.append(
            said + (f" with `{vote.choice}`" if vote.choice else "") + (f": {vote.reason}" if vote.reason else "")
        )
    lines.append(f"  a vote is for exactly what was shown, digest {gate.shown}")
    if judged := verdicts.judge_unsure(gate):
        lines.append(f"  {judged}")
    return lines


def _anew(state: State, number: int) -> list[str]:
    """That a task was reset, or is about to: how often, sent by whom, and what was said."""
    task_state = state.tasks[number]
    lines = []
    if number in state.held:
        planned = next(each for each in state.resets if state.specs[number].id in each.tasks)
        still = [name for name in planned.tasks if state.tasks[state.index[name]].status in ("running", "in_doubt")]
        waits = f" once {', '.join(f'`{name}`' for name in still[:5])} ended" if still else ""
        lines.append(f"it is reset ({planned.reason}{_said(planned.cause, planned.by, planned.comment)}){waits}")
    if task_state.visit > 1:
        said = task_state.rework or {}
        how = _said(str(said.get("from", "")), str(said.get("by", "")), str(said.get("comment", "")))
        how = f" since revision {task_state.revised} of the plan" if task_state.revised and not how else how
        lines.append(f"it was reset, this is visit {task_state.visit}{how}")
    return lines


def _said(cause: str, by: str, comment: str) -> str:
    text = f", sent back by `{cause}`" if cause else ""
    text += f" ({by})" if by and cause else f", by {by}" if by else ""
    return text + (f": {comment}" if comment else "")


def _needs(state: State, number: int) -> list[str]:
    needs = needed(state, number)
    if not needs:
        return []
    task = state.specs[number]
    verdict, reason = needs_verdict(state, number)
    kind = task.join.expression.text if task.join.expression is not None else task.join.kind
    lines = [f"needs (join {kind}): {verdict}" + (f", {reason}" if reason else "")]
    for need in needs[:20]:
        detail = state.tasks[need.number].detail
        stands = f"`{state.specs[need.number].id}` {_stands(state, need.number)}" + (f": {detail}" if detail else "")
        lines.append(f"  `{need.name}` {need.lacks}" if need.lacks else f"  {stands}")
    if len(needs) > 20:
        lines.append(f"  and {len(needs) - 20} more")
    return lines


def _routes(state: State, number: int) -> list[str]:
    routes = state.shape.routes_in.get(number, ())
    if not routes:
        return []
    verdict, reason = routes_verdict(state, number)
    lines = [f"edges that lead here: {verdict}" + (f", {reason}" if reason else "")]
    words = {True: "fired", False: "did not fire", None: "is not decided yet"}
    for route in routes:
        edge = route.edge
        otherwise = " else" if edge.otherwise else ""
        condition = f" when `{edge.condition.text}`" if edge.condition is not None else otherwise
        only = f" ({edge.failure_class})" if edge.failure_class else ""
        source = state.specs[route.source].id
        lines.append(f"  on {edge.on}{only} of `{source}`{condition}: {words[fired(state, route)]}")
    return lines


def _when(state: State, number: int) -> str:
    when = state.specs[number].when
    assert when is not None
    what = f"`{when.text}`" if agent_of(state, number) is None else "the agent has answered"
    try:
        return f"when {what}: {'true' if truth(when.tree, TaskScope(state, number)) else 'false'}"
    except EvaluationError as error:
        return f"when {what}: no value, {error}"


def _attempts(state: State, number: int) -> list[str]:
    """How each attempt of this visit ended, the last one at the end."""
    task, task_state = state.specs[number], state.tasks[number]
    count = task_state.attempts - task_state.past
    if not count:
        return []
    allowed = max(task.retry.attempts, count, verdicts.asked_retry(task_state.outcome).attempts)
    lines = [f"attempt {each.attempt - task_state.past} of {allowed}{_ended(each)}" for each in task_state.tried]
    if task_state.tried and task_state.tried[-1].attempt == task_state.attempts:
        return lines  # it waits for the next one
    text = f"attempt {count} of {allowed}"
    if task_state.past:
        text += f" on this visit ({task_state.attempts} in all)"
    if task_state.reissues:
        times = "once" if task_state.reissues == 1 else f"{task_state.reissues} times"
        text += f" (issued again {times} after a crash)"
    done = task_state.status in ("completed", "rolled_back") and not task_state.failure
    if (last := task_state.outcome) is not None and done and last.failure:
        text += f" exited {last.exit_code}, as its criteria allow"
    elif last is not None:
        failure = task_state.failure if task_state.status == "failed" else ""
        took = 0.0 if number in state.containers else last.duration
        text += _ended(Tried(task_state.attempts, failure, last.failure, last.message, last.exit_code, took))
    return [*lines, text]


def _ended(each: Tried) -> str:
    """How an attempt ended: `` succeeded after 2 ms``."""
    after = f" after {_took(each.duration)}" if each.duration else ""
    if each.failure and not each.outcome:
        exited = "succeeded" if each.exit_code is None else f"exited {each.exit_code}"
        return f" {exited}, but a criterion failed"
    if each.outcome in ("cancelled", "interrupted"):
        return f" was {each.outcome}{after}" + (f": {each.message}" if each.message else "")
    if each.outcome:
        return f" failed{after} ({each.failure or each.outcome}): {each.message}"
    return f" succeeded{after}"


def _took(seconds: float) -> str:
    if seconds < 1:
        return f"{max(seconds * 1000, 1):.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else format_duration(round(seconds))


def _limit_name(label: str) -> str:
    """A linked plan has limits of its own, which count as labels of its tasks (``containers``)."""
    path, sign, name = label.rpartition("/")
    if not sign:
        return f"label `{label}`"
    return f"label `{name}` of `{path}`" if name else f"`{path}`"


LISTED = 10
"""Tasks of one kind that are listed by name at most."""


def place(state: State, number: int) -> str:
    """``it stands in round 2 of at most 5 of `polish```, from the inside out."""
    parts = []
    frame = state.tasks[number].frame
    while frame.owner >= 0:
        parts.append(_level(state, number, frame))
        number = frame.owner
        frame = state.tasks[number].frame
    text = "it is " if parts[0].startswith("item") else "it stands in "
    return text + ", in ".join(parts)


def _level(state: State, number: int, frame: Frame) -> str:
    owner = state.specs[frame.owner]
    old = "" if state.tasks[frame.owner].inner is frame else " as it was before the reset"
    if frame.kind == "items":
        at = number - frame.first
        return f"item {at} of `{owner.id}`, counted from 0 to {frame.size - 1}: {shown(frame.values[at], 60)}{old}"
    if frame.kind == "round":
        assert owner.loop is not None
        return f"round {frame.round} of at most {owner.loop.max} of `{owner.id}`"
    return f"the subplan of `{owner.id}`{old}"


def holding(state: State, number: int) -> list[str]:
    """How far a task is that holds others: its rounds, what is settled, what failed and what it waits for."""
    task_state = state.tasks[number]
    frame = task_state.inner
    if frame is None:
        return []
    lines = [_progress(state, frame)]
    if frame.closing:
        lines.append(f"nothing in it starts any more, and what runs there is stopped: {frame.closing}")
    elif frame.failing and frame.open:
        lines.append(f"nothing new starts in it: {_failures(frame)} and its `on_failure` is {frame.on_failure}")
    elif frame.kind == "items" and frame.failures:
        lines.append(f"{_failures(frame)}, {frame.tolerate} may")
    if frame.kind == "round":
        lines += _until(state, frame)
        lines += _rounds(state, number)
    return lines + _inside(state, frame)


def round_name(state: State, frame: Frame) -> str:
    """How a round is written: ``polish#2``, the path of its tasks without their names."""
    return state.specs[frame.first].id.rpartition("/")[0]


def rounds_named(state: State, wanted: str) -> list[Frame]:
    """The rounds of loops that a path names: the one of that path, else those whose paths end with it."""
    rounds = [frame for opened in frames(state).values() for frame in opened if frame.kind == "round"]
    named = {round_name(state, frame): frame for frame in rounds}
    if wanted in named:
        return [named[wanted]]
    return [frame for name, frame in named.items() if name.endswith(f"/{wanted}")]


def round_status(frame: Frame) -> str:
    """Whether a round still runs, and else how it ended."""
    if frame.open or frame.finals_open:
        return "running"
    return "failed" if len(frame.failures) > frame.tolerate else "completed"


def why_round(state: State, frame: Frame) -> list[str]:
    """Sentences about one round of a loop: how it went, what its ``until`` said, and how each of its tasks stands."""
    owner = state.specs[frame.owner]
    lines = [f"`{round_name(state, frame)}` is a round of `{owner.id}`: {round_status(frame)}"]
    lines += [_progress(state, frame), *_until(state, frame)]
    inner = state.tasks[frame.owner].inner
    if inner is not frame and inner is not None and inner.kind == "round" and inner.round > frame.round:
        lines.append(f"another round followed; `{owner.id}` came to round {inner.round}")
    lines += [_task_line(state, number) for number in range(frame.first, frame.first + min(frame.size, LISTED))]
    if frame.size > LISTED:
        lines.append(f"  and {frame.size - LISTED} more")
    return lines + [line for number in range(frame.first, frame.first + frame.size) for line in refused(state, number)]


def refused(state: State, number: int) -> list[str]:
    """The calls that a model asked for in a request of its agent and that were not made, with the reasons, and what
    hooks of the plan say of the others."""
    if state.specs[number].uses != ASKING:
        return []
    calls = [each for each in state.tasks[number].outputs.get("refused") or () if isinstance(each, dict)]
    lines = [f"the call of `{each.get('tool')}` was not made{_by(each)}: {each.get('why')}" for each in calls]
    wanted = [each for each in state.tasks[number].outputs.get("calls") or () if isinstance(each, dict)]
    for each in wanted:
        if each.get("ask"):
            lines.append(f"the call of `{each.get('tool')}` is put to a person{_by(each)}: {each['ask']}")
        lines += [f"with the result of `{each.get('tool')}` the model is told: {text}" for text in each.get("say", ())]
    return lines


def _by(call: dict[str, object]) -> str:
    """The hook of the plan that acted on a call."""
    return f" by `calls: {call['hook']}`" if call.get("hook") else ""


def _refused_within(state: State, number: int) -> list[str]:
    """The same of a request, or of all requests of an agent, the last ones."""
    if state.specs[number].agent is None:
        return refused(state, number)
    opened = frames(state).get(number, [])
    numbers = [each for frame in opened for each in range(frame.first, frame.first + frame.size)]
    lines = [line for each in numbers for line in refused(state, each)]
    return lines[-LISTED:]


def _failures(frame: Frame) -> str:
    return f"{len(frame.failures)} of its tasks failed" if len(frame.failures) > 1 else "1 of its tasks failed"


def _progress(state: State, frame: Frame) -> str:
    owner = state.specs[frame.owner]
    by_status = counts(state, frame)
    done = sum(count for status, count in by_status.items() if status in SETTLED)
    rests = state.status not in ("pending", "running")
    words = {status: "cut off" if rests and status == "running" else status_word(status) for status in by_status}
    others = [f"{count} {words[status]}" for status, count in by_status.items() if status != "completed"]
    text = f"{done} of {frame.size} {'items' if frame.kind == 'items' else 'tasks'} done"
    if frame.kind == "round":
        assert owner.loop is not None
        text = f"round {frame.round} of at most {owner.loop.max}: {text}"
        if owner.agent is not None and owner.agent.tries:
            others.append(f"{tries(state, frame)} of {owner.agent.tries} tries")
    if owner.fanout is not None and owner.fanout.max_parallel:
        others.append(f"at most {owner.fanout.max_parallel} at once")
    return ", ".join([text, *others])


def _until(state: State, frame: Frame) -> list[str]:
    owner = state.specs[frame.owner]
    loop, goal = owner.loop, until_of(owner)
    if loop is None or loop.until is None or (owner.agent is not None and owner.agent.until is None):
        return []
    if frame.open:
        return [f"after the round it asks for `{goal}`"]
    try:
        value = "true" if truth(loop.until.tree, FrameScope(state, frame)) else "false"
    except EvaluationError as error:
        return [f"`{goal}` has no value after round {frame.round}: {error}"]
    return [f"`{goal}` is {value} after round {frame.round}"]


def _rounds(state: State, number: int) -> list[str]:
    """The rounds before the last one, each with what became of its tasks."""
    earlier = frames(state).get(number, [])[:-1]
    lines = [
        f"  round {frame.round}: "
        + ", ".join(f"{count} {status_word(status)}" for status, count in counts(state, frame).items())
        for frame in earlier[-LISTED:]
    ]
    if len(earlier) > LISTED:
        lines.insert(0, f"  {len(earlier) - LISTED} rounds before these")
    return lines


def _inside(state: State, frame: Frame) -> list[str]:
    """What failed, waits for a person or runs inside, by name."""
    lines: list[str] = []
    for statuses in (("failed",), ("blocked", "in_doubt"), ("running",)):
        numbers = [at for at in range(frame.first, frame.first + frame.size) if state.tasks[at].status in statuses]
        lines += [_task_line(state, number) for number in numbers[:LISTED]]
        if len(numbers) > LISTED:
            lines.append(f"  and {len(numbers) - LISTED} more are {status_word(statuses[0])}")
    return lines


def _task_line(state: State, number: int) -> str:
    task_state = state.tasks[number]
    detail = task_state.detail or task_state.reason.replace("_", " ")
    text = f"  `{state.specs[number].id}` {_stands(state, number)}"
    return text + (f": {detail}" if detail else "")
