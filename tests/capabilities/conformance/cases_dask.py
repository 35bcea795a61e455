"""dask.run, on one cluster of loopback for all cases."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case, Ready
from planrunner.testing.dask import Cluster

ROOT = Path(__file__).resolve().parents[3]


@functools.cache
def _cluster() -> Cluster:
    folder = Path(tempfile.mkdtemp(prefix="planrunner-dask-"))
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    cluster = Cluster(folder, ("",), environment={"PYTHONPATH": path})
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(cluster.stop)
    return cluster


def _with(**inputs: Any) -> Any:
    def setup(directory: Path) -> Ready:
        return Ready(inputs, {"dask": {"scheduler": _cluster().address}})

    return setup


_REQUIRES = {"requires": ["module:distributed"]}

CASES = [
    Case("dask.run", _with(script='echo "$A" > made', env={"A": "a b"}), name="script", volatile=["pid"], **_REQUIRES),
    Case("dask.run", _with(arguments=["sh", "-c", "exit 3"]), name="code", fails="logic", **_REQUIRES),
    Case("dask.run", _with(script="true", resources={"gpu": 1}), name="resources", fails="logic", **_REQUIRES),
    Case("dask.run", _with(script="sleep 600"), name="long", waits=True, **_REQUIRES),
]
