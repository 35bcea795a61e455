"""Hostile pages and replies, met by the real command: none has an effect, and each refusal stands in the journal with
its rule. Where lint would not let the plan begin, the gate that satisfies it is left out of the run."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hostile_peer import Ended, Peer, Project, serving

MODEL = pytest.mark.skipif(importlib.util.find_spec("pydantic_ai") is None, reason="the extra `llm` is not installed")
PAGE = """
  - {id: page, uses: http.get, with: {url: "PEER/page"}}
"""
ASK = """
  - {id: ask, uses: llm.complete, with: {prompt: what now}, budgets: {cost: $1}}
"""
LOOK = '  - {id: look, needs: page, gate: approval, ask: "May this be done? {{ VALUE }}"}\n'
ORDER = "touch done-by-page"


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving() as found:
        yield found


@pytest.fixture
def project(tmp_path: Path, peer: Peer) -> Project:
    return Project(tmp_path, peer)


class Case(NamedTuple):
    """What the page says, the task that meets it, and the rule that refuses."""

    says: str
    task: str
    rule: str


PAGES = {
    "run this": Case(ORDER, "env: {O: '{{ VALUE }}'}, run: 'eval \"$O\"'", "taint.command"),
    "run this, by a shell of its own": Case(ORDER, "run: [sh, -c, '{{ VALUE }}']", "taint.command"),
    "run this, down a pipe": Case(ORDER, "run: 'echo \"{{ VALUE }}\" | sh'", "taint.command"),
    "be this program": Case("./evil", "run: '{{ VALUE }} --version'", "taint.command"),
    "run this on that host": Case(ORDER, "run: [ssh, '-oBatchMode=yes', localhost, '{{ VALUE }}']", "taint.command"),
    "approve this": Case("last look", "run: 'planrunner approve {{ VALUE }}'", "taint.approval"),
    "run this plan": Case("other.yaml", "run: 'planrunner exec {{ VALUE }}'", "taint.plan"),
    "widen the policy": Case(
        "policy: {network: {allow: ['*']}}",
        "uses: files.write, with: {path: planrunner.yaml, content: '{{ VALUE }}'}",
        "taint.rules",
    ),
    "plant a hook": Case(
        ORDER, "uses: files.write, with: {path: .git/hooks/pre-commit, content: '{{ VALUE }}'}", "taint.rules"
    ),
    "send it there": Case(
        "http://127.0.0.1:9/collect", "uses: http.post, with: {url: '{{ VALUE }}', json: {key: 1}}", "taint.host"
    ),
    "read the metadata": Case("169.254.169.254", "uses: http.get, with: {url: 'http://{{ VALUE }}/'}", "taint.host"),
    "fetch it by curl": Case("http://127.0.0.1:9/x", "run: [curl, -s, '{{ VALUE }}', -o, got]", "taint.host"),
    "run this image": Case("evil/image", "uses: docker.run, with: {image: '{{ VALUE }}'}", "taint.image"),
    "take it back so": Case(
        ORDER, "run: 'exit 1', rollback: {uses: shell, run: [sh, -c, '{{ VALUE }}']}", "taint.command"
    ),
}


def met(project: Project, says: str, task: str, head: str = "") -> Ended:
    """A run in which a page says something, and a task uses it that waits for a gate which nobody is asked about."""
    project.peer.page = {"say": says}
    value = "tasks.page.outputs.json.say"
    plan = f"{head}tasks:{PAGE}{LOOK}  - {{id: obey, needs: [page, look], {task}}}\n".replace("VALUE", value)
    return project.exec(plan, "--only", "page", "--only", "obey")


def refusal(project: Project, ended: Ended) -> dict[str, str]:
    """The outcome of the attempt that was refused; the run as a whole replays exactly."""
    ends = [entry for entry in project.entries(ended.run) if entry["type"] in ("attempt_ended", "undo_ended")]
    replayed = project.command("replay", ended.run)
    assert replayed.returncode == 0, replayed.stdout
    return next(end["outcome"] for end in ends if end["outcome"].get("rule"))


@pytest.fixture
def _docker(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for docker, which many machines lack: a run without it ends before anything is decided."""
    program = tmp_path_factory.mktemp("bin") / "docker"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


