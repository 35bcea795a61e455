"""A headless Chromium for the tests of pages, and what axe finds wrong with them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

PATIENCE = 240_000
"""Milliseconds after which something is taken to hang; a busy machine draws a page in many times the usual time."""


@contextmanager
def browser() -> Iterator[Any]:
    """A browser; skips where there is none. While it is open, an event loop runs in this thread: whoever opens it for
    longer than a module keeps the tests after it from ``asyncio.run``."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium here: the pages are not looked at")
    api.expect.set_options(timeout=PATIENCE)
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield opened
        finally:
            opened.close()


def context(chromium: Any, **how: Any) -> Any:
    """Where pages are opened that share nothing with others."""
    made = chromium.new_context(**{"viewport": {"width": 1360, "height": 900}, **how})
    made.set_default_timeout(PATIENCE)
    return made


def opened(chromium: Any, url: str, **how: Any) -> Any:
    """A page of a context of its own."""
    page = context(chromium, **how).new_page()
    page.goto(url)
    return page


def faults(page: Any) -> list[str]:
    """What axe finds in the light, in the dark and on a phone, where nothing scrolls sideways either."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    found = violations(page)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    found += violations(page)
    page.set_viewport_size({"width": 390, "height": 844})
    found += violations(page)
    wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [*found, *([f"{wider} pixels wider than a phone"] if wider > 0 else [])]


def violations(page: Any) -> list[str]:
    """The rule and the first place of each fault."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}" for each in found]
