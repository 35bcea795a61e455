"""``planrunner preview``: the envelope of a run, kept in a file that binds a later run to exactly this."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from planrunner import __version__
from planrunner.app.plans.tasks import select
from planrunner.app.proof.envelope import KnownPlan, envelope
from planrunner.app.proof.names import walk
from planrunner.app.runs.preflight import Needs, missing
from planrunner.app.runs.setup import ReadyPlan, environment_of, parallel_limit, prepare_plan, run_settings
from planrunner.capabilities.binding import Binding, invoke
from planrunner.capabilities.contract import Call, Context
from planrunner.capabilities.faults import Overdue, within
from planrunner.capabilities.soundness import no_preview
from planrunner.engine.attempts import located
from planrunner.engine.questions import LOOK
from planrunner.engine.services import AttemptServices
from planrunner.errors import Hint, NextStep, NotFound, RecordMismatch, UsageError
from planrunner.escapes import masked_data
from planrunner.frozen import EMPTY
from planrunner.journal.workspace import find_project, find_state
from planrunner.jsontext import stable_json
from planrunner.machine.events import Outcome
from planrunner.plan.expressions.values import EvaluationError, TemplateError
from planrunner.plan.model import Plan, Task
from planrunner.plan.params import bind_params
from planrunner.plan.tasks import inner
from planrunner.plugins.registry import Registry
from planrunner.records import Struct
from planrunner.safety.project import policy_records

Json = Any


FORMAT = 1
_PREVIEW = NextStep("preview", "PLAN", "--save", "FILE")
_AGAIN = Hint("look at it again: ", _PREVIEW)


class Previewed(Struct):
    """A plan about to run: digest, values of parameters, traits of its capabilities, environment variables
    that it reads, and how many tasks may run at once."""

    plan: Plan
    digest: str
    params: Mapping[str, Json]
    traits: Mapping[str, Json]
    env: Mapping[str, str]
    parallel: int
    selected: tuple[str, ...] | None = None
    needs: Mapping[str, Sequence[str]] = EMPTY
    """The preconditions of its capabilities."""


def missing_of(path: str, previewed: Previewed) -> list[dict[str, Json]]:
    """What the plan needs and what is missing here; ``refuses`` where it keeps a run from starting."""
    needs = Needs(
        *(
            previewed.plan,
            previewed.params,
            previewed.env,
            previewed.traits,
            previewed.needs,
            find_project(path),
            previewed.selected,
        ),
        policies=policy_records(find_project(path)),
    )
    return [masked_data({**each._asdict(), "tasks": list(each.tasks)}) for each in missing(needs)]


def preview_object(path: str, previewed: Previewed) -> dict[str, Json]:
    """The preview as data: what ``preview --json`` prints and ``--save`` writes. Passwords in addresses are masked; the
    digests of the plan and its parameters cover them."""
    look = KnownPlan(previewed.plan, previewed.params, previewed.traits, previewed.env)
    look.selected = None if previewed.selected is None else frozenset(previewed.selected)
    whole = masked_data(json.loads(stable_json(envelope(look, previewed.parallel))))
    return {
        "format": FORMAT,
        "planrunner": __version__,
        "plan": path,
        "digests": {
            "plan": previewed.digest,
            "params": _digest(previewed.params),
            "envelope": _digest(whole),
        },
        "params": masked_data(dict(previewed.params)),
        "envelope": whole,
    }


def _digest(value: Json) -> str:
    return "sha256:" + sha256(stable_json(value).encode("utf-8", "surrogatepass")).hexdigest()


class Choice(Struct):
    """What a run is asked for beside its plan: parameters, tasks of ``--only`` and ``--until``, how many at once."""

    params: tuple[tuple[str, Json], ...] = ()
    only: tuple[str, ...] = ()
    until: tuple[str, ...] = ()
    parallel: int | None = None


def changes_of(path: str, previewed: Previewed, state: str | None = None) -> list[dict[str, Json]]:
    """What the capabilities of a plan tell of what they would do now."""
    look = KnownPlan(previewed.plan, previewed.params, previewed.traits, previewed.env)
    ground = Ground(find_project(path), find_state(path, state), Registry().resolve)
    return [masked_data(change) for change in changes(look, ground)]


def previewed(path: str, chosen: Choice, text: bytes | None = None) -> Previewed:
    """A plan file as a run would see it now, with ``text`` in it where that is given. Raises NotFound, PlanInvalid,
    UsageError."""
    project = find_project(path)
    seen = prepare_plan(path, None, Registry(project=project), text)
    bound = bind_params(seen.plan, dict(chosen.params))
    if bound.problems:
        raise UsageError("; ".join(bound.problems))
    env = environment_of(seen.env, project)
    selected = select(seen.plan, chosen.only, chosen.until)
    planned = seen.plan.max_parallel
    parallel = parallel_limit(chosen.parallel, planned, run_settings(project)[1]) or planned
    return Previewed(seen.plan, seen.digest, bound.values, seen.traits, env, parallel, selected, seen.needs)


def read_preview(path: str) -> dict[str, Json]:
    """A saved preview. Raises NotFound, and UsageError for any other file."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError as error:
        raise NotFound(f"there is not a preview `{path}`", Hint(_PREVIEW, " writes one")) from error
    except (OSError, ValueError) as error:
        raise UsageError(f"`{path}` is not a preview: {error}") from error
    parts = {"format", "planrunner", "digests", "params", "envelope"}
    if not isinstance(found, dict) or not parts <= found.keys() or not isinstance(found["digests"], dict):
        raise UsageError(f"`{path}` is not a preview", Hint(_PREVIEW, " writes one"))
    if found["format"] != FORMAT:
        raise UsageError(f"`{path}` is a preview of another format ({found['format']}), not {FORMAT}")
    return found


