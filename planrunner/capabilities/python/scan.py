"""``python.scan``: what Python would do that nobody should let it do unseen, found without running it."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, NamedTuple, TypedDict

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.files.inside import read_inside
from planrunner.capabilities.programs import Program, run
from planrunner.capabilities.python import looking
from planrunner.capabilities.python.looking import Judged
from planrunner.capabilities.python.verdicts import PATIENCE, of_bandit
from planrunner.plan.python.scan import LARGEST

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

    `python.run` looks in the same way at code that was made while the run went on. What a rule comes to is said under
    `policy: python` in planrunner.yaml. This is a filter: what code can do is bounded by the sandbox alone.
    """
    if bool(file) == bool(code):
        raise Failure("give one of `file` and `code`")
    data = content(context, file) if file else code.encode("utf-8", "surrogatepass")
    levels = looking.levels_of(context.call.rights)
    text = decoded(data)
    found = looking.judge(text, levels)
    tools = ["rules"]
    if bandit and not any(each.rule == "unreadable" for each in found) and (words := looking.bandit_command(context)):
        found = looking.worst_first([*found, *_told(context, words, data, levels)])
        tools.append("bandit")
    report = _report(found, data, tools)
    if fail and report.worst == "deny":
        raise Failure(denied(file or "the code", found), "policy", report._asdict(), rule=f"scan.{found[0].rule}")
    return report


def content(context: Context, path: str) -> bytes:
    """The bytes of a file that is to be looked at. Raises Failure: ``policy`` for one outside, ``logic`` for none."""
    data = read_inside(context, path, 4 * LARGEST)
    if data is None:
        raise Failure(f"there is no file {path}")
    return data


def decoded(data: bytes) -> str:
    """The bytes as the text that is looked at; what is no UTF-8 stays recognisable, so that it is found unreadable."""
    return data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


def denied(name: str, found: list[Judged]) -> str:
    """That a text may not run, and the first reasons."""
    reasons = [each.said for each in found if each.verdict == "deny"]
    more = f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    return f"{name} may not run: {'; '.join(reasons[:3])}{more}"


def _told(context: Context, words: list[str], data: bytes, levels: Any) -> list[Judged]:
    program = Program(words, stdin=data or b"\n", env={"PYTHONDONTWRITEBYTECODE": "1"}, quiet=True, timeout=PATIENCE)
    ended = run(context, program._replace(limit=16 << 20))
    found = of_bandit(ended.text, levels)
    if found is None:
        raise Failure(f"Bandit could not look at it: {ended.said or 'it gave no report'}")
    return [Judged(**each) for each in found]


def _report(found: list[Judged], data: bytes, tools: list[str]) -> Report:
    counts = {word: sum(each.verdict == word for each in found) for word in ("deny", "ask", "allow")}
    shown: list[Any] = [{key: value for key, value in each._asdict().items() if key != "by"} for each in found[:_MOST]]
    strictest = looking.worst(found)
    digest = hashlib.sha256(data).hexdigest()
    total = {"total": len(found), **counts}
    return Report(strictest, strictest == "allow", total, shown, len(found) > _MOST, digest, tools)
