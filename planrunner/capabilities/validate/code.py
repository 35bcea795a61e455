"""``validate.ruff``, ``validate.mypy``, ``validate.bandit``: code looked at without running it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.programs import Ended, Program, interpreter, on_path, run
from planrunner.capabilities.validate.evidence import (
    Evidence,
    Finding,
    evidence,
    finding,
    judged,
    names,
    relative,
    require_paths,
)

_LARGEST = 64 << 20
"""Bytes that a tool may print."""
_ASK = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


class Tool(NamedTuple):
    """The words that start a tool, and its version. ``borrowed``: the project has no Python, so it is planrunner's."""

    name: str
    words: tuple[str, ...]
    version: str
    borrowed: bool = False


def find(context: Context, name: str, python: str, alone: bool = False) -> Tool:
    """The tool of the project's Python. One that needs nothing of the project (``alone``) may also be a program on the
    PATH, or come with planrunner, where no Python is asked for. Raises Failure that says how to install it."""
    asked = interpreter(context, python)
    tool = _in_python(context, name, asked)
    if tool is None and alone and not python:
        tool = _program(context, name) or _in_python(context, name, sys.executable)
    if tool is None:
        raise Failure(f"{name} is not installed: {asked} -m pip install {name}")
    borrowed = not python and tool.words[0] == sys.executable and not on_path(context, "python")
    return tool._replace(borrowed=borrowed)


def _in_python(context: Context, name: str, path: str) -> Tool | None:
    ended = run(context, Program((path, "-c", _ASK, name), quiet=True, timeout=60))
    return Tool(name, (path, "-m", name), ended.text.strip()) if ended.code == 0 else None


def _program(context: Context, name: str) -> Tool | None:
    program = on_path(context, name)
    if not program:
        return None
    ended = run(context, Program((program, "--version"), quiet=True, timeout=60))
    number = re.search(r"\d+(\.\d+)+", ended.text)
    return Tool(name, (program,), number[0] if number else "") if ended.code == 0 else None


def told(context: Context, tool: Tool, *arguments: str, expected: tuple[int, ...] = (0, 1)) -> Ended:
    """Run a tool that prints its findings. Raises Failure for an exit code that stands for something else."""
    ended = run(context, Program((*tool.words, *arguments), env={"PYTHONDONTWRITEBYTECODE": "1"}, limit=_LARGEST))
    if ended.code not in expected:
        raise Failure(f"{tool.name} ended with {ended.code}: {ended.said}")
    if ended.dropped:
        raise Failure(f"{tool.name} prints more than {_LARGEST >> 20} MiB; give it fewer paths")
    return ended


def cache(context: Context, name: str) -> str:
    """A folder of the project's state for what a tool remembers; without an engine nothing is remembered. Tools believe
    what they find there, so the name cannot be foreseen by those who put files into clones."""
    if context.services is None:
        return os.devnull
    mac, _, _ = context.vouched("folder", name).partition("\n")
    return context.cache(f"{name}-{mac}" if mac else name)


_PYTHON = "interpreter of the project; default: `python` on the PATH, else that of planrunner"
_FAIL = "fail with the class `findings` where something is found"
_MOST = "the most findings to give; `counts` is of all"


@capability("validate.ruff", effect="read", foreign=("findings",), own=("tool", "version", "counts"))
def ruff(
    context: Context,
    paths: Annotated[str | list[str], Doc("files and folders")] = ".",
    select: Annotated[list[str] | None, Doc("rules to check, in place of those of the project's settings")] = None,
    ignore: Annotated[list[str] | None, Doc("rules to leave out, beside those of the project's settings")] = None,
    layout: Annotated[bool, Doc("look also for files that `ruff format` would change")] = False,
    python: Annotated[str, Doc(_PYTHON, use="command")] = "",
    fail: Annotated[bool, Doc(_FAIL)] = True,
    max_findings: Annotated[int, Doc(_MOST)] = 200,
) -> Evidence:
    """Check Python code with ruff. Nothing is changed, even where the project's settings ask for fixes."""
    require_paths(context, names(paths))
    tool = find(context, "ruff", python, alone=True)
    chosen = [f"--select={','.join(select)}"] if select else []
    chosen += [f"--extend-ignore={','.join(ignore)}"] if ignore else []
    options = ("--output-format=json", "--no-cache", "--no-fix", "--quiet", *chosen)
    ended = told(context, tool, "check", *options, "--", *names(paths))
    findings = [_of_ruff(context, entry) for entry in _json(tool, ended.text)]
    if layout:
        findings += _unformatted(context, tool, names(paths))
    return judged(evidence("ruff", tool.version, findings, max_findings), fail)  # type: ignore[no-any-return]


