"""A project with a few plans, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planrunner.app.follow.follower import Follower
from planrunner.app.runs.execute import ExecRequest
from planrunner.app.runs.host import Host
from planrunner.caller import Principal, Workspace, acting

PLANS = {
    "quick": """
plan: quick
title: Two quick tasks
tasks:
  - {id: one, run: "true", timeout: 30m}
  - {id: two, needs: [one], run: "echo two", timeout: 30m}
""",
    "asks": """
plan: asks
tasks:
  - {id: before, run: "true", timeout: 30m}
  - {id: sure, needs: [before], gate: approval, ask: "Are you sure?", timeout: 1h}
  - {id: after, needs: [sure], run: "true", timeout: 30m}
""",
    "twice": """
plan: twice
tasks:
  - {id: here, gate: approval, ask: "Here?", timeout: 1h}
  - {id: there, gate: approval, ask: "There?", timeout: 1h}
""",
    "fails": """
plan: fails
tasks:
  - {id: bad, run: "echo no >&2; exit 3", timeout: 30m}
  - {id: never, needs: [bad], run: "true", timeout: 30m}
""",
    "wide": """
plan: wide
tasks:
  - {id: items, foreach: "{{ range(60) }}", uses: noop}
""",
    "nested": """
plan: nested
tasks:
  - id: pages
    foreach: [a, b]
    subplan:
      - {id: try, uses: noop, timeout: 30m}
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    for name, text in PLANS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    (tmp_path / ".git").mkdir()
    with acting(Principal("ana"), Workspace(str(tmp_path))):
        yield tmp_path


@pytest.fixture
def follower(project: Path) -> Iterator[Follower]:
    with Follower(str(project / ".planrunner")) as following:
        yield following


@pytest.fixture
def run(project: Path) -> Callable[..., str]:
    """Runs a plan of the project to where it ends or waits, and gives the id of the run."""

    def running(plan: str, traceparent: str = "") -> str:
        request = ExecRequest(str(project / f"{plan}.yaml"), unattended=True, traceparent=traceparent)
        with Host() as host:
            return host.start(request).result().run_id

    return running
