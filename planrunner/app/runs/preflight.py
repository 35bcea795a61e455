"""What a plan needs and what of it is missing here, told before its first task: secrets, keys, programs, packages and
folders. Nothing is run to find out, and only what is sure is told."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.contract import Failure
from planrunner.engine.processes import SpawnFailed, search
from planrunner.errors import Hint, Unready
from planrunner.later import Later
from planrunner.machine.graph import Shape
from planrunner.plan.agents import REFLECTION
from planrunner.plan.tasks import declared_secrets, inner
from planrunner.plan.templated import EvaluationError, TemplateError
from planrunner.records import Struct
from planrunner.safety.project import levels, read_data

if TYPE_CHECKING:
    from planrunner.app.proof.envelope import KnownPlan
    from planrunner.capabilities.http.guard import Guard
    from planrunner.capabilities.llm.usage import require_price
    from planrunner.capabilities.mcp.servers import listing
    from planrunner.capabilities.preconditions import Ground, input_of, require
    from planrunner.engine.secrets import Vault
    from planrunner.plan.model import Action, Plan, Task
    from planrunner.plan.rights import Level, restricts
    from planrunner.safety.credentials import lacking, read_credentials
    from planrunner.safety.roster import named
else:
    KnownPlan = Later("planrunner.app.proof.envelope:KnownPlan")
    Guard = Later("planrunner.capabilities.http.guard:Guard")
    require_price = Later("planrunner.capabilities.llm.usage:require_price")
    listing = Later("planrunner.capabilities.mcp.servers:listing")
    Ground = Later("planrunner.capabilities.preconditions:Ground")
    input_of = Later("planrunner.capabilities.preconditions:input_of")
    require = Later("planrunner.capabilities.preconditions:require")
    lacking = Later("planrunner.safety.credentials:lacking")
    read_credentials = Later("planrunner.safety.credentials:read_credentials")
    named = Later("planrunner.safety.roster:named")
    Level = Later("planrunner.plan.rights:Level")
    restricts = Later("planrunner.plan.rights:restricts")

Json = Any


class Missing(Struct):
    """One thing that is not there: what it is (secret, precondition, program or folder), for which tasks, and what to
    do about it. ``refuses``: no task that comes before could make it, so that the run does not start; ``allowed``: it
    could not either, but the plan says how to go on without."""

    kind: str
    tasks: tuple[str, ...]
    text: str
    refuses: bool
    allowed: bool = False


class Needs(Struct):
    """A plan that is about to act. ``capabilities`` gives the preconditions of those that have any, ``vault`` the
    secrets of the run where they were looked up already; ``open`` are the tasks at the top that may still run (None:
    all), ``policies`` whatever else than the plan says what a task is shut into."""

    plan: Plan
    params: Mapping[str, Json]
    env: Mapping[str, str]
    traits: Mapping[str, Json]
    capabilities: Mapping[str, Sequence[str]]
    directory: str
    selected: Collection[str] | None = None
    vault: Vault | None = None
    open: Collection[str] | None = None
    policies: Json = None


class _Found(Struct):
    kind: str
    text: str
    lasting: bool = False
    """Nothing that a task does can change it."""
    spared: bool = False
    """The run does without the task, also where this is lasting."""


def missing(needs: Needs) -> list[Missing]:
    """What is missing, each thing once."""
    look = _Look(needs)
    absent: list[tuple[str, _Found]] = []
    outside = _Around(needs.plan, levels(needs.policies or [])).within(needs.plan)
    waiting = [(task.id, task, outside.within(task)) for task in needs.plan.tasks]
    covered: set[str] = set()
    for path, task, around in waiting:
        reflects = REFLECTION in (task.notes or {})  # its failure changes nothing, whatever it is
        absent += ((path, each._replace(spared=reflects)) for each in look.at(path, task, around))
        if path.rpartition("/")[0] in covered or _may_fail(task):
            covered.add(path)
        inside = around if task.sub is None else around.within(task.sub)._replace(plan=task.sub, linked=True)
        waiting += [(f"{path}/{each.id}", each, inside.within(each)) for each in inner(task)]
    if not absent:
        return []
    going = look.known.may_run(needs.selected, needs.open)
    makers = made_before(needs.plan, needs.traits)
    rows: dict[tuple[str, str, bool, bool], list[str]] = {}
    for path, each in absent:
        if path in going:
            may_be_made = path in makers and not each.lasting
            allowed = each.spared or (path in covered and not (each.lasting or may_be_made))
            key = (each.kind, each.text, not (may_be_made or allowed), allowed)
            rows.setdefault(key, []).append(path)
    return [Missing(kind, tuple(paths), text, *how) for (kind, text, *how), paths in rows.items()]


def _may_fail(task: Task) -> bool:
    """Whether the plan goes on where a task fails, whatever the reason."""
    recovers = any(edge.on == "failure" and edge.recovers and not edge.failure_class for edge in task.edges)
    return task.allow_failure or recovers


def require_ready(needs: Needs, what: str, hint: str | Hint) -> list[str]:
    """Raises Unready, with everything that is missing, where ``what`` cannot run; gives what a task may still make. A
    folder is mostly made by a task before, so a preview alone tells of it."""
    found = missing(needs)
    refusing = [each for each in found if each.refuses]
    if refusing:
        listed = "\n".join(f"  {line(each)}" for each in found)
        number = "one thing that it needs is" if len(refusing) == 1 else f"{len(refusing)} things that it needs are"
        raise Unready(f"{what}: {number} missing here\n{listed}", hint)
    return [line(each) for each in found if each.kind != "folder"]


def line(found: Missing) -> str:
    """What is missing, for people."""
    shown = [f"`{task}`" for task in found.tasks[:5]] + (["…"] if found.tasks[5:] else [])
    way = " (its failure is allowed)" if found.allowed else " (unless a task before it makes it)"
    return f"{', '.join(shown)}: {found.text}{'' if found.refuses else way}"


class _Around(Struct):
    """Where a task stands: its plan, the levels of policy that hold for it, whether the plan is a linked one, whose
    parameters only the run has, and whether a budget limits the cost."""

    plan: Plan
    rights: tuple[Level, ...]
    linked: bool = False
    limited: bool = False

    def within(self, part: Plan | Task) -> _Around:
        """The same with what a plan or a task says of itself."""
        rights = (*self.rights, Level(part.id, part.policy)) if part.policy and restricts(part.policy) else self.rights
        return self._replace(rights=rights, limited=self.limited or isinstance(part.budgets.cost, (int, float)))


class _Look:
    """Looks at one task after the other."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._known_plan: KnownPlan | None = None
        self._apart = "container" in str([needs.plan.policy, needs.policies])
        self._credentials: Mapping[str, Any] | None = None

    @property
    def known(self) -> KnownPlan:
        if self._known_plan is None:
            needs = self._needs
            self._known_plan = KnownPlan(needs.plan, needs.params, needs.traits, needs.env)
        return self._known_plan

    def at(self, path: str, task: Task, around: _Around) -> Iterator[_Found]:
        """What is missing for one task and its rollback."""
        for wish in declared_secrets(task.secrets) if task.secrets else ():
            why, lasting = self._why_not(wish.id)
            if why:
                yield _Found("secret", why, lasting)
        for each in (task, task.rollback):
            if each is not None and each.uses:
                yield from self._declared(each, around)
                yield from self._started(each, task, around)

    def _why_not(self, name: str) -> tuple[str, bool]:
        """Why a credential cannot be had, and whether no task can change that."""
        if self._credentials is None:
            self._credentials = read_credentials(self._needs.directory)
        credential = self._credentials.get(name)
        if credential is None:
            return "", False
        vault = self._needs.vault
        known = "" if vault is None else vault.missing.get(name, "")
        return known or lacking(credential, os.environ), credential.source == "env"

    def _declared(self, each: Task | Action, around: _Around) -> Iterator[_Found]:
        """The preconditions of a capability; one that goes by an input which only the run has is left to it."""
        declared = self._needs.capabilities.get(each.uses, ())
        if not declared:
            return
        data = read_data(self._needs.directory)
        path = os.environ.get("PATH", os.defpath)
        ground = Ground(
            *(path, lambda name: named(data.get(name)), os.environ, lambda name: self._why_not(name)[0]),
            reach=lambda url: _reached(url, named(data.get("network"))),
            afford=require_price if around.limited else lambda model: None,
            offers=lambda server: listing(around.rights, server).verdict != "deny",
            own=self._variables(each, around),
        )
        given = each.inputs if isinstance(each.inputs, dict) else {}
        for text in declared:
            name = input_of(text)
            value = self._known(given.get(name), around)
            if value is None and given.get(name) is not None:
                continue
            if text.startswith("program ") and self._own_path(each, around):
                continue
            try:
                require((text,), {name: value}, ground)
            except Failure as unmet:
                yield _Found("precondition", str(unmet), getattr(unmet, "lasting", True))

    def _started(self, each: Task | Action, task: Task, around: _Around) -> Iterator[_Found]:
        """The folder that a command works in, and its program where no shell looks for it."""
        starts = each.run or any(text.startswith("program ") for text in self._needs.capabilities.get(each.uses, ()))
        if not starts or self._apart or "container" in str(task.policy):
            return
        folder = self._known(task.cwd, around)
        where = os.path.join(self._needs.directory, folder) if isinstance(folder, str) else ""
        if where and not os.path.isdir(where):
            yield _Found("folder", f"the folder `{folder}` to work in does not exist: mkdir -p {folder}")
            return
        name = self._known(_program(each, task), around)
        if not isinstance(name, str) or not name or self._own_path(task, around):
            return
        if "/" in name:
            if where and not os.access(os.path.join(where, name), os.X_OK):
                yield _Found("program", f"the program `{name}` does not exist there, or cannot be executed")
        elif not _on_path(name, where):
            yield _Found("program", f"the program `{name}` is not on the PATH: install it, or add its folder to PATH")

    def _own_path(self, each: Task | Action, around: _Around) -> bool:
        """Whether the plan says itself where programs are."""
        return "PATH" in self._variables(each, around)

    def _variables(self, each: Task | Action, around: _Around) -> Mapping[str, Json]:
        """The variables that the plan sets for it."""
        return dict((*self._needs.plan.env, *around.plan.env, *getattr(each, "env", ())))

    def _known(self, value: Json, around: _Around) -> Json:
        """A value with its templates filled in; None where only the run can do that."""
        shown = str(value)
        if "{{" not in shown and "{%" not in shown:
            return value
        if around.linked:
            return None
        try:
            return self.known.value(value)
        except (TemplateError, EvaluationError):
            return None


