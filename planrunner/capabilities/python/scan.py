"""``python.scan``, and the guard of code made during a run: judged by rules and policies, without running it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from planrunner.capabilities.contract import Call, Context, Doc, Failure, Json, capability
from planrunner.capabilities.files.text import read_inside
from planrunner.capabilities.preconditions import require_verbatim
from planrunner.capabilities.programs import Program, on_path, run
from planrunner.capabilities.python.verdicts import OPTIONS, ORDER, PATIENCE, of_bandit, verdict
from planrunner.plan.python.rules import RULES, is_one_template
from planrunner.plan.python.scan import LARGEST
from planrunner.plan.python.scan import scan as scan_text

if TYPE_CHECKING:
    from planrunner.plan.rights import Level


class Judged(NamedTuple):
    """One finding: ``verdict`` is allow, ask or deny, ``by`` the level of policy that says so (empty: none);
    ``line`` and ``column`` count from 1."""

    rule: str
    verdict: str
    by: str
    message: str
    line: int
    column: int
    snippet: str

    @property
    def said(self) -> str:
        """It in a clause, with its place and the name of its rule."""
        by = f", {self.verdict} in {self.by}" if self.by else ""
        return f"line {self.line}: {self.message} (scan.{self.rule}{by})"


def levels_of(rights: Iterable[Level]) -> list[list[Any]]:
    """The levels of policy that say something about the scan, as ``verdict`` takes them."""
    sections = ((level, level.data.get("python")) for level in rights if isinstance(level.data, dict))
    return [[level.name, section, level.is_operators] for level, section in sections if section]


def judge(text: str, levels: Any) -> list[Judged]:
    """What the rules find in a text, the worst first; an unreadable text is denied."""
    findings = []
    for finding in scan_text(text):
        rule = RULES[finding.rule]
        said, by = verdict(finding.rule, rule.verdict, levels)
        what = f"{rule.why}: {finding.what}" if finding.what else rule.why
        findings.append(Judged(finding.rule, said, by, what, finding.line, finding.column, finding.snippet))
    return worst_first(findings)


def worst_first(findings: Iterable[Judged]) -> list[Judged]:
    return sorted(findings, key=lambda finding: -ORDER[finding.verdict])


def worst(findings: Sequence[Judged]) -> str:
    """The strictest verdict; ``allow`` where nothing was found."""
    return max((finding.verdict for finding in findings), key=ORDER.__getitem__, default="allow")


def bandit_command(context: Context) -> list[str]:
    """The words that start Bandit, the one that came with planrunner or on the PATH; none where it is not there."""
    if find_spec("bandit") is not None:
        return [sys.executable, "-I", "-m", "bandit", *OPTIONS]
    program = on_path(context, "bandit")
    return [program, *OPTIONS] if program else []


_MOST = 200


class Finding(TypedDict):
    """``verdict`` is allow, ask or deny; ``line`` and ``column`` count from 1."""

    rule: str
    verdict: str
    message: str
    line: int
    column: int
    snippet: str


class Report(NamedTuple):
    worst: Annotated[str, Doc("allow, ask or deny: what holds for the whole text")]
    ok: Annotated[bool, Doc("it may run without anybody having seen it")]
    counts: Annotated[dict[str, int], Doc("total, deny, ask and allow: how many findings there are of each")]
    findings: Annotated[list[Finding], Doc("rule, verdict, message, line, column and snippet of each, worst first")]
    truncated: Annotated[bool, Doc("there are more findings than are given")]
    sha256: Annotated[str, Doc("of the text, in hexadecimal; a gate that shows the text has the same digest")]
    tools: Annotated[list[str], Doc("what looked: rules, and bandit where it is installed")]


@capability("python.scan", effect="read")
def scan(
    context: Context,
    file: Annotated[str, Doc("file with Python, inside the working directory", form="file-read")] = "",
    code: Annotated[str, Doc("the text itself, in place of a file; it is looked at and never run")] = "",
    bandit: Annotated[bool, Doc("ask Bandit too, where it is installed")] = True,
    fail: Annotated[bool, Doc("fail with the class `policy` where a rule denies")] = True,
) -> Report:
    """Look for what Python may not do unseen, by rules on its syntax tree and by Bandit, without running it.

    `python.run` looks in the same way at code that was made while the run went on. The verdict of a rule is set under
    `policy: python` in planrunner.yaml. This is a filter: what code can do is bounded by the sandbox alone.
    """
    if bool(file) == bool(code):
        raise Failure("give one of `file` and `code`")
    data = content(context, file) if file else code.encode("utf-8", "surrogatepass")
    findings, tools = looked_at(context, data, bandit)
    counts = {word: sum(finding.verdict == word for finding in findings) for word in ("deny", "ask", "allow")}
    shown: list[Any] = [
        {key: value for key, value in finding._asdict().items() if key != "by"} for finding in findings[:_MOST]
    ]
    strictest = worst(findings)
    digest = hashlib.sha256(data).hexdigest()
    total = {"total": len(findings), **counts}
    report = Report(strictest, strictest == "allow", total, shown, len(findings) > _MOST, digest, tools)
    if fail and report.worst == "deny":
        raise Failure(denied(file or "the code", findings), "policy", report._asdict(), rule=f"scan.{findings[0].rule}")
    return report


def looked_at(context: Context, data: bytes, bandit: bool = True) -> tuple[list[Judged], list[str]]:
    """What the rules find in code, and Bandit where it is installed, the worst first; and what looked."""
    levels = levels_of(context.call.rights)
    findings = judge(decoded(data), levels)
    unreadable = any(finding.rule == "unreadable" for finding in findings)
    if not bandit or unreadable or not (words := bandit_command(context)):
        return findings, ["rules"]
    return worst_first([*findings, *_told(context, words, data, levels)]), ["rules", "bandit"]


def content(context: Context, path: str) -> bytes:
    """The bytes of a file that is to be looked at. Raises Failure: ``policy`` for one outside, ``logic`` for none."""
    data = read_inside(context, path, 4 * LARGEST)
    if data is None:
        raise Failure(f"{path} does not exist")
    return data


def decoded(data: bytes) -> str:
    """The bytes as text; what is not UTF-8 stays recognisable, so that it is reported as unreadable."""
    return data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


def denied(name: str, findings: list[Judged]) -> str:
    """That a text may not run, and the first reasons."""
    reasons = [finding.said for finding in findings if finding.verdict == "deny"]
    more = f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    return f"{name} may not run: {'; '.join(reasons[:3])}{more}"


def _told(context: Context, words: list[str], data: bytes, levels: Any) -> list[Judged]:
    program = Program(words, stdin=data or b"\n", env={"PYTHONDONTWRITEBYTECODE": "1"}, quiet=True, timeout=PATIENCE)
    ended = run(context, program._replace(limit=16 << 20))
    findings = of_bandit(ended.text, levels)
    if findings is None:
        raise Failure(f"Bandit could not look at it: {ended.said or 'it gave no report'}")
    return [Judged(**finding) for finding in findings]


class Work(NamedTuple):
    """What is to be run: ``kind`` is function, file or code. ``made`` is what the plan says of it: True: it is made
    while the run goes on, False: it is not, None: it is if its file changed since the run began."""

    kind: str
    target: str
    made: bool | None = None


_GRAIN = 0.005
"""Seconds by which the time of a file may lag behind the clock."""


def require_said(context: Context, work: Work) -> None:
    """Refuse a ``generated`` that is itself computed by the run, and code with templates in it, unless one template is
    the whole code and ``generated`` is true. Raises Failure."""
    if work.made is not None:
        require_verbatim(context, "generated", "write true or false")
    if work.kind == "code" and not (work.made and is_one_template(_written(context, "code"))):
        require_verbatim(context, "code", "hand values over in `args`")


def _written(context: Context, name: str) -> Json:
    inputs = context.call.task.inputs
    return inputs.get(name) if isinstance(inputs, dict) else None


def guard(context: Context, work: Work, path: str) -> dict[str, Any] | None:
    """What the process that runs the code holds it against, or None for code that was there before the run; ``path`` is
    that of its file. Raises Failure (policy) where a rule denies it, or asks for a person who has not seen it."""
    if not (work.made if work.made is not None else _changed(context.call, path)):
        return None
    if work.kind != "code" and not path:
        raise Failure(f"the file of {work.target} is not known: name it as `file.py:function`")
    data = content(context, path) if path else work.target.encode("utf-8", "surrogatepass")
    levels = levels_of(context.call.rights)
    findings = judge(decoded(data), levels)
    name, strictest = path or "the code", worst(findings)
    if strictest == "deny":
        raise Failure(denied(name, findings), rule=f"scan.{findings[0].rule}")
    digest = hashlib.sha256(data).hexdigest()
    seen = f"sha256:{digest}" in context.call.approved
    way = f"{name} needs an approval: {_gate(context, path)}"
    if strictest == "ask" and not seen:
        raise Failure(f"{way}. Reason: {findings[0].said}", rule=f"scan.{findings[0].rule}")
    return {
        "name": name,
        "sha256": digest,
        "levels": levels,
        "bandit": bandit_command(context),
        "seen": seen,
        "way": way,
    }


def _gate(context: Context, path: str) -> str:
    """The line of the plan that puts the code before a person."""
    task = context.call.task
    name = task.id.rpartition("/")[2].partition("[")[0]
    needs = ", ".join(task.needs)
    shown = path or f'{{code: "{str(_written(context, "code")).strip()}"}}'
    line = f"- {{id: review-{name}, needs: [{needs}], gate: approval, ask: Run this code, evidence: [{shown}]}}"
    return f"add `{line}` and let `{name}` need it"


def may_be_made(call: Call) -> bool:
    """Whether what a call of ``python.run`` runs is said to be made while the run goes on, or looks like it; of
    ``python.write_tests`` whether a model writes them."""
    if call.task.uses == "python.write_tests":
        return bool(call.inputs.get("by") == "model")
    said = call.inputs.get("generated")
    if said is not None:
        return said is not False
    kind = "file" if call.inputs.get("file") else "function"
    target = call.inputs.get(kind)
    return isinstance(target, str) and _changed(call, file_of(call, Work(kind, target)))


def file_of(call: Call, work: Work) -> str:
    """The file of a script or a function, relative to the working directory; empty where a module has none there, and
    for code that stands in the plan."""
    if work.kind == "code":
        return ""
    place = work.target if work.kind == "file" else work.target.rpartition(":")[0]
    if work.kind == "file" or place.endswith(".py"):
        return place
    base = place.replace(".", "/")
    names = (f"{start}{base}{end}" for start in ("", "src/") for end in (".py", "/__init__.py"))
    return next((name for name in names if os.path.isfile(os.path.join(call.directory, name))), "")


def _changed(call: Call, path: str) -> bool:
    """Whether the file came or changed after the run began, going by a time that no program can set."""
    began = call.began
    if not path or not began:
        return False
    try:
        return os.stat(os.path.join(call.directory, path)).st_ctime > began - _GRAIN
    except (OSError, ValueError):
        return False  # running it says what is wrong
