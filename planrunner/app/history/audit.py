"""Proof that a journal is what was written: verify it, anchor it elsewhere, export it with its chain, accept it as it
is; and the record of plans that were refused."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from typing import Any

from planrunner.app.people.persons import require_person
from planrunner.caller import principal
from planrunner.errors import Denied, Hint, NextStep, NotFound, PlanrunnerError, RunHeld, StorageFailed, UsageError
from planrunner.escapes import escaped, masked
from planrunner.fileio import read_regular
from planrunner.journal import foreign
from planrunner.journal.audit import exported, read_heads, verify_journal
from planrunner.journal.chain import first_link, known_chain, next_link
from planrunner.journal.ports import Journal
from planrunner.journal.proof import Anchor, Break, ChainedRun, Verdict, cut, stored_form
from planrunner.journal.records import Lease, NewRun
from planrunner.journal.stores import open_journal, require_local
from planrunner.journal.workspace import check_state, find_project, find_state, is_marked
from planrunner.machine.events import LOST, Entry, PlanRefused
from planrunner.redaction import Redactor
from planrunner.safety.credentials import Unresolved, read_credentials, value_of
from planrunner.safety.trust import why_outside
from planrunner.views.documents import document
from planrunner.views.runs import rfc3339

Json = Any


_ANCHOR = Hint(NextStep("audit head"), " prints them: RUN:SEQ:LINK")
_EXPORT = Hint(NextStep("audit export"), " writes one")


def verify(run: str | None, state: str | None, heads: Sequence[str] = ()) -> Verdict:
    """Compare the journal, or one run, with its chain; ``heads`` are anchors, or files of them. Raises NotFound,
    UsageError for what is not an anchor, StorageFailed for a state directory or a key that is not safe."""
    directory = _directory(state)
    meant = None if run is not None and _is_gone(directory) else _whole_id(run, directory)
    require_local("nothing can be verified")
    return verify_journal(directory, meant, anchors_of(heads))


def accept(run: str | None, state: str | None, because: str) -> Verdict:
    """Take the journal, or one run, as it stands from now on; what was found and ``because`` are kept. Raises NotFound,
    RunHeld, StorageFailed, Denied where a run asks."""
    directory = _directory(state)
    require_person("audit", directory)
    said = {
        "at": time.time(),
        "by": principal().name,
        "uid": os.getuid(),
        "host": os.uname().nodename,
        "because": because,
    }
    return foreign.accept(directory, _whole_id(run, directory), said)


def accepted(state: str | None) -> list[dict[str, Json]]:
    """What people accepted of this journal, the first first."""
    return foreign.accepted(find_state(None, state))


def anchors_of(heads: Iterable[str]) -> list[Anchor]:
    """Anchors from words ``RUN:SEQ:LINK`` and from files with one in each line. Raises UsageError, NotFound."""
    anchors: list[Anchor] = []
    for head in heads:
        lines = [head]
        if _anchor(head) is None:
            try:
                with open(head, encoding="utf-8") as file:
                    lines = [line for line in file.read().splitlines() if line.strip()]
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not text"
                raise NotFound(f"`{head}` is neither an anchor nor a file of anchors: {why}", _ANCHOR) from error
        for line in lines:
            anchor = _anchor(line)
            if anchor is None:
                raise UsageError(f"`{line[:100]}` is not an anchor", _ANCHOR)
            anchors.append(anchor)
    return anchors


def _anchor(text: str) -> Anchor | None:
    run, seq, link = [*text.strip().split(":"), "", ""][:3]
    whole = text.count(":") == 2 and seq.isascii() and seq.isdigit() and len(link) == 64
    return Anchor(run, int(seq), link) if whole and not link.strip("0123456789abcdef") else None


def verdict_document(verdict: Verdict, accepted: list[dict[str, Json]]) -> dict[str, Json]:
    """A verdict with what was accepted before, as ``planrunner audit verify --json`` prints it."""
    return document(
        intact=not verdict.breaks,
        runs=[each._asdict() for each in verdict.runs],
        breaks=[each._asdict() for each in verdict.breaks],
        pruned=verdict.pruned,
        heads=verdict.heads,
        accepted=accepted,
    )


def _directory(state: str | None) -> str:
    directory = find_state(None, state)
    try:
        check_state(directory)
    except FileNotFoundError:
        pass  # the heads may know that something was there
    return directory


def _whole_id(run: str | None, directory: str) -> str | None:
    """The id of the run that is meant, also of one that only the heads know. A journal that cannot be read is told of
    as a whole (None)."""
    if run is None:
        return None
    try:
        with closing(open_journal(directory, readonly=True)) as journal:
            return journal.find_run(run)
    except StorageFailed:
        return None
    except NotFound:
        if run in _known(directory):
            return run
        raise


def _is_gone(directory: str) -> bool:
    """Whether there is no journal any more, though the heads know of runs."""
    try:
        open_journal(directory, readonly=True).close()
    except NotFound:
        return bool(_known(directory))
    except StorageFailed:
        return False
    return False


def _known(directory: str) -> frozenset[str]:
    """The runs that the heads know of."""
    chain = known_chain(directory)
    try:
        heads, _ = read_heads(chain)
    finally:
        chain.close()
    return frozenset(name for _, _, _, name in heads.values())


FORMAT = 1

_CLASSES = {
    "run_started": "revision",
    "run_forked": "revision",
    "run_revised": "revision",
    "revision_declined": "decision",
    "attempt_started": "command",
    "undo_started": "command",
    "attempt_ended": "output",
    "undo_ended": "output",
    "plan_refused": "refusal",
    "gate_voted": "vote",
    "gate_decided": "decision",
    "doubt_settled": "decision",
    "budget_extended": "decision",
    "budget_refused": "decision",
    "tasks_reset": "decision",
    "stop_requested": "decision",
    "run_reopened": "decision",
    "policy_changed": "decision",
    "rollback_started": "decision",
    "gate_opened": "question",
}
"""What a reader looks for; all else is a ``step``."""

_WHY = ("rule", "reason", "comment", "detail", "cause", "failure", "message", "resolution", "decision", "verdict")


def lines(run: str | None, state: str | None) -> Iterator[str]:
    """The lines of an export: what it is, then each run and its events. Raises NotFound, StorageFailed."""
    directory = find_state(None, state)
    wanted = None
    if run is not None:
        with closing(open_journal(directory, readonly=True)) as journal:
            wanted = journal.find_run(run)
    try:
        yield _line({"format": FORMAT, "type": "audit"})
        require_local("nothing can be exported with its chain")
        for row, rows in exported(directory, wanted):
            about = {"plan": row.plan_id, "digest": row.plan_digest, "created": row.created}
            yield _line({"type": "run", "run": row.run, **about})
            link = first_link(row.run, row.plan_id, row.plan_digest, row.created)
            for seq, at, kind, version, body, _, _ in rows:
                link = next_link(link, stored_form(seq, at, kind, version, body))
                stored = {"seq": seq, "at": at, "version": version, "kind": kind.decode(), "body": body.decode()}
                yield _line(_event(row.run, stored, link))
    except (ValueError, TypeError) as error:
        hint = Hint("see ", NextStep("audit verify"))
        raise StorageFailed(f"the journal in `{directory}` is damaged: {error}", hint) from error


def text_of(line: str) -> str:
    """One line of an export for people: when, run, event, who, what, why; empty for lines other than events."""
    data = json.loads(line)
    if "seq" not in data:
        return ""
    told = (data[name] for name in ("who", "class", "kind", "subject", "why"))
    return "  ".join((data["when"], data["run"], f"{data['seq']:>5}", *filter(None, told)))


def verify_export(path: str, anchors: Sequence[Anchor]) -> Verdict:
    """Compare a file of ``lines`` with its own links, and with anchors; neither key nor journal is needed. Raises
    NotFound, UsageError for anything but an export."""
    chained: dict[str, ChainedRun] = {}
    breaks: list[Break] = []
    try:
        with open(path, encoding="utf-8") as file:
            head = json.loads(file.readline() or "0")
            if not isinstance(head, dict) or (head.get("type"), head.get("format")) != ("audit", FORMAT):
                raise UsageError(f"`{path}` is not an export of this format", _EXPORT)
            known = {(anchor.run, anchor.seq): anchor.link for anchor in anchors}
            breaks += _walk(file, chained, known)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise NotFound(f"`{path}` cannot be read: {why}", _EXPORT) from error
    for anchor in anchors:
        last = chained[anchor.run].events if anchor.run in chained else 0
        if anchor.seq > last and anchor.run not in {each.run for each in breaks}:
            breaks.append(cut(anchor.run, last, anchor.seq))
    return Verdict(tuple(chained.values()), tuple(breaks), "")


def _walk(file: Iterable[str], chained: dict[str, ChainedRun], anchors: dict[tuple[str, int], str]) -> Iterator[Break]:
    run, link, broken = "", b"", set[str]()
    for number, line in enumerate(file, 2):
        try:
            data = json.loads(line)
            if data.get("type") == "run":
                run, link = data["run"], first_link(data["run"], data["plan"], data["digest"], data["created"])
                chained[run] = ChainedRun(run, 0, link.hex(), 0, 0)
                continue
            if run in broken:
                continue
            seq = chained[run].events + 1
            stored = stored_form(data["seq"], data["at"], data["kind"].encode(), data["version"], data["body"].encode())
            link = next_link(link, stored)
            if (data["run"], data["seq"]) != (run, seq) or data != _event(run, data, link):
                raise ValueError(f"event {seq} is not what its link says")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            broken.add(run)
            seq = chained[run].events + 1 if run in chained else 0
            why = str(error) if isinstance(error, ValueError) else "it is not a line of an export"
            yield Break(run, seq, "changed", f"line {number}: {why}")
            continue
        chained[run] = ChainedRun(run, seq, link.hex(), 0, 0)
        if anchors.get((run, seq), link.hex()) != link.hex():
            broken.add(run)
            yield Break(run, seq, "anchor", f"event {seq} is not the one that the anchor knows")


def _event(run: str, stored: dict[str, Json], link: bytes) -> dict[str, Json]:
    """One event as it is stored, its link, and what it says: everything after ``link`` is read out of ``body``."""
    body, kind, at = json.loads(stored["body"]), stored["kind"], stored["at"]
    outcome = body.get("outcome") or {}
    rows = outcome.get("refused", ())
    refused = outcome.get("rule") or any(each["rule"] != LOST for each in rows)
    why = [str(body[name]) for name in _WHY if body.get(name)] + _given(body.get("environment") or {})
    why += [str(outcome[name]) for name in ("failure", "rule", "message") if outcome.get(name)]
    why += [
        f"{'lost' if each['rule'] == LOST else 'refused'} {each['what'] or 'others'} ({each['rule']}, {each['count']})"
        for each in rows
    ]
    return {
        "run": run,
        **{name: stored[name] for name in ("seq", "at", "version", "kind", "body")},
        "link": link.hex(),
        "when": rfc3339(at),
        "who": _who(body),
        "class": "refusal" if refused else _CLASSES.get(kind, "step"),
        "subject": str(body.get("task") or body.get("plan") or body.get("plan_digest") or ""),
        "why": ": ".join(why),
    }


def _given(environment: dict[str, Json]) -> list[str]:
    """What a person allowed, or went without, when a run began."""
    result = []
    trust = environment.get("trust") or {}
    if trust.get("origin") in ("outside", "drafted"):
        which = "a plan from outside the project" if trust["origin"] == "outside" else "a plan with text from outside"
        result.append(f"{which}, allowed by {trust.get('by') or 'an unknown person'}")
    if environment.get("outside"):
        result.append(f"may act outside the project: {', '.join(map(str, environment['outside']))}")
    if (off := environment.get("sandbox") or {}).get("off"):
        result.append(f"without a sandbox, by {off.get('by', '')}")
    if environment.get("unchained"):
        result.append(f"without a chain, since {environment['unchained']}")
    return result


def _who(body: dict[str, Json]) -> str:
    """The people behind an event; empty where planrunner decided alone."""
    by, account, here = body.get("by") or "", body.get("user") or "", body.get("environment") or {}
    if isinstance(by, list):
        return ", ".join(str(each) for each in by)
    if here.get("user"):
        return f"{here['user']} (uid {here['uid']}) on {here.get('host', '')}" if "uid" in here else str(here["user"])
    return f"{by} (as {account})" if by and account and account != by else str(by or account)


def _line(data: dict[str, Json]) -> str:
    return json.dumps(data, ensure_ascii=False)


NAME = "refused"
SAME, MOST, WITHIN = 5, 100, 3600.0
"""So many of the same plan, rule and user, and so many of any, are kept in so many seconds."""
_PATIENCE = 30.0
"""Seconds to wait for others who write to the record."""
_LONGEST = 2000
_LARGEST = 8 << 20


def keep(denied: Denied, chosen: str | None) -> None:
    """Keep that a plan was not let start; ``chosen`` is the state directory of the command. Nothing is written beside a
    plan from elsewhere, nor where there is neither a project nor a state directory. Raises PlanrunnerError and OSError
    where it cannot be kept."""
    own = denied.plan if os.path.lexists(denied.plan) and not why_outside(denied.plan, find_project(None)) else None
    state, project = find_state(own, chosen), find_project(own)
    if not (chosen or os.environ.get("PLANRUNNER_STATE") or os.path.lexists(state) or is_marked(project)):
        return
    with closing(open_journal(state)) as journal:
        now = time.time()
        event = _refusal(denied, project)
        if _quiet(journal, event, now) is None:
            return
        handle = _handle(journal, now)
        try:
            quiet = _quiet(journal, event, now)  # again: others may have come first
            if quiet is not None:
                journal.append(handle, [Entry(handle.last_seq + 1, now, event._replace(quiet=quiet))])
        finally:
            journal.release(handle)


def _refusal(denied: Denied, project: str) -> PlanRefused:
    redactor = _redactor(project)

    def shown(text: str) -> str:
        lines = masked(redactor.text(text)).splitlines()
        return "\n".join(map(escaped, lines))[:_LONGEST]

    path = os.path.abspath(denied.plan) if os.path.lexists(denied.plan) else denied.plan
    here = {"user": principal().name, "uid": os.getuid(), "host": os.uname().nodename}
    digest = denied.digest
    if not digest:  # that of the file, read here; empty if it does not exist or is larger than a plan may be
        try:
            data = read_regular(denied.plan, _LARGEST + 1)
            digest = f"bytes:sha256:{sha256(data).hexdigest()}" if len(data) <= _LARGEST else ""
        except (OSError, ValueError):
            pass
    return PlanRefused(shown(path), denied.rule, shown(denied.message), digest, here)


def _redactor(project: str) -> Redactor:
    """Knows the credentials of the project that can be had without starting anything."""
    found = Redactor()
    try:
        credentials = read_credentials(project).values()
    except PlanrunnerError:
        return found  # then the file itself is what lets nothing start
    for each in credentials:
        if each.source in ("env", "file"):
            try:
                found.add(each.id, value_of(each, os.environ))
            except Unresolved:
                continue
    return found


def _quiet(journal: Journal, event: PlanRefused, now: float) -> str | None:
    """What an event has to say of those that follow it; None where it is not kept itself."""
    try:
        last = journal.run(NAME).last_seq
    except NotFound:
        return ""
    entries = journal.entries(NAME, max(0, last - MOST))
    recent = [each.event for each in entries if abs(now - each.at) < WITHIN and isinstance(each.event, PlanRefused)]
    same = sum(_key(each) == _key(event) for each in recent)
    if len(recent) >= MOST or same >= SAME:
        return None
    return "all" if len(recent) == MOST - 1 else "same" if same == SAME - 1 else ""


def _key(event: PlanRefused) -> tuple[object, ...]:
    return (event.plan, event.digest, event.rule, event.environment.get("uid"))


def _handle(journal: Journal, now: float) -> Lease:
    """The right to write to the record, which is begun where there is none. Raises RunHeld after some patience."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            try:
                return journal.acquire(NAME)
            except NotFound:
                return journal.create_run(NewRun(NAME, "", "", now))
        except UsageError:
            continue  # another process began the record first
        except RunHeld:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
