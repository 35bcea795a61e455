"""A run as an archive for the person who takes over: plan, artifacts, decisions, evidence, journal, postmortem.

It opens without planrunner: ``index.html`` in a browser, ``README.md`` in anything. ``SHA256SUMS`` has the digest of
every file, and its own digest, kept elsewhere, proves all of them.
"""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from typing import Any

from planrunner import __version__
from planrunner.app.handoff.members import Member, Target, Written, of_text, safe_name, sums
from planrunner.app.handoff.pages import index_page, report_page
from planrunner.app.handoff.postmortem import last_completed, postmortem
from planrunner.app.handoff.readme import Overview, readme
from planrunner.app.history import audit
from planrunner.app.history.compare import Recorded
from planrunner.app.history.replay import History, history_of
from planrunner.app.history.replay import written as history_text
from planrunner.app.history.show import Log, Look, logs, look, shown_document
from planrunner.caller import principal
from planrunner.journal.proof import Verdict
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.machine.events import AttemptEnded, GateDecided, GateExamined, GateOpened, GateVoted
from planrunner.machine.questions import who_may
from planrunner.records import Struct
from planrunner.views.decisions import Decision, decision_object, decision_text, decisions
from planrunner.views.documents import document, document_text
from planrunner.views.postmortem import Postmortem, fenced, markdown, plain, postmortem_document, spoken
from planrunner.views.runs import rfc3339

Json = Any

SUMS = "SHA256SUMS"
INDEX = "index.html"


class Archived(Struct):
    """An archive that was written: its place, how many files and bytes it has, the digest of ``SHA256SUMS`` and what
    could not be put into it, with the reason."""

    run_id: str
    path: str
    files: int
    size: int
    sha256: str
    left_out: tuple[tuple[str, str], ...]


def archive_document(made: Archived) -> dict[str, Json]:
    """An archive that was written, as data."""
    left = [{"what": what, "why": why} for what, why in made.left_out]
    return document(**{**made._asdict(), "left_out": left})


def archive(wanted: str, state: str | None, path: str = "") -> Archived:
    """Write the archive of a run (``last``, an id or the start of one) to a folder or tar archive that must not exist;
    without a path, to a folder named after plan and run. Raises NotFound, UsageError, StorageFailed."""
    found = look(wanted, state)
    parts = _Parts(found, history_of(found.row.run, state), state)
    place = path or f"{safe_name(found.state.plan.id)}-{found.row.run}"
    with Target(place, found.entries[-1].at) as target:
        written = [target.add(member) for member in parts.members()]
        written.append(
            target.add(of_text("README.md", "what this is and how to go on", readme(parts.overview(written))))
        )
        written.append(
            target.add(of_text(INDEX, "the first page", index_page(parts.overview(written), parts.looked_back)))
        )
        manifest = document_text(parts.manifest(written))
        written.append(target.add(of_text("manifest.json", "what this archive holds, as data", manifest)))
        listed = sums(sorted(written))
        target.add(of_text(SUMS, "digests of all files", listed))
    digest = sha256(listed.encode()).hexdigest()
    total = sum(each.size for each in written) + len(listed)
    return Archived(found.row.run, target.path, len(written) + 1, total, digest, tuple(parts.left_out))


