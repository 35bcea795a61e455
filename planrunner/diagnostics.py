"""Findings about a plan: values that every stage collects and no stage raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from planrunner.records import Struct
from planrunner.source import Span

Severity: TypeAlias = 'Literal["error", "warning", "note"]'


class Rule(NamedTuple):
    """What a code stands for; its long explanation is ``planrunner/plan/rules/explanations/<code>.md``."""

    code: str
    name: str
    severity: Severity
    title: str


class Label(Struct):
    """A second place that helps to understand a finding, with a few words about it."""

    span: Span
    text: str


class Edit(NamedTuple):
    """Replace the characters of ``span`` by ``text``."""

    span: Span
    text: str


class Fix(Struct):
    """Edits that mend a finding; ``safe`` means that the plan keeps its meaning or could not load before."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool = True


class Diagnostic(Struct):
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
    ("PLAN224", "key-in-the-text", "warning", "a key that is written out in the text of the plan"),
    ("PLAN226", "cut-by-comment", "warning", "a value that ends at a `#` which looks like text"),
    ("PLAN227", "reflection-without-model", "warning", "a project that has runs reviewed and no model to do it"),
    ("PLAN231", "unknown-hypothesis", "error", "evidence about a hypothesis that the plan does not declare"),
    ("PLAN232", "no-evidence", "warning", "a hypothesis without evidence from any task"),
    ("PLAN233", "confidence-too-early", "warning", "a confidence may be read before any evidence"),
    (
        "PLAN234",
        "variable-in-another-case",
        "warning",
        "a script that reads a variable by another spelling",
    ),
    ("PLAN235", "no-exit-code", "warning", "the exit code of a task that runs no program"),
    ("PLAN236", "null-in-the-first-round", "warning", "a condition that is null in the first round of a loop"),
    (
        "PLAN237",
        "artifact-of-an-earlier-run",
        "warning",
        "an artifact of a task of this plan, taken from an earlier run",
    ),
    ("PLAN501", "no-timeout", "warning", "a task that could run for ever"),
    ("PLAN502", "time-never-reached", "warning", "a watchdog or a heartbeat that the timeout comes before"),
    ("PLAN503", "nested-too-deep", "error", "more levels of subplans than the budget allows"),
    ("PLAN504", "retries-exceed-timeout", "warning", "more retry time than the plan allows"),
    ("PLAN506", "spending-without-limit", "error", "a task that spends from a budget without its own limit"),
    ("PLAN507", "suspicious-unit", "warning", "a duration without a unit"),
    ("PLAN508", "too-many-items", "error", "a fan-out that is written out has more items than it may"),
    ("PLAN509", "huge-fan-out", "warning", "a task that begins more than 10,000 times"),
    ("PLAN510", "file-race", "warning", "tasks without an order that write one file, or write and read it"),
    ("PLAN511", "reporting-without-limit", "warning", "a script that reports what it used without its own limit"),
    ("PLAN601", "no-agent", "note", "an instruction in plain words without an agent"),
    ("PLAN603", "gate-never-met", "error", "a gate that asks for more people than it names"),
    ("PLAN604", "nothing-to-undo-it", "note", "a rollback leaves what a task changed"),
    ("PLAN605", "gate-without-a-question", "note", "a gate of a label that does not say what is decided"),
    ("PLAN606", "unused-gate", "warning", "a gate for a label that no task has"),
    ("PLAN607", "role-without-people", "warning", "a gate that too few people of the project may decide"),
    ("PLAN608", "undone-in-words", "warning", "a rollback in plain words, which cannot be executed"),
    ("PLAN609", "command-is-a-program", "warning", "a `command` that looks like a program, which `run` starts"),
    ("PLAN610", "missing-gate", "warning", "work that people decide about, without a gate before it"),
    ("PLAN611", "approval-without-effect", "error", "a gate whose rejection stops nothing"),
    ("PLAN612", "idle-window", "warning", "a review window whose gates never wait together"),
    ("PLAN616", "literal-path", "warning", "a parameter of a webhook trigger that looks like a path into the body"),
    ("PLAN619", "misspelt-label", "warning", "a label that is nearly one for which people are asked"),
    ("PLAN620", "option-without-way", "warning", "an option of a decision that leads nowhere, where others lead on"),
    ("PLAN621", "steps-at-once", "warning", "a list of steps that all start at once"),
    ("PLAN622", "name-too-long", "error", "a name that is longer than files and pages bear"),
    ("PLAN701", "criterion-in-words", "warning", "a criterion that only a person or a judge can decide"),
    ("PLAN703", "criterion-always-true", "warning", "a criterion that cannot fail"),
    ("PLAN801", "denied-by-policy", "error", "something that a policy refuses"),
    ("PLAN802", "never-fits", "error", "an entry of a policy that denies or asks and can never fit"),
    ("PLAN803", "fits-nothing-here", "warning", "an entry of a policy about a capability that is not installed"),
    ("PLAN811", "foreign-command", "error", "text from outside that would run"),
    ("PLAN812", "foreign-host", "error", "text from outside that would choose the host that is reached"),
    ("PLAN813", "foreign-plan", "error", "text from outside that would choose a plan or a capability"),
    ("PLAN814", "foreign-approval", "error", "text from outside that would decide a gate"),
    ("PLAN821", "unknown-secret", "error", "a secret that the project does not have, or the task does not declare"),
    ("PLAN822", "secret-in-a-template", "error", "a secret that would be written into a text"),
    ("PLAN823", "secret-as-an-argument", "warning", "a secret among the arguments of a program"),
    ("PLAN824", "secret-for-nothing", "warning", "a secret that its task cannot receive"),
    ("PLAN831", "code-runs-values", "warning", "Python in a plan that runs its values as code"),
    ("PLAN832", "unseen-code", "warning", "Python that is made while the run goes on, without a gate that shows it"),
    ("PLAN841", "unknown-reference", "error", "a section refers to a name that is not defined"),
    ("PLAN842", "not-included", "error", "a file of the settings that cannot be included"),
    ("PLAN843", "said-twice", "error", "a setting that stands in two files"),
    ("PLAN844", "faulty-profile", "error", "a profile that says what profiles cannot"),
    ("PLAN845", "not-used-yet", "note", "a setting that is checked and that this version does not use"),
    ("PLAN846", "fits-no-file", "warning", "a context profile refers to files that do not exist"),
    ("PLAN851", "session-in-no-order", "warning", "agents that continue one session in no defined order"),
)
