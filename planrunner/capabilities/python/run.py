"""``python.run``: a function, a script or a few lines of the project in a process of its own."""

from __future__ import annotations

import json
import os
import tempfile
import time
from functools import partial
from typing import Annotated, Any

from planrunner.capabilities.contract import (
    OUTPUT_LIMIT,
    Context,
    Doc,
    Exit,
    Failure,
    Json,
    Preview,
    Spawn,
    capability,
    size,
)
from planrunner.capabilities.core import classify
from planrunner.capabilities.files.scope import require_let
from planrunner.capabilities.programs import interpreter
from planrunner.capabilities.python.scan import Work, file_of, guard, require_said
from planrunner.fileio import open_told
from planrunner.machine.events import Outcome

_CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child.py")
_CODE = "the lines themselves, without templates; `args` and `result` as in a script"
_GENERATED = (
    "true: it is made while the run goes on, and `code` may be one template; false: the plan vouches for it; default: "
    "a file that changed since the run began is"
)
_INCARNATION = f"{os.getpid():x}-{time.time_ns():x}"
"""Sets a result apart from one that a killed runner, or what survived it, wrote for the same attempt."""


def preview(
    context: Context, function: str = "", file: str = "", code: str = "", args: Any = None, **more: Any
) -> Preview:
    """The call as it would be made."""
    work = _work(context, function, file, code, more.get("generated"))
    given = json.dumps(args or {}, ensure_ascii=False, sort_keys=True)
    what = "code of the plan" if work.kind == "code" else work.target
    detail = work.target if work.kind == "code" else ""
    return Preview(f"run {what} with {given}", calls=(detail,) if detail else ())


@capability(
    "python.run",
    effect="unsafe",
    process=True,
    open_outputs=True,
    preview=preview,
    irreversible=True,
    risks=("runs code of the project, which may change files and use the network",),
)
def run(
    context: Context,
    function: Annotated[str, Doc("`module:function` or `file.py:function` of the project", form="file-function")] = "",
    file: Annotated[
        str,
        Doc("script of the project; it finds its inputs in `args` and leaves `result`", form="file-read", use="script"),
    ] = "",
    code: Annotated[str, Doc(_CODE, code="text/x-python")] = "",
    args: Annotated[dict[str, Any] | None, Doc("inputs by name; they travel as JSON, never as code")] = None,
    python: Annotated[
        str, Doc("interpreter; default: `python` on the PATH, else that of planrunner", use="command")
    ] = "",
    memory: Annotated[str | int, Doc("the most data it may hold in memory; empty: no bound", quantity="size")] = "4GiB",
    generated: Annotated[bool | None, Doc(_GENERATED)] = None,
) -> Spawn:
    """Run a function, a script or a few lines of Python in a process of its own.

    The arguments of a function are held against its annotations before it is called: int, float, str, bool, list, dict,
    tuple, Optional, Literal, TypedDict, NamedTuple, dataclasses, Path, Decimal, dates. What it returns must be JSON
    data: a mapping (or a dataclass, or a NamedTuple) becomes the outputs, anything else the output `value`. What it
    prints goes into the log.

    An exception fails the task with `logic`, and the log shows the part of the traceback that is the project's. The
    exit code 75 is a transient failure. A function must be in a file below the working directory.

    Code that is made while the run goes on is looked at first, like `python.scan` does: what a rule denies is refused,
    and what a rule asks about runs once a gate has shown it to a person, as it was shown.
    """
    call = context.call
    work = _work(context, function, file, code, generated)
    path = file_of(call, work)
    if call.rights and path:
        require_let(context, path)
    result = call.told or f"{call.scratch}.{_INCARNATION}.result"
    if not (call.told or call.scratch):
        result = os.path.join(tempfile.mkdtemp(prefix="planrunner-"), "result")
    held = guard(context, work, path)
    try:
        most = 0 if memory in ("", 0) else size(memory)
    except ValueError as error:
        raise Failure(f"`memory`: {error}") from None
    order = {
        "kind": work.kind,
        "target": work.target,
        "args": args or {},
        "directory": call.directory,
        "result": result,
        "limit": OUTPUT_LIMIT,
        "memory": most,
        "guard": held,
    }
    env = {**call.env, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"}
    stdin = json.dumps(order).encode()
    made = held["name"] if held is not None and not held["seen"] else ""
    return Spawn((interpreter(context, python), _CHILD), env, call.directory, stdin, partial(_ended, result), made=made)


def _ended(result: str, ended: Exit) -> Outcome:
    """What became of the process, by what it wrote to the file ``result`` and how it ended."""
    said = _read(result)
    failure, message, rule = "", "", ""
    if said is None or (ended.code and not said["failure"]):
        failure, message = classify(ended)
        if not failure:
            failure, message = "logic", "ended without a result: the process was left by os._exit or exec"
    elif said["failure"]:
        failure, message, rule = said["failure"], said["message"], str(said.get("rule", ""))
    outputs: dict[str, Json] = {} if failure or said is None else said["outputs"]
    return Outcome(failure, message, outputs, ended.code, ended.duration, ended.stdout, ended.stderr, rule=rule)


def _work(context: Context, function: str, file: str, code: str, made: bool | None) -> Work:
    given = [Work(kind, text, made) for kind, text in (("function", function), ("file", file), ("code", code)) if text]
    if len(given) != 1:
        raise Failure("give one of `function`, `file` and `code`")
    work = given[0]
    require_said(context, work)
    if work.kind == "function" and not all(work.target.rpartition(":")[::2]):
        raise Failure(f"`function` is `module:function` or `file.py:function`, found {function}")
    return work


def _read(path: str) -> dict[str, Any] | None:
    try:
        handle = open_told(path)
    except OSError:
        return None
    with open(handle, "rb") as file:
        data = file.read(OUTPUT_LIMIT + 65536)
    try:
        os.unlink(path)
    except OSError:
        pass  # it has no name
    try:
        said = json.loads(data)
    except ValueError:
        return None
    whole = isinstance(said, dict) and isinstance(said.get("failure"), str) and isinstance(said.get("message"), str)
    return said if whole and isinstance(said.get("outputs"), dict) else None
