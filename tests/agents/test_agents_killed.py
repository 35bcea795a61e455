"""Runs of an agent, killed with SIGKILL at every journal write and resumed: they end the same, nothing that acts is
carried out twice on planrunner's own account, and what was spent is counted."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from bench import EVERY, Bench, sampled
from hurried import every_call_is_answered, last_run
from simulator.crashes import die_at, in_child

from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.app.runs.resume import resume
from planrunner.journal.sqlite import open_journal
from planrunner.testing.scripted_model import Heard

pytest.importorskip("pydantic_ai", reason="the extra `llm` is not installed")

Json = Any
Make = Callable[..., Bench]

PLAN = """
plan: mend
budgets: {cost: $1}
tasks:
  - id: fix
    agent: coder
    prompt: Mend it.
    budgets: {cost: $1}
"""
BEGUN = 4
"""The write that begins the call which acts."""
LOOK = ("files_glob", {"patterns": ["made"]})
ACT = ("shell", {"command": "echo x >> made"})
WRITE = ("files_write", {"path": "note", "content": "once"})


def careful(heard: Heard) -> Json:
    """A model that acts, writes, and where it is told that the end of a call is not known looks before it repeats it."""
    told = [text for role, text in heard.turns if role == "tool"]
    if not told:
        return [LOOK, ACT, WRITE]
    if "(doubt)" in told[-2]:
        return [("shell", {"command": "test -s made || echo x >> made"}), WRITE]
    return "Done."


def killed(bench: Bench, write: int, stored: bool) -> int:
    """The exit code of a run whose process dies at a write; the number of writes that it survived is written down."""

    def told(count: int, _: Any) -> None:
        note.write_text(str(count))

    def work() -> int:
        die_at(write, stored=stored, told=told)
        return execute(ExecRequest("plan.yaml", state=".planrunner", seed=1, vouched=True), Silent()).exit_code

    note = bench.folder / "writes"
    return in_child(work)


def go_on(bench: Bench, *settled: tuple[str, str]) -> int:
    """Resume the run, or begin it where there is none yet."""
    journal = open_journal(str(bench.folder / ".planrunner"))
    runs = journal.runs()
    journal.close()
    if not runs:
        return killed(bench, 0, False)
    return in_child(lambda: resume(runs[0].run, settled, ".planrunner", Silent()).exit_code)


@pytest.mark.limit(900)
def test_killed_at_every_journal_write_it_ends_the_same(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    calm = make(careful)
    calm.write(PLAN)
    monkeypatch.chdir(calm.folder)
    assert killed(calm, 0, False) == 0
    writes, doubts = int((calm.folder / "writes").read_text()), 0
    for write in sampled(range(1, writes + 1), 4):
        for stored in (False, True):
            bench = make(careful)
            bench.write(PLAN)
            monkeypatch.chdir(bench.folder)
            if killed(bench, write, stored) != -signal.SIGKILL:
                continue
            state = last_run(bench.folder)
            if state is None or state.status != "completed":
                assert go_on(bench) == 0, (write, stored)
            ran = last_run(bench.folder)
            assert ran is not None and ran.status == "completed", (write, stored)
            assert ran.task("fix").outcome.outputs["text"] == "Done."
            assert (bench.folder / "made").read_text() == "x\n", (write, stored)
            assert (bench.folder / "note").read_text() == "once"
            every_call_is_answered(bench)
            doubts += any("(doubt)" in heard.said() for heard in bench.model.heard)
            counted = ran.state.ledger.accounts[-1].spent["calls"]
            assert 0 <= len(bench.model.heard) - counted <= (not stored), (write, stored)
    assert doubts or not EVERY


@pytest.mark.parametrize(
    ("on_doubt", "code", "made"), [("ask", 8, ""), ("retry", 0, "x\n"), ("fail", 0, "x\n"), (None, 0, "x\n")]
)
def test_a_call_that_was_cut_off_is_settled_as_the_task_says(
    make: Make, monkeypatch: pytest.MonkeyPatch, on_doubt: str | None, code: int, made: str
) -> None:
    bench = make(careful)
    bench.write(PLAN + (f"    on_doubt: {on_doubt}\n" if on_doubt else ""))
    assert "PLAN021" not in bench.call("lint", "plan.yaml").stdout
    monkeypatch.chdir(bench.folder)
    script = bench.folder / "made"
    assert killed(bench, BEGUN, True) == -signal.SIGKILL
    script.unlink(missing_ok=True)
    assert go_on(bench) == code
    assert (script.read_text() if script.exists() else "") == made
    assert any("(doubt)" in heard.said() for heard in bench.model.heard) is (on_doubt in ("fail", None))
    if code:
        assert go_on(bench, ("fix#2/calls[1]", "failed")) == 0
        assert "its end was settled" in bench.model.heard[-1].said()


@pytest.mark.parametrize("write", [1, 2, 3, 4])
def test_a_check_that_was_cut_off_is_made_again_after_the_next_answer(
    make: Make, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    bench = make(["Done."])
    bench.write(PLAN + "    until: {run: 'echo looked >> looks'}\n")
    monkeypatch.chdir(bench.folder)
    code = killed(bench, write, True)
    if code == -signal.SIGKILL:
        ran = last_run(bench.folder)
        assert ran is not None
        code = 0 if ran.status == "completed" else go_on(bench)
    assert code == 0
    ran = last_run(bench.folder)
    assert ran is not None and ran.task("fix").outcome.outputs["text"] == "Done."
    if ran.task("fix").outcome.outputs["rounds"] == 2:
        assert "whether it took effect is not known" in bench.model.heard[-1].said()
