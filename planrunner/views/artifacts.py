"""Artifacts as people read them: a table of versions, one with what it came from, what was checked or removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from planrunner.escapes import harmless
from planrunner.views.terminal import Terminal, plural, table, word

Json = Any


_UNITS = ("B", "KB", "MB", "GB", "TB")


def size_text(size: float) -> str:
    """``12B``, ``3.4MB``."""
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            break
        size /= 1000
    return f"{size:.0f}{unit}" if size >= 100 or unit == "B" else f"{size:.1f}{unit}"


def ref_text(ref: str) -> str:
    """The address of a version as people copy it into a command: in quotes where it has spaces or signs of a shell."""
    shown = harmless(ref)
    return shown if all(char.isalnum() or char in "/._-@:+,=%[]" for char in shown) else word(shown)


def rows(terminal: Terminal, versions: Sequence[dict[str, Json]]) -> list[str]:
    """The table of ``planrunner artifacts``; each row is the data of one version with ``when`` as text."""
    header = ("ARTIFACT", "TYPE", "SIZE", "MADE", "RUN")
    cells = [
        (
            ref_text(one["ref"]),
            harmless(one["type"]),
            size_text(one["size"]),
            one["when"],
            one["run_id"] + (" (failed)" if one["failed"] else ""),
        )
        for one in versions
    ]
    return table(terminal, header, cells)


def details(one: dict[str, Json]) -> Iterator[str]:
    """One version with its provenance, a line a fact."""
    yield ref_text(one["ref"])
    attempt = f", attempt {one['attempt']}" if one["attempt"] > 1 else ""
    failed = ", which failed" if one["failed"] else ""
    facts = (
        ("content", f"sha256:{one['sha256']}"),
        ("size", size_text(one["size"]) + (f" ({one['size']:,} bytes)" if one["size"] >= 1000 else "")),
        ("type", one["type"]),
        ("file", one["path"]),
        ("made", f"{one['when']} by `{one['task']}` of run {one['run_id']}{attempt}{failed}"),
        ("capability", one["capability"]),
        ("inputs", one["inputs"]),
        ("plan", f"{one['plan']} {one['plan_digest']}"),
        ("retention", one["retention"] or "for ever: its capability kept it"),
        ("kept", "yes" if one["stored"] else "no, its time is over" if one["over"] else "NO, its content is lost"),
        ("same as", ", ".join(one["same"][:8])),
    )
    for name, text in facts:
        if text:
            yield f"  {name:<11}{harmless(str(text))}"


def checked(whole: int, damaged: Sequence[str], lost: Sequence[str], over: int) -> Iterator[str]:
    """What ``verify`` says."""
    yield f"{plural(whole, 'content')} whole, {len(damaged)} damaged, {len(lost)} lost" + (
        f"; {over} gone when their time was over" if over else ""
    )
    yield from (f"  damaged  sha256:{sha256}" for sha256 in damaged)
    yield from (f"  lost     {ref_text(ref)}" for ref in lost)


def collected(told: dict[str, Json]) -> Iterator[str]:
    """What ``gc`` says."""
    done = "would be removed" if told["dry_run"] else "removed"
    yield f"{plural(len(told['removed']), 'content')} {done}, {size_text(told['freed'])} freed"
    young = f", {told['young']} of them too young to go" if told["young"] else ""
    yield f"{plural(told['kept'], 'content')} kept, {size_text(told['held'])}{young}"


_NAMED = 20
"""Artifacts that are named."""


def pruned(told: dict[str, Json]) -> Iterator[str]:
    """What ``runs prune`` says."""
    done = "would be pruned" if told["dry_run"] else "pruned"
    freed = "" if told["dry_run"] else f", {size_text(told['freed'])} of logs and artifacts freed"
    yield f"{plural(len(told['pruned']), 'run')} {done}, {plural(told['events'], 'event')}{freed}"
    if refs := told["artifacts"]:
        more = f" and {len(refs) - _NAMED} more" if len(refs) > _NAMED else ""
        shown = ", ".join(ref_text(ref) for ref in refs[:_NAMED])
        verb = "would go" if told["dry_run"] else "went"
        yield f"  with them {verb} {plural(len(refs), 'artifact')} whose retention has not ended: {shown}{more}"
    for each in told["spared"]:
        yield f"  {each['run_id']} stays: {harmless(each['why'])}"
