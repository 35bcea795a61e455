"""What live effects need to know of the run, and what follows from it for one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.capabilities.contract import Call, basic_environment
from planrunner.engine.attempts import Attempt, log_path, markers
from planrunner.engine.clocks import Clock
from planrunner.engine.lognames import log_name
from planrunner.engine.permits import refused_right
from planrunner.engine.poller import Poller
from planrunner.engine.processes import GRACE, Launch, Supervisor, left_behind
from planrunner.engine.services import AttemptServices
from planrunner.engine.straying import strayed
from planrunner.engine.tails import Record, Secrecy
from planrunner.engine.telling import without_secrets
from planrunner.machine.events import Outcome
from planrunner.plan.rights import visible
from planrunner.redaction import Redactor
from planrunner.safety.sandbox.tally import Tally

if TYPE_CHECKING:
    from planrunner.engine.confining import Grounds
    from planrunner.engine.vault import Vault


class LiveSettings(NamedTuple):
    """What live effects need to know of the run.

    ``resolve`` gives the function of a capability (KeyError: there is none); ``on_output`` is told task, attempt,
    stream and bytes as they come. Processes get ``environment`` (None: that of this process) below their own, and
    ``grace`` seconds between TERM and KILL. ``clock`` is the time line of the run (None: one that starts now),
    ``epoch`` tells this runner from earlier ones, ``directory`` is where the run works, ``outside`` are patterns of
    other places that it may work in. ``own_process`` False is for programs that do other things as well, other runs
    among them: signals are left to them, orphans to init. ``vault`` has the secrets of the run, where its project lists
    credentials. A plan from outside the project is ``untrusted``: whatever it starts is shut in, and gets little of the
    environment. ``unconfined`` says that a person has taken the sandbox away.
    """

    state_dir: str
    run_id: str
    resolve: Callable[[str], Callable[..., Any]]
    on_output: Callable[[str, int, str, bytes], None] | None = None
    environment: Mapping[str, str] | None = None
    grace: float = GRACE
    own_process: bool = True
    clock: Clock | None = None
    epoch: int = 0
    directory: str = ""
    vault: Vault | None = None
    outside: tuple[str, ...] = ()
    untrusted: bool = False
    unconfined: bool = False
    users: Mapping[str, tuple[str, ...]] = {}
    """The services that tasks need, by the id of the task; empty where the plan has none."""

    @property
    def grounds(self) -> Grounds:
        """What the sandbox of an attempt is made from."""
        from planrunner.engine.confining import Grounds

        return Grounds(self.state_dir, self.directory, self.untrusted, self.outside)


def is_bound(call: Call, settings: LiveSettings) -> bool:
    """Whether a policy, or code that was made while the run went on, may say what the processes of a call are shut
    into."""
    return (call.rights != () or settings.untrusted or call.made != "") and not settings.unconfined


def apart(call: Call, settings: LiveSettings) -> Call:
    """The call with a folder for scratch files of its own where its processes are shut in, or may be: what Python runs
    is looked at when it is called."""
    if not is_bound(call, settings) and (settings.unconfined or not _may_be_made(call)):
        return call
    from planrunner.engine import confining

    return confining.apart(call)


def _may_be_made(call: Call) -> bool:
    if call.task.uses != "python.run":
        return False
    from planrunner.capabilities.python.scan import may_be_made

    return may_be_made(call)


def begin(attempt: Attempt, launch: Launch, settings: LiveSettings, supervisor: Supervisor, poller: Poller) -> None:
    """Start the process of an attempt, shut in where the policy says so. Raises SpawnFailed."""
    if attempt.call.rights:
        launch = launch._replace(inherited=seen(attempt.call, supervisor.programs.environment))
    if not is_bound(attempt.call, settings) and (settings.unconfined or not launch.spawn.made):
        attempt.process = supervisor.start(launch)
        return
    from planrunner.engine.confining import start

    attempt.process, attempt.shut = start(attempt.call, launch, settings.grounds, supervisor, poller)


def services(settings: LiveSettings, secrecy: Secrecy, call: Call) -> AttemptServices:
    """What the engine does for the capability of a call."""
    own = {**call.env, **markers(call, settings.epoch)}
    given = settings.environment
    if call.rights:
        given = seen(call, os.environ if given is None else given)
    found = AttemptServices(settings.state_dir, settings.directory, given, own, settings.vault)
    found.secrecy = secrecy
    if is_bound(call, settings):
        found.refused = Tally()
        from planrunner.engine.confining import Around, enclosed

        found.enclose = partial(enclosed, Around(call, settings.grounds, found.refused))
    return found


def new_record(settings: LiveSettings, secrecy: Secrecy, call: Call) -> Record:
    """Where an attempt's output goes."""
    watcher = partial(settings.on_output, call.task.id, call.attempt) if settings.on_output else None
    return Record(log_path(settings.state_dir, call), watcher, secrecy)


def remark_on_end(settings: LiveSettings, secrecy: Secrecy, attempt: tuple[str, str], names: list[str]) -> None:
    """Tell in the log of an attempt what of it the end of the run ended."""
    task, number = attempt
    words = left_behind(names, "run")
    if words and task and number.isascii() and number.isdigit() and len(number) < 9:
        path = f"{settings.state_dir}/logs/{settings.run_id}/{log_name(task, int(number))}"
        record = Record(path, None, secrecy)
        record.remark(words)
        record.close()


def cleaned(redactor: Redactor | None, found: Any) -> Any:
    """What is told to the loop, without the secrets of the run."""
    if redactor is None:
        return found
    return without_secrets(redactor, found)


def variables(settings: LiveSettings) -> Mapping[str, str]:
    """What processes get below their own variables: little where the plan is from outside the project."""
    whole = os.environ if settings.environment is None else settings.environment
    return basic_environment(whole) if settings.untrusted else whole


def seen(call: Call, environment: Mapping[str, str]) -> Mapping[str, str]:
    """What of the variables of the operator the policy lets a call see."""
    return visible(call.rights, environment)


def refused(settings: LiveSettings, call: Call) -> Outcome | None:
    """The outcome of a call that may not be made: its rights refuse it, or it would leave the directory of the run."""
    found: Outcome | None = None
    if call.rights:
        found = refused_right(call, settings.directory)
    if found is None and (call.task.cwd or call.task.outputs):
        found = strayed(call, settings.directory, settings.outside)
    return found
