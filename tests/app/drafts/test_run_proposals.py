"""A run that proposes another plan for itself: shown, accepted, declined, taken over within bounds, and safe in a crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from projects import Project
from simulator.crashes import die_at, in_child

from planrunner.app.history.show import look
from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.app.runs.proposals import continued
from planrunner.app.runs.resume import resume
from planrunner.capabilities import builtin
from planrunner.capabilities.agent.plan import Drafted
from planrunner.errors import NotFound, UsageError
from planrunner.machine.events import RunRevised
from planrunner.source import Source
from planrunner.syntax.notations import parse, write
from planrunner.testing.scripted_model import ScriptedModel

Json = Any

PLAN = """\
plan: deliver
budgets: {time: 10m, calls: 20}
defaults: {timeout: 1m}
tasks:
  - id: first
    run: echo first >> log
  - id: build
    needs: [first]
    run: echo tried >> log; exit 3
    on_failure: replan
  - id: ship
    needs: [build]
    run: echo shipped >> log
  - id: replan
    uses: agent.plan
    with: {goal: "make build pass", apply: true}
    budgets: {calls: 3}
"""
MENDED = PLAN.replace("echo tried >> log; exit 3", "echo mended >> log")
WIDER = MENDED.replace("time: 10m", "time: 10h")


def fenced(text: str, why: str = "It exits with 3 always.") -> str:
    return f"{why}\n```yaml\n{text}```\n"


@pytest.fixture
def asks(project: Project) -> Any:
    """Runs the plan with a model that answers with the given texts; ``autonomous`` goes into the policy."""

    def run(*replies: str, autonomous: Json = None) -> tuple[Any, list[str]]:
        (project.work / "plan.yaml").write_text(PLAN)
        with ScriptedModel([fenced(reply) for reply in replies]) as model:
            project.set(
                models=model.settings(), **({} if autonomous is None else {"policy": {"autonomous": autonomous}})
            )
            ran = project("exec", "plan.yaml", "--json")
            return json.loads(ran.out) | {"code": ran.code}, [heard.said() for heard in model.heard]

    return run


def log(project: Project) -> list[str]:
    return (project.work / "log").read_text().split()


def test_the_run_pauses_with_the_plan_and_a_person_accepts_it(project: Project, asks: Any) -> None:
    told, heard = asks(MENDED)
    assert (told["code"], told["status"], told["tasks"]["ship"]["status"]) == (8, "paused", "omitted")
    assert "build: failed, exit code 3" in heard[0] and "first: completed" in heard[0]
    assert project("resume", "last").code == 8
    shown = json.loads(project("revise", "last", "--json").out)
    assert (shown["kept"], shown["again"], shown["recorded"]) == (["first"], ["build", "ship", "replan"], False)
    assert shown["proposal"]["person"] == ["`policy.autonomous` is off"]
    assert "+    run: echo mended >> log" in shown["proposal"]["diff"]
    text = project("revise", "last").out
    assert "why: It exits with 3 always." in text and "1 task keeps its result: first" in text
    assert project("revise", "last", "--accept", "0" * 64).code == 10
    assert project("revise", "last", "--accept", shown["proposal"]["digest"]).code == 0
    assert project("resume", "last").code == 0
    assert log(project) == ["first", "tried", "mended", "shipped"]
    assert "revision 2 by" in project("show", "last").out
    assert project("replay", "last").code == 0
    assert project("revise", "last", "--accept", shown["proposal"]["digest"]).code == 2, "it is answered"


def test_a_declined_plan_leaves_the_run_as_it_was(project: Project, asks: Any) -> None:
    asks(MENDED)
    assert project("revise", "last", "--decline", "--reason", "not like this").code == 0
    ended = project("resume", "last")
    assert ended.code == 1 and log(project) == ["first", "tried"]
    assert "revision_declined" in project("events", "last", "--json").out
    assert project("replay", "last").code == 0


def test_a_run_that_may_revises_itself_and_says_so(project: Project, asks: Any) -> None:
    told, _ = asks(MENDED, autonomous=True)
    assert (told["code"], told["status"]) == (0, "completed")
    assert log(project) == ["first", "tried", "mended", "shipped"]
    assert "revision 2 by task replan" in project("show", "last").out
    assert project("replay", "last").code == 0


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (WIDER, "it changes budgets"),
        (MENDED.replace("echo first", "echo again"), "it touches `first`, which has been executed (completed)"),
        (MENDED.replace("needs: [build]", "needs: [first]"), "edge build -> ship is removed"),
    ],
)
def test_a_plan_that_takes_more_waits_for_a_person_all_the_same(
    project: Project, asks: Any, reply: str, why: str
) -> None:
    told, _ = asks(reply, autonomous=True)
    assert told["code"] == 8 and log(project) == ["first", "tried"]
    assert why in json.loads(project("revise", "last", "--json").out)["proposal"]["person"]


def test_a_plan_cannot_give_itself_autonomy_and_can_refuse_it(project: Project, asks: Any) -> None:
    told, heard = asks(MENDED.replace("budgets: {time", "policy: {autonomous: true}\nbudgets: {time", 1), MENDED)
    assert len(heard) == 2 and "only planrunner.yaml grants that" in heard[1]
    assert told["code"] == 8


def test_a_plan_in_json_is_proposed_in_yaml(project: Project) -> None:
    tree = parse(Source(PLAN, "plan.yaml", "yaml")).tree
    assert tree is not None
    (project.work / "plan.json").write_text(write(tree, "json"))
    with ScriptedModel([fenced(MENDED.replace("plan: deliver", "plan: other")), fenced(MENDED)]) as model:
        project.set(models=model.settings())
        told = json.loads(project("exec", "plan.json", "--json").out)
        assert "keeps that name" in model.heard[1].last()
    assert (told["status"], len(model.heard)) == ("paused", 2)
    digest = json.loads(project("revise", "last", "--json").out)["proposal"]["digest"]
    assert project("revise", "last", "--accept", digest).code == 0
    assert project("resume", "last").code == 0
    assert log(project) == ["first", "tried", "mended", "shipped"]


AGENT = """\
  - id: more
    needs: [build]
    agent: coder
    prompt: Tell it.
