"""One attempt on its way, and what becomes of it: the outcome out of an exit code, declared outputs and artifacts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from planrunner.capabilities.binding import Binding, bind, invoke, outcome_of_fault
from planrunner.capabilities.contract import Call, Context, Exit, Failure, Pause, Spawn, declaration_of
from planrunner.capabilities.outputs import Usage, read_usage, settle_outputs, usage_of
from planrunner.capabilities.soundness import legible, not_json, sound
from planrunner.engine.output import TAIL, Record, log_name
from planrunner.engine.poller import Poller
from planrunner.jsontext import shown
from planrunner.later import Later
from planrunner.machine.events import LOST, Outcome
from planrunner.machine.ledger import units
from planrunner.plan.tasks import reads_exit_code
from planrunner.process import plugin_code

if TYPE_CHECKING:
    from planrunner.capabilities.binding import Result
    from planrunner.capabilities.contract import Enclosed, Lasting, Planning
    from planrunner.capabilities.faults import interrupts, said
    from planrunner.engine.identities import SpanIdentity, attempt_identity
    from planrunner.engine.poller import Job, Workers
    from planrunner.engine.processes import Process
    from planrunner.engine.secrets import Grant, is_apart, told_unnamed
    from planrunner.engine.services import AttemptServices, artifacts
    from planrunner.knowledge.memory.layers import Layer, Part
    from planrunner.plan.expressions.quantities import format_duration
    from planrunner.redaction import Redactor
else:
    artifacts = Later("planrunner.engine.services:artifacts")
    is_apart = Later("planrunner.engine.secrets:is_apart")
    told_unnamed = Later("planrunner.engine.secrets:told_unnamed")
    attempt_identity = Later("planrunner.engine.identities:attempt_identity")
    format_duration = Later("planrunner.plan.expressions.quantities:format_duration")
    interrupts = Later("planrunner.capabilities.faults:interrupts")
    said = Later("planrunner.capabilities.faults:said")

Json = Any


class ConfinedProcess(Protocol):
    """The sandbox of a process."""

    def came_to(self, outcome: Outcome) -> Outcome: ...


INTERRUPTED = Outcome("interrupted", "stopped before it was done")

Sink = Callable[[Outcome], None]
"""Takes the outcome of a call, once."""


class Attempt:
    """A call on its way. It is also the ``Log`` that a capability function writes to and the ``Services`` that it uses,
    from whatever thread."""

    __slots__ = (
        "_serve",
        "_services",
        "_workers",
        "beats",
        "call",
        "ending",
        "grant",
        "job",
        "process",
        "pulse",
        "reason",
        "record",
        "shut",
        "sink",
        "started",
        "timer",
        "unnamed",
        "usage",
    )

    def __init__(self, call: Call, record: Record, serve: Callable[[Call], AttemptServices] | None = None) -> None:
        self.call = call
        self.record = record
        self._serve = serve
        self._services: AttemptServices | None = None
        self.grant: Grant | None = None
        """The secrets that its process is given; None where its task declares none, or before they are looked up."""
        self.started = time.monotonic()
        self.process: Process | None = None
        self.shut: ConfinedProcess | None = None
        self.sink: Sink
        self.job: Job | None = None
        self.timer = 0
        self.pulse: Pulse | None = None
        self.reason = ""
        self.ending: tuple[str, str] | None = None
        """Class and message with which this attempt ends where it was stopped permanently; None where it goes on."""
        self.usage: dict[str, Json] = {}
        self.beats = 0
        self.unnamed = -1
        """The file without a name in which its process tells its outputs, where the run has secrets."""
        self._workers: Workers | None = None

    @property
    def context(self) -> Context:
        return Context(self.call, self, self.cancelled, self if self._serve is not None else None)

    def cancelled(self) -> bool:
        return self.reason != ""

    def write(self, data: bytes, stream: str = "stdout") -> None:
        if type(data) is not bytes or stream not in ("stdout", "stderr"):  # told here, where the fault is
            raise TypeError(f"the log takes bytes for stdout or stderr, not a {type(data).__name__} for {stream!r}")
        if self._workers is None:
            self.record.take(stream, data)
        else:
            self._workers.post(partial(self._taken, stream, data))

    def beat(self) -> None:
        """A sign of life."""
        self.beats += 1

    def spend(self, amounts: Mapping[str, Json]) -> None:
        """Add to what this attempt is known to have used."""
        for what, more in amounts.items():
            if units(what, more) is None:  # told here, where the fault is
                raise ValueError(f"{what} of {more!r} is not an amount that can be spent")
            self.usage[what] = self.usage.get(what, 0) + more

    def settings(self, section: str) -> dict[str, Json]:
        return self._served().settings(section)

    def keep(self, content: bytes | str | int, name: str, type: str) -> dict[str, Json]:
        if why := not_json([name, type], "name and type of the artifact"):
            raise Failure(why)
        return self._served().keep(content, name, type)

    def artifact(self, sha256: str) -> BinaryIO:
        return self._served().artifact(sha256)

    def version(self, ref: str) -> tuple[dict[str, Json], ...]:
        return self._served().version(ref)

    def cache(self, name: str) -> str:
        return self._served().cache(name)

    def noted(self, name: str) -> str:
        return self._served().noted(name)

    def note(self, name: str, text: str) -> None:
        self._served().note(name, text)

    def mac(self, name: str, text: str) -> str:
        return self._served().mac(name, text)

    def environment(self) -> dict[str, str]:
        variables = self._served().environment()
        return {**variables, **self.granted().env} if self.call.task.secrets else variables

    def granted(self) -> Grant:
        """The secrets that its task declares, looked up now where they were not yet. Raises Failure (policy)."""
        if self.grant is None:
            self.grant = self._served().grant(self.call)
        return self.grant

    def hide_outputs(self) -> None:
        """Have its process tell its outputs in a file without a name. One that is shut in could not find that."""
        if self.call.scratch and not is_apart(self.call):
            self.unnamed, path = told_unnamed(self.call)
            self.call = self.call._replace(told=path)

    def withdraw(self) -> None:
        """Take back what it was given and must not outlive it."""
        if self.grant is not None:
            self.grant.withdraw()
        if self.unnamed >= 0:
            os.close(self.unnamed)
            self.unnamed = -1

    def with_grant(self, spawn: Spawn) -> Spawn:
        """A process to start, with the secrets of its task."""
        return spawn if self.grant is None else self.grant.laid_over(spawn)

    def credential(self, name: str) -> str:
        return self._served().credential(name)

    def conceal(self, name: str, value: str) -> None:
        self._served().conceal(name, value)

    def cleaned(self, value: Json) -> Json:
        return self._served().cleaned(value)

    def memory(self, layer: str, part: Part, stopped: Callable[[], bool]) -> Layer:
        return self._served().memory(layer, part, stopped)

    def enclosed(
        self, arguments: Sequence[str], env: Mapping[str, str], directory: str, made: str = ""
    ) -> Enclosed | None:
        return self._served().enclosed(arguments, env, directory, made)

    def planning(self) -> Planning:
        return self._served().planning()

    def lasting(self, name: str, make: Callable[[], Lasting]) -> Lasting:
        return self._served().lasting(name, make)

    def directory(self) -> str:
        return self._served().directory()

    def _served(self) -> AttemptServices:
        if self._services is None:
            assert self._serve is not None, "a context without services does not come here"
            self._services = self._serve(self.call)
        return self._services

    @property
    def kept(self) -> tuple[dict[str, Json], ...]:
        """The artifacts that the capability kept itself."""
        return () if self._services is None else tuple(self._services.kept)

    @property
    def refused(self) -> tuple[dict[str, Json], ...]:
        """What was refused to the programs that the capability ran itself."""
        tally = None if self._services is None else self._services.refused
        return () if tally is None else tally.rows()

    def signs(self) -> int:
        """Grows with every sign of life."""
        record = self.record
        return self.beats + sum(tail.total for tail in (record.out, record.err) if tail is not None)

    def _taken(self, stream: str, data: bytes) -> None:
        if self.job is not None and not self.job.abandoned:
            self.record.take(stream, data)

    def run_in(self, workers: Workers, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._workers = workers
        self.job = workers.submit(work, done)


def located(resolve: Callable[[str], Callable[..., Any]], name: str) -> Binding | Outcome:
    """The function of a capability ready to be called, or the outcome of a task whose capability there is not; with
    ``#undo``, ``#capture`` or ``#preview`` behind the name the one that does this for it."""
    name, _, part = name.partition("#")
    try:
        function = resolve(name)
        if not part:
            return bind(name, function)
        return bind(name, getattr(declaration_of(function), part), None if part == "undo" else function)
    except KeyError:
        return Outcome("logic", f"no installed capability is named `{name}`")
    except Failure as failure:  # a built-in lacks the libraries of an extra
        return outcome_of_fault(failure)
    except BaseException as error:  # a plugin that cannot be imported fails its tasks, not the run
        if interrupts(error):
            raise
        return Outcome("logic", legible(f"the capability `{name}` cannot be loaded: {said(error)}"))


