"""Findings about a plan: values that every stage collects and no stage raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from planrunner.source import Span

Severity: TypeAlias = 'Literal["error", "warning", "note"]'


class Rule(NamedTuple):
    """What a code stands for; its long explanation is ``planrunner/explanations/<code>.md``."""

    code: str
    name: str
    severity: Severity
    title: str


class Label(NamedTuple):
    """A second place that helps to understand a finding, with a few words about it."""

    span: Span
    text: str


class Edit(NamedTuple):
    """Replace the characters of ``span`` by ``text``."""

    span: Span
    text: str


class Fix(NamedTuple):
    """Edits that mend a finding; ``safe`` means that the plan keeps its meaning or could not load before."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool = True


class Diagnostic(NamedTuple):
    """One finding: what is wrong (``message``), where (``span``, ``label``), what else matters and the way out
    (``help``)."""

    code: str
    message: str
    span: Span
    label: str = ""
    labels: tuple[Label, ...] = ()
    help: str = ""
    fix: Fix | None = None

    @property
    def severity(self) -> Severity:
        return RULES[self.code].severity

    @property
    def name(self) -> str:
        return RULES[self.code].name


def arrange(findings: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Findings in the order of the text, each once: shared YAML anchors make the same finding arise several times."""
    seen: set[tuple[str, Span, str]] = set()
    kept: list[Diagnostic] = []
    for finding in sorted(findings, key=lambda item: (item.span, item.code)):
        key = (finding.code, finding.span, finding.message)
        if key not in seen:
            seen.add(key)
            kept.append(finding)
    return tuple(kept)


def has_errors(findings: Iterable[Diagnostic]) -> bool:
    return any(finding.severity == "error" for finding in findings)


def _rules(*rows: tuple[str, str, Severity, str]) -> dict[str, Rule]:
    return {row[0]: Rule(*row) for row in rows}


RULES: dict[str, Rule] = _rules(
    ("PLAN001", "syntax-error", "error", "the text does not parse"),
    ("PLAN002", "duplicate-key", "error", "a key stands twice in one mapping"),
    ("PLAN003", "unknown-key", "error", "a key the plan language does not have"),
    ("PLAN004", "missing-key", "error", "a required key is missing"),
    ("PLAN005", "wrong-type", "error", "a value of the wrong type"),
    ("PLAN006", "invalid-value", "error", "a value outside what is allowed"),
    ("PLAN007", "unknown-capability", "error", "no installed capability has that name"),
    ("PLAN008", "capability-input", "error", "inputs that the capability does not take"),
    ("PLAN009", "conflicting-keys", "error", "keys that exclude each other"),
    ("PLAN010", "yaml-1.1-trap", "warning", "a scalar that older YAML readers take for something else"),
    ("PLAN011", "too-large", "error", "the text passes a limit on size, depth, nodes or aliases"),
    ("PLAN012", "not-text", "error", "the file is not UTF-8 text"),
    ("PLAN013", "unsupported-yaml", "error", "a YAML feature that plans do not use"),
    ("PLAN014", "hidden-character", "warning", "an invisible character, or one that turns the direction of writing"),
    ("PLAN020", "not-executed-yet", "error", "a construct that is read but that this version does not run"),
    ("PLAN021", "without-effect", "warning", "a key that loads and that nothing looks at"),
    ("PLAN101", "undefined-need", "error", "a need or an edge names no task"),
    ("PLAN102", "duplicate-task-id", "error", "two tasks share an id"),
    ("PLAN103", "dependency-cycle", "error", "tasks wait for each other in a circle"),
    ("PLAN104", "self-dependency", "error", "a task needs itself"),
    ("PLAN105", "unreachable-task", "warning", "no path leads to a task"),
    ("PLAN106", "dead-edge", "warning", "an edge that can never fire"),
    ("PLAN108", "impossible-join", "error", "a join that can never be met"),
    ("PLAN109", "unbounded-loop", "error", "a loop without a bound"),
    ("PLAN110", "role-mismatch", "error", "a declared node role differs from the task's place in the graph"),
    ("PLAN111", "unknown-subplan", "error", "a subplan that is not a file or a known name"),
    ("PLAN112", "faulty-subplan", "error", "the file of a subplan has errors of its own"),
    ("PLAN113", "endless-subplan", "error", "a subplan that contains itself or is nested too deep"),
    ("PLAN114", "subplan-parameter", "error", "parameters that the subplan does not take, or misses"),
    ("PLAN115", "rework-not-earlier", "error", "the run is sent back to a task that does not run before"),
    ("PLAN201", "undefined-variable", "error", "a name that nothing defines"),
    ("PLAN202", "undefined-output", "error", "a task has no output of that name"),
    ("PLAN203", "output-not-upstream", "error", "a read of a task that does not run before"),
    ("PLAN204", "maybe-missing", "warning", "a read of a task that may not have run"),
    ("PLAN205", "type-mismatch", "error", "an expression compares or combines types that do not fit"),
    ("PLAN206", "constant-condition", "warning", "a condition that is always true or always false"),
    ("PLAN207", "expression-syntax", "error", "an expression that does not parse"),
    ("PLAN208", "unknown-function", "error", "a function the language does not have, or a wrong number of arguments"),
    ("PLAN209", "unused-parameter", "note", "a parameter that nothing reads"),
    ("PLAN210", "template-syntax", "error", "a template that does not parse"),
    ("PLAN211", "template-in-shell", "error", "a template where a script cannot take a value safely"),
    ("PLAN212", "template-not-evaluated", "warning", "a template in a text that is taken literally"),
    ("PLAN213", "unused-limit", "warning", "a limit for a label that no task has"),
    ("PLAN214", "command-syntax", "error", "a command that is not a sequence of calls"),
    ("PLAN215", "ambiguous-verb", "error", "a verb that more than one capability has"),
    ("PLAN216", "template-in-code", "error", "a template in an input that is code, such as SQL"),
    ("PLAN217", "template-as-program", "error", "a template where `shell` names the program of a script"),
    ("PLAN218", "bash-in-sh", "warning", "a script for `sh` that only bash understands"),
    ("PLAN219", "removes-its-journal", "warning", "a script that removes the journal of its own run"),
    ("PLAN220", "lost-exit-code", "warning", "a command of a script whose failure the shell passes over"),
    (
        "PLAN221",
        "other-interpreter",
        "error",
        "a `#!` line that names another interpreter than the one that runs the script",
    ),
    ("PLAN226", "cut-by-comment", "warning", "a value that ends at a `#` which looks like text"),
    ("PLAN227", "reflection-without-model", "warning", "a project that has runs reviewed and no model to do it"),
