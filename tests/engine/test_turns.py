"""What was decided together is recorded by the number of its turn."""

from __future__ import annotations

from pathlib import Path

from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.journal.stores import open_journal
from planrunner.machine.checkpoints import rest_after
from planrunner.machine.events import AttemptEnded, AttemptStarted, TaskSettled

PLAN = """\
plan: p
tasks:
  - {id: a, uses: noop}
  - {id: b, uses: noop, needs: [a]}
"""


def test_an_outcome_shares_its_turn_with_what_was_decided_on_it(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PLAN)
    result = execute(ExecRequest(str(tmp_path / "p.yaml"), state=str(tmp_path / "state"), vouched=True), Silent())
    journal = open_journal(result.state_dir, readonly=True)
    entries = list(journal.entries(result.run_id))
    journal.close()
    ended = next(entry for entry in entries if isinstance(entry.event, AttemptEnded))
    turn = [entry for entry in entries if entry.shares_turn(ended)]
    assert [type(entry.event) for entry in turn] == [AttemptEnded, TaskSettled, AttemptStarted]
    assert turn[0].turn == turn[0].seq
    assert rest_after(entries, ended.seq) == turn[-1].seq