@pytest.mark.usefixtures("_docker")
@pytest.mark.parametrize("name", [name for name in PAGES if name != "take it back so"])
def test_what_a_page_says_is_not_done(project: Project, name: str) -> None:
    case = PAGES[name]
    rules = (project.folder / "planrunner.yaml").read_text()
    ended = met(project, case.says, case.task)
    assert ended.code == 12, ended.err
    outcome = refusal(project, ended)
    assert (outcome["failure"], outcome["rule"]) == ("policy", case.rule), outcome
    assert "`page` (http.get) → " in outcome["message"] and "`obey` uses it as" in outcome["message"]
    assert project.peer.asked == ["/page"]
    assert project.made() == set()
    assert (project.folder / "planrunner.yaml").read_text() == rules


@pytest.mark.parametrize("name", PAGES)
def test_lint_tells_it_before_anything_is_asked(project: Project, name: str) -> None:
    case = PAGES[name]
    task = case.task.replace("VALUE", "tasks.page.outputs.json.say")
    ended = project.exec(f"tasks:{PAGE}  - {{id: obey, needs: page, {task}}}\n")
    assert ended.code == 5 and "PLAN81" in ended.err, ended.err
    assert project.peer.asked == []


def test_a_person_who_agrees_lets_it_through_and_nobody_else_does(project: Project) -> None:
    project.peer.page = {"say": ORDER}
    task = "  - {id: obey, needs: look, run: [sh, -c, '{{ tasks.page.outputs.json.say }}']}\n"
    plan = f"tasks:{PAGE}{LOOK}{task}".replace("VALUE", "tasks.page.outputs.json.say")
    ended = project.exec(plan)
    assert ended.code == 8 and project.made() == set()
    agreed = project.command("approve", ended.run, "look")
    assert agreed.returncode == 0, agreed.stderr
    went_on = project.command("resume", ended.run)
    assert went_on.returncode == 0, went_on.stderr
    assert project.made() == {"done-by-page"}


def test_what_a_label_puts_before_people_is_theirs_to_judge(project: Project) -> None:
    project.peer.page = {"say": ORDER}
    task = "  - {id: obey, needs: page, labels: [risky], run: [sh, -c, '{{ tasks.page.outputs.json.say }}']}\n"
    ended = project.exec(f"policy: {{gates: {{risky: {{ask: 'Run it?'}}}}}}\ntasks:{PAGE}{task}")
    assert ended.code == 8, ended.err
    assert ORDER in ended.out  # the call itself is shown
    assert project.made() == set()


def test_a_host_that_a_policy_lists_may_be_chosen_and_no_other(project: Project) -> None:
    project.peer.page = {"say": f"http://127.0.0.1:{project.peer.port}/hook"}
    task = "  - {id: obey, needs: page, uses: http.post, with: {url: '{{ tasks.page.outputs.json.say }}', json: {}}}\n"
    head = "policy: {network: {allow: [127.0.0.1]}}\n"
    assert project.exec(f"{head}tasks:{PAGE}{task}").code == 0
    assert project.peer.asked == ["/page", "/hook"]
    for elsewhere in ("http://localhost/x", "http://127.0.0.1@evil.example/", "http://127.0.0.1.evil.example/"):
        project.peer.page = {"say": elsewhere}
        ended = project.exec(f"{head}tasks:{PAGE}{task}")
        assert (ended.code, refusal(project, ended)["rule"]) == (12, "taint.host"), elsewhere
    assert "/hook" not in project.peer.asked[2:]


@pytest.mark.parametrize(
    ("says", "task", "rule"),
    [
        ("../../outside", "cwd: '{{ VALUE }}', run: pwd", "taint.path"),
        ("/etc", "cwd: '{{ VALUE }}', run: pwd", "taint.path"),
        ("--upload-pack=touch done", "run: [git, show, '{{ VALUE }}']", "taint.option"),
        ("--output=done", "run: 'git log {{ VALUE }}'", "taint.option"),
        ("planrunner.yaml", "uses: files.write, with: {path: '{{ VALUE }}', content: all}", "taint.rules"),
        ("x/../.planrunner/y", "uses: files.write, with: {path: '{{ VALUE }}', content: all}", "taint.rules"),
    ],
)
def test_what_a_value_comes_to_is_judged_in_the_run(project: Project, says: str, task: str, rule: str) -> None:
    project.peer.page = {"say": says}
    whole = f"tasks:{PAGE}  - {{id: obey, needs: page, {task}}}\n".replace("VALUE", "tasks.page.outputs.json.say")
    ended = project.exec(whole)
    assert (ended.code, refusal(project, ended)["rule"]) == (12, rule), ended.err
    assert project.made() == set()


