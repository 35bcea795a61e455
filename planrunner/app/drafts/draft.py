"""Draft a plan for a goal: by a model of the project, or without one from the goals that are known. Nothing runs."""

from __future__ import annotations

import os
import re
from decimal import ROUND_CEILING, Decimal
from typing import Any

from planrunner.app.drafts.goals import filled, recognised
from planrunner.app.people.admission import Review, review
from planrunner.app.plans.lint import Choice, check_file, diff_text, registry
from planrunner.app.plans.path import check_regular
from planrunner.app.runs.errands import run_errand
from planrunner.app.runs.execute import Watch
from planrunner.app.runs.setup import prepare_plan
from planrunner.capabilities.agent.facts import facts
from planrunner.diagnostics import Diagnostic, has_errors
from planrunner.errors import Hint, NextStep, UsageError
from planrunner.fileio import replace_file
from planrunner.journal.workspace import find_project
from planrunner.plan.agents import MODEL_CHOICES
from planrunner.plan.expressions.quantities import parse_count, parse_money
from planrunner.plan.files import File
from planrunner.plan.nearest import meant, nearest
from planrunner.plugins.registry import Registry
from planrunner.records import Struct
from planrunner.safety.project import read_data
from planrunner.safety.trust import DRAFTED, mark
from planrunner.source import Source, notation_of

Json = Any

REJECTED = ".rejected"
"""Ending of the file that keeps what a model wrote and no check lets pass: no plan is looked for in it."""


class DraftRequest(Struct):
    """The goal in plain words. ``file`` is where the plan is for (None: a name in ``plans/``), ``model`` that of the
    project that writes it (empty: the default one, None: none), which has ``rounds`` tries and may use ``budget``."""

    goal: str
    file: str | None = None
    model: str | None = ""
    rounds: int = 3
    budget: tuple[tuple[str, str], ...] = ()
    state: str | None = None


class Draft(Struct):
    """A plan as it was drafted. ``by`` says by what, ``before`` is the text that the file had (None: it is new);
    ``review`` is what the plan may do, None for one with errors, whose text is kept and never runs; ``run_id`` is the
    run in which a model wrote it."""

    goal: str
    by: str
    path: str
    source: Source
    before: str | None
    findings: tuple[Diagnostic, ...]
    review: Review | None
    reason: str = ""
    run_id: str = ""

    @property
    def text(self) -> str:
        return self.source.text

    @property
    def diff(self) -> str:
        """What the file would become."""
        whole = diff_text(self.path, self.before or "", self.text)
        return whole if self.before is not None else whole.replace(f"--- {self.path}", "--- /dev/null", 1)

    @property
    def digest(self) -> str:
        """By which the plan is trusted; empty for one with errors."""
        return "" if self.review is None else str(self.review.summary["digest"])


def draft(request: DraftRequest, watch: Watch) -> Draft:
    """Draft a plan; no file is written. Raises UsageError for a goal that is not known and for a file that is not one
    of YAML, and whatever a run raises that asks a model."""
    if not request.goal.strip():
        raise UsageError(
            "the goal is empty", 'say what is to be reached, such as "run the tests and fix the formatting"'
        )
    if request.file is not None and notation_of(request.file) != "yaml":
        raise UsageError(
            f"plans are drafted in YAML, and `{request.file}` is not such a file", "name one that ends in .yaml"
        )
    project = find_project(request.file)
    model = _model(request, project)
    if model is None:
        goal = recognised(request.goal, _by_whom(request, project))
        path = request.file or os.path.join("plans", f"{goal.name}.yaml")
        text = filled(goal, facts(project, request.goal, read_data(project)))
        return drafted(request.goal, f"the goal `{goal.name}`", path, text)
    return _by_model(request, model, watch)


def _model(request: DraftRequest, project: str) -> str | None:
    """The model that writes; None for none."""
    if request.model is None:
        return None
    named = _models(project)
    if request.model and request.model not in named:
        near = nearest(request.model, named)
        known = f"it has {', '.join(f'`{name}`' for name in named[:8])}" if named else "it has no section `models`"
        way = meant(near)
        raise UsageError(f"planrunner.yaml has no model `{request.model}`{way}", known)
    return request.model if named else None


def _models(project: str) -> list[str]:
    return [name for name in read_data(project).get("models") or {} if name not in MODEL_CHOICES]


def _by_whom(request: DraftRequest, project: str) -> Hint:
    """How a model comes to draft a plan for a goal that is not known."""
    if _models(project):
        return Hint("leave out `--no-model` to let a model draft it: ", NextStep("draft", request.goal))
    return Hint("name a model under `models` in planrunner.yaml to let it draft the plan")


