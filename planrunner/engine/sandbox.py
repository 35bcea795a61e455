"""Attempts that are shut in: what the policy lets their processes reach, how they are started, and their limits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from planrunner.caller import workspace
from planrunner.capabilities.contract import BY_MODEL, Call, Failure, basic_environment
from planrunner.capabilities.files.scope import BRANCHES, ground_of, tree_of
from planrunner.capabilities.http.guard import Guard
from planrunner.engine.attempts import named
from planrunner.engine.processes import SpawnFailed, search
from planrunner.engine.secrets import OWN
from planrunner.errors import PlanInvalid, UsageError
from planrunner.machine.events import Outcome
from planrunner.plan.rights import Level
from planrunner.plan.rights import named as right_of
from planrunner.records import Struct
from planrunner.safety.project import read_data, unsound
from planrunner.safety.sandbox.confinement import (
    Branch,
    Command,
    Confinement,
    Place,
    Refused,
    beneath,
    confinement,
    demand,
)
from planrunner.safety.sandbox.leavings import Leavings
from planrunner.safety.sandbox.limits import EVERY, Breach, Keeper
from planrunner.safety.sandbox.proxy import Endpoint, Proxy, Unreachable
from planrunner.safety.sandbox.refusals import Tally
from planrunner.safety.sandbox.wrapper import PACKAGE, Wrapped, settled, wrapped

if TYPE_CHECKING:
    from planrunner.engine.poller import Poller
    from planrunner.engine.processes import Launch, Process, Supervisor

_OWN = OWN.partition("/")[0]
_STREAMS = 3
"""Standard input, output and error come before the descriptors that a process is given."""
_SHUT_OUT = re.compile(
    r"read-only file system|permission denied|operation not permitted|network is unreachable|name resolution"
    r"|could not resolve|name or service not known|nodename nor servname",
    re.IGNORECASE,
)
"""What programs say of a sandbox."""
_FAILED = ("sandbox:", "bwrap:")


class RunPlaces(Struct):
    """Where a run takes place: its state directory, its working directory, whether its plan is from outside, and
    patterns of the places elsewhere that it may act in."""

    state_dir: str
    directory: str
    untrusted: bool
    outside: tuple[str, ...] = ()


class Parts(Struct):
    """What starts processes and calls back in time."""

    supervisor: Supervisor
    poller: Poller


def with_own_scratch(call: Call) -> Call:
    """The call with a folder for scratch files that no other attempt uses: it is let in."""
    return call._replace(scratch=f"{call.scratch}{OWN}") if call.scratch else call


def confined(call: Call, grounds: RunPlaces, path: str, made: str) -> Confinement:
    """What the processes of a call are shut into; ``made`` is code that may run in them, made while the run went on and
    seen by no person. Raises Refused."""
    root = os.path.realpath(grounds.directory or workspace().root)
    own = os.path.realpath(os.path.dirname(call.scratch))
    own = own if own.endswith(_OWN) else ""
    here = os.path.realpath(call.directory)
    place = Place(root, grounds.state_dir, own, _engine(), _tools(path), _branch(root, here))
    confines = confinement(call.rights, place, grounds.untrusted, made)
    if confines.kind == "none":
        return confines
    elsewhere = tuple(path for path in grounds.outside if os.path.isdir(path) and path not in confines.writable)
    confines = confines._replace(writable=(*confines.writable, *elsewhere))
    if not any(beneath(here, around) for around in (root, own, *grounds.outside) if around):
        raise Refused(f"{call.directory} lies outside the working directory", rule="sandbox.files")
    try:
        return settled(confines, demand(call.rights, grounds.untrusted, made).asked)
    except Refused as refused:
        if not confines.made:
            raise
        raise Refused(f"{refused}; {_way_out(confines.made)}", rule=refused.rule) from None


def _branch(root: str, here: str) -> Branch:
    """Which of the trees of candidates a call sees that is made in the folder ``here``: its own or none."""
    return Branch(os.path.join(root, BRANCHES), tree_of(root, here), ground_of(root, here))


def _way_out(made: str) -> str:
    """Why a call is shut in that would not be without code that was made while the run went on, and what lets it
    out."""
    if made == BY_MODEL:
        return (
            "it is confined because a model chose it; `policy: {sandbox: {network: true}}` of the task or its agent "
            "opens the network, `policy: {sandbox: none}` lets it out"
        )
    return (
        f"it is confined because it may run `{made}`, which was made during the run and not reviewed; to let it "
        "out, put a gate with that as evidence before it, or add `policy: {sandbox: none}` to the task"
    )


def _engine() -> tuple[str, ...]:
    """What planrunner itself runs on; a task may read it and never write it."""
    places = (PACKAGE, *map(os.path.realpath, (sys.prefix, sys.base_prefix)))
    return tuple(dict.fromkeys(path for path in places if path not in ("/", "/usr", "/usr/local")))


def _tools(path: str) -> tuple[str, ...]:
    """The folders of the PATH; with those of a version manager all that its programs stand for."""
    home = os.path.realpath(os.path.expanduser("~"))
    folders = []
    for folder in path.split(os.pathsep):
        real = os.path.realpath(folder)
        if not os.path.isabs(folder) or not os.path.isdir(real) or beneath(home, real):
            continue
        around = os.path.dirname(real)
        whole = os.path.basename(real) == "shims" or os.path.exists(os.path.join(around, "pyvenv.cfg"))
        folders.append(around if whole and not beneath(home, around) else real)
    return tuple(dict.fromkeys(folders))


def inherited(shut: Confinement, call: Call, given: Mapping[str, str]) -> dict[str, str]:
    """What of the runner's environment passes into a sandbox."""
    basic = basic_environment(given)
    names = [name for name in shut.environment if name in given and name not in ("HOME", "TMPDIR")]
    passing = {name: basic.get(name, given[name]) for name in names}
    return {name: text for name, text in passing.items() if right_of(call.rights, "env", name).verdict != "deny"}


