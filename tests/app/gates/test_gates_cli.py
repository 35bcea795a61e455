"""Gates from the command line, in real processes."""

from __future__ import annotations

import json
import os
import pty
import signal
import sys
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest

PLAN = """
plan: release
defaults: {timeout: 2m}
tasks:
  - {id: build, run: echo built}
  - id: sign
    needs: [build]
    gate: approval
    ask: Release it?
    evidence: [notes.txt]
    KEYS
  - {id: publish, needs: [sign], run: "echo published for {{ tasks.sign.outputs.by }}"}
"""


def release(project: Any, keys: str = "expires: 1d") -> None:
    project.plan(PLAN.replace("KEYS", keys))
    (project.path / "notes.txt").write_text("all is well\n")


def waits(project: Any, keys: str = "expires: 1d") -> str:
    """A run that is parked at its gate; what the gate shows."""
    release(project, keys)
    assert project("exec", "p.yaml").code == 8
    shown: str = project("gates", "--json").data["gates"][0]["shown"]
    return shown


def test_the_way_of_an_approval_from_the_question_to_the_end(project: Any) -> None:
    release(project, "approvers: {roles: [release]}")
    parked = project("exec", "p.yaml")
    assert parked.code == 8
    assert "sign asks: Release it?" in parked.err
    listed = project("gates")
    assert "Release it?" in listed.out
    assert "--shown" in listed.out
    assert "all is well" in project("gates", "last").out
    approved = project("approve", "last", "sign", "--as", "bo", "--role", "release", "--reason", "it is fine")
    assert approved.code == 0
    assert "planrunner resume" in approved.err
    done = project("resume", "last", "--json")
    assert done.code == 0
    outputs = done.data["tasks"]["sign"]["outputs"]
    assert outputs == {"decision": "approved", "by": "bo", "reason": "it is fine", "comment": "it is fine"}
    assert "published for bo" in project("logs", "last", "publish").out
    (vote,) = project.events("gate_voted")
    assert (vote["by"], vote["user"], vote["claimed"], vote["reason"]) == ("bo", "ana", ["release"], "it is fine")
    assert project("gates").out == "nothing waits for people\n"
    why = project("why", "sign").out
    assert "approved by bo: it is fine" in why
    assert vote["shown"] in why
    assert project("replay", "last").code == 0


def test_a_rejected_run_ends_with_code_7(project: Any) -> None:
    waits(project)
    assert project("reject", "last", "sign").code == 2
    rejected = project("reject", "last", "sign", "--reason", "not today", "--resume")
    assert " resume " not in rejected.err.split("resumed: ")[0]  # nothing is left to type
    assert rejected.code == 7
    assert "not today" in rejected.err


def test_a_vote_that_goes_on_shows_as_much_progress_as_is_asked(project: Any) -> None:
    waits(project)
    told = project("approve", "last", "sign", "--resume", "--progress", "quiet")
    assert told.code == 0
    assert " started" not in told.err and "resumed: " not in told.err


def test_an_expired_run_ends_with_code_7(project: Any) -> None:
    waits(project, "expires: 4s")
    time.sleep(4.1)
    late = project("approve", "last", "sign")
    assert (late.code, "expired" in late.err) == (2, True)
    assert project("resume", "last").code == 7


def test_a_check_that_fails_ends_with_code_7(project: Any) -> None:
    project.plan("plan: p\ntasks:\n  - {id: sign, gate: checks, checks: [1 == 2]}\n")
    failed = project("exec", "p.yaml")
    assert failed.code == 7
    assert "1 == 2" in failed.err


def test_one_byte_of_what_was_shown_voids_the_approval(project: Any) -> None:
    shown = waits(project)
    path = project.path / "notes.txt"
    path.write_text("all is wall\n")
    refused = project("approve", "last", "sign", "--shown", shown)
    assert (refused.code, "notes.txt" in refused.err) == (10, True)
    path.write_text("all is well\n")
    assert project("approve", "last", "sign", "--shown", shown).code == 0  # what was shown is there again
    assert len(project.events("gate_reopened")) == 2


