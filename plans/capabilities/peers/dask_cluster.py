"""A Dask cluster to try plans on: a scheduler and two workers on this machine, one of them with the resource `gpu`.

    python plans/capabilities/peers/dask_cluster.py

serves at the address that planrunner.yaml names until it is stopped (Ctrl-C). Needs the extra `dask`.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from planrunner.testing.dask import Cluster

GPU = ("gpu=1", "")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with (
        tempfile.TemporaryDirectory(prefix="planrunner-dask-") as folder,
        Cluster(Path(folder), GPU, port=8786) as cluster,
    ):
        print(f"serving at {cluster.address}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
