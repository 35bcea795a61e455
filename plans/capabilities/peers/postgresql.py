"""A PostgreSQL server to try plans on, in a scratch folder that goes away with it.

    python plans/capabilities/peers/postgresql.py

prints the address of a database named `shop` and serves it on 127.0.0.1 until it is stopped (Ctrl-C). Started by root
it runs as the user `postgres`.
"""

from __future__ import annotations

import contextlib
import glob
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

USER = "planner"


def programs() -> str:
    """The folder of PostgreSQL's programs; Debian does not put it on the PATH."""
    found = shutil.which("initdb")
    if found:
        return os.path.dirname(os.path.realpath(found))
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda folder: int(folder.split("/")[4]))
    if not folders:
        sys.exit("PostgreSQL is not installed")
    return folders[-1]


def free_port() -> int:
    """A port below those that the system gives to others by itself, so no other program takes it first."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def main() -> None:
    folder = tempfile.mkdtemp(prefix="planrunner-postgresql-", dir="/tmp")  # a socket's path has to be short
    password = secrets.token_urlsafe(12)
    words, data = os.path.join(folder, "password"), os.path.join(folder, "data")
    with open(words, "w", encoding="utf-8") as file:
        file.write(password)
    owner = "postgres" if os.geteuid() == 0 else None  # the server refuses to be root
    if owner:
        shutil.chown(folder, owner)
        shutil.chown(words, owner)
    where, port = programs(), free_port()
    made = [f"{where}/initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", f"--pwfile={words}", "-E", "UTF8", "-N"]
    server = None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        subprocess.run(made, cwd=folder, user=owner, check=True, stdout=subprocess.DEVNULL)
        options = (
            "fsync=off",
            "log_min_messages=fatal",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={folder}",
        )
        settings = [part for option in options for part in ("-c", option)]
        server = subprocess.Popen([f"{where}/postgres", "-D", data, "-p", str(port), *settings], cwd=folder, user=owner)
        environment = {**os.environ, "PGPASSWORD": password}
        login = ["-h", "127.0.0.1", "-p", str(port), "-U", USER]
        for _ in range(3000):
            ready = subprocess.run([f"{where}/pg_isready", "-q", *login], check=False)
            if ready.returncode == 0 or server.poll() is not None:
                break
            signal.sigtimedwait([], 0.1)
        subprocess.run([f"{where}/createdb", *login, "shop"], env=environment, check=True)
        print(f"postgresql://{USER}:{password}@127.0.0.1:{port}/shop", flush=True)
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        if server is not None and server.poll() is None:
            server.send_signal(signal.SIGINT)
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
