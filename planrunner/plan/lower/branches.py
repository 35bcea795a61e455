"""Lowers a task with `branches` to a subplan: tasks that run the candidates, score them and apply the best.

Each candidate works in its own working tree (``branch.fork``). Its changes are recorded before it is scored; those of
the best candidate are applied to the working directory in one step, which a rollback reverts.
"""

from __future__ import annotations

from typing import Any

from planrunner.plan.agents import CRITIQUE, Unreadable, schema_of
from planrunner.plan.keys import named
from planrunner.plan.lower import agents, declarations, instructions, values
from planrunner.plan.lower.keys import Draft
from planrunner.plan.lower.values import Lowering, condition, tree_at
from planrunner.plan.model import Budgets, Output
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

Json = Any

KEYS = named("branches")
SPREAD = KEYS | agents.KEYS
"""Keys of the task that its candidates take over."""
STEP_TIMEOUT = 600.0
"""Seconds that a step around a candidate may take."""

MOST = 8
"""Candidates of one task."""
_BESIDE = ("transcript", "usage")
VOTE = "vote"


def spread(draft: Draft) -> None:
    """Replace the agent of a draft by the tasks of its candidates."""
    nodes, low = draft.nodes, draft.low
    missing = next((name for name in ("agent", "branches", "score") if name not in nodes), "")
    if missing:
        given = next(name for name in ("score", "branches") if name in nodes)
        help_ = {
            "agent": "add the agent: `agent: …`",
            "branches": "add the number of candidates: `branches: 3`",
            "score": "add how to select the best: `score: {run: python -m pytest -q}`, `score: outputs.confidence`,"
            " `score: {judge: …}` or `score: vote`",
        }[missing]
        low.report("PLAN004", f"`{given}` of a task needs `{missing}`", draft.span(given), help_)
        for key in KEYS:
            nodes.pop(key, None)
        return
    if "session" in nodes:
        help_ = "remove `session`, or continue the conversation in a later task"
        message = "`session` has no effect in a task with `branches`: each candidate has its own conversation"
        low.report("PLAN009", message, draft.span("session"), help_)
    made = _Branches(draft)
    outputs, tasks = made.outputs(), made.tasks()
    for key in SPREAD:
        nodes.pop(key, None)
    draft.fields.pop("cwd", None)
    nodes["subplan"] = tasks
    draft.fields["outputs"] = (*draft.fields.get("outputs", ()), *outputs)


