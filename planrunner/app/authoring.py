"""Work on plan files: check, mend, format, convert, draw. Nothing here runs a task."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from planrunner.app.planfile import read_regular
from planrunner.app.schemas import capabilities_schema, part, plan_schema, project_schema, run_schema
from planrunner.diagnostics import RULES, Diagnostic, Severity, arrange, has_errors
from planrunner.errors import NotFound, PlanInvalid, UsageError
from planrunner.journal.workspace import find_project
from planrunner.plan.canonical import ordered
from planrunner.plan.files import File
from planrunner.plan.fixes import apply
from planrunner.plan.load import Capabilities, Loaded, load, named
from planrunner.plan.model import Capability, Plan
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.view import Project
from planrunner.plugins.registry import Registry
from planrunner.safety.credentials import read_credentials
from planrunner.safety.project import levels, policy_records, read_project
from planrunner.source import Notation, Source
from planrunner.syntax.notations import parse, read_comments, write
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node, Scalar
from planrunner.syntax.tree import Sequence as SequenceNode
from planrunner.views.graph import drawing, graph_object, render_dot, render_mermaid

ROUNDS = 10
"""How often a text is mended and read again: a fix may make room for another one."""

_latest: list[Loaded] = []
"""The plan checked last: to take a tree of a million nodes apart costs a twentieth of checking it, and a process that
ends need not."""

_WEIGHT: dict[Severity, int] = {"note": 0, "warning": 1, "error": 2}


class Choice(NamedTuple):
    """Which findings count: codes, names or beginnings of codes such as ``PLAN5``; an empty ``select`` takes all."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


class Checked(NamedTuple):
    """One plan after a check. ``before`` is the text as it was found; it differs from ``source.text`` after fixes."""

    source: Source
    findings: tuple[Diagnostic, ...]
    before: str
    fixed: int = 0


def registry(project: str | None = None, keeps: bool = True) -> Capabilities:
    """The installed capabilities and those of a project; late, because most commands look none up. ``keeps`` as in
    ``Registry``."""
    found: Capabilities = Registry(project=project, keeps=keeps)
    return found


def catalogue(family: str | None = None) -> list[Capability]:
    """Every installed capability, by name, or those of a family such as ``files``, or of a group in one such as
    ``git.worktree``; loads every plugin."""
    known = registry()
    begins = f"{family}_" if family is not None and "." in family else f"{family}."
    names = sorted(name for name in known.names() if family is None or name.startswith(begins))
    return [found for name in names if (found := known.find(name)) is not None]


def capability(name: str) -> Capability:
    """One capability; raises NotFound with the nearest name."""
    known = registry()
    found = known.find(name)
    if found is None:
        near = nearest(name, known.names())
        raise NotFound(
            f"no installed capability is named `{name}`",
            f"did you mean `{near}`?" if near else "`planrunner capabilities` lists them",
        )
    return found


def check_file(file: File, choice: Choice, capabilities: Capabilities) -> Checked:
    """The findings about one plan."""
    if file.findings:  # the bytes are no text: there is nothing to load
        return Checked(file.source, chosen(arrange(file.findings), choice), file.source.text)
    loaded = load(file.source, capabilities, _project(file.source.name))
    _latest[:] = [loaded]
    return Checked(file.source, chosen(loaded.findings, choice), file.source.text)


def _project(path: str) -> Project:
    """What the project that a plan belongs to holds it to; nothing where its file is not sound, which
    ``check_settings`` finds."""
    directory = find_project(path)
    try:
        variables = {name: each.env_var for name, each in read_credentials(directory).items()}
        return Project(read_project(directory).people, levels(policy_records(directory)), variables, directory)
    except (UsageError, PlanInvalid):
        return Project()


def mend_file(file: File, choice: Choice, capabilities: Capabilities, unsafe: bool) -> Checked:
    """The findings that remain after mending, with the mended text in ``source``; nothing is written.

    A round after which the text does not parse any more is taken back. Errors that only showed behind a mended one
    stay: they are the plan's own.
    """
    checked = check_file(file, choice, capabilities)
    if file.findings:
        return checked
    fixed = 0
    for _ in range(ROUNDS):
        done = apply(checked.source, checked.findings, unsafe)
        if not done.findings or done.text == checked.source.text:
            break
        fresh = Source(done.text, file.source.name, file.source.notation)
        after = check_file(File(fresh), choice, capabilities)
        if _unreadable(after.findings) - _unreadable(checked.findings):
            break
        checked, fixed = after, fixed + len(done.findings)
    return checked._replace(before=file.source.text, fixed=fixed)


def reaches(findings: Iterable[Diagnostic], severity: Severity) -> bool:
    """Whether a finding is at least that severe."""
    return any(_WEIGHT[finding.severity] >= _WEIGHT[severity] for finding in findings)


