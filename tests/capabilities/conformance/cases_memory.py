"""memory.put, memory.get, memory.search, memory.forget, memory.learn and memory.advise.

The cases use the global layer, in a folder of their own: the suite does not see what lies in the state directory.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from planrunner.knowledge.memory.entries import Entry
from planrunner.knowledge.memory.layers import Layer, Part, open_layer
from planrunner.knowledge.memory.lessons import Lesson, learn
from planrunner.knowledge.memory.places import Place
from planrunner.testing.conformance import Case, Ready

ERROR = "FileNotFoundError: [Errno 2] No such file or directory: '/srv/job-17/config.yaml'"
SIMILAR = "FileNotFoundError: [Errno 2] No such file or directory: '/srv/job-23/config.yaml'"


def _layer(home: Path, part: Part = "entries", backend: str = "sqlite") -> Layer:
    place = Place("", str(home / "planrunner"))
    return open_layer("global", {"global_store": {"backend": backend}}, place, part)


def _known(home: Path, backend: str) -> Any:
    """What is remembered, without the times."""
    with _layer(home, backend=backend) as entries, _layer(home, "lessons", backend) as lessons:
        return [[entry.key, entry.value, entry.tags] for layer in (entries, lessons) for entry in layer.page()[0]]


def _with(backend: str = "sqlite", busy: bool = False, **inputs: Any) -> Callable[[Path], Iterator[Ready]]:
    def setup(directory: Path) -> Iterator[Ready]:
        home, before = directory.parent / "home", os.environ.get("XDG_DATA_HOME", "")
        with _layer(home, backend=backend) as layer:
            layer.put(Entry("port", 5432, ("database",)), "first")
            layer.put(Entry("motto", "measure twice, cut once"), "second")
        with _layer(home, "lessons", backend) as layer:
            learn(layer, Lesson("failure", ERROR, "create the file", True), Entry("", 0).source, "third")
        os.environ["XDG_DATA_HOME"] = str(home)
        other = sqlite3.connect(home / "planrunner/memory/global.db", isolation_level=None) if busy else None
        try:
            if other is not None:
                other.execute("BEGIN IMMEDIATE")
            settings = {"memory": {"global_store": {"backend": backend}}}
            yield Ready({"layer": "global", **inputs}, settings, look=None if busy else lambda: _known(home, backend))
        finally:
            os.environ["XDG_DATA_HOME"] = before
            if other is not None:
                other.close()

    return setup


LESSON = {"problem": SIMILAR, "solution": "create the file", "worked": True}

CASES = [
    Case("memory.put", _with(key="port", value=5433, tags=["database"])),
    Case("memory.put", _with("file", key="hosts", value=["a", "b"]), name="lines"),
    Case("memory.put", _with(key="port", value=1, vector=[1.0]), name="unnamed vector", fails="logic"),
    Case("memory.put", _with(key="port", value=1, vector=[1.0], embedder="small"), name="mixed", fails="logic"),
    Case("memory.put", _with(busy=True, key="port", value=1), name="busy", waits=True),
    Case("memory.get", _with(key="port")),
    Case("memory.get", _with("file", key="nothing", default="none"), name="unknown"),
    Case("memory.search", _with(query="measuring twice")),
    Case("memory.search", _with(query="x", limit=0), name="limit", fails="logic"),
    Case("memory.forget", _with(key="port")),
    Case("memory.forget", _with("file", key="port"), name="lines"),
    Case("memory.learn", _with(**LESSON)),
    Case("memory.learn", _with("file", **{**LESSON, "solution": {"run": "touch"}, "worked": False}), name="lines"),
    Case("memory.learn", _with(**{**LESSON, "problem": " "}), name="empty", fails="logic"),
    Case("memory.advise", _with(problem=SIMILAR)),
    Case("memory.advise", _with(problem=SIMILAR, threshold=2.0), name="threshold", fails="logic"),
]
