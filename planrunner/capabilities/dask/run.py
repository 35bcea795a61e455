"""``dask.run``: a script or a program on a worker of the Dask cluster that planrunner.yaml names."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shlex
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

from planrunner import __version__
from planrunner.capabilities.clients import bounded
from planrunner.capabilities.contract import Context, Doc, Exit, Failure, Preview, basic_environment, capability
from planrunner.capabilities.core import classify
from planrunner.capabilities.dask.remote import Done, Order
from planrunner.capabilities.dask.session import Session
from planrunner.capabilities.preconditions import require_verbatim
from planrunner.plan.tasks import declared_secrets

_OWN = ("PLANRUNNER_RUN_ID", "PLANRUNNER_KEY", "PLANRUNNER_EPOCH", "PLANRUNNER_USAGE")
"""Variables by which a runner finds and ends what its tasks left on its own machine."""
_REPEATED = ("pure", "read", "idempotent")
_AGAIN = {"attempts": 3, "delay": 1.0, "max_delay": 30.0}
_HOW = '`dask: {scheduler: "tcp://127.0.0.1:8786"}`'


class Ran(NamedTuple):
    exit_code: Annotated[int, Doc("exit code")]
    stdout: Annotated[str, Doc("standard output, the end where it is long")]
    stderr: Annotated[str, Doc("standard error, the end where it is long")]
    worker: Annotated[str, Doc("address of the worker")]
    pid: Annotated[int, Doc("number of the process on the worker's machine")]


def _address(context: Context) -> str:
    """The address of the scheduler. Raises Failure for none, and for one that others could listen to."""
    address = str(context.settings("dask").get("scheduler") or "")
    if not address:
        raise Failure(f"planrunner.yaml names no Dask scheduler: add {_HOW}")
    try:
        parts = urlsplit(address)
        if not (parts.hostname and parts.port) or parts.scheme not in ("tcp", "tls"):
            raise ValueError
    except ValueError:
        raise Failure(f"`{address[:100]}` is not the address of a Dask scheduler, such as {_HOW}") from None
    if parts.scheme == "tcp" and not _is_loopback(parts.hostname):
        why = f"{address} is neither on this machine nor encrypted: anyone who reaches the port can run programs there"
        raise Failure(f"{why}; use `tls://` with certificates in the settings of Dask", rule="dask.address")
    return address


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _arguments(context: Context, script: str, arguments: list[str] | None) -> tuple[str, ...]:
    if bool(script) == bool(arguments):
        raise Failure("expected `script` or `arguments`")
    if script:
        require_verbatim(context, "script", "hand values over by `env`")
    words = ("sh", "-e", "-c", script) if script else tuple(arguments or ())
    if any("\0" in word for word in words):
        raise Failure("a program takes no NUL characters")
    return words


def _variables(context: Context, env: dict[str, Any] | None) -> dict[str, str]:
    """The variables for the program beside those of the worker: of the task, its secrets, and the input."""
    usual = basic_environment(os.environ)
    whole = context.environment()
    given = {name: value for name, value in whole.items() if name not in usual and name not in _OWN}
    given |= context.call.env
    for name, value in (env or {}).items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in _OWN:
            raise Failure(f"`env`: {name!r} cannot be set")
        given[name] = value if isinstance(value, str) else json.dumps(value)
    return given


def _require_free(context: Context, words: tuple[str, ...], env: dict[str, str]) -> None:
    """Raises Failure where a policy binds the task: what holds on this machine does not hold on another."""
    shut = context.enclosed(("sh",), env, context.call.directory)
    if shut is None:
        return
    shut.started()
    shut.over()
    raise Failure(
        "a policy confines the task, which no other machine enforces: run it here, or lift the policy for it",
        rule="dask.confined",
    )


def _preview(
    context: Context,
    script: str = "",
    arguments: list[str] | None = None,
    env: dict[str, Any] | None = None,
    resources: dict[str, float] | None = None,
) -> Preview:
    words = _arguments(context, script, arguments)
    what = "script" if script else "program"
    where = f"a worker of {_address(context)}, in {context.call.directory}"
    wanted = "".join(f", {name}={much:g}" for name, much in sorted((resources or {}).items()))
    calls = script.splitlines() if script else [shlex.join(words)]
    return Preview(f"run a {what} on {where}{wanted}", calls=tuple(calls))


@capability(
    "dask.run",
    risks=("runs any program on another machine", "network: connects to the scheduler of the cluster"),
    preview=_preview,
    irreversible=True,
    own=("worker",),
    spends=("calls",),
    preconditions=("package distributed dask",),
)
def run(
    context: Context,
    script: Annotated[
        str, Doc("script for `sh -e`; values come by `env`", code="application/x-sh", use="command")
    ] = "",
    arguments: Annotated[list[str] | None, Doc("program and arguments, without a shell", use="command")] = None,
    env: Annotated[dict[str, Any] | None, Doc("variables, by name")] = None,
    resources: Annotated[dict[str, float] | None, Doc("resources a worker must have, such as gpu: 1")] = None,
) -> Ran:
    """Run a script, or a program, on a worker of a Dask cluster.

    The cluster is that of `dask: {scheduler: …}` in planrunner.yaml. The program works in the working directory of the
    task, at the same path on a file system that the machines share. Its output comes back when it ends. Exit codes
    count as those of `run`.

    When the task is cancelled, times out, or planrunner dies, the program is ended. When the worker or the scheduler is
    lost, the task fails as `lost`, since the program may have run to its end; with `effect: idempotent` or
    `on_doubt: retry` it runs again.
    """
    words = _arguments(context, script, arguments)
    address = _address(context)
    _require_clear(context, address)
    variables = _variables(context, env)
    _require_free(context, words, variables)
    call = context.call
    session = context.lasting(f"dask {address}", lambda: Session(address, call.run_id))
    key = f"planrunner-{call.key}-{uuid4().hex[:8]}"
    order = Order(__version__, session.client.id, call.run_id, key, words, variables, call.directory)
    try:
        return _ran(context, session.run(context, order, dict(resources or {})))
    except Failure as failure:
        if failure.failure == "lost" and (call.task.effect in _REPEATED or call.task.on_doubt == "retry"):
            failure.retry = dict(_AGAIN)
        raise


def _require_clear(context: Context, address: str) -> None:
    """Raises Failure for secrets that would travel in the clear, or stay behind in a file."""
    wishes = list(declared_secrets(context.call.task.secrets))
    if wishes and not address.startswith("tls://"):
        raise Failure("secrets travel to the cluster by `tls://` only", rule="dask.secret")
    if any(wish.way != "env" for wish in wishes):
        raise Failure("a secret reaches the cluster as a variable only: `as: env`", rule="dask.secret")


def _ran(context: Context, done: Done) -> Ran:
    """The outputs. Raises Failure for a program that failed, or did not start."""
    if done.ended is None:
        raise Failure(done.fault[1], done.fault[0])
    ended = done.ended
    context.log.write(ended.stdout)
    context.log.write(ended.stderr, "stderr")
    if ended.dropped:
        context.log.write(f"[{ended.dropped:,} more bytes were not kept]\n".encode())
    stdout, stderr = bounded(ended.text), bounded(ended.stderr.decode("utf-8", "replace"))
    ran = Ran(ended.code, stdout, stderr, done.host, done.pid)
    failure, message = classify(
        Exit(ended.code, done.seconds, stdout, stderr), direct=not context.call.inputs.get("script")
    )
    if failure:
        raise Failure(message, failure, ran._asdict())
    return ran