class _Parts:
    """What goes into the archive of a run. ``left_out`` grows while the members are made."""

    def __init__(self, found: Look, history: History, state: str | None) -> None:
        self.found, self.history, self._state = found, history, state
        self.store = ArtifactStore(found.directory)
        self.left_out: list[tuple[str, str]] = []
        self.recorded = Recorded(found.entries, found.state)
        self.verdict: Verdict = audit.verify(found.row.run, state)
        self.decisions: list[Decision] = decisions(found.entries)
        before = last_completed(self.recorded, found.row, state)
        self.looked_back: Postmortem = postmortem(self.recorded, found.source, before)

    def members(self) -> Iterator[Member]:
        """The files but those that tell of the others."""
        yield of_text(
            "report.html", "the run as a page: graph, timeline, attempts, logs", report_page(self.found, INDEX)
        )
        yield of_text("postmortem.md", "cause, factors, detection gaps, actions", markdown(self.looked_back))
        told = document_text(postmortem_document(self.looked_back))
        yield of_text("postmortem.json", "the postmortem as data", told)
        yield from self._plans()
        yield of_text("decisions.md", "what people decided", _decisions_text(self.decisions))
        yield of_text(
            "decisions.json", "the decisions as data", _lines([decision_object(one) for one in self.decisions])
        )
        yield from self._evidence()
        yield from self._artifacts()
        yield from self._logs()
        yield of_text(
            "run.json", "the run as data, as planrunner show prints it", document_text(shown_document(self.found))
        )
        yield of_text("journal/run.jsonl", "the journal: plan, revisions, every event", history_text(self.history))
        export = "".join(f"{line}\n" for line in audit.lines(self.found.row.run, self._state))
        yield of_text("journal/audit.jsonl", "every event with who, why and its link of the chain of digests", export)

    def _plans(self) -> Iterator[Member]:
        plans = [self.history.plan, *self.history.revisions]
        texts = [plan.text for plan in plans]
        for number, plan in enumerate(plans, 1):
            end = {"yaml": "yaml", "json": "json", "text": "plan"}.get(plan.notation, plan.notation)
            yield of_text(
                f"plan/revision-{number}.{end}", f"revision {number} of the plan, {plan.digest[:19]}", plan.text
            )
        for number, (old, new) in enumerate(pairwise(texts), 1):
            names = (f"revision {number}", f"revision {number + 1}")
            changed = difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="")
            text = "".join(f"{line}\n" for line in changed)
            yield of_text(f"plan/revision-{number}-to-{number + 1}.diff", "what the revision changed", text)

    def _artifacts(self) -> Iterator[Member]:
        taken: set[str] = set()
        for task, attempt, record in _records(self.found):
            name = str(record.get("name") or record.get("path") or "artifact")
            folder = "artifacts" if "path" in record else "artifacts/exchanges"
            path = f"{folder}/{safe_name(task)}/{safe_name(name)}"
            if path in taken:
                path = f"{folder}/{safe_name(task)}/attempt-{attempt}/{safe_name(name)}"
            digest = str(record.get("sha256", ""))
            if path in taken or not digest:
                continue
            taken.add(path)
            if not self.store.has(digest):
                self.left_out.append((path, "its content is not kept any more"))
                continue
            about = f"artifact of {task}, attempt {attempt}"
            yield Member(path, about, lambda digest=digest: self.store.open(digest))  # type: ignore[misc]

    def _logs(self) -> Iterator[Member]:
        for log in logs(self.found, None, None):
            if log.size():
                about = f"what attempt {log.attempt} of {log.task} printed"
                yield Member(f"logs/{safe_name(f'{log.task}.{log.attempt}.log')}", about, lambda log=log: _opened(log))  # type: ignore[misc]

    def _evidence(self) -> Iterator[Member]:
        gates: dict[tuple[str, int], list[Json]] = {}
        for entry in self.found.entries:
            if isinstance(entry.event, (GateOpened, GateExamined, GateVoted, GateDecided)):
                gates.setdefault((entry.event.task, entry.event.visit), []).append(entry)
        for (task, visit), entries in gates.items():
            name = f"evidence/{safe_name(task)}-visit-{visit}"
            yield of_text(
                f"{name}.md", f"what the gate {task} asked, showed and was told", _gate_text(task, visit, entries)
            )

    def overview(self, written: list[Written]) -> Overview:
        """What readme and index tell."""
        last = self.verdict.runs[-1] if self.verdict.runs else None
        head = f"{last.run}:{last.events}:{last.link}" if last is not None else ""
        problems = tuple(each.message for each in self.verdict.breaks)
        return Overview(
            self.found, self.looked_back, tuple(self.decisions), tuple(written), head, problems, tuple(self.left_out)
        )

    def manifest(self, written: list[Written]) -> dict[str, Json]:
        """What the archive is and holds, as data."""
        over = self.overview(written)
        return document(
            type="archive",
            run_id=self.found.row.run,
            plan=self.found.state.plan.id,
            status=self.found.state.status,
            over=self.looked_back.over,
            made_at=rfc3339(time.time()),
            made_by=principal().name,
            planrunner=__version__,
            head=over.head,
            intact=not over.problems,
            breaks=list(over.problems),
            files=[each._asdict() for each in sorted(written)],
            left_out=[{"what": what, "why": why} for what, why in self.left_out],
        )


