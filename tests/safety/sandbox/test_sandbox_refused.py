"""Hosts that a sandbox did not let a task reach: the run knows of each, and so does whoever looks at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import workbench
from sandbox_project import Project, needs_bubblewrap

from planrunner.capabilities.contract import Context, capability
from planrunner.capabilities.programs import run_program
from planrunner.machine.events import Outcome
from planrunner.plan.rights import Level
from planrunner.safety.sandbox.refusals import MOST

pytestmark = needs_bubblewrap

PYTHON = os.path.realpath(sys.executable)
ASK = """\
import http.client, os, sys
from urllib.parse import urlsplit
at = urlsplit(os.environ["http_proxy"])
for host in sys.argv[2:]:
    line = http.client.HTTPConnection(at.hostname, at.port, timeout=100)
    line.request("GET", f"http://{host}/")
    print(line.getresponse().status)
sys.exit(int(sys.argv[1]))
"""
LISTED = Level("task t", {"network": {"allow": ["allowed.example"]}})


def ask(project: Project, code: int, *hosts: str, levels: tuple[Level, ...] = (LISTED,), **more: Any) -> Outcome:
    return project.run("", *levels, arguments=(PYTHON, "-I", "-c", ASK, str(code), *hosts), **more)


def told(outcome: Outcome) -> list[tuple[str, str, int]]:
    return [(row["rule"], row["what"], row["count"]) for row in outcome.refused]


def test_each_host_is_told_once_with_its_rule_and_how_often(project: Project) -> None:
    outcome = ask(project, 0, "one.example", "two.example:8080", "one.example", "ONE.example")
    assert outcome.failure == ""
    rule = "policy.network.allow"
    assert told(outcome) == [(rule, "one.example:80", 3), (rule, "two.example:8080", 1)]
    assert "policy: {network: {allow: [allowed.example, 'two.example:8080']}}" in outcome.refused[1]["message"]


def test_a_task_that_failed_names_them_and_the_rule_is_that_of_the_first(project: Project) -> None:
    outcome = ask(project, 3, "one.example", "two.example")
    assert (outcome.failure, outcome.rule, outcome.exit_code) == ("policy", "policy.network.allow", 3)
    assert "[allowed.example, 'one.example:80']" in outcome.message
    assert outcome.message.endswith("; also refused: two.example:80")


def test_who_asks_for_thousands_is_counted_and_told_of_some(project: Project) -> None:
    outcome = ask(project, 0, *(f"h{number}.example" for number in range(MOST + 30)))
    assert len(outcome.refused) == MOST + 1
    assert told(outcome)[-1] == ("policy.network.allow", "", 30)
    assert outcome.stdout.split() == ["403"] * (MOST + 30)


def test_a_name_longer_than_any_is_no_request(project: Project) -> None:
    outcome = ask(project, 0, "a" * 300)
    assert (outcome.stdout, outcome.refused) == ("400\n", ())


def test_one_that_ran_out_of_time_keeps_its_class(project: Project) -> None:
    code = f"{ASK.replace('sys.exit', 'import time; time.sleep(600); sys.exit')}"
    for timeout in (3.0, 30.0, 200.0):  # the least one in which it asks
        outcome = project.run("", LISTED, arguments=(PYTHON, "-I", "-c", code, "0", "one.example"), timeout=timeout)
        if "refused" in outcome.message:
            break
    assert (outcome.failure, outcome.rule) == ("timeout", "")
    assert outcome.message.endswith("; refused meanwhile: one.example:80")


def test_one_that_passed_a_limit_tells_of_both(project: Project) -> None:
    levels = (LISTED, Level("task t", {"sandbox": {"output": "1kB"}}))
    code = ASK.replace("sys.exit", "print('x' * 5000, flush=True); import time; time.sleep(600); sys.exit")
    outcome = project.run("", *levels, arguments=(PYTHON, "-I", "-c", code, "0", "one.example"))
    assert outcome.rule == "sandbox.output"
    assert told(outcome) == [("policy.network.allow", "one.example:80", 1)]


def test_what_it_left_behind_is_told_beside_the_limit_it_passed(project: Project) -> None:
    levels = (Level("task t", {"sandbox": {"output": "1kB"}}),)
    code = "open('planrunner.yaml', 'w').write('x'); print('x' * 5000, flush=True); import time; time.sleep(600)"
    outcome = project.run("", *levels, arguments=(PYTHON, "-I", "-c", code))
    assert outcome.rule == "sandbox.output"
    assert told(outcome) == [("sandbox.files", "planrunner.yaml", 1)]


def test_programs_that_a_capability_runs_itself_are_told_of_together(project: Project) -> None:
    @capability("trial.twice", effect="read")
    def twice(context: Context, code: int) -> None:
        run_program(context, (PYTHON, "-I", "-c", ASK, "0", "one.example"))
        run_program(context, (PYTHON, "-I", "-c", ASK, str(code), "one.example", "two.example"), check=True)

    project.functions["trial.twice"] = twice
    outcome = project.run("", LISTED, uses="trial.twice", inputs={"code": 0})
    assert outcome.failure == "", outcome
    assert told(outcome) == [
        ("policy.network.allow", "one.example:80", 2),
        ("policy.network.allow", "two.example:80", 1),
    ]
    outcome = project.run("", LISTED, uses="trial.twice", inputs={"code": 4}, attempt=2, key="second")
    assert (outcome.failure, outcome.rule) == ("policy", "policy.network.allow")


def test_a_capability_cannot_say_that_something_was_refused(project: Project) -> None:
    @capability("trial.claims", effect="read")
    def claims() -> Outcome:
        return Outcome(refused=({"rule": "trust", "what": "all", "count": 1},))

    project.functions["trial.claims"] = claims
    assert project.run("", LISTED, uses="trial.claims").refused == ()


PLAN = f"""\
plan: p
tasks:
  - id: calm
    run: ["{PYTHON}", -I, ask.py, "0", one.example]
    timeout: 1m
  - id: fails
    needs: [calm]
    run: ["{PYTHON}", -I, ask.py, "3", "{{{{ env.WHERE }}}}.example", two.example]
    timeout: 1m
