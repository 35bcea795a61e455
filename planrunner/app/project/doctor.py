"""Checks an installation and its surroundings: what works, what is missing, what to do about it."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from typing import Any, Literal

from planrunner import __version__
from planrunner.app.project.plugins import plugins
from planrunner.app.runs.deployment import deployment, facts_text
from planrunner.errors import NotFound, PlanInvalid, PlanrunnerError, UsageError
from planrunner.journal.stores import check_journal, journal_file, open_journal
from planrunner.journal.workspace import check_state, find_project, find_state
from planrunner.machine.events import RunStarted
from planrunner.records import Struct
from planrunner.safety.project import check_files
from planrunner.safety.sandbox import presence
from planrunner.safety.sandbox.confinement import Kind
from planrunner.safety.sandbox.presence import obstacle
from planrunner.safety.sandbox.selftest import Probe, try_out
from planrunner.views.documents import document

Verdict = Literal["ok", "note", "problem"]

_TOOLS = (("sh", "problem"), ("git", "note"), ("dot", "note"))
_LEAST_SQLITE = (3, 35, 0)
_PATIENCE = 5.0
"""Seconds that looking through the journal may take."""

Json = Any


class Check(Struct):
    """One thing that was looked at; ``advice`` says what to do about it."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""


def examine(state: str | None) -> list[Check]:
    """Every check, in a fixed order. Nothing is changed but a trial file in the state directory, which is removed."""
    checks: list[Check] = []
    for look in _LOOKS:
        try:
            checks += look()
        except Exception as error:  # a check that breaks is a finding, and the others still run
            checks.append(Check(look.__name__.strip("_"), "problem", f"{type(error).__name__}: {error}"))
    directory = find_state(None, state)
    return [*checks, _state(directory), *_journal(directory), *_deployment(directory)]


def _versions() -> Iterator[Check]:
    yield Check("planrunner", "ok", __version__)
    python = platform.python_version()
    good = sys.version_info >= (3, 11)
    advice = "" if good else "use 3.11 or newer"
    yield Check("python", "ok" if good else "problem", f"{python} at {sys.executable}", advice)
    yield Check("system", "ok" if sys.platform == "linux" else "note", f"{platform.system()} {platform.release()}")


def _sqlite() -> Iterator[Check]:
    good = sqlite3.sqlite_version_info >= _LEAST_SQLITE
    advice = "" if good else "3.35 or newer is needed"
    yield Check("sqlite", "ok" if good else "problem", sqlite3.sqlite_version, advice)


def _yaml() -> Iterator[Check]:
    fast = importlib.util.find_spec("_ruamel_yaml") is not None
    advice = "" if fast else "install ruamel.yaml.clib: large plans load many times faster"
    yield Check("yaml parser", "ok" if fast else "note", "C" if fast else "pure Python", advice)


def _tools() -> Iterator[Check]:
    for name, severity in _TOOLS:
        path = shutil.which(name)
        missing: Verdict = "problem" if severity == "problem" else "note"
        yield Check(name, "ok" if path else missing, path or "not on PATH")


def _settings() -> Iterator[Check]:
    """The files of the project's settings, where there are any: every finding with its place."""
    project = find_project(None)
    try:
        files = check_files(project)
    except PlanrunnerError as error:
        yield Check("project", "problem", error.message, error.hint)
        return
    for file in files:
        name = os.path.relpath(file.source.name, project)
        for finding in file.findings:
            line, column = file.source.place(finding.span.start)
            verdict: Verdict = "problem" if finding.severity == "error" else "note"
            yield Check("project", verdict, f"{name}:{line}:{column}: {finding.message}", finding.help)
        if not file.findings:
            yield Check("project", "ok", file.source.name)


def _plugins() -> Iterator[Check]:
    try:
        listed = plugins()
    except PlanInvalid:
        return  # the project's file is at fault, which is told of it
    for each in listed:
        verdict: Verdict = "note" if each.state in ("untrusted", "changed") else "problem" if each.problems else "ok"
        found = each.problems[0] if each.problems else f"{each.version} {', '.join(each.families)}".strip()
        advice = "" if verdict == "ok" else f"see `planrunner plugins show {each.name}`"
        yield Check(f"plugin {each.name}", verdict, found, advice)


def _sandbox() -> Iterator[Check]:
    """What can shut processes in; `planrunner doctor --sandbox` tries whether it holds."""
    why = presence.bubblewrap()[1]
    version = presence.landlock()
    if not why:
        yield Check("sandbox", "ok", f"bubblewrap, Landlock {version or 'none'}")
        return
    found = obstacle(why)
    if version >= presence.LEAST_ABI:
        alone = f"Landlock {version} alone: {found.what}"
        yield Check("sandbox", "note", alone, f"bubblewrap shuts in more: {found.cure}")
    else:
        advice = f"commands that a policy shuts in are refused; {found.cure}"
        yield Check("sandbox", "note", f"none: {found.what}", advice)


def _command() -> Iterator[Check]:
    path = shutil.which("planrunner")
    advice = "" if path else "it can be called as `python -m planrunner`"
    yield Check("command", "ok" if path else "note", path or "planrunner is not on PATH", advice)


