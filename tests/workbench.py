"""What the tests of every room share: plans made of data, and the command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import commands

from planrunner.plan.load import Loaded, load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source

ROOT = commands.ROOT
_WORK = frozenset({"uses", "command", "gate", "run", "subplan", "loop"})


def loaded(*tasks: dict[str, Any], **keys: Any) -> Loaded:
    """The plan ``p`` of these tasks, read as from a file. ``functools.partial`` gives a module keys of its own."""
    return load(Source(json.dumps({"plan": "p", "tasks": list(tasks), **keys}), "p.json", "json"), Registry())


def plan(*tasks: dict[str, Any], **keys: Any) -> Plan:
    """The same, without errors."""
    done = loaded(*tasks, **keys)
    assert done.plan is not None, [finding.message for finding in done.findings if finding.severity == "error"]
    return done.plan


def working_plan(*tasks: dict[str, Any], **keys: Any) -> Plan:
    """The same; a task that says nothing of what it does runs ``work``, for an hour at most."""
    filled = [task if _WORK & task.keys() else {"run": "work", **task} for task in tasks]
    return plan(*filled, **{"defaults": {"timeout": "1h"}, **keys})


def environment(**variables: str) -> dict[str, str]:
    """The variables of this process and more, for a process that imports planrunner from here."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, **variables}


def planrunner(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, called in a folder with nobody at the terminal."""
    ran = commands.run(*words, folder=folder, env=environment(**variables))
    return subprocess.CompletedProcess(words, ran.code, ran.out, ran.err)
