"""Python that was made while the run went on: looked at before it runs, and run only as a person has seen it where a
rule asks for one."""

from __future__ import annotations

import hashlib
import os
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Call, Context, Failure, Json
from planrunner.capabilities.python import looking, scan
from planrunner.capabilities.verbatim import require_verbatim
from planrunner.plan.python.rules import is_one_template


class Work(NamedTuple):
    """What is to be run: ``kind`` is function, file or code. ``made`` is what the plan says of it: True: it is made
    while the run goes on, False: it is not, None: it is if its file changed since the run began."""

    kind: str
    target: str
    made: bool | None = None


_GRAIN = 0.005
"""Seconds by which the time of a file may lag behind the clock."""


def require_said(context: Context, work: Work) -> None:
    """Refuse an answer to whether code is made while the run goes on that is itself made while the run goes on, and
    code that a template is filled into, but for a text that is all of it and said to be made. Raises Failure."""
    if work.made is not None:
        require_verbatim(context, "generated", "write true or false")
    if work.kind == "code" and not (work.made and is_one_template(_written(context, "code"))):
        require_verbatim(context, "code", "hand values over in `args`")


def _written(context: Context, name: str) -> Json:
    inputs = context.call.task.inputs
    return inputs.get(name) if isinstance(inputs, dict) else None


def guard(context: Context, work: Work, path: str) -> dict[str, Any] | None:
    """What the process that runs the code holds it against, or None for code that was there before the run; ``path`` is
    that of its file. Raises Failure (policy) where a rule denies it, or asks for a person who has not seen it."""
    if not (work.made if work.made is not None else _changed(context.call, path)):
        return None
    if work.kind != "code" and not path:
        raise Failure(f"there is no file of {work.target} to look at: name it as `file.py:function`")
    data = scan.content(context, path) if path else work.target.encode("utf-8", "surrogatepass")
    levels = looking.levels_of(context.call.rights)
    found = looking.judge(scan.decoded(data), levels)
    name, strictest = path or "the code", looking.worst(found)
    if strictest == "deny":
        raise Failure(scan.denied(name, found), "policy", rule=f"scan.{found[0].rule}")
    digest = hashlib.sha256(data).hexdigest()
    seen = f"sha256:{digest}" in context.call.approved
    way = f"nobody has seen {name}: {_gate(context, path)}"
    if strictest == "ask" and not seen:
        raise Failure(f"{way}. It is asked about for {found[0].said}", "policy", rule=f"scan.{found[0].rule}")
    return {
        "name": name,
        "sha256": digest,
        "levels": levels,
        "bandit": looking.bandit_command(context),
        "seen": seen,
        "way": way,
    }


def _gate(context: Context, path: str) -> str:
    """The line of the plan that puts the code before a person."""
    task = context.call.task
    name = task.id.rpartition("/")[2].partition("[")[0]
    needs = ", ".join(task.needs)
    shown = path or f'{{code: "{str(_written(context, "code")).strip()}"}}'
    line = f"- {{id: review-{name}, needs: [{needs}], gate: approval, ask: Run this code, evidence: [{shown}]}}"
    return f"add `{line}` and let `{name}` need it"


def may_be_made(call: Call) -> bool:
    """Whether what a call of ``python.run`` runs is said to be made while the run goes on, or looks like it."""
    said = call.inputs.get("generated")
    if said is not None:
        return said is not False
    kind = "file" if call.inputs.get("file") else "function"
    target = call.inputs.get(kind)
    return isinstance(target, str) and _changed(call, file_of(call, Work(kind, target)))


def file_of(call: Call, work: Work) -> str:
    """The file of a script or a function, relative to the working directory; empty where a module has none there, and
    for code that stands in the plan."""
    if work.kind == "code":
        return ""
    place = work.target if work.kind == "file" else work.target.rpartition(":")[0]
    if work.kind == "file" or place.endswith(".py"):
        return place
    base = place.replace(".", "/")
    names = (f"{start}{base}{end}" for start in ("", "src/") for end in (".py", "/__init__.py"))
    return next((name for name in names if os.path.isfile(os.path.join(call.directory, name))), "")


def _changed(call: Call, path: str) -> bool:
    """Whether the file came or changed after the run began, going by a time that no program can set."""
    began = call.began
    if not path or not began:
        return False
    try:
        return os.stat(os.path.join(call.directory, path)).st_ctime > began - _GRAIN
    except (OSError, ValueError):
        return False  # whoever runs it says what is wrong with it
