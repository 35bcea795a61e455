"""Plans: listed, read, written, checked, previewed, drawn, drafted, and what an editor of them asks for."""

from __future__ import annotations

import os
from typing import Annotated, Any

from fastapi import Depends
from pydantic import Field

from planrunner.app.drafts.draft import Draft, DraftRequest, draft, write_draft
from planrunner.app.plans import edit
from planrunner.app.plans.lint import load_plan
from planrunner.app.plans.preview import Choice, missing_of, preview_object, previewed
from planrunner.app.runs.execute import ExecRequest, Silent
from planrunner.jsontext import write_json
from planrunner.plan.names import plan_paths
from planrunner.service.api.answers import Body, Key, Name, Named, api_router, shaped
from planrunner.service.context import HereProject, Runner, Visitor
from planrunner.service.control import HereControl, StartRequest
from planrunner.service.plans import HereDrafts, author, checking, plan_of
from planrunner.service.problems import Problem, require_own_address
from planrunner.views.documents import document_of, listing
from planrunner.views.draft import Shown, draft_document
from planrunner.views.graph import drawing, graph_object

Json = Any

router = api_router("plans")

Path = Annotated[str, Field(min_length=1, max_length=500, examples=["plans/release.yaml"])]
_FINDINGS = shaped("The findings, as `lint --json` prints them.", "findings")
_TEXT = shaped("The text.", "text", "changed")
_PREVIEW = shaped("The preview, as `preview --json` prints it.", "digests", "params", "envelope")


class Text(Body):
    """The text of a plan, in the notation of the ending of ``path``; or the ``plan`` itself as data, which is written
    as JSON."""

    path: Path
    text: str = Field(default="", max_length=edit.LARGEST)
    plan: dict[str, Json] | None = None

    def written(self) -> str:
        """The text that the file gets. Raises Problem 422 where there is none or both."""
        if (self.plan is None) == (not self.text):
            raise Problem(422, "give `text`, or the plan as data under `plan`")
        return self.text or write_json(_named_first(self.plan or {}))


def _named_first(plan: dict[str, Json]) -> dict[str, Json]:
    """A plan as data with its name at its beginning, where what looks for plans expects it."""
    names = [key for key in ("plan", "plan_id", "id") if key in plan]
    return {**{key: plan[key] for key in names}, **plan}


class Saved(Text):
    """A text over the one that was read, whose ``digest`` (SHA-256) it had; empty for a new file."""

    digest: str = Field(default="", max_length=64)


class Chosen(Body):
    """What a run would be asked for."""

    path: Path
    params: dict[str, Json] = {}
    only: list[Named] = Field(default=[], max_length=1000)
    until: list[Named] = Field(default=[], max_length=1000)
    max_parallel: int | None = Field(default=None, ge=1)


class Goal(Body):
    """A goal in plain words. ``model`` is that of the project that writes the plan: empty for the default one, null for
    none. ``save`` writes it; it runs only after a person has trusted it."""

    goal: str = Field(min_length=1, max_length=4000)
    path: Path
    model: str | None = None
    save: bool = False


class Inputs(Body):
    """Values of the parameters that the plan has."""

    inputs: dict[str, Json] = {}


class Written(Body):
    """A text that stands in no file, and the path that it would have."""

    path: Annotated[str, Field(min_length=1, max_length=500, examples=["plans/release.yaml"])]
    text: Annotated[str, Field(max_length=edit.LARGEST, examples=["plan: release\ntasks:\n  - id: build\n    ru"])]


class Cursor(Written):
    """A place in a text: the number of characters before it."""

    offset: Annotated[int, Field(ge=0, examples=[42])]


class Mending(Written):
    """Which fixes: the ``safe`` ones, ``all``, or the fingerprint of one finding."""

    which: Annotated[str, Field(max_length=64, examples=["safe"])] = "safe"


@router.post("/plans/complete", responses=shaped("The words, the best first.", "words", "start", "end"))
def complete(body: Cursor) -> Json:
    """Say what may be written at a place of a text: keys, values, capabilities, tasks, parameters, outputs."""
    with checking():
        found = edit.complete(body.path, body.text, body.offset)
    words = [{**each._asdict(), "text": each.text or each.word} for each in found.words]
    return {**listing("words", words), "start": found.start, "end": found.end}


@router.post("/plans/format", responses=_TEXT)
def fmt(body: Written) -> Json:
    """Give a text in canonical form, as `planrunner fmt` writes it."""
    with checking():
        return _text(body, edit.formatted(body.path, body.text))


