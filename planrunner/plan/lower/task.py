"""One task of the canonical tree to a ``Task``: every key to its field, the rest to the notes, nothing lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Sequence as Row
from typing import Any

from planrunner.diagnostics import Label
from planrunner.plan.agents import PLANNING
from planrunner.plan.commands.lower import BOUND, COMPUTED, OF_ATTEMPTS, with_calls
from planrunner.plan.commands.statements import looks_like_calls
from planrunner.plan.expressions.parse import parse
from planrunner.plan.keys import named
from planrunner.plan.lower import actions, agents, branches, declarations, flow, hypotheses, instructions, values
from planrunner.plan.lower.actions import check_params, linked, params
from planrunner.plan.lower.declarations import gate, routes
from planrunner.plan.lower.flow import joined, with_items
from planrunner.plan.lower.keys import CRITERIA, Draft, computes
from planrunner.plan.lower.reflection import with_reflections
from planrunner.plan.lower.servers import FAMILY, check_server
from planrunner.plan.lower.values import Lowering, Pending, condition, criteria
from planrunner.plan.model import Budgets, Criterion, Loop, Retry, Task
from planrunner.plan.nearest import nearest
from planrunner.plan.tasks import makes
from planrunner.plan.wording import makes_a_gate
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

_EDGES = ("on_success", "on_failure", "next", "failure_modes", "gate")
"""The order of edges, whatever the order of the keys."""
_ACTIONS = ("run", "uses", "command", "agent", "loop", "subplan")
_START = frozenset({"run", "command", "agent", "loop", "subplan", "rollback"})
"""Keys that may start a program, or tasks that do."""
_FANOUT, _GATE = named("fanout"), named("gate")
_HANDED_DOWN = named("steps", "hands")
"""What a task with steps or rounds says for all tasks in it."""
_OTHER_ACTIONS = frozenset({"run", "uses", "agent", "loop", "subplan", "subplan_file"})


def lower_task(low: Lowering, node: Mapping, defaults: dict[str, Any], extra: tuple[Mapping, ...] = ()) -> Task:
    """The task of a mapping; ``extra`` are entries of the plan's ``gates`` that belong to it."""
    draft = Draft(low, defaults)
    draft.read(node.entries)
    for entry in extra:
        _add_gate(draft, entry)
    if draft.fields.get("uses") == PLANNING:
        draft.fields.setdefault("renewed", True)  # what it goes by is the run as it stands, which no call shows
    if draft.fields.get("uses") == agents.LONG:
        agents.read_long(draft, node.get("with"))
    if "run" in draft.fields:
        _finish_run(draft)
    if "stdin" in draft.fields and "run" not in draft.fields:
        help_ = "only scripts and programs read a standard input; inputs of a capability are `with`"
        low.report("PLAN004", "`stdin` of a task needs `run`", draft.span("stdin"), help_)
    if any(key == "shell" for key, _ in draft.spans) and not _START & {*draft.fields, *draft.nodes}:
        help_ = f"`shell` names the interpreter; the script is `run: {draft.fields.get('shell', '…')}`"
        low.report("PLAN004", "`shell` of a task needs `run`", draft.span("shell"), help_)
    if "delay" in draft.fields and {*_ACTIONS}.isdisjoint({*draft.fields, *draft.nodes}):
        help_ = "to have people asked later, let the gate need a task with `uses: sleep`"
        low.report("PLAN004", "`delay` of a task needs something that it does", draft.span("delay"), help_)
    if draft.nodes:
        _finish_together(draft)
    elif draft.fields.get("kind") == "gate":
        _finish_gate(draft)
    if "reflect" in draft.nodes and draft.identity is not None:
        low.reflections[values.text(draft.identity)] = draft.nodes["reflect"]
    return _built(draft, node)


