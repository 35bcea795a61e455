"""The editor's desk: what the page of a plan shows, made of a text, its file and the run that it revises."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi.responses import HTMLResponse

from planrunner.app.people.admission import review
from planrunner.app.plans.edit import Look, PlanText, converted, envelope_of, look, place_of, plain, read_text
from planrunner.app.runs.revise import ReviseRequest, preview, run_plan
from planrunner.diagnostics import Diagnostic
from planrunner.errors import NotFound, PlanrunnerError
from planrunner.safety.trust import why_drafted
from planrunner.service.context import Project, Visitor
from planrunner.service.following import Reader, framed
from planrunner.service.problems import Problem
from planrunner.source import Notation, Source, notation_of
from planrunner.views.page.code import code_lines
from planrunner.views.page.difference import difference as compared
from planrunner.views.page.editor import RevisionView, editor_parts, notes_data
from planrunner.views.page.forecast import forecast
from planrunner.views.page.render import rendered
from planrunner.views.page.sketch import sketch
from planrunner.views.revision import Revision

Json = Any

AT_ONCE = 2
"""Texts that are checked at the same time; each takes a processor."""
PATIENCE = 10.0
"""Seconds that a text waits for its turn."""

_turns = threading.BoundedSemaphore(AT_ONCE)


@contextmanager
def working() -> Iterator[None]:
    """A turn to check a text. Raises Problem 503 where none comes in time."""
    if not _turns.acquire(timeout=PATIENCE):
        raise Problem(503, "too many texts are checked at once", "try again in a moment", headers={"retry-after": "2"})
    try:
        yield
    finally:
        _turns.release()


class Alert(NamedTuple):
    """What became of the last action. ``way`` is an address that leads on, ``word`` what it is called."""

    state: str
    text: str
    way: str = ""
    word: str = ""


class Draft(NamedTuple):
    """What stands in an editor: a text for a file, the ``digest`` of the file that it was read from (empty for one that
    does not exist), and whether a model or template wrote it (``drafted``). ``run`` is the run that it revises, for
    ``reason``; ``own`` that the text was taken from the run."""

    path: str
    text: str
    digest: str
    run: str = ""
    reason: str = ""
    own: bool = False
    drafted: bool = False
    alert: Alert | None = None


def shown_editor(draft: Draft, reader: Reader, status: int = 200) -> HTMLResponse:
    """The page of the editor. Acts within ``behalf``."""
    values = editor(draft, reader.project, reader.visitor)
    runs = reader.follower.summaries.plans().get(str(values["plan_id"]), 0)
    around = framed(reader.follower, reader.project, reader.visitor, "plans", "editor.js")
    return HTMLResponse(rendered("plan.html", around, page={**values, "used": runs}), status)


def draft_of(path: str, run: str, own: bool) -> Draft:
    """What an editor begins with: the file, or the plan of the run where the file is gone or ``own`` asks for it.
    Raises NotFound without either."""
    try:
        read = read_text(path)
    except NotFound:
        if not run:
            raise
        return Draft(path, run_plan(run, None).text, "", run, own=True)
    draft = Draft(path, read.text, read.digest, run)
    mine = run_plan(run, None).text if run else read.text
    if own:
        return draft._replace(text=plain(mine), own=True)
    if plain(mine) != read.text:
        way = f"?{urlencode({'run': run, 'of': 'run'})}"
        said = "The file is not the plan that the run has."
        return draft._replace(alert=Alert("wait", said, way, "Begin with the plan of the run"))
    return draft


def editor(draft: Draft, project: Project, visitor: Visitor) -> dict[str, object]:
    """The values of ``plan.html``. Acts within ``behalf``."""
    started = time.monotonic()
    with working():
        seen = look(draft.path, draft.text)
        values = panels(seen, draft)
    saved = _saved(draft.path)
    lines = code_lines(seen.source, seen.findings)
    may_edit = "run" in visitor.scopes
    unsaved = saved is None or saved.text != draft.text
    drafted = why_drafted(place_of(draft.path)) if saved is not None else ""
    title = seen.sketch.title or seen.sketch.id if seen.sketch is not None else ""
    return {
        **values,
        "path": draft.path,
        "title": title or draft.path.rpartition("/")[2],
        "plan_id": seen.plan.id if seen.plan is not None else "",
        "action": f"/{project.name}/plans/{quote(draft.path)}",
        "text": draft.text,
        "digest": draft.digest,
        "drafted_text": draft.drafted,
        "unsaved": unsaved,
        "saved_words": _saved_words(saved, draft),
        "drafted": drafted,
        "trusted": bool(drafted) and _is_trusted(place_of(draft.path)),
        "used": 0,
        "notation": seen.source.notation,
        "notations": _notations(draft, project, seen.findings) if not unsaved and not draft.run else (),
        "lines": lines,
        "notes": notes_data(seen.source, seen.findings) if may_edit else [],
        "took": time.monotonic() - started,
        "may_edit": may_edit,
        "readonly": "Editing needs the scope run.",
        "alert": draft.alert,
        **_changes(draft, saved),
    }


def _is_trusted(path: str) -> bool:
    """Whether a person trusts a plan file as it is."""
    try:
        return bool(review(path).summary["trusted"] == "trusted")
    except PlanrunnerError:
        return False  # it has errors, which the page shows


def panels(seen: Look, draft: Draft) -> dict[str, object]:
    """The values of the panels beside the text, and of the verdict."""
    text = seen.source.text
    told = envelope_of(draft.path, text) if seen.plan is not None else None
    facts = forecast(told.document, told.missing) if told is not None and told.document is not None else []
    return {
        **editor_parts(seen.source, seen.findings, facts, told.problem if told is not None else ""),
        "graph": sketch(seen.sketch, seen.source, seen.findings) if seen.sketch is not None else None,
        "revision": revision_view(draft, seen) if draft.run else None,
    }


def _saved(path: str) -> PlanText | None:
    try:
        return read_text(path)
    except NotFound:
        return None


def _saved_words(saved: PlanText | None, draft: Draft) -> str:
    if saved is None:
        return "new, not saved"
    if saved.text == draft.text:
        return f"saved, {saved.digest[:7]}"
    return f"of {saved.digest[:7]}, not saved"


def _changes(draft: Draft, saved: PlanText | None) -> dict[str, object]:
    """What differs from the file, where the text was sent and is not the file's."""
    if saved is None or saved.text == draft.text:
        return {"difference": (), "changed_meta": ""}
    lines = compared(saved.text, draft.text)
    added, removed = (sum(line.kind == kind for line in lines) for kind in ("add", "del"))
    return {"difference": lines, "changed_meta": f"{added} added, {removed} removed"}