def _records(found: Look) -> Iterator[tuple[str, int, dict[str, Json]]]:
    """What attempts kept, the last attempt of a task first, so that it has the plain name."""
    ends = [entry.event for entry in found.entries if isinstance(entry.event, AttemptEnded)]
    for event in reversed(ends):
        for record in event.outcome.artifacts:
            yield event.task, event.attempt, record
    for entry in found.entries:
        if isinstance(entry.event, GateExamined):
            for item in entry.event.evidence:
                for record in item.get("kept") or ():
                    yield entry.event.task, entry.event.visit, record


def _opened(log: Log) -> Any:
    try:
        return open(log.path, "rb")
    except OSError:
        return of_text("", "", log.text).opened()


def _lines(records: list[dict[str, Json]]) -> str:
    return json.dumps(records, indent=2, ensure_ascii=False) + "\n"


def _decisions_text(listed: list[Decision]) -> str:
    lines = ["# Decisions", ""]
    if not listed:
        return "\n".join([*lines, "People decided nothing in this run.", ""])
    lines += ["| when | event | about | decision | for what |", "|---|---|---|---|---|"]
    for one in listed:
        shown = f"`{one.shown[:23]}`" if one.shown else ""
        answers = f", {one.answers}" if one.answers else ""
        said = spoken(f"{decision_text(one)}{answers}").replace("\n", " ")
        lines.append(f"| {rfc3339(one.at)} | {one.seq} | {plain(one.task or 'the run')} | {said} | {shown} |")
    return "\n".join(lines) + "\n"


def _gate_text(task: str, visit: int, entries: list[Json]) -> str:
    lines = [f"# Gate {plain(task)}, visit {visit}"]
    for entry in entries:
        event = entry.event
        when = f"{rfc3339(entry.at)}, event {entry.seq}"
        if isinstance(event, GateOpened):
            who = who_may(event)
            lines += ["", f"## Asked ({when})", "", plain(event.ask), "", f"{event.need} of {plain(who)} decide."]
            lines += ["", f"Digest of what was shown: `{event.shown}`"]
            lines += [f"- option {plain(str(option.get('name', '')))}" for option in event.options]
            lines += [line for item in event.evidence for line in _evidence_text(item)]
        elif isinstance(event, GateExamined):
            lines += ["", f"## Examined ({when})", *(line for item in event.evidence for line in _evidence_text(item))]
        elif isinstance(event, GateVoted):
            lines += [
                "",
                f"## Vote ({when})",
                "",
                spoken(f"{event.by} {event.verdict}s for `{event.shown}`: {event.reason}"),
            ]
        else:
            by = f" by {', '.join(event.by)}" if event.by else ""
            lines += ["", f"## Decided ({when})", "", plain(f"{event.decision}{by}. {event.reason}")]
    return "\n".join(lines) + "\n"


def _evidence_text(item: dict[str, Json]) -> Iterator[str]:
    yield ""
    digest = f", `{item['digest']}`" if item.get("digest") else ""
    yield f"### {plain(str(item.get('kind', '')))} {plain(str(item.get('name', '')))}{digest}"
    if item.get("problem"):
        yield from ("", f"Problem: {plain(str(item['problem']))}")
    if item.get("text"):
        yield from ("", *fenced(str(item["text"])))