def _finish_run(draft: Draft) -> None:
    """What ``run`` is: a script for the shell, calls of capabilities, or the operation of the family in ``uses``."""
    fields, nodes, low = draft.fields, draft.nodes, draft.low
    uses, run, known = fields.get("uses", ""), fields["run"], low.capabilities
    family = uses if uses and known is not None and "." not in uses and known.get(uses) is None else ""
    if family and known is not None and isinstance(run, str) and known.get(f"{family}.{run.strip()}") is not None:
        fields["uses"] = f"{family}.{run.strip()}"
        del fields["run"]
    elif "run" in nodes and known is not None and (family or not uses):
        fields["command"] = run.strip()
        nodes["command"], draft.family = nodes["run"], family
        del fields["run"]
        fields.pop("uses", None)
    if uses in ("", "shell") and "run" in fields and isinstance(fields.get("inputs"), dict):
        # the inputs of a script are variables of its environment: `topic` is `$TOPIC`, and `env` wins over them
        inputs = fields.pop("inputs")
        given = {actions.variable_of(name): actions.variable_text(value) for name, value in inputs.items()}
        fields["env"] = tuple({**given, **dict(fields.get("env", ()))}.items())


def _built(draft: Draft, node: Mapping) -> Task:
    fields = draft.fields
    if "run" in fields and "uses" not in fields:
        fields["uses"] = "shell"
    if isinstance(fields.get("run"), str):
        fields["script"] = actions.made_ready(fields["run"], draft.low.params)
    if draft.low.inputs and fields.get("uses"):
        fields["inputs"] = draft.low.with_defaults(fields["uses"], fields.get("inputs"))
    if fields.get("inputs"):
        uses, at = str(fields.get("uses", "")), draft.span("with", "uses")
        fields["inputs"] = instructions.of_inputs(draft.low, uses, fields["inputs"], node.get("with"), at)
        if uses.startswith(instructions.FAMILIES):
            agents.check_model_inputs(draft.low, uses, node.get("with"))
    if str(fields.get("uses", "")).startswith(FAMILY):
        check_server(draft.low, node)
    if fields.get("ends_plan") and (draft.low.inside or fields.get("finally_")):
        where = "inside another task" if draft.low.inside else "under `finally`"
        help_ = "let it decide there, and end the plan by a task of the plan itself that needs it"
        draft.low.report("PLAN006", f"a task {where} does not end the plan", draft.span("ends_plan"), help_)
    if draft.edges:
        fields["edges"] = tuple(edge for key in _EDGES for edge in draft.edges.get(key, ()))
    if draft.notes:
        fields["notes"] = {**(draft.defaults.get("notes") or {}), **draft.notes}
    identity = draft.identity
    place = identity or (node.entries[0][0] if node.entries else node)
    fields["id"] = values.text(identity) if identity is not None else ""
    fields["span"] = tuple.__new__(Span, (place.start, place.end))
    fields["spans"] = tuple(draft.spans)
    return Task(**fields)


def _add_gate(draft: Draft, entry: Mapping) -> None:
    """A gate of the plan's list: its keys join those of the task, and none may be in both."""
    there = {name for name, _ in draft.spans}
    for key, value in entry.entries:
        name = str(key.value)
        if name == "id":
            continue
        if name in there:
            label = Label(draft.span(name), f"`{name}` stands here")
            draft.low.report("PLAN009", f"the task of this gate has `{name}` already, keep one", key.span, label=label)
        else:
            draft.read([(key, value)])


def _finish_together(draft: Draft) -> None:
    """Keys that depend on others, in the order in which they build on each other."""
    present, is_gate = draft.nodes.keys(), draft.fields.get("kind") == "gate"
    for keys, finish in _FINISHERS:
        if not keys.isdisjoint(present) or (is_gate and finish is _finish_gate):
            finish(draft)


def _finish_action(draft: Draft) -> None:
    nodes, fields, low = draft.nodes, draft.fields, draft.low
    if not {"loop", "subplan"}.isdisjoint(nodes):
        for name in OF_ATTEMPTS:
            if name in draft.defaults and name not in nodes:
                fields.pop(name, None)
        _without_computed(draft, *COMPUTED)
    if "loop" in nodes:
        fields["loop"] = _loop(draft, nodes["loop"])
    if "subplan" in nodes:
        _subplan(draft, nodes["subplan"])
    if "params" in nodes:
        if isinstance(nodes.get("subplan"), Scalar):
            fields["params"] = params(low, fields.get("sub"), nodes["params"])
        else:
            inside = "steps inside a task read the names around them" if "subplan" in nodes else ""
            help_ = inside or "inputs of a capability are `with`"
            needed = "a `subplan` that is a file or has a name" if inside else "`subplan`"
            low.report("PLAN004", f"`params` of a task needs {needed}", draft.span("params"), help_)
    if "rollback" in nodes:
        fields["rollback"] = actions.action(low, nodes["rollback"])
        if fields["rollback"] is None:
            draft.notes["rollback"] = values.data(nodes["rollback"])
    if "command" in nodes and not fields.keys() & _OTHER_ACTIONS and draft.identity is not None:
        _commanded(low, _inner(draft), values.text(draft.identity), nodes["command"], draft.family)


