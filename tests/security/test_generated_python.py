"""Python that a run makes for itself, through the real command line: what is refused, by which rule, and what lets it
run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from security_desk import Desk, Told

PYTHON = {"python": sys.executable}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def made(text: str, path: str = "made.py") -> dict[str, Any]:
    return {"id": "make", "uses": "files.write", "with": {"path": path, "content": text}}


def ran(desk: Desk, text: str, **given: Any) -> Told:
    """A file that one task writes and the next one runs."""
    return desk.run(made(text), {"id": "work", "needs": ["make"], "uses": "python.run", "with": {**PYTHON, **given}})


@pytest.mark.parametrize("given", [{"file": "made.py"}, {"function": "made.py:f"}, {"function": "made:f"}])
def test_harmless_code_runs(desk: Desk, given: dict[str, str]) -> None:
    told = ran(desk, "def f(): return {'n': 2}\nresult = f()\n", **given)
    assert told.code == 0, told.stderr
    assert told.outputs("work") == {"n": 2}


@pytest.mark.parametrize("given", [{"file": "made.py"}, {"function": "made.py:f"}, {"function": "made:f"}])
def test_code_that_leaves_python_never_runs(desk: Desk, given: dict[str, str]) -> None:
    told = ran(desk, f"def f(): pass\nimport os\nos.system('touch {desk.canary}')\n", **given)
    assert told.rule("work") == "scan.shell"
    assert "made.py may not run: line 3: hands text to a shell: os.system" in told.message("work")
    assert not desk.canary.exists()


def test_a_shell_that_writes_the_code_is_seen_as_well(desk: Desk) -> None:
    task = {"id": "make", "run": "mkdir -p src; printf 'eval(\"1\")\\n' > src/made.py"}
    told = desk.run(
        task, {"id": "work", "needs": ["make"], "uses": "python.run", "with": {"function": "made:f", **PYTHON}}
    )
    assert told.rule("work") == "scan.eval"


def test_an_older_time_does_not_make_a_file_older(desk: Desk) -> None:
    task = {
        "id": "make",
        "run": "printf 'eval(\"1\")\\n' > .made.py && touch -d 2001-01-01 .made.py && mv .made.py made.py",
    }
    told = desk.run(
        task, {"id": "work", "needs": ["make"], "uses": "python.run", "with": {"file": "made.py", **PYTHON}}
    )
    assert told.rule("work") == "scan.eval"


def test_code_of_the_project_is_its_own_affair(desk: Desk) -> None:
    desk.write("own.py", "import os\nresult = {'n': eval('1'), 'here': bool(os.environ)}\n")
    told = desk.run({"id": "work", "uses": "python.run", "with": {"file": "own.py", **PYTHON}})
    assert told.outputs("work") == {"n": 1, "here": True}


def test_what_the_plan_says_of_it_counts(desk: Desk) -> None:
    desk.write("own.py", "result = eval('1')\n")
    told = desk.run(
        {"id": "said", "uses": "python.run", "with": {"file": "own.py", "generated": True, **PYTHON}, "allow_failure": True},
        {"id": "made", "run": "printf 'result = eval(\"2\")' > own.py", "needs": ["said"], "join": "always"},
        {"id": "vouched", "needs": ["made"], "uses": "python.run", "with": {"file": "own.py", "generated": False, **PYTHON}},
    )  # fmt: skip
    assert told.rule("said") == "scan.eval"
    assert told.outputs("vouched") == {"value": 2}


def test_a_value_does_not_say_whether_code_is_generated(desk: Desk) -> None:
    work = {"file": "made.py", "generated": "{{ params.made }}", **PYTHON}
    told = desk.run(
        made("eval('1')"),
        {"id": "work", "needs": ["make"], "uses": "python.run", "with": work},
        params={"made": {"type": "bool", "default": False}},
    )
    assert told.rule("work") == "template.code"


class TestTexts:
    """Code that is the output of a task, such as the answer of a model."""

    def ran(self, desk: Desk, text: str, written: str = "{{ tasks.say.outputs.code }}", **given: Any) -> Told:
        say = {"id": "say", "uses": "noop", "with": {"value": "{{ params.text }}"}}
        written = written.replace("outputs.code", "outputs.value")
        work = {"id": "work", "needs": ["say"], "uses": "python.run", "with": {"code": written, **given, **PYTHON}}
        return desk.run(say, work, params={"text": {"type": "string", "default": ""}}, values={"text": text})

    def test_a_text_runs_only_where_the_plan_says_that_it_is_code(self, desk: Desk) -> None:
        assert self.ran(desk, "result = 3", generated=True).outputs("work") == {"value": 3}
        told = self.ran(desk, "result = 3")
        assert told.code == 5 and "PLAN216" in told.stderr

    def test_a_text_is_looked_at(self, desk: Desk) -> None:
        told = self.ran(desk, f"import os\nos.popen('touch {desk.canary}')", generated=True)
        assert told.rule("work") == "scan.shell" and not desk.canary.exists()

    def test_nothing_is_filled_into_code(self, desk: Desk) -> None:
        told = self.ran(desk, "3", "result = {{ tasks.say.outputs.code }}", generated=True)
        assert told.code == 5 and "PLAN216" in told.stderr

    @pytest.mark.parametrize(
        "text", ["```python\nresult = 1\n```", "Sure! Here is the code:", "\0", "x = '\u202e'", "("]
    )
    def test_what_is_no_python_is_refused_with_a_message(self, desk: Desk, text: str) -> None:
        told = self.ran(desk, text, generated=True)
        assert told.rule("work") in ("scan.unreadable", "scan.hidden")
        assert "the code may not run: line" in told.message("work")


class TestGates:
    ASKS = "import socket\nresult = socket.AF_INET\n"

    def tasks(self, text: str, evidence: Any) -> list[dict[str, Any]]:
        return [
            made(text),
            {"id": "look", "needs": ["make"], "gate": "approval", "ask": "Run it", "evidence": evidence},
            {"id": "work", "needs": ["look"], "uses": "python.run", "with": {"file": "made.py", **PYTHON}},
        ]

    def decided(self, desk: Desk, *tasks: dict[str, Any], code: int) -> Told:
        assert desk.run(*tasks).code == 8
        desk.do("approve", "last", "look", "--as", "bo", "--reason", "read it")
        return Told(desk, desk.do("resume", "last", "--progress", "quiet", code=code))

    def test_without_one_the_line_to_add_is_told_and_it_works(self, desk: Desk) -> None:
        told = ran(desk, self.ASKS, file="made.py")
        assert told.rule("work") == "scan.network"
        line = "- {id: review-work, needs: [make], gate: approval, ask: Run this code, evidence: [made.py]}"
        assert f"add `{line}` and let `work` need it" in told.message("work")
        desk.write(
            "plan.yaml",
            f"plan: p\ndefaults: {{timeout: 1m}}\ntasks:\n  - {{id: make, run: \"printf 'import socket' > made.py\"}}\n  {line}\n"
            f"  - {{id: work, needs: [review-work], uses: python.run, with: {{file: made.py, python: '{sys.executable}'}}}}\n",
        )
        desk.do("exec", "plan.yaml", code=8)
        desk.do("approve", "last", "review-work", "--as", "bo", "--reason", "x")
        desk.do("resume", "last", code=0)

    def test_what_a_person_has_seen_runs(self, desk: Desk) -> None:
        told = self.decided(desk, *self.tasks(self.ASKS, ["made.py"]), code=0)
        assert told.outputs("work") == {"value": 2}

    def test_what_is_denied_does_not_run_whoever_has_seen_it(self, desk: Desk) -> None:
        told = self.decided(desk, *self.tasks("eval('1')", ["made.py"]), code=12)
        assert told.rule("work") == "scan.eval"

    def test_an_approval_is_for_the_code_that_was_shown(self, desk: Desk) -> None:
        tasks = self.tasks(self.ASKS, ["made.py"])
        change = {"id": "change", "needs": ["look"], "run": "echo '# more' >> made.py"}
        told = self.decided(desk, *tasks[:2], change, {**tasks[2], "needs": ["change"]}, code=12)
        assert told.rule("work") == "scan.network"

    @pytest.mark.parametrize("evidence", [["other.txt"], [{"code": "import socket"}], []])
    def test_a_gate_that_showed_something_else_does_not_count(self, desk: Desk, evidence: Any) -> None:
        desk.write("other.txt", "nothing")
        assert self.decided(desk, *self.tasks(self.ASKS, evidence), code=12).rule("work") == "scan.network"

    def test_code_of_which_the_gate_could_show_a_part_does_not_run(self, desk: Desk) -> None:
        text = "x = 1\n" * 3000 + self.ASKS
        assert self.decided(desk, *self.tasks(text, ["made.py"]), code=12).rule("work") == "scan.network"

    def test_a_gate_that_checks_passed_is_nobody_who_saw_it(self, desk: Desk) -> None:
        tasks = self.tasks(self.ASKS, ["made.py"])
        gate = {"id": "look", "needs": ["make"], "gate": "checks", "checks": ["1 == 1"], "evidence": ["made.py"]}
        assert desk.run(tasks[0], gate, tasks[2]).rule("work") == "scan.network"

    def test_a_gate_beside_the_task_does_not_count(self, desk: Desk) -> None:
        tasks = self.tasks(self.ASKS, ["made.py"])
        wait = {"id": "wait", "needs": ["make"], "gate": "approval", "ask": "Go on"}
        desk.run(*tasks[:2], wait, {**tasks[2], "needs": ["wait"]})
        for gate in ("look", "wait"):
            desk.do("approve", "last", gate, "--as", "bo", "--reason", "x")
        assert Told(desk, desk.do("resume", "last", code=12)).rule("work") == "scan.network"


class TestThePolicy:
    def test_the_operator_lets_pass_what_is_asked_about(self, desk: Desk) -> None:
        desk.write("planrunner.yaml", "policy: {python: {allow: [network]}}")
        assert ran(desk, "import socket\nresult = 1", file="made.py").outputs("work") == {"value": 1}

    @pytest.mark.parametrize("pattern", ["*", "scan.eval"])
    def test_a_plan_and_a_task_can_let_nothing_pass(self, desk: Desk, pattern: str) -> None:
        policy = {"python": {"allow": [pattern]}}
        task = {"id": "work", "needs": ["make"], "uses": "python.run", "with": {"file": "made.py", **PYTHON}}
        told = desk.run(made("eval('1')"), {**task, "policy": policy}, policy=policy)
        assert told.rule("work") == "scan.eval"

    def test_a_task_denies_what_is_let_pass(self, desk: Desk) -> None:
        desk.write("planrunner.yaml", "policy: {python: {allow: ['*']}}")
        task = {"id": "work", "needs": ["make"], "uses": "python.run", "with": {"file": "made.py", **PYTHON}}
        told = desk.run(made("import socket"), {**task, "policy": {"python": {"deny": "net*"}}})
        assert told.rule("work") == "scan.network"
        assert "deny in task work" in told.message("work")


class TestBandit:
    """Its findings of high severity ask as well; here the rules of our own are told to let them pass."""

    TEXT = "import hashlib\nresult = hashlib.md5(b'x').hexdigest()\n"

    @pytest.fixture(autouse=True)
    def _bandit(self) -> None:
        pytest.importorskip("bandit")

    def test_a_finding_of_high_severity_asks(self, desk: Desk) -> None:
        told = ran(desk, self.TEXT, file="made.py")
        assert told.rule("work") == "scan.B324"
        assert "add `- {id: review-work" in told.message("work")

    def test_no_comment_silences_it(self, desk: Desk) -> None:
        told = ran(desk, self.TEXT.replace("()\n", "()  # nosec\n"), file="made.py")
        assert told.rule("work") == "scan.B324"

    def test_the_operator_lets_it_pass(self, desk: Desk) -> None:
        desk.write("planrunner.yaml", "policy: {python: {allow: [B324]}}")
        assert len(ran(desk, self.TEXT, file="made.py").outputs("work")["value"]) == 32

    def test_the_operator_denies_what_is_only_told(self, desk: Desk) -> None:
        desk.write("planrunner.yaml", "policy: {python: {deny: [B1*]}}")
        assert ran(desk, "assert 1 == 1", file="made.py").rule("work") == "scan.B101"


class TestTheCapability:
    def scanned(self, desk: Desk, text: str, **given: Any) -> Told:
        desk.write("x.py", text)
        return desk.run({"id": "scan", "uses": "python.scan", "with": {"file": "x.py", **given}})

    def test_it_tells_what_it_found_and_runs_nothing(self, desk: Desk) -> None:
        text = f"import socket\nopen('{desk.canary}', 'w')\n"
        told = self.scanned(desk, text, fail=False)
        found = told.outputs("scan")
        assert found["worst"] == "deny" and not found["ok"]
        assert [(each["rule"], each["verdict"], each["line"]) for each in found["findings"][:2]] == [
            ("write-outside", "deny", 2),
            ("network", "ask", 1),
        ]
        assert found["findings"][1]["snippet"] == "import socket"
        assert not desk.canary.exists()

    def test_what_is_denied_fails_it_with_its_findings(self, desk: Desk) -> None:
        told = self.scanned(desk, "eval('1')")
        assert told.rule("scan") == "scan.eval"
        assert told.ends["scan"]["outputs"]["counts"]["deny"] == 1

    def test_a_plan_can_decide_by_it(self, desk: Desk) -> None:
        desk.write("x.py", "result = 1")
        told = desk.run(
            {"id": "scan", "uses": "python.scan", "with": {"file": "x.py"}, "outputs": {"worst": "string"}},
            {"id": "work", "needs": ["scan"], "when": "tasks.scan.outputs.worst == 'allow'", "run": "true"},
        )
        assert told.code == 0 and "work" in told.ends

    def test_a_file_outside_is_not_read(self, desk: Desk) -> None:
        told = desk.run({"id": "scan", "uses": "python.scan", "with": {"file": "../../etc/passwd"}})
        assert told.rule("scan") == "files.beneath"