"""


@pytest.mark.parametrize(
    ("there", "proposed", "why"),
    [
        (AGENT, AGENT, []),
        (AGENT.replace("coder", "reader"), AGENT, ["`more` calls `files.write`, which no task did before"]),
    ],
    ids=["the same agent", "another agent"],
)
def test_a_run_knows_what_the_agents_of_a_plan_may_call(
    project: Project, there: str, proposed: str, why: list[str]
) -> None:
    coder, reader = ({"tools": [name]} for name in ("files.write", "files.read"))
    (project.work / "plan.yaml").write_text(PLAN + there)
    with ScriptedModel([fenced(MENDED + proposed), "Done."]) as model:
        agents = {"coder": coder, "reader": reader}
        project.set(models=model.settings(), agents=agents, policy={"autonomous": True})
        project("exec", "plan.yaml")
    shown = json.loads(project("show", "last", "--json").out)
    assert shown["status"] == ("paused" if why else "completed"), shown
    if why:
        assert json.loads(project("revise", "last", "--json").out)["proposal"]["person"] == why


def test_a_run_revises_itself_so_often_and_no_more(project: Project, asks: Any) -> None:
    other = PLAN.replace("echo tried >> log; exit 3", "echo other >> log; exit 3")
    told, heard = asks(other, PLAN, other, PLAN, autonomous={"revisions": 2})
    assert told["code"] == 8 and len(heard) == 3
    assert log(project) == ["first", "tried", "other", "tried"]
    person = json.loads(project("revise", "last", "--json").out)["proposal"]["person"]
    assert person == ["the run has made 2 of 2 revisions on its own"]


def test_the_name_of_the_plan_stays(asks: Any) -> None:
    told, heard = asks(MENDED.replace("plan: deliver", "plan: other"), MENDED)
    assert told["code"] == 8 and "the plan of the run is named `deliver` and keeps that name" in heard[1]


def test_without_a_proposal_there_is_nothing_to_accept(project: Project) -> None:
    (project.work / "plan.yaml").write_text("plan: p\ntasks: [{id: a, run: ls, timeout: 1m}]\n")
    project("exec", "plan.yaml")
    for words in ((), ("--accept", "a" * 64), ("--decline",)):
        ran = project("revise", "last", *words)
        assert ran.code == 2 and "does not propose a plan" in ran.err
    assert project("revise", "last", "plan.yaml", "--decline").code == 2


def proposing(goal: str, apply: bool = False) -> Drafted:
    """Stands for a model: proposes the mended plan."""
    return Drafted(MENDED, "", [], "", "It exits with 3 always.", apply, 1, "none", {}, [])


def test_a_crash_at_any_write_loses_nothing_and_revises_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(builtin.TARGETS, "agent.plan", f"{__name__}:proposing")
    write, done = 0, False
    while not done:
        for stored in (False, True):
            work = tmp_path / f"{write}-{stored}"
            work.mkdir()
            (work / "planrunner.yaml").write_text(
                "policy: {autonomous: true}\nmodels: {m: {provider: ollama, model: m}}\n"
                'network: {private: ["127.0.0.1:11434"]}\n'
            )
            (work / "plan.yaml").write_text(PLAN)
            monkeypatch.chdir(work)
            done = in_child(lambda at=write, how=stored: _whole(at, how)) == 0 and write > 0
            assert in_child(_rest) == 0
            seen = look("last", None)
            acted = (work / "log").read_text().split()
            assert (seen.state.status, acted[0], acted[-1]) == ("completed", "first", "shipped")
            revisions = [entry.event for entry in seen.entries if isinstance(entry.event, RunRevised)]
            assert [(made.number, made.by) for made in revisions] == [(2, "task replan")]
            assert acted.count("first") < 3, "twice only where the crash left in doubt whether it acted"
        write += 1
    assert write > 8


def _whole(write: int, stored: bool) -> int:
    die_at(write, stored=stored, told=lambda *_: None)
    seen = Silent()
    continued(execute(ExecRequest("plan.yaml", unattended=True), seen), seen, unattended=True)
    return 0


def _rest() -> int:
    """Goes on until the run has ended; a run that never began is begun."""
    seen = Silent()
    try:
        settle = [(name, "retry") for name in ("first", "build", "ship")]
        state = look("last", None).state
        open_ = {task.id for task, at in zip(state.specs, state.tasks) if at.status in ("running", "in_doubt")}
        result = resume("last", [pair for pair in settle if pair[0] in open_], None, seen)
    except NotFound:
        result = execute(ExecRequest("plan.yaml"), seen)
    except UsageError:
        return 0  # it has ended
    continued(result, seen)
    return 0