def _commanded(low: Lowering, defaults: dict[str, Any], name: str, node: Node, family: str = "") -> None:
    """Keep a command that means calls: they become tasks when those beside it are known."""
    if isinstance(node, Scalar) and low.capabilities is not None and looks_like_calls(values.text(node)):
        low.commands[name] = Pending(node, defaults, family)


def _finish_gate(draft: Draft) -> None:
    """``kind: gate`` or any key of a gate makes one, unless the task acts: then the two exclude each other."""
    nodes, fields = draft.nodes, draft.fields
    if "evidence" in nodes:
        fields["evidence"], shown = hypotheses.divided(draft.low, nodes.pop("evidence"))
        if shown is not None:
            nodes["evidence"] = shown
    keys = [name for name in nodes if name in _GATE]
    is_gate = fields.get("kind") == "gate"
    if not keys and not is_gate:
        if "evidence" in nodes:
            draft.notes["evidence"] = values.data(nodes["evidence"])
        return
    action = next((name for name in _ACTIONS if name in nodes or (name in fields and name not in draft.defaults)), "")
    if action and "gate" not in nodes:
        what = f"`{keys[0]}`" if keys else "`kind: gate`"
        place = draft.span(keys[0]) if keys else draft.span("kind")
        draft.low.findings.append(makes_a_gate(what, place, action, draft.span(action)))
    fields["gate"] = gate(draft.low, nodes)
    draft.edges["gate"] = routes(draft.low, fields["gate"])
    for name in ("timeout", "retry"):
        if name in draft.defaults and name not in nodes and fields.get(name) == draft.defaults[name]:
            del fields[name]
    _without_computed(draft, *COMPUTED)


def _without_computed(draft: Draft, *names: str) -> None:
    """Leave out defaults that are computed and not meant for such a task."""
    own = tuple(each for each in draft.fields.get("computed", ()) if each.name not in names)
    if "computed" in draft.fields:
        draft.fields["computed"] = own


def _finish_times(draft: Draft) -> None:
    nodes, fields, low = draft.nodes, draft.fields, draft.low
    if "timeout" in nodes:
        computed = computes(draft, "timeout", nodes["timeout"])
        fields["timeout"] = None if computed else values.lasting(low, nodes["timeout"])
    if "retry" in nodes:
        attempts = nodes["retry"].get("attempts") if isinstance(nodes["retry"], Mapping) else nodes["retry"]
        if attempts is not None:
            computes(draft, "retry.attempts", attempts)
        fields["retry"] = flow.retry(low, nodes["retry"], draft.defaults.get("retry", Retry()))
    if "budgets" in nodes:
        fields["budgets"] = declarations.budgets(low, nodes["budgets"], draft.defaults.get("budgets", Budgets()))
    if "timebox" in nodes:
        fields["timebox"] = values.lasting(low, nodes["timebox"])
    if "heartbeat" in nodes:
        fields["heartbeat"] = values.lasting(low, nodes["heartbeat"])
    if "watchdog" in nodes:
        fields["watchdog"] = actions.watchdog(low, nodes["watchdog"])
    limit, timeout = fields.get("timebox"), fields.get("timeout")
    if limit is not None and (timeout is None or timeout > limit):
        fields["timeout"] = limit  # no attempt may take longer than all of them together


