"""The plan editor: what its page shows of a text, its file and the run that it revises; and its buttons: check, format,
fix, save, revise."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from planrunner.app.drafts.beginnings import begun
from planrunner.app.people.admission import is_trusted, review, trust_plan
from planrunner.app.plans.edit import (
    LARGEST,
    Look,
    PlanText,
    converted,
    envelope_of,
    fixed,
    formatted,
    is_there,
    known_look,
    look,
    place_of,
    plain,
    read_text,
    runs_as_it_is,
    save_text,
)
from planrunner.app.plans.listing import LARGE
from planrunner.app.queue.asking import take_up
from planrunner.app.runs.revise import ReviseRequest, preview, revise, run_plan
from planrunner.diagnostics import Diagnostic
from planrunner.errors import Denied, NotFound, PlanInvalid, PlanrunnerError, RecordMismatch, UsageError
from planrunner.records import Struct
from planrunner.safety.trust import DRAFTED, why_marked
from planrunner.service.context import HereForm, HereProject, HereVisitor, Project, Runner, Visitor, behalf
from planrunner.service.following import HereReader, Reader
from planrunner.service.plans import author, checking
from planrunner.service.problems import Problem, below, problem_of
from planrunner.source import Notation, Source, notation_of
from planrunner.views.page.code import CodeLine, code_lines
from planrunner.views.page.difference import difference as compared
from planrunner.views.page.editor import UNCHECKED, RevisionView, editor_parts, notes_data, revised_tasks, sketch
from planrunner.views.page.forecast import forecast
from planrunner.views.page.render import part, rendered

Json = Any

router = APIRouter(prefix="/{project}", include_in_schema=False)


class Alert(Struct):
    """What became of the last action. ``way`` is an address that leads on, ``word`` what it is called."""

    state: str
    text: str
    way: str = ""
    word: str = ""


class Draft(Struct):
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


def shown_editor(draft: Draft, here: Reader, status: int = 200, whole: bool = True) -> HTMLResponse:
    """The page of the editor. Acts within ``behalf``."""
    values = editor(draft, here.project, here.visitor, whole)
    runs = here.follower.summaries.plans().get(str(values["plan_id"]), 0)
    around = here.frame("plans", "editor.js")
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


def editor(draft: Draft, project: Project, visitor: Visitor, whole: bool = True) -> dict[str, object]:
    """The values of ``plan.html``; unless ``whole`` without what a large text needs long for, which the page asks for
    when it is there. Acts within ``behalf``."""
    started = time.monotonic()
    with checking():
        seen = look(draft.path, draft.text) if whole else known_look(draft.path, draft.text)
        is_large = not whole and len(draft.text) > LARGE
        if seen is None:
            seen = Look(Source(draft.text, draft.path, notation_of(draft.path)), (), None)
            values = {**editor_parts(seen.source, (), (), _BESIDE), "verdict": UNCHECKED, "graph": None}
            values["revision"] = RevisionView(draft.run, 0, problem=_BESIDE) if draft.run else None
        else:
            values = panels(seen, draft, not is_large)
    saved = _saved(draft.path)
    lines, rest = _lines(seen.source, seen.findings)
    may_edit = _may_edit(draft.path, visitor)
    unsaved = saved is None or saved.text != draft.text
    drafted = why_marked(place_of(draft.path)) if saved is not None else ""
    trusted = bool(drafted) and is_trusted(place_of(draft.path))
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
        "trusted": trusted,
        "may_trust": bool(drafted) and not trusted and not unsaved and author(visitor).trusts,
        "used": 0,
        "notation": seen.source.notation,
        "notations": _notations(draft, project, seen.findings) if not unsaved and not draft.run else (),
        "lines": lines,
        "rest": rest,
        "beside": is_large,
        "notes": notes_data(seen.source, seen.findings) if may_edit else [],
        "took": time.monotonic() - started,
        "may_edit": may_edit,
        "trusts": author(visitor).trusts,
        "readonly": _NEEDS_ADMIN if "run" in visitor.scopes else "Editing needs the scope run.",
        "alert": draft.alert,
        **_changes(draft, saved),
    }


_BESIDE = "The plan is large: this is told once it is checked."
LINES = 500
"""Lines that a page draws in colour; the script colours further ones where they are looked at."""


def _lines(source: Source, findings: Sequence[Diagnostic] = ()) -> tuple[list[CodeLine], str]:
    """The lines of a text in colour, and the rest of a long one."""
    ends = [at for at, sign in enumerate(source.text) if sign == "\n"] if source.text.count("\n") > LINES else []
    if not ends:
        return code_lines(source, findings), ""
    end = ends[LINES - 1]
    beginning = Source(source.text[:end], source.name, source.notation)
    return code_lines(beginning, [each for each in findings if each.span.start < end]), source.text[end + 1 :]


_NEEDS_ADMIN = "This plan runs as it is, so changing it needs the scope admin. A new plan needs run alone."


def _may_edit(path: str, visitor: Visitor) -> bool:
    """Whether a visitor may save what stands in the editor: nothing is offered that would be refused."""
    return "run" in visitor.scopes and (author(visitor).trusts or not runs_as_it_is(path))


def panels(seen: Look, draft: Draft, whole: bool = True) -> dict[str, object]:
    """The values of the panels beside the text, and of the verdict; unless ``whole`` without what a run would do."""
    text = seen.source.text
    told = envelope_of(draft.path, text) if seen.plan is not None and whole else None
    facts = forecast(told.document, told.missing) if told is not None and told.document is not None else []
    return {
        **editor_parts(
            seen.source, seen.findings, facts, told.problem if told is not None else "" if whole else _BESIDE
        ),
        "graph": sketch(seen.sketch, seen.source, seen.findings) if seen.sketch is not None else None,
        "revision": (revision_view(draft, seen) if whole else RevisionView(draft.run, 0, problem=_BESIDE))
        if draft.run
        else None,
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
    lines, rest = _lines(Source(converted(draft.path, draft.text, notation), draft.path, notation))
    notations = [{**one, "current": one["word"] == dict(_WORDS)[notation]} for one in _notations(draft, project, ())]
    return {
        **values,
        "lines": lines,
        "rest": rest,
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
    return view._replace(number=made.number, rows=revised_tasks(made), changes=changes)


class TextOfPlan(BaseModel):
    """A text that is not saved. ``run`` is the run that it would revise."""

    model_config = ConfigDict(extra="forbid")
    path: str = Field(max_length=4096)
    text: str = Field(max_length=LARGEST)
    run: str = Field(default="", max_length=200)


@router.get("/plans/{path:path}", response_class=HTMLResponse)
def plan(
    here: HereReader,
    path: str,
    run: Annotated[str, Query(max_length=200)] = "",
    of: Annotated[Literal["", "run"], Query()] = "",
    begin: Annotated[str, Query(max_length=40)] = "",
    saved: bool = False,
    drafted: bool = False,
    notation: Annotated[Literal["", "yaml", "text", "json"], Query(alias="as")] = "",
) -> HTMLResponse:
    """One plan in the editor: its file, the plan of a ``run`` that it revises, or what a new one begins with."""
    with here.behalf():
        if begin and not is_there(path):
            draft = Draft(path, begun(path, begin), "")
        else:
            draft = draft_of(path, run, of == "run")
        if saved:
            draft = draft._replace(alert=Alert("ok", "Saved."))
        elif drafted:
            draft = draft._replace(alert=Alert("ok", "Drafted and written to its file. Read it before you trust it."))
        if notation and notation != notation_of(path):
            page = converted_page(draft, here.project, here.visitor, notation)
            return HTMLResponse(rendered("plan.html", here.frame("plans"), page=page))
        return shown_editor(draft, here, whole=False)


@router.post("/plans/{path:path}", response_class=HTMLResponse)
def act(here: HereReader, visitor: Runner, path: str, form: HereForm) -> Response:
    """What a button of the editor asks for: check, format, fix, save, revise."""
    draft = Draft(
        path,
        plain(form.get("plan", "")),
        form.get("digest", ""),
        form.get("run", ""),
        form.get("reason", ""),
        drafted=form.get("drafted") == "1",
    )
    what, _, which = form.get("do", "check").partition(":")
    with here.behalf():
        if what in ("save", "revise"):
            return _save(draft, here, revising=what == "revise")
        if what == "trust":
            return _trust(draft, here)
        status = 200
        try:
            draft = _changed(draft, what, which)
        except (PlanInvalid, NotFound) as error:
            draft, status = draft._replace(alert=Alert("bad", f"{error.message}. {error.hint}".strip())), 422
        return shown_editor(draft, here, status)


def _changed(draft: Draft, what: str, which: str) -> Draft:
    """The draft after an action that changes its text. Raises PlanInvalid, NotFound."""
    if what == "tidy":
        return draft._replace(text=formatted(draft.path, draft.text))
    if what == "fix":
        return draft._replace(text=fixed(draft.path, draft.text, which))
    return draft


def _trust(draft: Draft, here: Reader) -> Response:
    """Trust the plan as it stands in its file, which has to be what was shown."""
    if not author(here.visitor).trusts:
        raise Problem(403, "trusting a plan needs the scope admin")
    kept, seen = read_text(draft.path), review(place_of(draft.path))
    if kept.digest != draft.digest or plain(seen.ready.text) != kept.text:
        alert = Alert("bad", "The file has changed since it was shown, so it was not trusted. This is what it holds.")
        return shown_editor(draft._replace(text=kept.text, digest=kept.digest, alert=alert), here, 409)
    trust_plan(place_of(draft.path), seen)
    return RedirectResponse(f"/{here.project.name}/plans/{quote(draft.path)}", 303)


def _save(draft: Draft, here: Reader, revising: bool) -> Response:
    """Save, and with ``revising`` give the run its next revision and let it go on."""
    trusts, outside = author(here.visitor)
    project = here.project
    try:
        kept = save_text(draft.path, draft.text, draft.digest, DRAFTED if draft.drafted else outside, trusts)
    except RecordMismatch as error:
        return shown_editor(_overtaken(draft, error), here, 409)
    except (Denied, UsageError) as error:
        alert = Alert("bad", f"Nothing was saved: {error.message}. {error.hint}".strip())
        return shown_editor(draft._replace(alert=alert), here, 422 if isinstance(error, UsageError) else 403)
    address = f"/{project.name}/plans/{quote(draft.path)}"
    if not revising:
        run = {"run": draft.run} if draft.run else {}
        return RedirectResponse(f"{address}?{urlencode({**run, 'saved': 1})}", 303)
    try:
        decides = "decide" in here.visitor.scopes
        made = revise(ReviseRequest(draft.run, place_of(draft.path), reason=draft.reason, decides=decides), None)
        take_up(made.run_id)
    except PlanrunnerError as error:
        told = below(problem_of(error), f"{project.root}/")
        alert = Alert("bad", f"Saved, but the run was not revised: {told.detail}. {told.hint}".strip())
        return shown_editor(draft._replace(digest=kept.digest, alert=alert), here, 409)
    return RedirectResponse(f"/{project.name}/runs/{quote(made.run_id)}", 303)


def _overtaken(draft: Draft, error: RecordMismatch) -> Draft:
    """The draft beside a file that is another one by now: the next save is over what is shown."""
    try:
        now = read_text(draft.path).digest
    except NotFound:
        now = ""
    text = f"{error.message}, so nothing was saved. Below is what differs; saving again writes your text over it."
    return draft._replace(digest=now, alert=Alert("bad", text))


# While a person types


@router.post("/look")
def look_again(project: HereProject, visitor: HereVisitor, said: TextOfPlan) -> dict[str, Json]:
    """The panels for a text, as HTML, and its findings for the script."""
    started = time.monotonic()
    draft = Draft(said.path, plain(said.text), "", said.run)
    with behalf(visitor, project), checking():
        seen = look(draft.path, draft.text)
        values = {**panels(seen, draft), "may_edit": _may_edit(draft.path, visitor), "took": time.monotonic() - started}
    names = ["verdict", "findings", "graph", "preview", *(["stale"] if said.run else [])]
    return {
        "parts": {name: part("plan_parts.html", name, values) for name in names},
        "notes": notes_data(seen.source, seen.findings),
        "starts": seen.plan is not None,
        "graph": seen.sketch is not None,
        "preview": bool(values["facts"]),
    }