class Prepared(NamedTuple):
    """A command that is ready to be started shut in, who keeps it to its limits, its way out, if there is one, and what
    is refused on it."""

    keeper: Keeper
    way: Wrapped
    proxy: Proxy | None
    tally: Tally
    leavings: Leavings

    def tell(self) -> None:
        """Count the files that are gone with the sandbox, once its program has ended."""
        self.tally.lose(self.leavings.files())

    def close(self) -> None:
        self.leavings.close()
        if self.proxy is not None:
            self.proxy.close()


def prepared(shut: Confinement, call: Call, grounds: RunPlaces, command: Command, tally: Tally) -> Prepared:
    """Make what has to be there before a command starts shut in. Raises Refused, and OSError where that fails."""
    keeper = Keeper(shut, os.path.join(grounds.state_dir, "refused"))
    proxy = None
    if shut.network == "judged":
        proxy = outlet(call.rights, grounds.directory, tally)
    leavings = Leavings(shut)
    try:
        way = wrapped(shut, command._replace(proxy=proxy.path if proxy else ""), leavings.theirs)
        return Prepared(keeper, way, proxy, tally, leavings)
    except BaseException:
        leavings.close()
        if leavings.theirs:
            os.close(leavings.theirs)
        if proxy is not None:
            proxy.close()
        raise