def _of_ruff(context: Context, entry: dict[str, Any]) -> Finding:
    place = entry.get("location") or {}
    rule = str(entry.get("code") or "invalid-syntax")
    severity = "error" if rule in ("invalid-syntax", "E902", "E999") else "warning"
    where = (int(place.get("row") or 0), int(place.get("column") or 0))
    return finding(
        str(entry.get("message", "")), severity, rule, relative(context, str(entry.get("filename", ""))), where
    )


def _unformatted(context: Context, tool: Tool, paths: list[str]) -> Iterator[Finding]:
    ended = told(context, tool, "format", "--check", "--no-cache", "--", *paths, expected=(0, 1, 2))
    text = ended.text + ended.stderr.decode("utf-8", "replace")
    for path in dict.fromkeys(re.findall(r"^(?:Would reformat: | +--> )(.+?)(?::\d+:\d+)?$", text, re.MULTILINE)):
        yield finding("`ruff format` would change it", "warning", "format", relative(context, path))


@capability(
    "validate.mypy",
    effect="read",
    risks=("runs the plugins of mypy that the project's settings name",),
    foreign=("findings",),
    own=("tool", "version", "counts"),
)
def mypy(
    context: Context,
    paths: Annotated[str | list[str], Doc("files and folders; empty: what the project's settings say")] = ".",
    strict: Annotated[bool, Doc("all optional checks")] = False,
    python: Annotated[str, Doc(_PYTHON, use="command")] = "",
    fail: Annotated[bool, Doc(_FAIL)] = True,
    max_findings: Annotated[int, Doc(_MOST)] = 200,
) -> Evidence:
    """Check the types of Python code with mypy 1.11 or newer. What it remembers lies in planrunner's cache."""
    require_paths(context, names(paths or []))
    tool = find(context, "mypy", python)
    options = ("--output=json", "--no-error-summary", f"--cache-dir={cache(context, 'mypy')}")
    ended = told(
        context, tool, *options, *(["--strict"] if strict else []), "--", *names(paths or []), expected=(0, 1, 2)
    )
    lines = [line for line in ended.text.splitlines() if line.startswith("{")]
    if ended.code == 2 and not lines:
        raise Failure(f"mypy ended with 2: {ended.said}")
    findings = [_of_mypy(context, entry) for entry in _json(tool, f"[{','.join(lines)}]")]
    return judged(evidence("mypy", tool.version, findings, max_findings), fail)  # type: ignore[no-any-return]


def _of_mypy(context: Context, entry: dict[str, Any]) -> Finding:
    severity = "error" if entry.get("severity") == "error" else "note"
    message = "\n".join(str(part) for part in (entry.get("message"), entry.get("hint")) if part)
    where = (max(0, int(entry.get("line") or 0)), max(0, int(entry.get("column") or 0) + 1))
    return finding(
        message, severity, str(entry.get("code") or ""), relative(context, str(entry.get("file", ""))), where
    )


@capability("validate.bandit", effect="read", foreign=("findings",), own=("tool", "version", "counts"))
def bandit(
    context: Context,
    paths: Annotated[str | list[str], Doc("files and folders")] = ".",
    severity: Annotated[Literal["low", "medium", "high"], Doc("report from this severity on")] = "low",
    confidence: Annotated[Literal["low", "medium", "high"], Doc("report from this confidence on")] = "low",
    config: Annotated[str, Doc("file of settings, such as pyproject.toml")] = "",
    python: Annotated[str, Doc(_PYTHON, use="command")] = "",
    fail: Annotated[bool, Doc(_FAIL)] = True,
    max_findings: Annotated[int, Doc(_MOST)] = 200,
) -> Evidence:
    """Look for unsafe constructs in Python code with Bandit.

    High severity is an error, medium a warning, low a note. A file that cannot be read is an error as well.
    """
    require_paths(context, names(paths))
    tool = find(context, "bandit", python, alone=True)
    options = ["-f", "json", "-q", "-r", f"--severity-level={severity}", f"--confidence-level={confidence}"]
    options += [f"--configfile={config}"] if config else []
    ended = told(context, tool, *options, "--", *names(paths))
    report = _json(tool, ended.text)
    findings = [_of_bandit(context, entry) for entry in report.get("results", ())]
    findings += [
        finding(str(entry.get("reason", "")), "error", "unreadable", relative(context, str(entry.get("filename", ""))))
        for entry in report.get("errors", ())
    ]
    return judged(evidence("bandit", tool.version, findings, max_findings), fail)  # type: ignore[no-any-return]


def _of_bandit(context: Context, entry: dict[str, Any]) -> Finding:
    level = {"HIGH": "error", "MEDIUM": "warning"}.get(str(entry.get("issue_severity")), "note")
    where = (int(entry.get("line_number") or 0), max(0, int(entry.get("col_offset") or 0) + 1))
    file = relative(context, str(entry.get("filename", "")))
    return finding(str(entry.get("issue_text", "")), level, str(entry.get("test_id", "")), file, where)


def _json(tool: Tool, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise Failure(f"{tool.name} {tool.version} printed something else than JSON: {text[:200]!r}") from None