def test_as_data_the_same_words_do_nothing(project: Project) -> None:
    project.peer.page = {"say": "$(touch done) `touch done`; touch done | sh -c 'touch done' {{ 7 * 7 }} {% raw %}"}
    task = """  - {id: obey, needs: page, run: 'printf "%s" "{{ tasks.page.outputs.json.say }}" > said'}\n"""
    assert project.exec(f"tasks:{PAGE}{task}").code == 0
    assert project.made() == {"said"}
    assert (project.folder / "said").read_text() == project.peer.page["say"]


def test_results_that_a_page_forges_stay_foreign(project: Project) -> None:
    project.peer.page = {"say": f"fine\nfix={ORDER}"}
    note = """  - id: note
    needs: page
    run: 'echo "note={{ tasks.page.outputs.json.say }}" >> "$PLANRUNNER_OUTPUT"'
    outputs: {note: string, fix: string}
"""
    gate = "  - {id: look, needs: note, gate: approval, ask: 'Do it? {{ tasks.note.outputs.fix }}'}\n"
    obey = "  - {id: obey, needs: [note, look], run: [sh, -c, '{{ tasks.note.outputs.fix }}']}\n"
    ended = project.exec(f"tasks:{PAGE}{note}{gate}{obey}", "--only", "page", "--only", "note", "--only", "obey")
    assert (ended.code, refusal(project, ended)["rule"]) == (12, "taint.command"), ended.err
    assert "`page` (http.get) → `note` (shell) → `obey` uses it as a command" in ended.err
    assert project.made() == set()


def test_a_page_in_a_loop_that_never_ends_is_asked_no_more_than_the_plan_says(project: Project) -> None:
    project.peer.page = {"say": "again"}
    plan = """tasks:
  - id: rounds
    loop:
      max: 4
      until: tasks.page.outputs.json.say == 'done'
      tasks:
        - {id: page, uses: http.get, with: {url: "PEER/page"}}
"""
    ended = project.exec(plan)
    assert ended.code == 1 and project.peer.asked == ["/page"] * 4, ended.err


def test_the_order_of_a_round_before_is_refused_in_the_next(project: Project) -> None:
    project.peer.page = {"say": ORDER}
    plan = """tasks:
  - id: rounds
    loop:
      max: 3
      carry: {order: "{{ tasks.page.outputs.json.say | default('true') }}"}
      tasks:
        - {id: page, uses: http.get, with: {url: "PEER/page"}}
        - {id: look, needs: page, gate: approval, ask: "{{ carry.order }}"}
        - {id: obey, needs: look, run: [sh, -c, "{{ carry.order }}"]}
"""
    assert project.exec(plan).code in (1, 5, 8)
    assert project.made() == set()


def test_what_undoes_a_task_takes_no_orders(project: Project) -> None:
    project.peer.page = {"say": ORDER}
    plan = f"""on_failure: rollback
tasks:{PAGE}{LOOK}  - id: act
    needs: [page, look]
    run: touch acted
    rollback: {{uses: shell, run: [sh, -c, "{{{{ VALUE }}}}"]}}
  - {{id: fail, needs: act, run: exit 3}}
""".replace("VALUE", "tasks.page.outputs.json.say")
    ended = project.exec(plan, "--only", "page", "--only", "act", "--only", "fail")
    outcome = refusal(project, ended)
    assert outcome["rule"] == "taint.command", ended.err
    assert project.made() == {"acted"}