def drafted(goal: str, by: str, path: str, text: str, reason: str = "", run_id: str = "") -> Draft:
    """A text as a draft: checked, and with what it may do where it is a plan. Raises as ``review``."""
    project = find_project(path)
    source = Source(text, path, "yaml")
    checked = check_file(File(source), Choice(), registry(project))
    known = None
    if not has_errors(checked.findings):
        known_as = Registry(project=project)
        known = review(path, known_as, ready=prepare_plan(path, None, known_as, text.encode()))
    return Draft(goal, by, path, source, text_of(path), checked.findings, known, reason, run_id)


def again(before: Draft) -> Draft:
    """The draft as its file is now, after a person has edited it. Raises UsageError where the file is gone."""
    now = text_of(before.path)
    if now is None:
        raise UsageError(f"`{before.path}` is gone")
    made = drafted(before.goal, before.by, before.path, now, before.reason, before.run_id)
    return made._replace(before=before.text)


def text_of(path: str) -> str | None:
    """The text of a plan file; None without one. Raises NotFound for what is not a file, such as a pipe, and UsageError
    for a file that is not text."""
    check_regular(path)
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"`{path}` cannot be read: {getattr(error, 'strerror', '') or 'it is not UTF-8 text'}"
        ) from None


def write_draft(made: Draft) -> str:
    """Write the plan to its file, marked as drafted before it is there; gives the path. One with errors goes to a file
    of its own beside it, which is not a plan. Raises UsageError, StorageFailed."""
    path = made.path if made.review is not None else made.path + REJECTED
    data = made.text.encode("utf-8", "surrogatepass")
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        if made.review is not None:
            mark(path, data, DRAFTED)
        replace_file(path, data, 0o644)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from None
    return path


# With a model


def _by_model(request: DraftRequest, model: str, watch: Watch) -> Draft:
    """Have a model write the plan, in a run of its own that records every request and reply."""
    path = request.file or os.path.join("plans", f"{_slug(request.goal)}.yaml")
    given = {"goal": request.goal, "current": text_of(path) or ""}
    asking = _asking(request, model, path)
    run_id, task = run_errand(asking, given, find_project(request.file), request.state, watch)
    outputs = {} if task.outcome is None else task.outcome.outputs
    if not outputs.get("plan"):
        why = task.detail or (task.outcome.message if task.outcome is not None else task.status)
        why = _with_option(why, dict(request.budget))
        raise UsageError(f"no plan was drafted: {why}", Hint("see ", NextStep("show", run_id)))
    by = f"the model `{outputs.get('model') or model or 'default'}`"
    return drafted(request.goal, by, path, str(outputs["plan"]), str(outputs.get("reason", "")), run_id)


def _asking(request: DraftRequest, model: str, path: str) -> dict[str, Json]:
    """The plan of the run that asks the model."""
    params = {name: {"type": "string", "description": about} for name, about in _PARAMS.items()}
    inputs = {"goal": "{{ params.goal }}", "current": "{{ params.current }}", "path": path, "rounds": request.rounds}
    budgets = dict(request.budget) or {"time": "30m", "calls": str(3 * request.rounds)}
    own = {name: amount for name, amount in budgets.items() if name in _SPENT}
    return {
        "plan": "draft",
        "title": "Draft a plan for a goal",
        "params": params,
        "budgets": budgets,
        "tasks": [
            {
                "id": "draft",
                "uses": "agent.plan",
                "with": {**inputs, **({"model": model} if model else {})},
                "timeout": "30m",
                **({"budgets": own} if own else {}),
            }
        ],
        "outputs": {"plan": "{{ tasks.draft.outputs.plan }}"},
    }


_TOO_LITTLE = re.compile(
    r"may use \$?(\S+).*, and \$?(\S+)(?: tokens)? of the reservation is left: "
    r"(raise `budgets: \{(cost|tokens): …\}` of the task or lower `max_tokens`)"
)
_TOO_FEW = re.compile(r"set `budgets: \{(calls): (\d+)\}` on the task")


def _with_option(why: str, budget: dict[str, str]) -> str:
    """Why an attempt failed, with the option to raise where it names the budget of a task: there is no task to see."""
    if few := _TOO_FEW.search(why):
        return why.replace(few[0], f"add `--budget calls={few[2]}`")
    little = _TOO_LITTLE.search(why)
    if little is None:
        return why
    wanted, left, said, what = little.groups()
    given = (parse_money if what == "cost" else parse_count)(budget.get(what, "")) or 0
    enough = Decimal(max(given - float(left), 0) + float(wanted))
    step = Decimal(1).scaleb(enough.adjusted() - 1)  # two digits, rounded up
    amount = f"{(enough / step).to_integral_value(ROUND_CEILING) * step:f}"
    option = f"--budget 'cost=${amount}'" if what == "cost" else f"--budget tokens={amount}"
    return why.replace(said, f"raise it, such as `{option}`")


_SPENT = frozenset({"cost", "tokens", "calls"})
_PARAMS = {"goal": "what is to be reached", "current": "the plan that the file holds"}


def _slug(goal: str) -> str:
    words = re.findall(r"[a-z0-9]+", goal.lower())[:6]
    return "-".join(words)[:48].strip("-") or "draft"