def log_path(state_dir: str, call: Call) -> str:
    """Where the output of an attempt goes: ``logs/RUN/TASK.ATTEMPT.log`` in the state folder."""
    return f"{state_dir}/logs/{call.run_id}/{log_name(call.name, call.attempt)}"


def markers(call: Call, epoch: int, trace: SpanIdentity | None = None) -> dict[str, str]:
    """The variables by which a process knows, and is known by, its attempt; where the run is traced, by the span of
    ``trace``, also the span of the attempt."""
    variables = {
        "PLANRUNNER_RUN_ID": call.run_id,
        "PLANRUNNER_TASK": call.task.id,
        "PLANRUNNER_ATTEMPT": str(call.attempt),
        "PLANRUNNER_KEY": call.key,
        "PLANRUNNER_EPOCH": str(epoch),
    }
    if call.once:
        variables["PLANRUNNER_IDEMPOTENCY_KEY"] = call.once
    if call.scratch:
        variables["PLANRUNNER_USAGE"] = usage_path(call)
    if trace is not None:
        variables["TRACEPARENT"] = str(attempt_identity(trace, call.key))
    return variables


def usage_path(call: Call) -> str:
    """The file in which a process tells what it spent; another one for each runner, of which an earlier one may have
    left its own behind."""
    return f"{call.scratch}.{_INCARNATION}.usage" if call.scratch else ""


