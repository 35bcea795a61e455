"""Forms of the page: read within limits, and only where a page made for the same visitor sent them."""

from __future__ import annotations

import hmac
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, Request

from planrunner.service.context import HereVisitor
from planrunner.service.problems import Problem

FIELDS = 1000
"""Fields that a form may have."""


class Form(dict[str, str]):
    """The fields of a form by name; of fields with the same name the last one. ``every`` has all of a name."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        super().__init__(fields)
        self._fields = fields

    def every(self, name: str) -> list[str]:
        """The values of a field, in their order."""
        return [value for key, value in self._fields if key == name]


async def the_form(request: Request, visitor: HereVisitor) -> Form:
    """The form that was sent, as ``application/x-www-form-urlencoded``. Raises Problem 415 for any other body, 400
    for one that cannot be read, and 403 where the field ``form`` is not the token of the visitor (``Frame.token``)."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem(415, f"a form was expected, not `{kind or 'nothing'}`")
    try:
        text = (await request.body()).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError as error:
        raise Problem(400, f"the form cannot be read: {error}") from None
    form = Form(pairs)
    if not visitor.form or not hmac.compare_digest(form.get("form", "").encode(), visitor.form.encode()):
        raise Problem(403, "this form was not made for you, or you have signed in again since", "load the page again")
    return form


HereForm = Annotated[Form, Depends(the_form)]
"""The form that was sent, checked."""