@router.post("/plans/fix", responses=_TEXT)
def fix(body: Mending) -> Json:
    """Give a text with the fixes of its findings, as `planrunner lint --fix` writes it."""
    with checking():
        return _text(body, edit.fixed(body.path, body.text, body.which))


@router.get("/plans", responses=shaped("The plans of the project.", "plans"))
def plans(project: HereProject) -> Json:
    """List the plan files of the project."""
    rows = [{"path": os.path.relpath(path, project.root)} for path in plan_paths(project.root)]
    return listing("plans", rows)


@router.post("/plans", status_code=201, responses=shaped("The plan, and its findings.", "path", "digest", status=201))
def create(body: Saved, visitor: Runner, project: HereProject) -> Json:
    """Write a plan. What a token without the scope `admin` writes runs only after a person has trusted it."""
    return _saved(body, visitor, project)


@router.put("/plans", responses=shaped("The plan, and its findings.", "path", "digest"))
def replace(body: Saved, visitor: Runner, project: HereProject) -> Json:
    """Write a plan over the text that was read. A token without the scope `admin` changes no plan that runs as it
    is."""
    return _saved(body, visitor, project)


@router.post("/plans/validate", responses=_FINDINGS)
def validate(body: Text) -> Json:
    """Check a text without writing it."""
    with checking():
        return edit.look_object(edit.look(body.path, body.written()))


@router.post("/plans/preview", responses=_PREVIEW)
def preview(body: Chosen, project: HereProject) -> Json:
    """Show what a run would do: what runs in which order, who is asked, and the worst case."""
    place = plan_of(project, body.path)
    chosen = Choice(tuple(body.params.items()), tuple(body.only), tuple(body.until), body.max_parallel)
    seen = previewed(place, chosen)
    return {**preview_object(body.path, seen), "missing": missing_of(place, seen)}


@router.post("/plans/draft", responses=shaped("The draft, with what it may do.", "plan"))
def draft_plan(body: Goal, visitor: Runner, project: HereProject, drafts: HereDrafts) -> Json:
    """Draft a plan for a goal; nothing runs but the model that writes it."""
    with drafts.turn():
        place = edit.place_of(body.path)
        if body.save and not author(visitor).trusts:
            edit.require_may_replace(body.path)
        made = draft(DraftRequest(body.goal, place, body.model, state=project.state), Silent())
        return _draft_document(made, write_draft(made) if body.save else "")


@router.get("/plans/{path:path}/graph", responses=shaped("Nodes and edges.", "nodes", "edges"))
def graph(project: HereProject, path: Name) -> Json:
    """Show the graph of a plan."""
    return graph_object(drawing(load_plan(plan_of(project, path))))


@router.post("/plans/{path:path}/tasks/{task}/run", status_code=202, responses=shaped("The run.", "run_id", status=202))
def run_task(
    body: Inputs, visitor: Runner, project: HereProject, control: HereControl, path: Name, task: Name, key: Key = ""
) -> Json:
    """Start a run of one task of a plan."""
    request = ExecRequest(plan_of(project, path), tuple(body.inputs.items()), only=(task,))
    return control.start(visitor, project, StartRequest(request, "api", key=key and f"task {key}"))


@router.get(
    "/plans/{path:path}",
    responses=shaped("The text with its digest, and its findings.", "path", "digest"),
    dependencies=[Depends(require_own_address)],
)
def read(path: Name) -> Json:
    """Read a plan file."""
    return _text_object(edit.read_text(path))


def _draft_document(made: Draft, written: str) -> dict[str, Json]:
    powers = None if made.review is None else made.review.summary
    shown = Shown(
        *(made.goal, made.by, made.path, made.source, made.before is None, made.diff, made.findings, powers),
        *(made.reason, made.run_id, written),
    )
    return draft_document(shown, "planrunner")


def _saved(body: Saved, visitor: Visitor, project: HereProject) -> dict[str, Json]:
    trusts, outside = author(visitor)
    return _text_object(edit.save_text(body.path, body.written(), body.digest, outside, trusts))


def _text_object(text: edit.PlanText) -> dict[str, Json]:
    """A plan as it stands in its file, with what lint says of it."""
    seen: dict[str, Json] = {}
    if len(text.text) <= edit.LARGEST:
        seen = edit.look_object(edit.look(text.path, text.text))
    return document_of(text, seen)


def _text(body: Written, text: str) -> dict[str, Json]:
    return document_of({"path": body.path, "text": text, "changed": text != body.text})
