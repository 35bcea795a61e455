"""From a source to a plan: parse, schema, canonical keys, lowering, rules; all findings of all stages in one order."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Table
from typing import Protocol

from planrunner.diagnostics import RULES, Diagnostic, Rule, arrange, has_errors
from planrunner.errors import NotFound
from planrunner.plan import schema
from planrunner.plan.canonical import canonical
from planrunner.plan.files import MAX_TASKS, Library, Links
from planrunner.plan.files import File as File
from planrunner.plan.files import read_plan as read_plan
from planrunner.plan.lower.plan import Lowered, lower
from planrunner.plan.model import Capability, Plan
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.table import Check, Parsed, run
from planrunner.plan.rules.unused import without_effect
from planrunner.plan.rules.view import Project
from planrunner.records import Struct
from planrunner.source import Source
from planrunner.syntax.notations import parse
from planrunner.syntax.scalars import trap
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence
from planrunner.syntax.yaml_errors import old_yaml


class Capabilities(Protocol):
    """What there is to use. ``find`` may load what it finds, ``names`` loads nothing."""

    def find(self, name: str) -> Capability | None: ...

    def names(self) -> tuple[str, ...]: ...


class Loaded(Struct):
    """``plan`` is None exactly when a finding is an error; ``tree`` is canonical, and None where nothing parsed.

    ``files`` are the plans that it links to and the texts of instructions that it names, directly or by others: their
    paths from the folder of the plan, and the SHA-256 of each.
    """

    plan: Plan | None
    findings: tuple[Diagnostic, ...]
    tree: Node | None
    files: tuple[tuple[str, str], ...] = ()
    sketch: Plan | None = None
    """The plan as far as it can be told, errors or not: for a drawing, never to run."""


DENIED = "PLAN801"
"""What a policy refuses is an error, and yet the plan is one that can be looked at."""

_NOTHING = Project()


def load(source: Source, capabilities: Capabilities, project: Project = _NOTHING) -> Loaded:
    """Load a plan. Never raises for what a text may hold: faults are findings. ``project`` is what else
    the plan is held to."""
    collecting = gc.isenabled()
    gc.disable()  # everything made here stays alive: a collection in between only costs
    try:
        library = _library(source, capabilities, project)
        found = _load(source, capabilities, Links(library, (os.path.basename(source.name),)), project)
        if found.plan is not None and library.too_large(found.plan):
            message = f"the plan has more than {MAX_TASKS:,} tasks with those of its subplans"
            findings = arrange([*found.findings, Diagnostic("PLAN011", message, found.plan.span)])
            found = found._replace(plan=None, findings=findings)
        return found._replace(files=library.files())
    finally:
        if collecting:
            gc.enable()


def _library(source: Source, capabilities: Capabilities, project: Project) -> Library:
    """The plans that one links to. They are held to the same of the project but for its policy, to which the plan that
    links them is held with all their tasks, and the run is looked back on once."""
    roster = project.roster
    roster = roster._replace(reflect=None) if roster is not None and roster.reflect else roster
    around = project._replace(levels=(), roster=roster)
    return Library(source.name, lambda inner, links: _load(inner, capabilities, links, around))


def load_stored(source: Source, capabilities: Capabilities, project: Project = _NOTHING) -> Plan:
    """The plan of a text that was accepted once, whatever its findings are today: keys that no longer exist have no
    effect. Raises NotFound for a file that it links and that is not there, or no longer what it was."""
    loaded = load(source, capabilities, project)
    if loaded.plan is not None:
        return loaded.plan
    assert isinstance(loaded.tree, Mapping), "only what is a plan was accepted"
    library = _library(source, capabilities, project)
    links = Links(library, (os.path.basename(source.name),))
    lowered = lower(loaded.tree, links, CapabilityTable(capabilities), project.roster)
    lost = library.fault()
    if lost is not None:
        raise NotFound(
            f"the plan `{source.name}` of the run cannot be read without what it links: {lost.message}", lost.help
        )
    return lowered.plan


def _load(source: Source, capabilities: Capabilities, links: Links, project: Project = _NOTHING) -> Loaded:
    parsed = parse(source)
    if parsed.tree is None:
        return Loaded(None, arrange(parsed.findings), None)
    whole = named(parsed.tree, source)
    tree = canonical(whole) if isinstance(whole, Mapping) else whole
    many = too_many(tree, len(source.text)) if isinstance(tree, Mapping) else None
    if many is not None:
        return Loaded(None, arrange([*parsed.findings, many]), tree)
    found = schema.check(whole)
    findings: list[Diagnostic] = [*parsed.findings, *found]
    if not isinstance(tree, Mapping):
        return Loaded(None, arrange(findings), whole)
    spelt = tree
    if (meant := _misspelt(found, source.text)) and isinstance(
        mended := _with_keys_corrected(whole, meant, {}), Mapping
    ):
        spelt = canonical(mended)
    table, more = CapabilityTable(capabilities), _plugin_checks(capabilities)
    lowered = lower(spelt, links, table, project.roster)
    findings = [_as_text(each, source) if each.span in lowered.worded else each for each in findings]
    said = {finding.span for finding in found}  # by the schema, of the same value in other words
    findings += [finding for finding in lowered.findings if finding.code != "PLAN006" or finding.span not in said]
    if len(lowered.plan.tasks) == 1 and lowered.plan.tasks[0].edges:
        lowered, astray = _alone(lowered)
        findings += astray
    project = project._replace(refused=has_errors(findings))
    before = Parsed(spelt, tuple(findings))
    findings += run(lowered.plan, source, table, more, lowered.subplans, project, before)
    faults = (each for each in findings if each.code != DENIED)
    return Loaded(None if has_errors(faults) else lowered.plan, arrange(findings), tree, sketch=lowered.plan)


def _as_text(finding: Diagnostic, source: Source) -> Diagnostic:
    """The finding of a parser about a number that is text here, because it is declared as it."""
    if finding.code != "PLAN010":
        return finding
    raw = source.text[finding.span.start : finding.span.end]
    return old_yaml(raw, raw, trap(raw), finding.span)


def _misspelt(findings: Iterable[Diagnostic], text: str) -> dict[int, str]:
    """The keys that were meant, by the places of those that are misspelt; what other tools call a key, whose value may
    mean something else, is not."""
    fixes = [finding.fix for finding in findings if finding.code == "PLAN003" and finding.fix is not None]
    edits = [(edit.span, edit.text.strip("'\"")) for fix in fixes for edit in fix.edits]
    return {span.start: near for span, near in edits if nearest(text[span.start : span.end].strip("'\""), (near,))}


def _with_keys_corrected(node: Node, meant: dict[int, str], done: dict[int, Node]) -> Node:
    """The tree with the keys that were meant. Without it a slip would be told again as what follows from it."""
    if isinstance(node, Scalar):
        return node
    made = done.get(id(node))
    if made is not None:
        return made
    if isinstance(node, Sequence):
        made = Sequence(
            [_with_keys_corrected(item, meant, done) for item in node.items], node.start, node.end, node.flow
        )
    else:
        keys = [
            Scalar(meant[key.start], key.start, key.end, key.raw, key.style) if key.start in meant else key
            for key, _ in node.entries
        ]
        values = [_with_keys_corrected(value, meant, done) for _, value in node.entries]
        made = Mapping(list(zip(keys, values, strict=True)), node.start, node.end, node.flow)
        made.merged = node.merged
    made.anchor = node.anchor
    done[id(node)] = made
    return made


def named(tree: Node, source: Source) -> Node:
    """A text file that holds only tasks is a plan with the name of its file; a mapping that is a task is a plan of that
    task alone."""
    if not isinstance(tree, Mapping):
        return tree
    if source.notation != "text":
        return _of_one_task(tree)
    if any(tree.key(key) for key in ("plan", "plan_id", "id")):
        return tree
    stem = os.path.basename(source.name).split(".")[0]
    name = re.sub(r"^[^A-Za-z_]+|[^A-Za-z0-9_-]+", "", stem) or "plan"
    return Mapping(
        [(Scalar("plan", 0, 0, "plan"), Scalar(name, 0, 0, name)), *tree.entries], tree.start, tree.end, tree.flow
    )


_PLANS_ALONE = frozenset(
    ["plan", "plan_id", "tasks", "nodes", "steps", "finally", "subplans", "gates", "defaults", "definition_of_done"]
)
_TASKS_ALONE = frozenset(
    "kind uses using run command gate ask with inputs input needs depends_on dependsOn expect success_criteria "
    "criteria preconditions failure_modes next capabilities".split()
)


def _of_one_task(tree: Mapping) -> Mapping:
    """The plan of a file that holds one task; any other mapping is the plan itself."""
    keys = {str(key.value) for key, _ in tree.entries}
    name = tree.get("id")
    if name is None or keys & _PLANS_ALONE or not keys & _TASKS_ALONE:
        return tree
    plan = (Scalar("plan", name.start, name.end, "plan"), name)
    tasks = (Scalar("tasks", tree.start, tree.start, "tasks"), Sequence([tree], tree.start, tree.end))
    return Mapping([plan, tasks], tree.start, tree.end, tree.flow)


def _alone(lowered: Lowered) -> tuple[Lowered, list[Diagnostic]]:
    """A plan of one task without its edges to tasks of other files, each of which is a finding."""
    [task] = lowered.plan.tasks
    own = tuple(edge for edge in task.edges if edge.target == task.id)
    astray = [
        without_effect(f"the edge to `{edge.target}`", edge.span, f"`{task.id}` is the only task of this plan")
        for edge in task.edges
        if edge.target != task.id
    ]
    return lowered._replace(plan=lowered.plan._replace(tasks=(task._replace(edges=own),))), astray


def _plugin_checks(capabilities: Capabilities) -> list[Check]:
    """The lint rules that plugins brought along, where ``capabilities`` knows plugins; their codes become known."""
    checks: tuple[tuple[Rule, Check], ...] = getattr(capabilities, "rules", tuple)()
    for rule, _ in checks:
        RULES.setdefault(rule.code, rule)
    return [check for _, check in checks]


class CapabilityTable(Table[str, Capability]):
    """Capabilities as the mapping that rules look into; only what a plan names is ever loaded."""

    def __init__(self, capabilities: Capabilities) -> None:
        self._capabilities = capabilities

    def __getitem__(self, name: str) -> Capability:
        found = self._capabilities.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._capabilities.names())

    def __len__(self) -> int:
        return len(self._capabilities.names())

    def built_in(self) -> Iterable[str]:
        """The names that need no plugin; all where that is not known."""
        found: Callable[[], Iterable[str]] = getattr(self._capabilities, "built_in", self._capabilities.names)
        return found()

    @property
    def aside(self) -> str:
        """What was not looked at, in words; empty where everything was."""
        return str(getattr(self._capabilities, "aside", ""))

    def missing(self, name: str) -> str:
        """Why a capability that could be there is not; empty where nothing is known of it."""
        found: Callable[[str], str] | None = getattr(self._capabilities, "missing", None)
        return found(name) if found is not None else ""


_SHORTEST = 2
"""Characters that an item of a list has at least: one, and a comma."""
_LISTS = frozenset({"tasks", "finally", "subplan"})
"""Canonical keys of lists of tasks."""


def too_many(tree: Mapping, length: int) -> Diagnostic | None:
    """The finding about a plan with more than ``MAX_TASKS`` tasks, those inside others included; ``length`` is that of
    its text, because most are too short to have so many. Aliased tasks count as often as they appear."""
    if length < MAX_TASKS * _SHORTEST:
        return None
    count, waiting = 0, list[Node]([tree])
    while waiting:
        node = waiting.pop()
        if isinstance(node, Sequence):
            waiting += [item for item in node.items if not isinstance(item, Scalar)]
        elif isinstance(node, Mapping):
            for key, value in node.entries:
                if isinstance(value, Sequence) and key.value in _LISTS:
                    count += len(value.items)
                if not isinstance(value, Scalar):
                    waiting.append(value)
        if count > MAX_TASKS:
            message = f"the plan has more than {MAX_TASKS:,} tasks"
            return Diagnostic("PLAN011", message, tree.span, help="split it, or generate tasks with `matrix`")
    return None