def make_scratch(call: Call) -> str:
    """Make the folder in which a process may tell its outputs and what it spent. Gives what stands in the way."""
    folder = call.scratch.rpartition("/")[0]
    if folder and (folder not in _made or not os.path.isdir(folder)):  # a run that this process continues with lost it
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as error:
            return f"the folder for its scratch files cannot be made: {error.strerror}"
        _made.add(folder)
    return ""


def with_usage(attempt: Attempt, outcome: Outcome) -> Outcome:
    """The outcome with what the attempt spent, as its process or its function told it. What it told that is not an
    amount fails it; the rest of what it told counts."""
    told = {what: value for what, value in {**attempt.usage, **outcome.usage}.items() if value is not None}
    path = usage_path(attempt.call) if attempt.process is not None else ""
    if not (told or (path and os.path.lexists(path))):
        return outcome._replace(usage={}) if outcome.usage else outcome
    said = usage_of(told)
    written = read_usage(path) if path else Usage({})
    outcome = outcome._replace(usage={**said.amounts, **written.amounts})
    if said.problem:
        return _misreported(attempt.call, outcome, f"it told that it used {shown(told)}, {said.problem}")
    return _misreported(attempt.call, outcome, written.problem) if written.problem else outcome


def _misreported(call: Call, outcome: Outcome, problem: str) -> Outcome:
    if not outcome.failure:
        return outcome._replace(failure="logic", message=problem, outputs={}, artifacts=())
    if outcome.failure == "logic" and outcome.exit_code and reads_exit_code(call.task):
        outcome = outcome._replace(exit_code=None)  # the criteria of the task could accept it
    return outcome._replace(message=f"{outcome.message}; {problem}" if outcome.message else problem)