def test_evidence_that_could_not_be_read_once_is_looked_at_by_every_vote(project: Any) -> None:
    waits(project)
    path = project.path / "notes.txt"
    path.rename(project.path / "elsewhere")
    assert project("approve", "last", "sign").code == 10
    still = project("approve", "last", "sign")
    assert (still.code, "there is no such file" in still.err) == (2, True)
    (project.path / "elsewhere").rename(path)
    back = project("approve", "last", "sign")
    assert (back.code, "notes.txt" in back.err) == (10, True)  # they see it before it counts
    assert project("approve", "last", "sign").code == 0
    assert project("replay", "last").code == 0


def test_an_approval_of_one_run_is_none_of_another(project: Any) -> None:
    shown = waits(project)
    assert project("exec", "p.yaml").code == 8
    assert project("approve", "last", "sign", "--shown", shown).code == 10


def test_another_policy_of_the_project_voids_the_approval_and_another_list_of_people_does_not(project: Any) -> None:
    shown = waits(project)
    policy = project.path / "planrunner.yaml"
    policy.write_text("policy: {capabilities: {deny: [sql.query]}}\n")
    assert project("approve", "last", "sign", "--shown", shown).code == 10
    policy.write_text("policy: {capabilities: {deny: [sql.query]}}\npeople: {ana: [release]}\n")
    assert project("approve", "last", "sign").code == 0


def test_a_fork_asks_anew_what_was_approved_in_the_other_run(project: Any) -> None:
    waits(project)
    assert project("approve", "last", "sign").code == 0
    forked = project("resume", "last", "--from", "cp-build", "--json")
    assert (forked.code, forked.data["waiting"]) == (8, ["sign"])
    assert project("approve", "last", "sign", "--resume").code == 0
    assert project("replay", "last").code == 0


def test_roles_are_those_the_project_lists(project: Any) -> None:
    (project.path / "planrunner.yaml").write_text("people:\n  bo: [release]\n  cy: [qa]\n")
    waits(project, "approvers: {roles: [release]}")
    assert project("approve", "last", "sign", "--as", "cy", "--role", "release").code == 12
    assert project("approve", "last", "sign", "--as", "bo").code == 0
    (vote,) = project.events("gate_voted")
    assert (vote["roles"], vote["claimed"]) == (["release"], [])


def test_whoever_started_the_run_is_refused(project: Any) -> None:
    waits(project, "approvers: [ana, bo]")
    refused = project("approve", "last", "sign")
    assert (refused.code, "started the run" in refused.err) == (12, True)
    assert project("approve", "last", "sign", USER="bo").code == 0


def test_names_are_found_by_their_end_and_by_patterns_and_mistakes_named(project: Any) -> None:
    project.plan(
        "plan: p\ntasks:\n  - id: each\n    foreach: [a, b, c]\n    subplan:\n      - {id: sign, gate: approval, ask: Fine}\n"
    )
    assert project("exec", "p.yaml").code == 8
    several = project("approve", "last", "sign")
    assert (several.code, "each[1]/sign" in several.err) == (3, True)
    near = project("approve", "last", "each[0]/sing")
    assert (near.code, "did you mean `each[0]/sign`?" in near.err) == (3, True)
    assert project("approve", "last", "each[1]/sign").code == 0
    twice = project("approve", "last", "each[1]/sign")
    assert (twice.code, "decided already" in twice.err) == (2, True)
    rest = project("approve", "last", "each[*]/sign", "--json")
    assert (rest.code, [one["gate"] for one in rest.data]) == (0, ["each[0]/sign", "each[2]/sign"])
    assert project("resume", "last").code == 0


def test_a_form_is_filled_and_read_by_later_tasks(project: Any) -> None:
    project.plan(
        """
plan: p
defaults: {timeout: 2m}
tasks:
  - id: limits
    gate: approval
    ask: How much?
    form: {size: {type: size, required: true}, strict: {type: bool, default: true}}
  - {id: show, needs: [limits], run: "echo {{ tasks.limits.outputs.size }} {{ tasks.limits.outputs.strict }}"}
"""
    )
    assert project("exec", "p.yaml").code == 8
    assert project("approve", "last", "limits").code == 2
    wrong = project("answer", "last", "limits", "-f", "sise=1MB")
    assert (wrong.code, "did you mean `size`?" in wrong.err) == (2, True)
    assert project("answer", "last", "limits", "-f", "size=50MB", "-f", "strict=no", "--resume").code == 0
    assert project("logs", "last", "show").out.strip().lower() == "50mb false"


