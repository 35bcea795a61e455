"""``kb.search`` and ``kb.export``."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.files.inputs import check
from planrunner.capabilities.files.scope import require_let, scope_in
from planrunner.capabilities.files.text import Text, planned
from planrunner.capabilities.files.verb import Plan, Verb, undone
from planrunner.files.beneath import Beneath
from planrunner.files.changes import Planned
from planrunner.knowledge.claims import Status, found, verdicts
from planrunner.knowledge.markdown import markdown
from planrunner.knowledge.notes import FOLDER, read_notes

_FOLDER = "folder of the knowledge base, inside the working directory"


class Results(NamedTuple):
    notes: Annotated[
        list[dict[str, Any]],
        Doc("notes and claims: id, kind, title, text, tags, citations …; claims also status, sources, tests"),
    ]
    total: Annotated[int, Doc("number of all matches")]


_MOST = 200


@capability("kb.search", effect="read", foreign=("notes",))
def search(
    context: Context,
    query: Annotated[str, Doc("words, or a question; empty: all, ordered by id")] = "",
    kind: Annotated[Literal["any", "note", "claim"], Doc("kind of entries")] = "any",
    status: Annotated[Literal["any", Status], Doc("only claims with this status")] = "any",
    tags: Annotated[list[str] | None, Doc("only entries with all of these tags")] = None,
    limit: Annotated[int, Doc("the most entries, up to 200")] = 20,
    folder: Annotated[str, Doc(_FOLDER, form="file-read")] = FOLDER,
) -> Results:
    """Search notes and claims of the knowledge base."""
    check({"query": query, "tags": tags, "limit": limit, "folder": folder})
    if not 1 <= limit <= _MOST:
        raise Failure(f"`limit` is 1 to {_MOST}")
    require_let(context, folder, whole=False)
    with Beneath(context.call.directory, cancelled=context.cancelled, scope=scope_in(context)) as tree:
        notes = read_notes(tree, folder)
    wanted: Status | None = None if status == "any" else status
    rows = found(notes, query, "" if kind == "any" else kind, wanted, tags or [])
    return Results(rows[:limit], len(rows))


class Exported(NamedTuple):
    path: Annotated[str, Doc("path of the file")]
    changed: Annotated[bool, Doc("false if the file had this content already")]
    notes: Annotated[int, Doc("number of notes")]
    claims: Annotated[int, Doc("number of claims")]
    confirmed: Annotated[int, Doc("number of confirmed claims")]
    disputed: Annotated[int, Doc("number of disputed claims")]


def _export(path: str, title: str = "Knowledge base", folder: str = FOLDER) -> Plan:
    def plan(context: Context, tree: Beneath) -> Planned:
        require_let(context, folder, whole=False)
        notes = read_notes(tree, folder)
        text = markdown(notes, title)
        inner = planned(Text(path, "utf-8", "", True), lambda *_: text.encode("utf-8", "replace"))(context, tree)
        came = [verdict.status for verdict in verdicts(notes).values()]
        counts = {
            "notes": len(notes) - len(came),
            "claims": len(came),
            "confirmed": came.count("confirmed"),
            "disputed": came.count("disputed"),
        }
        return Planned(inner.changes, {"path": path, "changed": inner.outputs["changed"], **counts})

    return plan


_EXPORT = Verb("kb.export", _export)


@capability(
    "kb.export",
    effect="idempotent",
    risks=("replaces the file that stands at `path`",),
    preview=_EXPORT.preview,
    capture=_EXPORT.capture,
    undo=undone,
    writes=("path",),
)
def export(
    context: Context,
    path: Annotated[str, Doc("the Markdown file to write", form="file-written")],
    title: Annotated[str, Doc("heading of the file")] = "Knowledge base",
    folder: Annotated[str, Doc(_FOLDER, form="file-read")] = FOLDER,
) -> Exported:
    """Export the knowledge base as Markdown: claims by status, with their sources, then notes."""
    return Exported(**_EXPORT.act(context, path=path, title=title, folder=folder))