def write_preview(path: str, document: dict[str, Json]) -> None:
    """Write a preview to a file that must not exist. Raises UsageError."""
    try:
        with open(path, "x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    except FileExistsError as error:
        raise UsageError(f"`{path}` is there already") from error
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error


def hold_to(
    path: str, seen: ReadyPlan, params: Mapping[str, Json], parallel: int | None, selected: tuple[str, ...] | None
) -> None:
    """Let a run go on only where it is what a saved preview showed; raises RecordMismatch that says what differs."""
    saved = read_preview(path)
    side_by_side = parallel or seen.plan.max_parallel
    env = environment_of(seen.env, find_project(str(saved.get("plan", ""))))
    now = Previewed(seen.plan, seen.digest, params, seen.traits, env, side_by_side, selected)
    found = preview_object(str(saved.get("plan", "")), now)
    wrong = [part for part in ("plan", "params", "envelope") if saved["digests"].get(part) != found["digests"][part]]
    intact = saved["digests"].get("envelope") == _digest(saved["envelope"])
    if saved["planrunner"] != __version__:
        raise RecordMismatch(f"the preview was made by planrunner {saved['planrunner']}, this is {__version__}", _AGAIN)
    if not intact:
        raise RecordMismatch(f"the preview `{path}` was edited: its envelope has another digest", _AGAIN)
    if wrong:
        raise RecordMismatch(f"the run differs from the preview: {'; '.join(_told(wrong, saved, found))}", _AGAIN)


def _told(wrong: list[str], saved: dict[str, Json], document: dict[str, Json]) -> list[str]:
    """What differs, from the cause to the effect."""
    said = []
    if "params" in wrong:
        names = [name for name, value in document["params"].items() if saved["params"].get(name) != value]
        names += [name for name in saved["params"] if name not in document["params"]]
        listed = ", ".join(f"`{name}`" for name in names) or "in what is masked"
        said.append(f"other parameters ({listed})")
    before = {row["task"]: row for row in saved["envelope"]["tasks"]}
    after = {row["task"]: row for row in document["envelope"]["tasks"]}
    differing = [f"`{task}` is new" for task in after.keys() - before.keys()]
    differing += [f"`{task}` is gone" for task in before.keys() - after.keys()]
    for task in after.keys() & before.keys():
        keys = [key for key in after[task] if after[task][key] != before[task].get(key)]
        if keys:
            differing.append(f"`{task}`: {', '.join(sorted(keys))}")
    if "plan" in wrong:
        said.append("another plan" + (f" ({'; '.join(sorted(differing)[:8])})" if differing else ""))
    elif "envelope" in wrong and differing and "params" not in wrong:
        said.append(f"another envelope ({'; '.join(sorted(differing)[:8])})")
    elif wrong == ["envelope"]:
        parts = [key for key, value in document["envelope"].items() if saved["envelope"].get(key) != value]
        said.append(f"another envelope ({', '.join(parts)})")
    return said


class Ground(Struct):
    """Where the run would work: its directory and its state directory; ``resolve`` finds capabilities."""

    directory: str
    state_dir: str
    resolve: Callable[[str], Callable[..., Any]]


class _Unheard:
    """A log that is dropped."""

    __slots__ = ()
    usage: dict[str, Any] = EMPTY

    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    def beat(self) -> None: ...

    def spend(self, amounts: Any) -> None: ...


def changes(known: KnownPlan, ground: Ground) -> Iterator[dict[str, Json]]:
    """One record for each task whose capability can tell: ``task``, ``uses``, ``summary``, ``diff``, ``calls``; or a
    ``problem`` where it cannot be told before the run, or would not work now."""
    for path, task in walk(known.plan.tasks):
        trait = known.traits.get(task.uses)
        if not task.uses or inner(task) or (task.effect or (trait and trait[0])) in ("pure", "read"):
            continue
        binding = located(ground.resolve, f"{task.uses}#preview")
        if isinstance(binding, Binding) and binding.function is not None:
            yield {"task": path, "uses": task.uses, **_change(known, ground, task, binding)}


def _told_change(binding: Binding, call: Call, services: AttemptServices) -> Any:
    """What the capability gives. Raises Overdue."""

    def work(stopped: Callable[[], bool]) -> Any:
        return invoke(binding, call.inputs, Context(call, _Unheard(), stopped, services), "the preview", halves=True)

    return within(call.timeout or LOOK, f"`preview` of `{call.task.uses}`", work)


def _script(known: KnownPlan, task: Task) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """The script of a task with the values that it gets, or its arguments."""
    if isinstance(task.run, tuple):
        return "", tuple(str(known.value(word)) for word in task.run), {}
    if task.script is None or not task.script.text:
        return task.run or "", (), {}
    return task.script.text, (), {name: str(known.value(template)) for name, template in task.script.values}


def _change(known: KnownPlan, ground: Ground, task: Task, binding: Binding) -> dict[str, Json]:
    change: dict[str, Json] = {"summary": "", "diff": "", "calls": [], "problem": ""}
    try:
        inputs = known.value(task.inputs or {})
        env = {name: str(known.value(value)) for name, value in (*known.plan.env, *task.env)}
        directory = os.path.join(ground.directory, str(known.value(task.cwd))) if task.cwd else ground.directory
        script, arguments, values = _script(known, task)
    except (TemplateError, EvaluationError):
        return {**change, "problem": "only the run has the values that it needs"}
    call = Call(
        "preview", task, 1, "preview", inputs, script, arguments, values, env, directory, "", task.timeout, dry=True,
        completed=dict.fromkeys(task.needs, ""),
    )  # fmt: skip
    services = AttemptServices(ground.state_dir, ground.directory, None, env)
    try:
        told = _told_change(binding, call, services)
    except Overdue as late:
        return {**change, "problem": str(late)}
    if not isinstance(told, Outcome):
        return {**change, "problem": "its capability told nothing"}
    if told.failure:
        return {**change, "problem": f"as things are now: {told.message}"}
    if why := no_preview(task.uses, told.outputs):
        return {**change, "problem": why}
    return {**change, **told.outputs, "calls": list(told.outputs["calls"])}