"""


class Command:
    """The command in a real process, in a project whose policy names a host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        settings = "policy: {network: {allow: [allowed.example]}}\n"
        credentials = "provider_credentials: [{id: key, auth: {source: env, env_var: TOKEN}}]\n"
        (folder / "planrunner.yaml").write_text(settings + credentials)
        (folder / "ask.py").write_text(ASK)
        (folder / "p.yaml").write_text(PLAN)

    def __call__(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return workbench.planrunner(self.folder, *words, **{"WHERE": "three", **env})


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


def test_a_run_tells_of_them_wherever_it_is_looked_at(command: Command) -> None:
    done = command("exec", "p.yaml")
    assert done.returncode == 12, done.stderr
    shown = command("show").stdout
    for text in (done.stderr, shown):
        assert "refused to `calm`, which went well without:" in text
        assert "one.example:80 (policy.network.allow)" in text
        assert "refused  three.example:80 (policy.network.allow)" in text
        assert "allow: [allowed.example, 'one.example:80']" in text
        assert "allow: [allowed.example, 'two.example:80']" in text
    tasks = json.loads(command("show", "--json").stdout)["tasks"]
    assert [row["what"] for row in tasks["fails"]["refused"]] == ["three.example:80", "two.example:80"]
    events = [json.loads(line) for line in command("events", "--json", "--type", "attempt_ended").stdout.splitlines()]
    assert [len(row["outcome"]["refused"]) for row in events if "outcome" in row] == [1, 2]
    lines = command("audit", "export", "--format", "text").stdout.splitlines()
    assert [line.split()[3] for line in lines if "attempt_ended" in line] == ["refusal", "refusal"]
    assert "refused one.example:80 (policy.network.allow, 1)" in "\n".join(lines)
    assert command("audit", "verify").returncode == 0
    assert command("replay", "last").returncode == 0


def test_a_secret_in_the_name_of_a_host_is_kept_nowhere(command: Command) -> None:
    secret = "Qx7TopSecretToken42"
    plan = PLAN.replace("{{ env.WHERE }}", "three").replace("ask.py", "asks.py")
    plan = plan.replace("    timeout: 1m\n", "    timeout: 1m\n    secrets: [key]\n")
    (command.folder / "p.yaml").write_text(plan)
    (command.folder / "asks.py").write_text("import os, sys\nsys.argv[2] = os.environ['TOKEN'] + '.example'\n" + ASK)
    done = command("exec", "p.yaml", TOKEN=secret)
    assert done.returncode == 12, done.stderr
    assert "[secret:key].example:80" in done.stderr
    kept = b"".join(path.read_bytes() for path in (command.folder / ".planrunner").rglob("*") if path.is_file())
    for spelling in (secret.encode(), secret.lower().encode()):
        assert spelling not in kept
        assert spelling not in (done.stdout + done.stderr).encode()