_made: set[str] = set()
_INCARNATION = f"{os.getpid():x}-{time.time_ns():x}"


def work_of(attempt: Attempt, binding: Binding) -> Callable[[], Result]:
    """What a thread does for the attempt."""
    work = partial(invoke, binding, attempt.call.inputs, attempt.context)
    return partial(_with_secrets, attempt, binding, work) if attempt.call.task.secrets else work


def _with_secrets(attempt: Attempt, binding: Binding, work: Callable[[], Result]) -> Result:
    """What ``work`` comes to once the secrets of the task are there; for a thread, since a source may take long."""
    try:
        grant = attempt.granted()
    except Failure as failure:
        return outcome_of_fault(failure)
    if attempt.reason:
        grant.withdraw()
        return INTERRUPTED
    if grant.descriptors and not binding.declaration.process:
        grant.withdraw()
        message = f"`as: fd` hands a secret to one process, which `{attempt.call.task.uses}` is not: write `as: file`"
        return Outcome("policy", message, rule="secret.descriptor")
    return work()


def settled(call: Call, outcome: Outcome, state_dir: str, redactor: Redactor | None = None) -> Outcome:
    """The outcome with its declared outputs typed and its artifacts kept; either may turn it into a failure. A program
    whose exit code the criteria judge gives them with any code of its own."""
    task = call.task
    judged = outcome.failure == "logic" and bool(outcome.exit_code) and reads_exit_code(task)
    if (outcome.failure and not judged) or not (task.outputs or task.artifacts):
        return outcome
    try:
        outcome = outcome._replace(outputs=settle_outputs(task.outputs, outcome.outputs, call.directory))
        if not task.artifacts:
            return outcome
        return outcome._replace(artifacts=artifacts(call, outcome.artifacts, state_dir, redactor))
    except Failure as failure:
        if judged:
            return outcome._replace(outputs=failure.outputs)  # the verdict says what is missing
        refused = outcome._replace(failure=failure.failure, message=str(failure), outputs=failure.outputs)
        return refused._replace(rule=failure.rule)


@plugin_code()
def finished(spawn: Spawn, ended: Exit) -> Outcome:
    """The outcome of a process that ended by itself, as its capability sees it."""
    if spawn.finish is None:
        failure, message = ("logic", f"exit code {ended.code}") if ended.code else ("", "")
        return Outcome(failure, message, {}, ended.code, ended.duration, **tails(ended))
    try:
        outcome = sound(spawn.finish(ended))
    except BaseException as error:  # a capability's own fault
        if interrupts(error):
            raise
        outcome = outcome_of_fault(error)
        outcome = outcome._replace(exit_code=ended.code, duration=ended.duration, **tails(ended))
    return outcome if len(outcome.stdout) <= TAIL else outcome._replace(stdout=outcome.stdout[-TAIL:])


def tails(ended: Exit) -> dict[str, Any]:
    """The two texts of an outcome."""
    return {"stdout": ended.stdout[-TAIL:], "stderr": ended.stderr}


def timed_out(call: Call) -> Outcome:
    """The outcome of an attempt that ran out of time; it names the function that was called for a capability."""
    name, _, part = call.task.uses.partition("#")
    words = f"`{part}` of `{name}` ran longer than" if part else "ran longer than its timeout of"
    return Outcome("timeout", f"{words} {format_duration(call.timeout or 0.0)}")


def abandoned(attempt: Attempt) -> Outcome:
    """The outcome of a function that was asked to stop and did not."""
    outcome = timed_out(attempt.call) if attempt.reason == "timeout" else INTERRUPTED
    return outcome._replace(message=f"{outcome.message}; it did not stop and was abandoned")