def _finish_flow(draft: Draft) -> None:
    nodes, fields, low = draft.nodes, draft.fields, draft.low
    from_needs = None
    if "needs" in nodes:
        fields["needs"], from_needs = flow.needs(low, nodes["needs"])
    join = flow.join(low, nodes["join"]) if "join" in nodes else None
    if join is not None and from_needs is not None:
        label = Label(draft.span("needs"), "the expression stands here")
        message = "`needs` is an expression and says already how its tasks join"
        low.report("PLAN009", message, draft.span("join"), label=label)
    if join is not None or from_needs is not None:
        fields["join"] = join or from_needs
    if "failure_modes" in nodes:
        bound = frozenset(re.findall(BOUND, fields.get("command", "")))
        modes, edges = flow.failure_modes(low, nodes["failure_modes"], bound)
        fields["failure_modes"] = tuple(modes)
        draft.edges["failure_modes"] = edges


def _finish_criteria(draft: Draft) -> None:
    names = _item_names(draft)
    if "command" in draft.nodes and looks_like_calls(draft.fields["command"]):
        names |= frozenset(re.findall(BOUND, draft.fields["command"]))
    for key, known in CRITERIA.items():
        if key in draft.nodes:
            here = draft.low.known(known)
            draft.fields[key] = criteria(draft.low, draft.nodes[key], here | names if names else here)
    if "ok_codes" in draft.nodes:
        draft.fields["expect"] = (*_good_codes(draft.nodes["ok_codes"]), *draft.fields.get("expect", ()))
    if "validation" in draft.nodes:
        here = draft.low.known(CRITERIA["postconditions"])
        checks = criteria(draft.low, draft.nodes["validation"], here | names if names else here)
        draft.fields["postconditions"] = (*draft.fields.get("postconditions", ()), *checks)


def _good_codes(node: Node) -> tuple[Criterion, ...]:
    """Exit codes that are good, as the criterion that they are."""
    items = node.items if isinstance(node, Sequence) else [node]
    codes = [str(code) for item in items if (code := values.whole(item)) is not None]
    text = f"exit_code in [{', '.join(codes)}]" if len(codes) != 1 else f"exit_code == {codes[0]}"
    return (Criterion(text, parse(text)._replace(span=node.span), node.span),) if codes else ()


def _item_names(draft: Draft) -> frozenset[str]:
    """The names that each copy of a fan-out has, where the task is one."""
    if "foreach" not in draft.nodes and "matrix" not in draft.nodes:
        return frozenset()
    return frozenset({values.text(draft.nodes["as"]) if "as" in draft.nodes else "item", "index", "matrix"})


def _finish_fanout(draft: Draft) -> None:
    nodes = draft.nodes
    if "foreach" in nodes or "matrix" in nodes:
        computed = {
            name for name in ("max_parallel", "tolerate") if name in nodes and computes(draft, name, nodes[name])
        }
        draft.fields["fanout"] = flow.fanout(draft.low, {key: nodes[key] for key in nodes if key not in computed})
        return
    for name in nodes:
        if name in _FANOUT:
            draft.low.report("PLAN004", f"`{name}` of a task needs `foreach` or `matrix`", draft.span(name))


def _finish_agent(draft: Draft) -> None:
    if "prompt" in draft.nodes:
        draft.nodes["prompt"] = instructions.whole(draft.low, draft.nodes["prompt"])
        if "agent" not in draft.nodes and draft.low.agent is not None:
            draft.nodes["agent"] = draft.low.agent
            draft.spans.append(("agent", draft.span("prompt")))
    if not branches.KEYS.isdisjoint(draft.nodes):
        branches.spread(draft)
    if "agent" in draft.nodes:
        agents.carried_out(draft, lower_task)
        return
    for name in draft.nodes:
        if name in agents.KEYS:
            draft.low.report("PLAN004", f"`{name}` of a task needs `agent`", draft.span(name))


_FINISHERS: tuple[tuple[frozenset[str], Callable[[Draft], None]], ...] = (
    (named("agent branches"), _finish_agent),
    (named("action command"), _finish_action),
    (named("gate evidence"), _finish_gate),
    (named("times"), _finish_times),
    (named("flow needs"), _finish_flow),
    (named("criteria validation"), _finish_criteria),
    (named("fanout"), _finish_fanout),
)
"""Which keys call for which of them."""


