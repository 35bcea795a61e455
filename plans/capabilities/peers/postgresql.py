"""A PostgreSQL server to try plans on, in a scratch folder that goes away with it.

    python plans/capabilities/peers/postgresql.py

prints the address of a database named `shop` and serves it on 127.0.0.1 until it is stopped (Ctrl-C). Started by root
it runs as the user `postgres`.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from planrunner.testing.postgresql import Server


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="planrunner-postgresql-") as folder, Server(Path(folder)) as server:
        server.psql("CREATE DATABASE shop")
        print(server.address.removesuffix("postgres") + "shop", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