def paused(call: Call, pause: Pause) -> tuple[float, Outcome]:
    """How long a pause takes and what it comes to: a timeout may end it earlier."""
    if call.timeout is not None and call.timeout < pause.seconds:
        return call.timeout, timed_out(call)
    return pause.seconds, sound(pause.outcome)


def exited(attempt: Attempt, spawn: Spawn, ended: Exit) -> Outcome:
    """The outcome of a process that ended, by itself or not."""
    if not (ended.timed_out or ended.interrupted):
        outcome = finished(spawn, ended)
    else:
        outcome = timed_out(attempt.call) if ended.timed_out else INTERRUPTED
        outcome = outcome._replace(exit_code=ended.code, duration=ended.duration, **tails(ended))
    return outcome if attempt.shut is None else attempt.shut.came_to(outcome)


def returned(attempt: Attempt, result: Result) -> Result:
    """What a function came to: success before a stop reached it counts, success past the timeout does not."""
    if attempt.reason == "timeout":
        return timed_out(attempt.call)
    if attempt.reason and (not isinstance(result, Outcome) or result.failure):
        return INTERRUPTED
    return result


def with_texts(attempt: Attempt, outcome: Outcome) -> Outcome:
    """The outcome of an attempt without a process, with how long it took and what it wrote."""
    stdout, stderr = attempt.record.texts()
    outcome = outcome._replace(
        duration=outcome.duration or time.monotonic() - attempt.started,
        stdout=outcome.stdout or stdout,
        stderr=outcome.stderr or stderr,
        artifacts=outcome.artifacts + attempt.kept,
    )
    if not (refused := attempt.refused):
        return outcome
    return named(outcome, refused, attempt.ending is None)


class Pulse:
    """Looks after one attempt: when it has given no sign of life for ``silence`` seconds it has to end as ``stalled``,
    and ``stop`` is called."""

    def __init__(self, attempt: Attempt, silence: float, poller: Poller, stop: Callable[[], None]) -> None:
        self._attempt = attempt
        self._silence = silence
        self._poller = poller
        self._stop = stop
        self._signs = -1
        self._since = 0.0
        self._timer = 0
        self._listen()

    def _listen(self) -> None:
        now = time.monotonic()
        signs = self._attempt.signs()
        if signs != self._signs:
            self._signs, self._since = signs, now
        elif now - self._since >= self._silence:
            message = f"it gave no sign of life for {format_duration(self._silence)}"
            self._attempt.ending = ("stalled", message)
            self._stop()
            return
        pause = min(max(self._silence / 5, 0.02), max(self._since + self._silence - now, 0.001))
        self._timer = self._poller.after(pause, partial(Pulse._listen, self))

    def end(self) -> None:
        """The attempt is over."""
        self._poller.cancel(self._timer)


_STOPPED = ("interrupted", "timeout")
_NAMED = 5


def named(outcome: Outcome, refused: tuple[dict[str, Json], ...], itself: bool = True) -> Outcome:
    """The outcome of an attempt with what was ``refused`` to it, which its failure names. One that failed by ``itself``
    failed for a policy then; one that was stopped, or passed a limit, keeps its class."""
    outcome = outcome._replace(refused=refused) if refused else outcome
    refused = tuple(row for row in refused if row["rule"] != LOST)
    if not (outcome.failure and refused):
        return outcome
    if outcome.rule or not itself or outcome.failure in _STOPPED:
        return outcome._replace(message=f"{outcome.message}; refused meanwhile: {_names(refused)}")
    first = refused[0]
    message = first.get("message") or f"refused: {_names(refused[:1])}"
    if len(refused) > 1:
        message += f"; also refused: {_names(refused[1:])}"
    return outcome._replace(failure="policy", rule=first["rule"], message=message, outputs={})


def _names(refused: tuple[dict[str, Json], ...]) -> str:
    """What was refused, in a few words."""
    names = [each["what"] for each in refused if each["what"]][:_NAMED]
    return ", ".join(names) + (" and more" if len(refused) > len(names) else "")
