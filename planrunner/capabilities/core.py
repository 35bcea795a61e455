"""The capabilities without a family: ``shell``, and ``noop``, ``fail`` and ``sleep`` for tests and examples."""

from __future__ import annotations

import os
import re
import shlex
import time
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from planrunner.capabilities.contract import (
    OUTPUT_LIMIT,
    Context,
    Doc,
    Exit,
    Failure,
    Json,
    Pause,
    Preview,
    Spawn,
    capability,
    seconds,
)
from planrunner.capabilities.outputs import read_output_file, stdout_outputs
from planrunner.later import Later
from planrunner.machine.events import Outcome
from planrunner.plan.model import Task
from planrunner.plan.tasks import reads_exit_code

if TYPE_CHECKING:
    from planrunner.plan.expressions.evaluate import truth
    from planrunner.plan.expressions.values import Names
else:
    truth = Later("planrunner.plan.expressions.evaluate:truth")
    Names = Later("planrunner.plan.expressions.values:Names")


POSIX_SHELLS = frozenset(("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"))
"""Shells that take a script behind ``-c``, and stop at the first command that fails with ``-e``."""
PIPEFAIL_SHELLS = frozenset(("bash", "ksh", "mksh", "zsh"))
"""Those of them that always know ``pipefail``. ``sh`` is one of them on some machines; there too only the last command
of a pipe counts, so that a script ends alike everywhere."""
_SCRIPT_BEHIND = {
    "node": "-e",
    "nodejs": "-e",
    "bun": "-e",
    "deno": "eval",
    "perl": "-e",
    "ruby": "-e",
    "lua": "-e",
    "Rscript": "-e",
    "osascript": "-e",
    "php": "-r",
}
"""The word behind which a program takes a script, by its name without a version; of all others that is ``-c``."""
_SENT_FROM_OUTSIDE = {1: "HUP", 2: "INT", 9: "KILL, perhaps for lack of memory", 15: "TERM"}
_TRY_AGAIN = 75
"""``EX_TEMPFAIL`` of sysexits.h: a program's own word for a failure that may pass."""
_LOOKED_AT = 8192
"""How much of the end of standard error is searched for the cause, in characters."""
_MISSING = r"not found|[Nn]o such file"
_BELOW = r"""(?xi)
    ^\s | ^\++\ | ^[\^~|\s]+$ | ^\d+\ \|            # details, what `set -x` shows, marks and what they point into
    | ^(?:note|hint|help): | ^For\ more | ^see\ also
    | ^\w*make(?:\[\d+\])?:\ (?:\*\*\*\ \[|Leaving) | ^ninja: | ^exit\ status\ \d+$ | ^compilation\ terminated
    | ^\d+\ (?:errors?|warnings?)\b.*generated | ^npm\ (?:ERR!|error)\ (?:$|A\ complete\ log|\ ) | ^Node\.js\ v\d
    | ^error:\ (?:Recipe|could\ not\ compile|aborting) | ^task:\ Failed\ to\ run | ^error\ Command\ failed | ELIFECYCLE
"""
"""Lines below the one that says the cause: marks, details, traces, and what names the step instead of the fault."""
_incarnation = f"{os.getpid():x}-{time.time_ns():x}"
"""Sets the output file apart from one that a killed runner, or what survived it, wrote for the same attempt."""


def _preview(context: Context) -> Preview:
    """The script or the program as it would be called, where, and with which variables of the plan, whose values may be
    secret; what that changes is not known before."""
    call = context.call
    what = "runs a program" if call.arguments else "runs a script"
    text = shlex.join(call.arguments) if call.arguments else call.script
    given = [f"{name}={shlex.quote(str(value))}" for name, value in call.values.items()]
    read = [f"< {line}" for line in call.stdin.splitlines()]
    summary = f"{what} in {call.directory}" + (f" with {', '.join(sorted(call.env))} set" if call.env else "")
    return Preview(summary, calls=(*given, *text.splitlines(), *read))


@capability(
    "shell",
    effect="unsafe",
    risks=("runs any program, which may change files and use the network",),
    process=True,
    takes_run=True,
    open_outputs=True,
    preview=_preview,
)
def shell(context: Context) -> Spawn:
    """Run a script with `sh -e`, or a program without a shell when `run` is a list.

    With `shell: bash`, `zsh` or `ksh` the script fails when any command of a pipe does (`-o pipefail`).

    The outputs of the task are what it writes to the file named by `$PLANRUNNER_OUTPUT` (JSON objects, `key=value` or
    `key<<END` lines), or its standard output when the task says `stdout: json | text | lines`.

    The exit code decides: 0 is success, 75 a transient failure. A shell or program that HUP, INT, TERM or KILL ended
    has failed transiently as well; everything else is a logic failure, exit codes above 128 included.
    """
    call = context.call
    words = (call.task.shell or "sh").split()
    name = _program(words)
    stops = ("-e", *(("-o", "pipefail") if name in PIPEFAIL_SHELLS else ())) if name in POSIX_SHELLS else ()
    behind = _SCRIPT_BEHIND.get(name.rstrip("0123456789."), "-c")
    before = (*words, *stops) if words[-1] == behind != "-c" else (*words, *stops, behind)
    arguments = call.arguments or (*before, call.script)
    env = {**call.env, **call.values}
    # beside the folder, which may not exist
    output = call.told or (f"{call.scratch}.{_incarnation}.outputs" if call.scratch else "")
    if output:
        env["PLANRUNNER_OUTPUT"] = output

    def finish(ended: Exit) -> Outcome:
        failure, message = of_task(call.task, ended, bool(call.arguments))
        outputs: dict[str, Json] = {}
        gives = not failure or (failure == "logic" and ended.code > 0 and reads_exit_code(call.task))
        try:
            written = read_output_file(output) if output else {}
            if gives and ended.dropped and call.task.stdout:
                raise Failure(
                    "standard output is larger than 1 MiB; keep large results in a file and declare an artifact"
                )
            if gives:
                printed = stdout_outputs(call.task.stdout, ended.stdout, call.task.outputs) if call.task.stdout else {}
                outputs = {**printed, **written}
        except Failure as fault:
            if not failure:
                failure, message = fault.failure, str(fault)
        return Outcome(failure, message, outputs, ended.code, ended.duration, ended.stdout, ended.stderr)

    given = call.stdin.encode("utf-8", "surrogatepass")
    keep = OUTPUT_LIMIT if call.task.stdout else 65536
    return Spawn(arguments, env, call.directory, given, finish=finish, keep=keep)


