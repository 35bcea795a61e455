"""Lists of runs as programs read them."""

from __future__ import annotations

from typing import Any

from planrunner.app.follow.summaries import Page
from planrunner.app.follow.summary import summary_object
from planrunner.views.documents import listing

Json = Any


def page_document(page: Page, counts: dict[str, int]) -> dict[str, Json]:
    """A page of a list; ``after`` asks for the next one, null after the last. ``counts`` are of all runs."""
    return listing("runs", map(summary_object, page.runs), after=page.after, newest=page.newest, counts=counts)