def _reached(url: str, settings: Mapping[str, Json]) -> None:
    """Raises Failure for an address that is sure to be refused."""
    Guard(settings).foresee(url)


def _program(each: Task | Action, task: Task) -> str:
    """The program that a command starts without a shell, or the interpreter of its script."""
    if isinstance(each.run, tuple):
        return str(each.run[0])
    if each.script is not None and each.script.simple and not task.shell:
        return str(each.script.simple[0])
    return (task.shell.split() or [""])[0]


def _on_path(name: str, where: str) -> bool:
    path = os.environ.get("PATH", os.defpath)
    if not where and any(folder[:1] != "/" for folder in path.split(os.pathsep)):
        return True
    try:
        return bool(search(name, path, where))
    except SpawnFailed:
        return False


def made_before(plan: Plan, traits: Mapping[str, Json]) -> set[str]:
    """The written paths of the tasks before which another one acts, which may make files and programs."""
    result: set[str] = set()
    _level(plan.tasks, "", False, traits, result)
    return result


def _level(tasks: Sequence[Task], prefix: str, before: bool, traits: Mapping[str, Json], found: set[str]) -> None:
    shape = Shape()
    shape.add(tasks)
    for number, task in enumerate(tasks):
        above = range(len(tasks)) if task.finally_ else _above(shape, number)
        makes = before or any(_acts(tasks[other], traits) for other in above if other != number)
        if makes:
            found.add(prefix + task.id)
        _level(inner(task), f"{prefix}{task.id}/", makes, traits, found)


def _above(shape: Shape, number: int) -> set[int]:
    numbers: set[int] = set()
    waiting = [number]
    for here in waiting:
        for other in (*shape.needs[here], *(route.source for route in shape.routes_in.get(here, ()))):
            if other not in numbers:
                numbers.add(other)
                waiting.append(other)
    return numbers


def _acts(task: Task, traits: Mapping[str, Json]) -> bool:
    """Whether a task, or one inside it, changes anything; what people do at a gate counts as nothing."""
    if held := inner(task):
        return any(_acts(each, traits) for each in held)
    if task.gate is not None:
        return False
    trait = traits.get(task.uses)
    return (task.effect or (trait[0] if trait else "unsafe")) not in ("pure", "read")
