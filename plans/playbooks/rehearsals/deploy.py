"""The playbook `deploy` on one machine.

Real: the service, a program of this project, each pod of it a process; the balancer, through which every request goes;
clients that ask for a page while the command runs; the numbers of the comparison, which the balancer counts.

Stand-ins: the programs docker and kubectl; the controller, which starts and stops pods as a cluster does (new ones
first); Prometheus, which knows the three queries of the playbook and answers them from what the balancer has counted.

Version 1 is running when the rehearsal begins. `app/server.py` is the service: the next version does what stands there.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from planrunner.testing.rehearsal import Scene, rehearse

sys.path.append(str(Path(__file__).resolve().parents[1] / "parts" / "deploy"))

import recording_clients

SERVER = """\
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"What would you like to buy?\\n")

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
print(server.server_port, flush=True)
server.serve_forever()
"""
DOCKERFILE = 'FROM python:3.13-slim\nCOPY server.py .\nCMD ["python", "server.py"]\n'


def prepare(scene: Scene) -> None:
    clients = scene.folder / "build" / "clients"
    if scene.new:
        scene.write({"app/server.py": SERVER, "app/Dockerfile": DOCKERFILE})
        recording_clients.install(str(clients))
        (clients / "world.json").write_text(json.dumps(running_before()))
    scene.environment["PATH"] = f"{clients}:{scene.environment['PATH']}"
    balancer = Balancer()
    controller = Controller(clients, balancer)
    scene.at_end(controller.stop)
    url = scene.serve(balancer.handler())
    controller.wait()
    scene.at_end(Clients(url, scene.folder / "build" / "failed").stop)
    scene.arguments += ["-p", "version=2", "-p", "context=app", "-p", "replicas=3", "-p", f"prometheus={url}"]
    scene.arguments += ["-p", "window=1s", "-p", "requests=5", "-p", "latency=100"]


def running_before() -> dict[str, Any]:
    """The world that the stand-ins begin with: three pods of version 1."""
    labels = {"app": "web", "track": "stable"}
    pod = {"name": "web", "image": "shop/web:1", "ports": [{"containerPort": 8080}]}
    pod["readinessProbe"] = {"httpGet": {"path": "/", "port": 8080}}
    files = {"Dockerfile": DOCKERFILE, "server.py": SERVER}
    world: dict[str, Any] = {"controlled": True, "objects": {}}
    world["images"] = {"sha256:1": {"RepoTags": ["shop/web:1"], "Config": {"Labels": {}}, "Files": files}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": labels},
        "spec": {
            "replicas": 3,
            "strategy": {"rollingUpdate": {"maxUnavailable": 0}},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [pod]}},
        },
    }
    recording_clients.store(world, deployment, "kubectl", "apply")
    return world


class Pod:
    """A process of the service; ``of`` is its Deployment, ``form`` the template it was made from."""

    def __init__(self, of: str, template: dict[str, Any], files: dict[str, str], folder: Path) -> None:
        self.of, self.form, self.track = of, json.dumps(template), template["metadata"]["labels"]["track"]
        self.asked = 0
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        command = [sys.executable, "-I", "server.py"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline() or 0)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class Answered(NamedTuple):
    at: float
    track: str
    code: int
    took: float


class Balancer:
    """Hands each request to the next pod, and counts the answers."""

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        self.answered: list[Answered] = []
        self.lock = threading.Lock()
        self._turn = itertools.count()

    def get(self, path: str) -> tuple[int, bytes]:
        with self.lock:
            if not self.pods:
                return 503, b"no pod is ready\n"
            pod = self.pods[next(self._turn) % len(self.pods)]
            pod.asked += 1
        began = time.monotonic()
        code, body = 502, b"the pod does not answer\n"
        try:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", pod.port, timeout=30)
                connection.request("GET", path)
                answer = connection.getresponse()
                code, body = answer.status, answer.read()
                connection.close()
        finally:
            with self.lock:
                pod.asked -= 1
        now = time.monotonic()
        self.answered.append(Answered(now, pod.track, code, now - began))
        return code, body

    def query(self, query: str) -> list[dict[str, Any]]:
        """What Prometheus would answer to a query of the playbook."""
        unit = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
        amount, name = re.findall(r"\[(\d+)(ms|s|m|h)\]", query)[0]
        since = time.monotonic() - int(amount) * unit[name]
        tracks: dict[str, list[Answered]] = {}
        for each in self.answered:
            if each.at >= since:
                tracks.setdefault(each.track, []).append(each)
        if query.startswith("sum(increase("):
            return [{"metric": {}, "value": [0, str(len(tracks.get("canary", ())))]}]
        value = percentile if query.startswith("histogram_quantile(0.95") else error_rate
        return [{"metric": {"track": track}, "value": [0, str(value(all_))]} for track, all_ in sorted(tracks.items())]

    def handler(self) -> type[BaseHTTPRequestHandler]:
        balancer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                place = urlsplit(self.path)
                if place.path == "/api/v1/query":
                    result = balancer.query(parse_qs(place.query)["query"][0])
                    code, body = 200, json.dumps({"status": "success", "data": {"result": result}}).encode()
                else:
                    code, body = balancer.get(self.path)
                self.send_response(code)
                self.send_header("Content-Type", "application/json" if place.path.startswith("/api/") else "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        return Handler


def error_rate(answered: list[Answered]) -> float:
    return sum(each.code >= 500 for each in answered) / len(answered)


def percentile(answered: list[Answered]) -> float:
    return sorted(each.took for each in answered)[int(0.95 * (len(answered) - 1))]


class Controller:
    """Makes the pods what the Deployments say: new ones are ready before old ones leave the balancer."""

    def __init__(self, clients: Path, balancer: Balancer) -> None:
        self._clients, self._balancer = clients, balancer
        self._pods: list[Pod] = []
        self._number = itertools.count()
        self._ended, self._settled = threading.Event(), threading.Event()
        self._folder = clients.with_name("pods") / str(os.getpid())
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until all Deployments are complete."""
        if not self._settled.wait(60):
            raise RuntimeError("the pods do not become ready")

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        for pod in self._pods:
            pod.end()

    def _work(self) -> None:
        while not self._ended.wait(0.02):
            world = json.loads((self._clients / "world.json").read_text())
            deployments = {key: each for key, each in world["objects"].items() if each["kind"] == "Deployment"}
            self._hand_over(deployments)
            for key, each in deployments.items():
                self._start(key, each["spec"], world["images"])
            self._tell(deployments)
            if self._balancer.pods:
                self._settled.set()

    def _start(self, key: str, spec: dict[str, Any], images: dict[str, Any]) -> None:
        image = spec["template"]["spec"]["containers"][0]["image"]
        files = next((each["Files"] for each in images.values() if image in each["RepoTags"]), None)
        form = json.dumps(spec["template"])
        missing = spec["replicas"] - sum(pod.of == key and pod.form == form for pod in self._pods)
        for _ in range(missing if files else 0):
            self._pods.append(Pod(key, spec["template"], files or {}, self._folder / str(next(self._number))))

    def _hand_over(self, deployments: dict[str, Any]) -> None:
        """Have the balancer ask the pods of today alone; the others end when they have answered."""
        ready = {key: len(self._newest(key, each)) for key, each in deployments.items()}
        complete = {key for key, each in deployments.items() if ready[key] >= each["spec"]["replicas"] - spare(each)}
        newest = [pod for key in complete for pod in self._newest(key, deployments[key])]
        behind = [pod for pod in self._pods if pod.of in deployments and pod.of not in complete]
        with self._balancer.lock:
            self._balancer.pods = newest + [pod for pod in behind if pod.port]
        for pod in [pod for pod in self._pods if pod not in self._balancer.pods]:
            with self._balancer.lock:
                idle = not pod.asked
            if idle:
                pod.end()
                self._pods.remove(pod)

    def _newest(self, key: str, deployment: dict[str, Any]) -> list[Pod]:
        form = json.dumps(deployment["spec"]["template"])
        return [pod for pod in self._pods if pod.of == key and pod.form == form and pod.port]

    def _tell(self, deployments: dict[str, Any]) -> None:
        """Write into the status of each Deployment how many of its pods are ready."""
        statuses = {}
        for key, each in deployments.items():
            ready = dict.fromkeys(("updatedReplicas", "availableReplicas"), len(self._newest(key, each)))
            statuses[key] = {"observedGeneration": each["metadata"]["generation"], **ready}
        if all(each.get("status") == statuses[key] for key, each in deployments.items()):
            return
        path = self._clients / "world.json"
        with recording_clients.locked(str(self._clients)):
            world = json.loads(path.read_text())
            for key, status in statuses.items():
                if key in world["objects"]:
                    world["objects"][key]["status"] = status
            path.with_suffix(".new").write_text(json.dumps(world))
            path.with_suffix(".new").replace(path)