def _loop(draft: Draft, node: Node) -> Loop | None:
    if not isinstance(node, Mapping):
        return None
    most, until, tasks, carry, breaker, checkpoint, at_bound = (node.get(key) for key in _LOOP_KEYS)
    if isinstance(carry, Mapping):
        _check_carried(draft.low, carry)
    if at_bound is not None and until is None:
        message = "`at_bound` has no effect without `until`: the loop goes through all its rounds"
        draft.low.report("PLAN004", message, at_bound.span, "add `until: …`, or take `at_bound` out")
    if carry is not None:
        flow.check_numbers(draft.low, carry)
    return Loop(
        -1 if most is not None and values.whole(most) is None else _number(most),  # 0 without a bound
        condition(draft.low, until) if until is not None else None,
        lower_list(draft, tasks) if tasks is not None else (),
        values.data(carry) if carry is not None else None,
        _number(breaker),
        _number(checkpoint),
        "continue" if at_bound is not None and values.text(at_bound) == "continue" else "fail",
    )


def _check_carried(low: Lowering, node: Mapping) -> None:
    """A value given as ``{first, next}`` with one of the two misspelt would be carried as a map."""
    for _, value in node.entries:
        keys = [str(key.value) for key, _ in value.entries] if isinstance(value, Mapping) else []
        missing = [name for name in ("first", "next") if name not in keys]
        for key, _ in value.entries if isinstance(value, Mapping) and len(missing) == 1 else ():
            if str(key.value) not in ("first", "next") and nearest(str(key.value), missing):
                low.report(
                    "PLAN003", f"a carried value has no key `{key.value}`, did you mean `{missing[0]}`?", key.span
                )


_LOOP_KEYS = ("max", "until", "tasks", "carry", "breaker", "checkpoint", "at_bound")


def _number(node: Node | None) -> int:
    return (values.whole(node) if node is not None else 0) or 0


def _subplan(draft: Draft, node: Node) -> None:
    if isinstance(node, Sequence):
        draft.fields["steps"] = tuple(values.data(item) for item in node.items)
        draft.fields["subplan"] = _steps(draft, node)
    elif isinstance(node, Scalar):
        word = values.text(node)
        draft.fields["subplan_file"] = word
        plan = linked(draft.low, node)
        draft.fields["sub"] = plan
        if plan is not None:
            check_params(draft.low, word, plan, draft.nodes.get("params"), node.span)


def _steps(draft: Draft, node: Sequence) -> tuple[Task, ...]:
    """Steps in words follow each other, and so do all steps of a list that has some in words; else steps that are
    tasks go by their needs. Steps without an id are numbered."""
    ids = frozenset(name for item in node.items if (name := task_id(item)))
    numbered = frozenset(f"step-{number}" for number in range(1, len(node.items) + 1))
    low = draft.low.scope(ids | numbered, _item_names(draft))
    low.inside = True
    inner = _inner(draft)
    tasks: list[Task] = []
    for number, item in enumerate(node.items, 1):
        before = (tasks[-1].id,) if tasks else ()
        if isinstance(item, Mapping):
            task = lower_task(low, item, inner)
            tasks.append(task if task.id else task._replace(id=f"step-{number}", needs=task.needs or before))
        elif words := values.text(item):
            fields: dict[str, Any] = {**inner, "id": f"step-{number}", "command": words, "needs": before}
            tasks.append(Task(**fields, span=item.span))
            _commanded(low, inner, fields["id"], item)
    report_twins(low, tasks)
    if any(isinstance(item, Scalar) for item in node.items):
        tasks = _in_order(tasks)
    return complete(low, tuple(tasks))


def _in_order(tasks: list[Task]) -> list[Task]:
    """Steps each of which waits for those before it, but for those that say themselves what they wait for and those
    that an edge leads on to."""
    led_to = {edge.target for task in tasks for edge in task.edges if not edge.rework}
    ordered: list[Task] = []
    before: list[str] = []
    """The last step that follows in order, and those after it that do not."""
    for task in tasks:
        if not ({name for name, _ in task.spans} & {"needs", "join"} or task.id in led_to):
            task, before = task._replace(needs=tuple(before)), []
        ordered.append(task)
        if task.id not in led_to:
            before.append(task.id)
    return ordered


