"""A run that goes on under another version of planrunner than it began with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from planrunner import __version__
from planrunner.app.runs import execute as runs
from planrunner.app.runs.execute import SCHEMA, ExecRequest, RunResult, Silent, execute
from planrunner.app.runs.resume import resume
from planrunner.engine import calls
from planrunner.errors import StorageFailed

PLAN = """\
plan: p
tasks:
  - {id: a, uses: noop}
  - {id: ask, needs: [a], gate: approval, ask: is it good}
"""
Begin = Callable[..., str]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Start a run that waits at a gate, as a planrunner would in which names of the engine are others."""

    def begin(**names: object) -> str:
        (tmp_path / "p.yaml").write_text(PLAN)
        with monkeypatch.context() as other:
            for name, value in names.items():
                other.setattr(runs, name, value)
            request = ExecRequest(str(tmp_path / "p.yaml"), state=str(tmp_path / "state"), vouched=True)
            result = execute(request, Silent())
        assert result.status == "blocked"
        return result.run_id

    return begin


def go_on(run: str, tmp_path: Path) -> RunResult:
    return resume(run, (), str(tmp_path / "state"), Silent())


def test_of_the_same_version_goes_on_without_a_word(begin: Begin, tmp_path: Path) -> None:
    assert go_on(begin(), tmp_path).warnings == ()


def test_of_an_older_version_that_decided_alike_goes_on_without_a_word(begin: Begin, tmp_path: Path) -> None:
    assert go_on(begin(__version__="0.0.1"), tmp_path).warnings == ()


def test_of_an_older_version_that_decided_differently_goes_on_with_a_warning(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(__version__="0.0.1")
    monkeypatch.setattr(calls, "digest", lambda call: "other")
    (warning,) = go_on(run, tmp_path).warnings
    assert warning == (
        f"this run began with planrunner 0.0.1; {__version__} decides event 2 differently:"
        f" attempt_started of `a` has another `inputs` (see: planrunner replay {run})"
    )


def test_of_a_newer_version_whose_rules_are_not_known_does_not_go_on(begin: Begin, tmp_path: Path) -> None:
    run = begin(__version__="9.0.0", SCHEMA=SCHEMA + 1)
    with pytest.raises(StorageFailed) as refused:
        go_on(run, tmp_path)
    assert refused.value.message == f"run {run} began with planrunner 9.0.0, whose rules {__version__} does not know"
    assert refused.value.hint == "upgrade planrunner to continue this run; nothing of it has changed"
