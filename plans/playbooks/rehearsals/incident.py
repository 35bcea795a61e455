"""A service that answers with errors since a bad configuration was deployed.

Real: the service, a process that answers on loopback, writes a log and reads its configuration when it starts; the
repository with the history of the configuration; the receiver of notices. A thread of the rehearsal starts and restarts
the service, as systemd would. Scripted: the model.

The variable BROKEN is config (default), gone (the service does not run) or nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from planrunner.testing.rehearsal import Scene, rehearse
from planrunner.testing.scripted_model import Heard

SERVICE = '''"""The price of what costs 100, with tax."""

import json
import pathlib
import sys
import traceback
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONFIG = json.loads(pathlib.Path("config.json").read_text())


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            status, text = 200, f"{100 * (1 + CONFIG['tax']):.2f}"
        except Exception as error:
            status, text = 500, "error"
            with open("service.log", "a") as log:
                log.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} ERROR {self.path}: {error!r}\\n")
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
server.serve_forever()
'''
GOOD, BAD = '{"tax": 0.19}\n', '{"tax": "19%"}\n'
RESTART = "touch restart; while [ -e restart ]; do sleep 0.05; done"


class Keeper:
    """Starts the service, and starts it again where a file `restart` asks for it, until ``close``."""

    def __init__(self, folder: Path, port: int, runs: bool) -> None:
        self._folder, self._port = folder, port
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = threading.Event()
        self._asked = folder / "restart"
        if runs:
            self._start()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-B", "service.py", str(self._port)], cwd=self._folder)
        while self._process.poll() is None:
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.02)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def _watch(self) -> None:
        while not self._closed.wait(0.02):
            if self._asked.exists():
                self._stop()
                self._start()
                self._asked.unlink()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._stop()


def port_of(folder: Path) -> int:
    """The port of the service: the same at each call."""
    path = folder / "service.port"
    if not path.exists():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            path.write_text(str(free.getsockname()[1]))
    return int(path.read_text())


def answer(heard: Heard) -> Any:
    gone = "10 are not answered" in heard.said()
    because = "No request is answered." if gone else "The tax is a text since the last change, and cannot be added."
    since = next((line.split(" ERROR")[0] for line in heard.said().splitlines() if " ERROR" in line), "unknown")
    cause = "process" if gone else "config"
    return [("answer", {"broken": "Prices are not answered", "since": since, "cause": cause, "why": because})]


def prepare(scene: Scene) -> None:
    broken = os.environ.get("BROKEN", "config")
    received = scene.folder / "notices.txt"

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = json.loads(self.rfile.read(int(self.headers["content-length"])))["text"]
            with received.open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    scene.model(answer)
    notify = scene.serve(Receiver)
    if scene.new:
        ignored = "service.log\nservice.port\nrestart\nnotices.txt\nplanrunner.yaml\nplans/\n.planrunner/\n"
        scene.write({".gitignore": ignored, "service.py": SERVICE, "config.json": '{"tax": 0.16}\n', "service.log": ""})
        scene.git("init", "-q", "-b", "main")
        scene.git("add", "-A")
        scene.git("commit", "-qm", "Prices")
        scene.write({"config.json": GOOD})
        scene.git("commit", "-qam", "The tax is 19 percent")
        if broken == "config":
            now = f"{int(time.time()) - 600} +0000"
            scene.write({"config.json": BAD})
            scene.git("commit", "-qam", "Write the tax as people do", GIT_AUTHOR_DATE=now, GIT_COMMITTER_DATE=now)
    port = port_of(scene.folder)
    scene.settings["network"]["private"].append(f"127.0.0.1:{port}")
    keeper = Keeper(scene.folder, port, broken != "gone" or not scene.new)
    scene.at_end(keeper.close)
    if scene.new and broken == "config":
        for _ in range(3):  # customers
            with contextlib.suppress(urllib.error.HTTPError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/price").close()
    scene.arguments += ["-p", f"url=http://127.0.0.1:{port}/price", "-p", "config=config.json", "-p", "log=service.log"]
    scene.arguments += ["-p", f"restart={RESTART}", "-p", f"notify={notify}"]


if __name__ == "__main__":
    rehearse(prepare, __file__)