def of_task(task: Task, ended: Exit, direct: bool) -> tuple[str, str]:
    """As ``classify``, for the program of a task, whose criteria may name 75 as good."""
    failure, message = classify(ended, direct)
    if failure == "transient" and ended.code == _TRY_AGAIN and _accepted(task, ended.code):
        failure = "logic"
    return failure, message


def _accepted(task: Task, code: int) -> bool:
    """Whether criteria that read nothing but the exit code name it: then it is not a word for a failure."""
    read = [each.expression for each in task.expect if each.expression is not None]
    alone = [each for each in read if set(each.paths) == {("exit_code",)}]
    return bool(alone) and all(truth(each.tree, Names({"exit_code": code})) for each in alone)


def _program(words: list[str]) -> str:
    """The name of the program that gets the script, also behind ``/usr/bin/env``."""
    at = 0
    if os.path.basename(words[0]) == "env":
        at = next((at for at, word in enumerate(words) if at and word[0] != "-" and "=" not in word), 0)
    return os.path.basename(words[at])


def classify(ended: Exit, direct: bool = True) -> tuple[str, str]:
    """Failure class and message of an exit code; two empty strings when it went well.

    ``direct`` tells a program from a script. Codes above 128 are codes like others: commands give them of their own
    accord (`git` 128 and 129), and a shell does not tell whether a signal was behind it.
    """
    code = ended.code
    if code == 0:
        return "", ""
    if code == _TRY_AGAIN:
        return "transient", _with_cause("exit code 75 (try again later)", ended)
    signal = -code if code < 0 else 0
    if signal in _SENT_FROM_OUTSIDE:
        return "transient", f"ended from outside by signal {signal} ({_SENT_FROM_OUTSIDE[signal]})"
    if signal:
        return "logic", _with_cause(f"ended by signal {signal}", ended)
    if code == 127 and not direct:
        return "logic", _with_cause("a command of the script was not found (exit code 127)", ended)
    if code == 126 and not direct:
        return "logic", _with_cause("a command of the script could not be executed (exit code 126)", ended)
    if code == 141 and not direct:
        closed = "a command of a pipe wrote to one that had ended, such as `head` (exit code 141)"
        return "logic", _with_cause(closed, ended)
    return "logic", _with_cause(f"exit code {code}", ended)


def _with_cause(message: str, ended: Exit) -> str:
    said = _cause(ended.stderr[-_LOOKED_AT:].splitlines(), ended.code)
    return f"{message}: {said[:200]}" if said else message


def _cause(lines: list[str], code: int) -> str:
    """The line of standard error that says why: the last one, without what programs write below it."""
    lines = [line.rstrip() for line in lines if line.strip()]
    if code == 127 and (missing := [line for line in lines if re.search(_MISSING, line)]):
        return missing[-1].strip()
    left = list(lines)
    while left and re.search(_BELOW, left[-1]):
        below = left.pop()
        if left and re.fullmatch(r"[\s|]*[\^~]+", below):
            left.pop()  # the line that the mark points into, as of psql and compilers
    if left or not lines:
        return left[-1].strip() if left else ""
    last = lines[-1].strip()
    return f"`{last.lstrip('+ ')}`" if last.startswith("+ ") else last


class Value(NamedTuple):
    value: Annotated[Any, Doc("the input, as it was given")]


@capability("noop", effect="pure", instant=True)
def noop(value: Annotated[Any, Doc("what the output `value` shall be")] = None) -> Value:
    """Do nothing and give back the input."""
    return Value(value)


@capability("fail", effect="pure", instant=True)
def fail(
    class_: Annotated[str, Doc("failure class: transient, logic, policy, timeout or one of your own")] = "logic",
    message: Annotated[str, Doc("what the failure says")] = "failed on request",
) -> None:
    """Fail with a class and a message, to try out what a plan does about it."""
    raise Failure(message, class_)


@capability("sleep", effect="pure", process=True)
def sleep(duration: Annotated[Any, Doc("how long, such as 500ms, 10s or 1h30m", quantity="duration")]) -> Pause:
    """Let time pass. Takes a concurrency slot, and stops at once when the run is stopped."""
    try:
        wait = seconds(duration)
    except ValueError as error:
        raise Failure(str(error)) from None
    return Pause(wait, Outcome())