def test_the_values_of_the_first_answer_are_what_the_others_answer_for(project: Any) -> None:
    release(project, "approvers: {count: 2, starter: true}\n    form: {amount: {type: money, required: true}}")
    assert project("exec", "p.yaml").code == 8
    shown = project("gates", "--json").data["gates"][0]["shown"]
    assert project("answer", "last", "sign", "--as", "ana", "-f", "amount=$10").code == 0
    assert "ana answered amount=$10" in project("gates").out
    (gate,) = project("gates", "--json").data["gates"]
    assert (gate["votes"][0]["fields"], gate["shown"]) == ({"amount": 10}, shown)
    other = project("answer", "last", "sign", "--as", "bob", "-f", "amount=$1000")
    assert (other.code, "ana answered amount=$10: answer the same, or reject" in other.err) == (2, True)
    same = project("answer", "last", "sign", "--as", "bob", "-f", "amount=$10", "--shown", shown, "--resume")
    assert same.code == 0
    assert project("show", "last", "--json").data["tasks"]["sign"]["outputs"]["amount"] == 10


def test_a_vote_reaches_a_run_that_another_process_holds(project: Any) -> None:
    project.plan(
        """
plan: p
defaults: {timeout: 2m}
tasks:
  - {id: sign, gate: approval, ask: Fine}
  - {id: after, needs: [sign], run: echo after}
  - {id: long, run: "while [ ! -e stop ]; do sleep 0.05; done"}
"""
    )
    runner = project.start("exec", "p.yaml", "--json")
    try:
        deadline = time.monotonic() + 240
        while not project("gates", "--json").data["gates"]:
            assert time.monotonic() < deadline
        voted = project("approve", "last", "sign", "--json")
        assert voted.data[0]["held"]
        while project("show", "last", "--json").data["tasks"]["after"]["status"] != "completed":
            assert time.monotonic() < deadline
    finally:
        (project.path / "stop").touch()
        out, _ = runner.communicate(timeout=240)
    assert (runner.returncode, json.loads(out)["status"]) == (0, "completed")
    assert project("replay", "last").code == 0


def test_a_dry_run_takes_gates_as_passed(project: Any) -> None:
    project.plan(
        """
plan: p
policy: {labels: [prod]}
tasks:
  - id: way
    gate: decision
    ask: Which?
    options: [{id: now, to: go}, {id: later, to: wait}]
    form: {size: {type: size, required: true}}
  - {id: go, uses: noop, labels: [prod], with: {value: "{{ tasks.way.outputs.size }}"}}
  - {id: wait, uses: noop}
  - id: sub
    subplan:
      - {id: inner, gate: approval, ask: Fine}
"""
    )
    done = project("exec", "p.yaml", "--dry-run", "--json")
    assert done.code == 0, done.err
    tasks = done.data["tasks"]
    assert (tasks["go"]["status"], tasks["wait"]["status"]) == ("completed", "omitted")
    assert tasks["sub/inner"]["status"] == "completed"


def test_completion_knows_the_gates_that_wait(project: Any) -> None:
    waits(project)
    asked = {"_PLANRUNNER_COMPLETE": "fish_complete", "COMP_WORDS": "planrunner approve last", "COMP_CWORD": ""}
    assert project(**asked).out == "plain,sign\tRelease it?\n"


def test_json_tells_what_the_gates_ask(project: Any) -> None:
    release(project)
    done = project("exec", "p.yaml", "--json")
    (gate,) = done.data["gates"]
    assert (gate["gate"], gate["ask"], gate["need"], gate["votes"]) == ("sign", "Release it?", 1, [])
    assert gate["evidence"][0]["name"] == "notes.txt"
    assert project("show", "last", "--json").data["gates"][0]["shown"] == gate["shown"]


# At a terminal