class ConfinedProcess:
    """One attempt that is shut in, while its process runs."""

    def __init__(self, prepared: Prepared, launch: Launch, parts: Parts) -> None:
        self._prepared = prepared
        self._keeper = prepared.keeper
        self._record = launch.record
        self._parts = parts
        self._breach: Breach | None = None
        self._process: Process | None = None
        self._record.most = prepared.keeper.confinement.limits.output

    def watch(self, process: Process) -> None:
        self._process = process
        self._record.flooded = self._flooded
        self._parts.poller.after(EVERY / 2, self._look)

    def _look(self) -> None:
        process = self._process
        if process is None or process.pidfd < 0 or self._breach is not None:
            return
        breach = self._keeper.look(process.pid, self._record.printed)
        if breach is None:
            self._parts.poller.after(EVERY, self._look)
        else:
            self._end(process, breach)

    def _flooded(self) -> None:
        """It printed more than it may: it is ended with the first byte too many, not at the next look."""
        breach = self._keeper.flood(self._record.printed)
        if breach is not None and self._breach is None and self._process is not None:
            self._end(self._process, breach)

    def _end(self, process: Process, breach: Breach) -> None:
        self._breach = breach
        self._parts.supervisor.interrupt(process, forced=True)
        self._keeper.end()

    def came_to(self, outcome: Outcome) -> Outcome:
        """The outcome of the attempt, whose end may be due to the sandbox."""
        self._keeper.end()
        if self._process is not None and self._process.forced:
            remove(self._prepared.way)
        self._prepared.tell()
        self._prepared.close()
        left = self._keeper.over()
        breach = self._breach or left
        if left is not None and self._breach is not None:  # the limit is what it failed for
            self._prepared.tally.add(left.rule, left.what, left.message)
        said = outcome.stderr.lstrip()
        if breach is not None:
            outcome = outcome._replace(failure="policy", message=breach.message, rule=breach.rule, outputs={})
        elif outcome.failure and outcome.exit_code in (1, 125) and said.startswith(_FAILED):
            outcome = outcome._replace(failure="policy", message=said.splitlines()[0], rule="sandbox")
        elif outcome.failure == "logic" and _is_due_to(outcome, made := self._keeper.confinement.made):
            outcome = outcome._replace(message=f"{outcome.message}; {_way_out(made)}")
        return named(outcome, self._prepared.tally.rows())


def _is_due_to(outcome: Outcome, made: str) -> bool:
    """Whether a failure is told to be one of a command that is shut in for the sake of what was ``made``: of what a
    model chose only where it looks like it, since checks that fail are what models work on."""
    return bool(made) and (made != BY_MODEL or _SHUT_OUT.search(outcome.stderr + outcome.stdout) is not None)


def start(
    call: Call, launch: Launch, grounds: RunPlaces, supervisor: Supervisor, poller: Poller
) -> tuple[Process, ConfinedProcess | None]:
    """Start a process shut in as the policy demands (None: it demands nothing). Raises SpawnFailed."""
    programs, spawn = supervisor.programs, launch.spawn
    try:
        shut = confined(call, grounds, programs.environment.get("PATH", os.defpath), call.made or spawn.made)
        if shut.kind == "none":
            return supervisor.start(launch), None
        base = inherited(shut, call, programs.environment)
        env = {**base, **spawn.env, **launch.markers}
        directory = spawn.directory or grounds.directory or workspace().root
        if not spawn.arguments or not spawn.arguments[0]:
            raise SpawnFailed("logic", "there is no command to execute")
        program = programs.locate(spawn.arguments[0], env, directory) if shut.kind != "docker" else spawn.arguments[0]
        command = Command((program, *spawn.arguments[1:]), env, directory, container(call), title=spawn.arguments[0])
        command = command._replace(first=_STREAMS + len(spawn.descriptors))
        ready = prepared(shut, call, grounds, command, Tally())
    except Refused as refused:
        raise SpawnFailed("policy", str(refused), refused.rule) from None
    except OSError as error:
        raise SpawnFailed("logic", f"the sandbox cannot be made: {error.strerror or error}") from None
    way = ready.way
    inside = spawn._replace(
        arguments=way.arguments,
        env=way.env,
        directory=way.directory,
        descriptors=(*spawn.descriptors, *way.descriptors),
    )
    kept = ConfinedProcess(ready, launch, Parts(supervisor, poller))
    try:
        process = supervisor.start(launch._replace(spawn=inside, inherited={}))
    except BaseException:
        ready.close()
        raise
    finally:
        close_all(way.descriptors)
    kept.watch(process)
    return process, kept


def close_all(descriptors: Sequence[int]) -> None:
    for each in descriptors:
        os.close(each)


