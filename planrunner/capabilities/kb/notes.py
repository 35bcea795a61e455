"""``kb.note`` and ``kb.claim``."""

from __future__ import annotations

import hashlib
import posixpath
import time
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypedDict

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.files.inputs import check
from planrunner.capabilities.files.scope import require_let
from planrunner.capabilities.files.text import Text, planned, read_inside
from planrunner.capabilities.files.verb import Plan, Verb, undone
from planrunner.capabilities.research.relevance import SAME, fingerprint, likeness_of
from planrunner.capabilities.research.source import quoted, text_of
from planrunner.files.beneath import Beneath
from planrunner.files.changes import Planned
from planrunner.files.walk import CHUNK
from planrunner.knowledge.claims import Status, joined, verdicts
from planrunner.knowledge.notes import (
    FOLDER,
    LARGEST,
    Citation,
    Kind,
    Note,
    PassedTest,
    id_of,
    note_from,
    note_text,
    read_notes,
)
from planrunner.plan.nearest import meant, nearest

Json = Any

_RISKS = ("makes and replaces files of the knowledge base",)
_LONGEST_TITLE = 500
_LARGEST_SOURCE = 8 << 20
_FOLDER = "folder of the knowledge base, inside the working directory"
_CITATIONS = "sources: maps with `url`, `file` or `artifact`, such as the `evidence` of research.facts"


class Source(TypedDict, total=False):
    """A citation as it is given: the keys of one that is kept, and those of the ``evidence`` of research.facts. Whether
    it is ``checked`` is found out again."""

    url: str
    file: str
    artifact: str
    title: str
    author: str
    quote: str
    sha256: str
    text_sha256: str
    date: str
    copy_of: str
    checked: bool
    host: str
    start: int
    end: int
    fetched_at: str


class Kept(NamedTuple):
    id: Annotated[str, Doc("id of the note, derived from the title")]
    path: Annotated[str, Doc("path of the file")]
    changed: Annotated[bool, Doc("false if the file had this content already")]


def _said(context: Context) -> dict[str, Any]:
    """Who writes, and on which day: that of the start of the run, so that all attempts write the same."""
    call = context.call
    day = time.strftime("%Y-%m-%d", time.gmtime(call.began)) if call.began else ""
    who = "the model of task" if call.task.uses.startswith("agent.") else "task"
    return {"by": f"{who} {call.task.id} of run {call.run_id}", "created": day}


def _title(title: str) -> str:
    """A title on one line. Raises Failure for any other text."""
    text = " ".join(title.split())
    if not text or len(text) > _LONGEST_TITLE:
        raise Failure(f"a title has 1 to {_LONGEST_TITLE} characters")
    return text


def _written(context: Context, tree: Beneath, path: str, text: str) -> Planned:
    data = text.encode("utf-8", "replace")
    if len(data) > LARGEST:
        raise Failure(f"{path} would have {len(data):,} bytes, above {LARGEST:,}")
    return planned(Text(path, "utf-8", "", True), lambda *_: data)(context, tree)


def _note(
    title: str, text: str, tags: list[str] | None = None, citations: list[Json] | None = None, folder: str = FOLDER
) -> Plan:
    def plan(context: Context, tree: Beneath) -> Planned:
        require_let(context, folder, "write", whole=False)
        name = id_of(_title(title))
        path = posixpath.join(folder, f"{name}.yaml")
        cited = _citations(context, citations)
        note = Note("note", name, _title(title), text, _tags(tags), citations=cited, **_said(context))
        earlier = _there(context, path)
        if earlier is not None:
            _require_kind(earlier, "note", "give the note another title")
            note = note._replace(created=earlier.created, by=earlier.by)
        inner = _written(context, tree, path, note_text(note))
        return Planned(inner.changes, {"id": name, "path": path, "changed": inner.outputs["changed"]})

    return plan


def _there(context: Context, path: str) -> Note | None:
    data = read_inside(context, path, LARGEST)
    return None if data is None else note_from(data, path)


def _require_kind(earlier: Note, kind: Kind, way: str) -> None:
    """Raises Failure where the id is that of an entry of the other kind, which would be lost."""
    if earlier.kind != kind:
        raise Failure(f"`{earlier.title}` is a {earlier.kind} already: {way}")


