"""The versions of artifacts that a journal tells of, and the one that people mean by an address."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from planrunner.errors import Hint, NextStep, NotFound, UsageError
from planrunner.journal.ports import Journal
from planrunner.journal.records import RunRow
from planrunner.knowledge.artifacts import Kept, is_over
from planrunner.machine.events import AttemptEnded
from planrunner.plan.nearest import nearest
from planrunner.records import Struct

Json = Any

_FINAL = frozenset({"completed", "failed", "cancelled"})
_NAMED = 8
"""Artifacts that a message names."""


class Version(Struct):
    """One version of an artifact. ``number`` counts its versions, from 1; ``made`` is seconds since 1970. ``retention``
    is empty for what a capability kept by itself, which stays. ``over`` tells that its retention has ended. ``group``
    is the name by which the plan keeps it: several files that fit a pattern share one. ``failed`` tells that its
    attempt failed, ``executable`` that it was a file that may be executed."""

    plan: str
    task: str
    name: str
    number: int
    sha256: str
    size: int
    type: str
    path: str
    run: str
    attempt: int
    made: float
    plan_digest: str
    retention: str
    over: bool
    group: str = ""
    failed: bool = False
    executable: bool = False

    @property
    def address(self) -> str:
        return f"{self.plan}/{self.task}/{self.name}"

    @property
    def ref(self) -> str:
        return f"{self.address}@{self.number}"


def versions(journal: Journal, default: str) -> list[Version]:
    """Every version in the order in which they were made. What a fork took over from its run is that run's."""
    rows: dict[tuple[str, str, str], list[_Kept]] = {}
    seen: set[tuple[str, str, str, str, float, int, str]] = set()
    for run, entry in journal.kept():
        event = entry.event
        assert isinstance(event, AttemptEnded), "the journal gives ends of attempts"
        for record in event.outcome.artifacts:
            name = str(record.get("name") or record.get("path") or "artifact")
            address = (run.plan_id, plain_path(event.task), _group(record, name))
            mark = (*address, name, entry.at, event.attempt, str(record.get("sha256", "")))
            if mark not in seen and isinstance(record.get("sha256"), str) and len(record["sha256"]) == 64:
                seen.add(mark)
                rows.setdefault(address, []).append(_Kept(entry.at, run, event.attempt, name, record))
    made = [version for address, row in rows.items() for version in _numbered(address, row, default)]
    return sorted(made, key=lambda version: (version.made, version.ref))


class _Kept(NamedTuple):
    """A file that an attempt of a run kept at a time, under a name of its own, as the journal has it."""

    at: float
    run: RunRow
    attempt: int
    name: str
    record: dict[str, Json]


def _numbered(address: tuple[str, str, str], rows: list[_Kept], default: str) -> Iterator[Version]:
    """The versions of what the plan keeps by one name: all files of one attempt are one. What a failed attempt left
    does not push out what one kept that did not fail."""
    every = sorted({row.at for row in rows})
    good = sorted({row.at for row in rows if not row.record.get("failed")})
    now = time.time()
    for at, run, attempt, name, record in rows:
        retention = str(record.get("retention") or default) if "path" in record else ""
        failed = bool(record.get("failed"))
        newer = every if failed else good
        ended = run.status in _FINAL and not run.leased
        yield Version(
            *address[:2],
            name,
            bisect_right(every, at),
            str(record["sha256"]),
            int(record.get("size") or 0),
            str(record.get("type") or ""),
            str(record.get("path") or ""),
            run.run,
            attempt,
            at,
            run.plan_digest,
            retention,
            is_over(retention, Kept(at, ended, len(newer) - bisect_right(newer, at)), now),
            address[2],
            failed,
            bool(record.get("executable")),
        )


def _group(record: dict[str, Json], name: str) -> str:
    """The name by which the plan keeps a file: that of the artifact whose pattern it fits, else its own."""
    return str(record.get("group") or name.removesuffix(f"/{record.get('path')}"))


def plain_path(task: str) -> str:
    """The path of a task without the attempts of what holds it: ``build@2/pack`` is ``build/pack``."""
    return re.sub(r"@[0-9]+(?=/|$)", "", task)


def picked(ref: str, every: Iterable[Version], journal: Journal) -> Version:
    """The one file that people mean, as ``files_meant``; UsageError where there are several."""
    files = files_meant(ref, every, journal)
    if len(files) > 1:
        listed = _listed([version.ref for version in files])
        raise UsageError(f"`{ref}` is {len(files)} files: {listed}", "name one of them")
    return files[0]


def files_meant(ref: str, every: Iterable[Version], journal: Journal, good: bool = False) -> list[Version]:
    """The version that people mean, which is several files where these fitted a pattern: ``plan/task/name``, the end of
    that, or a digest (or its beginning); with ``@N`` its N-th version, with ``@RUN`` the one of that run, else the
    newest; with ``good`` the newest of an attempt that did not fail. Raises NotFound, UsageError."""
    versions = list(every)
    digest = ref.removeprefix("sha256:")
    if re.fullmatch(r"[0-9a-f]{8,64}", digest):
        alike = [version for version in versions if version.sha256.startswith(digest)]
        if len({version.sha256 for version in alike}) > 1:
            raise UsageError(f"several artifacts have a digest that begins with `{digest}`", "write more of it")
        if alike:
            return alike[-1:]
    address, _, which = ref.rpartition("@")
    if not address or "/" in which:
        address, which = ref, ""
    address = plain_path(address)
    fitting, addresses = _fitting(address, versions)
    if len(addresses) > 1:
        raise UsageError(f"`{address}` may be {_listed(addresses)}", "write more of it")
    if not fitting:
        names = {version.name: version.address for version in versions}
        near = nearest(address, {version.address for version in versions})
        near = near or names.get(nearest(address.rpartition("/")[2], names) or "", "")
        hint = f"did you mean `{near}`?" if near else Hint(NextStep("artifacts"), " lists what there is")
        raise NotFound(f"there is no artifact `{address}`", hint)
    if good and which in ("", "last"):
        fitting = [version for version in fitting if not version.failed]
        if not fitting:
            raise NotFound(f"only attempts that failed kept `{address}`", "`@N` or `@RUN` names one of them")
    return _of_version(fitting, which, journal, addresses[0])


def _fitting(address: str, versions: list[Version]) -> tuple[list[Version], list[str]]:
    """The versions of what the plan keeps under an address, else of that whose address ends so, else of a file that
    fitted a pattern; with all addresses that these have."""
    grouped = {version.ref: f"{version.plan}/{version.task}/{version.group}" for version in versions}
    for told in (grouped, {version.ref: version.address for version in versions}):
        exact = [version for version in versions if told[version.ref] == address]
        if found := exact or [version for version in versions if told[version.ref].endswith(f"/{address}")]:
            return found, sorted({told[version.ref] for version in found})
    return [], []


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"`{each}`" for each in names[:_NAMED]) + more


def _of_version(versions: list[Version], which: str, journal: Journal, address: str) -> list[Version]:
    """The files of one version of an address."""
    if which in ("", "last"):
        chosen = versions
    elif which.isdigit() and len(which) < 8:
        chosen = [version for version in versions if version.number == int(which)]
        if not chosen:
            count = len({version.number for version in versions})
            raise NotFound(f"`{address}` has no version {which}", f"it has {count} version{'' if count == 1 else 's'}")
    else:
        run = journal.find_run(which)
        chosen = [version for version in versions if version.run == run]
        if not chosen:
            raise NotFound(f"run {run} kept no `{address}`", f"its newest version is `{versions[-1].ref}`")
    return [version for version in chosen if version.number == chosen[-1].number]
