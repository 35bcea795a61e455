"""What each task of a plan may do, and which line of which file says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from planrunner.app.plans.path import read_regular
from planrunner.errors import PlanInvalid
from planrunner.journal.workspace import find_project
from planrunner.plan.access import GovernedTask, Ground, files, governed_tasks
from planrunner.plan.canonical import canonical
from planrunner.plan.load import load
from planrunner.plan.model import Plan, Task
from planrunner.plan.policy_checks import judged, refusal
from planrunner.plan.rights import Access, Decision, Level, entries, shown, texts
from planrunner.plugins.registry import Registry
from planrunner.safety.project import levels, policy_records, read_settings
from planrunner.source import Source
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Mapping, Node, Sequence, to_json
from planrunner.views.documents import document
from planrunner.views.rights import Explained, Said

Json = Any


def explained_document(plan: Plan, tasks: list[Explained]) -> dict[str, Json]:
    """What each task of a plan may do, and the line that allows it."""
    told = [{**task._asdict(), "said": [each._asdict() for each in task.said]} for task in tasks]
    return document(plan=plan.id, tasks=told)


def explain(path: str) -> tuple[Plan, list[Explained]]:
    """What every task of a plan may do under the policies of its project, its plan and itself. Raises NotFound, and
    PlanInvalid for a plan that does not load (a refusal by a policy does not count)."""
    file = read_regular(path)
    directory = find_project(path)
    registry = Registry(project=directory)
    found = load(file.source, registry)
    if file.findings or found.plan is None:
        raise PlanInvalid(f"`{path}` cannot run", file.source, (*file.findings, *found.findings))
    lines = Lines(directory, path, file.source)
    operator, ground = levels(policy_records(directory)), Ground(registry, directory)
    tasks = []
    for each in governed_tasks(found.plan, operator):
        name, task, around, _ = each
        said = list(_judged(each, lines))
        for wanted, right in files(around, task, ground):
            later = Said(wanted.entry, "later", way=wanted.way)
            said.append(later if right is None else _said(wanted, right, lines, task))
        for section in ("files", "network", "env", "sandbox"):
            said += _scopes(section, around, lines, task)
        tasks.append(Explained(name, task.uses or task.command or "", tuple(said)))
    return found.plan, tasks


def _judged(governed: GovernedTask, lines: Lines) -> Iterator[Said]:
    """What the levels say to a task as it is written; what they may still refuse for its values is ``open``."""
    _, task, around, env = governed
    doubted = dict(judged(around, task, env, doubt=True))
    for wanted, right in judged(around, task, env):
        worst = doubted.pop(wanted, right)
        still = worst.verdict != "allow" and right.verdict == "allow"
        yield (
            _said(wanted, worst, lines, task)._replace(verdict="open", help="")
            if still
            else _said(wanted, right, lines, task)
        )
    for wanted, right in doubted.items():
        said = _said(wanted, right, lines, task)
        yield said if right.verdict == "allow" else said._replace(verdict="open", help="")


def _said(wanted: Access, right: Decision, lines: Lines, task: Task) -> Said:
    what = wanted.entry if wanted.way else wanted.what
    if right.level is None:
        return Said(what, right.verdict, way=wanted.way)
    rule, entry = right.rule, right.entry
    help_ = refusal(wanted, right) if right.verdict == "deny" else ""
    section, verdict = rule.split(".")[1:3]
    place = lines.place(right.level, task, section, verdict, entry)
    return Said(what, right.verdict, f"{rule}: {entry}" if entry else rule, place, help_, wanted.way)


def _scopes(section: str, around: tuple[Level, ...], lines: Lines, task: Task) -> list[Said]:
    """What each level says of a section that is about more than can be read off the task."""
    result: list[Said] = []
    for level in around:
        data = level.data.get(section) if isinstance(level.data, dict) else None
        if data is None:
            continue
        if section == "sandbox":
            result.append(
                Said(f"a sandbox: {shown(data)}", "shut in", "policy.sandbox", lines.place(level, task, section))
            )
            continue
        for verdict in ("read", "write", "allow", "ask", "deny"):
            listed = _listed(section, data, verdict)
            if listed is not None:
                what = f"{section} {verdict}: {', '.join(listed) or 'nothing'}"
                place = lines.place(level, task, section, verdict)
                result.append(Said(what, "scope", f"policy.{section}.{verdict}", place))
    return result


def _listed(section: str, data: Json, verdict: str) -> list[str] | None:
    if section == "files":
        return None if not isinstance(data, dict) or data.get(verdict) is None else list(texts(data[verdict]))
    if verdict in ("read", "write"):
        return None
    found = entries(data, verdict)  # type: ignore[arg-type]
    return None if found is None else [shown(each) for each in found]


class Lines:
    """Finds the line of an entry; each file is read once."""

    def __init__(self, directory: str, path: str, source: Source) -> None:
        self._operator = {level.name: level for level in read_settings(directory).levels}
        self._folder = os.path.dirname(path)
        self._known: dict[str, tuple[Source, Node | None]] = {"": (source, _tree(source))}

    def place(self, level: Level, task: Task, section: str, verdict: str = "", entry: str = "") -> str:
        """``file:line:column`` of an entry, or of the nearest thing around it; empty where nothing is found."""
        policy: Node | None
        if level.name in self._operator:
            part, policy = self._operator[level.name].place(section)
            source = Source(part.source.text, os.path.relpath(part.source.name), part.source.notation)
        else:
            source, tree = self._file(level.file)
            policy = _policy_of(tree, level, task)
        if policy is None:
            return source.name
        node = _inside(policy, section, verdict, entry)
        line, column = source.place(node.span.start)
        return f"{source.name}:{line}:{column}"

    def _file(self, name: str) -> tuple[Source, Node | None]:
        if name not in self._known:
            path = os.path.join(self._folder, name)
            source = read_regular(path).source
            shown_as = os.path.relpath(path) if os.path.isabs(path) else path
            self._known[name] = (Source(source.text, shown_as, source.notation), _tree(source))
        return self._known[name]


def _tree(source: Source) -> Node | None:
    tree = parse(source).tree
    return canonical(tree) if isinstance(tree, Mapping) else tree


def _policy_of(tree: Node | None, level: Level, task: Task) -> Node | None:
    """The policy of a level: that of a task stands in the mapping with its id."""
    if not isinstance(tree, Mapping):
        return None
    if not level.name.startswith("task "):
        return tree.get("policy")
    wanted = level.name.removeprefix("task ")
    todo: list[Node] = [tree]
    for node in todo:
        if isinstance(node, Mapping):
            name = node.get("id")
            if name is not None and to_json(name) == wanted and node.get("policy") is not None:
                return node.get("policy")
            todo += [value for _, value in node.entries]
        elif isinstance(node, Sequence):
            todo += node.items
    return None


def _inside(policy: Node, section: str, verdict: str, entry: str) -> Node:
    """The node of an entry, else of the list, of the section or of the whole policy."""
    found = policy
    for key in (section, verdict):
        inner = found.get(key) if isinstance(found, Mapping) and key else None
        found = found if inner is None else inner
    if isinstance(found, Sequence) and entry:
        return next((item for item in found.items if shown(to_json(item)) == entry), found)
    return found