def container(call: Call) -> str:
    """The name of the container of an attempt."""
    return f"planrunner-{sha256(call.key.encode()).hexdigest()[:24]}"


def remove(way: Wrapped) -> None:
    """Remove the container of an attempt that was ended: with its client alone it does not end."""
    if way.container:
        quiet = subprocess.DEVNULL
        arguments = (way.arguments[0], "rm", "--force", way.container)
        subprocess.Popen(arguments, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


class Enclosure:
    """A program that a capability runs itself, shut in; see ``capabilities/programs.py``."""

    def __init__(self, prepared: Prepared) -> None:
        self._keeper, way = prepared.keeper, prepared.way
        self._prepared = prepared
        self.arguments, self.env, self.directory = way.arguments, way.env, way.directory
        self.descriptors = way.descriptors
        self._looked = 0.0

    def check(self, pid: int, printed: int) -> None:
        """Raises Failure (policy) where a limit is passed."""
        if (flood := self._keeper.flood(printed)) is not None:
            raise Failure(flood.message, "policy", rule=flood.rule)
        now = time.monotonic()
        if now - self._looked < EVERY:
            return
        self._looked = now
        if (breach := self._keeper.look(pid, printed)) is not None:
            raise Failure(breach.message, "policy", rule=breach.rule)

    def started(self) -> None:
        """Once the program runs, or could not be started."""
        close_all(self.descriptors)

    def over(self) -> None:
        """After the program has ended. Raises Failure (policy) for what it may not leave behind."""
        self._keeper.end()
        self._prepared.tell()
        self._prepared.close()
        if (breach := self._keeper.over()) is not None:
            raise Failure(breach.message, "policy", rule=breach.rule)


class Around(NamedTuple):
    """A call that may run programs of its own, where it takes place, and what is refused to all of them."""

    call: Call
    grounds: RunPlaces
    tally: Tally


def enclosed(
    around: Around, arguments: Sequence[str], env: Mapping[str, str], directory: str, made: str = ""
) -> Enclosure | None:
    """How a capability has to start a program of its own, which runs the code ``made`` while the run went on; None: as
    it is. Raises Failure (policy) where the sandbox that the policy demands cannot be set up."""
    call, grounds, tally = around
    try:
        shut = confined(call, grounds, env.get("PATH", os.defpath), call.made or made)
        if shut.kind == "none":
            return None
        given = {name: text for name, text in env.items() if name not in ("HOME", "TMPDIR", "USER", "LOGNAME")}
        program = arguments[0] if "/" in arguments[0] else search(arguments[0], env.get("PATH", os.defpath), directory)
        if call.scratch:
            os.makedirs(os.path.dirname(call.scratch), mode=0o700, exist_ok=True)
        command = Command((program, *arguments[1:]), given, directory, container(call), title=arguments[0])
        return Enclosure(prepared(shut, call, grounds, command, tally))
    except Refused as refused:
        raise Failure(str(refused), "policy", rule=refused.rule) from None
    except SpawnFailed as failed:
        raise Failure(failed.message, failed.failure, rule=failed.rule) from None


def outlet(levels: tuple[Level, ...], directory: str, tally: Tally) -> Proxy:
    """A proxy that lets out what these levels and the project's file allow, and counts the rest. Raises Refused for a
    file or an entry that is not sound, and OSError where no socket can be made."""
    try:
        settings = read_data(directory).get("network") or {}
        guard = Guard({**settings, "levels": levels})
    except PlanInvalid as error:
        raise Refused(unsound(error)) from None
    except UsageError as error:
        raise Refused(error.message) from None
    except Failure as failure:
        raise Refused(str(failure), rule=failure.rule or "network") from None

    def judge(host: str, port: int) -> list[Endpoint]:
        try:
            return [Endpoint(address.family, address.address) for address in guard.admit(host, port)]
        except Failure as failure:
            raise Unreachable(str(failure), failure.rule or "network") from None

    return Proxy(judge, tally)
