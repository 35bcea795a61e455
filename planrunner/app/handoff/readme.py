"""The readme of an archive: what the run was, how it stands, how to go on, what lies where, how to verify it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from planrunner.app.handoff.members import Written
from planrunner.app.history.show import Look
from planrunner.jsontext import shown
from planrunner.records import Struct
from planrunner.views.artifacts import size_text
from planrunner.views.decisions import Decision, decision_text
from planrunner.views.postmortem import Postmortem, code, fenced, plain, spoken
from planrunner.views.runs import rfc3339
from planrunner.views.status import counts_text, shown_counts

VERIFY = "sha256sum --check --quiet SHA256SUMS"
"""What compares every file with its digest."""


class Overview(Struct):
    """What readme and index of an archive tell. ``head`` is the anchor of the journal (RUN:SEQ:LINK), ``problems`` what
    its verification found."""

    found: Look
    looked_back: Postmortem
    decisions: tuple[Decision, ...]
    written: tuple[Written, ...]
    head: str
    problems: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


def readme(over: Overview) -> str:
    """The text of ``README.md``."""
    plan, state = over.found.state.plan, over.found.state
    lines = [f"# {plain(plan.title or plan.id)}", ""]
    if plan.description:
        lines += [plain(plan.description), ""]
    lines += [spoken(over.looked_back.outcome), "", *(f"- {name}: {spoken(value)}" for name, value in facts(over)), ""]
    lines += ["## Take over", "", *_take_over(over)]
    if state.outputs:
        lines += [
            "",
            "## Results",
            "",
            *(f"- {code(name)}: {plain(str(value))}" for name, value in state.outputs.items()),
        ]
    if over.decisions:
        lines += ["", "## Decisions", "", *(f"- {spoken(_about(each))}" for each in over.decisions[-20:])]
    lines += ["", "## What lies where", "", "| file | what it is | size |", "|---|---|---|"]
    lines += [f"| {code(each.path)} | {plain(each.about)} | {size_text(each.size)} |" for each in _listed(over.written)]
    lines += ["", *_left_out(over), *_verify(over)]
    return "\n".join(lines) + "\n"


def _about(decision: Decision) -> str:
    about = f"`{decision.task}`: " if decision.task else ""
    return f"{about}{decision_text(decision)}"


def facts(over: Overview) -> Iterator[tuple[str, str]]:
    """Who, when, where and with what, as names and sentences with names between backticks."""
    state, entries = over.found.state, over.found.entries
    where = state.environment
    yield "run", f"`{state.run_id}`"
    plan, folder = str(where.get("plan") or ""), str(where.get("directory") or "")
    file = os.path.relpath(plan, folder) if folder and plan.startswith(folder + os.sep) else plan
    yield "plan", f"`{file or state.plan.id}`, revision {state.revision}, `{state.plan_digest[:19]}`"
    yield "started", f"{rfc3339(state.begun_at)} by {where.get('user', '')} on {where.get('host', '')}"
    yield "last event", f"{rfc3339(entries[-1].at)} (event {entries[-1].seq})"
    yield "tasks", counts_text(shown_counts(state))
    if state.params:
        yield "parameters", ", ".join(f"`{name}` = `{shown(value)}`" for name, value in state.params.items())
    yield "versions", f"planrunner {where.get('planrunner')}, Python {where.get('python')}, {where.get('system')}"
    for name, value in (where.get("deployment") or {}).items():
        yield f"deployment {name}", f"`{value}`"


def _take_over(over: Overview) -> Iterator[str]:
    """What is to be done, in its order, and where."""
    state, actions = over.found.state, over.looked_back.actions
    where = f"{state.environment.get('host', '')}, in {state.environment.get('directory', '')}"
    if not actions:
        yield "Nothing is left to do: the run has ended and the journal shows nothing that waits."
        return
    kept = code(os.path.abspath(over.found.directory))
    yield f"The run lives on {plain(where)} (state directory {kept}); commands are given there."
    yield ""
    for number, action in enumerate(actions, 1):
        yield f"{number}. {spoken(action.text)}"
        if action.command:
            yield from ("", *(f"   {line}" for line in fenced(action.command)), "")


def _listed(written: Iterable[Written]) -> list[Written]:
    """The files, those of folders behind the others."""
    return sorted(written, key=lambda each: ("/" in each.path, each.path))


def _left_out(over: Overview) -> Iterator[str]:
    if over.left_out:
        yield from ("## Not in here", "", *(f"- {code(what)}: {plain(why)}" for what, why in over.left_out), "")


def _verify(over: Overview) -> Iterator[str]:
    yield from ("## Verify", "", "With tools of every system, in this folder:", "", *fenced(VERIFY), "")
    yield "The command prints nothing where every file is whole. The digest of `SHA256SUMS` itself was printed when the"
    yield "archive was made (`sha256sum SHA256SUMS` prints it again). Kept somewhere else, it proves every file."
    yield ""
    export = f"planrunner audit verify --export journal/audit.jsonl --head {over.head}"
    replay = "planrunner replay journal/run.jsonl"
    yield from ("With planrunner: every event against the chain of digests, and every decision again:", "")
    yield from fenced(f"{export}\n{replay}")
    if over.problems:
        yield from ("", "The journal was not intact when the archive was made:", "")
        yield from (f"- {plain(problem)}" for problem in over.problems)
