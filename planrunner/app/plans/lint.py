"""Check, fix, format, convert and draw plan files, many at once, and check the settings beside them. Nothing here
runs a task."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from planrunner.app.plans.deadlines import passed_deadlines
from planrunner.app.plans.files import find_plans
from planrunner.app.plans.path import read_regular
from planrunner.app.runs.secrets import obligations_of
from planrunner.diagnostics import RULES, Diagnostic, Severity, arrange, has_errors
from planrunner.errors import Hint, NextStep, PlanInvalid, UsageError
from planrunner.fileio import replace_file
from planrunner.journal.workspace import find_project
from planrunner.later import Later
from planrunner.plan.agents import Roster, Unknown, granted, tool_names
from planrunner.plan.canonical import canonical, ordered
from planrunner.plan.files import File, decode
from planrunner.plan.fixes import apply
from planrunner.plan.load import Capabilities, CapabilityTable, Loaded, load, named
from planrunner.plan.lower.plan import lower
from planrunner.plan.model import Capability, Plan
from planrunner.plan.nearest import meant, nearest
from planrunner.plugins.registry import Registry
from planrunner.records import Struct
from planrunner.safety.project import FILE, check_files, variables_of
from planrunner.safety.project import Checked as FileChecked
from planrunner.source import Notation, Source
from planrunner.syntax.notations import parse, read_comments, write
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node, Scalar, entries, to_json
from planrunner.syntax.tree import Sequence as SequenceNode

if TYPE_CHECKING:
    from difflib import unified_diff

    from planrunner.plan.policy_checks import Known, ineffective_entries
else:
    unified_diff = Later("difflib:unified_diff")
    Known = Later("planrunner.plan.policy_checks:Known")
    ineffective_entries = Later("planrunner.plan.policy_checks:ineffective_entries")

ROUNDS = 10
"""How often a text is mended and read again: a fix may make room for another one."""

_latest: list[Loaded] = []
"""The plan checked last: to take a tree of a million nodes apart costs a twentieth of checking it, and a process that
ends need not."""

_WEIGHT: dict[Severity, int] = {"note": 0, "warning": 1, "error": 2}


class Choice(Struct):
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
    capabilities: Capabilities = Registry(project=project, keeps=keeps)
    return capabilities


def check_file(file: File, choice: Choice, capabilities: Capabilities) -> Checked:
    """The findings about one plan."""
    if file.findings:  # the bytes are not text: there is nothing to load
        return Checked(file.source, chosen(arrange(file.findings), choice), file.source.text)
    loaded = load(file.source, capabilities, obligations_of(find_project(file.source.name)))
    _latest[:] = [loaded]
    findings = loaded.findings
    if loaded.plan is not None and (passed := passed_deadlines(loaded.plan, file.source, time.time())):
        findings = arrange([*findings, *passed])
    return Checked(file.source, chosen(findings, choice), file.source.text)


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
    result = []
    for word in (each.strip() for words_ in words for each in words_.split(",")):
        if not word:
            continue
        known = [rule for rule in RULES.values() if _fits(rule.code, rule.name, word)]
        if not known:
            near = nearest(word.upper(), RULES) or nearest(word.lower(), [rule.name for rule in RULES.values()])
            hint = f"did you mean `{near}`?" if near else Hint(NextStep("rule", "--all"), " lists them")
            raise UsageError(f"there is no rule `{word}`", hint)
        result.append(word)
    return tuple(result)


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


def _write_texts(tree: MappingNode) -> None:
    """Make numbers that are declared as text texts: JSON cannot write ``0012345``. The tree is the caller's own."""
    worded = lower(canonical(tree)).worded
    waiting: list[Node] = [tree]
    for node in waiting:
        if isinstance(node, MappingNode):
            waiting += [value for _, value in node.entries]
        elif isinstance(node, SequenceNode):
            waiting += node.items
        elif node.span in worded and not node.anchor:
            node.value = node.raw


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
        if isinstance(tree, MappingNode):
            _write_texts(tree)
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


