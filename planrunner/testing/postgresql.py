"""A PostgreSQL server for rehearsals and tests, on a free port of 127.0.0.1.

    with Server(folder) as server:
        server.environment   # PGHOST, PGPORT, PGUSER and PGPASSWORD, as psql reads them
        server.address       # postgresql://…/postgres

The folder keeps the data: the next server of the same folder has the same port, password and databases. Started by root
it runs as the user ``postgres``, who has to be able to reach the folder. Needs the programs of PostgreSQL; raises
FileNotFoundError where there are none, RuntimeError where the server does not start.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

USER = "planner"
_START = 60.0


def programs() -> str:
    """The folder of PostgreSQL's programs; Debian does not put it on the PATH. Raises FileNotFoundError."""
    initdb = shutil.which("initdb")
    if initdb:
        return os.path.dirname(os.path.realpath(initdb))
    folders = glob.glob("/usr/lib/postgresql/*/bin")
    if not folders:
        raise FileNotFoundError("PostgreSQL is not installed")
    return max(folders, key=lambda folder: int(folder.split("/")[4]))


def free_port() -> int:
    """A port below those that the system gives to others by itself, so no other program takes it first."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    """A server that runs until ``stop``, or until the end of a ``with`` block."""

    def __init__(self, folder: Path) -> None:
        self._programs = programs()
        self._owner = "postgres" if os.geteuid() == 0 else None  # the server refuses to be root
        self._data, known = folder / "data", folder / "login.json"
        if not known.exists():
            folder.mkdir(parents=True, exist_ok=True)
            password = secrets.token_urlsafe(12)
            self._make(folder, password)
            known.write_text(json.dumps({"port": free_port(), "password": password}))
        login = json.loads(known.read_text())
        self.port, self.password = int(login["port"]), str(login["password"])
        self._process = self._start(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead psql and the like to the server."""
        return {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": USER, "PGPASSWORD": self.password}

    @property
    def address(self) -> str:
        """The address of the database ``postgres``."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/postgres"

    def psql(self, statements: str, database: str = "postgres") -> str:
        """What psql prints for statements, bare; raises CalledProcessError."""
        words = [f"{self._programs}/psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database]
        environment = {**os.environ, **self.environment}
        done = subprocess.run(words, env=environment, input=statements, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # sessions are ended
            self._process.wait()

    def _make(self, folder: Path, password: str) -> None:
        words = folder / "password"
        words.write_text(password)
        if self._owner:
            shutil.chown(folder, self._owner)
            shutil.chown(words, self._owner)
        login = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={words}"]
        made = [f"{self._programs}/initdb", "-D", str(self._data), "-E", "UTF8", "-N", *login]
        subprocess.run(made, cwd=folder, user=self._owner, check=True, stdout=subprocess.DEVNULL)
        words.unlink()

    def _start(self, folder: Path) -> subprocess.Popen[bytes]:
        options = ("fsync=off", "log_min_messages=fatal", "listen_addresses=127.0.0.1", "unix_socket_directories=")
        settings = [part for option in options for part in ("-c", option)]
        process = subprocess.Popen(  # in a session of its own: Ctrl-C is for the command
            [f"{self._programs}/postgres", "-D", str(self._data), "-p", str(self.port), *settings],
            cwd=folder,
            user=self._owner,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        asks = [f"{self._programs}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        end = time.monotonic() + _START
        while subprocess.run(asks, check=False).returncode:
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                raise RuntimeError("the PostgreSQL server did not start")
            time.sleep(0.05)
        return process