class AtTerminal:
    """The command at a terminal of its own, answered when it asks."""

    def __init__(self, project: Any, *arguments: str) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(project.path)
            words = [sys.executable, "-m", "planrunner", *arguments]
            os.execve(sys.executable, words, {**project.environment, "TERM": "dumb", "COLUMNS": "100"})
        self.seen = ""

    def until(self, text: str) -> None:
        deadline = time.monotonic() + 240
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if not self._read():
                raise AssertionError(self.seen)

    def _read(self) -> bool:
        if wait([self.terminal], 0.2):
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                return False
            self.seen += data.decode(errors="replace")
            return bool(data)
        return True

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def code(self) -> int:
        deadline = time.monotonic() + 240
        while self._read():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_at_a_terminal_the_question_is_put_and_the_answer_taken(project: Any) -> None:
    release(project)
    shell = AtTerminal(project, "exec", "p.yaml")
    shell.until("approve? [y]es / [n]o / [q] decide later: ")
    assert "all is well" in shell.seen
    shell.type("perhaps\n")
    shell.until("`perhaps` is not an answer: type yes or no")
    shell.until("approve? [y]es / [n]o / [q] decide later: ")
    shell.type("approve\n")
    shell.until("reason: ")
    shell.type("looks good\n")
    assert shell.code() == 0
    assert project("show", "last", "--json").data["tasks"]["sign"]["outputs"]["reason"] == "looks good"
    assert project("replay", "last").code == 0


def test_at_a_terminal_another_process_may_answer_first(project: Any) -> None:
    release(project)
    shell = AtTerminal(project, "exec", "p.yaml")
    shell.until("[q] decide later: ")
    assert project("approve", "last", "sign", USER="bo").code == 0
    assert shell.code() == 0


def test_at_a_terminal_a_form_is_asked_field_by_field(project: Any) -> None:
    form = (
        "{size: {type: size, required: true, description: how big}, n: {type: int, default: 3}, "
        "way: {choices: [up, down], required: false}}"
    )
    release(project, f"form: {form}")
    shell = AtTerminal(project, "exec", "p.yaml")
    shell.until("[q] decide later: ")
    shell.type("yes\n")
    shell.until("size (a size such as 50MB): how big: ")
    shell.type("much\n")
    shell.until("field `size` takes a size such as 50MB, not `much`\r\nsize (a size such as 50MB): how big: ")
    shell.type("\n")
    shell.until("`size` cannot be left empty\r\nsize (")
    shell.type("5MB\n")
    shell.until("n (a whole number) [3]: ")
    shell.type("abc\n")
    shell.until("field `n` takes a whole number, not `abc`\r\nn (a whole number) [3]: ")
    shell.type("\n")
    shell.until("way (one of up, down) [nothing]: ")
    shell.type("left\n")
    shell.until("takes one of up, down, not `left`")
    shell.type("\n")
    shell.until("reason: ")
    shell.type("\n")
    assert shell.code() == 0
    outputs = project("show", "last", "--json").data["tasks"]["sign"]["outputs"]
    assert (outputs["size"], outputs["n"], outputs["way"]) == (5_000_000, 3, None)


@pytest.mark.parametrize(
    ("keys", "people", "why"),
    [
        ("approvers: [bo]", "", "ana may not decide `sign`: it needs bo"),
        ("approvers: {roles: [release]}", "", "it needs role `release`"),
        ("approvers: {roles: [release]}", "people: {ana: [qa]}", "it needs role `release`"),
        ("approvers: [ana, bo]", "", "ana started the run and may not decide `sign`"),
    ],
)
def test_at_a_terminal_nobody_is_asked_who_may_not_decide(project: Any, keys: str, people: str, why: str) -> None:
    if people:
        (project.path / "planrunner.yaml").write_text(people)
    release(project, keys)
    shell = AtTerminal(project, "exec", "p.yaml")
    assert shell.code() == 8
    assert why in shell.seen
    assert "decide later" not in shell.seen
    assert [gate["gate"] for gate in project("gates", "--json").data["gates"]] == ["sign"]


def test_at_a_terminal_whoever_has_the_role_by_the_list_of_the_project_is_asked(project: Any) -> None:
    (project.path / "planrunner.yaml").write_text("people: {ana: [release]}")
    release(project, "approvers: {roles: [release], starter: true}")
    shell = AtTerminal(project, "exec", "p.yaml")
    shell.until("approve? [y]es / [n]o / [q] decide later: ")
    shell.type("yes\n\n")
    assert shell.code() == 0


