"""Plans that a run proposes for itself (``agent.plan`` with ``apply``): a person accepts one as the next revision, or
declines it; where the policy of the project lets it, and nothing is at stake, the run takes it over itself."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

from planrunner.app.history.show import look
from planrunner.app.people.admission import rule_for
from planrunner.app.people.persons import require_person
from planrunner.app.plans.lint import registry
from planrunner.app.runs.execute import RunResult, Watch, directory_of
from planrunner.app.runs.resume import Manner, resume
from planrunner.app.runs.revise import ReviseRequest, preview, revise
from planrunner.app.runs.secrets import obligations_of
from planrunner.caller import principal
from planrunner.engine.poller import StopSwitch, TimeLine, boot
from planrunner.errors import Denied, Hint, NextStep, PlanInvalid, RecordMismatch, RunHeld, UsageError
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state
from planrunner.machine.agents import digest_of, proposed
from planrunner.machine.events import Entry, RevisionDeclined, RunRevised
from planrunner.machine.rights import beyond, granted
from planrunner.machine.state import State
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.safety.project import levels, policy_records
from planrunner.source import Source, notation_of
from planrunner.views.revision import Proposal, Revision

Json = Any

SHORTEST = 12
"""Digits of a digest that are enough to name it."""


def proposal_of(state: State) -> Proposal | None:
    """The open proposal of a run; None where there is none."""
    number = proposed(state)
    if number is None:
        return None
    outputs = state.tasks[number].outputs
    text = str(outputs["plan"])
    path = str(state.environment.get("plan", ""))
    if notation_of(path) != "yaml":  # plans are proposed in YAML, whatever the first one is written in
        path = f"{os.path.splitext(path)[0]}.yaml"
    told = (str(outputs.get("diff", "")), str(outputs.get("reason", "")), path)
    return Proposal(state.run_id, state.proposal, text, digest_of(text), *told)


def open_proposal(run: str, state_dir: str | None) -> Proposal:
    """The proposal that a run waits with. Raises NotFound, and UsageError where there is none."""
    seen = look(run, state_dir)
    proposal = proposal_of(seen.state)
    if proposal is None:
        run_id = seen.state.run_id
        raise UsageError(
            f"run {run_id} does not propose a plan",
            Hint("name the changed plan: ", NextStep("revise", run_id, "FILE")),
        )
    return proposal._replace(person=tuple(why_a_person(seen.state, proposal, find_state(None, state_dir))))


def shown(proposal: Proposal, state_dir: str | None) -> Revision:
    """What accepting it would do; nothing is written. Raises as ``revise``."""
    return preview(_request(proposal, ""), state_dir)


def accept(run: str, digest: str, reason: str, state_dir: str | None) -> Revision:
    """Make the proposed plan the next revision, where it is the one of that digest. Raises as ``revise``,
    RecordMismatch for another digest, UsageError without a proposal."""
    require_person("proposal", find_state(None, state_dir))
    proposal = open_proposal(run, state_dir)
    given = digest.removeprefix("sha256:")
    if len(given) < SHORTEST or not proposal.digest.removeprefix("sha256:").startswith(given):
        raise RecordMismatch(
            f"run {proposal.run_id} proposes the plan {proposal.digest[:19]}, not {digest}",
            Hint("look at it: ", NextStep("revise", proposal.run_id)),
        )
    return revise(_request(proposal, reason), state_dir)


def decline(run: str, reason: str, state_dir: str | None) -> str:
    """Have a run keep its plan; gives its id. Raises RunHeld, UsageError without a proposal."""
    require_person("proposal", find_state(None, state_dir))
    with closing(open_journal(find_state(None, state_dir))) as journal:
        run_id = journal.find_run(run)
        handle = journal.acquire(run_id)
        try:
            proposal = open_proposal(run_id, state_dir)
            line = TimeLine()
            for entry in journal.entries(run_id):
                line.see(entry)
            event = RevisionDeclined(proposal.task, principal().name, reason)
            journal.append(handle, [Entry(handle.last_seq + 1, line.clock(boot()).now(), event)])
        finally:
            journal.release(handle)
    return run_id


def _request(proposal: Proposal, reason: str, by: str = "") -> ReviseRequest:
    why = reason or proposal.reason or f"proposed by {proposal.task}"
    text = proposal.text.encode()
    return ReviseRequest(proposal.run_id, proposal.path, reason=why, text=text, by=by, decides=not by)


def continued(
    result: RunResult,
    watch: Watch,
    unattended: bool = False,
    unconfined: bool = False,
    switch: StopSwitch | None = None,
) -> RunResult:
    """A run that has paused with a proposal, driven further as often as it takes one over itself. Raises as
    ``resume``."""
    while result.state.proposal and taken_over(result) is not None:
        manner = Manner(unattended, unconfined=unconfined)
        result = resume(result.run_id, (), result.state_dir, watch, manner, switch)
    return result


def taken_over(result: RunResult) -> Revision | None:
    """Let a run that has paused with a proposal take it over, where it may do so on its own; None where a person has to
    decide, or another process has the run by now."""
    proposal = proposal_of(result.state)
    if proposal is None or result.state.status != "paused" or why_a_person(result.state, proposal, result.state_dir):
        return None
    try:
        return revise(_request(proposal, "", f"task {proposal.task}"), result.state_dir)
    except (Denied, RunHeld, UsageError, PlanInvalid):
        return None


def why_a_person(state: State, proposal: Proposal, state_dir: str) -> list[str]:
    """Why the run may not take the plan over on its own, a sentence each; empty where it may. Raises as
    ``read_settings``."""
    directory = directory_of(state)
    most = granted(levels(policy_records(directory)), state.plan)
    if not most:
        return ["`policy.autonomous` is off"]
    if state.environment.get("trust", {}).get("origin") == "outside" or rule_for("inside") != "allow":
        return ["the plan runs by the permission of a person"]
    entries = look(proposal.run_id, state_dir).entries
    made = sum(isinstance(each.event, RunRevised) and each.event.by.startswith("task ") for each in entries)
    if made >= most:
        return [f"the run has made {made} of {most} revisions on its own"]
    after = _plan(proposal, directory)
    if after is None:
        return ["the plan is not valid any more"]
    before = state.plan if state.governed is None else state.governed.plan
    if why := beyond(state, before, after):
        return why
    foreseen = preview(_request(proposal, ""), state_dir)
    why = [f"`{gate}` asks again: {what}" for gate, what in foreseen.asks_again]
    return [*why, *(f"it overrules the gate `{gate}`: {what}" for gate, what in foreseen.overruled)]


def _plan(proposal: Proposal, directory: str) -> Plan | None:
    source = Source(proposal.text, proposal.path, notation_of(proposal.path))
    return load(source, registry(directory), obligations_of(directory)).plan