def _inner(draft: Draft) -> dict[str, Any]:
    """The defaults for tasks inside this one: its environment, directory and interpreter are theirs, whether it stands
    under ``finally`` is not."""
    inner = {name: value for name, value in draft.defaults.items() if name != "finally_"}
    return inner | {name: draft.fields[name] for name in _HANDED_DOWN if name in draft.fields}


def lower_list(draft: Draft, node: Node) -> tuple[Task, ...]:
    """A list of tasks that see each other: a round of a loop."""
    items = [item for item in node.items if isinstance(item, Mapping)] if isinstance(node, Sequence) else []
    ids = frozenset(name for item in items if (name := task_id(item)))
    inner = draft.low.scope(ids, _item_names(draft) | {"loop", "carry"})
    inner.inside = True
    defaults = _inner(draft)
    tasks = tuple(lower_task(inner, item, defaults) for item in items)
    report_twins(inner, tasks)
    return complete(inner, tasks)


def complete(low: Lowering, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The tasks of one list with what takes all of them to tell: the members of families, the calls of commands."""
    tasks = with_items(low, joined(low, tasks))
    return with_reflections(low, with_calls(low, tasks) if low.commands else tasks)


def task_id(node: Node) -> str:
    identity = node.get("id") if isinstance(node, Mapping) else None
    return values.text(identity) if identity is not None else ""


def report_twins(low: Lowering, tasks: Row[Task]) -> None:
    """Two tasks of one id, which a family may make; capitals do not tell ids apart, as file systems may not either."""
    _report_members(low, tasks)
    if len({task.id.casefold() for task in tasks}) == len(tasks):
        return
    first: dict[str, Task] = {}
    for task in tasks:
        folded = task.id.casefold()
        if not task.id or folded not in first:
            first[folded] = task
            continue
        other = first[folded]
        label = Label(other.span, f"`{other.id}` is defined here")
        same = other.id == task.id
        alike = f"`{task.id}` and `{other.id}` differ only in capitals"
        message = f"two tasks are called `{task.id}`" if same else alike
        low.report("PLAN102", message, task.span, label=label)


def _report_members(low: Lowering, tasks: Row[Task]) -> None:
    """Tasks and families that have the id of a member of another family."""
    for family in [task for task in tasks if task.id[-1:] == "*"]:
        for task in tasks:
            name = f"{task.id[:-1]}1" if task.id[-1:] == "*" and task.fanout is not None else task.id
            if task is not family and task.id != family.id and makes(family, name):
                message = f"`{name}` is also what the family `{family.id}` calls one of its tasks"
                label = Label(family.span, f"`{family.id}` is defined here")
                low.report("PLAN102", message, task.span, "give one of them another id", label)


def report_idle_inputs(low: Lowering, node: Node | None) -> None:
    """Default inputs of a capability that no task of the plan calls."""
    given = node.get("with") if isinstance(node, Mapping) else None
    for key, _ in given.entries if isinstance(given, Mapping) else ():
        name = str(key.value)
        if name in low.inputs and name not in low.reached:
            known = low.capabilities or {}
            near = nearest(name, known) if name not in known else ""
            help_ = f"did you mean `{near}`?" if near else "take it out, or name the capability that a task calls"
            low.report("PLAN021", f"`defaults` gives inputs to `{name}`, which no task calls", key.span, help_)


def defaults_of(low: Lowering, node: Node | None) -> dict[str, Any]:
    """Fields that every task starts with, from the plan's ``defaults``."""
    if not isinstance(node, Mapping):
        return {}
    draft = Draft(low, {})
    draft.read(node.entries)
    _finish_times(draft)
    low.agent = draft.nodes.get("agent")
    if draft.notes:
        draft.fields["notes"] = draft.notes
    draft.fields.pop("needs", None)  # what a task waits for is its own; the schema has refused it here
    inputs = draft.fields.pop("inputs", None)
    if isinstance(inputs, dict):
        low.inputs = {name: given for name, given in inputs.items() if isinstance(given, dict)}
    return draft.fields