def spare(deployment: dict[str, Any]) -> int:
    """How many pods may be missing: all, in the worst case, of a Deployment that says nothing."""
    spec = deployment["spec"]
    given = spec.get("strategy", {}).get("rollingUpdate", {}).get("maxUnavailable")
    return int(spec["replicas"] if given is None else given)


class Clients:
    """Ask for a page until the end. ``log`` is a file of the requests that failed, a line each."""

    def __init__(self, url: str, log: Path) -> None:
        self._place, self._log = urlsplit(url).netloc, log
        self._asked, self._failed = itertools.count(), itertools.count()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(4)]
        for thread in self._threads:
            thread.start()

    def _ask(self) -> None:
        while not self._ended.wait(0.01):
            next(self._asked)
            connection = http.client.HTTPConnection(self._place, timeout=30)
            try:
                connection.request("GET", "/")
                answer = connection.getresponse()
                said = "" if answer.status == 200 else f"{answer.status} {answer.read().decode().splitlines()[0]}"
            except OSError as error:
                said = str(error)
            finally:
                connection.close()
            if said:
                next(self._failed)
                with self._log.open("a") as log:
                    log.write(f"{said}\n")

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        sys.stderr.write(f"{next(self._asked)} requests during this command, {next(self._failed)} failed\n")


if __name__ == "__main__":
    rehearse(prepare, __file__)