def check_codes(words: Iterable[str]) -> tuple[str, ...]:
    """Codes, names and beginnings of codes as ``Choice`` holds them. Raises UsageError for a word that fits no rule."""
    found = []
    for word in (each.strip() for words_ in words for each in words_.split(",")):
        if not word:
            continue
        known = [rule for rule in RULES.values() if _fits(rule.code, rule.name, word)]
        if not known:
            near = nearest(word.upper(), RULES) or nearest(word.lower(), [rule.name for rule in RULES.values()])
            hint = f"did you mean `{near}`?" if near else "`planrunner rule --all` lists them"
            raise UsageError(f"there is no rule `{word}`", hint)
        found.append(word)
    return tuple(found)


def chosen(findings: Sequence[Diagnostic], choice: Choice) -> tuple[Diagnostic, ...]:
    """The findings that count."""
    if not choice.select and not choice.ignore:
        return tuple(findings)

    def among(finding: Diagnostic, words: tuple[str, ...]) -> bool:
        return any(_fits(finding.code, finding.name, word) for word in words)

    return tuple(
        finding
        for finding in findings
        if (not choice.select or among(finding, choice.select)) and not among(finding, choice.ignore)
    )


def _fits(code: str, name: str, word: str) -> bool:
    return code.startswith(word.upper()) or name == word.lower()


def _unreadable(findings: Iterable[Diagnostic]) -> set[str]:
    """The codes of findings that say that a text does not parse."""
    return {finding.code for finding in findings} & {"PLAN001", "PLAN002", "PLAN011", "PLAN012", "PLAN013"}


def load_plan(path: str) -> Plan:
    """The plan of a file. Raises NotFound, PlanInvalid."""
    file = read_regular(path)
    loaded = Loaded(None, file.findings, None) if file.findings else load(file.source, registry(find_project(path)))
    if loaded.plan is None:
        raise PlanInvalid(f"`{path}` is not a valid plan", file.source, loaded.findings)
    return loaded.plan


def format_text(file: File) -> str:
    """The plan in canonical form, in its own notation, comments kept. Raises PlanInvalid where it does not parse."""
    return _written(file, file.source.notation)


def convert_text(file: File, notation: Notation) -> str:
    """The plan in another notation, in canonical form. Raises PlanInvalid where it does not parse.

    JSON is laid out by what it holds, so that it is the same text whatever notation it comes from.
    """
    return _written(file, notation, even=notation == "json")


def _written(file: File, notation: Notation, even: bool = False) -> str:
    source = file.source
    if file.findings:
        raise PlanInvalid(f"`{source.name}` cannot be read as a plan", source, arrange(file.findings))
    parsed = parse(source)
    if parsed.tree is None or has_errors(parsed.findings):
        raise PlanInvalid(f"`{source.name}` does not parse", source, arrange(parsed.findings))
    comments = read_comments(source, parsed.tree) if source.notation != "json" else None
    tree = parsed.tree if notation == source.notation == "text" else named(parsed.tree, source)
    if isinstance(tree, MappingNode):
        tree = ordered(tree)
    if even:
        _lay_out(tree, set())
    return write(tree, notation, comments)


def _lay_out(node: Node, seen: set[int]) -> None:
    """Ask for one line exactly where a collection holds only scalars."""
    if isinstance(node, Scalar) or id(node) in seen:
        return
    seen.add(id(node))
    inner = node.items if isinstance(node, SequenceNode) else [value for _, value in node.entries]
    node.flow = all(isinstance(item, Scalar) for item in inner)
    for item in inner:
        _lay_out(item, seen)


def draw_graph(plan: Plan, form: str, statuses: Mapping[str, str] | None = None) -> str:
    """A plan's graph as ``mermaid``, ``dot`` or ``json`` text; ``statuses`` colours it by a run."""
    # Late: one format is drawn, and the others are not needed.
    drawn = drawing(plan, statuses)
    if form == "mermaid":
        return render_mermaid(drawn)
    if form == "dot":
        return render_dot(drawn)
    return json.dumps(graph_object(drawn), indent=2, ensure_ascii=False) + "\n"


def schema_for(path: str | None, complete: bool) -> dict[str, Any]:
    """The schema of plans, of ``capabilities``, of ``project`` (the file of settings), of ``run`` (what ``--json``
    prints of one), or of what stands under a path of keys such as ``tasks.retry`` or ``project.models``; ``complete``
    adds the inputs of the installed capabilities. Raises NotFound for a key that there is not."""
    if path == "capabilities":
        return capabilities_schema(catalogue())
    if path == "run":
        return run_schema()
    whose, _, rest = (path or "").partition(".")
    if whose == "project":
        return part(project_schema(), rest, "the project's file") if rest else project_schema()
    schema = plan_schema(catalogue() if complete else ())
    return part(schema, path) if path else schema