def lint_paths(
    paths: Iterable[str], choice: Choice, mend: str | None = None, stdin: tuple[str, bytes] = ("<stdin>", b"")
) -> list[Checked]:
    """Check every plan below ``paths``, in order, and then the files of their projects where those have findings. For
    the settings of a project by their name each of their files is a result; nothing mends them.
    ``mend`` is None, ``safe`` or ``all``: then the result holds the mended text, which the caller writes. ``stdin``
    is the name and content that stand for the path ``-``.

    Raises NotFound where there is no plan, and UsageError for settings that cannot be read.
    """
    registries: dict[str, Capabilities] = {}
    results: list[Checked] = []
    projects: dict[str, tuple[Checked, ...]] = {}
    wanted = list(paths)
    named = [path for path in wanted if is_settings(path)]
    plans = [path for path in wanted if path not in named]
    asked = {part.source.name: part for path in named for part in check_settings(path, choice)}
    for file in read_files(plans, stdin) if plans or not named else ():
        folder = os.path.dirname(file.source.name)
        if folder not in projects:
            projects[folder] = check_settings(file.source.name, choice)
            project = find_project(file.source.name)  # folders of one project share what was loaded
            if project not in registries:
                registries[project] = registry(project, keeps=False)
            registries[folder] = registries[project]
        capabilities = registries[folder]
        if mend:
            results.append(mend_file(file, choice, capabilities, unsafe=mend == "all"))
        else:
            results.append(check_file(file, choice, capabilities))
    unsound = {part.source.name: part for parts in projects.values() for part in parts if part.findings}
    return [*results, *{**asked, **unsound}.values()]


def read_files(paths: Iterable[str], stdin: tuple[str, bytes]) -> list[File]:
    """The plans below ``paths``, ``-`` being standard input. Raises NotFound."""
    wanted = list(paths)
    named = [path for path in wanted if path != "-"]
    files = [decode(stdin[1], stdin[0])] if "-" in wanted else []
    if named or not wanted:
        files += [read_regular(path) for path in find_plans(named)]
    return files


def diff_text(name: str, before: str, after: str) -> str:
    """A unified diff, empty where nothing changes."""
    lines = unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), name, name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def write_text(path: str, text: str) -> None:
    """Replace a file as a whole, keeping its mode: a crash leaves the old text or the new one. Raises UsageError."""
    target = os.path.realpath(path)
    try:
        replace_file(target, text.encode("utf-8"), os.stat(target).st_mode & 0o7777)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error


def is_settings(path: str) -> bool:
    """Whether a path is that of the settings of a project."""
    return os.path.basename(path) == FILE and os.path.isfile(path)


def check_settings(path: str, choice: Choice) -> tuple[Checked, ...]:
    """The findings about each file of the settings of the project that a file belongs to (the working directory where
    it is empty). Raises as ``check_files``."""
    project = find_project(path)
    installed = registry(project, keeps=False)
    files = check_files(project)
    tools = _tools_of(files)
    results = []
    for found in files:
        unknown = (*_unknown_tools(found.tree, installed), *_unknown_words(found.tree, tools, installed))
        unread = _unread_files(found.tree, project)
        findings = arrange((*found.findings, *unfitting(found.tree, project), *unknown, *unread))
        results.append(Checked(found.source, chosen(findings, choice), found.source.text))
    return tuple(results)


def _section(tree: Node | None, section: str) -> Iterator[tuple[str, Node]]:
    """The entries of a section of a file of settings by name, with those that its profiles have."""
    for level in _with_profiles(tree):
        yield from entries(level.get(section))


def _unread_files(tree: Node | None, project: str) -> Iterator[Diagnostic]:
    """Environment files that a run could not read. One that is not there may be on the machine where plans run."""
    named = tree.get("env_file") if isinstance(tree, MappingNode) else None
    for name in named.items if isinstance(named, SequenceNode) else [named]:
        if not isinstance(name, Scalar) or not isinstance(said := name.value, str):
            continue
        if not os.path.lexists(os.path.join(project, said)):
            continue
        try:
            variables_of(project, said)
        except UsageError as error:
            yield Diagnostic("PLAN006", str(error), name.span, help=error.hint)


