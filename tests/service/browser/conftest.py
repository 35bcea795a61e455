"""A browser, a service with a project to look at, and pages that tell of every fault of their scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import chromium
import pytest
from browsing import PLANS, Shop
from playwright.sync_api import Browser, BrowserContext, Page
from serving import serving


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    with chromium.browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A service with a project on which something has happened."""
    folder = tmp_path_factory.mktemp("work") / "shopfront"
    (folder / "plans").mkdir(parents=True)
    (folder / "planrunner.yaml").write_text(
        "scheduler: {max_concurrency: 8}\n"
        "triggers:\n  nightly: {cron: '0 22 * * 1-5', timezone: Europe/Berlin, plan: plans/smoke.yaml}\n"
    )
    for name, text in PLANS.items():
        (folder / "plans" / f"{name}.yaml").write_text(text.lstrip())
    with serving(folder) as served:
        runs = {
            "asks": served.start("plans/release.yaml"),
            "way": served.start("plans/price-import.yaml"),
            "failed": served.start("plans/smoke.yaml"),
            "fine": served.start("plans/smoke.yaml", params={"fail": False}),
        }
        for run in runs.values():
            served.settled(run)
        yield Shop(served, **runs)


@pytest.fixture
def visit(browser: Browser, shop: Shop) -> Iterator[Callable[..., Page]]:
    """Opens pages of the project: ``visit(path, dark=True, phone=True, script=False)``. What a script does wrong fails
    the test at its end."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def opened(path: str, *, dark: bool = False, phone: bool = False, script: bool = True) -> Page:
        context = chromium.context(
            browser,
            viewport={"width": 390, "height": 800} if phone else {"width": 1280, "height": 800},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
        page.on(
            "console",
            lambda said: (
                faults.append(f"{page.url}: {said.text}")
                if said.type == "error" and "Failed to load resource" not in said.text
                else None
            ),
        )
        page.goto(f"{shop.address}/{path}" if not path.startswith("/") else f"{shop.served.address}{path}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not faults