_WORDS: tuple[tuple[Notation, str], ...] = (("yaml", "YAML"), ("text", "Text"), ("json", "JSON"))


def _notations(draft: Draft, project: Project, findings: Sequence[Diagnostic]) -> tuple[dict[str, object], ...]:
    """The notations that the plan can be read in; its own is the one that is edited."""
    address = f"/{project.name}/plans/{quote(draft.path)}"
    own = notation_of(draft.path)
    if any(finding.code in ("PLAN001", "PLAN012") for finding in findings):
        return ()
    return tuple(
        {"word": word, "current": name == own, "href": address if name == own else f"{address}?as={name}"}
        for name, word in _WORDS
    )


def converted_page(draft: Draft, project: Project, visitor: Visitor, notation: Notation) -> dict[str, object]:
    """The values of ``plan.html`` for a plan that is shown in another notation, where it is only read."""
    values = editor(draft, project, visitor)
    shown = Source(converted(draft.path, draft.text, notation), draft.path, notation)
    notations = [{**one, "current": one["word"] == dict(_WORDS)[notation]} for one in _notations(draft, project, ())]
    return {
        **values,
        "lines": code_lines(shown),
        "notation": notation,
        "notations": notations,
        "may_edit": False,
        "notes": [],
        "readonly": f"This is how the plan reads in another notation. It is edited in its own: {draft.path}.",
    }


# The run that is revised


def revision_view(draft: Draft, seen: Look) -> RevisionView:
    """What the text would mean for the run, as ``revise --preview`` says."""
    view = RevisionView(draft.run, 0, own=draft.own, reason=draft.reason)
    if seen.plan is None:
        return view._replace(problem="Without errors it can be told what becomes stale.")
    request = ReviseRequest(draft.run, place_of(draft.path), text=draft.text.encode("utf-8", "surrogatepass"))
    try:
        made = preview(request, None)
    except PlanrunnerError as error:
        return view._replace(problem=f"{error.message}{f': {error.hint}' if error.hint else ''}")
    if not made.changed:
        return view._replace(number=made.number)
    changes = tuple(f"{change.what} {change.change}" for change in made.differences)
    return view._replace(number=made.number, rows=_fates(made), changes=changes)


def _fates(made: Revision) -> tuple[tuple[str, str, str, str], ...]:
    """Each task with how it is shown and what becomes of it, the stale ones first."""
    again = set(made.again)
    fates = [
        *(("run", "retry", task, "runs again") for task in made.again),
        *(("gate", "gate", task, "is asked again") for task in made.asked_again if task not in again),
        *(("add", "add", task, "is added and runs") for task in made.new if task not in again),
        *(("wait", "doubt", task, "is compared at its turn") for task in made.perhaps if task not in again),
        *(("off", "off", task, "is left out") for task in made.gone),
        *(("ok", "ok", task, "keeps its result") for task in made.kept),
    ]
    return tuple(fates)
