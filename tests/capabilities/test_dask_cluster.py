"""``dask.run`` on real clusters of loopback: fan-out, loss of each part, stops, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from canaries import canary
from workbench import ROOT, environment, planrunner

pytest.importorskip("distributed")

from planrunner.testing.dask import Cluster

PATIENCE = 240.0
TASK = {"uses": "dask.run", "timeout": "5m"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers that no test harms; the first has a GPU."""
    with Cluster(tmp_path_factory.mktemp("dask"), ("gpu=1", ""), environment=environment()) as cluster:
        yield cluster


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Cluster]:
    """Two workers with one thread each, for a test that kills some part."""
    with Cluster(tmp_path / "dask", threads=1, environment=environment()) as cluster:
        yield cluster


def _project(folder: Path, cluster: Cluster | str, *tasks: dict[str, Any], **keys: Any) -> None:
    address = cluster if isinstance(cluster, str) else cluster.address
    (folder / "planrunner.yaml").write_text(json.dumps({"dask": {"scheduler": address}}))
    (folder / "p.json").write_text(json.dumps({"plan": "p", "tasks": [{**TASK, **task} for task in tasks], **keys}))


def _exec(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    ended = planrunner(folder, *(words or ("exec", "p.json")), "--json")
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def _started(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """The command while it runs."""
    command = (sys.executable, "-m", "planrunner", *words)
    with (folder / "said").open("wb") as said:
        return subprocess.Popen(
            command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )


def _until(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while not (seen := look()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
    return seen


def _number(path: Path) -> int:
    """The number that a script wrote, once it is there."""
    return int(_until(lambda: path.exists() and path.read_text().endswith("\n") and path.read_text()))


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _worker_with(cluster: Cluster, pid: int) -> subprocess.Popen[bytes]:
    """The worker whose child a process is."""
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return next(worker for worker in cluster.workers if worker.pid == parent)


WAITING = "echo $$ > pid.new; mv pid.new pid; echo x >> begun; sleep 600"
"""A script that says who it is, and waits."""


def test_a_hundred_scripts_run_on_both_workers(shared: Cluster, tmp_path: Path) -> None:
    script = 'sleep 0.05; echo "$N" > "out/$N"; echo "$N"'
    (tmp_path / "out").mkdir()
    each = {"id": "one", "foreach": list(range(100)), "as": "n", "max_parallel": 8}
    _project(tmp_path, shared, {**each, "with": {"script": script, "env": {"N": "{{ n }}"}}}, max_parallel=8)
    code, told = _exec(tmp_path)
    assert code == 0
    outputs = [item["outputs"] for name, item in told["tasks"].items() if name.startswith("one[")]
    assert sorted(int(item["stdout"]) for item in outputs) == list(range(100))
    assert len({item["worker"] for item in outputs}) == 2
    assert len(list((tmp_path / "out").iterdir())) == 100


def test_resources_choose_the_worker_and_those_that_none_has_are_told_at_once(shared: Cluster, tmp_path: Path) -> None:
    gpu = {"id": "gpu", "foreach": [1, 2, 3], "with": {"script": "echo here", "resources": {"gpu": 1}}}
    tpu = {"id": "tpu", "with": {"script": "echo here", "resources": {"gpu": 1, "tpu": 2}}, "allow_failure": True}
    _project(tmp_path, shared, gpu, tpu)
    code, told = _exec(tmp_path)
    assert code == 0
    assert len({item["outputs"]["worker"] for name, item in told["tasks"].items() if name.startswith("gpu[")}) == 1
    assert "no worker has the resources gpu=1, tpu=2; the workers have: none; gpu=1" in told["tasks"]["tpu"]["detail"]


def test_outputs_variables_and_exit_codes_are_those_of_a_script(shared: Cluster, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    fine = {
        "id": "fine",
        "cwd": "sub",
        "env": {"A": "a"},
        "with": {"script": 'echo "$A$B"; pwd', "env": {"B": [1, "x"]}},
    }
    long = {"id": "long", "with": {"script": "yes | head -c 3000000; echo end >&2"}}
    bad = {"id": "bad", "with": {"arguments": ["sh", "-c", "echo oops >&2; exit 3"]}, "allow_failure": True}
    later = {"id": "later", "with": {"script": "exit 75"}, "allow_failure": True}
    none = {"id": "none", "with": {"arguments": ["no-such-program"]}, "allow_failure": True}
    _project(tmp_path, shared, fine, long, bad, later, none)
    code, told = _exec(tmp_path)
    assert code == 0, told
    tasks = told["tasks"]
    assert tasks["fine"]["outputs"]["stdout"] == f'a[1, "x"]\n{tmp_path}/sub\n'
    assert len(tasks["long"]["outputs"]["stdout"]) < 70_000
    assert tasks["bad"]["detail"] == "exit code 3: oops"
    assert (tasks["later"]["failure"], tasks["none"]["failure"]) == ("transient", "logic")
    assert "no-such-program" in tasks["none"]["detail"]
    assert "more bytes were not kept" in planrunner(tmp_path, "logs", "last", "long").stdout


@pytest.mark.parametrize("kind", ["timeout", "cancel"])
def test_a_stop_ends_the_program_before_the_task_ends(kind: str, shared: Cluster, tmp_path: Path) -> None:
    stubborn = f"trap '' TERM; (sleep 600 & echo $! > child.new; mv child.new child); {WAITING}"
    limit = {"timeout": "3s"} if kind == "timeout" else {}
    _project(tmp_path, shared, {"id": "slow", **limit, "with": {"script": stubborn}})
    run = _started(tmp_path, "exec", "p.json", "--json")
    pids = [_number(tmp_path / "pid"), _number(tmp_path / "child")]
    if kind == "cancel":
        assert planrunner(tmp_path, "cancel", "last").returncode == 0
    run.wait(PATIENCE)
    told = json.loads((tmp_path / "said").read_text().partition("\n{")[2].join(("{", "")) or "{}")
    assert all(map(_is_gone, pids))
    assert told["tasks"]["slow"]["status"] == {"timeout": "failed", "cancel": "cancelled"}[kind]


def test_a_killed_runner_leaves_no_program_and_the_run_goes_on(shared: Cluster, tmp_path: Path) -> None:
    waits = f"[ -e go ] || {{ {WAITING}; }}"
    first = {"id": "first", "with": {"script": "echo x >> first"}}
    _project(
        tmp_path, shared, first, {"id": "slow", "needs": ["first"], "on_doubt": "retry", "with": {"script": waits}}
    )
    run = _started(tmp_path, "exec", "p.json")
    pid = _number(tmp_path / "pid")
    run.kill()
    run.wait()
    _until(lambda: _is_gone(pid))
    (tmp_path / "go").touch()
    code, told = _exec(tmp_path, "resume", "last", "--unattended")
    assert (code, told["status"]) == (0, "completed")
    assert (tmp_path / "first").read_text() == "x\n"


def test_a_runner_that_takes_over_waits_for_what_the_killed_one_began(shared: Cluster, tmp_path: Path) -> None:
    """The earlier attempt takes a while to end: the later one does not run beside it."""
    script = "echo in >> turns; trap 'sleep 0.3; echo out >> turns; exit 1' TERM; [ -e go ] || { echo $$ > pid.new; mv pid.new pid; sleep 600 & wait; }; echo out >> turns"
    _project(tmp_path, shared, {"id": "slow", "on_doubt": "retry", "with": {"script": script}})
    run = _started(tmp_path, "exec", "p.json")
    _number(tmp_path / "pid")
    (tmp_path / "go").touch()
    run.kill()
    run.wait()
    code, _ = _exec(tmp_path, "resume", "last", "--unattended")
    assert code == 0
    assert (tmp_path / "turns").read_text().split() == ["in", "out", "in", "out"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("effect", ["unsafe", "idempotent"])
def test_a_lost_worker_takes_the_program_along_and_only_what_may_be_repeated_is(
    how: signal.Signals, effect: str, own: Cluster, tmp_path: Path
) -> None:
    once = {"id": "slow", "effect": effect, "with": {"script": f"[ -e begun ] || {{ {WAITING}; }}"}}
    _project(tmp_path, own, once)
    run = _started(tmp_path, "exec", "p.json", "--json")
    pid = _number(tmp_path / "pid")
    _worker_with(own, pid).send_signal(how)
    code = run.wait(PATIENCE)
    _until(lambda: _is_gone(pid))
    assert (tmp_path / "begun").read_text() == "x\n"
    assert code == (0 if effect == "idempotent" else 1), (tmp_path / "said").read_text()
    if effect == "unsafe":
        assert "lost" in planrunner(tmp_path, "why", "last", "slow").stdout


def test_a_lost_worker_is_told_also_where_it_was_the_only_one_and_another_route_takes_over(
    own: Cluster, tmp_path: Path
) -> None:
    own.workers[1].kill()
    slow = {"id": "slow", "with": {"script": WAITING}, "allow_failure": True}
    slow["next"] = [{"on": "lost", "to": "look"}]
    _project(tmp_path, own, slow, {"id": "look", "uses": "noop"})
    run = _started(tmp_path, "exec", "p.json")
    pid = _number(tmp_path / "pid")
    own.workers[0].kill()
    assert run.wait(PATIENCE) == 0, (tmp_path / "said").read_text()
    _until(lambda: _is_gone(pid))
    assert planrunner(tmp_path, "show", "last", "--json").stdout.count('"completed"') >= 2


def test_what_waited_for_a_lost_worker_runs_on_another(own: Cluster, tmp_path: Path) -> None:
    """Both workers are busy: what Dask put behind the program that is lost never began, and is not lost with it."""
    script = 'echo "$N" >> began; echo $$ > "pid.$N"; while [ ! -e go ]; do sleep 0.05; done'
    each = {"id": "one", "foreach": list(range(8)), "as": "n", "max_parallel": 8, "allow_failure": True}
    _project(tmp_path, own, {**each, "with": {"script": script, "env": {"N": "{{ n }}"}}}, max_parallel=8)
    run = _started(tmp_path, "exec", "p.json", "--json")
    _until(lambda: len(list(tmp_path.glob("pid.*"))) == 2)
    own.workers[0].kill()
    own.workers[0].wait()
    (tmp_path / "go").touch()
    run.wait(PATIENCE)
    assert sorted((tmp_path / "began").read_text().split()) == [str(n) for n in range(8)]
    said = (tmp_path / "said").read_text()
    assert said.count('"status": "completed"') >= 7, said


def test_a_lost_scheduler_ends_the_attempt_as_lost(own: Cluster, tmp_path: Path) -> None:
    _project(tmp_path, own, {"id": "slow", "with": {"script": WAITING}})
    run = _started(tmp_path, "exec", "p.json")
    pid = _number(tmp_path / "pid")
    own.scheduler.kill()
    assert run.wait(PATIENCE) == 1
    assert "is gone" in planrunner(tmp_path, "why", "last", "slow").stdout
    _until(lambda: _is_gone(pid))


def test_without_a_cluster_or_workers_it_says_so(tmp_path: Path) -> None:
    with Cluster(tmp_path / "dask", (), environment=environment()) as empty:
        _project(tmp_path, empty, {"id": "a", "with": {"script": "true"}})
        assert "has no workers" in _exec(tmp_path)[1]["tasks"]["a"]["detail"]
    assert "no Dask scheduler answers at" in _exec(tmp_path)[1]["tasks"]["a"]["detail"]


OTHER = {
    "another version": ("import planrunner\nplanrunner.__version__ = '9.9'\n", "has planrunner 9.9, not"),
    "none at all": (
        (
            "import sys\nclass Finder:\n    def find_spec(self, name, *_):\n"
            "        if name == 'planrunner':\n            raise ModuleNotFoundError(\"No module named 'planrunner'\")\n"
            "sys.meta_path.insert(0, Finder())\n"
        ),
        "No module named 'planrunner'",
    ),
}


@pytest.mark.parametrize("part", ["scheduler", "worker"])
@pytest.mark.parametrize("kind", OTHER)
def test_another_planrunner_on_the_cluster_is_refused(part: str, kind: str, tmp_path: Path) -> None:
    code, said = OTHER[kind]
    shim = tmp_path / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(code)
    odd = environment(PYTHONPATH=f"{shim}{os.pathsep}{ROOT}")
    whole, workers = (odd, ("",)) if part == "scheduler" else (environment(), ())
    with Cluster(tmp_path / "dask", workers, environment=whole) as cluster:
        if part == "worker":
            cluster.add(environment=odd)
        _project(tmp_path, cluster, {"id": "a", "with": {"script": "touch ran"}})
        assert said in _exec(tmp_path)[1]["tasks"]["a"]["detail"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("scheduler", "task", "rule"),
    [
        ("tcp://192.0.2.1:8786", {}, "dask.address"),
        ("tcp://127.0.0.1:1", {"policy": {"sandbox": True}}, "dask.confined"),
        ("tcp://127.0.0.1:1", {"policy": {"files": {"write": ["out/**"]}}}, "dask.confined"),
        ("tcp://127.0.0.1:1", {"secrets": ["key"]}, "dask.secret"),
        ("tls://127.0.0.1:1", {"secrets": {"KEY": {"id": "key", "as": "file"}}}, "dask.secret"),
    ],
)
def test_what_another_machine_does_not_hold_is_refused(
    scheduler: str, task: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    _project(tmp_path, scheduler, {"id": "a", "with": {"script": "true"}, **task})
    settings = json.loads((tmp_path / "planrunner.yaml").read_text())
    settings["provider_credentials"] = [{"id": "key", "auth": {"source": "env", "env_var": "DASK_TEST_KEY"}}]
    (tmp_path / "planrunner.yaml").write_text(json.dumps(settings))
    ended = planrunner(tmp_path, "exec", "p.json", "--json", DASK_TEST_KEY=canary("dask"))
    assert json.loads(ended.stdout)["tasks"]["a"]["failure"] == "policy", ended.stdout
    assert rule in planrunner(tmp_path, "events", "last", "--json").stdout


def test_secrets_reach_a_worker_by_tls_and_show_up_nowhere(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=dask")
    subprocess.run((*words, "-keyout", str(key), "-out", str(certificate)), check=True, capture_output=True)
    tls = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(certificate)}
    for part in ("SCHEDULER", "WORKER", "CLIENT"):
        tls[f"DASK_DISTRIBUTED__COMM__TLS__{part}__KEY"] = str(key)
        tls[f"DASK_DISTRIBUTED__COMM__TLS__{part}__CERT"] = str(certificate)
    with Cluster(tmp_path / "dask", ("",), environment=environment(**tls), protocol="tls") as cluster:
        assert cluster.address.startswith("tls://")
        script = 'test "$DASK_TEST_KEY" = "$(cat expected)"; echo "it is $DASK_TEST_KEY"'
        _project(tmp_path, cluster, {"id": "a", "secrets": ["key"], "with": {"script": script}})
        settings = json.loads((tmp_path / "planrunner.yaml").read_text())
        settings["provider_credentials"] = [{"id": "key", "auth": {"source": "env", "env_var": "DASK_TEST_KEY"}}]
        (tmp_path / "planrunner.yaml").write_text(json.dumps(settings))
        secret = canary("dask")
        (tmp_path / "expected").write_text(secret)
        ended = planrunner(tmp_path, "exec", "p.json", "--json", DASK_TEST_KEY=secret, **tls)
    assert json.loads(ended.stdout)["tasks"]["a"]["outputs"]["stdout"] == "it is [secret:key]\n", ended.stdout
    for log in (tmp_path / "dask").glob("*.log"):
        assert secret not in log.read_text()


def test_a_script_takes_no_templates(tmp_path: Path) -> None:
    _project(tmp_path, "tcp://127.0.0.1:1", {"id": "a", "with": {"script": "echo {{ params.x }}"}}, params={"x": "1"})
    assert "pass the value in `env`" in planrunner(tmp_path, "lint", "p.json").stdout
    assert "PLAN216" in planrunner(tmp_path, "lint", "p.json", "--format", "concise").stdout
