"""Gates in the machine: who decides, when, and what follows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from simulator.gates import GateRun
from simulator.runs import RUN_ID
from workbench import plan

from planrunner.engine.replay import replay
from planrunner.machine.events import GateDecided, GateEscalated, GateOpened, GateRequested, Outcome
from planrunner.machine.explain import why
from planrunner.machine.questions import questions
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source


def approval(**keys: Any) -> dict[str, Any]:
    return {"id": "sign", "gate": "approval", "ask": "Go on?", **keys}


AFTER = {"id": "after", "uses": "noop", "needs": ["sign"]}


def replays(run: GateRun) -> None:
    assert replay(run.plan, RUN_ID, run.entries).difference is None


def test_a_gate_waits_while_other_branches_go_on_and_the_run_parks() -> None:
    run = GateRun(plan(approval(), AFTER, {"id": "side", "uses": "noop"}))
    assert run.statuses() == {"sign": "blocked", "after": "pending", "side": "completed"}
    assert (run.state.status, run.state.reason) == ("blocked", "waiting")


def test_an_approval_lets_the_run_go_on_and_tells_who_gave_it() -> None:
    run = GateRun(plan(approval(), AFTER))
    assert run.vote("sign", reason="fine").applied
    run.resume()
    assert run.statuses() == {"sign": "completed", "after": "completed"}
    assert run.outputs("sign") == {"decision": "approved", "by": "bo", "reason": "fine", "comment": "fine"}
    replays(run)


def test_a_rejection_fails_the_gate_with_its_own_class() -> None:
    run = GateRun(plan(approval(), AFTER))
    run.vote("sign", "reject", reason="not yet")
    run.resume()
    found = run.state.tasks[0]
    assert (found.status, found.failure, run.statuses()["after"]) == ("failed", "rejected", "omitted")
    assert "bo: not yet" in found.detail
    replays(run)


@pytest.mark.parametrize("stage", ["gate", "label", "precondition", "holder"])
def test_a_gate_that_a_failure_cancels_while_it_asks_was_not_answered(stage: str) -> None:
    asks = {
        "gate": approval(),
        "label": {"id": "sign", "run": "x", "labels": ["risky"]},
        "precondition": {"id": "sign", "run": "x", "preconditions": ["the house is empty"]},
        "holder": {"id": "in", "subplan": [approval()]},
    }
    gated = {"policy": {"gates": {"risky": {"gate": "approval", "ask": "Go on?"}}}} if stage == "label" else {}
    failing = {"id": "bad", "run": "x"}
    later = {"id": "later", "needs": ["bad"], "run": "x", "allow_failure": True}
    made = plan(asks[stage], failing, later, defaults={"timeout": "1h"}, **gated)
    run = GateRun(made, {"bad": [Outcome("logic", "no", duration=5.0)]})
    name = "in/sign" if stage == "holder" else "sign"
    detail = run.state.tasks[run.state.index[name]].detail
    assert detail.startswith("not answered: `bad` failed")
    lines = why(run.state, name)
    assert any(line.startswith("its gate asked: ") for line in lines)
    assert not any("not started" in line for line in lines)
    replays(run)


def test_a_task_that_a_failure_keeps_from_its_next_attempt_was_not_tried_again() -> None:
    again = {"id": "again", "run": "x", "retry": {"attempts": 3, "delay": "1h"}}
    failed = {"again": [Outcome("transient", "no", duration=1.0)], "bad": [Outcome("logic", "no", duration=5.0)]}
    run = GateRun(plan(again, {"id": "bad", "run": "x"}), failed)
    assert run.state.tasks[0].detail.startswith("not tried again: `bad` failed")


def test_a_rejection_starts_the_task_that_the_plan_names() -> None:
    run = GateRun(plan(approval(on_reject="explain"), {"id": "explain", "uses": "noop"}, AFTER))
    run.vote("sign", "reject", reason="no")
    run.resume()
    assert run.statuses() == {"sign": "failed", "explain": "completed", "after": "omitted"}


def test_a_rejection_sends_the_run_back_with_the_comment_until_its_rounds_are_used_up() -> None:
    draft = {"id": "draft", "uses": "noop", "with": {"value": "{{ rework.comment }}"}}
    run = GateRun(plan(draft, approval(needs=["draft"], on_reject={"rework": "draft", "max": 1}), AFTER))
    run.vote("sign", "reject", reason="shorter")
    run.resume()
    assert run.statuses() == {"draft": "completed", "sign": "blocked", "after": "pending"}
    assert run.state.tasks[0].outcome is not None
    assert run.state.tasks[1].visit == 2
    assert not run.vote("sign", "reject", reason="again", rework=True).applied
    assert run.vote("sign", "reject", reason="again").applied
    run.resume()
    assert run.statuses()["sign"] == "failed"
    replays(run)


def test_an_approval_sends_the_run_back_by_an_edge_that_leads_back_from_success() -> None:
    back = [{"on": "success", "rework": "draft", "max": 1}]
    run = GateRun(plan({"id": "draft", "uses": "noop"}, approval(needs=["draft"], next=back), AFTER))
    run.vote("sign")
    run.resume()
    assert (run.statuses()["sign"], run.state.tasks[1].visit) == ("blocked", 2)
    run.vote("sign")
    run.resume()
    assert run.statuses() == {"draft": "completed", "sign": "completed", "after": "completed"}
    replays(run)


def test_a_vote_for_an_earlier_visit_counts_for_nothing() -> None:
    draft = {"id": "draft", "uses": "noop"}
    run = GateRun(plan(draft, approval(needs=["draft"], on_reject={"rework": "draft", "max": 3})))
    before = run.shown("sign")
    run.vote("sign", "reject", reason="shorter")
    run.resume()
    stale = run.vote("sign", shown=before)
    assert (stale.applied, stale.code) == (False, 10)
    assert run.vote("sign", shown=run.shown("sign")[:12]).applied


@pytest.mark.parametrize(
    ("by", "roles", "code"), [("bo", ["release"], 0), ("bo", ["qa"], 12), ("bo", [], 12), ("cy", [], 0)]
)
def test_only_those_with_a_role_or_named_may_decide(by: str, roles: list[str], code: int) -> None:
    run = GateRun(plan(approval(approvers={"roles": ["release"], "users": ["cy"]})))
    assert run.vote("sign", by=by, roles=roles).code == code


def test_whoever_started_the_run_may_not_decide_unless_the_plan_says_so() -> None:
    named = {"users": ["ana", "bo"]}
    assert GateRun(plan(approval(approvers=named))).vote("sign", by="ana").code == 12
    assert GateRun(plan(approval(approvers={**named, "starter": True}))).vote("sign", by="ana").applied


def test_as_many_votes_as_the_plan_wants_each_from_another_person() -> None:
    run = GateRun(plan(approval(approvers={"users": ["bo", "cy", "di"], "count": 2})))
    assert run.vote("sign", by="bo").applied
    assert not run.vote("sign", by="bo").applied
    assert run.resume().statuses()["sign"] == "blocked"
    assert run.vote("sign", by="cy").applied
    late = run.vote("sign", by="di")
    assert not late.applied
    assert "decided already" in late.message
    run.resume()
    assert run.outputs("sign")["by"] == "bo, cy"
    replays(run)


def test_one_rejection_outweighs_approvals_that_are_not_enough() -> None:
    run = GateRun(plan(approval(approvers={"users": ["bo", "cy", "di"], "count": 3})))
    run.vote("sign", by="bo")
    run.vote("sign", "reject", by="cy", reason="no")
    assert not run.vote("sign", by="di").applied
    assert run.resume().statuses()["sign"] == "failed"


@pytest.mark.parametrize(("on_expiry", "failure"), [("reject", "rejected"), ("fail", "expired"), (None, "rejected")])
def test_a_gate_that_nobody_decides_in_time_is_never_approved(on_expiry: str | None, failure: str) -> None:
    keys = {"on_expiry": on_expiry} if on_expiry else {}
    run = GateRun(plan(approval(expires="1h", **keys), AFTER))
    assert run.later(3599).resume().statuses()["sign"] == "blocked"
    run.later(2)
    assert not run.vote("sign").applied
    run.resume()
    assert (run.state.tasks[0].status, run.state.tasks[0].failure) == ("failed", failure)
    replays(run)


def test_a_gate_that_expired_asks_others_for_as_long_again() -> None:
    escalate = {"users": ["boss"]}
    keys = {"approvers": ["bo"], "expires": "1h", "on_expiry": "escalate", "escalate": escalate}
    run = GateRun(plan(approval(**keys)))
    run.later(3601).resume()
    assert any(isinstance(entry.event, GateEscalated) for entry in run.entries)
    (asked,) = questions(run.state, run.now)
    assert asked.reason_not_allowed("bo", []) == run.vote("sign", by="bo").message
    assert not asked.reason_not_allowed("boss", [])
    assert run.vote("sign", by="bo").code == 12
    assert run.later(3000).vote("sign", by="boss").applied
    assert run.resume().statuses()["sign"] == "completed"
    replays(run)


def test_escalation_happens_once() -> None:
    keys = {"approvers": ["bo"], "expires": "1h", "on_expiry": "escalate", "escalate": {"users": ["boss"]}}
    run = GateRun(plan(approval(**keys)))
    run.later(3601).resume()
    run.later(3601).resume()
    assert run.statuses()["sign"] == "failed"


def test_checks_alone_decide_and_say_which_one_failed_with_its_values() -> None:
    first = {"id": "first", "uses": "noop", "with": {"value": 3}}
    good = {"id": "sign", "needs": ["first"], "gate": "checks", "checks": ["tasks.first.outputs.value < 5"]}
    outcome = {"first": [Outcome(outputs={"value": 3})]}
    run = GateRun(plan(first, good), outcome)
    assert run.statuses()["sign"] == "completed"
    bad = GateRun(plan(first, {**good, "checks": ["tasks.first.outputs.value < 2"]}), outcome)
    assert bad.statuses()["sign"] == "failed"
    assert "3" in bad.state.tasks[1].detail
    assert "value < 2" in bad.state.tasks[1].detail


def test_a_check_that_has_no_value_fails_closed() -> None:
    skipped = {"id": "first", "uses": "noop", "when": "false"}
    gate = {
        "id": "sign",
        "needs": ["first"],
        "join": "always",
        "gate": "checks",
        "checks": ["tasks.first.outputs.value < 5"],
    }
    assert GateRun(plan(skipped, gate)).statuses()["sign"] == "failed"


def test_people_are_not_asked_where_a_check_fails() -> None:
    gate = approval(checks=["1 == 2"])
    run = GateRun(plan(gate))
    assert run.statuses()["sign"] == "failed"
    assert not any(isinstance(entry.event, GateOpened) for entry in run.entries)


def test_checks_in_plain_words_are_put_to_people() -> None:
    run = GateRun(plan({"id": "sign", "gate": "checks", "checks": [{"judge": "it reads well"}]}))
    assert run.statuses()["sign"] == "blocked"
    run.vote("sign")
    assert run.resume().statuses()["sign"] == "completed"


def test_a_failing_check_can_send_back_like_a_person() -> None:
    first = {"id": "first", "uses": "noop"}
    gate = {
        "id": "sign",
        "needs": ["first"],
        "gate": "checks",
        "checks": ["tasks.first.outputs.value == 2"],
        "on_reject": {"rework": "first", "max": 2},
    }
    run = GateRun(plan(first, gate), {"first": [Outcome(outputs={"value": 1}), Outcome(outputs={"value": 2})]})
    assert run.statuses() == {"first": "completed", "sign": "completed"}
    assert run.state.tasks[0].attempts == 2


def test_evidence_with_a_problem_keeps_the_gate_closed() -> None:
    problem = ({"kind": "file", "name": "x", "digest": "", "problem": "x: there is no such file"},)
    run = GateRun(plan(approval(evidence=["x"])), evidence=lambda effect: problem)
    assert run.statuses()["sign"] == "failed"
    assert "there is no such file" in run.state.tasks[0].detail


def test_criteria_in_words_wait_for_a_person_who_judges() -> None:
    work = {"id": "work", "uses": "noop", "expect": [{"judge": "backwards compatible"}]}
    after = {"id": "after", "uses": "noop", "needs": ["work"]}
    run = GateRun(plan(work, after))
    assert run.state.tasks[0].reason == "words"
    assert "backwards compatible" in run.state.tasks[0].detail
    run.vote("work")
    assert run.resume().statuses() == {"work": "completed", "after": "completed"}
    assert run.state.tasks[0].attempts == 1
    other = GateRun(plan({**work, "retry": 3}, after))
    other.vote("work", "reject", reason="it breaks the old clients")
    assert other.resume().statuses() == {"work": "failed", "after": "omitted"}
    assert (other.state.tasks[0].attempts, other.state.tasks[0].failure) == (1, "rejected")
    replays(run)
    replays(other)


def test_preconditions_in_words_wait_before_the_first_attempt() -> None:
    run = GateRun(plan({"id": "work", "uses": "noop", "preconditions": [{"judge": "the crew is there"}]}))
    assert (run.state.tasks[0].status, run.state.tasks[0].attempts) == ("blocked", 0)
    run.vote("work")
    assert run.resume().statuses()["work"] == "completed"
    replays(run)


GATED: dict[str, Any] = {"policy": {"gates": {"prod": {"approvers": {"roles": ["release"]}}}}}


def test_a_label_demands_a_gate_before_the_first_attempt_of_each_visit() -> None:
    deploy = {"id": "deploy", "uses": "noop", "labels": ["prod"], "retry": 2}
    failing = {"deploy": [Outcome("transient", "try again", duration=1.0), Outcome()]}
    run = GateRun(plan(deploy, **GATED), failing)
    assert (run.state.tasks[0].status, run.state.tasks[0].attempts) == ("blocked", 0)
    assert run.vote("deploy").code == 12
    assert run.vote("deploy", roles=["release"]).applied
    run.resume()
    assert (run.state.tasks[0].status, run.state.tasks[0].attempts) == ("completed", 2)
    assert sum(isinstance(entry.event, GateOpened) for entry in run.entries) == 1
    replays(run)


def test_a_gate_of_a_label_shows_the_call_that_it_allows() -> None:
    deploy = {"id": "deploy", "run": "deploy --to {{ params.place }}", "labels": ["prod"]}
    run = GateRun(plan(deploy, params={"place": "moon"}, **GATED), traits={}, params={"place": "moon"})
    requested = next(entry.event for entry in run.entries if isinstance(entry.event, GateRequested))
    assert "moon" in str(requested.request["inputs"])


def test_a_task_with_such_a_label_that_is_refused_never_starts() -> None:
    run = GateRun(plan({"id": "deploy", "uses": "noop", "labels": ["prod"]}, policy={"labels": ["prod"]}))
    run.vote("deploy", "reject", reason="freeze")
    run.resume()
    assert (run.state.tasks[0].status, run.state.tasks[0].attempts) == ("failed", 0)


def decision(**keys: Any) -> dict[str, Any]:
    options = [{"id": "now", "to": "go"}, {"id": "later", "to": "wait"}]
    return {"id": "sign", "gate": "decision", "ask": "When?", "options": options, **keys}


BRANCHES = ({"id": "go", "uses": "noop"}, {"id": "wait", "uses": "noop"})


def test_a_decision_leads_to_the_task_of_the_option() -> None:
    run = GateRun(plan(decision(), *BRANCHES))
    assert not run.vote("sign").applied
    assert "did you mean `later`?" in run.vote("sign", choice="latr").message
    assert run.vote("sign", choice="later").applied
    run.resume()
    assert run.statuses() == {"sign": "completed", "go": "omitted", "wait": "completed"}
    assert run.outputs("sign")["choice"] == "later"


def test_why_tells_when_a_gate_expires_as_a_date() -> None:
    run = GateRun(plan(approval(expires="1h"), AFTER))
    (line,) = [line for line in why(run.state, "sign") if "expires" in line]
    assert re.fullmatch(r"  it expires at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line)


def test_why_tells_how_many_votes_are_needed_from_whom_and_who_gave_one() -> None:
    run = GateRun(plan(approval(approvers={"roles": ["qa"], "count": 2}), AFTER))
    assert "  needs 2 votes from the role qa, except the person who started the run" in why(run.state, "sign")
    run.vote("sign", by="bo", roles=("qa",), verdict="reject", reason="too early")
    assert "  bo (qa, claimed) rejected: too early" in why(run.resume().state, "sign")
    alone = GateRun(plan(approval(), AFTER))
    assert any(line.startswith("  needs 1 vote from anyone") for line in why(alone.state, "sign"))


def test_votes_for_different_options_do_not_add_up() -> None:
    run = GateRun(plan(decision(approvers={"users": ["bo", "cy", "di"], "count": 2}), *BRANCHES))
    run.vote("sign", by="bo", choice="now")
    run.vote("sign", by="cy", choice="later")
    assert run.resume().statuses()["sign"] == "blocked"
    run.vote("sign", by="di", choice="later")
    run.resume()
    assert (run.outputs("sign")["choice"], run.outputs("sign")["by"]) == ("later", "cy, di")


def test_votes_that_are_split_can_be_changed() -> None:
    run = GateRun(plan(decision(approvers={"users": ["bo", "cy"], "count": 2}), *BRANCHES))
    assert run.vote("sign", by="bo", choice="now").message == "bo approves `sign`: 1 of 2 votes (now 1)"
    assert run.vote("sign", by="cy", choice="later").message == "cy approves `sign`: 1 of 2 votes (now 1, later 1)"
    assert run.vote("sign", by="cy", choice="later").message == "cy has voted already; 1 of 2 votes (now 1, later 1)"
    assert run.vote("sign", by="bo", choice="later").applied
    run.resume()
    assert (run.outputs("sign")["choice"], run.outputs("sign")["by"]) == ("later", "cy, bo")
    replays(run)


def test_a_changed_vote_counts_once_and_its_values_too() -> None:
    form = {"n": {"type": "int", "required": True}}
    run = GateRun(plan(approval(form=form, approvers={"users": ["bo", "cy", "di"], "count": 2})))
    run.vote("sign", by="bo", fields={"n": "1"})
    assert run.vote("sign", by="bo", fields={"n": "2"}).message == "bo changes their vote on `sign`: 1 of 2 approvals"
    assert "answer the same" in run.vote("sign", by="cy", fields={"n": "1"}).message
    assert run.vote("sign", by="cy", fields={"n": "2"}).applied
    run.resume()
    assert run.outputs("sign")["n"] == 2


FORM = {
    "size": {"type": "size", "required": True},
    "strict": {"type": "bool", "default": True},
    "n": {"choices": [1, 2], "required": False},
}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "field `size` is required: -f size=VALUE"),
        ({"size": "much"}, "field `size` takes a size such as 50MB, not `much`"),
        ({"size": "5MB", "strcit": "no"}, "the form has no field `strcit`; did you mean `strict`?"),
        ({"size": "5MB", "strict": "perhaps"}, "field `strict` takes true or false"),
        ({"size": "5MB", "n": "3"}, "field `n` takes one of 1, 2"),
    ],
)
def test_answers_are_checked_by_the_form(fields: dict[str, str], message: str) -> None:
    found = GateRun(plan(approval(form=FORM))).vote("sign", fields=fields)
    assert not found.applied
    assert message in found.message


def test_answers_become_typed_outputs() -> None:
    run = GateRun(plan(approval(form=FORM)))
    assert run.vote("sign", fields={"size": "5MB", "strict": "no"}).applied
    run.resume()
    assert {name: run.outputs("sign")[name] for name in ("size", "strict", "n")} == {
        "size": 5_000_000,
        "strict": False,
        "n": None,
    }


AMOUNTS = {"amount": {"type": "money", "required": True}, "note": {"type": "string", "required": False}}


def test_an_answer_with_other_values_than_those_given_before_is_refused_and_told_who_gave_them() -> None:
    run = GateRun(plan(approval(approvers={"count": 2}, form=AMOUNTS)))
    shown = run.shown("sign")
    assert run.vote("sign", by="bo", fields={"amount": "$10"}).applied
    refused = run.vote("sign", by="cy", fields={"amount": "$1000"})
    assert (refused.applied, refused.events, refused.code) == (False, (), 2)
    assert "bo answered amount=$10: answer the same, or reject" in refused.message
    omitted = run.vote("sign", by="cy", fields={"amount": "$10", "note": "quick"})
    assert "bo left note open: answer the same, or reject" in omitted.message
    assert run.shown("sign") == shown
    assert run.vote("sign", by="cy", fields={"amount": "$10.00"}).applied
    run.resume()
    assert run.outputs("sign")["amount"] == 10
    assert run.outputs("sign")["by"] == "bo, cy"
    replays(run)


def test_whoever_disagrees_with_the_values_may_still_reject() -> None:
    run = GateRun(plan(approval(approvers={"count": 2}, form=AMOUNTS)))
    run.vote("sign", by="bo", fields={"amount": "$10"})
    assert run.vote("sign", "reject", by="cy", reason="too much").applied


def test_values_given_with_another_option_bind_nobody() -> None:
    run = GateRun(plan(decision(approvers={"count": 2}, form=AMOUNTS), *BRANCHES))
    assert run.vote("sign", by="bo", choice="later", fields={"amount": "$10"}).applied
    assert run.vote("sign", by="cy", choice="now", fields={"amount": "$20"}).applied
    assert run.vote("sign", by="di", choice="now", fields={"amount": "$20"}).applied
    run.resume()
    assert (run.outputs("sign")["choice"], run.outputs("sign")["amount"]) == ("now", 20)


def test_a_gate_in_a_fan_out_in_a_subplan_in_a_loop_waits_alone_in_each_branch() -> None:
    gate = {"id": "sign", "gate": "approval", "ask": "{{ piece }} in round {{ loop.round }}?"}
    last = {"id": "last", "uses": "noop", "needs": ["sign"]}
    each = {"id": "each", "foreach": ["a", "b"], "as": "piece", "subplan": [gate, last]}
    body = [{"id": "sub", "subplan": [each]}]
    run = GateRun(plan({"id": "polish", "loop": {"max": 2, "tasks": body}}))
    names = [f"polish#1/sub/each[{item}]/sign" for item in (0, 1)]
    assert [run.statuses()[name] for name in names] == ["blocked", "blocked"]
    assert run.state.tasks[run.state.index[names[1]]].detail == "b in round 1?"
    run.vote(names[0])
    run.resume()
    assert run.statuses()["polish#1/sub/each[0]/last"] == "completed"
    assert run.statuses()[names[1]] == "blocked"
    run.vote(names[1])
    run.resume()
    names = [f"polish#2/sub/each[{item}]/sign" for item in (0, 1)]
    assert [run.statuses()[name] for name in names] == ["blocked", "blocked"]
    for name in names:
        run.vote(name)
    assert run.resume().state.status == "completed"
    replays(run)


def test_a_failure_elsewhere_closes_the_gate() -> None:
    run = GateRun(
        plan(approval(), {"id": "bad", "uses": "noop"}, AFTER), {"bad": [Outcome("logic", "broken", duration=5.0)]}
    )
    assert run.statuses()["sign"] == "cancelled"
    assert not run.vote("sign").applied


def test_work_that_is_done_is_judged_though_the_plan_failed_elsewhere() -> None:
    work = {"id": "work", "uses": "noop", "expect": [{"judge": "it is good"}]}
    run = GateRun(plan(work, {"id": "bad", "uses": "noop"}), {"bad": [Outcome("logic", "broken", duration=5.0)]})
    assert run.statuses()["work"] == "blocked"


def test_every_gate_is_decided_once() -> None:
    run = GateRun(plan(approval(), AFTER))
    answers = [run.vote("sign", by="bo"), run.vote("sign", "reject", by="cy", reason="no"), run.vote("sign", by="di")]
    assert [found.applied for found in answers] == [True, False, False]
    run.resume()
    assert sum(isinstance(entry.event, GateDecided) for entry in run.entries) == 1


def test_a_gate_beside_a_retry_that_waits_does_not_park_before_its_time() -> None:
    flaky = {"id": "flaky", "uses": "noop", "retry": {"attempts": 2, "delay": "1m", "backoff": "fixed"}}
    outcomes = {"flaky": [Outcome("transient", "no", duration=1.0), Outcome(duration=1.0)]}
    run = GateRun(plan(approval(expires="10s"), flaky, on_failure="continue"), outcomes)
    assert run.statuses() == {"sign": "failed", "flaky": "completed"}


def test_what_is_not_waiting_refuses_votes() -> None:
    run = GateRun(plan({"id": "a", "uses": "noop"}, approval()))
    assert "is not waiting for a decision: it completed" in run.vote("a").message
    assert "is not a task of this run" in run.vote("b").message


def test_an_attended_run_waits_for_its_gate_instead_of_parking_and_its_time_limit_holds() -> None:
    run = GateRun(plan(approval(expires="1h"), AFTER), attended=True)
    assert (run.state.status, run.statuses()["sign"]) == ("failed", "failed")
    assert run.now - run.entries[0].at >= 3600
    replays(run)


def test_a_linked_plan_may_demand_gates_for_its_labels_and_ask_for_no_less_than_the_plan_around(tmp_path: Path) -> None:
    inner = {
        "plan": "inner",
        "policy": {"gates": {"prod": {"approvers": ["cy"]}, "own": {}}},
        "tasks": [{"id": "a", "uses": "noop", "labels": ["own"]}, {"id": "b", "uses": "noop", "labels": ["prod"]}],
    }
    (tmp_path / "inner.json").write_text(json.dumps(inner))
    outer = {
        "plan": "outer",
        "policy": {"gates": {"prod": {"approvers": ["bo"]}}},
        "tasks": [{"id": "sub", "subplan": "inner.json"}],
    }
    loaded = load(Source(json.dumps(outer), str(tmp_path / "p.json"), "json"), Registry())
    assert loaded.plan is not None, loaded.findings
    run = GateRun(loaded.plan)
    assert [run.statuses()[f"sub/{name}"] for name in "ab"] == ["blocked", "blocked"]
    assert run.vote("sub/a", by="anybody").applied
    assert run.vote("sub/b", by="cy").code == 12
    assert run.vote("sub/b", by="bo").applied
    assert run.resume().state.status == "completed"


def test_the_evidence_of_an_opened_gate_is_told_once_in_full() -> None:
    shown = ({"kind": "file", "name": "x", "digest": "sha256:1", "text": "long"},)
    run = GateRun(plan(approval(evidence=["x"])), evidence=lambda effect: shown)
    (opened,) = (entry.event for entry in run.entries if isinstance(entry.event, GateOpened))
    assert opened.evidence == ({"kind": "file", "name": "x", "digest": "sha256:1"},)


def _released(*tasks: dict[str, Any], **gate: Any) -> GateRun:
    return GateRun(plan(*tasks, policy={"gates": {"prod": gate}}))


APPROVED = {"id": "sign-off", "gate": "approval", "approvers": {"roles": ["release"]}}
DEPLOY = {"id": "deploy", "needs": ["build"], "uses": "noop", "labels": ["prod"]}
BUILD = {"id": "build", "needs": ["sign-off"], "uses": "noop"}


@pytest.mark.parametrize(
    "demanded", [{}, {"approvers": {"roles": ["release"]}}, {"approvers": {"roles": ["release", "qa"]}}]
)
def test_a_label_asks_nobody_again_behind_a_gate_that_the_same_people_approved(demanded: dict[str, Any]) -> None:
    run = _released(APPROVED, BUILD, DEPLOY, **demanded)
    assert run.statuses()["sign-off"] == "blocked"
    run.vote("sign-off", by="bo", roles=["release"])
    run.resume()
    assert run.state.status == "completed"


@pytest.mark.parametrize(
    ("before", "demanded"),
    [
        ({"gate": "approval"}, {"approvers": {"roles": ["release"]}}),
        ({"gate": "approval"}, {"approvers": {"count": 2, "starter": True}}),
        ({"gate": "checks", "checks": ["true"]}, {}),
    ],
)
def test_a_label_asks_behind_a_gate_that_asked_for_less(before: dict[str, Any], demanded: dict[str, Any]) -> None:
    run = _released({"id": "sign-off", **before}, BUILD, DEPLOY, **demanded)
    if "checks" not in before:
        run.vote("sign-off", by="bo")
        run.resume()
    assert run.statuses()["deploy"] == "blocked"


def test_a_label_asks_behind_a_gate_that_has_escalated_to_others() -> None:
    escalated = {"expires": "1h", "on_expiry": "escalate", "escalate": {"roles": ["duty"]}}
    run = _released({**APPROVED, **escalated}, BUILD, DEPLOY, approvers={"roles": ["release"]})
    run.later(3601).resume()
    run.vote("sign-off", by="bo", roles=["duty"])
    assert run.resume().statuses() == {"sign-off": "completed", "build": "completed", "deploy": "blocked"}
    replays(run)


def test_a_label_asks_behind_a_choice_between_options() -> None:
    options = [{"id": "now", "to": "build"}, {"id": "later", "to": "build"}]
    run = _released({"id": "sign-off", "gate": "decision", "ask": "When?", "options": options}, BUILD, DEPLOY)
    run.vote("sign-off", choice="later")
    assert run.resume().statuses() == {"sign-off": "completed", "build": "completed", "deploy": "blocked"}


def test_a_task_that_waits_for_people_can_be_abandoned_and_the_run_goes_on_without_it() -> None:
    run = GateRun(plan(approval(), AFTER, {"id": "side", "uses": "noop"}))
    run.request("cancel", {"task": "sign", "reason": "no time"})
    run.resume()
    assert run.statuses() == {"sign": "abandoned", "after": "omitted", "side": "completed"}
    assert (run.state.status, run.state.reason) == ("cancelled", "task")
    assert run.state.tasks[run.state.index["sign"]].detail == "by bo: no time"
    replays(run)


def test_an_abandoned_task_whose_failure_is_allowed_holds_nothing_up() -> None:
    run = GateRun(plan({"id": "sign", "command": "look at it", "allow_failure": True}, AFTER))
    run.request("cancel", {"task": "sign"})
    run.resume()
    assert run.statuses() == {"sign": "abandoned", "after": "completed"}
    assert run.state.status == "completed"
    replays(run)