class _Branches:
    """The candidates of one task."""

    def __init__(self, draft: Draft) -> None:
        self._draft, self._nodes = draft, draft.nodes
        self._span = draft.span("branches")
        self._score = draft.nodes["score"]
        self._vote = values.text(self._score) == VOTE
        self._judged = isinstance(self._score, Mapping) and self._score.get("judge") is not None
        self._is_task = isinstance(self._score, Mapping) and not self._judged and self._checked(self._score)
        self._agents, self._prompts, self._count = self._read(draft.nodes["branches"])

    def tasks(self) -> Node:
        """The tasks of the subplan, in the notation of a plan."""
        names = [f"candidate-{at + 1}" for at in range(self._count)]
        records = {name: f"{{{{ tasks['{name}'] }}}}" for name in names}
        pick = {
            "id": "pick",
            "needs": names,
            "join": "always",
            "uses": "branch.pick",
            "with": {"candidates": records, **({"vote": True} if self._vote else {})},
        }
        files = {"files": "{{ tasks.pick.outputs.files }}"}
        apply = {"id": "apply", "needs": ["pick"], "uses": "branch.apply", "with": files}
        whole = [{"id": "base", "uses": "branch.base"}, *map(self._candidate, range(self._count)), pick, apply]
        return tree_at(_timed(whole), self._span)

    def outputs(self) -> tuple[Output, ...]:
        """The outputs of the task: those of the best candidate, and a summary of all."""
        answer = "{{ default(tasks.pick.outputs.answer['%s'], none) }}"
        picked = "{{ tasks.pick.outputs.%s }}"
        named = [Output(name, value=answer % name) for name in self._names()]
        return (*named, *(Output(name, value=picked % name) for name in ("best", "score", "candidates")))

    def _names(self) -> list[str]:
        try:
            schema = schema_of(values.data(self._nodes["schema"])) if "schema" in self._nodes else {}
        except Unreadable:
            schema = {}
        own = [*(schema.get("properties", {}) if schema else ("text",)), *_BESIDE]
        return [name for name in own if name not in ("best", "score", "candidates")]

    def _candidate(self, at: int) -> Json:
        work = self._work(at)
        steps = [
            {"id": "tree", "uses": "branch.fork", "with": {"commit": "{{ tasks.base.outputs.commit }}"}},
            work,
            {
                "id": "change",
                "needs": ["tree", "work"],
                "join": "all_done",
                "when": "tasks.tree.ok",
                "uses": "branch.change",
                "with": {name: f"{{{{ tasks.tree.outputs.{name} }}}}" for name in ("path", "manifest")},
            },
            *self._scored(work),
            {"id": "drop", "needs": ["change"], "join": "always", "uses": "branch.drop", "effect": "read"},
        ]
        last = steps[-2]["id"]
        steps[-1]["needs"] = [last] if last == "change" else ["change", last]
        return {
            "id": f"candidate-{at + 1}",
            "needs": ["base"],
            "allow_failure": True,
            "rollback": {"uses": "branch.drop"},
            "subplan": steps,
            "outputs": {
                "work": {"value": "{{ tasks.work }}"},
                "change": {"value": "{{ tasks.change.outputs }}"},
                "check": {"value": "{{ tasks.score }}" if last == "score" else ""},
            },
        }

    def _work(self, at: int) -> dict[str, Json]:
        """The agent of a candidate, in its tree."""
        nodes = {name: self._nodes[name] for name in agents.KEYS if name in self._nodes and name != "session"}
        if self._agents:
            nodes["agent"] = self._agents[at % len(self._agents)]
        if self._prompts and "prompt" in nodes:
            nodes["prompt"] = _joined(nodes["prompt"], self._prompts[at % len(self._prompts)])
        work = {"id": "work", "needs": ["tree"], "allow_failure": True, "on_doubt": "retry", "cwd": self._cwd()}
        work |= nodes
        if share := self._share(0.8 if self._judged else 1.0):
            work["budgets"] = share
        if isinstance(self._score, Scalar) and not self._vote:
            parsed = condition(self._draft.low, self._score) if at == 0 else None
            said = parsed.text if parsed is not None else values.text(self._score)
            work["outputs"] = {"scored": {"value": _at(f"{{{{ {said} }}}}", self._score.span)}}
        return work

    def _share(self, part: float) -> dict[str, Json]:
        """The share of one candidate in the budgets of the task, which apply to all candidates together."""
        node = self._nodes.get("budgets")
        whole = declarations.budgets(Lowering([]), node, Budgets()) if node is not None else Budgets()
        part /= self._count
        share: dict[str, Json] = {} if whole.cost is None else {"cost": whole.cost * part}
        counts = {"tokens": whole.tokens, "calls": whole.calls}
        return share | {name: max(1, int(each * part)) for name, each in counts.items() if each is not None}

    def _cwd(self) -> str:
        below = self._draft.fields.get("cwd", "")
        return "{{ tasks.tree.outputs.path }}" + (f"/{below}" if below else "")

    def _scored(self, work: dict[str, Json]) -> list[dict[str, Json]]:
        """The task that scores a candidate, if any."""
        if not isinstance(self._score, Mapping) or not (self._judged or self._is_task):
            return []
        base = {"id": "score", "needs": ["work", "change"], "when": "tasks.work.ok", "allow_failure": True}
        judge = self._score.get("judge")
        if judge is None:
            own = {str(key.value): value for key, value in self._score.entries}
            return [{**base, "cwd": self._cwd(), "effect": "read", **own, **base}]
        inputs: dict[str, Json] = {
            "rubric": judge,
            "about": work.get("prompt", ""),
            "outputs": "{{ tasks.work.outputs }}",
            "diff": "{{ tasks.change.outputs.diff }}",
        }
        model = self._score.get("model")
        if model is not None:
            inputs["model"] = model
        share = self._share(0.2)
        return [{**base, "uses": CRITIQUE, "with": inputs, **({"budgets": share} if share else {})}]

    def _checked(self, score: Mapping) -> bool:
        others = "`score: {run: pytest -q}`, `score: outputs.confidence`, `score: {judge: …}` or `score: vote`"
        return agents.is_task(self._draft.low, "score", score, (*self._draft.known(), "judge"), others)

    def _read(self, node: Node) -> tuple[list[Node], list[Node], int]:
        """Agents, prompts, and the number of candidates."""
        parts = {str(key.value): value for key, value in node.entries} if isinstance(node, Mapping) else {}
        parts = {"prompts": node} if isinstance(node, Sequence) else parts
        agents_, prompts = (_listed(parts.get(name)) for name in ("agents", "prompts"))
        prompts = [instructions.whole(self._draft.low, each) for each in prompts]
        count = parts.get("candidates", node if isinstance(node, Scalar) else None)
        number = values.whole(count) if count is not None else max(len(agents_), len(prompts))
        if number is None or not 2 <= number <= MOST:
            said = values.text(count) if count is not None else str(number)
            help_ = f"a task has 2 to {MOST} candidates: `branches: 3`"
            self._draft.low.report("PLAN006", f"`{said}` is not a number of candidates", node.span, help_)
            number = 2
        for name, given in (("agents", agents_), ("prompts", prompts)):
            if count is not None and len(given) > number:
                message = f"{len(given)} {name} for {number} candidates: the last ones are not used"
                self._draft.low.report("PLAN006", message, given[number].span, "raise `candidates`, or remove them")
        return agents_, prompts, number


def _timed(steps: list[Json]) -> list[Json]:
    """The steps, those of ``branch.*`` with a timeout."""
    for step in steps:
        if str(step.get("uses", "")).startswith("branch."):
            step["timeout"] = STEP_TIMEOUT
        _timed(step.get("subplan", []))
    return steps


def _listed(node: Node | None) -> list[Node]:
    return list(node.items) if isinstance(node, Sequence) else [] if node is None else [node]


def _joined(prompt: Node, more: Node) -> Node:
    """A prompt with the additional text of one candidate."""
    text = f"{values.plain_text(prompt).rstrip()}\n\n{values.plain_text(more)}"
    return _at(text, more.span)


def _at(text: str, span: Span) -> Scalar:
    return Scalar(text, span.start, span.end, text)
