"""What an editor of plans asks for: completion, formatting, fixes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from planrunner.app.plans import edit
from planrunner.service.api.answers import Answer, Body, api_router, shaped
from planrunner.service.context import HereProject, HereVisitor, behalf
from planrunner.service.plans import checking
from planrunner.views.documents import document_of, listing

Json = Any

router = api_router("plans")

_TEXT = shaped("The text.", "text", "changed")


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
def complete(body: Cursor, visitor: HereVisitor, project: HereProject) -> Answer:
    """Say what may be written at a place of a text: keys, values, capabilities, tasks, parameters, outputs."""
    with behalf(visitor, project), checking():
        found = edit.complete(body.path, body.text, body.offset)
    words = [{**each._asdict(), "text": each.text or each.word} for each in found.words]
    return Answer({**listing("words", words), "start": found.start, "end": found.end})


@router.post("/plans/format", responses=_TEXT)
def fmt(body: Written, visitor: HereVisitor, project: HereProject) -> Answer:
    """Give a text in canonical form, as `planrunner fmt` writes it."""
    with behalf(visitor, project), checking():
        return Answer(_text(body, edit.formatted(body.path, body.text)))


@router.post("/plans/fix", responses=_TEXT)
def fix(body: Mending, visitor: HereVisitor, project: HereProject) -> Answer:
    """Give a text with the fixes of its findings, as `planrunner lint --fix` writes it."""
    with behalf(visitor, project), checking():
        return Answer(_text(body, edit.fixed(body.path, body.text, body.which)))


def _text(body: Written, text: str) -> dict[str, Json]:
    return document_of({"path": body.path, "text": text, "changed": text != body.text})
