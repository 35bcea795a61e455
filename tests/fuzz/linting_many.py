"""A process that lints hostile plans, one after the other, as `planrunner lint` and the start of `exec` do.

    python linting_many.py SEED FIRST STEP LAST FOLDER

It works in FOLDER and writes a line for each plan that breaks a promise: its number, a blank, and what happened. The
number in the file `at` is that of the plan it is busy with, for whoever finds it dead or stuck.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parent))

import mutations

from planrunner.app.plans.lint import Checked, Choice, lint_paths
from planrunner.app.runs.setup import prepare_plan
from planrunner.diagnostics import has_errors
from planrunner.errors import PlanInvalid
from planrunner.journal.memory import MemoryJournal
from planrunner.plugins.registry import Registry
from planrunner.views.findings import render_concise, render_json, render_summary, render_text

SECONDS = 5.0
"""Of the processor, for one plan of at most 1 MiB."""
MEMORY = 512 << 20
"""Bytes of address space, for one plan, above what the process has with everything imported."""
PROJECTS = 8
"""One plan in so many is in a project whose own file is hostile too."""
FIXED = 5
"""One plan in so many is mended as well."""


_ACTING = "\x00\x07\x08\r\x1b\x7f\x85\x9b\u2028\u202e\u2066"
"""Characters that act on a terminal, of every kind that there is."""


class TooSlow(BaseException):
    """Not an Exception: what catches those must not catch this."""


def main(seed: int, first: int, step: int, last: int, folder: str) -> None:
    os.chdir(folder)
    os.mkdir(".planrunner")  # this is a project
    _bound()
    for number in range(first, last, step):
        Path("at").write_text(str(number))
        broken = judge(seed, number)
        if broken:
            print(number, broken.replace("\n", "\n    "), flush=True)


def judge(seed: int, number: int) -> str:
    """What is wrong with the way in which a plan was judged; empty where all is well."""
    name, content = mutations.plan(seed, number)
    Path(name).write_bytes(content)
    if number % PROJECTS == 0:
        Path("planrunner.yaml").write_bytes(mutations.project(seed, number))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        return judged(name, mended=number % FIXED == 0)
    except TooSlow:
        return f"it takes more than {SECONDS} s"
    except BaseException:
        return traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        os.unlink(name)
        if number % PROJECTS == 0:
            os.unlink("planrunner.yaml")


def judged(name: str, mended: bool) -> str:
    """The same about a file of the working directory; whatever goes wrong inside is raised."""
    results = lint_paths([name], Choice())
    shown = _shown(results)
    if any(char in shown for char in _ACTING):
        return f"the report holds characters that act on terminals: {shown!r:.500}"
    refused = any(has_errors(result.findings) for result in results)
    runs = _runs(name)
    if runs == refused and not (runs and _only_project(results)):
        return f"lint says {'no' if refused else 'yes'} and exec says {'yes' if runs else 'no'}: {shown:.500}"
    if mended:
        _shown(lint_paths([name], Choice(), "all"))
    return ""


def _only_project(results: list[Checked]) -> bool:
    """Whether the plan itself is sound and the project's file, which `exec` checks by itself, is not."""
    return not has_errors(results[0].findings) and len(results) > 1


def _runs(name: str) -> bool:
    """Whether the loader of `exec` takes the plan, and takes it again from what it kept."""
    journal, registry = MemoryJournal(), Registry(project=os.getcwd())
    try:
        first = prepare_plan(name, journal, registry)
        again = prepare_plan(name, journal, registry)
    except PlanInvalid:
        return False
    if (again.plan, again.digest) != (first.plan, first.digest):
        raise AssertionError("the plan that was kept is another one")
    return True


def _shown(results: list[Checked]) -> str:
    """The reports for people; that for programs is made as well."""
    json.loads(render_json((result.source, result.findings) for result in results))
    parts = []
    for result in results:
        parts.append(render_text(result.findings, result.source, False))
        parts.append(render_concise(result.findings, result.source))
    return "".join(parts) + render_summary([found for result in results for found in result.findings], len(results))


def _bound() -> None:
    def stop(_signum: int, _frame: FrameType | None) -> None:
        raise TooSlow

    signal.signal(signal.SIGVTALRM, stop)
    sys.stdin = io.StringIO()
    judge(0, 0)  # everything is imported now
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if os.path.exists("/proc/self/statm") else 0
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]), folder=sys.argv[5])