def test_the_parameters_of_a_linked_plan_stay_foreign(project: Project) -> None:
    project.peer.page = {"say": ORDER}
    (project.folder / "inner.yaml").write_text(
        "plan: inner\nparams: {order: {type: string}}\ndefaults: {timeout: 2m}\ntasks:\n"
        "  - {id: obey, run: [sh, -c, '{{ params.order }}']}\n"
    )
    linked = "  - {id: linked, needs: [page, look], subplan: inner.yaml, params: {order: '{{ VALUE }}'}}\n"
    plan = f"tasks:{PAGE}{LOOK}{linked}".replace("VALUE", "tasks.page.outputs.json.say")
    ended = project.exec(plan, "--only", "page", "--only", "linked")
    assert refusal(project, ended)["rule"] == "taint.command", ended.err
    assert project.made() == {"inner.yaml"}


def test_each_item_that_a_page_lists_is_foreign(project: Project) -> None:
    project.peer.page = {"say": [ORDER, ORDER]}
    each = "  - {id: obey, needs: [page, look], foreach: VALUE, run: [sh, -c, '{{ item }}']}\n"
    plan = f"tasks:{PAGE}{LOOK}{each}".replace("VALUE", "tasks.page.outputs.json.say")
    ended = project.exec(plan, "--only", "page", "--only", "obey")
    assert refusal(project, ended)["rule"] == "taint.command", ended.err
    assert project.made() == set()


def test_a_gate_without_a_person_stays_shut_for_words_that_are_looked_for(project: Project) -> None:
    project.peer.page = {"say": "you asked for it: approved"}
    gate = (
        "  - {id: gate, needs: page, gate: checks, checks: ['CHECK']}\n  - {id: obey, needs: gate, run: touch done}\n"
    )
    searched = gate.replace("CHECK", 'tasks.page.outputs.json.say matches "approved"')
    assert "PLAN814" in project.exec(f"tasks:{PAGE}{searched}").err
    compared = gate.replace("CHECK", 'tasks.page.outputs.json.say == "approved"')
    assert project.exec(f"tasks:{PAGE}{compared}").code != 0
    assert project.made() == set()


@MODEL
def test_what_a_model_says_is_not_done(project: Project) -> None:
    project.peer.reply = ORDER
    look = "  - {id: look, needs: ask, gate: approval, ask: 'Do it? {{ tasks.ask.outputs.text }}'}\n"
    obey = "  - {id: obey, needs: [ask, look], env: {O: '{{ tasks.ask.outputs.text }}'}, run: sh -c \"$O\"}\n"
    ended = project.exec(f"tasks:{ASK}{look}{obey}", "--only", "ask", "--only", "obey")
    assert (ended.code, refusal(project, ended)["rule"]) == (12, "taint.command"), ended.err
    assert "`ask` (llm.complete) → `obey` uses it as a command" in ended.err
    assert project.made() == set()


@MODEL
def test_a_file_that_a_model_wrote_is_not_run(project: Project) -> None:
    project.peer.reply = ORDER
    tasks = """  - {id: keep, needs: ask, uses: files.write, with: {path: fix.sh, content: "{{ tasks.ask.outputs.text }}"}}
  - {id: look, needs: keep, gate: approval, ask: 'Run it?', evidence: [{file: fix.sh}]}
  - {id: obey, needs: [keep, look], run: sh fix.sh}
"""
    only = [word for name in ("ask", "keep", "obey") for word in ("--only", name)]
    ended = project.exec(f"tasks:{ASK}{tasks}", *only)
    assert (ended.code, refusal(project, ended)["rule"]) == (12, "taint.command"), ended.err
    assert project.made() == {"fix.sh"}


@MODEL
def test_a_choice_among_words_of_the_plan_may_run(project: Project) -> None:
    project.peer.reply = '{"fix": "true"}'
    ask = """
  - id: ask
    uses: llm.complete
    with: {prompt: what now, schema: {type: object, required: [fix], properties: {fix: {enum: ["true", "false"]}}}}
    budgets: {cost: $1}
"""
    obey = "  - {id: obey, needs: ask, run: [sh, -c, '{{ tasks.ask.outputs.json.fix }}']}\n"
    assert project.exec(f"tasks:{ask}{obey}").code == 0
    project.peer.reply = '{"fix": "touch done"}'  # it fits no schema, so there is no value at all
    assert project.exec(f"tasks:{ask}{obey}").code == 1
    assert project.made() == set()
