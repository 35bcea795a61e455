"""What tests of the pages in a browser share: a project to look at, and pictures for the documentation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page
from serving import Served

RELEASE = """
plan: release
title: Release shopfront
description: Check, build and publish a version of the shop.
params:
  version: {type: string, default: 2.4.0, description: what is released}
budgets: {time: 1h, attempts: 60}
defaults: {timeout: 1m}
tasks:
  - {id: lint, run: echo checked}
  - id: unit
    foreach: [carts, prices, stock]
    run: "echo {{ item }}: 812 passed"
  - id: flaky
    run: test -e flaky.txt || { touch flaky.txt; echo deadlock detected >&2; exit 1; }
    retry: {attempts: 3, delay: 50ms}
  - {id: build, needs: [lint, unit, flaky], run: "echo shopfront:{{ params.version }} > image.txt; cat image.txt"}
  - id: notes
    needs: [build]
    run: |
      printf '# shopfront {{ params.version }}\\n\\n- Cart totals round half up\\n- Prices are cached {{ rework.comment }}\\n' | tee notes.md
  - {id: scan, needs: [build], run: "echo '{\\"critical\\": 0, \\"high\\": 1}' | tee scan.json"}
  - id: sign-off
    needs: [notes, scan]
    gate: approval
    ask: "Release shopfront {{ params.version }} to production?"
    evidence: [notes.md, scan.json]
    expires: 1d
    on_reject: {rework: notes, max: 2}
  - {id: tag, needs: [sign-off], run: "echo v{{ params.version }} > tag.txt", rollback: {run: rm tag.txt}}
  - {id: deploy, needs: [tag], run: echo deployed, irreversible: true}
  - {id: announce, needs: [deploy], run: echo announced}
"""

SMOKE = """
plan: smoke
title: Smoke test
params: {fail: {type: bool, default: true, description: whether it fails}}
defaults: {timeout: 1m}
tasks:
  - {id: start, run: echo started}
  - {id: check, needs: [start], run: "echo '1 of 3 checks failed' >&2; test {{ params.fail }} != true"}
  - {id: report, needs: [check], run: echo fine}
"""

WAY = """
plan: price-import
title: Import supplier prices
defaults: {timeout: 1m}
hypotheses:
  slow: {statement: The supplier is slow, prior: 40%}
tasks:
  - id: measure
    run: printf '{"seconds":9}'
    stdout: json
    outputs: {seconds: int}
    evidence: [{hypothesis: slow, supports: outputs.seconds > 5, weight: strong}]
  - id: way
    needs: [measure]
    gate: decision
    ask: Publish now, or after the holidays?
    options:
      - {id: now, title: At once, pros: [no waiting], cons: [nobody is there if it breaks], cost: $5, to: publish}
      - {id: later, title: After the holidays, pros: [everybody is back], to: note}
    form:
      size: {type: size, default: 10MB, description: the largest file to publish}
  - {id: publish, needs: [way], run: echo published}
  - {id: note, needs: [way], run: echo noted}
"""

HOSTILE = """
plan: hostile
title: "<script>document.title='taken'</script>"
params: {word: {type: string, default: "\\"><img src=x onerror=document.title='taken'>"}}
defaults: {timeout: 1m}
tasks:
  - {id: says, title: "</script><script>document.title='taken'</script>", run: "echo '<b onclick=x>'"}
  - {id: asks, needs: [says], gate: approval, ask: "<script>document.title='taken'</script>&amp;", evidence: [{text: "{{ params.word }}"}]}
"""

PLANS = {"release": RELEASE, "smoke": SMOKE, "price-import": WAY, "hostile": HOSTILE}


class Shop(NamedTuple):
    """A served project, and runs of it by what became of them: ``asks`` waits for an approval, ``way`` for a decision."""

    served: Served
    asks: str
    way: str
    failed: str
    fine: str

    @property
    def address(self) -> str:
        return f"{self.served.address}/{self.served.project}"


UPDATE = bool(os.environ.get("PLANRUNNER_UPDATE_PICTURES"))  # read here: tests do not see the caller's settings
PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def picture(page: Page, name: str) -> None:
    """Keep what the page looks like as a picture of the documentation, where ``PLANRUNNER_UPDATE_PICTURES`` is set; else
    only make sure that there is one."""
    kept = PICTURES / f"page-{name}.png"
    if UPDATE:
        page.set_viewport_size({"width": 1180, "height": 700})
        page.evaluate("document.activeElement?.blur()")
        page.screenshot(path=kept)
    assert kept.is_file()
    assert kept.stat().st_size < 180_000