def _tags(tags: list[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(" ".join(tag.split()) for tag in tags or ()))


_NOTE = Verb("kb.note", _note)


@capability(
    "kb.note",
    effect="idempotent",
    risks=_RISKS,
    preview=_NOTE.preview,
    capture=_NOTE.capture,
    undo=undone,
    writes=("folder",),
)
def note(
    context: Context,
    title: Annotated[str, Doc("title; an existing note with this title gets the new text")],
    text: Annotated[str, Doc("text of the note, as Markdown or plain text")],
    tags: Annotated[list[str] | None, Doc("tags to filter by")] = None,
    citations: Annotated[list[Source] | None, Doc(_CITATIONS)] = None,
    folder: Annotated[str, Doc(_FOLDER, form="file-written")] = FOLDER,
) -> Kept:
    """Write a note to the knowledge base."""
    inputs = {"title": title, "text": text, "tags": tags, "citations": citations, "folder": folder}
    return Kept(**_NOTE.act(context, **inputs))


class Claimed(NamedTuple):
    id: Annotated[str, Doc("id of the claim, derived from the statement")]
    path: Annotated[str, Doc("path of the file")]
    changed: Annotated[bool, Doc("false if the file had this content already")]
    status: Annotated[
        Status,
        Doc("confirmed: two independent sources or a test; disputed: a contradicting claim has a source or a test"),
    ]
    sources: Annotated[int, Doc("number of checked sources with different owners or authors, and texts")]
    tests: Annotated[int, Doc("number of passed tests")]
    confidence: Annotated[float, Doc("from 0 to 1: as stated, or else 1 − ½ⁿ, where a test counts as two sources")]
    contradicted_by: Annotated[list[str], Doc("ids of the contradicting claims")]


def _claim(
    statement: str,
    citations: list[Json] | None = None,
    tests: list[str] | None = None,
    contradicts: list[str] | None = None,
    confidence: float | None = None,
    text: str = "",
    tags: list[str] | None = None,
    folder: str = FOLDER,
) -> Plan:
    def plan(context: Context, tree: Beneath) -> Planned:
        require_let(context, folder, "write", whole=False)
        claim = Note(
            "claim",
            id_of(_title(statement)),
            _title(statement),
            text,
            _tags(tags),
            confidence=confidence,
            citations=_citations(context, citations),
            tests=_tests(context, tests),
            contradicts=tuple(contradicts or ()),
            **_said(context),
        )
        others = {each.id: each for each in read_notes(tree, folder)}
        _require_known(claim, others)
        whole = claim
        if (earlier := others.get(claim.id)) is not None:
            _require_kind(earlier, "claim", "state the claim in other words")
            whole = joined(earlier, claim)
        whole = whole._replace(citations=_with_copies(context, whole.citations))
        path = posixpath.join(folder, f"{claim.id}.yaml")
        inner = _written(context, tree, path, note_text(whole))
        verdict = verdicts({**others, claim.id: whole}.values())[claim.id]
        told = {**verdict._asdict(), "contradicted_by": [*verdict.contradicted_by]}
        return Planned(inner.changes, {"id": claim.id, "path": path, "changed": inner.outputs["changed"], **told})

    return plan


def _require_known(claim: Note, others: Mapping[str, Note]) -> None:
    claims = [name for name, other in others.items() if other.kind == "claim"]
    for name in claim.contradicts:
        if name == claim.id:
            raise Failure("a claim cannot contradict itself")
        if name not in claims:
            close = nearest(name, claims)
            raise Failure(f"`contradicts` names `{name}`, which is not a claim" + meant(close))


def _tests(context: Context, tests: list[str] | None) -> tuple[PassedTest, ...]:
    """The tests that the run has carried out before. Raises Failure for one that it has not."""
    done = context.call.completed
    for name in tests or ():
        if name not in done:
            before = f"it needs {', '.join(f'`{each}`' for each in done)}" if done else "it needs none that completed"
            raise Failure(f"`tests` names `{name}`, which is not a completed task that this one needs: {before}")
    return tuple(PassedTest(name, context.call.run_id, done[name]) for name in tests or ())


_CLAIM = Verb("kb.claim", _claim)


@capability(
    "kb.claim",
    effect="idempotent",
    risks=_RISKS,
    preview=_CLAIM.preview,
    capture=_CLAIM.capture,
    undo=undone,
    writes=("folder",),
)
def claim(
    context: Context,
    statement: Annotated[str, Doc("the claim, in one sentence")],
    citations: Annotated[list[Source] | None, Doc(_CITATIONS)] = None,
    tests: Annotated[list[str] | None, Doc("tasks in `needs` whose success shows that the claim is true")] = None,
    contradicts: Annotated[list[str] | None, Doc("ids of claims that cannot be true together with it")] = None,
    confidence: Annotated[
        float | None, Doc("confidence stated by the author, from 0 to 1; default: computed", form="fraction")
    ] = None,
    text: Annotated[str, Doc("details")] = "",
    tags: Annotated[list[str] | None, Doc("tags to filter by")] = None,
    folder: Annotated[str, Doc(_FOLDER, form="file-written")] = FOLDER,
) -> Claimed:
    """Write a claim to the knowledge base, with its evidence.

    New citations and tests of an existing claim are added to it. A contradicting claim does not replace another. A
    citation counts if its quote is in the text that research.fetch kept, or if its file or artifact exists. Two
    citations that count, with different owners and texts, or one test confirm the claim. A page that nearly repeats
    the text of another one, as a mirror does, counts as a copy of it (`copy_of`).
    """
    check({"confidence": confidence})
    if confidence is not None and not 0 <= confidence <= 1:
        raise Failure("`confidence` is from 0 to 1")
    inputs = {
        "statement": statement, "citations": citations, "tests": tests, "contradicts": contradicts,
        "confidence": confidence, "text": text, "tags": tags, "folder": folder,
    }  # fmt: skip
    return Claimed(**_CLAIM.act(context, **inputs))


def _citations(context: Context, given: list[Json] | None) -> tuple[Citation, ...]:
    if given is not None and not isinstance(given, (list, tuple)):
        raise Failure("`citations` must be a list of maps")
    for number, each in enumerate(given or ()):
        _require_keys(each, f"citations[{number}]")
    return tuple(_citation(context, each) for each in given or ())


def _require_keys(given: Json, name: str) -> None:
    """Raises Failure for a key that citations do not have: with a misspelt `quote` nothing would be checked."""
    known = Source.__annotations__
    for key in given if isinstance(given, dict) else ():
        if key not in known:
            near = nearest(str(key), known)
            way = f", did you mean `{near}`?" if near else f": it may have {', '.join(known)}"
            raise Failure(f"`{name}` has no key `{key}`{way}")


def _citation(context: Context, given: Json) -> Citation:
    """A citation, checked as far as it can be. Raises Failure for one whose quote stands elsewhere, and whose file or
    artifact there is not."""
    kinds = [kind for kind in ("url", "file", "artifact") if isinstance(given, dict) and given.get(kind)]
    if len(kinds) != 1:
        raise Failure("each item of `citations` is a map with one of `url`, `file` and `artifact`")
    texts: dict[str, Any] = {name: str(given.get(name) or "") for name in Citation._fields if name != "checked"}
    texts["date"] = texts["date"] or str(given.get("fetched_at") or "")
    citation = Citation(**texts)
    if kinds == ["url"]:
        is_kept = bool(citation.text_sha256) and {"quote", "start", "end"} <= given.keys()
        if is_kept and not (isinstance(given["start"], int) and isinstance(given["end"], int)):
            raise Failure("`start` and `end` of a citation are numbers: where its quote stands in the kept text")
        return citation._replace(checked=is_kept and bool(quoted(context, given)))
    digest, data = _content(context, citation)
    if citation.sha256 not in ("", digest):
        raise Failure(f"`{citation.file or citation.artifact}` does not have the cited content, {citation.sha256}")
    if citation.quote and " ".join(citation.quote.split()) not in " ".join(data.decode("utf-8", "replace").split()):
        raise Failure(f"the quote is not in {citation.file or citation.artifact}: {citation.quote[:80]}")
    return citation._replace(sha256=digest, checked=True)


def _with_copies(context: Context, citations: tuple[Citation, ...]) -> tuple[Citation, ...]:
    """The citations of a claim, with those marked whose page nearly repeats that of an earlier one, as far as the texts
    are still kept."""
    texts: dict[str, frozenset[int]] = {}
    marked = []
    for citation in citations:
        digest = citation.text_sha256
        if citation.checked and digest and not citation.copy_of and digest not in texts:
            sketch = _sketch(context, citation)
            alike = (other for other, its in texts.items() if likeness_of(sketch, its) >= SAME)
            citation = citation._replace(copy_of=next(alike, ""))
            if not citation.copy_of:
                texts[digest] = sketch
        marked.append(citation)
    return tuple(marked)


def _sketch(context: Context, citation: Citation) -> frozenset[int]:
    try:
        text = text_of(context, {**citation._asdict(), "text": "", "truncated": True})
    except Failure as failure:
        if failure.failure == "interrupted":
            raise
        return frozenset()
    return fingerprint(text)[1]


def _content(context: Context, citation: Citation) -> tuple[str, bytes]:
    """The digest of a file or an artifact, and its beginning, in which a quote is looked for."""
    if citation.file:
        data = read_inside(context, citation.file, _LARGEST_SOURCE)
        if data is None:
            raise Failure(f"{citation.file} does not exist, so it cannot be cited")
        return hashlib.sha256(data).hexdigest(), data
    start = b""
    with context.artifact(citation.artifact) as artifact:
        while len(start) < _LARGEST_SOURCE and (part := artifact.read(CHUNK)):
            start += part
    return citation.artifact, start
