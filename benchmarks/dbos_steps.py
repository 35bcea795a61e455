"""Runs in the environment of DBOS: a workflow of N no-op steps on SQLite; prints the seconds of the workflow alone."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time

from dbos import DBOS


@DBOS.step()
def noop(value: int) -> int:
    return value


@DBOS.workflow()
def steps(count: int) -> int:
    return sum(noop(number) for number in range(count))


def main() -> None:
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{os.path.join(folder, 'dbos.sqlite')}"
        DBOS(config={"name": "bench", "system_database_url": url, "run_admin_server": False})
        DBOS.launch()
        started = time.monotonic()
        steps(int(sys.argv[1]))
        took = time.monotonic() - started
        DBOS.destroy()
    print(took)


if __name__ == "__main__":
    main()