def test_at_a_terminal_what_one_may_not_decide_does_not_hide_what_one_may(project: Any) -> None:
    release(project, "approvers: [bo]")
    text = (project.path / "p.yaml").read_text()
    project.plan(text + "  - {id: mine, gate: approval, ask: And this}\n")
    shell = AtTerminal(project, "exec", "p.yaml")
    shell.until("And this")
    shell.until("approve? [y]es / [n]o / [q] decide later: ")
    shell.type("yes\n\n")
    assert shell.code() == 8
    assert "ana may not decide `sign`" in shell.seen
    assert [gate["gate"] for gate in project("gates", "--json").data["gates"]] == ["sign"]


def test_at_a_terminal_a_word_from_elsewhere_begins_on_a_line_of_its_own(project: Any) -> None:
    release(project, "approvers: {count: 2, starter: true}")
    shell = AtTerminal(project, "exec", "p.yaml", "--progress", "plain")
    shell.until("[q] decide later: ")
    assert project("approve", "last", "sign", "--as", "bo").code == 0
    shell.until("bo approves sign")
    assert "[q] decide later: \r\n" in shell.seen
    shell.seen = shell.seen.partition("bo approves sign")[2]
    shell.until("approve? [y]es / [n]o / [q] decide later: ")
    assert project("approve", "last", "sign", "--as", "cy").code == 0
    assert shell.code() == 0
    assert "[q] decide later: \r\n" in shell.seen


@pytest.mark.parametrize(("keys", "code"), [("q\n", 8), ("\x04", 8), ("\x03", 130)])
def test_at_a_terminal_one_may_leave_the_gate_waiting(project: Any, keys: str, code: int) -> None:
    release(project)
    shell = AtTerminal(project, "exec", "p.yaml")
    shell.until("[q] decide later: ")
    shell.type(keys)
    assert shell.code() == code
    assert project("gates", "--json").data["gates"]


@pytest.mark.parametrize(
    "arguments", [["exec", "p.yaml", "--no-wait"], ["exec", "p.yaml", "--unattended"], ["--no-input", "exec", "p.yaml"]]
)
def test_at_a_terminal_nobody_is_asked_who_does_not_want_to_be(project: Any, arguments: list[str]) -> None:
    release(project)
    assert AtTerminal(project, *arguments).code() == 8


@pytest.mark.parametrize("command", [["retry", "last"], ["rerun", "last", "build", "--downstream"]])
def test_what_begins_anew_at_a_terminal_asks_as_well_unless_nobody_is_there(project: Any, command: list[str]) -> None:
    waits(project)
    assert project("reject", "last", "sign", "--reason", "not yet", "--resume").code == 7
    assert AtTerminal(project, *command, "--unattended").code() == 8
    assert project("reject", "last", "sign", "--reason", "not yet", "--resume").code == 7
    assert AtTerminal(project, *command, "--no-wait").code() == 8
    assert project("reject", "last", "sign", "--reason", "not yet", "--resume").code == 7
    shell = AtTerminal(project, *command)
    shell.until("approve? [y]es / [n]o / [q] decide later: ")
    shell.type("yes\n\n")
    assert shell.code() == 0


@pytest.mark.parametrize("command", [["exec", "p.yaml"], ["retry", "last"], ["rerun", "last", "build"]])
def test_a_run_that_begins_with_nobody_there_keeps_so_in_its_record(project: Any, command: list[str]) -> None:
    waits(project)
    assert project("reject", "last", "sign", "--reason", "not yet", "--resume").code == 7
    assert project(*command, "--unattended").code == 8
    assert project.events("left_alone")
    assert project("replay", "last").code == 0


def test_the_folder_of_the_plan_is_where_evidence_is_looked_for(project: Any, tmp_path: Path) -> None:
    waits(project)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    project.path = elsewhere
    assert project("approve", "last", "sign").code == 0


# Budgets that are used up

SPENT = """
plan: spent
budgets: {cost: $1, on_exhausted: gate}
defaults: {timeout: 2m}
tasks:
  - {id: one, run: "echo 'cost=$0.55' >> $PLANRUNNER_USAGE", budgets: {cost: $0.60}}
  - {id: two, needs: [one], run: echo two, budgets: {cost: $0.60}}
  - {id: three, needs: [one], run: echo three, budgets: {cost: $0.60}}
"""