def _unknown_tools(tree: Node | None, installed: Capabilities) -> Iterator[Diagnostic]:
    """Tools that call what is not installed; plugins are looked up for those alone that are not built in."""
    for tool, body in _section(tree, "tools"):
        uses = body.get("uses") if isinstance(body, MappingNode) else None
        if isinstance(uses, Scalar) and isinstance(uses.value, str) and installed.find(uses.value) is None:
            close = nearest(uses.value, installed.names())
            what = f"the tool `{tool}` calls `{uses.value}`, which no installed capability is named"
            yield Diagnostic("PLAN841", what + meant(close), uses.span)


def _tools_of(files: Iterable[FileChecked]) -> Roster:
    """The tools of a project, those of every profile together; what is not sound the schema refuses."""
    named = [each for file in files for each in _section(file.tree, "tools")]
    return Roster(tools={name: to_json(body) for name, body in named if isinstance(body, (MappingNode, SequenceNode))})


def _unknown_words(tree: Node | None, roster: Roster, installed: Capabilities) -> Iterator[Diagnostic]:
    """Words of agents, and of groups of tools, that name no tool. Plain names of agents were looked up before."""
    known = CapabilityTable(installed)
    for name, body in _section(tree, "tools"):
        if isinstance(body, SequenceNode):
            yield from _unknown_in(f"the group `{name}`", body, roster, known)
    for name, body in _section(tree, "agents"):
        if isinstance(body, MappingNode):
            for key in ("tools", "denied"):
                yield from _unknown_in(f"the agent `{name}`", body.get(key), roster, known, dotted=True)
            calls = body.get("calls")
            for entry in calls.items if isinstance(calls, SequenceNode) else ():
                word = entry.get("tool") if isinstance(entry, MappingNode) else None
                yield from _unknown_in(f"`calls` of the agent `{name}`", word, roster, known)


def _unknown_in(
    whose: str, words: Node | None, roster: Roster, known: Mapping[str, Capability], dotted: bool = False
) -> Iterator[Diagnostic]:
    for word in words.items if isinstance(words, SequenceNode) else [words]:
        if not isinstance(word, Scalar) or not isinstance(said := word.value, str):
            continue
        if dotted and {".", "*"}.isdisjoint(said):
            continue
        if Unknown(said) in granted([said], roster, known):
            close = nearest(said, tool_names(roster, known))
            what = f"{whose} names the tool `{said}`, which does not exist"
            yield Diagnostic("PLAN841", what + meant(close), word.span)


def unfitting(tree: Node | None, project: str) -> Iterator[Diagnostic]:
    """The findings about one file of the settings, its profiles included."""
    policies = [*_policies(tree)]
    if not policies:
        return
    registry = Registry(project=project)
    known = Known(registry.find, registry.built_in, registry.names)
    for policy in policies:
        for found in ineffective_entries(to_json(policy), known):
            yield Diagnostic(found.code, found.message, _at(policy, found.path).span, help=found.help)


def _policies(tree: Node | None) -> Iterator[Node]:
    for level in _with_profiles(tree):
        policy = level.get("policy")
        if policy is not None:
            yield policy


def _with_profiles(tree: Node | None) -> Iterator[MappingNode]:
    """A file of the settings, and each of its profiles."""
    profiles = tree.get("profiles") if isinstance(tree, MappingNode) else None
    inside = [value for _, value in profiles.entries] if isinstance(profiles, MappingNode) else []
    yield from (each for each in (tree, *inside) if isinstance(each, MappingNode))


def _at(node: Node, path: tuple[str | int, ...]) -> Node:
    """The node that keys lead to, or the last one on the way that is there."""
    for key in path:
        if isinstance(node, SequenceNode) and isinstance(key, int):
            node = node.items[key]
        elif isinstance(node, MappingNode) and (inner := node.get(str(key))) is not None:
            node = inner
    return node
