"""The journal as a record for others: who did what, when and why, with the chain, so that a file proves itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from planrunner.errors import NotFound, StorageFailed, UsageError
from planrunner.journal.chain import first_link, next_link
from planrunner.journal.database import failure, sqlite3
from planrunner.journal.foreign import open_checked
from planrunner.journal.proof import Anchor, Break, Sealed, Standing, Verdict, cut, entries_of, sealed_rows, stored_form
from planrunner.journal.sqlite import open_journal
from planrunner.journal.workspace import find_state
from planrunner.views.status import rfc3339

Json = Any

FORMAT = 1

_CLASSES = {
    "run_started": "revision",
    "run_forked": "revision",
    "run_revised": "revision",
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
        journal = open_journal(directory, readonly=True)
        try:
            wanted = journal.find_run(run)
        finally:
            journal.close()
    connection = open_checked(directory)
    try:
        connection.execute("BEGIN")
        yield _line({"format": FORMAT, "type": "audit"})
        for row in sealed_rows(connection, wanted):
            about = {"plan": row.plan_id, "digest": row.plan_digest, "created": row.created}
            yield _line({"type": "run", "run": row.run, **about})
            yield from (_line(each) for each in _events(row, entries_of(connection, row.number)))
    except sqlite3.Error as error:
        raise failure(error, directory) from error
    except (ValueError, TypeError) as error:
        hint = "`planrunner audit verify` tells more"
        raise StorageFailed(f"the journal in `{directory}` is damaged: {error}", hint) from error
    finally:
        connection.close()


def text_of(line: str) -> str:
    """One line of an export for people: when, run, event, who, what, why; empty for those that are no event."""
    data = json.loads(line)
    if "seq" not in data:
        return ""
    told = (data[name] for name in ("who", "class", "kind", "subject", "why"))
    return "  ".join((data["when"], data["run"], f"{data['seq']:>5}", *filter(None, told)))


def verify_export(path: str, anchors: Sequence[Anchor]) -> Verdict:
    """Compare a file of ``lines`` with its own links, and with anchors; neither key nor journal is needed. Raises
    NotFound, UsageError for what is no export."""
    standing: dict[str, Standing] = {}
    found: list[Break] = []
    try:
        with open(path, encoding="utf-8") as file:
            head = json.loads(file.readline() or "0")
            if not isinstance(head, dict) or (head.get("type"), head.get("format")) != ("audit", FORMAT):
                raise UsageError(f"`{path}` is no export of this format", "`planrunner audit export` writes one")
            known = {(anchor.run, anchor.seq): anchor.link for anchor in anchors}
            found += _walk(file, standing, known)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise NotFound(f"`{path}` cannot be read: {why}", "`planrunner audit export` writes one") from error
    for anchor in anchors:
        last = standing[anchor.run].events if anchor.run in standing else 0
        if anchor.seq > last and anchor.run not in {each.run for each in found}:
            found.append(cut(anchor.run, last, anchor.seq))
    return Verdict(tuple(standing.values()), tuple(found), "")


def _walk(file: Iterable[str], standing: dict[str, Standing], anchors: dict[tuple[str, int], str]) -> Iterator[Break]:
    run, link, broken = "", b"", set[str]()
    for number, line in enumerate(file, 2):
        try:
            data = json.loads(line)
            if data.get("type") == "run":
                run, link = data["run"], first_link(data["run"], data["plan"], data["digest"], data["created"])
                standing[run] = Standing(run, 0, link.hex(), 0, 0)
                continue
            if run in broken:
                continue
            seq = standing[run].events + 1
            stored = stored_form(data["seq"], data["at"], data["kind"].encode(), data["version"], data["body"].encode())
            link = next_link(link, stored)
            if (data["run"], data["seq"]) != (run, seq) or data != _event(run, data, link):
                raise ValueError(f"event {seq} is not what its link says")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            broken.add(run)
            seq = standing[run].events + 1 if run in standing else 0
            why = str(error) if isinstance(error, ValueError) else "it is no line of an export"
            yield Break(run, seq, "changed", f"line {number}: {why}")
            continue
        standing[run] = Standing(run, seq, link.hex(), 0, 0)
        if anchors.get((run, seq), link.hex()) != link.hex():
            broken.add(run)
            yield Break(run, seq, "anchor", f"event {seq} is not the one that the anchor knows")


def _events(row: Sealed, rows: Iterable[tuple[Any, ...]]) -> Iterator[dict[str, Json]]:
    link = first_link(row.run, row.plan_id, row.plan_digest, row.created)
    for seq, at, kind, version, body, _, _ in rows:
        link = next_link(link, stored_form(seq, at, kind, version, body))
        stored = {"seq": seq, "at": at, "version": version, "kind": kind.decode(), "body": body.decode()}
        yield _event(row.run, stored, link)


def _event(run: str, stored: dict[str, Json], link: bytes) -> dict[str, Json]:
    """One event as it is stored, its link, and what it says: everything after ``link`` is read out of ``body``."""
    body, kind, at = json.loads(stored["body"]), stored["kind"], stored["at"]
    outcome = body.get("outcome") or {}
    refused = outcome.get("rule") or outcome.get("refused")
    why = [str(body[name]) for name in _WHY if body.get(name)] + _given(body.get("environment") or {})
    why += [str(outcome[name]) for name in ("failure", "rule", "message") if outcome.get(name)]
    why += [
        f"refused {each['what'] or 'others'} ({each['rule']}, {each['count']})" for each in outcome.get("refused", ())
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
    found = []
    if (trust := environment.get("trust") or {}).get("origin") == "outside":
        found.append(f"a plan from outside the project, allowed by {trust.get('by') or 'nobody'}")
    if environment.get("outside"):
        found.append(f"may act outside the project: {', '.join(map(str, environment['outside']))}")
    if (off := environment.get("sandbox") or {}).get("off"):
        found.append(f"without a sandbox, by {off.get('by', '')}")
    if environment.get("unchained"):
        found.append(f"without a chain, since {environment['unchained']}")
    return found


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