def test_a_used_up_budget_waits_among_the_gates_and_names_its_commands(project: Any) -> None:
    project.plan(SPENT)
    done = project("exec", "p.yaml", "--json")
    assert done.code == 8
    (gate,) = done.data["gates"]
    assert (gate["gate"], gate["kind"], gate["what"], gate["tasks"]) == ("budget", "budget", "cost", ["two", "three"])
    assert (gate["least"], gate["more"], gate["limit"]) == (0.15, 0.75, 1.0)
    assert [one["gate"] for one in project("gates", "--json").data["gates"]] == ["budget"]
    listed = project("gates").out
    assert "budget  the cost budget of the plan is too small: $0.60 needed, $0.45 left of $1" in listed
    run = project("show", "last", "--json").data["run_id"]
    approve = f"planrunner approve {run} budget --add cost='$0.75'"
    assert approve in listed
    assert f"planrunner reject {run} budget --reason TEXT" in listed
    assert approve in done.err
    done = project("approve", run, "budget", "--add", "cost=$0.75", "--reason", "worth it", "--resume")
    assert (done.code, project("gates").out) == (0, "nothing waits for people\n")
    assert project("replay", "last").code == 0


@pytest.mark.parametrize("name", ["budget", "two"])
def test_a_rejected_budget_ends_the_run_with_the_code_of_budgets(project: Any, name: str) -> None:
    project.plan(SPENT)
    assert project("exec", "p.yaml").code == 8
    assert project("reject", "last", name, "--reason", "enough", "--as", "bo", "--resume").code == 6
    assert "more was refused by bo: enough" in project("show", "last", "--json").data["tasks"]["two"]["detail"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["approve", "last", "budget"], "say how much is added"),
        (["approve", "last", "budget", "--add", "cost=much"], "is not 'cost=$2'"),
        (["approve", "last", "budget", "--add", "tokens=5"], "has no limit for tokens"),
        (["approve", "last", "budget", "--add", "cost=$1", "--shown", "abcdef"], "shows nothing"),
        (["answer", "last", "budget", "now"], "say how much is added"),
        (["approve", "last", "sign", "--add", "cost=$1"], "`sign` is not a budget"),
    ],
)
def test_what_makes_no_sense_of_a_budget_is_refused(project: Any, arguments: list[str], said: str) -> None:
    project.plan(SPENT + "  - {id: sign, gate: approval, ask: Go on}\n")
    assert project("exec", "p.yaml").code == 8
    done = project(*arguments)
    assert (done.code, said in done.err) == (2, True), done.err


def test_at_a_terminal_more_budget_is_asked_for(project: Any) -> None:
    project.plan(SPENT)
    shell = AtTerminal(project, "exec", "p.yaml")
    shell.until("how much cost to add, such as $0.75, or [n]o / [q] decide later: ")
    shell.type("much\n")
    shell.until("`much` is not an amount of cost")
    shell.type("$0.15\n")
    shell.until("reason: ")
    shell.type("worth it\n")
    shell.until("such as $0.60, or [n]o / [q] decide later: ")
    shell.type("no\n")
    shell.until("reason: ")
    shell.type("enough\n")
    assert shell.code() == 6


def test_at_a_terminal_a_budget_may_be_left_waiting(project: Any) -> None:
    project.plan(SPENT)
    shell = AtTerminal(project, "exec", "p.yaml")
    shell.until("[q] decide later: ")
    shell.type("q\n")
    assert shell.code() == 8
    assert project("gates", "--json").data["gates"]


def test_waiting_for_an_answer_at_a_terminal_spends_no_time(project: Any) -> None:
    release(project, "expires: 1d")
    text = (project.path / "p.yaml").read_text().replace("plan: release", "plan: release\nbudgets: {time: 1h}")
    (project.path / "p.yaml").write_text(text)
    shell = AtTerminal(project, "exec", "p.yaml")
    shell.until("[q] decide later: ")
    time.sleep(2)
    shell.type("yes\n\n")
    assert shell.code() == 0
    (began,), (ended,) = (project.events(kind) for kind in ("run_started", "run_ended"))
    used = project("show", "last", "--json").data["budget"]["time"]["used"]
    assert used < ended["at"] - began["at"] - 1.9
    assert project.events("people_awaited")
