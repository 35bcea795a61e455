"""What people alone may do is refused to what a run started, by whatever way it asks; people, and programs that only
happen to run in a run, do it as ever."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from orphans import given_to_init
from serving import awaited, serving
from workbench import environment, planrunner

from planrunner.ancestry import Runner, RunnerMark, identity
from planrunner.app.people import persons
from planrunner.app.people.persons import PERSON_ONLY, require_person
from planrunner.caller import asked_by
from planrunner.errors import Denied

PROGRAM = f"{sys.executable} -m planrunner"
OWN = "-u PLANRUNNER_RUN_ID -u PLANRUNNER_KEY -u PLANRUNNER_EPOCH -u PLANRUNNER_TASK -u PLANRUNNER_ATTEMPT"
PTY = f"{sys.executable} -c 'import pty, sys, os; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))'"

COMMANDS = {
    "vote": "approve $R ok",
    "only": "exec plans/work.yaml --only publish",
    "budget": "budget $R --add tokens=5",
    "settle": "resume $R --settle all=retry",
    "revise": "revise $R plans/other.yaml",
    "fork": "fork $R --at 1",
    "proposal": "revise $R --accept sha256:0123456789ab",
    "trust": "trust --yes plans/other.yaml",
    "plugin": "plugins trust --yes tool.py",
    "token": "token create evil --scope admin",
    "audit": "audit accept --because so",
    "memory": "memory put word x --trusted",
    "policy": "resume $R --accept-policy",
    "sandbox": "exec plans/other.yaml --no-sandbox",
}
"""A command for each act of the table; ``$R`` is the run that the task belongs to."""

WAYS = {
    "plainly": "sh attempt.sh",
    "without the variables": f"env {OWN} setsid sh attempt.sh",
    "let go of twice": 'env -i PATH="$PATH" PYTHONPATH="$PYTHONPATH" XDG_DATA_HOME="$XDG_DATA_HOME" HOME=/ R=$R '
    "setsid -f setsid -f sh attempt.sh",
}


def _project(folder: Path, script: str, way: str = WAYS["plainly"]) -> None:
    """A plan whose task ``work`` starts a script in a way; ``done`` is written when the script is over, and a gate keeps
    the run until then."""
    (folder / "plans").mkdir(exist_ok=True)
    (folder / "planrunner.yaml").write_text("{}\n")
    (folder / "tool.py").write_text("import planrunner.api\n")
    (folder / "attempt.sh").write_text(f"{script}\necho over >done\n")
    wait = "until test -e done; do sleep 0.02; done"
    tasks = [
        {"id": "work", "run": f"export R=$PLANRUNNER_RUN_ID; {way}; {wait}"},
        {"id": "ok", "gate": "approval", "ask": "Publish?"},
        {"id": "publish", "needs": ["work", "ok"], "run": "touch published"},
    ]
    plan = {"plan": "work", "defaults": {"timeout": "2m"}, "budgets": {"tokens": 10}, "tasks": tasks}
    for name, made in (("work", plan), ("other", {**plan, "tasks": tasks[1:2]})):
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in made.items()]
        (folder / "plans" / f"{name}.yaml").write_text("".join(lines))


def _said(folder: Path, way: str, *words: str) -> list[str]:
    """Exit codes and messages of commands that a task gave in a way."""
    lines = [f"{PROGRAM} {each} >said.{at} 2>&1 </dev/null; echo $? >>said.{at}" for at, each in enumerate(words)]
    _project(folder, "\n".join(lines), way)
    done = planrunner(folder, "exec", "work", "--no-wait", "--json")
    assert done.returncode == 8, done.stdout + done.stderr
    return [(folder / f"said.{at}").read_text() for at in range(len(words))]


def test_the_table_has_a_command_for_each_act() -> None:
    assert PERSON_ONLY.keys() == COMMANDS.keys()


def test_a_task_does_nothing_that_people_alone_do(tmp_path: Path) -> None:
    words = [f"{PTY} {PROGRAM} {word}" if act == "sandbox" else word for act, word in COMMANDS.items()]
    words = [word.removeprefix(f"{PROGRAM} ") for word in words]
    lines = [word if word.startswith(PTY) else f"{PROGRAM} {word}" for word in words]
    lines = [f"{line} >said.{at} 2>&1 </dev/null; echo $? >>said.{at}" for at, line in enumerate(lines)]
    _project(tmp_path, "\n".join(lines))
    assert planrunner(tmp_path, "exec", "work", "--no-wait").returncode == 8
    for at, act in enumerate(COMMANDS):
        said = (tmp_path / f"said.{at}").read_text()
        assert f"may not {PERSON_ONLY[act].what}: only a person may (run.person)" in said, (act, said)
        assert PERSON_ONLY[act].how in said and said.splitlines()[-1] == "12", (act, said)


@pytest.mark.parametrize("way", ["without the variables", "let go of twice"])
def test_no_way_of_starting_a_process_makes_it_a_person(tmp_path: Path, way: str) -> None:
    (said,) = _said(tmp_path, WAYS[way], "approve $R ok --as ana")
    assert "run.person" in said and said.endswith("\n12\n"), said
    assert not (tmp_path / "published").exists()


def test_a_task_does_not_abandon_what_waits_for_people(tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / "planrunner.yaml").write_text("{}\n")
    (tmp_path / "plans" / "other.yaml").write_text(
        "plan: other\ndefaults: {timeout: 2m}\ntasks:\n  - {id: ok, gate: approval, ask: Go on}\n"
        f"  - {{id: work, run: 'until {PROGRAM} gates --json | grep -q run_id; do sleep 0.02; done; "
        f"{PROGRAM} cancel $PLANRUNNER_RUN_ID --task ok >said 2>&1 || true'}}\n"
    )
    assert planrunner(tmp_path, "exec", "other", "--no-wait").returncode == 8
    said = (tmp_path / "said").read_text()
    assert "`ok` waits for people" in said and "run.person" in said
    assert planrunner(tmp_path, "cancel", "last", "--task", "ok").returncode == 0


HIDDEN = {
    "without processes": "unshare -Urm sh -c 'mount -t tmpfs x /proc; exec sh attempt.sh'",
    "in a namespace of processes": "unshare -Urpf --mount-proc sh attempt.sh",
    "with the processes of another namespace": "unshare -Urpf sh attempt.sh",
    "with forged limits": "unshare -Urpf --mount-proc sh -c 'sed s/./x/g /proc/1/limits >limits; "
    "for each in $(seq 1 40); do (mount --bind limits /proc/$each/limits) 2>/dev/null; done; exec sh attempt.sh'",
}


@pytest.mark.skipif(
    subprocess.run(["unshare", "-Urpf", "--mount-proc", "true"], check=False, capture_output=True).returncode != 0,
    reason="this user makes no namespaces here",
)
@pytest.mark.parametrize("name", HIDDEN)
def test_a_task_that_hides_what_started_it_is_not_a_person(tmp_path: Path, name: str) -> None:
    for said in _said(tmp_path, HIDDEN[name], "approve $R ok --as ana", "token create evil --scope admin"):
        assert "run.person" in said and said.endswith("\n12\n"), said
    assert not (tmp_path / "published").exists()


def test_a_program_that_embeds_planrunner_marks_its_tasks_for_good(tmp_path: Path) -> None:
    _project(
        tmp_path, "until grep -q 'file locks *1 ' /proc/$$/limits; do sleep 0.02; done; cat /proc/$$/limits >limits"
    )
    script = "from planrunner.embed import run\nrun('plans/work.yaml')\nprint(open('/proc/self/limits').read())"
    (tmp_path / "plans" / "work.yaml").write_text("plan: w\ntasks: [{id: a, run: sh attempt.sh, timeout: 1m}]\n")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    locks = [next(each for each in text.splitlines() if "file locks" in each) for text in
             ((tmp_path / "limits").read_text(), done.stdout)]  # fmt: skip
    assert locks[0].split()[3:5] == ["1", "1"]
    assert locks[1].split()[3:5] == [str(_inherited())] * 2


def _inherited() -> str:
    hard = resource.getrlimit(10)[1]
    return "unlimited" if hard < 0 else str(hard)


def test_a_person_may_have_limits_of_a_session(tmp_path: Path) -> None:
    _project(tmp_path, "true")
    assert planrunner(tmp_path, "exec", "other", "--no-wait").returncode == 8
    done = subprocess.run(
        ["bash", "-c", f"ulimit -R 200000; ulimit -x 1000; exec {PROGRAM} approve last ok"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_process_that_runs_tasks_does_not_ask_for_a_person(tmp_path: Path) -> None:
    state = tmp_path / ".planrunner"
    state.mkdir()
    mark = RunnerMark(str(state), "")
    try:
        with asked_by(lambda: [os.getpid()]), pytest.raises(Denied, match="a process that runs tasks"):
            require_person("vote", str(state))
        require_person("vote", str(state))
    finally:
        mark.close()


def test_what_a_task_leaves_behind_when_its_runner_has_gone_is_not_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persons, "_TEMPORARY", ())  # a home of the caller may lie there too
    leaves = WAYS["let go of twice"].replace(
        "sh attempt.sh",
        "sh -c 'echo >done; exec sleep 60' </dev/null >/dev/null 2>&1",  # only then is it let go of
    )
    _project(tmp_path, "true", leaves)
    with given_to_init():
        assert planrunner(tmp_path, "exec", "work", "--no-wait").returncode == 8
    left = awaited(lambda: _sleeping_in(tmp_path))
    try:
        with asked_by(lambda: left), pytest.raises(Denied, match=r"left behind.* may not decide a gate"):
            require_person("vote", str(tmp_path / ".planrunner"))
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)


def _sleeping_in(folder: Path) -> list[int]:
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _is_sleeping_in(pid, folder)]


def _is_sleeping_in(pid: str, folder: Path) -> bool:
    try:
        name, at = Path(f"/proc/{pid}/comm").read_text().strip(), os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False
    return (name, at) == ("sleep", str(folder))


def test_a_task_looks_and_runs_plans_as_ever_and_the_person_decides(tmp_path: Path) -> None:
    words = ("show $R", "gates", "budget $R", "token list", "memory put word x", "exec plans/other.yaml --no-wait")
    ends = [said.splitlines()[-1] for said in _said(tmp_path, WAYS["plainly"], *words)]
    assert ends == ["0", "0", "0", "0", "0", "8"]
    runs = json.loads(planrunner(tmp_path, "gates", "--json").stdout)["gates"]
    for gate in runs:
        assert planrunner(tmp_path, "approve", gate["run_id"], "ok", "--resume").returncode == 0
    assert (tmp_path / "published").exists()


def test_a_run_inside_a_run_has_no_person_either(tmp_path: Path) -> None:
    inner = "exec plans/other.yaml --no-wait"
    (_, said) = _said(tmp_path, WAYS["plainly"], inner, "approve last ok")
    assert "run.person" in said


def test_another_project_of_the_same_user_is_not_decided_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data" / "planrunner"
    data.mkdir(parents=True)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    above = Runner(os.getppid(), identity(str(tmp_path)), identity(str(data)))
    other = tmp_path / "other"
    other.mkdir()
    assert not persons._counts(above, str(other)), "a task tries things out in folders for temporary files"
    monkeypatch.setenv("XDG_DATA_HOME", "/usr/share")
    assert persons._counts(above, str(other)), "what a user has elsewhere is not tried out"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "else"))
    assert not persons._counts(above, str(other)), "a user of its own making"
    assert persons._counts(above, "/usr"), "a project that is not tried out, whatever the user"
    assert persons._counts(above, str(tmp_path)), "its own runs"


def test_tests_of_a_project_decide_in_projects_of_their_own_inside_a_run(tmp_path: Path) -> None:
    _project(tmp_path, "true")
    inner = tmp_path / "inner"
    inner.mkdir()
    home = f"XDG_DATA_HOME={tmp_path}/home"
    script = (
        f"cd inner; export {home}; {PROGRAM} exec plans/other.yaml --no-wait; {PROGRAM} approve last ok --resume "
        ">../said 2>&1; echo $? >>../said; cd .."
    )
    _project(inner, "true")
    _project(tmp_path, script)
    assert planrunner(tmp_path, "exec", "work", "--no-wait").returncode == 8
    assert (tmp_path / "said").read_text().splitlines()[-1] == "0", (tmp_path / "said").read_text()


def test_what_a_shell_with_the_variables_of_a_run_asks_is_of_that_run(tmp_path: Path) -> None:
    _said(tmp_path, WAYS["plainly"], "show $R")
    run = json.loads(planrunner(tmp_path, "gates", "--json").stdout)["gates"][0]["run_id"]
    refused = planrunner(tmp_path, "approve", run, "ok", PLANRUNNER_RUN_ID=run)
    assert refused.returncode == 12 and f"a process of the run {run} may not decide a gate" in refused.stderr
    assert planrunner(tmp_path, "approve", run, "ok", PLANRUNNER_RUN_ID="of-another-project").returncode == 0


ASKS = """
import http.client, json, os, socket, sys
port, api, token, way = sys.argv[1:]
head = {"authorization": "Bearer " + token} if token else {}
def ask(method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    data = None if body is None else json.dumps(body)
    connection.request(method, api + path, data, {**head, "content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())
run = os.environ["R"]
import time
while not (gates := ask("GET", "/gates")[1]["gates"]):
    time.sleep(0.05)
body = json.dumps({"shown": gates[0]["shown"]})
if way == "gone":
    lines = ["POST %s/runs/%s/gates/ok/approve HTTP/1.1" % (api, run), "Host: 127.0.0.1:" + port, "Connection: close",
             "Content-Type: application/json", "Content-Length: %d" % len(body), *("%s: %s" % each for each in head.items())]
    raw = socket.create_connection(("127.0.0.1", int(port)))
    raw.sendall(("\\r\\n".join(lines) + "\\r\\n\\r\\n" + body).encode())
    raw.close()
    print("gone")
else:
    print(json.dumps([ask("POST", "/runs/%s/gates/ok/approve" % run, json.loads(body)),
        ask("POST", "/runs/%s/budget" % run, {"add": {"tokens": 5}}),
        ask("PUT", "/memory/word", {"value": "x", "trusted": True}),
        ask("PUT", "/memory/word", {"value": "x"})]))
"""


@pytest.mark.parametrize(("token", "way"), [(False, "plainly"), (True, "let go of twice"), (False, "gone")])
def test_the_service_tells_a_task_at_the_other_end(tmp_path: Path, token: bool, way: str) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "planrunner.yaml").write_text("{}\n")
    (folder / "asks.py").write_text(ASKS)
    with serving(folder) as served:
        text = served.make_token("ana", "--scope", "admin") if token else ""
        served.token = text
        words = f"{served.port} {served.api} '{text}' {'gone' if way == 'gone' else 'stays'}"
        _project(folder, f"{sys.executable} asks.py {words} >answers 2>&1", WAYS.get(way, WAYS["plainly"]))
        run = served.start("plans/work.yaml")
        awaited((folder / "done").exists)
        if way == "gone":
            assert (folder / "answers").read_text().strip() == "gone", (folder / "answers").read_text()
        else:
            answers: list[tuple[int, Any]] = json.loads((folder / "answers").read_text())
            assert [status for status, _ in answers] == [403, 403, 403, 200], answers
            assert all("run.person" in each["detail"] for _, each in answers[:3])
        served.settled(run)
        assert not (folder / "published").exists()
        shown = served.get(f"{served.api}/gates").data["gates"][0]["shown"]
        assert served.post(f"{served.api}/runs/{run}/gates/ok/approve", {"shown": shown}).status == 200
        awaited(lambda: served.run(run)["status"] == "completed")
        assert (folder / "published").exists()


def test_a_program_that_embeds_planrunner_starts_processes_of_people(tmp_path: Path) -> None:
    _project(tmp_path, "true")
    (tmp_path / "plans" / "gated.yaml").write_text(
        json.dumps(
            {
                "plan": "gated",
                "defaults": {"timeout": "1m"},
                "tasks": [
                    {"id": "ok", "gate": "approval", "ask": "Go?"},
                    {"id": "stands", "run": "until test -e go; do sleep 0.02; done"},
                ],
            }
        )
    )
    script = f"""
import subprocess, sys, threading, time
from planrunner.embed import run
thread = threading.Thread(target=run, args=("plans/gated.yaml",))
thread.start()
while subprocess.run("{PROGRAM} gates --json | grep -q run_id", shell=True).returncode:
    time.sleep(0.05)
code = subprocess.run("{PROGRAM} approve last ok", shell=True).returncode
open("go", "w").close()
thread.join()
sys.exit(code)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