def _terminal() -> Iterator[Check]:
    encoding = (sys.stdout.encoding or "unknown").lower()
    kind = os.environ.get("TERM", "unknown")
    utf8 = encoding.replace("-", "") == "utf8"
    yield Check(
        "terminal",
        "ok" if utf8 else "note",
        f"{kind}, {encoding}, {'a terminal' if sys.stdout.isatty() else 'not a terminal'}",
        "" if utf8 else "signs are drawn in ASCII; set a UTF-8 locale to see the others",
    )


def _state(state: str) -> Check:
    """Whether the state directory can be written to, or made where it is missing."""
    folder = state
    try:
        check_state(state)
    except FileNotFoundError:
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
    except PlanrunnerError as error:
        return Check("state", "problem", error.message, error.hint)
    if folder == state and not _can_write(state):
        return Check("state", "problem", f"{state} cannot be written", "choose another with --state DIR")
    if folder != state and not os.access(folder, os.W_OK):
        return Check("state", "problem", f"{state} cannot be made", "choose another with --state DIR")
    return Check("state", "ok", state if folder == state else f"{state} (made by the first run)")


def _journal(state: str) -> Iterator[Check]:
    """Whether the journal can be read and is whole, where there is one."""
    path = journal_file(state)
    if not path:
        return
    try:
        whole = check_journal(state, _PATIENCE)
    except NotFound:
        return  # the first run is just beginning it
    except PlanrunnerError as error:
        yield Check("journal", "problem", error.message, error.hint)
    else:
        yield Check("journal", "ok", path, "" if whole else f"not looked through to its end in {_PATIENCE:.0f} seconds")


def _deployment(state: str) -> Iterator[Check]:
    """Which deployment this is, and whether the last run here was of the same one."""
    try:
        facts = deployment()
    except UsageError as error:
        yield Check("deployment", "problem", error.message, error.hint)
        return
    last = _last_start(state)
    recorded = last.environment.get("deployment", {}) if last is not None else {}
    if not facts and not recorded:
        return
    here = {**facts, "planrunner": __version__}
    if last is None:
        yield Check("deployment", "ok", f"{facts_text(here)} (no run yet)")
        return
    there = {**recorded, "planrunner": str(last.environment.get("planrunner", ""))}
    if here == there:
        yield Check("deployment", "ok", f"{facts_text(here)}, as the last run here recorded")
        return
    advice = f"the last run here recorded {facts_text(there)}; start one to record this deployment"
    yield Check("deployment", "note", facts_text(here), advice)


def _last_start(state: str) -> RunStarted | None:
    """The first event of the newest run; None where there is none, or no journal that can be read."""
    try:
        journal = open_journal(state, readonly=True)
    except PlanrunnerError:
        return None
    try:
        rows = journal.runs(1)
        first = next(journal.entries(rows[0].run), None) if rows else None
        return first.event if first is not None and isinstance(first.event, RunStarted) else None
    except PlanrunnerError:
        return None  # the check of the journal tells what is wrong with it
    finally:
        journal.close()


def _can_write(folder: str) -> bool:
    path = os.path.join(folder, f"tmp-doctor-{os.getpid()}")
    try:
        with open(path, "xb") as file:
            file.write(b"x")
        os.unlink(path)
    except OSError:
        return False
    return True


_LOOKS: tuple[Callable[[], Iterator[Check]], ...] = (
    _versions,
    _sqlite,
    _yaml,
    _tools,
    _command,
    _sandbox,
    _settings,
    _plugins,
    _terminal,
)


class Report(Struct):
    """``available`` says of each profile why it does not work here ("": it does), ``kind`` which one was tried ("":
    none works), ``probes`` what that came to; ``advice`` is for people where more could hold."""

    available: dict[str, str]
    kind: str
    probes: tuple[Probe, ...]
    advice: str = ""

    @property
    def holds(self) -> bool:
        return bool(self.probes) and all(probe.held for probe in self.probes)


def sandbox_document(report: Report) -> dict[str, Json]:
    """Whether the sandbox holds, and each probe of it."""
    probes = [probe._asdict() for probe in report.probes]
    return document(ok=report.holds, kind=report.kind, available=report.available, probes=probes)


def examine_sandbox() -> Report:
    """Try the strictest profile that works here and shuts a process in without an image."""
    version = presence.landlock()
    little = f"version {presence.LEAST_ABI} is needed, the kernel has {version or 'none'}"
    why = presence.bubblewrap()[1]
    available = {
        "bubblewrap": why,
        "landlock": "" if version >= presence.LEAST_ABI else little,
        "docker": presence.docker()[1],
    }
    kinds: tuple[Kind, ...] = ("bubblewrap", "landlock")
    kind = next((one for one in kinds if not available[one]), None)
    if kind is None:
        return Report(available, "", (), f"nothing here can shut processes in: {obstacle(why).cure}")
    try:
        probes = tuple(try_out(kind))
    except OSError as error:
        return Report(available, kind, (), f"the sandbox could not be tried: {error}")
    out = [probe.name for probe in probes if not probe.held]
    if out:
        return Report(available, kind, probes, f"{kind} does not hold: {', '.join(out)}")
    return Report(available, kind, probes, f"bubblewrap would confine more: {obstacle(why).cure}" if why else "")
